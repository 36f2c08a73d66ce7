// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: outputs that handles hold (--handle IN=OUT). A run leaves them in the state block alone, so
// that a cache is never copied; they are read as the other outputs are, by slots after theirs. Pasted after
// rlx.h.
#ifndef RLX_HELD_H
#define RLX_HELD_H

#include "rlx_run.h"
#include "rlx_shapes.h"

#ifdef __cplusplus
extern "C" {
#endif

// Slot of an output by its name, also of one that a handle holds; -1: there is none. guess: as rlx_find_at.
static inline int rlx_find_output(const rlx_model *m, const char *name, uint32_t guess)
{
    const int slot = rlx_find_at(m->outputs, m->n_outputs, name, guess);
#if RLX_HAS_HELD
    const int held = slot < 0 ? rlx_find(m->held, m->n_held, name) : -1;
    return held < 0 ? slot : (int)m->n_outputs + held;
#else
    return slot;
#endif
}

// Of a tensor whose room is larger than a shape: what lies together. The axes before `axis` are apart.
typedef struct rlx_strip {
    int axis;
    size_t bytes; // of one strip
} rlx_strip;

static inline rlx_strip rlx_strip_of(const rlx_tensor *t, const int64_t *shape)
{
    rlx_strip s;
    int is_whole = 1;
    s.axis = t->rank;
    s.bytes = rlx_dtype_bytes(t->dtype);
    while (s.axis > 0 && is_whole) {
        s.axis--;
        s.bytes *= (size_t)shape[s.axis];
        is_whole = shape[s.axis] == t->shape[s.axis];
    }
    return s;
}

// Where strip `strip` begins, in bytes.
static inline size_t rlx_strip_at(const rlx_tensor *t, const int64_t *shape, const rlx_strip *s, size_t strip)
{
    size_t at = 0, step = rlx_dtype_bytes(t->dtype);
    int i;
    for (i = t->rank - 1; i >= 0; i--) {
        if (i < s->axis) {
            at += strip % (size_t)shape[i] * step;
            strip /= (size_t)shape[i];
        }
        step *= (size_t)t->shape[i];
    }
    return at;
}

// Copies bytes first .. first + bytes - 1 of what the handle holds, dense in the shape of now.
static inline rlx_status rlx_read_held(const rlx_ctx *ctx, uint32_t slot, size_t first, void *data,
                                       size_t bytes)
{
    const rlx_tensor *const t = rlx_output_tensor(ctx->model, slot);
    int64_t shape[RLX_MAX_RANK];
    rlx_strip s;
    size_t begin, end, at, i, n;
    rlx_status status;
    if (bytes == 0)
        return RLX_OK;
    rlx_shape_now(ctx, 1, slot, shape);
    s = rlx_strip_of(t, shape);
    n = (first + bytes - 1u) / s.bytes - first / s.bytes + 1u;
    begin = rlx_strip_at(t, shape, &s, first / s.bytes) + first % s.bytes;
    end = rlx_strip_at(t, shape, &s, (first + bytes - 1u) / s.bytes) + (first + bytes - 1u) % s.bytes + 1u;
    status = rlx_get_state(ctx, t->offset + begin, end - begin);
    at = first;
    for (i = 0; i < n && status == RLX_OK; i++) {
        const size_t rest = first + bytes - at, part = s.bytes - at % s.bytes;
        const unsigned char *const from = ctx->state + t->offset + rlx_strip_at(t, shape, &s, at / s.bytes);
        memcpy((unsigned char *)data + (at - first), from + at % s.bytes, part < rest ? part : rest);
        at += part;
    }
    return status;
}

// Copies bytes of an output after a run, dense in its shape.
static inline rlx_status rlx_copy_output(const rlx_ctx *ctx, uint32_t slot, size_t first, void *data,
                                         size_t bytes)
{
#if RLX_HAS_HELD
    if (slot >= ctx->model->n_outputs)
        return rlx_read_held(ctx, slot, first, data, bytes);
#endif
    if (bytes != 0)
        memcpy(data, ctx->arena + ctx->model->outputs[slot].offset + first, bytes);
    return RLX_OK;
}

#ifdef __cplusplus
}
#endif

#endif
