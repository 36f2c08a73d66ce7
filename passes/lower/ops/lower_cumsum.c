// SPDX-License-Identifier: Apache-2.0
// cumsum, cumprod and cummax: one running sum, product or maximum per row, in order; vectors across rows
// where these lie side by side. Those of f16 and bf16 stay in f32.
#include "passes/lower/operand.h"
#include "passes/lower/rows.h"

#include <math.h>

typedef struct Cumsum {
    NodeId x;
    bool is_exclusive, is_reverse;
    const RowFold *fold;
    const char *name;
} Cumsum;

static void cumsum_row(Lower *l, const Rows *r, Point at, void *ctx)
{
    Cumsum *c = ctx;
    Kernel *k = l->k;
    const int dtype = lower_node(l, c->x)->dtype, type = operand_sum_type(dtype);
    const KRef start = rows_neutral(k, type, c->fold);
    const KRef sum = k_var(k, k_splat(k, start, at.lanes), c->name);
    const bool has_loop = r->d.rank > r->n_kept;
    if (has_loop) {
        const int64_t n = r->count;
        const KRef i = k_loop(k, n, KFOR_SERIAL, "r");
        at.idx[r->d.rank - 1] = c->is_reverse ? k_expr(k, "# - $", n - 1, i) : i;
    }
    const KRef before = k_get(k, sum), x = k_cast(k, rows_operand(l, &r->d, at, &c->x), type);
    k_set(k, sum, k_form(k, c->fold->form, (KRef[3]){before, x}, type));
    const KRef value = c->is_exclusive ? before : k_get(k, sum);
    pull_store_root(l, &r->d, at, k_cast(k, value, dtype));
    if (has_loop)
        k_end(k);
}

static void lower_running(Lower *l, Cumsum c, uint32_t axis)
{
    bool in_row[SHAPE_MAX_RANK] = {false};
    c.x = lower_node(l, l->anchor)->src[0];
    in_row[axis] = true;
    Rows r = rows_new(l, c.x, in_row, (double)NAN);
    if (r.mode == ROWS_ALONG) { // a sum depends on the one before: no vectors along the row
        r.mode = ROWS_SCALAR;
        r.lanes = 1;
    }
    rows_emit(l, &r, cumsum_row, &c);
}

#define RUNNING(op, of, word)                                                                                \
    void lower_##op(Lower *l)                                                                                \
    {                                                                                                        \
        const Node *n = lower_node(l, l->anchor);                                                            \
        lower_running(l,                                                                                     \
                      (Cumsum){.is_exclusive = node_get_int(n, A_##op##_exclusive) != 0,                     \
                               .is_reverse = node_get_int(n, A_##op##_reverse) != 0,                         \
                               .fold = &row_fold_##of,                                                       \
                               .name = #word},                                                               \
                      (uint32_t)node_get_int(n, A_##op##_axis));                                             \
    }
RUNNING(cumsum, sum, sum)
RUNNING(cumprod, prod, product)
RUNNING(cummax, max, most)
