// SPDX-License-Identifier: Apache-2.0
// Attention and rotary positions as ONNX.
#include "compiler/export/onnx/put.h"

#include <math.h>

enum { MOST_TURNED = 1 << 16 };

// --- attention -----------------------------------------------------------------------------------

static Value both(Put *w, Value a, Value b)
{
    return *a == '\0' ? b : put_op2(w, "And", a, b);
}

static bool has_window(const Put *w)
{
    return put_get(w, "causal") != 0 || put_get(w, "left") >= 0 || put_get(w, "right") >= 0;
}

// Which keys each query sees, bool[queries, keys], by its place among them; "": all.
static Value visible(Put *w)
{
    const Shape *q = put_shape(w, 0), *k = put_shape(w, 1);
    const Dim queries = q->dim[q->rank - 2], keys = k->dim[k->rank - 2];
    const Value key = put_range(w, keys);
    Value seen = "";
    if (has_window(w)) {
        const Value first = put_has(w, 5) ? put_reshape(w, put_src(w, 5), (const int64_t[]){1}, 1)
                                          : put_op2(w, "Sub", put_dim(w, keys), put_dim(w, queries));
        const Value place = put_op2(w, "Add", put_range(w, queries), first);
        const Value at = put_reshape(w, place, (const int64_t[]){-1, 1}, 2);
        const int64_t left = put_get(w, "left"), right = put_get(w, "right");
        if (put_get(w, "causal") != 0)
            seen = put_op2(w, "LessOrEqual", key, at);
        if (left >= 0)
            seen = both(w, seen,
                        put_op2(w, "GreaterOrEqual", key,
                                put_op2(w, "Sub", at, put_number(w, DTYPE_i64, (double)left))));
        if (right >= 0)
            seen = both(w, seen,
                        put_op2(w, "LessOrEqual", key,
                                put_op2(w, "Add", at, put_number(w, DTYPE_i64, (double)right))));
    }
    if (put_has(w, 4))
        seen = both(w, seen, put_op2(w, "Less", key, put_reshape(w, put_src(w, 4), NULL, 0)));
    return seen;
}

static Value masked(Put *w)
{
    const DType t = put_type(w, 0);
    const bool is_plain = !has_window(w) && !put_has(w, 4);
    const Value mask = put_src(w, 3), seen = is_plain ? "" : visible(w);
    const Value never = put_number(w, t, -(double)INFINITY);
    if (is_plain || *mask == '\0')
        return is_plain ? mask : put_op3(w, "Where", seen, put_number(w, t, 0), never);
    return put_type(w, 3) == DTYPE_bool ? both(w, mask, seen) : put_op3(w, "Where", seen, mask, never);
}

// Of rank 4, in the type of the queries.
static Value operand(Put *w, uint32_t i)
{
    const Value x = put_cast(w, put_src(w, i), put_type(w, i), put_type(w, 0));
    return put_shape(w, i)->rank == 3 ? put_op2(w, "Unsqueeze", x, put_list(w, &(int64_t){0}, 1)) : x;
}

// The mask has two axes at least, and all of its keys.
static Value spread(Put *w, Value mask)
{
    const Shape *q = put_shape(w, 0), *k = put_shape(w, 1);
    const Dim size[] = {q->dim[q->rank - 2], k->dim[k->rank - 2]};
    return *mask == '\0' ? mask : put_op2(w, "Expand", mask, put_dims(w, size, 2));
}

Value put_attention(Put *w, const char *type)
{
    const uint32_t rank = put_shape(w, 0)->rank;
    if (rank > 4 || put_shape(w, 1)->rank != rank || put_shape(w, 2)->rank != rank) {
        put_fail(w, "attention on more than four axes has no form in ONNX");
        return "";
    }
    const Value in[] = {operand(w, 0), operand(w, 1), operand(w, 2), spread(w, masked(w))};
    Onnx__NodeProto *n = put_begin(w, type, in, 4);
    put_since(w, 23);
    if (put_get_float(w, "scale") != 0)
        put_float(w, n, "scale", put_get_float(w, "scale"));
    if (put_get_float(w, "softcap") != 0)
        put_float(w, n, "softcap", put_get_float(w, "softcap"));
    Value y = put_result(w, n);
    if (put_get(w, "guard") != 0)
        y = put_op3(w, "Where", put_op1(w, "IsNaN", y), put_number(w, put_type(w, 0), 0), y);
    return rank == 3 ? put_op2(w, "Squeeze", y, put_list(w, &(int64_t){0}, 1)) : y;
}

// --- rotary positions ----------------------------------------------------------------------------

typedef struct Rope {
    int64_t size, dims, distance; // of the last axis; how much of it turns; between the two of a pair
    bool is_interleaved;
    DType type; // of angles, cos and sin
} Rope;

static bool read_rope(Put *w, Rope *r)
{
    const Shape *s = put_shape(w, 0);
    r->size = s->dim[s->rank - 1];
    if (!dim_is_const(r->size) || r->size > MOST_TURNED) {
        put_fail(w, "the size of the last axis must be a number of at most %d", MOST_TURNED);
        return false;
    }
    r->dims = put_get(w, "dims") != 0 ? put_get(w, "dims") : r->size;
    r->distance = put_get(w, "distance") != 0 ? put_get(w, "distance") : r->dims / 2;
    r->is_interleaved = put_get(w, "interleaved") != 0;
    r->type = put_has(w, 1) ? put_type(w, 1) : put_type(w, 0) == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32;
    return true;
}

// The angles, [..., S, dims / 2].
static Value angles(Put *w, const Rope *r)
{
    const int64_t pairs = r->dims / 2, last = -1;
    const double below = (double)(put_get(w, "denominator") != 0 ? put_get(w, "denominator") : r->dims);
    Tensor speed = tensor_new(&w->file->scratch, r->type, 1, &pairs);
    for (int64_t i = 0; i < pairs; i++)
        tensor_set_f64(&speed, i, pow(put_get_float(w, "theta"), -2 * (double)i / below));
    const Value at =
        put_op2(w, "Unsqueeze", put_cast(w, put_src(w, 3), put_type(w, 3), r->type), put_list(w, &last, 1));
    const Value angle = put_op2(w, "Mul", at, put_small(w, &speed));
    return put_has(w, 4) ? put_op2(w, "Div", angle, put_cast(w, put_src(w, 4), DTYPE_f32, r->type)) : angle;
}

// Operand 1 (cos) or 2 (sin): for each row, or rows of a table by the positions.
static Value given(Put *w, uint32_t i)
{
    if (!put_has(w, 3))
        return put_src(w, i);
    const Value at = put_cast(w, put_src(w, 3), put_type(w, 3), DTYPE_i64);
    const Value rows = put_op2(w, "Sub", put_dim(w, put_shape(w, i)->dim[0]), put_number(w, DTYPE_i64, 1));
    const Value row = put_op2(w, "Min", put_op2(w, "Max", at, put_number(w, DTYPE_i64, 0)), rows);
    return put_op2(w, "Gather", put_src(w, i), row);
}

// Where the first (half 0) and second elements of all pairs are, and then those that stay.
static uint32_t places(Put *w, const Rope *r, int64_t *at)
{
    bool *is_pair = ARENA_ARRAY(&w->file->scratch, bool, r->size + 1);
    uint32_t n = 0;
    for (int64_t half = 0; half < 2; half++)
        for (int64_t i = 0; i < r->dims / 2; i++) {
            at[n] = r->is_interleaved ? 2 * i + half : i + half * r->distance;
            is_pair[at[n++]] = true;
        }
    for (int64_t i = 0; i < r->size; i++)
        if (!is_pair[i])
            at[n++] = i;
    return n;
}

// Gathers the halves, turns them, and puts all elements back where they were.
static Value turned(Put *w, const Rope *r, Value cos, Value sin)
{
    const uint32_t pairs = (uint32_t)(r->dims / 2);
    const DType t = put_type(w, 0);
    int64_t *at = ARENA_ARRAY(&w->file->scratch, int64_t, r->size + 1);
    int64_t *back = ARENA_ARRAY(&w->file->scratch, int64_t, r->size + 1);
    const uint32_t n = places(w, r, at);
    rlx_assert(n == r->size);
    for (uint32_t i = 0; i < n; i++)
        back[at[i]] = i;
    const Value x = put_src(w, 0);
    const Value a = put_cast(w, put_gather(w, x, at, pairs, -1), t, r->type);
    const Value b = put_cast(w, put_gather(w, x, at + pairs, pairs, -1), t, r->type);
    Value part[3];
    part[0] = put_op2(w, "Sub", put_op2(w, "Mul", a, cos), put_op2(w, "Mul", b, sin));
    part[1] = put_op2(w, "Add", put_op2(w, "Mul", b, cos), put_op2(w, "Mul", a, sin));
    for (uint32_t i = 0; i < 2; i++)
        part[i] = put_cast(w, part[i], r->type, t);
    if (n > 2 * pairs)
        part[2] = put_gather(w, x, at + 2 * (size_t)pairs, n - 2 * pairs, -1);
    return put_gather(w, put_concat(w, part, n > 2 * pairs ? 3 : 2, -1), back, n, -1);
}

Value put_rope(Put *w, const char *type)
{
    (void)type;
    Rope r;
    if (!read_rope(w, &r))
        return "";
    if (put_has(w, 1))
        return turned(w, &r, given(w, 1), given(w, 2));
    const Value angle = angles(w, &r);
    return turned(w, &r, put_op1(w, "Cos", angle), put_op1(w, "Sin", angle));
}
