// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: the types of rlx.h: what a generated model is described by. Pasted in front of it.
#ifndef RLX_TYPES_H
#define RLX_TYPES_H

// What the code of a model can be for. These headers have all of it; rlxc compile leaves out of NAME_rlx.h
// what the model does not have (codegen/host/host_runtime.c).
#define RLX_HAS_ERRORS  1 // calls that fail say what they are about
#define RLX_HAS_QUEUE   1 // runs are committed, timed, or have handles that the program made
#define RLX_HAS_DEVICE  1 // a device, or what takes its place
#define RLX_HAS_STATE   1 // a state block
#define RLX_HAS_PARAMS  1 // parameters
#define RLX_HAS_SYMBOLS 1 // sizes that are set between runs
#define RLX_HAS_CHECKS  1 // conditions
#define RLX_HAS_SIZES   1 // sizes that a run computes
#define RLX_HAS_HELD    1 // outputs that handles hold
#define RLX_HAS_SHAPES  1 // symbols, sizes or held outputs: shapes and bytes are not always the descriptor's
#define RLX_HAS_FILES   1 // files that belong to the code
#define RLX_HAS_EXTRAS  1 // any member of rlx_model and rlx_ctx that not every model uses
#define RLX_HAS_ROWS    1 // an input that comes row by row
#define RLX_HAS_BANKS   1 // arenas in several blocks (rlx_banks.h)

// All of these but the last, a bit each: what headers of models that come later find here.
#ifdef RLX_FEATURES
#error "include headers of models that are compiled with --link-runtime first, or compile all with --api full"
#endif
#define RLX_FEATURES 0x1fffu

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RLX_MAX_RANK  8
#define RLX_ALIGNMENT 64u // blocks start at a multiple of this
#if defined(__GNUC__)
#define RLX_ALIGNED __attribute__((aligned(64)))
#elif defined(_MSC_VER)
#define RLX_ALIGNED __declspec(align(64))
#else
#define RLX_ALIGNED
#endif

// rlx_status_text says in words what each of them means.
typedef enum rlx_status {
#if RLX_HAS_ERRORS
    RLX_OK = 0,
    RLX_ERR_NULL,      // a pointer that must not be NULL is
    RLX_ERR_ARENA,     // arena or state block too short
    RLX_ERR_ALIGNMENT, // a block does not start at a multiple of RLX_ALIGNMENT
    RLX_ERR_WEIGHTS,   // weights missing, of another size than the model's, or of another compile
    RLX_ERR_NAME,      // no input, output, param or state of that name
    RLX_ERR_SLOT,      // slot number out of range
    RLX_ERR_SIZE,      // number of bytes or elements differs from the tensor's
    RLX_ERR_DTYPE,     // element type differs from the tensor's
    RLX_ERR_PARAM,     // a parameter was never set (rlx_missing_param names it)
    RLX_ERR_VALUE,     // the inputs break a condition of the model (rlx_failed_check has the message)
    RLX_ERR_CPU,       // the system does not let this process use registers that the code was compiled for
    RLX_ERR_RANGE,     // a row, a symbol or a size that the model computes is outside of its range
    RLX_ERR_SYMBOL,    // no symbol of that name or number
    RLX_ERR_HANDLE,    // not a persistent handle, or one that was never bound
    RLX_ERR_NO_DEVICE, // no driver, or no device that can run the code
    RLX_ERR_DEVICE,    // the device failed, or has too little memory
    RLX_ERR_INPUT,     // an input was not given, or not again since the run that consumed it
    RLX_ERR_EARLY,     // what is asked for is of a run, and none has ended well yet
    RLX_ERR_OVERLAP,   // blocks overlap others that are in use
    RLX_ERR_ABSENT,    // the model was compiled without what the call is for (rlx_stubs.h)
    RLX_STATUS_COUNT
#else
    RLX_OK, RLX_ERR_NULL, RLX_ERR_ARENA, RLX_ERR_ALIGNMENT, RLX_ERR_WEIGHTS, RLX_ERR_NAME, RLX_ERR_SLOT,
    RLX_ERR_SIZE, RLX_ERR_DTYPE, RLX_ERR_PARAM, RLX_ERR_VALUE, RLX_ERR_CPU, RLX_ERR_RANGE, RLX_ERR_SYMBOL,
    RLX_ERR_HANDLE, RLX_ERR_NO_DEVICE, RLX_ERR_DEVICE, RLX_ERR_INPUT, RLX_ERR_EARLY, RLX_ERR_OVERLAP,
    RLX_ERR_ABSENT, RLX_STATUS_COUNT
#endif
} rlx_status;

// The last ten have one byte an element. Floats are their bits; of integers of 4 and 2 bits only the low bits
// are read, and what is written is extended by sign or zeros.
typedef enum rlx_dtype {
    RLX_F32, RLX_F16, RLX_BF16, RLX_F64, RLX_I64, RLX_I32, RLX_I16, RLX_I8, RLX_U64, RLX_U32, RLX_U16, RLX_U8,
    RLX_BOOL, RLX_F8E4M3FN, RLX_F8E4M3FNUZ, RLX_F8E5M2, RLX_F8E5M2FNUZ, RLX_F8E8M0, RLX_F4E2M1,
    RLX_I4, RLX_U4, RLX_I2, RLX_U2
} rlx_dtype;

typedef struct rlx_tensor {
    const char *name;
    rlx_dtype dtype;
    int rank;
    int64_t shape[RLX_MAX_RANK]; // dense, row-major
    size_t offset;               // in the arena; of params and states in the state block
    size_t bytes;
} rlx_tensor;

typedef struct rlx_kernel {
    const char *name;
    const char *nodes; // the source nodes that it computes
    uint64_t macs;     // multiply-adds of convolutions and matrix products
    uint64_t bytes;    // read and written, each byte once
    uint64_t flops;    // additions, multiplications and other steps of arithmetic, estimated
    uint32_t level;    // kernels of one level do not depend on each other (in a loop: within one iteration)
    uint32_t parts;    // threads that can share it
    const char *const *source; // lines of its C text, NULL at the end (--embed-source); or NULL
} rlx_kernel;

// A condition that must hold for the results of a run to mean anything: one byte in the arena or the state.
typedef struct rlx_check {
    const char *message;
    int in_state;
    size_t offset;
    rlx_status status; // of a run in which it does not hold: RLX_ERR_VALUE, or RLX_ERR_RANGE for a size
} rlx_check;

// A set of outputs that a run may be limited to (--output-set).
typedef struct rlx_output_set {
    const char *name;
    const unsigned char *has; // by output: 1 = in the set
} rlx_output_set;

// What a call that failed was about, for rlx_error_text. Memory of the caller: rlx_set_error.
typedef enum rlx_subject {
    RLX_ABOUT_CALL, // none of these
    RLX_ABOUT_INPUT,
    RLX_ABOUT_OUTPUT,
    RLX_ABOUT_PARAM,
    RLX_ABOUT_STATE,
    RLX_ABOUT_HANDLE,
    RLX_ABOUT_SYMBOL,
    RLX_ABOUT_SET,
    RLX_ABOUT_ARENA,
    RLX_ABOUT_BLOCK, // of states
    RLX_ABOUT_WEIGHTS,
    RLX_ABOUT_EXPERTS,
    RLX_ABOUT_POOL,
    RLX_ABOUT_MASK,
    RLX_ABOUT_LAYER, // of experts
    RLX_ABOUT_EXPERT,
    RLX_ABOUT_EXPERT_SLOT,
    RLX_SUBJECTS
} rlx_subject;

// The same of a run that was committed, for rlx_sync.
typedef struct rlx_told {
    rlx_status status;
    rlx_subject about;
    char name[48];
    int64_t expected, found;
    const char *message;
} rlx_told;

typedef struct rlx_error {
    rlx_status status; // of the last call that failed; RLX_OK: none did
    rlx_subject about;
    char name[48];           // of the input, output ...; empty: a number that is out of range says which
    int64_t expected, found; // bytes, elements, element types, slots: what the status is about
    const char *message;     // of the condition of the model that did not hold; NULL: it is not about one
    char text[256];          // rlx_error_text
    rlx_told kept;           // of the first run that failed since rlx_sync
} rlx_error;

struct rlx_ctx;
#if RLX_HAS_DEVICE
struct rlx_model;
#endif

// A size that is set between runs (rlx_symbols.h).
typedef struct rlx_symbol {
    const char *name;
    int64_t min, max, multiple;
    int64_t first; // the value that a new context has
} rlx_symbol;

typedef struct rlx_symbols {
    uint32_t n;
    const rlx_symbol *list;
    size_t offset; // in the state block: their values, one int64_t each
    // Overwrites the sizes of an input or output that depend on symbols.
    void (*shape)(const struct rlx_ctx *ctx, int is_output, uint32_t slot, int64_t *shape);
} rlx_symbols;

// Variants of a model for sizes up to those of a bucket (--bucket, rlx_buckets.h), smallest first. They have
// the same inputs, outputs, states, params and weights, and a context has one of them as its `model`.
typedef struct rlx_bucket_symbol {
    uint32_t slot; // of rlx_symbols
    uint32_t n;
    const int64_t *sizes; // ascending
} rlx_bucket_symbol;

typedef enum rlx_awaited { RLX_WAIT_INPUTS, RLX_WAIT_OUTPUTS } rlx_awaited; // they may be written, read

// What comes after the start of a run: its end; RLX_WAIT_INPUTS, and the next start before its fetch; that,
// and its fetch at once.
typedef enum rlx_turn { RLX_ALONE, RLX_IN_TURN, RLX_QUEUED } rlx_turn;

typedef enum rlx_device_kind {
    RLX_DEVICE_CPU,
    RLX_DEVICE_GPU,        // with memory of its own
    RLX_DEVICE_INTEGRATED, // a GPU that shares the processor's memory
    RLX_DEVICE_VIRTUAL,    // a part of a GPU
    RLX_DEVICE_OTHER
} rlx_device_kind;

// What rlx_devices says of one.
typedef struct rlx_device_info {
    char name[128]; // as its driver calls it; longer ones are cut
    rlx_device_kind kind;
    int can_run;     // 1: the model has code that suits it
    uint64_t memory; // bytes that it has; 0: unknown
} rlx_device_info;

#if RLX_HAS_DEVICE
// For rlx_init_on: the first device that can run the model, as rlx_init.
#define RLX_ANY_DEVICE 0xffffffffu
#endif

// Pieces of `bytes` bytes, which lie side by side from byte `from` of the arena block on and go to places in
// the state block: rows of them, `row` bytes apart from byte `to` on, in layers of rows that are `layer`
// bytes apart, a multiple of `row`.
typedef struct rlx_pieces {
    size_t to, from, bytes;
    size_t n_rows, n_layers; // 1 at least
    size_t row, layer;
} rlx_pieces;

// A model that does not run on the host's CPU (--target cuda ...). Its arena block holds what goes in and
// out, its state block a copy of the device's, which is current where the host wrote last.
typedef struct rlx_device {
    size_t record;  // in the state block: what belongs to the device begins here, after all else
    uint64_t state; // in the memory of the device: where its own begins
    // Fills the record, of the device of that number. Where it fails, it has changed nothing.
    rlx_status (*open)(const struct rlx_model *model, unsigned char *arena, unsigned char *record,
                       const void *weights, uint32_t ordinal);
    void (*close)(const struct rlx_ctx *ctx);
    // Bytes to byte `to` of the device's memory; and those of the state block that are there.
    rlx_status (*bring)(const struct rlx_ctx *ctx, uint64_t to, const void *data, size_t bytes);
    rlx_status (*get)(const struct rlx_ctx *ctx, size_t offset, size_t bytes);
    // Bytes of the arena block as they are there after a run: of outputs that it has left there.
    rlx_status (*fetch_part)(const struct rlx_ctx *ctx, size_t offset, size_t bytes);
    // A run in pieces, which may end before what they began has: start takes what is in the input slots and
    // begins to compute, fetch lets its outputs follow. NULL: runs end before `dispatch` returns.
    rlx_status (*start)(struct rlx_ctx *ctx, rlx_turn turn);
    rlx_status (*fetch)(struct rlx_ctx *ctx);
    rlx_status (*wait)(struct rlx_ctx *ctx, rlx_awaited what, int *is_done); // is_done != NULL: only says
    // Pieces of the arena block as they are on the device, after a run, into its state. The host's copy of
    // the state stays as it was.
    rlx_status (*move)(const struct rlx_ctx *ctx, const rlx_pieces *p);
    const void *program; // what it runs (rlx_gpu.h)
    int queues; // a run may be started (RLX_QUEUED) while others are under way
    // Describes the first n devices; *count: how many there are.
    void (*list)(const struct rlx_model *model, rlx_device_info *list, uint32_t n, uint32_t *count);
} rlx_device;

typedef struct rlx_buckets {
    uint32_t n;
    const struct rlx_model *const *models; // the last is the largest in every size
    const struct rlx_model *first;         // that a new context has
    uint32_t n_symbols;
    const rlx_bucket_symbol *symbols;
    const int64_t *sizes;       // by bucket: the largest value of each of these symbols
    const unsigned char *cells; // by the least of `sizes` of every symbol that is enough, those of the last
                                // symbol side by side: the smallest bucket that fits; 255: none does
} rlx_buckets;

// A file of the user in which weights are read where they are (--weights inplace): the program maps it and
// hands it to rlx_init.
typedef struct rlx_weight_part {
    uint64_t offset, bytes, hash;
} rlx_weight_part;

typedef struct rlx_weight_file {
    uint64_t header, hash; // bytes at its beginning, which must be those that the model was compiled with
    uint32_t n_parts;
    const rlx_weight_part *parts; // what is read, for rlx_check_weights
} rlx_weight_file;

// A file of a compile ends with a seal: the checksum (rlx_hash) of all bytes before it, little-endian. Code
// knows the seal, so that a file of another compile is noticed without reading it.
#define RLX_SEAL_BYTES 8u

// A file that the assembler or the linker has put into the program: `bytes` bytes and, after them, the seal.
typedef struct rlx_taken {
    const void *data;
    size_t bytes;
    uint64_t hash;
} rlx_taken;

// An input that the program gives row by row (rlx_feed_rows).
typedef struct rlx_rows {
    uint32_t input; // its slot
    uint32_t n;     // rows
    size_t bytes;   // of a row
    // The next n rows. The caller has checked that there are so many.
    rlx_status (*take)(struct rlx_ctx *ctx, const unsigned char *rows, uint32_t n);
} rlx_rows;

typedef struct rlx_model {
    const char *name, *compiler; // "rlxc 0.1.0"
    size_t arena_bytes, state_bytes, weight_bytes;
    const void *weights;    // NULL: the caller gives them to rlx_init
    const void *state_init; // initial bytes of the state block, or NULL: zeros
#if RLX_HAS_EXTRAS
    // In the state block, after what has initial bytes: one byte a param, 0 never set, 1 set, 2 set and
    // noticed by a run, which prepares what depends on it.
#endif
    size_t flags_offset;
    uint32_t n_inputs, n_outputs, n_params, n_states, n_kernels;
    const rlx_tensor *inputs, *outputs, *params, *states;
    const unsigned char *param_has_init; // one byte a param
    const rlx_kernel *kernels;
    rlx_status (*dispatch)(struct rlx_ctx *ctx);
#if RLX_HAS_EXTRAS
    uint32_t n_checks;
    const struct rlx_check *checks;
    const size_t *output_sizes; // by output: bytes from ctx->arena to its int64_t sizes after a run,
                                // (size_t)-1 where they are those of `outputs`; NULL: all are
    uint32_t threads;           // that a run can be shared by: --threads; 1: it has no use for more
    uint32_t n_sets;
    const struct rlx_output_set *sets;
    const struct rlx_symbols *symbols; // NULL: no size is set between runs
    uint32_t n_kept;
    const rlx_tensor *kept; // values inside the model that stay until the next run (--keep), in the arena
    size_t scratch_offset, scratch_bytes; // of the arena, see rlx_scratch
    int has_profile;
    const struct rlx_buckets *buckets; // NULL: this is the only variant
    uint32_t bucket;                   // else its number
    const struct rlx_moe *moe;         // NULL: no layers of experts (rlx_moe.h)
    const struct rlx_device *device;   // NULL: the host's CPU
    // Takes its place where there is no device that can run it, or NULL; weights that the caller brings have
    // its own from byte fallback_weights on.
    const struct rlx_model *fallback;
    size_t fallback_weights;
    const struct rlx_weight_file *file; // NULL: weights are one block, packed
    uint64_t weights_hash;              // of the weights as one block, without their seal
    // Of weight_bytes, at their end: RLX_SEAL_BYTES where the caller maps the file; more where NAME_load has
    // packed them: the seal, their checksum, and what it needs meanwhile.
    size_t weights_seal;
    uint32_t n_taken;
    const struct rlx_taken *taken;
    const struct rlx_tables *tables; // of its buffers and launches (rlx_tables.h); NULL: without --tables
    uint32_t n_held; // outputs that handles hold (--handle IN=OUT): slots n_outputs, n_outputs + 1 ...
    const rlx_tensor *held; // in the state block
    const struct rlx_rows *rows; // NULL: all inputs are there before a run
#else
    // What this model does not have, and no call in this header asks for.
    uint32_t n_checks; const void *checks, *output_sizes; uint32_t threads, n_sets; const void *sets;
    const void *symbols; uint32_t n_kept; const void *kept; size_t scratch_offset, scratch_bytes;
    int has_profile; const void *buckets; uint32_t bucket; const void *moe, *device, *fallback;
    size_t fallback_weights; const void *file; uint64_t weights_hash; size_t weights_seal; uint32_t n_taken;
    const void *taken, *tables; uint32_t n_held; const void *held, *rows;
#endif
} rlx_model;

typedef struct rlx_run_time {
    // By the caller's clock: when the run began, when the host had given the device all of it, and when it
    // was seen to have ended. Without a device `given` is the end, too.
    uint64_t begin, given, end;
    double kernel_ns; // its kernels, by the device's clock, while rlx_set_device_times is on; else 0
    rlx_status status;
} rlx_run_time;

// What rlx_set_run_times takes.
typedef struct rlx_run_times {
    uint64_t (*clock)(void *user);
    void *user;
    rlx_run_time *list; // by the number of the run
    uint64_t n;
    uint64_t begun, ended; // runs, since it was set
} rlx_run_times;

// A handle that the program makes (rlx_make_handle). Its fields are the runtime's.
#define RLX_NO_SLOT 0xffffffffu
typedef struct rlx_handle {
    const char *name;
    unsigned char *data; // memory of the caller
    size_t room;         // bytes of it: of the largest shape
    rlx_dtype dtype;
    int rank;
    int64_t shape[RLX_MAX_RANK]; // of its value, which is dense in it
    int has_value;
    int is_output; // 1: it was made as output `like` is; 0: as an input
    uint32_t like;
    uint32_t input, output; // that it gives runs, and takes from them; or RLX_NO_SLOT
    struct rlx_handle *next;
} rlx_handle;

// What a run does with them: before it begins, and when it has ended well.
typedef struct rlx_links {
    rlx_status (*give)(struct rlx_ctx *ctx);
    rlx_status (*take)(struct rlx_ctx *ctx);
} rlx_links;

typedef struct rlx_ctx {
    const rlx_model *model;
    unsigned char *arena, *state;
    const unsigned char *weights;
#if RLX_HAS_EXTRAS
    struct rlx_pool *pool;       // threads that share its runs (rlx_threads_start); NULL: none
    uint32_t outputs;            // what runs compute: 0 all outputs, else 1 + a set of them
    rlx_status pending;          // the first error of the runs that were committed since the last rlx_sync
    struct rlx_profile *profile; // where its times go (rlx_set_profile); NULL: nowhere
    double *device_ns;           // and those of the device's own clock (rlx_set_device_times); NULL: nowhere
    // What shares its runs (rlx_set_parallel_for); NULL: nothing does, or a pool.
    void (*parallel_for)(void *user, void (*task)(void *arg, size_t part), void *arg, size_t parts);
    void *parallel_user;
    size_t parallel_parts;
    uint32_t pinned;     // bit i: symbol i of the buckets stays where it is (rlx_set_active_extent)
    uint32_t is_allowed; // 1: the system has said that the process may use all registers (else RLX_ERR_CPU)
    uint64_t committed;  // runs since the last rlx_sync
    uint64_t failed_run; // the one that `pending` is of, from 1 on; 0: none
    uint32_t has_run;    // 1: the last run ended well
    uint32_t inputs;     // what is known of them: RLX_INPUTS_...
    struct rlx_error *error;     // what calls that fail say (rlx_set_error); NULL: nothing
    struct rlx_run_times *times; // where its runs note when they were (rlx_set_run_times); NULL: nowhere
    uint32_t ordinal;            // of its device (rlx_init_on), or RLX_ANY_DEVICE
    struct rlx_handle *handles;  // that the program has made, the last one first; so many:
    uint32_t n_handles;
    const struct rlx_links *links; // what copies them; NULL while there are none
    uint32_t is_under_way;         // 1: a run was committed whose outputs no handle has taken yet
    uint32_t n_fed;             // rows that were given for the next run (rlx_feed_rows), or RLX_FEEDING
    const unsigned char *whole; // the input that comes row by row, if the next run gets all of it; or NULL
    uint32_t left; // bit i: runs on a device leave output i there until the host asks (rlx_fetch_output)
#else
    void *pool; uint32_t outputs; rlx_status pending; void *profile, *device_ns; void (*parallel_for)(void);
    void *parallel_user; size_t parallel_parts; uint32_t pinned, is_allowed; uint64_t committed, failed_run;
    uint32_t has_run, inputs; // 1: the last run ended well; RLX_INPUTS_...
    void *error, *times; uint32_t ordinal; void *handles; uint32_t n_handles; const void *links;
    uint32_t is_under_way, n_fed; const unsigned char *whole; uint32_t left;
#endif
#if RLX_HAS_BANKS
    unsigned char *bank[8]; // by bank, its block; NULL: after those before it in one block
#endif
} rlx_ctx;

#if RLX_HAS_ROWS
#define RLX_FEEDING 0xffffffffu // rows are being computed
#endif

// Bits of rlx_ctx.inputs.
#define RLX_INPUTS_CONSUMED 1u // by a run, and not written since
#define RLX_INPUTS_HELD     2u // the program has pointers to them (rlx_input): it may write unseen
#if RLX_HAS_QUEUE
#define RLX_INPUTS_STRICT   4u // rlx_input is called before each run (rlx_expect_inputs)
#endif

#ifdef __cplusplus
}
#endif

#endif
