// SPDX-License-Identifier: Apache-2.0
// Mesa's driver for CPUs ends all loops of a thread after 65535 iterations (LP_MAX_TGSI_LOOP_ITERATIONS):
// what a longer one computes is wrong there.
#ifndef TESTS_GPU_DRIVER_LOOPS_H
#define TESTS_GPU_DRIVER_LOOPS_H

#include "codegen/target/target.h"

enum { DRIVER_ITERATIONS = 65535, DRIVER_DEPTH = 64 };

static inline bool is_of_grid(const KernelGrid *g, KRef loop)
{
    for (uint32_t i = 0; i < g->n_loops; i++)
        if (g->loop[i] == loop)
            return true;
    return false;
}

// Is a value at most *v, as a constant or as the lesser of one and something else?
static inline bool is_at_most(const Kernel *k, KRef r, int64_t *v)
{
    const KInst *n = k_inst(k, r);
    while (n->kind == KI_cast)
        n = k_inst(k, r = n->a);
    return k_is_const(k, r, v) ||
           (n->kind == KI_op && n->kop == KOP_min && (k_is_const(k, n->a, v) || k_is_const(k, n->b, v)));
}

// The most iterations of a loop in one thread that begins at a constant; 1 where that is not known.
static inline uint64_t trips_of(const Kernel *k, const KernelGrid *g, KRef loop)
{
    const KInst *n = k_inst(k, loop);
    int64_t from, to;
    if (is_of_grid(g, loop) || !k_is_const(k, n->a, &from) || !is_at_most(k, n->b, &to) || to <= from)
        return 1;
    return (uint64_t)((to - from + n->imm - 1) / n->imm);
}

// Iterations of all loops of a thread of the kernel.
static inline uint64_t driver_iterations(const Kernel *k)
{
    const KernelGrid g = kernel_grid(k);
    uint64_t times[DRIVER_DEPTH] = {1}, sum = 0;
    uint32_t depth = 0;
    for (KRef r = 1; r < k->insts.len; r++) {
        const KInst *n = k_inst(k, r);
        const bool is_loop = n->kind == KI_for;
        depth -= kkind_closes(n->kind);
        if (!kkind_opens(n->kind))
            continue;
        rlx_assert(depth + 1 < DRIVER_DEPTH);
        times[depth + 1] = times[depth] * (is_loop ? trips_of(k, &g, r) : 1);
        sum += is_loop ? times[depth] + times[depth + 1] : 0; // the driver counts the end of a loop as well
        depth++;
    }
    return sum;
}

#endif
