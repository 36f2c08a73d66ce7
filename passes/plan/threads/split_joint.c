// SPDX-License-Identifier: Apache-2.0
// Nests that lie one behind the other in what they write, such as the tiles of one size and the tiles of
// another size behind them, or rows at a border and rows inside: all of them are cut as if they were one
// loop, so that a thread writes one range of memory, which it can read again later, and few iterations of one
// nest are made up for by those of another.
#include "passes/plan/threads/split_parts.h"

// Setting up one share.
static const double share_cycles = 60;
// Weights of iterations are whole numbers, and the sum of all is about this.
static const double all_weights = 1 << 20;

enum { MAX_JOINT = 16 };

// Neighbouring nests [first, end), by step; the others between them only compute locals.
typedef struct Run {
    uint32_t nests[MAX_JOINT], n;
    double *width; // by parameter: the shares of all nests
} Run;

static KRef level_loop(const SplitStep *t, uint32_t level)
{
    return level < t->cut.n_levels ? t->cut.level[level] : 0;
}

static bool is_fixed(const Kernel *k, KRef loop)
{
    int64_t bound = 0;
    return k_is_const(k, k_inst(k, loop)->a, &bound) && k_is_const(k, k_inst(k, loop)->b, &bound);
}

static Run run_from(const Split *s, uint32_t at)
{
    Run r = {.width = ARENA_ARRAY(s->arena, double, s->k->params.len + 1u)};
    for (; at < s->steps.len && r.n < MAX_JOINT; at++) {
        const StepKind kind = s->steps.data[at].kind;
        if (kind == STEP_NEST)
            r.nests[r.n++] = at;
        else if (kind != STEP_ALL)
            break;
    }
    return r;
}

// Do the nests divide what they write at this level, and does each write a part of its own?
static bool lie_in_line(const Split *s, Run *r, uint32_t level)
{
    const uint32_t n_params = s->k->params.len;
    for (uint32_t i = 0; i < n_params; i++)
        r->width[i] = 0;
    for (uint32_t j = 0; j < r->n; j++) {
        const SplitStep *t = &s->steps.data[r->nests[j]];
        const KRef loop = level_loop(t, level);
        if (loop == 0 || !is_fixed(s->k, loop) || split_trips(s->k, k_inst(s->k, loop)) < 1)
            return false;
        const double *width = split_widths(s, loop);
        for (uint32_t i = 0; i < n_params; i++) {
            r->width[i] += width[i];
            if (t->is_written[i] && width[i] == 0 && !s->k->params.data[i].is_own)
                return false;
        }
    }
    for (uint32_t i = 0; i < n_params; i++) {
        const PlanArg *a = &s->pk->args.data[i];
        if (s->k->params.data[i].is_written && !s->k->params.data[i].is_own &&
            r->width[i] > 1.1 * (double)(a->end - a->begin))
            return false;
    }
    return true;
}

static double work_of(const Split *s, const SplitStep *t)
{
    return split_range_cycles(s, t->begin, t->end);
}

// Cycles of the busiest thread.
static double joint_cycles(const Split *s, const Run *r, uint32_t level)
{
    double sum = 0, largest = 0;
    for (uint32_t j = 0; j < r->n; j++) {
        SplitStep *t = &s->steps.data[r->nests[j]];
        const KRef loop = t->cut.level[level];
        const double work = work_of(s, t), one = work / split_trips(s->k, k_inst(s->k, loop));
        t->joint_width = r->width;
        sum += work / s->plan->caps->threads + share_cycles + split_memory_cycles(s, t, &loop, 1);
        t->joint_width = NULL;
        largest = one > largest ? one : largest;
    }
    return sum + largest / 2;
}

static void join(const Split *s, const Run *r, uint32_t level, double cycles)
{
    double all = 0;
    int64_t before = 0;
    for (uint32_t j = 0; j < r->n; j++)
        all += work_of(s, &s->steps.data[r->nests[j]]);
    for (uint32_t j = 0; j < r->n; j++) {
        SplitStep *t = &s->steps.data[r->nests[j]];
        const double trips = split_trips(s->k, k_inst(s->k, t->cut.level[level]));
        rlx_assert(trips > 0 && all > 0);
        const int64_t weight = (int64_t)(work_of(s, t) / trips / all * all_weights);
        t->cut.first = level;
        t->cut.n_joined = 1;
        t->cut.weight = weight > 1 ? weight : 1;
        t->cut.before = before;
        t->joint_width = r->width;
        t->cycles = cycles / r->n;
        before += t->cut.weight * (int64_t)trips;
    }
    for (uint32_t j = 0; j < r->n; j++)
        s->steps.data[r->nests[j]].cut.all = before;
}

static void try_joint(const Split *s, uint32_t at)
{
    Run r = run_from(s, at);
    double best = 0;
    uint32_t best_level = SPLIT_MAX_LEVELS;
    for (uint32_t j = 0; j < r.n; j++)
        best += s->steps.data[r.nests[j]].cycles;
    for (uint32_t level = 0; r.n > 1 && level < SPLIT_MAX_LEVELS; level++) {
        const double cycles = lie_in_line(s, &r, level) ? joint_cycles(s, &r, level) : best;
        if (cycles < best) {
            best = cycles;
            best_level = level;
        }
    }
    if (best_level < SPLIT_MAX_LEVELS && lie_in_line(s, &r, best_level))
        join(s, &r, best_level, best);
}

void split_join_nests(const Split *s)
{
    bool is_begin = true;
    for (uint32_t i = 0; i < s->steps.len; i++) {
        const StepKind kind = s->steps.data[i].kind;
        if (kind == STEP_NEST && is_begin)
            try_joint(s, i);
        is_begin = kind == STEP_NEST ? false : kind == STEP_ALL ? is_begin : true;
    }
}
