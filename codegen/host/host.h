// SPDX-License-Identifier: Apache-2.0
// The host side of generated code: NAME.h, NAME.c and NAME.weights from a finished plan.
#ifndef CODEGEN_HOST_HOST_H
#define CODEGEN_HOST_HOST_H

#include "codegen/target/target.h"
#include "ir/plan/plan.h"

typedef enum WeightsMode {
    WEIGHTS_AUTO,    // rodata when small, file when larger than programs can be, else incbin
    WEIGHTS_RODATA,  // in NAME.c, as words
    WEIGHTS_INCBIN,  // NAME.weights, taken in by the assembler
    WEIGHTS_FILE,    // NAME.weights, which the program maps and hands to NAME_init
    WEIGHTS_INPLACE, // the same with a file of the user (Plan.file); what is not in it as auto
    WEIGHTS_OBJECT,  // NAME.weights.o, which the linker takes
    WEIGHTS_LOAD,    // the program packs them from a GGUF file (NAME_load) and hands them to NAME_init
} WeightsMode;

// What `auto` means for so many bytes, for files that the assembler can or cannot take in.
WeightsMode host_auto_weights(uint64_t bytes);

typedef enum ArenaMode { ARENA_CALLER, ARENA_STATIC } ArenaMode;
// Calls in the header: all; those that are of use to a model that has what this one has; of these only what
// no program can do without.
typedef enum ApiMode { API_FULL, API_PLAN, API_CORE } ApiMode;
typedef enum PoolMode { POOL_POSIX, POOL_CALLER } PoolMode; // caller: no POSIX threads in the header
typedef enum RuntimeMode {
    RUNTIME_PASTED,
    RUNTIME_LINKED
} RuntimeMode; // linked: #include "rlx.h" instead of its text

// Compiled code of the kernels of a GPU target. What `kind` means is the driver's (runtime-lite/rlx_gpu.h).
typedef struct GpuImage {
    uint32_t kind;
    const char *label; // a C identifier: "sm_90a"
    const void *data;
    size_t len;
} GpuImage;
typedef VEC(GpuImage) GpuImages;

// Compiles the text of kernels, which has these functions, or leaves the list empty where only the text is
// wanted. False: reported.
typedef bool (*GpuCompile)(void *ctx, const char *text, const char *const *functions, uint32_t n,
                           GpuImages *out);

// Constants of more bytes lie where code does not reach them by 32 bits, where the format of the program has
// such a place; and programs have no more than the second.
#define HOST_NEAR_MAX_BYTES ((uint64_t)1 << 29)
#define HOST_PROGRAM_MAX_BYTES ((uint64_t)1 << 30)

typedef struct ObjectFormat ObjectFormat; // codegen/host/object.h

// What codegen has to know of NAME_load, whose text others write.
typedef struct HostLoad {
    uint64_t hash;  // the seal of what it has packed, which follows the weights
    uint64_t bytes; // that it needs behind the weights, the seal included
} HostLoad;

typedef struct HostOptions {
    uint32_t moe_slots;   // see Plan.experts.slots
    const char *name;     // a C identifier
    const char *compiler; // "rlxc 0.1.0"
    const char *cc_flags; // what the kernels were made for, "" = none
    const char *cpu;
    WeightsMode weights;
    const ObjectFormat *object; // with WEIGHTS_OBJECT
    const HostLoad *load;       // with WEIGHTS_LOAD
    ArenaMode arena;
    RuntimeMode runtime;
    ApiMode api;
    PoolMode pool;
    bool is_one_file;       // the text of GPU kernels is no file beside their code
    uint32_t parts;         // of NAME.c, which compilers can work at side by side; 1: it is whole
    bool has_handles;       // some inputs are persistent handles (--handle)
    bool has_profile;       // runs can take the times of kernels
    bool has_source;        // texts of kernels in the descriptor
    bool has_tables;        // and tables of its buffers and launches
    Plan *fallback;         // of GPU targets: for C, runs where there is no device; or NULL
    GpuCompile compile_gpu; // of GPU targets
    void *compile_gpu_ctx;
} HostOptions;

// The checksum of a block of a file (hash_bytes64, seed 0), known once its bytes were made, and where the
// text of C wants it.
typedef struct EmittedSum {
    const struct EmittedFile *file;
    bool is_known;
    uint64_t hash;
} EmittedSum;

typedef struct SumPlace {
    EmittedSum *sum;
    size_t at; // 18 characters, as 0x0123456789abcdef
} SumPlace;
typedef VEC(SumPlace) SumPlaces;

typedef struct FilePiece {
    const void *data;
    size_t len;
} FilePiece;

typedef struct EmittedFile {
    const char *name;
    const void *data; // NULL: the weights of the plan, made while they are written
    const Plan *plan;
    const Plan *fallback; // whose weights come behind; or NULL
    size_t len; // of the whole file
    uint32_t part;   // from 2 on: it includes NAME.c for a part of its kernels
    bool is_experts; // of data that is NULL: the experts of the plan instead
    // If data is NULL: blocks end with seals, whose values these are once they were written; those of
    // experts with one, of weights one for each plan. NULL: there are none.
    EmittedSum *sum, *fallback_sum;
    FilePiece before, behind; // and of a file of object code what is around them
    SumPlaces places;         // of text: host_stream fills them in
} EmittedFile;

typedef struct Emitted {
    VEC(EmittedFile) files;
    size_t code_bytes; // of the C text
    size_t weight_bytes;
    size_t arena_bytes;   // of the program's arena block: NAME_ARENA_BYTES
    size_t state_bytes;   // of the state block: NAME_STATE_BYTES
    size_t device_bytes;  // of memory on a device: NAME_DEVICE_BYTES; 0: there is none
    uint32_t n_functions; // kernels with text of their own
    WeightsMode weights;  // where they are; never auto or inplace
    SumPlaces places;
} Emitted;

// The macro that makes one file of a NAME.c that is in parts: "NAME_WHOLE".
const char *host_whole_define(Arena *a, const char *name);
// Same plan and options, same bytes. False: reported (a kernel needs what the target lacks).
bool host_emit(Arena *a, Diag *d, const Target *t, Plan *plan, const HostOptions *options, Emitted *out);
// The function of a loop; the functions of its body's kernels (PlanKernel.function) stand before it.
void host_print_loop(const PlanKernel *k, Str *out);
// The calls of kernels [begin, end), where the memory of the plan has the names a (arena), s, w, p0, p1 ...:
// where threads share the plan, each runs this as `team`. has_laps: after each the time goes to `profile`.
typedef struct HostCalls {
    uint32_t begin, end;
    uint32_t phase; // a kernel that is cut stands alone; which phase of it
    bool has_laps;
    bool is_segment; // whoever runs it has waited for what must be there
    const char *const *places; // by BufId: names of offsets that are in scope, or NULL; NULL: there are none
} HostCalls;
void host_print_calls(const Plan *plan, HostCalls c, const char *indent, Str *out);
// "a.b/c" -> "a_b_c": a C identifier from any name.
const char *host_identifier(Arena *a, const char *name);
// What the name of a model's function and files must not be, as "a word of C"; NULL: it is free.
const char *host_name_kept(const char *identifier);
// An identifier as above that is free.
const char *host_model_name(Arena *a, const char *name);
// Takes the next bytes of a file. False: no more are wanted.
typedef bool (*EmitSink)(void *ctx, const void *bytes, size_t n);
// Gives all bytes of a file to the sink, in pieces; weights are packed one buffer at a time, and once more
// for text that names their checksum where that is not known from an earlier call. False: the sink gave up.
bool host_stream(const EmittedFile *f, EmitSink sink, void *ctx);

// The texts of runtime-lite that headers include with --link-runtime. False: there is no i-th.
typedef struct HostText {
    const char *name, *text;
} HostText;
bool host_runtime_part(Arena *a, uint32_t i, HostText *out);
// rlx_stubs.h, for programs.
HostText host_stubs(Arena *a);

#endif
