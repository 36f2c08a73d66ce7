// SPDX-License-Identifier: Apache-2.0
// How far accesses move. See slope.h.
#include "passes/plan/ram/slope.h"
#include "ir/kernel/device.h"

// A value that is no sum of multiples of the loop's variable, or one that grows faster than buffers are
// large.
#define STEEP INT64_MIN
#define MOST  (INT64_C(1) << 32)

static int64_t scaled(int64_t slope, int64_t by)
{
    int64_t v = 0;
    return slope == STEEP || __builtin_mul_overflow(slope, by, &v) || v > MOST || v < -MOST ? STEEP : v;
}

static int64_t added(int64_t a, int64_t b)
{
    return a == STEEP || b == STEEP ? STEEP : scaled(a + b, 1);
}

static int64_t slope_at(const SlopeQuestion *q, KRef r)
{
    return r == q->loop ? 1 : r < q->loop ? 0 : q->slope[r];
}

static int64_t slope_of(const SlopeQuestion *q, const KInst *n)
{
    const int64_t a = slope_at(q, n->a), b = slope_at(q, n->b), c = slope_at(q, n->c);
    const bool is_wide = n->lanes == 1 && (n->dtype == KT_INDEX || n->dtype == DTYPE_i64);
    int64_t by = 0;
    if ((a == 0 && b == 0 && c == 0) || n->kind == KI_load || n->kind == KI_aload)
        return 0; // what is loaded is never known, in no iteration
    if (n->kind == KI_get || n->kind == KI_var || (n->kind == KI_cast && n->imm == KCAST_VALUE && is_wide))
        return a;
    if (n->kind != KI_op || !is_wide)
        return STEEP;
    if (n->kop == KOP_add || n->kop == KOP_sub)
        return added(a, n->kop == KOP_add ? b : scaled(b, -1));
    if (n->kop == KOP_mul && b == 0 && k_is_const(q->k, n->b, &by))
        return scaled(a, by);
    return n->kop == KOP_mul && a == 0 && k_is_const(q->k, n->a, &by) ? scaled(b, by) : STEEP;
}

typedef struct Seen {
    const SlopeQuestion *q;
    Slope slope;
    bool any[2]; // read, written
} Seen;

static void see(Seen *s, uint32_t param, KRef index, bool is_write)
{
    const int64_t bytes = dtype_info[s->q->k->params.data[param].dtype].bytes;
    const int64_t slope = scaled(slope_at(s->q, index), bytes);
    int64_t *known = is_write ? &s->slope.writes : &s->slope.reads;
    s->slope.is_even = s->slope.is_even && slope != STEEP && (!s->any[is_write] || *known == slope);
    s->any[is_write] = true;
    *known = slope;
}

// Operands that say how much is read must be the same in each iteration; what may be all of a parameter does
// not move.
static void see_call(Seen *s, const KInst *n)
{
    const SlopeQuestion *q = s->q;
    for (uint32_t i = 0; k_device_operand(q->k, n, i) != 0; i++) {
        const KInst *o = k_inst(q->k, k_device_operand(q->k, n, i));
        const KDeviceAccess *a = k_device_access(kdev_of(n), i);
        if (o->kind != KI_address || (!q->watch->reads[o->imm] && !q->watch->writes[o->imm]))
            continue;
        s->slope.is_even = s->slope.is_even && a != NULL;
        for (uint32_t j = 0; a != NULL && a->needs >> j != 0; j++)
            if ((a->needs >> j & 1) != 0 && slope_at(q, k_device_operand(q->k, n, j)) != 0)
                s->slope.is_even = false;
        if (a != NULL && (a->is_write ? q->watch->writes : q->watch->reads)[o->imm])
            see(s, (uint32_t)o->imm, o->a, a->is_write);
    }
}

static void see_instruction(Seen *s, KRef r)
{
    const SlopeQuestion *q = s->q;
    const KInst *n = k_inst(q->k, r);
    const bool is_block = n->kind == KI_for || n->kind == KI_if;
    q->slope[r] = is_block ? 0 : slope_of(q, n);
    if (is_block && (slope_at(q, n->a) != 0 || slope_at(q, n->b) != 0))
        s->slope.is_even = false;
    if (n->kind == KI_set)
        s->slope.is_even = false;
    if (n->kind == KI_device)
        see_call(s, n);
    else if (k_reads_param(n) && q->watch->reads[n->imm])
        see(s, (uint32_t)n->imm, n->a, false);
    else if (k_writes_param(n) && q->watch->writes[n->imm])
        see(s, (uint32_t)n->imm, n->kind == KI_store ? n->b : n->a, true);
}

Slope slope_of_loop(const SlopeQuestion *q)
{
    Seen s = {.q = q, .slope.is_even = true};
    for (KRef r = q->loop + 1; r < q->end && s.slope.is_even; r++)
        if (q->need[r] != 0)
            see_instruction(&s, r);
    return s.slope;
}
