// SPDX-License-Identifier: Apache-2.0
// Kernels without an anchor: chains of elementwise nodes, and strided copies.
#include "passes/lower/operand.h"
#include "passes/lower/turn.h"
#include "passes/lower/wide.h"

static void elementwise_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    (void)ctx;
    pull_store_root(l, d, at, 0);
}

static void store_turned(Lower *l, const Domain *d, Point at, NodeId from, KRef value)
{
    pull_store_given(l, d, at, 0, &(Given){from, value});
}

void lower_elementwise(Lower *l)
{
    Domain d = domain_of_root(l);
    domain_simplify(l, &d, l->root, NULL);
    if (wide_map(l, &d, elementwise_point, NULL) || turn_map(l, &d, l->root, store_turned) ||
        wide_flat_map(l, &d, elementwise_point, NULL))
        return;
    lower_walk(l, &d, d.rank == 0 ? 1 : domain_lanes_apart(l, &d, d.rank - 1), elementwise_point, NULL);
}

static void store_copied(Lower *l, const Domain *d, Point at, NodeId from, KRef value)
{
    Pull p = pull_at(l, d, at);
    lower_store(l, lower_param_at(l, from, &l->pk->copy.dst, PARAM_WRITE), pull_index(&p, 0), value, &at);
}

static void copy_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    Pull p = pull_at(l, d, at);
    (void)ctx;
    store_copied(l, d, at, l->pk->copy.src, pull_value(&p, l->pk->copy.src));
}

void lower_strided_copy(Lower *l)
{
    const NodeId src = l->pk->copy.src;
    const Node *n = lower_node(l, src);
    Domain d = domain_of(n->shape);
    Access dst = {.node = 0};
    domain_trim(l, &d, src);
    d.is_exact = l->plan->buffers.data[l->pk->copy.dst.buf].region == REGION_STATE;
    for (uint32_t i = 0; i < d.rank; i++)
        dst.stride[i] = l->pk->copy.dst.stride[i];
    vec_push(l->plan->arena, &d.access, dst);
    domain_add(l, &d, src);
    domain_simplify(l, &d, 0, NULL);
    lower_param_at(l, src, &l->pk->copy.dst, PARAM_WRITE);
    if (wide_map(l, &d, copy_point, NULL) || turn_map(l, &d, 0, store_copied) ||
        wide_flat_map(l, &d, copy_point, NULL))
        return;
    const uint8_t lanes = d.rank == 0 ? 1 : operand_moved_lanes(l, &d, d.rank - 1, src);
    lower_walk(l, &d, lanes, copy_point, NULL);
}
