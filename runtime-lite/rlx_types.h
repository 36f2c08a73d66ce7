// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: the types of rlx.h: what a generated model is described by. Pasted in front of it.
#ifndef RLX_TYPES_H
#define RLX_TYPES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

// Blocks must start at a multiple of this.
#define RLX_ALIGNMENT 64u
#define RLX_MAX_RANK  8

#if defined(__GNUC__)
#define RLX_ALIGNED __attribute__((aligned(64)))
#elif defined(_MSC_VER)
#define RLX_ALIGNED __declspec(align(64))
#else
#define RLX_ALIGNED
#endif

typedef enum rlx_status {
    RLX_OK = 0,
    RLX_ERR_NULL,      // a pointer that must not be NULL is
    RLX_ERR_ARENA,     // arena or state block too short
    RLX_ERR_ALIGNMENT, // a block does not start at a multiple of RLX_ALIGNMENT
    RLX_ERR_WEIGHTS,   // weights missing, or of another size than the model's
    RLX_ERR_NAME,      // no input, output, param or state of that name
    RLX_ERR_SLOT,      // slot number out of range
    RLX_ERR_SIZE,      // number of bytes or elements differs from the tensor's
    RLX_ERR_DTYPE,     // element type differs from the tensor's
    RLX_ERR_PARAM,     // a parameter was never set (rlx_missing_param names it)
    RLX_ERR_VALUE,     // the inputs break a condition of the model (rlx_failed_check has the message)
    RLX_ERR_CPU,       // the system does not let this process use registers that the code was compiled for
    RLX_ERR_RANGE,     // a number is outside of what is allowed: a row, the value of a symbol
    RLX_ERR_SYMBOL,    // no symbol of that name or number
    RLX_ERR_HANDLE,    // not a persistent handle, or one that was never bound
    RLX_ERR_NO_DEVICE, // no driver, or no device that can run the code
    RLX_ERR_DEVICE,    // the device failed, or has too little memory
    RLX_STATUS_COUNT
} rlx_status;

typedef enum rlx_dtype {
    RLX_F32,
    RLX_F16,
    RLX_BF16,
    RLX_F64,
    RLX_I64,
    RLX_I32,
    RLX_I16,
    RLX_I8,
    RLX_U64,
    RLX_U32,
    RLX_U16,
    RLX_U8,
    RLX_BOOL,
    // One byte an element: floats as their bits. Of integers of 4 and 2 bits only the low bits are read; what
    // is written is extended by sign or zeros.
    RLX_F8E4M3FN,
    RLX_F8E4M3FNUZ,
    RLX_F8E5M2,
    RLX_F8E5M2FNUZ,
    RLX_F8E8M0,
    RLX_F4E2M1,
    RLX_I4,
    RLX_U4,
    RLX_I2,
    RLX_U2
} rlx_dtype;

typedef struct rlx_tensor {
    const char *name;
    rlx_dtype dtype;
    int rank;
    int64_t shape[RLX_MAX_RANK]; // dense, row-major
    size_t offset; // bytes, in its block: inputs and outputs in the arena, params and states in the state
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
} rlx_check;

// A set of outputs that a run may be limited to (--output-set).
typedef struct rlx_output_set {
    const char *name;
    const unsigned char *has; // by output: 1 = in the set
} rlx_output_set;

struct rlx_ctx;
struct rlx_pool;
struct rlx_profile;
struct rlx_moe;

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

struct rlx_model;

typedef enum rlx_awaited { RLX_WAIT_INPUTS, RLX_WAIT_OUTPUTS } rlx_awaited; // they may be written, read

// A model that does not run on the host's CPU (--target cuda ...). Its arena block holds what goes in and
// out, its state block a copy of the device's, which is current where the host wrote last.
typedef struct rlx_device {
    size_t record;  // in the state block: what belongs to the device begins here, behind all else
    uint64_t state; // in the memory of the device: where its own begins
    // Fills the record. Where it fails, it has changed nothing.
    rlx_status (*open)(const struct rlx_model *model, unsigned char *arena, unsigned char *record,
                       const void *weights);
    void (*close)(const struct rlx_ctx *ctx);
    // Bytes to byte `to` of the device's memory; and those of the state block that are there.
    rlx_status (*bring)(const struct rlx_ctx *ctx, uint64_t to, const void *data, size_t bytes);
    rlx_status (*get)(const struct rlx_ctx *ctx, size_t offset, size_t bytes);
    // A run in pieces, which may end before what they began has: start takes what is in the input slots and
    // begins to compute, fetch lets its outputs follow. NULL: runs end before `dispatch` returns.
    rlx_status (*start)(struct rlx_ctx *ctx, int in_turn); // in_turn: RLX_WAIT_INPUTS will be asked for
    rlx_status (*fetch)(struct rlx_ctx *ctx);
    rlx_status (*wait)(struct rlx_ctx *ctx, rlx_awaited what, int *is_done); // is_done != NULL: only says
    // Bytes of the arena block as they are on the device, after a run, into its state; or NULL. The host's
    // copy of the state stays as it was.
    rlx_status (*move)(const struct rlx_ctx *ctx, size_t to, size_t from, size_t bytes);
    const void *program; // what it runs (rlx_gpu.h)
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
    uint64_t header, hash; // bytes at its begin, which must be those that the model was compiled with
    uint32_t n_parts;
    const rlx_weight_part *parts; // what is read, for rlx_check_weights
} rlx_weight_file;

typedef struct rlx_model {
    const char *name;
    const char *compiler; // "rlxc 0.1.0"
    size_t arena_bytes, state_bytes, weight_bytes;
    const void *weights;    // NULL: the caller gives them to rlx_init
    const void *state_init; // initial bytes of the state block, or NULL: zeros
    size_t flags_offset; // in the state block: one byte a param, 0 never set, 1 set, 2 set and noticed by a
                         // run, which prepares what depends on it; behind what has initial bytes
    uint32_t n_inputs, n_outputs, n_params, n_states, n_kernels;
    const rlx_tensor *inputs, *outputs, *params, *states;
    const unsigned char *param_has_init; // one byte a param
    const rlx_kernel *kernels;
    rlx_status (*dispatch)(struct rlx_ctx *ctx);
    uint32_t n_checks;
    const rlx_check *checks;
    const size_t *output_sizes; // by output: bytes from ctx->arena to its int64_t sizes after a run,
                                // (size_t)-1 where they are those of `outputs`; NULL: all are
    uint32_t threads;           // that a run can be shared by: --threads; 1: it has no use for more
    uint32_t n_sets;
    const rlx_output_set *sets;
    const rlx_symbols *symbols; // NULL: no size is set between runs
    uint32_t n_kept;
    const rlx_tensor *kept; // values inside the model that stay until the next run (--keep), in the arena
    size_t scratch_offset, scratch_bytes; // of the arena, see rlx_scratch
    int has_profile;
    const rlx_buckets *buckets; // NULL: this is the only variant
    uint32_t bucket;            // else its number
    const struct rlx_moe *moe;  // NULL: no layers of experts (rlx_moe.h)
    const rlx_device *device;   // NULL: the host's CPU
    // Takes its place where there is no device that can run it, or NULL; weights that the caller brings have
    // its own from byte fallback_weights on.
    const struct rlx_model *fallback;
    size_t fallback_weights;
    const rlx_weight_file *file; // NULL: weights are one block, packed
} rlx_model;

typedef struct rlx_ctx {
    const rlx_model *model;
    unsigned char *arena;
    unsigned char *state;
    const unsigned char *weights;
    struct rlx_pool *pool;       // threads that share its runs (rlx_threads_start); NULL: none
    uint32_t outputs;            // what runs compute: 0 all outputs, else 1 + a set of them
    rlx_status pending;          // of the run that rlx_commit has started
    struct rlx_profile *profile; // where its times go (rlx_set_profile); NULL: nowhere
    double *device_ns;           // and those of the device's own clock (rlx_set_device_times); NULL: nowhere
    // What shares its runs (rlx_set_parallel_for); NULL: nothing does, or a pool.
    void (*parallel_for)(void *user, void (*task)(void *arg, size_t part), void *arg, size_t parts);
    void *parallel_user;
    size_t parallel_parts;
    uint32_t pinned;     // bit i: symbol i of the buckets stays where it is (rlx_set_active_extent)
    uint32_t is_allowed; // 1: the system has said that the process may use all registers (else RLX_ERR_CPU)
} rlx_ctx;

typedef struct rlx_slot {
    size_t offset; // bytes from ctx->arena
    size_t bytes;
} rlx_slot;

#ifdef __cplusplus
}
#endif

#endif
