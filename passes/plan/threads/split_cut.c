// SPDX-License-Identifier: Apache-2.0
// Which loops of a nest are cut: one of the loops around all of it; several as if they were one, where no
// single one has enough iterations; or the loops in its body, each for itself. Estimated time decides, of
// work and of memory.
#include "passes/plan/threads/split_parts.h"

// A division and a remainder for each iteration of joined loops.
static const double joined_cycles = 30;
// Setting up one share.
static const double share_cycles = 30;

// The loops of a perfect nest, outermost first; the outermost may have any bounds, the others constant ones.
static uint32_t nest_of(const Kernel *k, KRef r, KRef *level)
{
    uint32_t n = 0;
    while (n < SPLIT_MAX_LEVELS && split_is_parallel(k_inst(k, r))) {
        int64_t bound = 0;
        const KRef end = k_block_end(k, r);
        if (n > 0 && (!k_is_const(k, k_inst(k, r)->a, &bound) || !k_is_const(k, k_inst(k, r)->b, &bound)))
            break;
        level[n++] = r++;
        while (r < end && (kkind_is_expression(k_inst(k, r)->kind) || k_inst(k, r)->kind == KI_comment))
            r++;
        if (r == end || k_inst(k, r)->kind != KI_for || k_block_end(k, r) + 1 != end)
            break;
    }
    return n;
}

// Iterations of the thread that has most, as a share of all.
static double largest_share(double trips, double threads)
{
    const double rounds = (double)(int64_t)((trips + threads - 1) / threads);
    return trips > 0 ? rounds / trips : 1;
}

uint32_t split_cut_loops(const SplitCut *c, KRef *loops, uint32_t n)
{
    rlx_assert(n >= 1 && (c->n_joined == 0 || c->first + c->n_joined <= c->n_levels));
    uint32_t count = 0;
    if (c->n_joined > 0) {
        loops[count++] = c->level[c->first]; // the outer one of joined loops says how memory is divided
        return count;
    }
    for (uint32_t i = 0; i < c->children.len && count < n; i++)
        if (c->children.data[i].is_loop)
            loops[count++] = c->children.data[i].begin;
    return count;
}

// --- the children of a body ----------------------------------------------------------------------

static bool uses_variable(const KInst *n)
{
    return n->kind == KI_get || n->kind == KI_aload || n->kind == KI_set || n->kind == KI_astore;
}

bool split_may_change(const Split *s, uint32_t param)
{
    rlx_assert(param < s->k->params.len);
    for (uint32_t i = 0; i < s->k->params.len; i++)
        if (s->k->params.data[i].is_written && split_args_overlap(s, param, i))
            return true;
    return false;
}

static bool reads_changing(const Split *s, const KInst *n)
{
    return n->kind == KI_load && split_may_change(s, (uint32_t)n->imm);
}

void split_mark_inside(const Split *s, const SplitChild *c, bool *is_inside)
{
    rlx_assert(c->begin >= 1 && c->begin <= c->end && c->end < s->k->insts.len);
    const Kernel *k = s->k;
    int depth = 0;
    for (KRef r = c->begin; r <= c->end; r++) {
        const KInst *n = k_inst(k, r);
        const KRef src[3] = {n->a, n->b, n->c};
        bool inside = depth > 0 || !kkind_is_expression(n->kind) || uses_variable(n) || reads_changing(s, n);
        for (uint32_t i = 0; i < 3; i++)
            inside = inside || (src[i] >= c->begin && is_inside[src[i]]);
        is_inside[r] = inside;
        depth += kkind_depth(n->kind);
    }
}

// Nothing outside of the child uses its variables, and it changes none of others.
static bool has_own_variables(const Kernel *k, const SplitChild *c)
{
    for (KRef r = c->begin; r <= c->end; r++) {
        const KInst *n = k_inst(k, r);
        if ((n->kind == KI_set || n->kind == KI_astore) && n->a < c->begin)
            return false;
    }
    for (KRef r = c->end + 1; r < k->insts.len; r++) {
        const KInst *n = k_inst(k, r);
        if (uses_variable(n) && n->a >= c->begin && n->a <= c->end)
            return false;
    }
    return true;
}

bool split_is_closed(const Split *s, const SplitChild *c)
{
    rlx_assert(c->begin >= 1 && c->begin <= c->end && c->end < s->k->insts.len);
    bool *is_inside = ARENA_ARRAY(s->arena, bool, s->k->insts.len);
    if (!has_own_variables(s->k, c))
        return false;
    split_mark_inside(s, c, is_inside);
    for (KRef r = c->end + 1; r < s->k->insts.len; r++) {
        const KInst *n = k_inst(s->k, r);
        const KRef src[3] = {n->a, n->b, n->c};
        for (uint32_t i = 0; i < 3; i++)
            if (src[i] >= c->begin && src[i] <= c->end && is_inside[src[i]])
                return false;
    }
    return true;
}

static void add_child(const Split *s, SplitCut *c, SplitChild child)
{
    SplitChild *last = c->children.len > 0 ? &c->children.data[c->children.len - 1] : NULL;
    if (last != NULL && !last->is_loop && !child.is_loop)
        last->end = child.end;
    else
        vec_push(s->arena, &c->children, child);
}

// What a child stores may be what loads right before it read, in place: such a load is a part of it, so that
// only the thread that stores reads, unless others need the value. from: where the code before it ends.
static void take_loads(const Split *s, SplitChild *c, KRef from)
{
    for (SplitChild more = {.begin = from, .end = c->end}; more.begin < c->begin; more.begin++)
        if (reads_changing(s, k_inst(s->k, more.begin)) && split_is_closed(s, &more))
            *c = more;
}

// Do no two children meet in that way or a worse one?
static bool never_meet(const Split *s, const SplitCut *c, SplitMeeting how)
{
    for (uint32_t i = 0; i < c->children.len; i++)
        for (uint32_t j = 0; j < c->children.len; j++)
            if (i != j && split_meeting(s, &c->children.data[i], &c->children.data[j]) >= how)
                return false;
    return true;
}

bool split_find_children(const Split *s, KRef loop, SplitCut *c)
{
    rlx_assert(k_inst(s->k, loop)->kind == KI_for);
    const KRef end = k_block_end(s->k, loop);
    bool has_loop = false;
    c->children.len = 0;
    for (KRef r = loop + 1; r < end; r++) {
        const KInst *n = k_inst(s->k, r);
        SplitChild child = {.begin = r, .end = r, .is_loop = split_is_parallel(n)};
        if (n->kind == KI_comment || kkind_is_expression(n->kind))
            continue;
        if (n->kind == KI_barrier)
            return false;
        if (n->kind == KI_for || n->kind == KI_if)
            r = child.end = k_block_end(s->k, r);
        has_loop = has_loop || child.is_loop;
        add_child(s, c, child);
    }
    for (uint32_t i = 0; i < c->children.len; i++) {
        SplitChild *child = &c->children.data[i];
        if (!split_is_closed(s, child))
            return false;
        if (!child->is_loop)
            take_loads(s, child, i == 0 ? loop + 1 : c->children.data[i - 1].end + 1);
    }
    return has_loop && never_meet(s, c, MEET_NEVER);
}

// --- choosing ------------------------------------------------------------------------------------

double split_children_cycles(const Split *s, const SplitCut *c, double times)
{
    rlx_assert(times >= 0 && s->plan->caps->threads >= 1);
    const double threads = s->plan->caps->threads;
    double sum = 0, units = 0, most = 0;
    for (uint32_t i = 0; i < c->children.len; i++) {
        const SplitChild *child = &c->children.data[i];
        const double cycles = split_range_cycles(s, child->begin, child->end);
        if (child->is_loop)
            sum +=
                share_cycles + cycles * largest_share(split_trips(s->k, k_inst(s->k, child->begin)), threads);
        else
            units += cycles;
        most = !child->is_loop && cycles > most ? cycles : most;
    }
    return times * (sum + (units / threads > most ? units / threads : most));
}

typedef struct Best {
    SplitCut cut;
    double cycles;
} Best;

static void weigh(const Split *s, const SplitStep *t, const SplitCut *c, double work, Best *best)
{
    KRef loops[64];
    const uint32_t n = split_cut_loops(c, loops, 64);
    const double cycles = work + split_memory_cycles(s, t, loops, n);
    if (best->cycles < 0 || cycles < best->cycles)
        *best = (Best){*c, cycles};
}

void split_choose_cut(const Split *s, SplitStep *t)
{
    rlx_assert(t->kind == STEP_NEST && split_is_parallel(k_inst(s->k, t->begin)));
    SplitCut c = {.n_joined = 1};
    const double threads = s->plan->caps->threads, all = split_range_cycles(s, t->begin, t->end);
    const uint32_t n = nest_of(s->k, t->begin, c.level);
    c.n_levels = n;
    Best best = {.cycles = -1};
    double trips[SPLIT_MAX_LEVELS], outer = 1, joined = 1;
    int64_t bound = 0;
    const KInst *top = k_inst(s->k, t->begin);
    const bool is_fixed = k_is_const(s->k, top->a, &bound) && k_is_const(s->k, top->b, &bound);
    for (uint32_t i = 0; i < n; i++) {
        trips[i] = split_trips(s->k, k_inst(s->k, c.level[i]));
        c.first = i;
        c.n_joined = 1;
        weigh(s, t, &c, all * largest_share(trips[i], threads) + outer * share_cycles, &best);
        outer *= trips[i];
        joined *= trips[i];
        c.first = 0;
        c.n_joined = i + 1;
        if (i > 0 && is_fixed)
            weigh(s, t, &c, all * largest_share(joined, threads) + joined / threads * joined_cycles, &best);
    }
    c.first = n - 1;
    c.n_joined = 0;
    if (split_find_children(s, c.level[n - 1], &c) && never_meet(s, &c, MEET_BARRIER))
        weigh(s, t, &c, split_children_cycles(s, &c, outer), &best);
    t->cut = best.cut;
    t->cycles = best.cycles;
}
