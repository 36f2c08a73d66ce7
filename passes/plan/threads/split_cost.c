// SPDX-License-Identifier: Apache-2.0
// What the parts of a split kernel cost: work by counting instructions, memory by who has what in its cache.
// Reading from the own second-level cache costs next to nothing.
#include "passes/plan/threads/split_parts.h"

// A line that another core has written, among others, which are prefetched: of the time that one alone takes.
static const double remote_share = 7.0 / 15;
// Bytes in memory that all threads read though they could be divided: of the time that reading them takes.
static const double whole_share = 0.9;
// Iterations of a loop whose bounds are known only in a run.
static const double unknown_trips = 16;

double split_trips(const Kernel *k, const KInst *n)
{
    rlx_assert(n->kind == KI_for && n->imm > 0);
    int64_t lo = 0, hi = 0;
    if (!k_is_const(k, n->a, &lo) || !k_is_const(k, n->b, &hi))
        return unknown_trips;
    return hi <= lo ? 0 : (double)(((uint64_t)hi - (uint64_t)lo + (uint64_t)n->imm - 1) / (uint64_t)n->imm);
}

// A multiply-add waits as long for the second-level cache as it takes.
static double matrix_cycles(const CpuMachine *cpu, const KInst *n)
{
    const double mac = cpu->matrix_cycles;
    return n->kop == KMATRIX_mac ? 2 * mac : n->kop == KMATRIX_split ? 6 : n->kop == KMATRIX_store ? mac : 0;
}

static double inst_cycles(const CpuMachine *cpu, const KInst *n)
{
    switch (n->kind) {
    case KI_op:
        return n->dtype == KT_INDEX ? 0.1 : 0.5 * kop_info[n->kop].cost;
    case KI_matrix:
        return matrix_cycles(cpu, n);
    case KI_hreduce:
        return 4;
    case KI_store:
    case KI_for:
        return 1;
    case KI_zip:
        return 1;
    case KI_load:
    case KI_cast:
        return 0.5;
    default:
        return 0;
    }
}

// How often the instructions run that a walk has come to: by open block.
typedef struct Times {
    double of[64];
    uint32_t depth;
} Times;

// The times of the next instruction.
static double times_of(Times *t, const Kernel *k, const KInst *n)
{
    if (n->kind == KI_for || n->kind == KI_if) {
        rlx_assert(t->depth + 1 < sizeof t->of / sizeof *t->of);
        t->of[t->depth + 1] = t->of[t->depth] * (n->kind == KI_for ? split_trips(k, n) : 1);
        t->depth++;
    }
    const double times = t->of[t->depth];
    t->depth -= n->kind == KI_end;
    return times;
}

double split_range_cycles(const Split *s, KRef begin, KRef end)
{
    rlx_assert(begin >= 1 && end < s->k->insts.len);
    const Kernel *k = s->k;
    const CpuMachine *cpu = &s->plan->caps->cpu;
    Times t = {.of = {1}};
    double sum = 0;
    for (KRef r = begin; r <= end; r++)
        sum += inst_cycles(cpu, k_inst(k, r)) * times_of(&t, k, k_inst(k, r));
    return sum;
}

static double elements_of(const KInst *n)
{
    enum { REGISTER_BYTES = 1024 };
    if (n->kind != KI_matrix)
        return n->count;
    return n->kop == KMATRIX_load ? REGISTER_BYTES / dtype_info[n->dtype].bytes : 2 * n->lanes;
}

void split_count_bytes(const Kernel *k, KRef begin, KRef end, double *bytes)
{
    rlx_assert(begin >= 1 && end < k->insts.len && bytes != NULL);
    Times t = {.of = {1}};
    for (KRef r = begin; r <= end; r++) {
        const KInst *n = k_inst(k, r);
        const double times = times_of(&t, k, n);
        if (k_reads_param(n) || k_writes_param(n))
            bytes[n->imm] += times * elements_of(n) * dtype_info[n->dtype].bytes;
    }
}

// --- who touches what ----------------------------------------------------------------------------

// By how much an index grows with a loop's variable, as far as it is a sum of multiples. By instruction, for
// all of them from the loop on.
static double *factors_of(const Kernel *k, KRef loop, KRef end, Arena *a)
{
    double *f = ARENA_ARRAY(a, double, (size_t)end + 1);
    f[loop] = 1;
    for (KRef r = loop + 1; r <= end; r++) {
        const KInst *n = k_inst(k, r);
        int64_t v = 0;
        if (n->kind != KI_op || n->dtype != KT_INDEX)
            continue;
        if (n->kop == KOP_add)
            f[r] = f[n->a] + f[n->b];
        else if (n->kop == KOP_sub)
            f[r] = f[n->a] - f[n->b];
        else if (n->kop == KOP_mul && k_is_const(k, n->b, &v))
            f[r] = f[n->a] * (double)v;
        else if (n->kop == KOP_mul && k_is_const(k, n->a, &v))
            f[r] = f[n->b] * (double)v;
        else // clipped: it still follows the loop
            f[r] = f[n->a] != 0 ? f[n->a] : f[n->b];
    }
    return f;
}

double *split_widths(const Split *s, KRef at)
{
    rlx_assert(k_inst(s->k, at)->kind == KI_for);
    double *widths = ARENA_ARRAY(s->arena, double, s->k->params.len + 1u);
    const KInst *loop = k_inst(s->k, at);
    const KRef end = k_block_end(s->k, at);
    const double *f = factors_of(s->k, at, end, s->arena);
    const double last = split_trips(s->k, loop) * (double)loop->imm;
    for (KRef r = at; r <= end; r++) {
        const KInst *a = k_inst(s->k, r);
        if (!k_reads_param(a) && !k_writes_param(a))
            continue;
        const double by = f[a->kind == KI_store ? a->b : a->a];
        const double width = (by < 0 ? -by : by) * last * dtype_info[a->dtype].bytes;
        widths[a->imm] = width > widths[a->imm] ? width : widths[a->imm];
    }
    return widths;
}

// The spans of a step that is cut at the loops.
static double *spans_of(const Split *s, const SplitStep *t, const KRef *loops, uint32_t n_loops)
{
    double *spans = ARENA_ARRAY(s->arena, double, s->k->params.len + 1u);
    for (uint32_t i = 0; i < n_loops; i++) {
        const double *widths = split_widths(s, loops[i]);
        for (uint32_t j = 0; j < s->k->params.len; j++) {
            const double width = t->joint_width != NULL && widths[j] > 0 ? t->joint_width[j] : widths[j];
            spans[j] = width > spans[j] ? width : spans[j];
        }
    }
    return spans;
}

// The part of what another core has written that is still in its second-level cache.
static double remote_bytes(const Split *s, double bytes)
{
    const double most = s->plan->caps->cpu.l2_bytes / 2;
    return bytes < most ? bytes : most;
}

static double remote_cycles(const Split *s, double bytes)
{
    return remote_bytes(s, bytes) * remote_share * s->plan->caps->cpu.line_cycles / CACHE_LINE;
}

static double arg_bytes(const PlanArg *a)
{
    return (double)(a->end - a->begin);
}

// Shares that reach over more than half of a buffer lie one behind the other.
static SplitOwner owner_of(const PlanArg *arg, double width, bool is_cut)
{
    if (width == 0)
        return (SplitOwner){.kind = is_cut ? OWNED_MIXED : OWNED_BY_ONE};
    if (2 * width > arg_bytes(arg))
        return (SplitOwner){.kind = OWNED_IN_CHUNKS};
    return (SplitOwner){.kind = OWNED_IN_STRIPES, .width = (uint64_t)width};
}

static bool is_same_owner(SplitOwner a, SplitOwner b)
{
    return a.kind != OWNED_BY_ONE && a.kind != OWNED_MIXED && a.kind == b.kind &&
           (a.kind == OWNED_IN_CHUNKS || (a.width <= 2 * b.width && b.width <= 2 * a.width));
}

// Does every thread read what it has written itself? is_alone: one thread reads all.
static bool is_near(SplitOwner was, SplitOwner now, bool is_alone)
{
    return is_alone ? was.kind == OWNED_BY_ONE : is_same_owner(was, now);
}

// A buffer in memory that kernels write: what one of them wrote is in its core's cache.
static bool is_made_here(const Split *s, const PlanArg *arg)
{
    const Region r = s->plan->buffers.data[arg->buf].region;
    return r == REGION_ARENA || r == REGION_OUTER || r == REGION_STATE;
}

double split_memory_cycles(const Split *s, const SplitStep *t, const KRef *loops, uint32_t n_loops)
{
    rlx_assert(n_loops == 0 || loops != NULL);
    const double *spans = spans_of(s, t, loops, n_loops);
    const double n = s->plan->caps->threads, others = (n - 1) / n;
    double sum = 0;
    for (uint32_t i = 0; i < s->k->params.len; i++) {
        const PlanArg *arg = &s->pk->args.data[i];
        const double most = arg_bytes(arg), all = t->bytes[i] < most ? t->bytes[i] : most;
        const double touched = spans[i] > 0 ? all / n : all;
        const SplitOwner now = owner_of(arg, spans[i], n_loops > 0);
        if (s->k->params.data[i].is_own || !(t->is_read[i] || t->is_written[i]))
            continue;
        if (!is_made_here(s, arg))
            sum += touched * whole_share / s->plan->caps->cpu.memory_rate;
        else if (t->is_read[i] && !is_near(s->owners->data[arg->buf], now, n_loops == 0))
            sum += remote_cycles(s, touched) * (s->owners->data[arg->buf].kind == OWNED_BY_ONE ? 1 : others);
        // Most of what follows walks along the outer axis, and has to fetch what is divided otherwise.
        if (t->is_written[i] && now.kind != OWNED_IN_CHUNKS)
            sum += remote_cycles(s, touched) * others / 2;
    }
    return sum;
}

void split_note_owners(const Split *s, const SplitStep *t, const KRef *loops, uint32_t n_loops)
{
    rlx_assert(s->owners->len == s->plan->buffers.len);
    const double *spans = spans_of(s, t, loops, n_loops);
    for (uint32_t i = 0; i < s->k->params.len; i++)
        if (t->is_written[i])
            s->owners->data[s->pk->args.data[i].buf] = owner_of(&s->pk->args.data[i], spans[i], n_loops > 0);
}
