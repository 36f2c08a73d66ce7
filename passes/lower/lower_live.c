// SPDX-License-Identifier: Apache-2.0
// Bounds of loops that only a run knows: sizes are loaded at the start of the kernel that needs them.
#include "passes/lower/lower.h"

// Has a kernel before this one stored it?
static bool is_stored(const Lower *l, NodeId size)
{
    const NodeId source = live_source(l->g, size);
    if (op_info[lower_node(l, source)->op].kind == OPKIND_LEAF)
        return true;
    for (uint32_t i = 0; i < l->index; i++)
        if (l->plan->kernels.data[i].root == source && l->plan->kernels.data[i].copy.src == 0)
            return true;
    return false;
}

void lower_begin_sizes(Lower *l)
{
    rlx_assert(l->sizes.n == 0);
    NodeId size[LIVE_MAX_SIZES];
    const uint32_t n = live_sizes(l->plan, l->pk, size);
    for (uint32_t i = 0; i < n; i++) {
        if (!live_is_apart(l->plan, l->pk, size[i]) || !is_stored(l, size[i]))
            continue;
        const KRef v = k_load(l->k, lower_param(l, size[i], PARAM_READ), k_index(l->k, 0), 1, 1);
        rlx_assert(l->sizes.n < LIVE_MAX_SIZES);
        l->sizes.node[l->sizes.n] = size[i];
        l->sizes.value[l->sizes.n++] = k_cast(l->k, v, KT_INDEX);
    }
}

static KRef value_of(const Lower *l, NodeId size)
{
    for (uint32_t i = 0; i < l->sizes.n; i++)
        if (l->sizes.node[i] == size)
            return l->sizes.value[i];
    return 0;
}

bool lower_knows(const Lower *l, const LiveRef *r)
{
    return r->size != 0 && value_of(l, r->size) != 0;
}

KRef lower_live(Lower *l, const LiveRef *r, int64_t extent)
{
    Kernel *k = l->k;
    if (!lower_knows(l, r))
        return k_index(k, extent);
    KRef v = k_expr(k, "$ * # + #", value_of(l, r->size), r->mul, r->add);
    rlx_assert(r->div >= 1 && extent >= 0);
    v = k_expr(k, "max($, 0)", v);
    if (r->div != 1)
        v = k_expr(k, "$ / #", v, r->div);
    return k_expr(k, "min($, #)", v, extent);
}

bool lower_is_unmasked(const Lower *l, NodeId id)
{
    for (uint32_t i = 0; i < l->sizes.n_unmasked; i++)
        if (l->sizes.unmasked[i] == id)
            return true;
    return false;
}
