// SPDX-License-Identifier: Apache-2.0
// Operators that move elements: shapes, orders of axes, parts, repetitions. Quantised elements move as they
// are.
#include "compiler/import/tflite/tfl_import.h"

#include <string.h>

// --- shapes ---

static void check_rank(TflNode *n, uint32_t rank)
{
    if (rank > SHAPE_MAX_RANK)
        tfl_fail(n, E0204, "the result has %u axes; at most %d are possible", rank, SHAPE_MAX_RANK);
}

// Operand 0, which may be complex, and its shape as the file has it.
static NodeId source_of(TflNode *n, Shape *s)
{
    const bool is_complex = tfl_is_complex(n, 0);
    const NodeId x = is_complex ? tfl_src_complex(n, 0) : tfl_src(n, 0);
    *s = *tfl_shape(n, x);
    if (is_complex && !n->failed)
        s->rank--;
    return x;
}

// The elements of operand 0 as a result of that shape.
static void out_as(TflNode *n, NodeId x, const Dim *dims, uint32_t rank)
{
    Dim all[SHAPE_MAX_RANK + 1];
    rlx_assert(n->failed || (x != 0 && x < n->graph->nodes.len));
    const bool is_complex = tfl_is_complex(n, 0);
    check_rank(n, rank + is_complex);
    for (uint32_t i = 0; i < rank && !n->failed; i++)
        all[i] = dims[i];
    if (!is_complex || n->failed) {
        tfl_out(n, 0, tfl_reshape(n, x, all, rank));
        return;
    }
    all[rank] = 2;
    tfl_out_complex(n, 0, tfl_reshape(n, x, all, rank + 1));
}

void tfl_import_reshape(TflNode *n)
{
    Dim dims[TFL_MAX_LIST];
    uint32_t count = 0;
    Shape s;
    const NodeId x = source_of(n, &s);
    const bool has_option = tfl_option_ints(n, 0, dims, &count);
    if (tfl_has(n, 1))
        tfl_src_shape(n, 1, dims, &count);
    else if (!has_option) {
        count = tfl_of_out(n, 0)->shape.rank;
        memcpy(dims, tfl_of_out(n, 0)->shape.dim, count * sizeof *dims);
    }
    out_as(n, x, dims, count);
}

void tfl_import_squeeze(TflNode *n)
{
    int64_t axes[TFL_MAX_LIST];
    uint32_t count = 0;
    Shape s, out = {0};
    const NodeId x = source_of(n, &s);
    const bool has_axes = tfl_option_ints(n, 0, axes, &count);
    uint32_t gone = 0;
    for (uint32_t i = 0; i < count && !n->failed; i++)
        gone |= 1u << tfl_axis(n, axes[i], s.rank);
    for (uint32_t i = 0; i < s.rank && !n->failed; i++) {
        if (!has_axes && s.dim[i] == 1)
            gone |= 1u << i;
        if (!(gone >> i & 1))
            out.dim[out.rank++] = s.dim[i];
        else if (s.dim[i] != 1)
            tfl_fail(n, E0204, "axis %u is not of size 1", i);
    }
    out_as(n, x, out.dim, out.rank);
}

// The shape of an operand with one more axis, which becomes axis *at.
static Shape with_axis(TflNode *n, const Shape *s, int64_t *at)
{
    *at = tfl_axis(n, *at, s->rank + 1);
    check_rank(n, s->rank + 1);
    return n->failed ? *s : shape_insert(s, (uint32_t)*at, 1);
}

void tfl_import_expand_dims(TflNode *n)
{
    Shape s;
    const NodeId x = source_of(n, &s);
    int64_t axis = tfl_src_int(n, 1);
    s = with_axis(n, &s, &axis);
    out_as(n, x, s.dim, s.rank);
}

void tfl_import_transpose(TflNode *n)
{
    int64_t perm[TFL_MAX_LIST];
    uint32_t count = 0, seen = 0;
    const NodeId x = tfl_src(n, 0);
    if (tfl_src_ints(n, 1, perm, &count) && count != tfl_rank(n, x))
        tfl_fail(n, E0204, "the order has %u axes, the operand %u", count, tfl_rank(n, x));
    for (uint32_t i = 0; i < count && !n->failed; i++) {
        perm[i] = tfl_axis(n, perm[i], count);
        seen |= 1u << perm[i];
    }
    if (!n->failed && seen != (1u << count) - 1)
        tfl_fail(n, E0203, "the order does not have every axis");
    tfl_out(n, 0, tfl_transpose(n, x, perm));
}

// A list of sizes as a tensor.
static NodeId sizes(TflNode *n, const Dim *dims, uint32_t count, DType t)
{
    NodeId v[SHAPE_MAX_RANK];
    if (count == 0)
        return tfl_ints(n, t, NULL, 0);
    for (uint32_t i = 0; i < count; i++)
        v[i] = tfl_reshape(n, tfl_dim_value(n, dims[i], t), (const Dim[]){1}, 1);
    return tfl_concat(n, v, count, 0);
}

void tfl_import_shape(TflNode *n)
{
    const NodeId x = tfl_src(n, 0);
    tfl_ignore(n, 0);
    const Shape s = *tfl_shape(n, x);
    tfl_out(n, 0, n->failed ? 0 : sizes(n, s.dim, s.rank, tfl_of_out(n, 0)->dtype));
}

void tfl_import_rank(TflNode *n)
{
    const NodeId x = tfl_src(n, 0);
    tfl_out(n, 0, tfl_number(n, DTYPE_i32, tfl_rank(n, x)));
}

// Sparse constants have all elements as soon as they are read.
void tfl_import_densify(TflNode *n)
{
    tfl_same_scale(n, 0);
    tfl_out(n, 0, tfl_src(n, 0));
}

static void broadcast(TflNode *n, NodeId x, uint32_t i)
{
    Dim dims[TFL_MAX_LIST];
    uint32_t count = 0;
    tfl_src_shape(n, i, dims, &count);
    check_rank(n, count);
    tfl_out(n, 0, tfl_expand(n, x, dims, count));
}

void tfl_import_broadcast_to(TflNode *n)
{
    broadcast(n, tfl_src(n, 0), 1);
}

void tfl_import_fill(TflNode *n)
{
    tfl_same_scale(n, 1);
    broadcast(n, tfl_src(n, 1), 0);
}

void tfl_import_broadcast_args(TflNode *n)
{
    Dim a[TFL_MAX_LIST], b[TFL_MAX_LIST], out[SHAPE_MAX_RANK];
    uint32_t na = 0, nb = 0;
    tfl_src_dims(n, 0, a, &na);
    tfl_src_dims(n, 1, b, &nb);
    const uint32_t rank = na > nb ? na : nb;
    check_rank(n, rank);
    for (uint32_t i = 0; i < rank && !n->failed; i++) {
        const Dim x = i + na < rank ? 1 : a[i + na - rank], y = i + nb < rank ? 1 : b[i + nb - rank];
        out[i] = x == 1 ? y : x;
        if (x != y && x != 1 && y != 1)
            tfl_fail(n, E0204, "the shapes do not broadcast");
    }
    tfl_out(n, 0, n->failed ? 0 : sizes(n, out, rank, tfl_of_out(n, 0)->dtype));
}

void tfl_import_zeros_like(TflNode *n)
{
    const NodeId x = tfl_src(n, 0);
    const Shape s = *tfl_shape(n, x);
    const double zero = tfl_is_quantised(tfl_of_out(n, 0)) ? (double)tfl_quant(n, tfl_of_out(n, 0)).zero : 0;
    tfl_out(n, 0, tfl_expand(n, tfl_number(n, tfl_type(n, x), zero), s.dim, s.rank));
}

// --- parts ---

// Begins and sizes of all axes; a size of -1 is the rest. A begin that the model computes moves the part.
void tfl_import_slice(TflNode *n)
{
    int64_t size[TFL_MAX_LIST], begin[TFL_MAX_LIST];
    uint32_t count = 0, n_begin = 0;
    NodeId x = tfl_src(n, 0);
    tfl_same_scale(n, 0);
    if (!tfl_src_ints(n, 1, begin, &n_begin) || !tfl_src_ints(n, 2, size, &count))
        return;
    if (count != tfl_rank(n, x) || n_begin != count)
        tfl_fail(n, E0204, "begins and sizes must be one for each axis");
    for (uint32_t i = 0; i < count && !n->failed; i++) {
        if (begin[i] < 0 || size[i] < -1)
            tfl_fail(n, E0203, "axis %u: a part from %lld of size %lld", i, (long long)begin[i],
                     (long long)size[i]);
        x = tfl_slice(n, x, i, begin[i], size[i] < 0 ? INT64_MAX : begin[i] + size[i], 1);
    }
    tfl_out(n, 0, x);
}

typedef struct Strided {
    int64_t begin[TFL_MAX_LIST], end[TFL_MAX_LIST], step[TFL_MAX_LIST];
    uint32_t count;
    int64_t begin_mask, end_mask, ellipsis, added, removed;
    bool is_offset;
} Strided;

static bool read_strided(TflNode *n, Strided *s)
{
    uint32_t n_end = 0, n_step = 0;
    s->begin_mask = tfl_option(n, 0, FLAT_I32, 0);
    s->end_mask = tfl_option(n, 1, FLAT_I32, 0);
    s->ellipsis = tfl_option(n, 2, FLAT_I32, 0);
    s->added = tfl_option(n, 3, FLAT_I32, 0);
    s->removed = tfl_option(n, 4, FLAT_I32, 0);
    s->is_offset = tfl_option(n, 5, FLAT_U8, 0) != 0;
    return tfl_src_ints(n, 1, s->begin, &s->count) && tfl_src_ints(n, 2, s->end, &n_end) &&
           tfl_src_ints(n, 3, s->step, &n_step) &&
           ((s->count == n_end && s->count == n_step && s->count < 32) ||
            tfl_fail(n, E0204, "begins, ends and steps differ in number"));
}

static uint32_t count_bits(int64_t mask, uint32_t count)
{
    return (uint32_t)__builtin_popcountll((uint64_t)mask & ((UINT64_C(1) << count) - 1));
}

// One entry: a part of `axis`, a single element (the axis goes), a new axis, or all of the axes that no other
// entry is about. Sizes of the result go into out.
static NodeId strided_entry(TflNode *n, const Strided *s, uint32_t i, NodeId x, uint32_t *axis, Shape *out)
{
    const bool is_one = s->removed >> i & 1;
    if (out->rank >= SHAPE_MAX_RANK || *axis >= tfl_rank(n, x))
        return tfl_fail(n, E0204, "there are more entries than axes");
    if (s->step[i] == 0 || (is_one && s->step[i] < 0))
        return tfl_fail(n, E0203, "step %lld of entry %u", (long long)s->step[i], i);
    int64_t begin = s->begin[i], end = s->is_offset ? begin + s->end[i] : s->end[i];
    if (s->begin_mask >> i & 1)
        begin = s->step[i] > 0 ? 0 : INT64_MAX;
    if (s->end_mask >> i & 1)
        end = s->step[i] > 0 ? INT64_MAX : INT64_MIN;
    if (is_one)
        end = begin == -1 ? INT64_MAX : begin + 1;
    const Dim size = n->failed ? 0 : tfl_shape(n, x)->dim[*axis];
    if (s->step[i] < 0 && begin < 0 && dim_is_const(size) && begin < -size)
        end = begin = INT64_MAX; // before the first element: nothing
    x = tfl_slice(n, x, *axis, begin, end, is_one ? 1 : s->step[i]);
    if (!n->failed && is_one && tfl_size(n, x, *axis) != 1)
        return tfl_fail(n, E0204, "entry %u is outside of its axis", i);
    if (!n->failed && !is_one)
        out->dim[out->rank++] = tfl_shape(n, x)->dim[*axis];
    ++*axis;
    return x;
}

// XNNPACK takes parts with steps of 1 and without masks of axes. There an end of 0 is the end of the axis.
static void end_at_zero(TflNode *n, NodeId x, Strided *s)
{
    const DType t = tfl_type(n, x);
    bool is_xnnpack = s->ellipsis == 0 && s->added == 0 && s->removed == 0 && s->count == tfl_rank(n, x) &&
                      (t == DTYPE_f32 || tfl_is_byte(t)) && !n->model->source->options.rounds_twice;
    for (uint32_t i = 0; i < s->count; i++)
        is_xnnpack = is_xnnpack && s->step[i] == 1;
    for (uint32_t i = 0; i < s->count && is_xnnpack; i++)
        if (s->end[i] + (s->is_offset ? s->begin[i] : 0) == 0)
            s->end_mask |= INT64_C(1) << i;
}

void tfl_import_strided_slice(TflNode *n)
{
    Strided s = {0};
    Shape out = {0};
    uint32_t axis = 0;
    NodeId x = tfl_src(n, 0);
    tfl_same_scale(n, 0);
    if (n->failed || !read_strided(n, &s))
        return;
    end_at_zero(n, x, &s);
    const uint32_t rank = tfl_rank(n, x), named = s.count - count_bits(s.added | s.ellipsis, s.count);
    const uint32_t places = rank + count_bits(s.added & ~s.ellipsis, s.count);
    uint32_t all = rank > named ? rank - named : 1; // axes that no entry is about; an ellipsis takes one
    for (uint32_t i = 0, place = 0; i < s.count && !n->failed; i++) {
        if (s.ellipsis && place >= places)
            break; // LiteRT ignores the entries for which an ellipsis has left no axis
        if (s.ellipsis >> i & 1) {
            for (; all && axis < rank && out.rank < SHAPE_MAX_RANK; all--, place++)
                out.dim[out.rank++] = tfl_shape(n, x)->dim[axis++];
            continue;
        }
        place++;
        if (s.added >> i & 1 && out.rank < SHAPE_MAX_RANK)
            out.dim[out.rank++] = 1;
        else
            x = strided_entry(n, &s, i, x, &axis, &out);
    }
    while (!n->failed && axis < rank && out.rank < SHAPE_MAX_RANK)
        out.dim[out.rank++] = tfl_shape(n, x)->dim[axis++];
    if (!n->failed && axis < rank)
        tfl_fail(n, E0204, "the result has more than %d axes", SHAPE_MAX_RANK);
    tfl_out(n, 0, tfl_reshape_like(n, x, &out));
}

// Parts of an axis, one behind the other.
static void split(TflNode *n, NodeId x, uint32_t axis, const int64_t *size, uint32_t count)
{
    int64_t at = 0;
    if (!n->failed && count != n->n_out)
        tfl_fail(n, E0202, "expected %u results, found %u", count, n->n_out);
    for (uint32_t i = 0; i < count && !n->failed; i++) {
        tfl_out(n, i, tfl_slice(n, x, axis, at, at + size[i], 1));
        at += size[i];
    }
    if (!n->failed && at != tfl_size(n, x, axis))
        tfl_fail(n, E0204, "the parts do not add up to the axis");
}

// The axis stands before the operand here.
void tfl_import_split(TflNode *n)
{
    int64_t size[TFL_MAX_LIST];
    const int64_t count = tfl_option(n, 0, FLAT_I32, 0);
    const NodeId x = tfl_src(n, 1);
    tfl_same_scale(n, 1);
    const uint32_t axis = tfl_axis(n, tfl_src_int(n, 0), tfl_rank(n, x));
    const int64_t whole = tfl_size(n, x, axis);
    if (!n->failed && (count < 1 || count > TFL_MAX_LIST || whole % count != 0))
        tfl_fail(n, E0203, "%lld elements in %lld parts", (long long)whole, (long long)count);
    for (int64_t i = 0; i < count && !n->failed; i++)
        size[i] = whole / count;
    split(n, x, axis, size, n->failed ? 0 : (uint32_t)count);
}

void tfl_import_split_v(TflNode *n)
{
    int64_t size[TFL_MAX_LIST], rest = 0;
    uint32_t count = 0, open = 0, n_open = 0;
    tfl_ignore(n, 0);
    const NodeId x = tfl_src(n, 0);
    tfl_same_scale(n, 0);
    const uint32_t axis = tfl_axis(n, tfl_src_int(n, 2), tfl_rank(n, x));
    tfl_src_ints(n, 1, size, &count);
    rest = tfl_size(n, x, axis);
    for (uint32_t i = 0; i < count && !n->failed; i++) {
        if (size[i] < -1)
            tfl_fail(n, E0203, "a part of size %lld", (long long)size[i]);
        open = size[i] < 0 ? i : open;
        n_open += size[i] < 0;
        rest -= size[i] < 0 ? 0 : size[i];
    }
    if (n_open)
        size[open] = rest;
    if (!n->failed && (n_open > 1 || rest < 0))
        tfl_fail(n, E0204, "the sizes of the parts do not fit");
    split(n, x, axis, size, count);
}

void tfl_import_unpack(TflNode *n)
{
    const int64_t count = tfl_option(n, 0, FLAT_I32, 0), at = tfl_option(n, 1, FLAT_I32, 0);
    const NodeId x = tfl_src(n, 0);
    Shape s = *tfl_shape(n, x);
    tfl_same_scale(n, 0);
    const uint32_t axis = tfl_axis(n, at, s.rank);
    if (!n->failed && (count != n->n_out || tfl_size(n, x, axis) != count))
        tfl_fail(n, E0202, "%lld parts of an axis of %lld into %u results", (long long)count,
                 (long long)tfl_size(n, x, axis), n->n_out);
    if (n->failed)
        return;
    s.rank--;
    memmove(s.dim + axis, s.dim + axis + 1, (s.rank - axis) * sizeof *s.dim);
    for (uint32_t i = 0; i < count && !n->failed; i++)
        tfl_out(n, i, tfl_reshape_like(n, tfl_slice(n, x, axis, i, i + 1, 1), &s));
}

// --- joining ---

// An operand in the scale of the result. LiteRT brings only bytes to it.
static NodeId in_scale(TflNode *n, uint32_t i)
{
    const NodeId x = tfl_src(n, i);
    const TflTensor *t = tfl_in(n, i), *to = tfl_of_out(n, 0);
    if (n->failed || !tfl_is_quantised(to) || tfl_same_quant(t, to))
        return x;
    if (!tfl_is_byte(to->dtype) || t->dtype != to->dtype)
        return tfl_fail(n, E0206, "operand %u and the result must have the same scale and zero point", i);
    return tfl_quantise(n, tfl_dequantise(n, x, t), to);
}

void tfl_import_concatenation(TflNode *n)
{
    const int64_t axis = tfl_option(n, 0, FLAT_I32, 0), activation = tfl_option(n, 1, FLAT_I8, 0);
    NodeId *src = ARENA_ARRAY(n->model->arena, NodeId, n->n_in + 1);
    if (n->n_in == 0)
        tfl_fail(n, E0202, "needs at least one operand");
    for (uint32_t i = 0; i < n->n_in; i++)
        src[i] = in_scale(n, i);
    const uint32_t at = tfl_axis(n, axis, n->failed ? 0 : tfl_rank(n, src[0]));
    const NodeId y = tfl_concat(n, src, n->n_in, at);
    if (activation != 0 && tfl_is_quantised(tfl_of_out(n, 0)))
        tfl_fail(n, E0206, "an activation of quantised values is not supported");
    tfl_out(n, 0, activation ? tfl_activate(n, y, activation) : y);
}

void tfl_import_pack(TflNode *n)
{
    tfl_ignore(n, 0);
    int64_t axis = tfl_option(n, 1, FLAT_I32, 0);
    NodeId *src = ARENA_ARRAY(n->model->arena, NodeId, n->n_in + 1);
    const Shape s = with_axis(n, tfl_shape(n, tfl_src(n, 0)), &axis);
    for (uint32_t i = 0; i < n->n_in; i++)
        src[i] = tfl_reshape_like(n, in_scale(n, i), &s);
    tfl_out(n, 0, tfl_concat(n, src, n->n_in, axis));
}

// --- borders ---

static bool read_pads(TflNode *n, NodeId x, int64_t *pads)
{
    int64_t v[TFL_MAX_LIST];
    uint32_t count = 0;
    const uint32_t rank = tfl_rank(n, x);
    if (tfl_src_ints(n, 1, v, &count) && (count != 2 * rank || tfl_rank(n, tfl_src(n, 1)) != 2))
        tfl_fail(n, E0204, "expected two pads for each axis");
    for (uint32_t i = 0; i < rank && !n->failed; i++) {
        pads[i] = v[2 * i];
        pads[rank + i] = v[2 * i + 1];
        if (v[2 * i] < 0 || v[2 * i + 1] < 0)
            tfl_fail(n, E0203, "a pad is negative");
    }
    return !n->failed;
}

// PAD and PADV2: zeros of the result's scale, or a value.
void tfl_import_pad(TflNode *n)
{
    int64_t pads[2 * SHAPE_MAX_RANK];
    const NodeId x = tfl_src(n, 0);
    tfl_same_scale(n, 0);
    NodeId value = tfl_opt(n, 2);
    if (value)
        tfl_same_scale(n, 2);
    if (!read_pads(n, x, pads))
        return;
    if (!value && tfl_is_quantised(tfl_of_out(n, 0)))
        value = tfl_zero_point(n, tfl_of_out(n, 0));
    tfl_out(n, 0, tfl_pad(n, x, pads, "constant", value ? tfl_reshape(n, value, NULL, 0) : 0));
}

void tfl_import_mirror_pad(TflNode *n)
{
    int64_t pads[2 * SHAPE_MAX_RANK];
    const bool is_symmetric = tfl_option(n, 0, FLAT_I8, 0) == 1;
    NodeId x = tfl_src(n, 0);
    tfl_same_scale(n, 0);
    if (!read_pads(n, x, pads))
        return;
    const uint32_t rank = tfl_rank(n, x);
    if (!is_symmetric) {
        tfl_out(n, 0, tfl_pad(n, x, pads, "reflect", 0));
        return;
    }
    for (uint32_t i = 0; i < rank && !n->failed; i++) { // the border itself is repeated
        const int64_t size = tfl_size(n, x, i), before = pads[i], after = pads[rank + i];
        NodeId part[3];
        uint32_t count = 0;
        if (before > size || after > size)
            tfl_fail(n, E0204, "axis %u: a pad is larger than the axis", i);
        if (before)
            part[count++] = tfl_slice(n, x, i, before - 1, INT64_MIN, -1);
        part[count++] = x;
        if (after)
            part[count++] =
                tfl_slice(n, x, i, size - 1, size - 1 - after < 0 ? INT64_MIN : size - 1 - after, -1);
        x = tfl_concat(n, part, count, i);
    }
    tfl_out(n, 0, x);
}

// --- orders and repetitions ---

void tfl_import_tile(TflNode *n)
{
    int64_t times[TFL_MAX_LIST];
    uint32_t count = 0;
    NodeId x = tfl_src(n, 0);
    tfl_same_scale(n, 0);
    if (tfl_src_ints(n, 1, times, &count) && count != tfl_rank(n, x))
        tfl_fail(n, E0204, "expected a number of times for each axis");
    for (uint32_t i = 0; i < count && !n->failed; i++) {
        Shape out = *tfl_shape(n, x);
        if (times[i] < 0 || times[i] > INT32_MAX || out.rank == SHAPE_MAX_RANK)
            tfl_fail(n, E0203, "axis %u %lld times", i, (long long)times[i]);
        if (times[i] == 1 || n->failed)
            continue;
        Shape wide = shape_insert(&out, i, 1);
        x = tfl_reshape_like(n, x, &wide);
        wide.dim[i] = times[i];
        out.dim[i] = dim_mul(n->graph->dims, out.dim[i], times[i]);
        x = tfl_reshape_like(n, tfl_expand(n, x, wide.dim, wide.rank), &out);
    }
    tfl_out(n, 0, x);
}

void tfl_import_reverse(TflNode *n)
{
    int64_t axes[TFL_MAX_LIST];
    uint32_t count = 0;
    NodeId x = tfl_src(n, 0);
    tfl_src_ints(n, 1, axes, &count);
    for (uint32_t i = 0; i < count && !n->failed; i++)
        x = tfl_slice(n, x, tfl_axis(n, axes[i], tfl_rank(n, x)), -1, INT64_MIN, -1);
    tfl_out(n, 0, x);
}
