// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: what a model's plan is, at run time: its buffers, how kernels are launched, and how many of
// each there are. Pasted after rlx.h where a model is compiled with --tables; without that there is neither
// this text nor a table, and rlx_model.tables is NULL.
#ifndef RLX_TABLES_H
#define RLX_TABLES_H

#include "rlx_calls.h"

#ifdef __cplusplus
extern "C" {
#endif

// Where a buffer is. On a device these are parts of its memory, and the host has copies of some.
typedef enum rlx_region {
    RLX_REGION_ARENA,   // of one run
    RLX_REGION_STATE,   // states, parameters and what is prepared of them
    RLX_REGION_WEIGHTS, // constants
    RLX_REGION_EXPERTS, // constants that --moe-resident brings
    RLX_REGION_FILE,    // constants in a file of the user (--weights inplace)
    RLX_REGION_ROWS,    // what the program gives rlx_feed_rows (--stream-input)
    RLX_REGION_MAPS     // of a device: what its copy engine is told
} rlx_region;

// One axis in a run: floor((symbol * times + plus) / by) elements, not less than 0 or more than the largest.
typedef struct rlx_live {
    uint32_t symbol; // 1 + its slot; 0: the size is the largest, or the model computes it
    int64_t times, plus, by;
} rlx_live;

#define RLX_NO_COPY ((size_t)-1) // rlx_buffer.host

typedef struct rlx_buffer {
    uint32_t id;       // ascending, with gaps; as in `rlxc inspect --json`
    uint32_t shares;   // 0, or the id of an earlier buffer in whose bytes it is, in place
    const char *name;  // of the value, or of what was packed
    const char *nodes; // whose values are in it: "a, b, c"; "": none (scratch memory, packed weights)
    rlx_region region;
    size_t offset, bytes; // in its region
    size_t host;          // in the host's block: offset from ctx->arena, state or weights; or RLX_NO_COPY
    // Kernels (of rlx_model.kernels) from which to which it holds data; all where it is not in the arena.
    uint32_t first, last;
    int is_kept;            // 1: it has its value after a run as well
    uint32_t input, output; // 1 + the slot of the input or output that it is, or 0
    // Of the value: element (i0, i1 ...) is at the sum of i * stride, in elements. Without nodes: bytes.
    rlx_dtype dtype;
    int rank;
    int64_t shape[RLX_MAX_RANK], stride[RLX_MAX_RANK]; // shape: the largest
    const rlx_live *live;                              // by axis; NULL: all are as large as that
} rlx_buffer;

// How a kernel is launched: groups of so many threads. On the host's CPU: parts, each of one. 0 groups: a
// loop, whose kernels follow it in the list.
typedef struct rlx_grid {
    uint64_t groups;
    uint32_t threads;
} rlx_grid;

// What `rlxc inspect` counts. Kernels of the bodies of loops count once.
typedef struct rlx_counts {
    uint32_t launches, barriers;
    uint32_t barriers_placed, moved; // barriers before so many launches were brought forward
    uint32_t groups, largest_group;  // of launches with no barrier between them
    uint32_t fused;                  // nodes that are computed in kernels of others
    uint32_t split;                  // launches that are submitted first; 0: all at once
} rlx_counts;

typedef struct rlx_tables {
    rlx_counts counts;
    uint32_t n_buffers;
    const rlx_buffer *buffers; // by id
    const rlx_grid *grids;     // by kernel (of rlx_model.kernels)
} rlx_tables;

// The tables of the variant that runs take now (buckets have one each). NULL: compiled without --tables.
static inline const rlx_tables *rlx_tables_of(const rlx_ctx *ctx)
{
    return ctx == NULL || ctx->model == NULL ? NULL : (const rlx_tables *)ctx->model->tables;
}

// The buffer of that id, or NULL.
static inline const rlx_buffer *rlx_buffer_at(const rlx_ctx *ctx, uint32_t id)
{
    const rlx_tables *const t = rlx_tables_of(ctx);
    uint32_t i, low = 0, high = t == NULL ? 0 : t->n_buffers;
    for (i = 0; i < 32u && low < high; i++) { // halves a number of 32 bits
        const uint32_t middle = low + (high - low) / 2u;
        if (t->buffers[middle].id == id)
            return &t->buffers[middle];
        if (t->buffers[middle].id < id)
            low = middle + 1u;
        else
            high = middle;
    }
    return NULL;
}

// Is the name in a list "a, b, c"?
static inline int rlx_names_node(const char *list, const char *name)
{
    const size_t n = strlen(list), length = strlen(name);
    size_t i, at;
    for (at = 0; at < n; at++) {
        if (at != 0 && (list[at - 1u] != ' ' || at < 2 || list[at - 2u] != ','))
            continue;
        for (i = 0; i < length && list[at + i] == name[i]; i++)
            continue;
        if (i != 0 && i == length && (list[at + i] == '\0' || list[at + i] == ','))
            return 1;
    }
    return 0;
}

// The buffer that has the value of a node (or an input, state, parameter, constant); of several one that has
// it after a run as well. NULL: there is none of that name, or its value is never in memory.
static inline const rlx_buffer *rlx_find_buffer(const rlx_ctx *ctx, const char *node)
{
    const rlx_tables *const t = rlx_tables_of(ctx);
    const rlx_buffer *found = NULL;
    uint32_t i;
    for (i = 0; t != NULL && node != NULL && i < t->n_buffers; i++)
        if ((found == NULL || (!found->is_kept && t->buffers[i].is_kept)) &&
            rlx_names_node(t->buffers[i].nodes, node))
            found = &t->buffers[i];
    return found;
}

// One axis of a shape by what the symbols are now.
static inline int64_t rlx_live_size(const rlx_ctx *ctx, const rlx_live *live, int64_t largest)
{
    int64_t value, size;
    if (live->symbol == 0)
        return largest;
    memcpy(&value, ctx->state + ctx->model->symbols->offset + (live->symbol - 1u) * sizeof value,
           sizeof value);
    value = value * live->times + live->plus;
    size = value / live->by - (value % live->by < 0);
    return size < 0 ? 0 : size > largest ? largest : size;
}

// The shape that the value has by what the symbols are now, in RLX_MAX_RANK sizes (0 after the last); of an
// output after a run what that has given. Of other sizes that the model computes, the largest.
// RLX_ERR_SLOT: no buffer of that id.
static inline rlx_status rlx_buffer_shape(const rlx_ctx *ctx, uint32_t id, int64_t *shape)
{
    const rlx_buffer *b;
    int i;
    if (ctx == NULL || ctx->model == NULL || shape == NULL)
        return rlx_fail_null(ctx);
    b = rlx_buffer_at(ctx, id);
    if (b == NULL)
        return rlx_fail(ctx, RLX_ERR_SLOT, RLX_ABOUT_CALL, NULL, 0, (int64_t)id);
    if (b->input != 0)
        return rlx_input_shape(ctx, b->input - 1u, shape);
    if (b->output != 0 && ctx->has_run)
        return rlx_output_shape(ctx, b->output - 1u, shape);
    for (i = 0; i < RLX_MAX_RANK; i++)
        shape[i] = b->live == NULL || i >= b->rank ? b->shape[i]
                                                   : rlx_live_size(ctx, &b->live[i], b->shape[i]);
    return RLX_OK;
}

// Its bytes: of what lasts, and of inputs before a run and of outputs and kept values after one. Of a state
// on a device a copy, as it is now. NULL: there is no such buffer, others have taken its bytes by the end of
// a run (--keep NAME keeps them), or only the device has it.
static inline const void *rlx_buffer_data(const rlx_ctx *ctx, uint32_t id)
{
    const rlx_buffer *const b = rlx_buffer_at(ctx, id);
    if (b == NULL || b->host == RLX_NO_COPY)
        return NULL;
    if (b->region == RLX_REGION_ARENA)
        return b->is_kept || b->input != 0 ? ctx->arena + b->host : NULL;
    if (b->region == RLX_REGION_STATE)
        return rlx_get_state(ctx, b->host, b->bytes) == RLX_OK ? ctx->state + b->host : NULL;
    return ctx->weights != NULL ? ctx->weights + b->host : NULL;
}

#ifdef __cplusplus
}
#endif

#endif
