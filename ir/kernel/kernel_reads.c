// SPDX-License-Identifier: Apache-2.0
// How often a thread of a GPU's kernel reads memory: a measure of how long the kernel takes. Separate from
// kernel_work.c, which counts everything that a run executes, and takes as long as that is.
#include "ir/kernel/kernel.h"

// Loops that a kernel opens inside of each other. Those further in count as one turn.
enum { MAX_DEPTH = 64, MANY_READS = 128 };

// Turns of a loop whose bounds are not known: it ends where data of a run do, which are few steps mostly.
static const double unknown_turns = 4;

static double turns_of(const Kernel *k, const KInst *n)
{
    const bool is_grid = n->flags == KFOR_GROUP || (n->flags == KFOR_PARALLEL && k->group == 0);
    int64_t lo = 0, hi = 0;
    if (n->kind != KI_for || is_grid)
        return 1;
    if (!k_is_const(k, n->a, &lo) || !k_is_const(k, n->b, &hi))
        return unknown_turns;
    return hi <= lo ? 0 : (double)(hi - lo) / (double)n->imm;
}

double kernel_reads(const Kernel *k)
{
    rlx_assert(k->insts.len != 0);
    double times[MAX_DEPTH + 1] = {1}, reads = 0;
    uint32_t depth = 0;
    for (KRef r = 1; r < k->insts.len; r++) {
        const KInst *n = k_inst(k, r);
        const uint32_t level = depth < MAX_DEPTH ? depth : MAX_DEPTH;
        if (kkind_info[n->kind].block == KBLOCK_OPEN && ++depth <= MAX_DEPTH)
            times[depth] = times[level] * turns_of(k, n);
        depth -= kkind_info[n->kind].block == KBLOCK_CLOSE;
        if (k_reads_param(n))
            reads += times[level];
    }
    return reads;
}

bool kernel_takes_long(const Kernel *k)
{
    rlx_assert(k->insts.len != 0);
    return k->shared_bytes == 0 && kernel_reads(k) > MANY_READS;
}
