// SPDX-License-Identifier: Apache-2.0
// cumsum: one running sum per row, in order; vectors across rows where these lie side by side. f16 and bf16
// sums stay in f32.
#include "passes/operand.h"
#include "passes/rows.h"

typedef struct Cumsum {
    NodeId x;
    bool is_exclusive, is_reverse;
} Cumsum;

static void cumsum_row(Lower *l, const Rows *r, Point at, void *ctx)
{
    Cumsum *c = ctx;
    Kernel *k = l->k;
    const int dtype = lower_node(l, c->x)->dtype, type = operand_sum_type(dtype);
    const KRef zero = dtype_info[type].cls == DCLASS_FLOAT ? k_number(k, type, 0) : k_integer(k, type, 0);
    const KRef sum = k_var(k, k_splat(k, zero, at.lanes), "sum");
    const bool has_loop = r->d.rank > r->n_kept;
    if (has_loop) {
        const int64_t n = r->count;
        const KRef i = k_for(k, k_index(k, 0), k_index(k, n), 1, KFOR_SERIAL, "r");
        at.idx[r->d.rank - 1] = c->is_reverse ? k_op(k, KOP_sub, k_index(k, n - 1), i, 0) : i;
    }
    const KRef before = k_get(k, sum), x = k_cast(k, rows_operand(l, &r->d, at, &c->x), type);
    k_set(k, sum, k_add(k, before, x));
    const KRef value = c->is_exclusive ? before : k_get(k, sum);
    pull_store_root(l, &r->d, at, k_cast(k, value, dtype));
    if (has_loop)
        k_end(k);
}

void lower_cumsum(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    Cumsum c = {.x = n->src[0],
                .is_exclusive = node_get_int(n, A_cumsum_exclusive) != 0,
                .is_reverse = node_get_int(n, A_cumsum_reverse) != 0};
    bool in_row[SHAPE_MAX_RANK] = {false};
    in_row[node_get_int(n, A_cumsum_axis)] = true;
    Rows r = rows_new(l, c.x, in_row);
    if (r.mode == ROWS_ALONG) { // a sum depends on the one before: no vectors along the row
        r.mode = ROWS_SCALAR;
        r.lanes = 1;
    }
    rows_emit(l, &r, cumsum_row, &c);
}
