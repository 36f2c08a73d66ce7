// SPDX-License-Identifier: Apache-2.0
// See facts.h.
#include "compiler/report/facts.h"

static void count_kernel(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    Totals *t = ctx;
    (void)p;
    t->macs += k->macs * times;
    t->flops += k->flops * times;
    t->moved_bytes += plan_kernel_bytes(k) * times;
}

static void count_ops(const Plan *p, Totals *t)
{
    const Graph *g = p->graph;
    for (NodeId id = 1; id < g->nodes.len; id++) {
        const Node *n = graph_node(g, id);
        if (n->op == OP_const || n->op == OP_param)
            t->parameters += (uint64_t)shape_numel(n->shape);
        if (op_info[n->op].kind == OPKIND_LEAF)
            continue;
        t->ops[n->op]++;
        t->n_ops++;
    }
    for (uint32_t i = 0; i < p->kernels.len; i++)
        if (p->kernels.data[i].loop != NULL)
            count_ops(p->kernels.data[i].loop->body, t);
}

Totals facts_kernels(Plan *p)
{
    Totals t = {0};
    plan_walk(p, count_kernel, &t);
    return t;
}

Totals facts_count(Plan *p)
{
    Totals t = facts_kernels(p);
    count_ops(p, &t);
    return t;
}
