// SPDX-License-Identifier: Apache-2.0
// Kernels that pack parameters; see packer.h.
#include "passes/lower/packer.h"

#include <string.h>

// --- nodes ---------------------------------------------------------------------------------------

static bool depends_on_params_only(const Graph *g, NodeId id, const bool *lasting)
{
    const Node *n = graph_node(g, id);
    bool any = false;
    if (n->op == OP_param)
        return id != g->page;
    for (uint32_t i = 0; i < n->n_src; i++) {
        const NodeId src = n->src[i];
        if (src != 0 && !lasting[src] && !node_is_const(g, src))
            return false;
        any = any || (src != 0 && lasting[src]);
    }
    return any;
}

bool *packer_find_lasting(const Graph *g, Arena *a)
{
    rlx_assert(g->nodes.len > 0);
    bool *lasting = ARENA_ARRAY(a, bool, g->nodes.len), any = false;
    for (NodeId id = 1; id < g->nodes.len; id++) {
        lasting[id] = depends_on_params_only(g, id, lasting);
        any = any || lasting[id];
    }
    return any ? lasting : NULL;
}

// --- packing -------------------------------------------------------------------------------------

void packer_open(const Lower *l, NodeId id, DType t, uint64_t elements, Packer *packer)
{
    rlx_assert(lower_loc(l, id)->buf != 0 && elements < UINT64_MAX / dtype_info[t].bytes);
    Plan *p = l->plan;
    const PlanBuffer packed = {.region = REGION_ARENA,
                               .bytes = elements * dtype_info[t].bytes,
                               .align = 64,
                               .name = node_name(l->g, id)};
    *packer = (Packer){.l = *l};
    packer->l.pk = ARENA_NEW(p->arena, PlanKernel);
    *packer->l.pk = (PlanKernel){.root = id};
    packer->l.anchor = 0;
    packer->l.root = id;
    packer->l.k = kernel_new(
        l->pass->perm, arena_printf(p->arena, "%s%u_pack%u", p->prefix, l->index, p->prepare.packings.len));
    packer->l.k->comment = arena_printf(p->arena, "%s: packed for %s", node_name(l->g, id), l->k->name);
    packer->from = lower_param(&packer->l, id, PARAM_READ);
    vec_push(p->arena, &p->buffers, packed);
    packer->to = lower_param_buffer(&packer->l, p->buffers.len - 1, t, PARAM_WRITE);
}

void packer_close(Lower *l, Packer *packer)
{
    Plan *p = l->plan;
    PlanKernel *pk = packer->l.pk;
    const PlanArg *to = &pk->args.data[packer->to];
    rlx_assert(to->is_written && packer->from != packer->to);
    pk->kernel = packer->l.k;
    const char *wrong = kernel_verify(pk->kernel);
    if (wrong != NULL)
        diag_bug(pk->kernel->name, (int)l->index, wrong);
    packer->reader =
        lower_param_buffer(l, to->buf, (DType)pk->kernel->params.data[packer->to].dtype, PARAM_READ);
    vec_push(p->arena, &p->prepare.packings, ((PlanPacking){.kernel = *pk, .reader = l->index}));
}

const uint32_t *packer_add_kernels(Plan *p, Arena *a)
{
    const uint32_t n = p->kernels.len, n_checks = p->n_check_kernels;
    PlanKernel *old = ARENA_ARRAY(a, PlanKernel, n + 1);
    uint32_t *place = ARENA_ARRAY(a, uint32_t, n + 1);
    if (n != 0)
        memcpy(old, p->kernels.data, n * sizeof *old);
    p->kernels.len = 0;
    for (uint32_t i = 0, next = 0; i < n; i++) {
        for (; next < p->prepare.packings.len && p->prepare.packings.data[next].reader == i; next++)
            vec_push(p->arena, &p->kernels, p->prepare.packings.data[next].kernel);
        place[i] = p->kernels.len;
        vec_push(p->arena, &p->kernels, old[i]);
        if (i + 1 == n_checks)
            p->n_check_kernels = p->kernels.len;
    }
    rlx_assert(p->kernels.len == n + p->prepare.packings.len); // the readers' indices rise
    p->prepare.packings.len = 0;
    return place;
}
