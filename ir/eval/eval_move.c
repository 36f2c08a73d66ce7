// SPDX-License-Identifier: Apache-2.0
// Meanings of ops that move elements: most are one mapped copy (eval_copy_mapped) with a map per axis.
#include "ir/eval/eval_ops.h"
#include "ir/shape/shape.h"

#include <string.h>

// An unsigned number as a double that later rounds to a narrower float as the number itself would: what a
// double cannot keep of it only leaves a last bit, far below the narrower float's.
static double to_odd_double(uint64_t v)
{
    const uint64_t lost = v & 0xfff;
    return v >> 53 == 0 || lost == 0 ? (double)v : (double)((v - lost) | 0x1000);
}

static void cast_integer(const Tensor *x, Tensor *out, int64_t i)
{
    const bool is_unsigned = dtype_info[x->dtype].cls == DCLASS_UINT;
    const int64_t v = tensor_get_i64(x, i);
    if (dtype_info[out->dtype].cls == DCLASS_BOOL)
        tensor_set_i64(out, i, v != 0);
    else if (!is_unsigned || dtype_info[out->dtype].cls != DCLASS_FLOAT)
        tensor_set_i64(out, i, v);
    else
        tensor_set_f64(out, i, out->dtype == DTYPE_f64 ? tensor_get_f64(x, i) : to_odd_double((uint64_t)v));
}

bool eval_cast(EvalCtx *c)
{
    const Tensor *x = &c->in[0];
    Tensor *out = &c->out[0];
    rlx_assert(x->numel == out->numel);
    const bool is_float = dtype_info[x->dtype].cls == DCLASS_FLOAT;
    for (int64_t i = 0; i < x->numel; i++) {
        if (!is_float)
            cast_integer(x, out, i);
        else if (out->dtype == DTYPE_bool)
            tensor_set_i64(out, i, tensor_get_f64(x, i) != 0);
        else
            tensor_set_f64(out, i, tensor_get_f64(x, i));
    }
    return true;
}

bool eval_bitcast(EvalCtx *c)
{
    rlx_assert(c->in[0].numel == c->out[0].numel);
    rlx_assert(dtype_info[c->in[0].dtype].bytes == dtype_info[c->out[0].dtype].bytes);
    for (int64_t i = 0; i < c->in[0].numel; i++)
        tensor_set_bits(&c->out[0], i, tensor_get_bits(&c->in[0], i));
    return true;
}

bool eval_copy(EvalCtx *c)
{
    return eval_copy_all(c);
}

bool eval_result(EvalCtx *c)
{
    return eval_copy_all(c);
}

bool eval_reshape(EvalCtx *c)
{
    return eval_copy_all(c);
}

bool eval_squeeze(EvalCtx *c)
{
    return eval_copy_all(c);
}

bool eval_unsqueeze(EvalCtx *c)
{
    return eval_copy_all(c);
}

bool eval_flatten(EvalCtx *c)
{
    return eval_copy_all(c);
}

// A map that runs from `first` in steps of `step`, n entries, times the stride.
static int64_t *linear_map(EvalCtx *c, int64_t n, int64_t first, int64_t step, int64_t stride)
{
    int64_t *map = ARENA_ARRAY(c->scratch, int64_t, n);
    for (int64_t i = 0; i < n; i++)
        map[i] = (first + i * step) * stride;
    return map;
}

// The operand, with the elements along each axis of the result so far apart.
static bool copy_strided(EvalCtx *c, const int64_t *stride)
{
    const Tensor *out = &c->out[0];
    int64_t *map[SHAPE_MAX_RANK];
    for (uint32_t d = 0; d < out->rank; d++)
        map[d] = linear_map(c, out->dim[d], 0, 1, stride[d]);
    eval_copy_mapped(&c->out[0], &c->in[0], (const int64_t *const *)map);
    return true;
}

bool eval_transpose(EvalCtx *c)
{
    int64_t stride[SHAPE_MAX_RANK], turned[SHAPE_MAX_RANK];
    eval_strides(&c->in[0], stride);
    for (uint32_t d = 0; d < c->out[0].rank; d++)
        turned[d] = stride[node_get_at(c->node, A_transpose_perm, d, 0)];
    return copy_strided(c, turned);
}

bool eval_expand(EvalCtx *c)
{
    int64_t stride[SHAPE_MAX_RANK];
    eval_broadcast_strides(&c->in[0], c->out[0].rank, stride);
    return copy_strided(c, stride);
}

bool eval_slice(EvalCtx *c)
{
    const Tensor *x = &c->in[0], *out = &c->out[0];
    int64_t stride[SHAPE_MAX_RANK], first[SHAPE_MAX_RANK] = {0}, step[SHAPE_MAX_RANK];
    int64_t *map[SHAPE_MAX_RANK];
    eval_strides(x, stride);
    for (uint32_t d = 0; d < x->rank; d++)
        step[d] = 1;
    for (uint32_t i = 0; i < node_attr(c->node, A_slice_axes)->len; i++) {
        const int64_t axis = node_get_at(c->node, A_slice_axes, i, 0);
        Dim count;
        step[axis] = node_get_at(c->node, A_slice_steps, i, 1);
        const SliceAxis s = {.start = node_get_at(c->node, A_slice_starts, i, 0),
                             .end = node_get_at(c->node, A_slice_ends, i, 0),
                             .step = step[axis]};
        shape_slice_range(c->g->dims, x->dim[axis], s, &first[axis], &count);
        rlx_assert(count == out->dim[axis]);
    }
    if (out->numel == 0)
        return true;
    for (uint32_t d = 0; d < x->rank; d++)
        map[d] = linear_map(c, out->dim[d], first[d], out->dim[d] > 1 ? step[d] : 0, stride[d]);
    eval_copy_mapped(&c->out[0], x, (const int64_t *const *)map);
    return true;
}

// --- pad ---

typedef int64_t (*PadPlace)(int64_t at, int64_t n);

static int64_t place_constant(int64_t at, int64_t n)
{
    return at >= 0 && at < n ? at : -1;
}

static int64_t place_edge(int64_t at, int64_t n)
{
    return at < 0 ? 0 : at < n ? at : n - 1;
}

static int64_t place_wrap(int64_t at, int64_t n)
{
    return (at % n + n) % n;
}

static int64_t place_reflect(int64_t at, int64_t n)
{
    if (n == 1)
        return 0;
    const int64_t turn = place_wrap(at, 2 * (n - 1));
    return turn < n ? turn : 2 * (n - 1) - turn;
}

static PadPlace pad_place(const char *mode)
{
    return str_equal(mode, "edge")      ? place_edge
           : str_equal(mode, "wrap")    ? place_wrap
           : str_equal(mode, "reflect") ? place_reflect
                                        : place_constant;
}

static void fill(Tensor *t, const Tensor *value)
{
    const size_t size = dtype_info[t->dtype].bytes;
    for (int64_t i = 0; i < t->numel; i++)
        memcpy((char *)t->data + (size_t)i * size, value->data, size);
}

bool eval_pad(EvalCtx *c)
{
    const Tensor *x = &c->in[0], *out = &c->out[0];
    const PadPlace place = pad_place(node_get_str(c->node, A_pad_mode));
    int64_t stride[SHAPE_MAX_RANK];
    int64_t *map[SHAPE_MAX_RANK];
    if (eval_has(c, 1))
        fill(&c->out[0], &c->in[1]);
    if (x->numel == 0 || out->numel == 0)
        return out->numel == 0 || place == place_constant ||
               eval_fail(c, E0204, "there is no element to pad with");
    eval_strides(x, stride);
    for (uint32_t d = 0; d < x->rank; d++) {
        map[d] = linear_map(c, out->dim[d], -node_get_at(c->node, A_pad_pads, d, 0), 1, 1);
        for (int64_t i = 0; i < out->dim[d]; i++) {
            const int64_t from = place(map[d][i], x->dim[d]);
            map[d][i] = from < 0 ? -1 : from * stride[d];
        }
    }
    eval_copy_mapped(&c->out[0], x, (const int64_t *const *)map);
    return true;
}

// --- gather and update_slice ---

// Entry i of an integer operand, inside [low, high]. u64 values beyond i64 are large, not negative.
static int64_t clamped(const Tensor *t, int64_t i, int64_t low, int64_t high)
{
    const int64_t v = tensor_get_i64(t, i);
    if (dtype_info[t->dtype].cls == DCLASS_UINT && v < 0)
        return high;
    return v < low ? low : v > high ? high : v;
}

int64_t eval_row(const Tensor *index, int64_t i, int64_t n)
{
    rlx_assert(n > 0);
    const int64_t k = clamped(index, i, -n, n - 1);
    return k < 0 ? k + n : k;
}

// Seen as [outer, axis, inner] by a list of indices.
bool eval_gather(EvalCtx *c)
{
    const Tensor *x = &c->in[0], *index = &c->in[1];
    const uint32_t axis = (uint32_t)node_get_int(c->node, A_gather_axis);
    rlx_assert(axis < x->rank && x->dtype == c->out[0].dtype);
    const int64_t n = x->dim[axis], inner = eval_count(x, axis + 1, x->rank);
    Tensor out = c->out[0];
    if (out.numel == 0)
        return true;
    if (n == 0)
        return eval_fail(c, E0204, "the axis has no element to gather");
    out.rank = 3;
    out.dim[0] = eval_count(x, 0, axis);
    out.dim[1] = index->numel;
    out.dim[2] = inner;
    int64_t *list = linear_map(c, index->numel, 0, 1, 1);
    for (int64_t i = 0; i < index->numel; i++)
        list[i] = eval_row(index, i, n) * inner;
    const int64_t *const map[] = {linear_map(c, out.dim[0], 0, 1, n * inner), list,
                                  linear_map(c, inner, 0, 1, 1)};
    eval_copy_mapped(&out, x, map);
    return true;
}

// Elements of the patch that count along an axis.
static int64_t patch_size(const EvalCtx *c, uint32_t axis)
{
    const AttrVal *axes = node_attr(c->node, A_update_slice_axes);
    const int64_t all = c->in[1].dim[axis];
    for (uint64_t i = 0; i < axes->len; i++)
        if (axes->u.ints[i] == axis)
            return clamped(&c->in[3], (int64_t)i, 0, all);
    return all;
}

// The patch is read where the result is inside of it; the rest keeps operand 0.
bool eval_update_slice(EvalCtx *c)
{
    const Tensor *x = &c->in[0], *patch = &c->in[1], *start = &c->in[2];
    rlx_assert(patch->rank == x->rank && patch->dtype == x->dtype);
    int64_t stride[SHAPE_MAX_RANK];
    int64_t *map[SHAPE_MAX_RANK];
    eval_copy_all(c);
    if (patch->numel == 0)
        return true;
    eval_strides(patch, stride);
    for (uint32_t d = 0; d < x->rank; d++) {
        const int64_t size = patch_size(c, d), room = x->dim[d] - size;
        if (patch->dim[d] > x->dim[d])
            return eval_fail(c, E0204, "the patch is larger than operand 0 at axis %u", d);
        const int64_t first =
            start->rank == 1 || d == 0 ? clamped(start, start->rank == 1 ? d : 0, 0, room) : 0;
        map[d] = linear_map(c, x->dim[d], -first, 1, 1);
        for (int64_t i = 0; i < x->dim[d]; i++)
            map[d][i] = map[d][i] >= 0 && map[d][i] < size ? map[d][i] * stride[d] : -1;
    }
    eval_copy_mapped(&c->out[0], patch, (const int64_t *const *)map);
    return true;
}

// --- concat and split ---

// Copies between a whole [outer, n, inner] and its part [outer, part n, inner] that begins at entry `first`
// of n.
typedef enum PartDirection { PART_TO_WHOLE, WHOLE_TO_PART } PartDirection;

static void copy_part(const Tensor *whole, const Tensor *part, uint32_t axis, int64_t first,
                      PartDirection direction)
{
    const size_t size = dtype_info[whole->dtype].bytes;
    const size_t row = (size_t)eval_count(whole, axis, whole->rank) * size;
    const size_t piece = (size_t)eval_count(part, axis, part->rank) * size;
    const size_t begin = (size_t)(first * eval_count(whole, axis + 1, whole->rank)) * size;
    for (int64_t i = 0; part->numel > 0 && i < eval_count(whole, 0, axis); i++) {
        char *at = (char *)whole->data + (size_t)i * row + begin, *p = (char *)part->data + (size_t)i * piece;
        if (direction == PART_TO_WHOLE)
            memcpy(at, p, piece);
        else
            memcpy(p, at, piece);
    }
}

bool eval_concat(EvalCtx *c)
{
    const uint32_t axis = (uint32_t)node_get_int(c->node, A_concat_axis);
    rlx_assert(axis < c->out[0].rank);
    int64_t first = 0;
    for (uint32_t i = 0; i < c->node->n_src; i++) {
        copy_part(&c->out[0], &c->in[i], axis, first, PART_TO_WHOLE);
        first += c->in[i].dim[axis];
    }
    return true;
}

bool eval_split(EvalCtx *c)
{
    const uint32_t axis = (uint32_t)node_get_int(c->node, A_split_axis);
    rlx_assert(axis < c->in[0].rank);
    int64_t first = 0;
    for (uint32_t i = 0; i < c->node->n_results; i++) {
        copy_part(&c->in[0], &c->out[i], axis, first, WHOLE_TO_PART);
        first += c->out[i].dim[axis];
    }
    return true;
}
