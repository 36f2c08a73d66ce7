// SPDX-License-Identifier: Apache-2.0
// Meanings of ops that choose elements by their values: top_k.
#include "ir/eval_ops.h"

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
