// SPDX-License-Identifier: Apache-2.0
// copy: the operand's values in another order of axes in memory. Vectors where both orders agree on the
// innermost axis.
#include "passes/lower/operand.h"
#include "passes/lower/turn.h"
#include "passes/lower/wide.h"

static KRef copy_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const NodeId x = lower_node(l, l->anchor)->src[0];
    (void)d;
    (void)ctx;
    return operand_load(l, x, operand_index(l, x, at.idx), &at, 1);
}

static void store_turned(Lower *l, const Domain *d, Point at, NodeId from, KRef value)
{
    (void)from;
    pull_store_root(l, d, at, value);
}

static void store_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    Pull p = pull_at(l, d, at);
    (void)ctx;
    pull_store_root(l, d, at, pull_value(&p, lower_node(l, l->anchor)->src[0]));
}

void lower_copy(Lower *l)
{
    if (l->plan->rows.input != 0 && l->anchor == l->plan->rows.copy) { // each row as it comes
        lower_map(l, copy_point, NULL, MAP_SCALAR);
        return;
    }
    Domain d = domain_of_root(l);
    domain_add(l, &d, lower_node(l, l->anchor)->src[0]);
    domain_simplify(l, &d, l->root, NULL);
    if (wide_map(l, &d, store_point, NULL) || turn_map(l, &d, l->root, store_turned) ||
        wide_flat_map(l, &d, store_point, NULL) || wide_single_map(l, &d, store_point, NULL))
        return;
    const bool has_vectors = operand_has_vectors(l, lower_node(l, l->anchor)->src[0], operand_map_axis(l));
    lower_map(l, copy_point, NULL, has_vectors ? MAP_VECTOR : MAP_SCALAR);
}
