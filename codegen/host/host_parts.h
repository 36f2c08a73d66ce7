// SPDX-License-Identifier: Apache-2.0
// What host.c (kernels, weights) and host_api.c (header, descriptor, entry points) share.
#ifndef CODEGEN_HOST_HOST_PARTS_H
#define CODEGEN_HOST_HOST_PARTS_H

#include "base/map.h"
#include "codegen/host/host.h"

enum { HOST_SEAL_BYTES = 8 }; // RLX_SEAL_BYTES

// A file that the assembler or the linker puts into the program, with its seal.
typedef struct TakenFile {
    const char *symbol; // C
    uint64_t bytes;     // before the seal
    EmittedSum *sum;
} TakenFile;
typedef VEC(TakenFile) HostTaken;

typedef struct HostEmit {
    Arena *arena;
    Diag *diag;
    const Target *target;
    Plan *plan;   // of GPU targets: as the host sees it, see host_gpu.c
    Plan *device; // what runs on the device, or NULL
    struct HostGpu *gpu;
    const HostOptions *options;
    Emitted *out;
    const char *upper;        // the model's name in capitals
    const char **input_names; // C identifiers, unique among inputs and outputs
    const char **output_names;
    const char **symbol_names; // unique among themselves
    uint32_t variant;          // number of the plan (host_variant)
    const char *suffix;        // of the names of what belongs to one plan: "" for the largest
    const char *side;          // of the names of all that several plans share: "" or HOST_FALLBACK
    struct HostEmit *fallback; // what runs where the device is missing; or NULL
    struct HostEmit *first;    // of the fallback: what it takes the place of
    Map *sources;              // functions whose text is embedded already
    const char *rest;          // with a PlanFile: the C expression for the weights that are not in it
    WeightsMode weights;       // never auto or inplace
    HostTaken *taken;          // files that the program has in it
    Str *blobs; // what takes them in; before all else, as compilers do not see it change sections
    EmittedSum *weights_sum;   // of the weights, or of those that are not in the PlanFile
    EmittedSum *experts_sum;   // of their file, which both sides share
    bool *has_section; // the macro that puts arrays into sections is there
    const char *uses[2];       // NAME.c and what is particular to the model in NAME.h: they use runtime-lite
} HostEmit;

#define HOST_FALLBACK "_on_c"
#define HOST_RUNTIME  "_rlx" // NAME_rlx.h has runtime-lite

// Larger blocks of constants are files of their own unless all is to be in the C file: as text they would
// cost the compiler seconds and gigabytes.
enum { HOST_TEXT_MAX_BYTES = 65536 };

// Writes the bytes, and their seal, to NAME.kind and the lines that make the assembler take that in; or to
// NAME.kind.o and what declares them, all of it at the head of NAME.c. Returns the C expression for them.
const char *host_emit_blob(HostEmit *e, const char *kind, EmittedFile content);
// The table of the files that are in the program, with their seals: C expression.
const char *host_emit_taken(const HostEmit *e, Str *out);
// NAME_init. Compilers must not reach for large files by what they know of the descriptor.
void host_emit_init(const HostEmit *e, Str *out);
// host_stream.c: a block of n bytes with its seal behind it, as a file has it; and what is before the seal.
uint64_t host_sealed_bytes(uint64_t n);
uint64_t host_padded_bytes(uint64_t n);
// The checksum of a file, and one that is known.
uint64_t host_sum_of(const EmittedFile *f);
EmittedSum *host_sum_known(Arena *a, uint64_t hash);
// A C literal for it, in the text of NAME.c. Where it is not known yet host_stream fills it in.
void host_print_sum(const HostEmit *e, EmittedSum *sum, Str *out);
// Adds a file whose checksum the text of C names.
void host_add_file(HostEmit *e, EmittedFile f, EmittedSum *sum);
void host_name_tensors(HostEmit *e);
// Outputs that are read from states (GraphState.output): how many, and the state of one.
uint32_t host_n_held(const HostEmit *e);
uint32_t host_held_state(const HostEmit *e, uint32_t i);
// Was the model compiled with --threads? And has it a pool of its own?
bool host_is_parallel(const HostEmit *e);
bool host_has_pool(const HostEmit *e);
// The parts of runtime-lite that the model needs. Its header includes a file that has them or, with
// --link-runtime, each; with --one-file it has them.
void host_emit_runtime(const HostEmit *e, Str *out);
void host_emit_runtime_file(const HostEmit *e, Str *out); // as a file of its own, NAME_rlx.h
void host_emit_includes(const HostEmit *e, Str *out);
bool host_has_runtime_file(const HostEmit *e);
// These parts and what they include, in the order that they need.
void host_paste_runtime(Arena *a, const Map *files, Str *out);
// Do calls that fail say what they are about? And do inputs have to be checked before they are copied?
bool host_tells_errors(const HostEmit *e);
bool host_checks_copied(const HostEmit *e);
void host_emit_header(const HostEmit *e, Str *out);
void host_emit_own_header(const HostEmit *e, Str *out); // without runtime-lite
// What a program knows of the file that it reads weights in (Plan.file): the C expression for it, or NULL.
const char *host_emit_file(const HostEmit *e, Str *out);
void host_emit_file_header(const HostEmit *e, Str *out);
// weights: C expression of the built-in weights.
void host_emit_descriptor(HostEmit *e, const char *weights, Str *out);
// The condition that a context is not one of the model, as C.
const char *host_foreign_model(const HostEmit *e);
void host_emit_entry(HostEmit *e, Str *out);
// Threads that have something to do.
unsigned host_used_threads(const HostEmit *e);
// Fills PlanDispatch.row.
void host_number_kernels(const HostEmit *e);
void host_emit_kernel_table(const HostEmit *e, Str *out);
struct HostFunctions; // host_split.h
// host_functions.c: the functions of all plans, with their texts. Fills PlanKernel.function. False: reported.
bool host_name_functions(HostEmit *e, struct HostFunctions *out);
// The text of a kernel: of one that is cut, of all phases.
void host_print_functions(const HostEmit *e, const PlanKernel *pk, Str *out);
// A C identifier for a node, a buffer ..., that is no word of C, no macro and nothing in its library.
const char *host_value_name(Arena *a, const char *name);
// host_tables.c: the tables of one plan (C expression, NULL without --tables), and before them one that all
// share.
const char *host_emit_tables(const HostEmit *e, bool has_kernels, Str *out);
void host_emit_grids(const HostEmit *e, Str *out);
void host_emit_dispatch(const HostEmit *e, Str *out);
// host_symbols.c; all but the first and the table write nothing where there are no symbols.
// The shape of an input or output in symbols; NULL: it has none. Held outputs are behind the others.
const Shape *host_open_shape(const HostEmit *e, bool is_output, uint32_t slot);
void host_emit_symbol_header(const HostEmit *e, Str *out);
void host_emit_symbol_prototypes(const HostEmit *e, Str *out);
const char *host_emit_symbols(const HostEmit *e, Str *out); // C expression of the table
void host_emit_symbol_entry(const HostEmit *e, Str *out);
// host_banks.c: has the model several banks of RAM? Then code reaches them, and several of constants, by
// pointers of their own; NULL: by those of the whole region.
bool host_has_banks(const HostEmit *e);
const PlanBank *host_bank_apart(const Plan *p, const PlanBuffer *b);
const char *host_bank_pointer(Arena *a, const PlanBank *b);
void host_emit_bank_pointer(const HostEmit *e, const PlanBank *b, Str *out);
uint64_t host_place(const Plan *p, const PlanBuffer *b); // bytes from there
uint64_t host_first_bytes(const Plan *p);                // of the arena, where inputs and outputs are
// In front of an array: the section of the bank.
void host_emit_section(const HostEmit *e, const PlanBank *b, Str *out);
const PlanBank *host_state_bank(const Plan *p); // where the state block lies; NULL: there are no banks
void host_emit_bank_blocks(const HostEmit *e, Str *out);
void host_emit_init_banks(const HostEmit *e, Str *out);
void host_emit_bank_header(const HostEmit *e, Str *out);
void host_emit_bank_prototype(const HostEmit *e, Str *out);
// The constants, in the sections of their banks: the C expression for the first of them.
const char *host_emit_bank_weights(HostEmit *e, const EmittedFile *weights, Str *out);
const char *host_linker_lines(const HostEmit *e); // NAME.ld
// host_buckets.c: a model is made of one plan, or of several for different sizes, smallest first.
uint32_t host_n_plans(const Plan *p);
Plan *host_plan(const Plan *p, uint32_t i);
// What is particular to plan i.
HostEmit host_variant(const HostEmit *e, uint32_t i);
void host_name_variants(HostEmit *e);
uint32_t host_count_kernels(const HostEmit *e); // of all plans
// The same, or 0 where the descriptor has no table of them: their names are for people, and take more flash
// than small models have code.
uint32_t host_listed_kernels(const HostEmit *e);
void host_emit_bucket_header(const HostEmit *e, Str *out);
// The table of the descriptors, which all of them point to; after them.
void host_emit_buckets(const HostEmit *e, Str *out);
// Writes the bytes as a constant array of words; whole words only.
void host_emit_words(const char *name, const EmittedFile *content, Str *out);

// What the emitters of GPU targets share (host_gpu.c, host_gpu_program.c).
typedef struct HostGpu {
    const struct GpuHost *host; // names of the target's runtime
    Map functions;              // names: their numbers
    VEC(const char *) names;
    uint32_t max_args, depth; // of all steps; of loops
    uint32_t max_steps;       // of a plan
    uint64_t memory_bytes;    // of the device, for one context
    uint64_t record_bytes;    // of what the host's state block has of the device, behind all else
    uint64_t experts;         // where slots of experts begin
    uint64_t cells;           // behind them: where the cells of loops begin
    uint64_t maps[PLAN_MAX_BUCKETS]; // behind them: where the tensor maps of each plan do
    uint64_t cell_bytes;
    bool has_loops; // that a kernel of the runtime goes around
    const char *images; // C: their number and list
} HostGpu;

// What a GPU target calls its parts.
typedef struct GpuHost {
    const char *runtime;   // prefix of the functions of its file of runtime-lite
    const char *extension; // of the file with the kernels' text
    bool queues;           // rlx_device.queues, of models without layers of experts
    const char *kernels;   // of the runtime's own, or NULL
    const char *const *loops; // lines: kernels that go around loops, or NULL
} GpuHost;

// host_gpu.c: makes e->device and e->plan, which says where inputs and outputs are in the host's blocks.
void host_gpu_begin(HostEmit *e, Plan *device);
uint64_t host_gpu_state_offset(const Plan *device); // in the memory of the device, where the arena is at 0
uint64_t host_gpu_weights_offset(const Plan *device);
// The kernels' text, and what is compiled of it, as files and C. False: reported.
bool host_gpu_emit_code(HostEmit *e, const Str *kernels, Str *out);
// host_gpu_program.c, of one plan: what a run launches, the function that does it, and the rlx_device.
void host_gpu_emit_program(const HostEmit *e, Str *out);
void host_gpu_emit_runs(const HostEmit *e, Str *out); // before them, for all plans
void host_gpu_emit_header(const HostEmit *e, Str *out);
// host_moe.c: does the model have layers of experts? What all plans have of their tables, and the C
// expression for those of one.
bool host_has_moe(const HostEmit *e);
void host_emit_moe_header(const HostEmit *e, Str *out);
void host_emit_moe_parts(const HostEmit *e, Str *out);
const char *host_emit_moe(const HostEmit *e, Str *out);
// All experts: in the weights, or in the file that the program maps.
uint64_t host_moe_bytes(const HostEmit *e);
// On a GPU, with slots: memory of the device for them, and for as many experts beside as one layer can choose
// in a run; 1 + the layer whose experts the host brings before a kernel, or 0.
uint64_t host_moe_device_bytes(const Plan *device);
uint32_t host_moe_layer_of(const Plan *p, const PlanKernel *k);
const char *host_upper(Arena *a, const char *name);
// Text that is safe inside a // comment.
const char *host_comment_text(Arena *a, const char *text);
// A C string literal that has exactly these bytes, in C99 and C++, trigraphs or not.
const char *host_string_literal(Arena *a, const char *text);
// Text that only people read: cut where C99 would not take more in a literal.
const char *host_note_literal(Arena *a, const char *text);
// First byte of a region in its block: states, params and what is prepared of params share the state block.
uint64_t host_region_base(const Plan *p, Region r);
// The flags of the params in the state block, one byte each: 0 never set, 1 set since the last run, 2 set and
// prepared for runs. Plans for several sizes: 2 set before some run, and behind the flags a mark for every
// preparation (Plan.prepare.mark), which says whether it was made since. With a GPU the host has the flags
// and the marks, and the device what was prepared.
uint64_t host_flags_offset(const Plan *p);
// Bytes of the state block that have initial ones: all but what is prepared.
uint64_t host_initial_bytes(const Plan *p);
// The arena and state blocks of the program: room for the larger of both sides.
unsigned long long host_arena_bytes(const HostEmit *e);
unsigned long long host_whole_state_bytes(const HostEmit *e);
// Where the weights of the fallback begin behind those of the device, and where both end.
uint64_t host_block_bytes(const HostEmit *e); // of one side
uint64_t host_fallback_weights(const HostEmit *e);
uint64_t host_weight_bytes(const HostEmit *e);

#endif
