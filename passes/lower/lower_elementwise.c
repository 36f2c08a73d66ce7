// SPDX-License-Identifier: Apache-2.0
// Kernels without an anchor: chains of elementwise nodes, and strided copies.
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
    Domain d = domain_of(lower_node(l, l->root)->shape);
    domain_trim(l, &d, l->root);
    domain_add(l, &d, l->root);
    domain_add_operands(l, &d, l->root);
    domain_simplify(l, &d, l->root, NULL);
    if (wide_map(l, &d, elementwise_point, NULL) || turn_map(l, &d, l->root, store_turned) ||
        wide_flat_map(l, &d, elementwise_point, NULL))
        return;
    lower_walk(l, &d, d.rank == 0 ? 1 : domain_lanes(l, &d, d.rank - 1), elementwise_point, NULL);
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

// Lanes of a copy. Long runs are copied by scalars: compilers make a call of memcpy of such a loop, and C
// libraries know stores that do not read what they replace. So are 16-bit floats, which vectors would
// convert.
static uint8_t copied_lanes(const Lower *l, const Domain *d, NodeId src)
{
    enum { RUN_BYTES = 4096 };
    if (d->rank == 0)
        return 1;
    const uint32_t last = d->rank - 1;
    const DType t = lower_node(l, src)->dtype;
    const int64_t bytes = d->extent[last] * (int64_t)dtype_info[t].bytes;
    bool is_run = !l->caps->is_gpu && (bytes >= RUN_BYTES || k_is_half(t));
    for (uint32_t i = 0; i < d->access.len; i++)
        is_run = is_run && d->access.data[i].stride[last] == 1;
    return is_run ? 1 : domain_lanes(l, d, last);
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
    lower_walk(l, &d, copied_lanes(l, &d, src), copy_point, NULL);
}
