// SPDX-License-Identifier: Apache-2.0
// mt19937: the words come one after the other, so this is one thread. The state after them is where the work
// is done; when nobody asks for it, that is scratch memory.
#include "passes/lower/operand.h"

enum { WORDS = 624, AHEAD = 397 };

typedef struct Generator {
    uint32_t work; // parameter
    KRef base;     // index of the first word in it
    KRef taken;    // variable: words taken since the last twist
} Generator;

static KRef word(Lower *l, int64_t v)
{
    return k_integer(l->k, DTYPE_u32, v);
}

static KRef load(Lower *l, const Generator *g, KRef i)
{
    return k_load(l->k, g->work, k_add(l->k, g->base, i), 1, 1);
}

static KRef op(Lower *l, KOp op, KRef a, KRef b)
{
    return k_op(l->k, op, a, b, 0);
}

// i modulo WORDS, for i < 2 * WORDS
static KRef wrapped(Lower *l, KRef i)
{
    const KRef n = k_index(l->k, WORDS);
    return k_select(l->k, op(l, KOP_lt, i, n), i, op(l, KOP_sub, i, n));
}

static void twist(Lower *l, const Generator *g)
{
    Kernel *k = l->k;
    const KRef i = k_loop(k, WORDS, KFOR_SERIAL, "i");
    const KRef next = load(l, g, wrapped(l, k_expr(k, "$ + 1", i)));
    const KRef y = op(l, KOP_or, op(l, KOP_and, load(l, g, i), word(l, 0x80000000)),
                      op(l, KOP_and, next, word(l, 0x7fffffff)));
    const KRef is_odd = op(l, KOP_ne, op(l, KOP_and, y, word(l, 1)), word(l, 0));
    const KRef mask = k_select(k, is_odd, word(l, 0x9908b0df), word(l, 0));
    const KRef ahead = load(l, g, wrapped(l, k_expr(k, "$ + #", i, AHEAD)));
    const KRef mixed = op(l, KOP_xor, op(l, KOP_xor, ahead, op(l, KOP_shr, y, word(l, 1))), mask);
    k_store(k, g->work, k_add(k, g->base, i), mixed, 1);
    k_end(k);
}

// y ^ (y shifted & mask)
static KRef fold(Lower *l, KRef y, KOp shift, int64_t by, int64_t mask)
{
    const KRef moved = op(l, shift, y, word(l, by));
    return op(l, KOP_xor, y, op(l, KOP_and, moved, word(l, mask)));
}

static KRef next_word(Lower *l, const Generator *g)
{
    Kernel *k = l->k;
    k_if(k, op(l, KOP_eq, k_get(k, g->taken), k_index(k, WORDS)));
    twist(l, g);
    k_set(k, g->taken, k_index(k, 0));
    k_end(k);
    const KRef at = k_get(k, g->taken);
    KRef y = load(l, g, at);
    k_set(k, g->taken, k_expr(k, "$ + 1", at));
    y = fold(l, y, KOP_shr, 11, 0xffffffff);
    y = fold(l, y, KOP_shl, 7, 0x9d2c5680);
    y = fold(l, y, KOP_shl, 15, 0xefc60000);
    return fold(l, y, KOP_shr, 18, 0xffffffff);
}

static Generator begin(Lower *l)
{
    Kernel *k = l->k;
    const NodeId state = lower_node(l, l->anchor)->src[0], after = lower_find_result(l, 1);
    Generator g = {.base = k_index(k, 0)};
    g.work = after ? lower_param(l, after, PARAM_READ_WRITE)
                   : lower_param_scratch(l, "generator", DTYPE_u32, WORDS + 1);
    const KRef i = k_loop(k, WORDS, KFOR_SERIAL, "i");
    k_store(k, g.work, k_add(k, g.base, i), operand_scalar(l, state, operand_index(l, state, &i), DTYPE_u32),
            1);
    k_end(k);
    const KRef last = k_index(k, WORDS);
    g.taken = k_var(k, operand_clamped(l, state, operand_index(l, state, &last), 0, WORDS), "taken");
    return g;
}

void lower_mt19937(Lower *l)
{
    Kernel *k = l->k;
    Domain d = domain_of(lower_node(l, l->root)->shape);
    Point at = {.lanes = 1, .count = 1};
    domain_add(l, &d, l->root);
    domain_add_operands(l, &d, l->root);
    const Generator g = begin(l);
    for (uint32_t i = 0; i < d.rank; i++)
        at.idx[i] = k_loop(k, d.extent[i], KFOR_SERIAL, "i");
    pull_store_root(l, &d, at, next_word(l, &g));
    for (uint32_t i = 0; i < d.rank; i++)
        k_end(k);
    k_store(k, g.work, k_expr(k, "$ + #", g.base, WORDS), k_cast(k, k_get(k, g.taken), DTYPE_u32), 1);
}
