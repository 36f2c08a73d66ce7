// SPDX-License-Identifier: Apache-2.0
// Meanings of ops that choose elements by their values: top_k.
#include "ir/eval/eval_ops.h"

// The order of elements a and b of a tensor: below 0 when a is smaller. NaN is larger than all numbers.
static int compare(const Tensor *t, int64_t a, int64_t b)
{
    if (dtype_info[t->dtype].cls == DCLASS_FLOAT) {
        const double x = tensor_get_f64(t, a), y = tensor_get_f64(t, b);
        if (x != x || y != y)
            return (x != x) - (y != y);
        return (x > y) - (x < y);
    }
    const int64_t x = tensor_get_i64(t, a), y = tensor_get_i64(t, b);
    if (dtype_info[t->dtype].cls == DCLASS_INT)
        return (x > y) - (x < y);
    return ((uint64_t)x > (uint64_t)y) - ((uint64_t)x < (uint64_t)y);
}

// The place of the best element of a line that is not taken; the first of equal ones.
static int64_t best_of(const Tensor *x, int64_t first, int64_t n, int64_t stride, const bool *taken, int sign)
{
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
        if (!taken[i] && (best < 0 || sign * compare(x, first + i * stride, first + best * stride) > 0))
            best = i;
    return best;
}

bool eval_top_k(EvalCtx *c)
{
    const Tensor *x = &c->in[0];
    Tensor *values = &c->out[0], *places = &c->out[1];
    const uint32_t axis = (uint32_t)node_get_int(c->node, A_top_k_axis);
    rlx_assert(axis < x->rank && values->numel == places->numel);
    const int sign = eval_flag(c, A_top_k_largest) ? 1 : -1;
    const int64_t n = x->dim[axis], k = values->dim[axis], inner = eval_count(x, axis + 1, x->rank);
    const int64_t lines = eval_count(x, 0, axis) * inner;
    bool *taken = ARENA_ARRAY(c->scratch, bool, n + 1);
    if (k > n)
        return eval_fail(c, E0204, "the axis has %lld elements, not %lld", (long long)n, (long long)k);
    if (!eval_check_work(c, lines * k, n))
        return false;
    for (int64_t line = 0; line < lines; line++) {
        const int64_t first = line / inner * n * inner + line % inner;
        for (int64_t i = 0; i < n; i++)
            taken[i] = false;
        for (int64_t i = 0; i < k; i++) {
            const int64_t at = best_of(x, first, n, inner, taken, sign);
            const int64_t to = (line / inner * k + i) * inner + line % inner;
            taken[at] = true;
            eval_copy_element(values, to, x, first + at * inner);
            tensor_set_i64(places, to, at);
        }
    }
    return true;
}

// --- as many results as the operands say ---

bool eval_nonzero(EvalCtx *c)
{
    const Tensor *x = &c->in[0];
    Tensor *out = &c->out[0];
    rlx_assert(out->rank == 2 && out->dim[0] == x->rank);
    const int64_t size = out->dim[1];
    int64_t found = 0;
    for (int64_t i = 0; i < x->numel && found < size; i++) {
        const bool is_zero =
            dtype_info[x->dtype].cls == DCLASS_FLOAT ? tensor_get_f64(x, i) == 0 : tensor_get_i64(x, i) == 0;
        int64_t rest = i;
        for (uint32_t d = x->rank; d-- > 0 && !is_zero; rest /= x->dim[d])
            tensor_set_i64(out, d * size + found, rest % x->dim[d]);
        found += !is_zero;
    }
    return true;
}

static int compare_rows(const Tensor *x, int64_t a, int64_t b)
{
    int order = 0;
    for (int64_t i = 0; i < x->dim[1] && order == 0; i++)
        order = compare(x, a * x->dim[1] + i, b * x->dim[1] + i);
    return order;
}

// The first rows of each value, ascending, by insertion; returns how many.
static int64_t find_groups(const Tensor *x, int64_t n, bool is_sorted, int64_t *first)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;
        while (at < count &&
               (is_sorted ? compare_rows(x, first[at], i) < 0 : compare_rows(x, first[at], i) != 0))
            at++;
        if (at < count && compare_rows(x, first[at], i) == 0)
            continue;
        for (int64_t k = count++; k > at; k--)
            first[k] = first[k - 1];
        first[at] = i;
    }
    return count;
}

bool eval_unique(EvalCtx *c)
{
    const Tensor *x = &c->in[0];
    Tensor *first = &c->out[0], *inverse = &c->out[1], *counts = &c->out[2];
    rlx_assert(x->rank >= 1 && inverse->rank == 1 && counts->rank == 1);
    int64_t n = x->dim[0];
    if (eval_has(c, 1)) {
        const int64_t live = tensor_get_i64(&c->in[1], 0);
        n = live < 0 ? 0 : live < n ? live : n;
    }
    int64_t *groups = ARENA_ARRAY(c->scratch, int64_t, n + 1);
    if (!eval_check_work(c, n, n) || !eval_check_work(c, n * n, x->dim[1] + 1))
        return false;
    const int64_t count = find_groups(x, n, eval_flag(c, A_unique_sorted), groups);
    const int64_t kept = count < first->numel ? count : first->numel;
    for (int64_t g = 0; g < kept; g++)
        tensor_set_i64(first, g, groups[g]);
    for (int64_t i = 0; i < n; i++) {
        int64_t g = 0;
        while (compare_rows(x, groups[g], i) != 0)
            g++;
        tensor_set_i64(inverse, i, g);
        if (g < kept)
            tensor_set_i64(counts, g, tensor_get_i64(counts, g) + 1);
    }
    tensor_set_i64(&c->out[3], 0, kept);
    return true;
}

// Size of axis d of a box, which does not reach beyond the tensor.
static int64_t box_size(const Tensor *box, uint32_t d, int64_t most)
{
    const int64_t size = tensor_get_i64(box, d);
    return size < 0 ? 0 : size < most ? size : most;
}

bool eval_repack(EvalCtx *c)
{
    const Tensor *x = &c->in[0], *from = &c->in[1], *to = &c->in[2];
    Tensor *out = &c->out[0];
    rlx_assert(x->dtype == out->dtype);
    for (int64_t i = 0; i < out->numel; i++) {
        int64_t rest = i, number = 0, scale = 1, place = 0, step = 1;
        bool is_inside = true;
        for (uint32_t d = out->rank; d-- > 0; rest /= out->dim[d]) {
            const int64_t size = box_size(to, d, out->dim[d]);
            is_inside = is_inside && rest % out->dim[d] < size;
            number += rest % out->dim[d] * scale;
            scale *= size;
        }
        for (uint32_t d = x->rank; d-- > 0 && is_inside; step *= x->dim[d]) {
            const int64_t size = box_size(from, d, x->dim[d]);
            is_inside = size > 0;
            place += is_inside ? number % size * step : 0;
            number /= is_inside ? size : 1;
        }
        if (is_inside && number == 0)
            eval_copy_element(out, i, x, place);
    }
    return true;
}
