// SPDX-License-Identifier: Apache-2.0
// Cuts a shared kernel at the barriers of its top level. What stands between two of them is a phase, a kernel
// of its own, so that whoever runs the parts decides how they wait: threads of a pool at a barrier, the tasks
// of a parallel_for by ending. A phase has the statements of its range that write memory, and computes again
// what these need of the values and variables from before. A kernel stays whole when that may come out
// differently by then: when it was read from memory that the kernel writes.
#include "passes/plan/threads/split_parts.h"

typedef struct Slice {
    const Split *s;
    const Kernel *k;
    KRef begin, end; // the range of the phase: instructions in [begin, end)
    bool *is_wanted; // by instruction: a later one that is needed reads the value or variable
    bool *is_needed; // by instruction: the phase has it
} Slice;

static KRef end_of(const Kernel *k, KRef r)
{
    return k_inst(k, r)->kind == KI_for || k_inst(k, r)->kind == KI_if ? k_block_end(k, r) : r;
}

// --- what a phase needs --------------------------------------------------------------------------

// Does a statement of the top level do more than compute locals?
static bool has_effect(const Kernel *k, KRef begin, KRef end)
{
    bool has = false;
    for (KRef r = begin; r <= end; r++) {
        const KInst *n = k_inst(k, r);
        has = has || k_writes_param(n) || n->kind == KI_matrix || n->kind == KI_prefetch ||
              n->kind == KI_point || n->kind == KI_barrier;
    }
    return has;
}

// Is it a value or variable that is wanted, or does it change such a variable?
static bool is_asked_for(const Slice *c, KRef begin, KRef end)
{
    bool is_asked = c->is_wanted[begin];
    for (KRef r = begin; r <= end; r++) {
        const KInst *n = k_inst(c->k, r);
        const bool is_stored = n->kind == KI_matrix && n->kop == KMATRIX_store;
        const bool changes = n->kind == KI_set || n->kind == KI_astore || is_stored;
        is_asked = is_asked || (changes && c->is_wanted[n->a]);
    }
    return is_asked;
}

// Can a statement that stands before the phase run again in it?
static bool can_repeat(const Slice *c, KRef begin, KRef end)
{
    bool can = !has_effect(c->k, begin, end);
    for (KRef r = begin; r <= end; r++) {
        const KInst *n = k_inst(c->k, r);
        can = can && !(n->kind == KI_load && split_may_change(c->s, (uint32_t)n->imm));
    }
    return can;
}

static void take(Slice *c, KRef begin, KRef end)
{
    for (KRef r = begin; r <= end; r++) {
        const KInst *n = k_inst(c->k, r);
        c->is_needed[r] = true;
        c->is_wanted[n->a] = c->is_wanted[n->b] = c->is_wanted[n->c] = true;
    }
    c->is_wanted[0] = false;
}

// The statements of the top level: a phase has all of one, or nothing. Returns how many.
static uint32_t find_statements(const Kernel *k, Arena *a, KRef **out)
{
    uint32_t n = 0;
    *out = ARENA_ARRAY(a, KRef, k->insts.len);
    for (KRef r = 1; r < k->insts.len; r = end_of(k, r) + 1)
        (*out)[n++] = r;
    return n;
}

// From the last statement to the first, so that all is known of a value when it comes. False: the phase needs
// what cannot be computed again.
static bool find_needed(Slice *c, const KRef *statement, uint32_t n)
{
    bool is_possible = true;
    for (uint32_t i = n; i-- > 0;) {
        const KRef r = statement[i], end = end_of(c->k, r);
        const bool is_own = r >= c->begin && r < c->end;
        if (r >= c->end || !((is_own && has_effect(c->k, r, end)) || is_asked_for(c, r, end)))
            continue;
        is_possible = is_possible && (is_own || can_repeat(c, r, end));
        take(c, r, end);
    }
    return is_possible;
}

// --- the kernel of a phase -----------------------------------------------------------------------

static bool names_param(const KInst *n)
{
    return n->kind == KI_load || n->kind == KI_store || n->kind == KI_prefetch || n->kind == KI_point ||
           (n->kind == KI_matrix && (n->kop == KMATRIX_load || n->kop == KMATRIX_split));
}

// The parameters that it names, in their order, with those that have addresses for them. map: by number in
// the whole kernel.
static void copy_params(const Slice *c, PlanPhase *out, uint32_t *map)
{
    Arena *a = out->kernel->arena;
    bool *is_used = ARENA_ARRAY(c->s->arena, bool, c->k->params.len + 1u);
    out->args = ARENA_ARRAY(a, uint32_t, c->k->params.len + 1u);
    for (KRef r = 1; r < c->end; r++)
        if (c->is_needed[r] && names_param(k_inst(c->k, r)))
            is_used[k_inst(c->k, r)->imm] = true;
    for (uint32_t i = 0; i < c->k->params.len; i++)
        if (is_used[i] && c->k->params.data[i].table != 0)
            is_used[c->k->params.data[i].table - 1] = true;
    for (uint32_t i = 0; i < c->k->params.len; i++) {
        map[i] = out->kernel->params.len;
        if (!is_used[i])
            continue;
        out->args[map[i]] = i;
        vec_push(a, &out->kernel->params, c->k->params.data[i]);
    }
    for (uint32_t i = 0; i < out->kernel->params.len; i++) {
        KParam *p = &out->kernel->params.data[i];
        p->table = p->table != 0 ? 1 + map[p->table - 1] : 0;
    }
}

static void copy_needed(const Slice *c, Kernel *to, const uint32_t *param)
{
    KRef *map = ARENA_ARRAY(c->s->arena, KRef, c->k->insts.len);
    for (KRef r = 1; r < c->end; r++) {
        KInst n = *k_inst(c->k, r);
        if (!c->is_needed[r])
            continue;
        n.a = map[n.a];
        n.b = map[n.b];
        n.c = map[n.c];
        if (names_param(&n))
            n.imm = param[n.imm];
        rlx_assert(n.a < r && n.b < r && n.c < r);
        map[r] = k_append(to, &n);
    }
}

static PlanPhase make_phase(const Slice *c, uint32_t index)
{
    const Kernel *k = c->k;
    uint32_t *param = ARENA_ARRAY(c->s->arena, uint32_t, k->params.len + 1u);
    PlanPhase phase = {.kernel = kernel_new(k->arena, arena_printf(k->arena, "%s_phase%u", k->name, index))};
    phase.kernel->comment = k->comment;
    phase.kernel->may_alias = k->may_alias;
    copy_params(c, &phase, param);
    copy_needed(c, phase.kernel, param);
    const char *wrong = kernel_verify(phase.kernel);
    if (wrong != NULL)
        diag_bug(phase.kernel->name, 0, wrong);
    return phase;
}

// Where matrix registers are in use, or a parameter points elsewhere, the kernel is not cut.
static bool can_cut_here(const Kernel *k, KRef barrier)
{
    bool can = true;
    for (KRef r = 1; r < barrier; r = end_of(k, r) + 1) {
        const KInst *n = k_inst(k, r);
        if (n->kind == KI_matrix)
            can = n->kop == KMATRIX_end;
        else if (n->kind == KI_point)
            return false;
    }
    return can;
}

// Appends what stands in [begin, end) as a phase. False: it cannot be one.
static bool add_phase(const Split *s, PlanKernel *pk, KRef begin, KRef end, const KRef *statement, uint32_t n)
{
    Slice c = {.s = s, .k = s->k, .begin = begin, .end = end};
    c.is_wanted = ARENA_ARRAY(s->arena, bool, s->k->insts.len);
    c.is_needed = ARENA_ARRAY(s->arena, bool, s->k->insts.len);
    if (!can_cut_here(s->k, begin) || !find_needed(&c, statement, n))
        return false;
    const PlanPhase phase = make_phase(&c, pk->threads.phases.len);
    if (has_effect(s->k, begin, end - 1))
        vec_push(s->plan->arena, &pk->threads.phases, phase);
    return true;
}

void split_phases(const Plan *p, PlanKernel *pk)
{
    rlx_assert(pk->threads.is_shared && pk->threads.phases.len == 0);
    Arena scratch = {0};
    const Split s = {.plan = p, .pk = pk, .k = pk->kernel, .arena = &scratch};
    KRef *statement, begin = 1;
    const uint32_t n = find_statements(s.k, &scratch, &statement);
    bool is_possible = true;
    for (uint32_t i = 0; i <= n && is_possible; i++) {
        const KRef end = i < n ? statement[i] : s.k->insts.len;
        if (i < n ? k_inst(s.k, end)->kind != KI_barrier : begin == 1)
            continue;
        is_possible = add_phase(&s, pk, begin, end, statement, n);
        begin = end + 1;
    }
    if (!is_possible)
        pk->threads.phases.len = 0;
    arena_free(&scratch);
}
