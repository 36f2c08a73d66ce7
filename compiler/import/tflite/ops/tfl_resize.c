// SPDX-License-Identifier: Apache-2.0
// RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR: images to another height and width. Places and weights are
// computed here, in the arithmetic of TensorFlow Lite, so that a run only picks and blends.
#include "compiler/import/tflite/tfl_import.h"

#include <math.h>

enum { MAX_SIZE = 1 << 16 };

typedef struct Resize {
    bool aligns, is_half;
    int64_t in[2], out[2];
} Resize;

static bool read_resize(TflNode *n, NodeId x, uint32_t field, Resize *r)
{
    uint32_t count = 0;
    int64_t size[TFL_MAX_LIST];
    r->aligns = tfl_option(n, field, FLAT_U8, 0) != 0;
    r->is_half = tfl_option(n, field + 1, FLAT_U8, 0) != 0;
    tfl_same_scale(n, 0);
    if (tfl_src_ints(n, 1, size, &count) && (count != 2 || tfl_rank(n, x) != 4))
        tfl_fail(n, E0204, "expected an image of rank 4 and two sizes");
    for (uint32_t i = 0; i < 2 && !n->failed; i++) {
        r->in[i] = tfl_size(n, x, i + 1);
        r->out[i] = size[i];
        if (r->in[i] < 1 || r->in[i] > MAX_SIZE || r->out[i] < 1 || r->out[i] > MAX_SIZE)
            tfl_fail(n, E0204, "sizes must be from 1 to %d", MAX_SIZE);
    }
    return !n->failed && tfl_spend(n, (uint64_t)(4 * (r->out[0] + r->out[1])));
}

static float ratio(const Resize *r, uint32_t i)
{
    return r->aligns && r->out[i] > 1 ? (float)(r->in[i] - 1) / (float)(r->out[i] - 1)
                                      : (float)r->in[i] / (float)r->out[i];
}

void tfl_import_resize_nearest(TflNode *n)
{
    Resize r;
    NodeId x = tfl_src(n, 0);
    if (!read_resize(n, x, 0, &r))
        return;
    for (uint32_t i = 0; i < 2; i++) {
        int64_t *at = ARENA_ARRAY(n->model->arena, int64_t, (uint64_t)r.out[i]);
        for (int64_t k = 0; k < r.out[i]; k++) {
            const float place = ((float)k + (r.is_half ? 0.5f : 0.0f)) * ratio(&r, i);
            const int64_t whole = (int64_t)(r.aligns ? roundf(place) : floorf(place));
            at[k] = whole < r.in[i] ? whole : r.in[i] - 1;
        }
        x = tfl_gather(n, x, tfl_ints(n, DTYPE_i64, at, (uint32_t)r.out[i]), i + 1);
    }
    tfl_out(n, 0, x);
}

// How weights are kept: as reals, in 1/1024 as the built-in kernel has them for 16 bits, or in 1/2048 as
// XNNPACK has them for bytes.
typedef enum Blend { BLEND_FLOAT = 0, BLEND_WORDS = 10, BLEND_BYTES = 11 } Blend;
static const DType blend_types[] = {
    [BLEND_FLOAT] = DTYPE_f32, [BLEND_WORDS] = DTYPE_i64, [BLEND_BYTES] = DTYPE_i32};

typedef struct Place {
    int64_t lower, upper;
    float part;
    int32_t weight;
} Place;

// Both neighbours of place k along an axis, and the weight of the second one.
static Place place_of(const Resize *r, uint32_t i, Blend blend, int64_t k)
{
    const int64_t in = r->in[i];
    Place p = {0};
    float at = r->is_half ? ((float)k + 0.5f) * ratio(r, i) - 0.5f : (float)k * ratio(r, i);
    if (blend == BLEND_BYTES) {
        at = r->is_half ? (float)k * ratio(r, i) + (0.5f * ratio(r, i) - 0.5f) : at;
        at = at < 0 ? 0 : at > (float)(in - 1) ? (float)(in - 1) : at;
    }
    p.lower = at > 0 ? (int64_t)floorf(at) : 0;
    p.upper = (int64_t)floorf(at) + 1 < in - 1 ? (int64_t)floorf(at) + 1 : in - 1;
    p.part = at - (float)p.lower;
    p.weight = (int32_t)lrintf(p.part * 2048);
    return p;
}

// The same in integers only.
static Place place_of_words(const Resize *r, uint32_t i, int64_t k)
{
    const int64_t one = INT64_C(1) << BLEND_WORDS, last = r->in[i] - 1, cut = r->aligns && r->out[i] > 1;
    const int64_t in = r->in[i] - cut, out = r->out[i] - cut;
    const int64_t scale = (one * in + out / 2) / out;
    const int64_t at = k * scale + (r->is_half ? scale / 2 - one / 2 : 0);
    const int64_t lower = at > 0 ? at / one : 0, upper = (at + one - 1) / one;
    Place p = {.lower = lower < last ? lower : last, .upper = upper < last ? upper : last};
    p.weight = (int32_t)(at - one * p.lower);
    return p;
}

static NodeId blend_axis(TflNode *n, const Resize *r, uint32_t i, Blend blend, NodeId x)
{
    const int64_t out = r->out[i];
    int64_t *lower = ARENA_ARRAY(n->model->arena, int64_t, (uint64_t)out);
    int64_t *upper = ARENA_ARRAY(n->model->arena, int64_t, (uint64_t)out);
    const Shape s = {.rank = 3 - i, .dim = {out, 1, 1}};
    Tensor w = tensor_new(n->model->arena, blend_types[blend], s.rank, s.dim);
    for (int64_t k = 0; k < out; k++) {
        const Place p = blend == BLEND_WORDS ? place_of_words(r, i, k) : place_of(r, i, blend, k);
        lower[k] = p.lower;
        upper[k] = p.upper;
        if (blend == BLEND_FLOAT)
            ((float *)w.data)[k] = p.part;
        else
            tensor_set_i64(&w, k, p.weight);
    }
    const NodeId a = tfl_gather(n, x, tfl_ints(n, DTYPE_i64, lower, (uint32_t)out), i + 1);
    const NodeId b = tfl_gather(n, x, tfl_ints(n, DTYPE_i64, upper, (uint32_t)out), i + 1);
    const NodeId weight = tfl_const(n, w.dtype, &s, w.data);
    const NodeId rest = tfl_op2(n, OP_sub, tfl_number(n, w.dtype, ldexp(1, (int)blend)), weight);
    return tfl_op2(n, OP_add, tfl_op2(n, OP_mul, a, rest), tfl_op2(n, OP_mul, b, weight));
}

// Blends to integers, from weights of both axes: bytes round halves up, and 16 bits away from zero.
static NodeId rounded(TflNode *n, NodeId y, Blend blend)
{
    const int bits = 2 * (int)blend;
    const DType type = blend_types[blend];
    const double half = ldexp(1, bits - 1);
    if (blend == BLEND_BYTES)
        return tfl_op_number(n, OP_shift_right, tfl_op_number(n, OP_add, y, half), bits);
    const NodeId is_above = tfl_op2(n, OP_gt, y, tfl_number(n, type, 0));
    const NodeId more = tfl_op3(n, OP_where, is_above, tfl_number(n, type, half), tfl_number(n, type, -half));
    return tfl_op_number(n, OP_div, tfl_op2(n, OP_add, y, more), ldexp(1, bits));
}

void tfl_import_resize_bilinear(TflNode *n)
{
    Resize r;
    const NodeId x = tfl_src(n, 0);
    tfl_ignore(n, 0); // sizes in the options of old files
    tfl_ignore(n, 1);
    if (!read_resize(n, x, 2, &r))
        return;
    const DType type = tfl_type(n, x);
    const bool is_float = dtype_info[type].cls == DCLASS_FLOAT;
    const Blend blend = is_float ? BLEND_FLOAT : dtype_info[type].bits == 8 ? BLEND_BYTES : BLEND_WORDS;
    if (!is_float && dtype_info[type].bits > 16)
        tfl_fail(n, E0206, "integers of more than 16 bits are not supported");
    NodeId y = tfl_cast(n, x, blend_types[blend]);
    y = blend_axis(n, &r, 1, blend, blend_axis(n, &r, 0, blend, y));
    tfl_out(n, 0, tfl_cast(n, is_float ? y : rounded(n, y, blend), type));
}
