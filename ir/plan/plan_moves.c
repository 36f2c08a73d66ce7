// SPDX-License-Identifier: Apache-2.0
// How numbers inside of a loop change from one iteration to the next. Part of plan_verify's replay of
// kernels.
#include "ir/kernel/kernel.h"
#include "ir/plan/plan_check.h"

// Faster than this, sums of moves could overflow; no buffer is that large.
#define FASTEST (INT64_C(1) << 32)

static int64_t checked(int64_t move)
{
    return move > FASTEST || move < -FASTEST ? PLAN_ANY_MOVE : move;
}

static int64_t times(int64_t move, int64_t by)
{
    int64_t v = 0;
    return move == PLAN_ANY_MOVE || __builtin_mul_overflow(move, by, &v) ? PLAN_ANY_MOVE : checked(v);
}

static int64_t sum_of(int64_t a, int64_t b)
{
    return a == PLAN_ANY_MOVE || b == PLAN_ANY_MOVE ? PLAN_ANY_MOVE : checked(a + b);
}

static int64_t operation(const Kernel *k, const KInst *n, int64_t a, int64_t b)
{
    int64_t by = 0;
    switch (n->kop) {
    case KOP_add:
        return sum_of(a, b);
    case KOP_sub:
        return sum_of(a, times(b, -1));
    case KOP_mul:
        if (k_is_const(k, n->a, &by))
            return times(b, by);
        return k_is_const(k, n->b, &by) ? times(a, by) : PLAN_ANY_MOVE;
    default:
        return PLAN_ANY_MOVE;
    }
}

// Of one instruction, from those of its operands. Values that are loaded are open in all iterations.
static int64_t move_of(const Kernel *k, const KInst *n, int64_t a, int64_t b, int64_t c)
{
    const bool is_wide = n->lanes == 1 && (n->dtype == KT_INDEX || n->dtype == DTYPE_i64);
    if ((a == 0 && b == 0 && c == 0) || n->kind == KI_load || n->kind == KI_aload)
        return 0;
    if (n->kind == KI_var || n->kind == KI_get || (n->kind == KI_cast && is_wide))
        return a;
    return n->kind == KI_op && is_wide ? operation(k, n, a, b) : PLAN_ANY_MOVE;
}

const int64_t *plan_moves(Arena *a, const Kernel *k, KRef loop, KRef end, const bool *is_needed)
{
    int64_t *move = ARENA_ARRAY(a, int64_t, end - loop);
    move[0] = 1;
    for (KRef i = loop + 1; i < end; i++) {
        const KInst *n = k_inst(k, i);
        if (!is_needed[i] || n->kind == KI_store || n->kind == KI_device)
            continue;
        const int64_t x = plan_move(move, loop, n->a), y = plan_move(move, loop, n->b);
        const bool is_block = n->kind == KI_for || n->kind == KI_if;
        if (n->kind == KI_set || (is_block && (x != 0 || y != 0)))
            return NULL;
        move[i - loop] = is_block ? 0 : move_of(k, n, x, y, plan_move(move, loop, n->c));
    }
    return move;
}
