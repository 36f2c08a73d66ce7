// SPDX-License-Identifier: Apache-2.0
// Splitting a kernel. Its top level is a list of steps: nests of parallel loops (every thread takes a share
// of the iterations), code that only computes locals (every thread runs it), and the rest (one thread runs
// it). Shares are static: part p of n takes iterations [p * trips / n, (p + 1) * trips / n), so sums are
// never divided and results do not depend on n. Nests that do not depend on each other need no barrier in
// between; schedules promise that of neighbouring nests that write one buffer (KI_barrier says otherwise).
#include "passes/plan/threads/split_parts.h"

bool split_args_overlap(const Split *s, uint32_t i, uint32_t j)
{
    rlx_assert(i < s->pk->args.len && j < s->pk->args.len);
    const PlanArg *a = &s->pk->args.data[i], *b = &s->pk->args.data[j];
    rlx_assert(a->begin <= a->end && b->begin <= b->end);
    const PlanBuffer *x = &s->plan->buffers.data[a->buf], *y = &s->plan->buffers.data[b->buf];
    if (i == j)
        return true;
    if (x->region != y->region || x->region == REGION_OUTER)
        return s->k->may_alias;
    return x->offset + a->begin < y->offset + b->end && y->offset + b->begin < x->offset + a->end;
}

// --- the steps of a kernel -----------------------------------------------------------------------

// Does nothing behind a nest read the variables from before it that the nest changes? Then they are scratch
// of one iteration, and every thread has its own.
static bool is_forgotten(const Kernel *k, const SplitStep *t)
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
static void look_through(Split *s, SplitStep *t)
{
    rlx_assert(t->begin >= 1 && t->begin <= t->end && t->end < s->k->insts.len);
    bool stores = false, sets = false;
    t->is_read = ARENA_ARRAY(s->arena, bool, s->k->params.len + 1u);
    t->is_written = ARENA_ARRAY(s->arena, bool, s->k->params.len + 1u);
    t->bytes = ARENA_ARRAY(s->arena, double, s->k->params.len + 1u);
    split_count_bytes(s->k, t->begin, t->end, t->bytes);
    for (KRef r = t->begin; r <= t->end; r++) {
        const KInst *n = k_inst(s->k, r);
        if (k_reads_param(n))
            t->is_read[n->imm] = true;
        if (k_writes_param(n))
            t->is_written[n->imm] = stores = true;
        if (n->kind == KI_set || n->kind == KI_astore)
            sets = sets || n->a < t->begin;
    }
    const KInst *first = k_inst(s->k, t->begin);
    t->kind = !stores ? STEP_ALL : split_is_parallel(first) ? STEP_NEST : STEP_ONE;
    if (first->kind == KI_barrier)
        t->kind = STEP_BARRIER;
    s->is_possible = s->is_possible && !(stores && sets && !(t->kind == STEP_NEST && is_forgotten(s->k, t)));
}

static void add_step(Split *s, KRef begin, KRef end)
{
    SplitStep t = {.begin = begin, .end = end};
    look_through(s, &t);
    vec_push(s->arena, &s->steps, t);
}

// A loop over steps that depend on each other, each of which has parallel loops.
static bool is_serial_of_nests(const Kernel *k, KRef r)
{
    int depth = 0;
    if (k_inst(k, r)->kind != KI_for || split_is_parallel(k_inst(k, r)))
        return false;
    for (KRef q = r + 1; depth >= 0; q++) {
        if (depth == 0 && split_is_parallel(k_inst(k, q)))
            return true;
        depth += kkind_depth(k_inst(k, q)->kind);
    }
    return false;
}

static bool stands_alone(const Kernel *k, KRef r)
{
    return split_is_parallel(k_inst(k, r)) || k_inst(k, r)->kind == KI_barrier || is_serial_of_nests(k, r);
}

static KRef statement_end(const Kernel *k, KRef r)
{
    const uint8_t kind = k_inst(k, r)->kind;
    return kind == KI_for || kind == KI_if ? k_block_end(k, r) : r;
}

static bool is_statement(const KInst *n)
{
    return n->kind != KI_comment && (!kkind_is_expression(n->kind) || n->kind == KI_load);
}

// Statements between nests are one step where that is possible: one thread runs it.
static bool find_unit(const Split *s, KRef begin, KRef *end)
{
    bool stores = false;
    SplitChild unit = {.begin = begin, .end = begin};
    for (KRef r = begin; r < s->k->insts.len && !stands_alone(s->k, r); r++) {
        if (!is_statement(k_inst(s->k, r)))
            continue;
        unit.end = statement_end(s->k, r);
        for (; r <= unit.end; r++)
            stores = stores || k_writes_param(k_inst(s->k, r));
        r--;
    }
    *end = unit.end;
    return stores && split_is_closed(s, &unit);
}

static void find_steps(Split *s)
{
    for (KRef r = 1; r < s->k->insts.len; r++) {
        KRef end = r;
        if (!is_statement(k_inst(s->k, r)))
            continue;
        if (stands_alone(s->k, r) || !find_unit(s, r, &end))
            end = statement_end(s->k, r);
        add_step(s, r, end);
        r = end;
    }
}

// --- barriers inside the kernel ------------------------------------------------------------------

// Do the parameters share memory in place? Then an element is read only where it is written, and steps that
// write different elements do not meet.
static bool is_in_place(const Split *s, uint32_t i, uint32_t j)
{
    const PlanBuffer *x = &s->plan->buffers.data[s->pk->args.data[i].buf];
    const PlanBuffer *y = &s->plan->buffers.data[s->pk->args.data[j].buf];
    return i != j && x->region == REGION_ARENA && y->region == REGION_ARENA && x->offset == y->offset;
}

// One thread may write what another one reads. Nests that write one buffer write different elements: where
// they do not, a schedule has a barrier.
static bool steps_conflict(const Split *s, const SplitStep *a, const SplitStep *b)
{
    const bool are_single = a->kind == STEP_ONE && b->kind == STEP_ONE;
    if (are_single && a->thread == b->thread)
        return false;
    for (uint32_t i = 0; i < s->k->params.len; i++)
        for (uint32_t j = 0; j < s->k->params.len; j++) {
            const bool crosses = (a->is_written[i] && b->is_read[j]) || (a->is_read[i] && b->is_written[j]);
            const bool both = are_single && a->is_written[i] && b->is_written[j];
            if ((crosses || both) && !s->k->params.data[i].is_own && split_args_overlap(s, i, j) &&
                !is_in_place(s, i, j))
                return true;
        }
    return false;
}

// Does one leave something in memory that each thread has for itself?
static bool leaves_own(const Split *s, const SplitStep *a, const SplitStep *b)
{
    for (uint32_t i = 0; i < s->k->params.len; i++)
        if (s->k->params.data[i].is_own && a->is_written[i] && b->is_read[i])
            return true;
    return false;
}

SplitMeeting split_meeting(const Split *s, const SplitChild *a, const SplitChild *b)
{
    rlx_assert(a->end < b->begin || b->end < a->begin);
    Split unused = *s;
    SplitStep x = {.begin = a->begin, .end = a->end}, y = {.begin = b->begin, .end = b->end, .thread = 1};
    look_through(&unused, &x);
    look_through(&unused, &y);
    x.kind = a->is_loop ? STEP_NEST : STEP_ONE;
    y.kind = b->is_loop ? STEP_NEST : STEP_ONE;
    return leaves_own(s, &x, &y) ? MEET_NEVER : steps_conflict(s, &x, &y) ? MEET_BARRIER : MEET_NOT;
}

static void find_barriers(Split *s)
{
    uint32_t since = 0; // the first step after the last barrier
    for (uint32_t i = 0; i < s->steps.len; i++) {
        SplitStep *t = &s->steps.data[i];
        if (t->kind == STEP_BARRIER)
            since = i + 1;
        for (uint32_t j = since; j < i && !t->needs_barrier; j++)
            t->needs_barrier = steps_conflict(s, &s->steps.data[j], t);
        for (uint32_t j = 0; j < i; j++)
            s->is_possible = s->is_possible && !leaves_own(s, &s->steps.data[j], t);
        since = t->kind == STEP_SERIAL ? i + 1 : t->needs_barrier ? i : since;
    }
}

// --- rewriting -----------------------------------------------------------------------------------

typedef struct Rewrite {
    const Split *split;
    const Kernel *from;
    Kernel *to;
    KRef *map;       // by instruction of `from`
    bool *is_inside; // the same: scratch of copy_unit
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

static Rewrite rewrite_begin(const Split *s)
{
    const Kernel *from = s->k;
    Rewrite w = {.split = s, .from = from, .to = kernel_new(from->arena, from->name)};
    w.map = ARENA_ARRAY(s->arena, KRef, from->insts.len);
    w.is_inside = ARENA_ARRAY(s->arena, bool, from->insts.len);
    w.to->comment = from->comment;
    w.to->may_alias = from->may_alias;
    for (uint32_t i = 0; i < from->params.len; i++)
        vec_push(w.to->arena, &w.to->params, from->params.data[i]);
    return w;
}

// The first iteration of part `part`: part * trips / parts.
static KRef share_begin(Rewrite *w, KRef part, KRef trips)
{
    return k_expr(w->to, "$ * $ / $", part, trips, w->parts);
}

// The beginning of a part where several nests are cut as one: what is missing to part / parts of all weights,
// in iterations of this nest.
static KRef joint_begin(Rewrite *w, const SplitCut *c, KRef part, KRef trips)
{
    Kernel *k = w->to;
    const KRef bound = share_begin(w, part, k_index(k, c->all));
    const KRef rest = k_expr(k, "$ + #", bound, c->weight - 1 - c->before);
    const KRef at = k_expr(k, "$ / #", rest, c->weight);
    return k_expr(k, "min(max($, 0), $)", at, trips);
}

// A loop over the share of `trips` iterations, step by step from lo.
static KRef open_share(Rewrite *w, const SplitCut *c, KRef lo, KRef trips, int64_t step, const char *name)
{
    Kernel *k = w->to;
    const KRef next = k_expr(k, "$ + 1", w->part);
    const bool is_joint = c != NULL && c->weight > 0;
    const KRef begin = is_joint ? joint_begin(w, c, w->part, trips) : share_begin(w, w->part, trips);
    const KRef end = is_joint ? joint_begin(w, c, next, trips) : share_begin(w, next, trips);
    const KRef stop = k_var(k, k_expr(k, "$ * # + $", end, step, lo), "end");
    const KRef from = k_expr(k, "$ * # + $", begin, step, lo);
    return k_for(k, from, k_get(k, stop), step, KFOR_PARALLEL, name);
}

static KRef trips_value(Rewrite *w, const KInst *loop)
{
    Kernel *k = w->to;
    const KRef span = k_sub(k, mapped(w, loop->b), mapped(w, loop->a));
    const KRef up = k_expr(k, "max($, 0) + #", span, loop->imm - 1);
    return k_expr(k, "$ / #", up, loop->imm);
}

// Opens one loop in place of the outer n of a nest, and gives their variables values.
static void open_joined(Rewrite *w, const KRef *level, uint32_t n)
{
    rlx_assert(n >= 2 && n <= SPLIT_MAX_LEVELS);
    Kernel *k = w->to;
    int64_t trips[SPLIT_MAX_LEVELS], all = 1;
    for (uint32_t i = 0; i < n; i++) {
        trips[i] = (int64_t)split_trips(w->from, k_inst(w->from, level[i]));
        all *= trips[i];
    }
    KRef rest = open_share(w, NULL, k_index(k, 0), k_index(k, all), 1, "share");
    for (uint32_t i = n; i-- > 0;) {
        const KInst *loop = k_inst(w->from, level[i]);
        int64_t lo = 0;
        k_is_const(w->from, loop->a, &lo);
        const KRef at = i == 0 ? rest : k_expr(k, "$ % #", rest, trips[i]);
        w->map[level[i]] = k_expr(k, "$ * # + #", at, loop->imm, lo);
        rest = i == 0 ? 0 : k_expr(k, "$ / #", rest, trips[i]);
    }
}

static bool is_among(KRef r, const KRef *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == r)
            return true;
    return false;
}

// The outer loops of a nest as one.
static void copy_joined(Rewrite *w, const SplitStep *t)
{
    const SplitCut *c = &t->cut;
    KRef closed[SPLIT_MAX_LEVELS];
    for (uint32_t i = 1; i < c->n_joined; i++)
        closed[i - 1] = k_block_end(w->from, c->level[i]);
    for (KRef r = t->begin; r <= t->end; r++)
        if (r == c->level[0])
            open_joined(w, c->level, c->n_joined);
        else if (!is_among(r, c->level + 1, c->n_joined - 1) && !is_among(r, closed, c->n_joined - 1))
            copy_inst(w, r);
}

static void copy_shared_loop(Rewrite *w, const SplitCut *c, KRef loop)
{
    const KInst *n = k_inst(w->from, loop);
    w->map[loop] = open_share(w, c, mapped(w, n->a), trips_value(w, n), n->imm, n->text);
}

// Statements that one thread runs.
static void copy_unit(Rewrite *w, const SplitChild *c, uint32_t index)
{
    rlx_assert(c->begin >= 1 && c->begin <= c->end);
    Kernel *k = w->to;
    split_mark_inside(w->split, c, w->is_inside);
    for (KRef r = c->begin; r <= c->end; r++)
        if (!w->is_inside[r])
            copy_inst(w, r);
    const KRef who = k_expr(k, "# % $", index, w->parts);
    k_if(k, k_eq(k, w->part, who));
    for (KRef r = c->begin; r <= c->end; r++)
        if (w->is_inside[r])
            copy_inst(w, r);
    k_end(k);
}

static void copy_children(Rewrite *w, const SplitStep *t)
{
    const SplitCut *c = &t->cut;
    uint32_t at = 0, n_units = 0;
    for (KRef r = t->begin; r <= t->end; r++) {
        const SplitChild *child = at < c->children.len ? &c->children.data[at] : NULL;
        if (t->kind == STEP_SERIAL && r == t->end)
            k_barrier(w->to);
        if (child == NULL || child->begin != r) {
            copy_inst(w, r);
            continue;
        }
        at++;
        if (child->needs_barrier)
            k_barrier(w->to);
        if (child->is_loop) {
            copy_shared_loop(w, NULL, r);
        } else {
            copy_unit(w, child, n_units++);
            r = child->end;
        }
    }
}

static void copy_nest(Rewrite *w, const SplitStep *t)
{
    if (t->cut.n_joined > 1) {
        copy_joined(w, t);
        return;
    }
    if (t->cut.n_joined == 0) {
        copy_children(w, t);
        return;
    }
    for (KRef r = t->begin; r <= t->end; r++)
        if (r == t->cut.level[t->cut.first])
            copy_shared_loop(w, &t->cut, r);
        else
            copy_inst(w, r);
}

static void copy_step(Rewrite *w, const SplitStep *t)
{
    if (t->needs_barrier)
        k_barrier(w->to);
    if (t->kind == STEP_NEST || t->kind == STEP_SERIAL) {
        copy_nest(w, t);
        return;
    }
    if (t->kind == STEP_ONE) {
        copy_unit(w, &(SplitChild){.begin = t->begin, .end = t->end}, t->thread);
        return;
    }
    for (KRef r = t->begin; r <= t->end; r++)
        copy_inst(w, r);
}

static Kernel *share(const Split *s)
{
    Rewrite w = rewrite_begin(s);
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
    Rewrite w = rewrite_begin(s);
    for (KRef r = 1; r < s->k->insts.len; r++)
        copy_inst(&w, r);
    return w.to;
}

// --- whether it is worth it ----------------------------------------------------------------------

// What reads and writes together reach: of what memory gives to all cores, of what the second-level cache
// gives.
static const double far_share = 0.8, near_share = 1.0 / 3;

static double moved_cycles(const Split *s)
{
    double *touched = ARENA_ARRAY(s->arena, double, s->k->params.len + 1u), bytes = 0;
    split_count_bytes(s->k, 1, s->k->insts.len - 1, touched);
    for (uint32_t i = 0; i < s->pk->args.len; i++) {
        const double range = (double)(s->pk->args.data[i].end - s->pk->args.data[i].begin);
        bytes += touched[i] < range ? touched[i] : range;
    }
    const CpuMachine *cpu = &s->plan->caps->cpu;
    return bytes / (bytes > cpu->l2_bytes ? far_share * cpu->shared_rate : near_share * cpu->l2_rate);
}

// What one thread that runs the kernel has to fetch from others.
static double whole_memory_cycles(const Split *s)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->steps.len; i++)
        if (s->steps.data[i].kind == STEP_NEST)
            sum += split_memory_cycles(s, &s->steps.data[i], NULL, 0);
    return sum;
}

static double shared_cycles(const Split *s)
{
    double sum = 0, units[SPLIT_MAX_THREADS] = {0}, most = 0;
    for (uint32_t i = 0; i < s->steps.len; i++) {
        const SplitStep *t = &s->steps.data[i];
        const double cycles = split_range_cycles(s, t->begin, t->end);
        sum += t->kind == STEP_NEST || t->kind == STEP_SERIAL ? t->cycles : t->kind == STEP_ALL ? cycles : 0;
        units[t->thread] += t->kind == STEP_ONE ? cycles : 0;
    }
    for (uint32_t i = 0; i < SPLIT_MAX_THREADS; i++)
        most = units[i] > most ? units[i] : most;
    return sum + most;
}

// Adds to the load of each thread the iterations of a nest that it has.
static void add_load(const Split *s, const SplitStep *t, double *load)
{
    KRef loop = t->begin;
    const double n = s->plan->caps->threads, cycles = split_range_cycles(s, t->begin, t->end);
    split_cut_loops(&t->cut, &loop, 1);
    const double trips = split_trips(s->k, k_inst(s->k, loop));
    rlx_assert(s->plan->caps->threads <= SPLIT_MAX_THREADS);
    for (uint32_t p = 0; p < s->plan->caps->threads && trips > 0; p++)
        load[p] +=
            cycles * ((double)(int64_t)((p + 1) * trips / n) - (double)(int64_t)(p * trips / n)) / trips;
}

// Units go to the threads that have least to do. What depends on order, or stands between barriers, is not
// looked at: there are few units, and they are small.
static void choose_threads(Split *s)
{
    double load[SPLIT_MAX_THREADS] = {0};
    for (uint32_t i = 0; i < s->steps.len; i++)
        if (s->steps.data[i].kind == STEP_NEST)
            add_load(s, &s->steps.data[i], load);
    for (uint32_t i = 0; i < s->steps.len; i++) {
        SplitStep *t = &s->steps.data[i];
        if (t->kind != STEP_ONE)
            continue;
        for (uint32_t p = 1; p < s->plan->caps->threads; p++)
            t->thread = load[p] < load[t->thread] ? p : t->thread;
        rlx_assert(t->thread < s->plan->caps->threads);
        load[t->thread] += split_range_cycles(s, t->begin, t->end);
    }
}

// Shares the body of a serial loop where that pays.
static void try_serial(const Split *s, SplitStep *t)
{
    SplitCut c = {.level = {t->begin}};
    uint32_t since = 0, n_barriers = 1;
    if (t->kind != STEP_ONE || !is_serial_of_nests(s->k, t->begin) || !split_find_children(s, t->begin, &c))
        return;
    for (uint32_t i = 0; i < c.children.len; i++) {
        SplitChild *child = &c.children.data[i];
        for (uint32_t j = since; j < i && !child->needs_barrier; j++)
            child->needs_barrier = split_meeting(s, &c.children.data[j], child) == MEET_BARRIER;
        since = child->needs_barrier ? i : since;
        n_barriers += child->needs_barrier;
    }
    const double times = split_trips(s->k, k_inst(s->k, t->begin));
    t->cycles =
        split_children_cycles(s, &c, times) + times * n_barriers * split_barrier_cycles(&s->plan->caps->cpu);
    if (s->plan->caps->split_cycles != 0 && t->cycles > 0.9 * split_range_cycles(s, t->begin, t->end))
        return;
    t->kind = STEP_SERIAL;
    t->cut = c;
}

// Cuts all nests. False: there is none, or it does not pay.
static bool is_worth_it(Split *s, SplitCycles *cycles)
{
    bool has_nest = false;
    for (uint32_t i = 0; i < s->steps.len; i++) {
        SplitStep *t = &s->steps.data[i];
        try_serial(s, t);
        if (t->kind == STEP_NEST)
            split_choose_cut(s, t);
        has_nest = has_nest || t->kind == STEP_NEST || t->kind == STEP_SERIAL;
    }
    split_join_nests(s);
    choose_threads(s);
    const double moved = moved_cycles(s), work = split_range_cycles(s, 1, s->k->insts.len - 1);
    const double shared = shared_cycles(s), least = moved / s->plan->caps->threads;
    const double alone = moved > work ? moved : work, fetched = alone + whole_memory_cycles(s);
    const double all = shared > least ? shared : least;
    const bool pays = s->plan->caps->split_cycles == 0 ||
                      (alone >= s->plan->caps->split_cycles &&
                       all + 2 * split_barrier_cycles(&s->plan->caps->cpu) < 0.9 * fetched);
    *cycles = (SplitCycles){alone, has_nest && pays ? all : fetched};
    return has_nest && pays;
}

static void note_owners(const Split *s, bool is_shared)
{
    KRef loops[64];
    for (uint32_t i = 0; i < s->steps.len; i++) {
        const SplitStep *t = &s->steps.data[i];
        const bool is_cut = is_shared && (t->kind == STEP_NEST || t->kind == STEP_SERIAL);
        split_note_owners(s, t, loops, is_cut ? split_cut_loops(&t->cut, loops, 64) : 0);
    }
}

SplitCycles split_kernel(const Plan *p, PlanKernel *pk, SplitOwners *owners)
{
    rlx_assert(pk->kernel != NULL && pk->kernel->params.len == pk->args.len);
    rlx_assert(p->caps->threads >= 1 && p->caps->threads <= SPLIT_MAX_THREADS);
    Arena scratch = {0};
    Split s = {
        .plan = p, .pk = pk, .k = pk->kernel, .arena = &scratch, .owners = owners};
    s.is_possible = pk->kernel->custom == NULL; // what the text touches is not known
    find_steps(&s);
    SplitCycles cycles = {0};
    pk->threads.is_shared = is_worth_it(&s, &cycles) && s.is_possible;
    find_barriers(&s);
    pk->threads.is_shared = pk->threads.is_shared && s.is_possible;
    if (!s.is_possible)
        cycles.now = cycles.alone + whole_memory_cycles(&s);
    note_owners(&s, pk->threads.is_shared);
    if (pk->threads.is_shared)
        pk->kernel = share(&s);
    else if (kernel_is_shared(s.k))
        pk->kernel = leave_whole(&s);
    const char *wrong = kernel_verify(pk->kernel);
    if (wrong != NULL)
        diag_bug(pk->kernel->name, 0, wrong);
    arena_free(&scratch);
    return cycles;
}

void split_undo(const Plan *p, PlanKernel *pk, const Kernel *before)
{
    rlx_assert(before != NULL && before->params.len == pk->args.len);
    rlx_assert(pk->threads.phases.len == 0);
    Arena scratch = {0};
    const Split s = {.plan = p, .pk = pk, .k = before, .arena = &scratch};
    pk->kernel = leave_whole(&s);
    pk->threads.is_shared = false;
    arena_free(&scratch);
}
