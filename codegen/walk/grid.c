// SPDX-License-Identifier: Apache-2.0
// Which loops of a kernel become the thread grid. Used by the printed text and by whoever launches it, so
// that both agree.
#include "codegen/walk/sequence.h"

static bool is_statement(const Kernel *k, KRef r)
{
    const uint8_t kind = k_inst(k, r)->kind;
    return !kkind_is_expression(kind) && kind != KI_comment;
}

static KRef next_statement(const Kernel *k, KRef begin, KRef end)
{
    while (begin < end && !is_statement(k, begin))
        begin++;
    return begin;
}

uint64_t grid_trip_count(const Kernel *k, KRef loop)
{
    int64_t lo = 0, hi = 0;
    const KInst *n = k_inst(k, loop);
    const bool is_grid = n->kind == KI_for && (n->flags == KFOR_PARALLEL || n->flags == KFOR_GROUP);
    if (!is_grid || !k_is_const(k, n->a, &lo) || !k_is_const(k, n->b, &hi))
        return 0;
    return hi <= lo ? 0 : ((uint64_t)hi - (uint64_t)lo + (uint64_t)n->imm - 1) / (uint64_t)n->imm;
}

uint64_t grid_stride(const Kernel *k, const KernelGrid *g, uint32_t place)
{
    rlx_assert(place < g->n_loops);
    uint64_t n = 1;
    for (uint32_t i = 0; i < place; i++)
        n *= grid_trip_count(k, g->loop[i]);
    return n;
}

// Perfectly nested parallel loops at the top, outermost first.
static uint32_t find_parallel(const Kernel *k, KRef *nest)
{
    uint32_t n = 0;
    KRef begin = 1, end = k->insts.len;
    while (n < GRID_MAX_LOOPS) {
        const KRef loop = next_statement(k, begin, end);
        if (loop == end || !grid_trip_count(k, loop))
            break;
        const KRef close = k_block_end(k, loop);
        if (next_statement(k, close + 1, end) != end)
            break;
        nest[n++] = loop;
        begin = loop + 1;
        end = close;
    }
    return n;
}

static uint32_t find_groups(const Kernel *k, KRef *nest)
{
    uint32_t n = 0;
    for (KRef r = 1; r < k->insts.len; r++) {
        if (k_inst(k, r)->kind != KI_for || k_inst(k, r)->flags != KFOR_GROUP)
            continue;
        rlx_assert(n < GRID_MAX_LOOPS);
        nest[n++] = r;
    }
    return n;
}

KernelGrid kernel_grid(const Kernel *k)
{
    rlx_assert(k->insts.len != 0);
    KRef nest[GRID_MAX_LOOPS];
    KernelGrid g = {.group = k->group != 0 ? k->group : GRID_GROUP_X};
    uint64_t product = 1;
    g.n_loops = k->group != 0 ? find_groups(k, nest) : find_parallel(k, nest);
    for (uint32_t i = 0; i < g.n_loops; i++) {
        g.loop[i] = nest[g.n_loops - 1 - i];
        const uint64_t n = grid_trip_count(k, g.loop[i]);
        rlx_assert(n < (UINT64_C(1) << 48) / (product != 0 ? product : 1));
        product *= n;
    }
    g.groups = k->group != 0 ? product : (product + g.group - 1) / g.group;
    g.threads = k->group != 0 ? product * g.group : product;
    return g;
}
