// SPDX-License-Identifier: Apache-2.0
// layer_norm and rms_norm: the mean, then the mean of the squared differences (two passes lose nothing to
// cancellation), then the results with scale and bias. rms_norm has no mean to subtract.
#include "passes/lower/rows.h"

#include <math.h>

typedef struct Norm {
    NodeId x, scale, bias; // 0 = absent
    bool has_mean;
    const Rows *rows;
    double epsilon;
    int type;
    KRef mean, factor; // factor: 1 / sqrt(variance + epsilon)
} Norm;

static KRef value_at(Lower *l, const Domain *d, Point at, void *ctx)
{
    Norm *n = ctx;
    return rows_operand(l, d, at, &n->x);
}

static KRef centred_at(Lower *l, const Domain *d, Point at, Norm *n)
{
    const KRef x = rows_operand(l, d, at, &n->x);
    return n->has_mean ? k_sub(l->k, x, n->mean) : x;
}

static KRef square_at(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Norm *n = ctx;
    const KRef x = centred_at(l, d, at, ctx);
    if (n->has_mean)
        rows_fetch_next(l, n->rows, at, n->x);
    return k_mul(l->k, x, x);
}

static void store_result(Lower *l, const Domain *d, Point at, void *ctx)
{
    Norm *n = ctx;
    Kernel *k = l->k;
    KRef v = k_mul(k, centred_at(l, d, at, n), n->factor);
    if (n->scale != 0)
        v = k_mul(k, v, rows_operand(l, d, at, &n->scale));
    if (n->bias != 0)
        v = k_add(k, v, rows_operand(l, d, at, &n->bias));
    pull_store_root(l, d, at, k_cast(k, v, lower_node(l, l->anchor)->dtype));
}

static void norm_row(Lower *l, const Rows *r, Point at, void *ctx)
{
    Norm *n = ctx;
    Kernel *k = l->k;
    n->rows = r;
    const KRef count = k_number(k, n->type, (double)r->count);
    if (n->has_mean)
        n->mean = k_div(k, rows_fold(l, r, at, &row_fold_sum, value_at, n), count);
    const KRef variance = k_div(k, rows_fold(l, r, at, &row_fold_sum, square_at, n), count);
    const KRef root = k_sqrt(k, k_add(k, variance, k_number(k, n->type, n->epsilon)));
    n->factor = k_div(k, k_number(k, n->type, 1), root);
    rows_each(l, r, at, store_result, n);
}

static void lower_norm(Lower *l, AttrId axis, AttrId epsilon, bool has_mean)
{
    const Node *node = lower_node(l, l->anchor);
    rlx_assert(lower_node(l, l->anchor)->shape->rank >= 1);
    Norm n = {.x = node->src[0],
              .scale = node->n_src > 1 ? node->src[1] : 0,
              .bias = node->n_src > 2 ? node->src[2] : 0,
              .has_mean = has_mean,
              .epsilon = node_get_float(node, epsilon),
              .type = node->dtype};
    bool in_row[SHAPE_MAX_RANK] = {false};
    for (uint32_t i = (uint32_t)node_get_int(node, axis); i < node->shape->rank; i++)
        in_row[i] = true;
    Rows r = rows_new(l, n.x, in_row, (double)NAN);
    rows_use_groups(l, &r);
    rows_begin_folds(l, &r);
    rows_emit(l, &r, norm_row, &n);
}

void lower_layer_norm(Lower *l)
{
    lower_norm(l, A_layer_norm_axis, A_layer_norm_epsilon, true);
}

void lower_rms_norm(Lower *l)
{
    lower_norm(l, A_rms_norm_axis, A_rms_norm_epsilon, false);
}
