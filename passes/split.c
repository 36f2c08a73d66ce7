// SPDX-License-Identifier: Apache-2.0
// Splitting a kernel. Its top level is a list of steps: nests of parallel loops (every thread takes a share
// of the iterations), code that only computes locals (every thread runs it), and the rest (one thread runs
// it). Shares are static: part p of n takes iterations [p * trips / n, (p + 1) * trips / n), so sums are
// never divided and results do not depend on n. Nests that do not depend on each other need no barrier in
// between; schedules promise that of neighbouring nests that write one buffer (KI_barrier says otherwise).
#include "passes/split.h"

#include <string.h>

// --- cost ----------------------------------------------------------------------------------------

// Bytes that come from beyond the second-level cache, and from within it, in a cycle.
static const double far_bytes = 4, near_bytes = 16;
// Iterations of a loop whose bounds are known only in a run.
static const double unknown_trips = 16;

static double trips_of(const Kernel *k, const KInst *n)
{
    int64_t lo = 0, hi = 0;
    if (!k_is_const(k, n->a, &lo) || !k_is_const(k, n->b, &hi))
        return unknown_trips;
    return hi <= lo ? 0 : (double)(((uint64_t)hi - (uint64_t)lo + (uint64_t)n->imm - 1) / (uint64_t)n->imm);
}

static double inst_cycles(const KInst *n)
{
    switch (n->kind) {
    case KI_op:
        return n->dtype == KT_INDEX ? 0.1 : 0.5 * kop_info[n->kop].cost;
    case KI_hreduce:
        return 4;
    case KI_store:
    case KI_for:
        return 1;
    case KI_load:
    case KI_cast:
        return 0.5;
    default:
        return 0;
    }
}

static double range_cycles(const Kernel *k, KRef begin, KRef end)
{
    double times[64] = {1}, sum = 0;
    uint32_t depth = 0;
    for (KRef r = begin; r <= end; r++) {
        const KInst *n = k_inst(k, r);
        if (n->kind == KI_for || n->kind == KI_if) {
            times[depth + 1] = times[depth] * (n->kind == KI_for ? trips_of(k, n) : 1);
            depth++;
        }
        sum += inst_cycles(n) * times[depth];
        depth -= n->kind == KI_end;
    }
    return sum;
}

double split_cycles(const Plan *p, const PlanKernel *pk)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < pk->args.len; i++)
        bytes += pk->args.data[i].end - pk->args.data[i].begin;
    const double moved = (double)bytes / (bytes > p->caps->l2_bytes ? far_bytes : near_bytes);
    const double computed = range_cycles(pk->kernel, 1, pk->kernel->insts.len - 1);
    return moved > computed ? moved : computed;
}

// --- the steps of a kernel -----------------------------------------------------------------------

typedef enum StepKind {
    STEP_ALL,     // writes no memory: every thread runs it
    STEP_ONE,     // one thread runs it
    STEP_NEST,    // parallel loops, shared
    STEP_BARRIER, // the schedule's own
} StepKind;

enum { MAX_LEVELS = 8 };

typedef struct Step {
    StepKind kind;
    KRef begin, end;          // instructions, inclusive
    uint32_t first, n_levels; // NEST: which of the nested loops are cut: one, or several as if they were one
    bool needs_barrier;       // before it
    bool *is_read, *is_written; // by parameter
} Step;

typedef struct Split {
    const Plan *plan;
    const PlanKernel *pk;
    const Kernel *k;
    Arena *arena;
    VEC(Step) steps;
    bool is_possible;
} Split;

static bool is_expression(uint8_t kind)
{
    return kind >= KI_const && kind <= KI_aload;
}

static KRef block_end(const Kernel *k, KRef r)
{
    int depth = 0;
    for (;; r++) {
        const uint8_t kind = k_inst(k, r)->kind;
        depth += (kind == KI_for || kind == KI_if) - (kind == KI_end);
        if (depth == 0)
            return r;
    }
}

static bool is_parallel(const KInst *n)
{
    return n->kind == KI_for && n->flags == KFOR_PARALLEL;
}

// Does nothing behind a nest read the variables from before it that the nest changes? Then they are scratch
// of one iteration, and every thread has its own.
static bool is_forgotten(const Kernel *k, const Step *t)
{
    for (KRef r = t->begin; r <= t->end; r++) {
        const KInst *n = k_inst(k, r);
        if ((n->kind != KI_set && n->kind != KI_astore) || n->a >= t->begin)
            continue;
        for (KRef q = t->end + 1; q < k->insts.len; q++)
            if ((k_inst(k, q)->kind == KI_get || k_inst(k, q)->kind == KI_aload) && k_inst(k, q)->a == n->a)
                return false;
    }
    return true;
}

// What the step touches; whether it stores, and changes variables from before it.
static void look_through(Split *s, Step *t)
{
    bool stores = false, sets = false;
    t->is_read = ARENA_ARRAY(s->arena, bool, s->k->params.len + 1u);
    t->is_written = ARENA_ARRAY(s->arena, bool, s->k->params.len + 1u);
    for (KRef r = t->begin; r <= t->end; r++) {
        const KInst *n = k_inst(s->k, r);
        if (n->kind == KI_load)
            t->is_read[n->imm] = true;
        if (n->kind == KI_store)
            t->is_written[n->imm] = stores = true;
        if (n->kind == KI_set || n->kind == KI_astore)
            sets = sets || n->a < t->begin;
    }
    const KInst *first = k_inst(s->k, t->begin);
    t->kind = !stores ? STEP_ALL : is_parallel(first) ? STEP_NEST : STEP_ONE;
    if (first->kind == KI_barrier)
        t->kind = STEP_BARRIER;
    s->is_possible = s->is_possible && !(stores && sets && !(t->kind == STEP_NEST && is_forgotten(s->k, t)));
}

static void find_steps(Split *s)
{
    for (KRef r = 1; r < s->k->insts.len; r++) {
        const KInst *n = k_inst(s->k, r);
        Step t = {.begin = r, .end = r};
        if (n->kind == KI_comment || (is_expression(n->kind) && n->kind != KI_load))
            continue;
        if (n->kind == KI_for || n->kind == KI_if)
            r = t.end = block_end(s->k, r);
        look_through(s, &t);
        vec_push(s->arena, &s->steps, t);
    }
}

// --- barriers inside the kernel ------------------------------------------------------------------

static bool args_overlap(const Split *s, uint32_t i, uint32_t j)
{
    const PlanArg *a = &s->pk->args.data[i], *b = &s->pk->args.data[j];
    const PlanBuffer *x = &s->plan->buffers.data[a->buf], *y = &s->plan->buffers.data[b->buf];
    if (i == j)
        return true;
    if (x->region != y->region || x->region == REGION_OUTER)
        return s->k->may_alias;
    return x->offset + a->begin < y->offset + b->end && y->offset + b->begin < x->offset + a->end;
}

// One thread may write what another one reads or writes. Nests that write one buffer write different
// elements.
static bool steps_conflict(const Split *s, const Step *a, const Step *b)
{
    const bool are_nests = a->kind == STEP_NEST && b->kind == STEP_NEST;
    if (a->kind == STEP_ONE && b->kind == STEP_ONE)
        return false;
    for (uint32_t i = 0; i < s->k->params.len; i++)
        for (uint32_t j = 0; j < s->k->params.len; j++) {
            const bool crosses = (a->is_written[i] && b->is_read[j]) || (a->is_read[i] && b->is_written[j]);
            const bool both = a->is_written[i] && b->is_written[j] && !are_nests;
            if ((crosses || both) && !s->k->params.data[i].is_own && args_overlap(s, i, j))
                return true;
        }
    return false;
}

static void find_barriers(Split *s)
{
    uint32_t since = 0; // the first step after the last barrier
    for (uint32_t i = 0; i < s->steps.len; i++) {
        Step *t = &s->steps.data[i];
        if (t->kind == STEP_BARRIER)
            since = i + 1;
        for (uint32_t j = since; j < i && !t->needs_barrier; j++)
            t->needs_barrier = steps_conflict(s, &s->steps.data[j], t);
        since = t->needs_barrier ? i : since;
    }
}

// --- which loops are cut -------------------------------------------------------------------------

// The loops of a perfect nest, outermost first; the outermost may have any bounds, the others constant ones.
static uint32_t nest_of(const Kernel *k, const Step *t, KRef *level)
{
    uint32_t n = 0;
    KRef r = t->begin;
    while (n < MAX_LEVELS && is_parallel(k_inst(k, r))) {
        int64_t bound = 0;
        const KRef end = block_end(k, r);
        if (n > 0 && (!k_is_const(k, k_inst(k, r)->a, &bound) || !k_is_const(k, k_inst(k, r)->b, &bound)))
            break;
        level[n++] = r++;
        while (r < end && (is_expression(k_inst(k, r)->kind) || k_inst(k, r)->kind == KI_comment))
            r++;
        if (r == end || k_inst(k, r)->kind != KI_for || block_end(k, r) + 1 != end)
            break;
    }
    return n;
}

// How busy the threads are: 1 when all have as many iterations as the one that has most.
static double balance(double trips, double threads)
{
    const double rounds = (double)(int64_t)((trips + threads - 1) / threads);
    return rounds > 0 ? trips / (rounds * threads) : 1;
}

static const double good_balance = 0.93;
// Two divisions for each iteration of joined loops must not count.
static const double joined_cycles = 400;

// The outermost loop that all threads are busy with; else loops as if they were one; else the best single
// one.
static void choose_loops(const Split *s, Step *t)
{
    KRef level[MAX_LEVELS];
    const uint32_t n = nest_of(s->k, t, level);
    const double threads = s->plan->caps->threads, cycles = range_cycles(s->k, t->begin, t->end);
    double best = -1, joined = 1;
    t->n_levels = 1;
    for (uint32_t i = 0; i < n; i++) {
        const double b = balance(trips_of(s->k, k_inst(s->k, level[i])), threads);
        if (b > best + 0.02 && best < good_balance) {
            best = b;
            t->first = i;
        }
    }
    int64_t bound = 0;
    const KInst *outer = k_inst(s->k, level[0]);
    const bool is_fixed = k_is_const(s->k, outer->a, &bound) && k_is_const(s->k, outer->b, &bound);
    for (uint32_t i = 0; i < n && is_fixed && best < good_balance; i++) {
        joined *= trips_of(s->k, k_inst(s->k, level[i]));
        const double b = balance(joined, threads);
        if (i == 0 || b <= best + 0.02 || cycles < joined * joined_cycles)
            continue;
        best = b;
        t->first = 0;
        t->n_levels = i + 1;
    }
}

// --- rewriting -----------------------------------------------------------------------------------

typedef struct Rewrite {
    const Kernel *from;
    Kernel *to;
    KRef *map; // by instruction of `from`
    KRef part, parts;
} Rewrite;

static KRef mapped(const Rewrite *w, KRef r)
{
    return r == 0 ? 0 : w->map[r];
}

static KRef copy_inst(Rewrite *w, KRef r)
{
    KInst n = *k_inst(w->from, r);
    n.a = mapped(w, n.a);
    n.b = mapped(w, n.b);
    n.c = mapped(w, n.c);
    if (n.kind == KI_part && w->part == 0)
        n = (KInst){.kind = KI_const, .dtype = KT_INDEX, .lanes = 1, .imm = n.imm};
    return w->map[r] = k_append(w->to, &n);
}

static Rewrite rewrite_begin(Arena *scratch, const Kernel *from)
{
    Rewrite w = {.from = from, .to = kernel_new(from->arena, from->name)};
    w.map = ARENA_ARRAY(scratch, KRef, from->insts.len);
    w.to->comment = from->comment;
    w.to->may_alias = from->may_alias;
    for (uint32_t i = 0; i < from->params.len; i++)
        vec_push(w.to->arena, &w.to->params, from->params.data[i]);
    return w;
}

// The first iteration of part `part`: part * trips / parts.
static KRef share_begin(Rewrite *w, KRef part, KRef trips)
{
    return k_op(w->to, KOP_div, k_mul(w->to, part, trips), w->parts, 0);
}

// A loop over the share of `trips` iterations, step by step from lo.
static KRef open_share(Rewrite *w, KRef lo, KRef trips, int64_t step, const char *name)
{
    Kernel *k = w->to;
    const KRef begin = share_begin(w, w->part, trips);
    const KRef end = share_begin(w, k_add(k, w->part, k_index(k, 1)), trips);
    const KRef stop = k_var(k, k_mul_add(k, end, step, lo), "end");
    const KRef from = k_mul_add(k, begin, step, lo);
    return k_for(k, from, k_get(k, stop), step, KFOR_PARALLEL, name);
}

static KRef trips_value(Rewrite *w, const KInst *loop)
{
    Kernel *k = w->to;
    const KRef span = k_op(k, KOP_sub, mapped(w, loop->b), mapped(w, loop->a), 0);
    const KRef up = k_add(k, k_op(k, KOP_max, span, k_index(k, 0), 0), k_index(k, loop->imm - 1));
    return k_op(k, KOP_div, up, k_index(k, loop->imm), 0);
}

// Opens one loop in place of the outer n of a nest, and gives their variables values.
static void open_joined(Rewrite *w, const KRef *level, uint32_t n)
{
    Kernel *k = w->to;
    int64_t trips[MAX_LEVELS], all = 1;
    for (uint32_t i = 0; i < n; i++) {
        trips[i] = (int64_t)trips_of(w->from, k_inst(w->from, level[i]));
        all *= trips[i];
    }
    KRef rest = open_share(w, k_index(k, 0), k_index(k, all), 1, "share");
    for (uint32_t i = n; i-- > 0;) {
        const KInst *loop = k_inst(w->from, level[i]);
        int64_t lo = 0;
        k_is_const(w->from, loop->a, &lo);
        const KRef at = i == 0 ? rest : k_op(k, KOP_rem, rest, k_index(k, trips[i]), 0);
        w->map[level[i]] = k_mul_add(k, at, loop->imm, k_index(k, lo));
        rest = i == 0 ? 0 : k_op(k, KOP_div, rest, k_index(k, trips[i]), 0);
    }
}

static bool is_among(KRef r, const KRef *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == r)
            return true;
    return false;
}

static void copy_nest(Rewrite *w, const Step *t)
{
    KRef level[MAX_LEVELS], closed[MAX_LEVELS];
    nest_of(w->from, t, level);
    for (uint32_t i = 1; i < t->n_levels; i++)
        closed[i - 1] = block_end(w->from, level[i]);
    for (KRef r = t->begin; r <= t->end; r++) {
        const KInst *n = k_inst(w->from, r);
        if (r == level[t->first] && t->n_levels > 1)
            open_joined(w, level, t->n_levels);
        else if (r == level[t->first])
            w->map[r] = open_share(w, mapped(w, n->a), trips_value(w, n), n->imm, n->text);
        else if (t->n_levels == 1 ||
                 !(is_among(r, level + 1, t->n_levels - 1) || is_among(r, closed, t->n_levels - 1)))
            copy_inst(w, r);
    }
}

static void copy_step(Rewrite *w, const Step *t)
{
    if (t->needs_barrier)
        k_barrier(w->to);
    if (t->kind == STEP_NEST) {
        copy_nest(w, t);
        return;
    }
    if (t->kind == STEP_ONE)
        k_if(w->to, k_op(w->to, KOP_eq, w->part, k_index(w->to, 0), 0));
    for (KRef r = t->begin; r <= t->end; r++)
        copy_inst(w, r);
    if (t->kind == STEP_ONE)
        k_end(w->to);
}

static Kernel *share(const Split *s)
{
    Rewrite w = rewrite_begin(s->arena, s->k);
    uint32_t at = 0;
    w.part = k_part(w.to);
    w.parts = k_parts(w.to);
    for (KRef r = 1; r < s->k->insts.len; r++) {
        if (at < s->steps.len && s->steps.data[at].begin == r) {
            copy_step(&w, &s->steps.data[at]);
            r = s->steps.data[at++].end;
        } else {
            copy_inst(&w, r);
        }
    }
    return w.to;
}

static Kernel *leave_whole(const Split *s)
{
    Rewrite w = rewrite_begin(s->arena, s->k);
    for (KRef r = 1; r < s->k->insts.len; r++)
        copy_inst(&w, r);
    return w.to;
}

// Cycles that remain when the threads share the nests.
static double shared_cycles(const Split *s)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->steps.len; i++) {
        const Step *t = &s->steps.data[i];
        const double cycles = range_cycles(s->k, t->begin, t->end);
        sum += t->kind == STEP_NEST ? cycles / s->plan->caps->threads : cycles;
    }
    return sum;
}

void split_kernel(const Plan *p, PlanKernel *pk)
{
    Arena scratch = {0};
    Split s = {.plan = p, .pk = pk, .k = pk->kernel, .arena = &scratch, .is_possible = true};
    bool has_nest = false;
    pk->is_shared = false;
    find_steps(&s);
    find_barriers(&s);
    for (uint32_t i = 0; i < s.steps.len; i++) {
        Step *t = &s.steps.data[i];
        if (t->kind == STEP_NEST)
            choose_loops(&s, t);
        has_nest = has_nest || t->kind == STEP_NEST;
    }
    const double cycles = split_cycles(p, pk);
    const bool is_worth =
        cycles >= p->caps->split_cycles && shared_cycles(&s) < 0.8 * range_cycles(s.k, 1, s.k->insts.len - 1);
    if (s.is_possible && has_nest && is_worth) {
        pk->kernel = share(&s);
        pk->is_shared = true;
    } else if (kernel_is_shared(s.k)) {
        pk->kernel = leave_whole(&s);
    }
    const char *wrong = kernel_verify(pk->kernel);
    if (wrong != NULL)
        diag_bug(pk->kernel->name, 0, wrong);
    arena_free(&scratch);
}
