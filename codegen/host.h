// SPDX-License-Identifier: Apache-2.0
// The host side of generated code: NAME.h, NAME.c and NAME.weights from a finished plan.
#ifndef CODEGEN_HOST_H
#define CODEGEN_HOST_H

#include "codegen/target.h"
#include "ir/plan.h"

typedef enum WeightsMode {
    WEIGHTS_AUTO,   // rodata when small, else incbin
    WEIGHTS_RODATA, // in NAME.c, as words
    WEIGHTS_INCBIN, // NAME.weights, taken in by the assembler
    WEIGHTS_FILE,   // NAME.weights, which the program maps and hands to NAME_init
    WEIGHTS_INPLACE, // the same with a file of the user (Plan.file); what is not in it as auto
} WeightsMode;

typedef enum ArenaMode { ARENA_CALLER, ARENA_STATIC } ArenaMode;
typedef enum ApiMode { API_FULL, API_CORE } ApiMode; // core: only rlx.h, and what the model cannot do without
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

typedef struct HostOptions {
    uint32_t moe_slots;   // see Plan.moe_slots
    const char *name;     // a C identifier
    const char *compiler; // "rlxc 0.1.0"
    const char *cc_flags; // what the kernels were made for, "" = none
    const char *cpu;
    WeightsMode weights;
    ArenaMode arena;
    RuntimeMode runtime;
    ApiMode api;
    PoolMode pool;
    bool has_profile;       // runs can take the times of kernels
    bool has_source;        // texts of kernels in the descriptor
    Plan *fallback;         // of GPU targets: for C, runs where there is no device; or NULL
    GpuCompile compile_gpu; // of GPU targets
    void *compile_gpu_ctx;
} HostOptions;

typedef struct EmittedFile {
    const char *name;
    const void *data; // NULL: the weights of the plan, made while they are written
    const Plan *plan;
    const Plan *fallback; // whose weights come behind; or NULL
    size_t len;
    bool is_experts; // of data that is NULL: the experts of the plan instead
} EmittedFile;

typedef struct Emitted {
    VEC(EmittedFile) files;
    size_t code_bytes; // of the C text
    size_t weight_bytes;
    size_t arena_bytes;   // of the program's arena block: NAME_ARENA_BYTES
    size_t state_bytes;   // of the state block: NAME_STATE_BYTES
    size_t device_bytes;  // of memory on a device: NAME_DEVICE_BYTES; 0: there is none
    uint32_t n_functions; // kernels with text of their own
} Emitted;

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
// Gives all bytes of a file to the sink, in pieces; weights are packed one buffer at a time. False: the sink
// gave up.
bool host_stream(const EmittedFile *f, EmitSink sink, void *ctx);

// The texts of runtime-lite that headers include with --link-runtime. False: there is no i-th.
typedef struct HostText {
    const char *name;
    const char *const *lines; // NULL at the end
} HostText;
bool host_runtime_part(uint32_t i, HostText *out);

#endif
