// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: copies of outputs, and of parts of them.
#ifndef RLX_READ_H
#define RLX_READ_H

#include "rlx_held.h"

#ifdef __cplusplus
extern "C" {
#endif

// Has a run ended well, so that output `slot` means something? Else RLX_ERR_EARLY. Those that were committed
// are waited for.
static inline rlx_status rlx_check_run(const rlx_ctx *ctx, uint32_t slot)
{
#if RLX_HAS_QUEUE
    const rlx_tensor *const t = rlx_output_tensor(ctx->model, slot);
    rlx_settle(ctx);
    return ctx->has_run != 0
               ? RLX_OK
               : rlx_fail(ctx, RLX_ERR_EARLY, RLX_ABOUT_OUTPUT, t != NULL ? t->name : NULL, 0, 0);
#else
    (void)slot;
    return ctx->has_run != 0 ? RLX_OK : RLX_ERR_EARLY;
#endif
}

static inline rlx_status rlx_check_output(const rlx_ctx *ctx, uint32_t slot, const void *data)
{
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    if (rlx_output_tensor(ctx->model, slot) == NULL)
        return rlx_fail(ctx, RLX_ERR_SLOT, RLX_ABOUT_OUTPUT, NULL,
                        (int64_t)rlx_count_outputs(ctx->model), (int64_t)slot);
    if (data == NULL)
        return rlx_fail(ctx, RLX_ERR_NULL, RLX_ABOUT_OUTPUT, rlx_output_tensor(ctx->model, slot)->name, 0, 0);
    return RLX_OK;
}

// Copies part `part` of an output that is cut into parts of `bytes` bytes.
static inline rlx_status rlx_read_part(const rlx_ctx *ctx, uint32_t slot, size_t part, void *data,
                                       size_t bytes)
{
    const rlx_status status = rlx_check_run(ctx, slot);
    return status == RLX_OK ? rlx_copy_output(ctx, slot, part * bytes, data, bytes) : status;
}

// Copies an output as it is, in the shape that rlx_output_shape says. (RLX_ERR_EARLY, also of the calls
// below: no run has ended well yet.) Outputs that handles hold (--handle IN=OUT) are read by these calls as
// the others, and are what the handle holds now: what the last run left there, or rlx_bind_handle, rlx_reset
// ... since. Of sizes that the model computes they have the largest.
static inline rlx_status rlx_read_output(const rlx_ctx *ctx, uint32_t slot, void *data, size_t bytes)
{
    const rlx_status status = rlx_check_output(ctx, slot, data);
    if (status != RLX_OK)
        return status;
    if (bytes != rlx_output_bytes(ctx, slot))
        return rlx_fail_size(ctx, RLX_ABOUT_OUTPUT, rlx_output_tensor(ctx->model, slot)->name,
                             rlx_output_bytes(ctx, slot), bytes);
    return rlx_read_part(ctx, slot, 0, data, bytes);
}

// Copies what lies at the first n indices of an output: of [1, T, V], {0, T - 1} are the V elements of the
// last token, {0} all of it, no index the whole output. By the shape that rlx_output_shape says.
// RLX_ERR_RANGE: more indices than axes, or one that is outside of its axis; RLX_ERR_SIZE: other bytes than
// the part has.
static inline rlx_status rlx_read_output_at(const rlx_ctx *ctx, uint32_t slot, const int64_t *index,
                                            uint32_t n, void *data, size_t bytes)
{
    int64_t shape[RLX_MAX_RANK];
    const rlx_tensor *t;
    size_t part = 0, want;
    uint32_t i;
    rlx_status status = rlx_check_output(ctx, slot, data);
    if (status == RLX_OK && index == NULL && n != 0)
        status = rlx_fail(ctx, RLX_ERR_NULL, RLX_ABOUT_OUTPUT, rlx_output_tensor(ctx->model, slot)->name, 0,
                          0);
    if (status == RLX_OK)
        status = rlx_output_shape(ctx, slot, shape);
    if (status != RLX_OK)
        return status;
    t = rlx_output_tensor(ctx->model, slot);
    if (n > (uint32_t)t->rank)
        return rlx_fail(ctx, RLX_ERR_RANGE, RLX_ABOUT_OUTPUT, t->name, (int64_t)t->rank, (int64_t)n);
    for (i = 0; i < n; i++) {
        if (index[i] < 0 || index[i] >= shape[i])
            return rlx_fail(ctx, RLX_ERR_RANGE, RLX_ABOUT_OUTPUT, t->name, shape[i] - 1, index[i]);
        part = part * (size_t)shape[i] + (size_t)index[i];
    }
    want = rlx_dtype_bytes(t->dtype);
    for (i = n; i < (uint32_t)t->rank; i++)
        want *= (size_t)shape[i];
    if (bytes != want)
        return rlx_fail_size(ctx, RLX_ABOUT_OUTPUT, t->name, want, bytes);
    return rlx_read_part(ctx, slot, part, data, bytes);
}

// Copies row `row` of an output, where a row is what the last axes have in `bytes` bytes, and rows are
// counted through all axes before these: of [1, T, V] f32, 4 * V bytes of row T - 1 are the last token, as
// 4 * T * V bytes of row 0 are all. RLX_ERR_SIZE: no number of last axes has so many bytes. RLX_ERR_RANGE:
// there is no such row, or the output has no axis.
static inline rlx_status rlx_read_output_row(const rlx_ctx *ctx, uint32_t slot, int64_t row, void *data,
                                             size_t bytes)
{
    int64_t shape[RLX_MAX_RANK], rows = 1;
    const rlx_tensor *t;
    size_t one;
    int axis, i;
    rlx_status status = rlx_check_output(ctx, slot, data);
    if (status == RLX_OK)
        status = rlx_output_shape(ctx, slot, shape);
    if (status != RLX_OK)
        return status;
    t = rlx_output_tensor(ctx->model, slot);
    if (t->rank == 0)
        return rlx_fail(ctx, RLX_ERR_RANGE, RLX_ABOUT_OUTPUT, t->name, 0, row);
    one = rlx_dtype_bytes(t->dtype);
    for (axis = t->rank; axis > 1 && one != bytes; axis--)
        one *= (size_t)shape[axis - 1];
    if (one != bytes)
        return rlx_fail_size(ctx, RLX_ABOUT_OUTPUT, t->name, one, bytes);
    for (i = 0; i < axis; i++)
        rows *= shape[i];
    if (row < 0 || row >= rows)
        return rlx_fail(ctx, RLX_ERR_RANGE, RLX_ABOUT_OUTPUT, t->name, rows - 1, row);
    return rlx_read_part(ctx, slot, (size_t)row, data, bytes);
}

#ifdef __cplusplus
}
#endif

#endif
