// SPDX-License-Identifier: Apache-2.0
// Kernels behind each other: on GPUs, a run of small kernels becomes one launch of a single group of threads,
// which does one after the other, with a barrier where the next one reads what those before it wrote.
// Networks that listen to speech are chains of such kernels, of which most have less than a microsecond to
// do, and each launch that waits for the one before it costs more than that. Kernels of smaller groups share
// the threads: as many of their groups run at once as there is room for, each with barriers of its own.
#include "ir/machine/machine.h"
#include "passes/plan/bodies.h"

// THREADS: of the group, so that each has 128 registers. Barriers with numbers bound the groups that run at
// once.
enum { THREADS = 512, MAX_PARTS = 15, MAX_JOINED = 64, MAX_PARAMS = 256 };

// What a launch that waits for another one costs; a turn of the group beyond the first one, and accesses of a
// subgroup that a processor makes in a microsecond.
static const double launch_us = 1.2, turn_us = 0.4, accesses_rate = 1500;

typedef struct Behind {
    Plan *plan;
    Arena *scratch;
    BodyGrid *grid;  // by kernel
    uint32_t *parts; // by kernel: groups of it that run at once; 0: it is not joined
} Behind;

// --- which kernels -------------------------------------------------------------------------------

static bool has_room(const Behind *s, const Kernel *k, int64_t parts)
{
    const TargetCaps *caps = s->plan->caps;
    BodyShared all = {.n = 0};
    const int64_t half = (int64_t)caps->shared_bytes / 2; // beside arrays of other types
    return body_raw_bytes(k) * parts <= half && body_share(&all, k, parts, half);
}

// Groups of a kernel that run at once. 0: it cannot be among others.
static uint32_t parts_of(const Behind *s, const PlanKernel *pk, const BodyGrid *g)
{
    const Kernel *k = pk->kernel;
    if (k->group == 0)
        return 1;
    if (k->group > THREADS || THREADS % k->group != 0 || (k->group < THREADS && !body_can_be_part(k)))
        return 0;
    int64_t parts = THREADS / k->group < MAX_PARTS ? THREADS / k->group : MAX_PARTS;
    parts = g->n < parts ? g->n : parts;
    while (parts > 0 && !has_room(s, k, parts))
        parts--;
    return (uint32_t)parts;
}

static int64_t turns_of(const BodyGrid *g, const Kernel *k, uint32_t parts)
{
    const int64_t at_once = k->group == 0 ? THREADS : parts;
    return (g->n + at_once - 1) / at_once;
}

// What a kernel takes longer when one processor does all of it.
static double longer(const Behind *s, uint32_t i)
{
    const PlanKernel *pk = &s->plan->kernels.data[i];
    const Kernel *k = pk->kernel;
    const double groups = (double)s->grid[i].n, threads = groups * (k->group != 0 ? k->group : 1);
    double bytes = 0;
    for (uint32_t j = 0; j < pk->args.len; j++)
        bytes += (double)(pk->args.data[j].end - pk->args.data[j].begin);
    const double turns = (double)turns_of(&s->grid[i], k, s->parts[i]);
    return (turns - 1) * turn_us + bytes / 1000 / s->plan->caps->gpu->copy_rate +
           kernel_reads(k) * threads / 32 / accesses_rate;
}

static int64_t raw_of(const Behind *s, uint32_t i)
{
    return body_raw_bytes(s->plan->kernels.data[i].kernel) * s->parts[i];
}

static void choose(Behind *s, uint32_t i, int64_t most)
{
    const PlanKernel *pk = &s->plan->kernels.data[i];
    if (pk->loop != NULL)
        return;
    s->grid[i] = body_grid(pk->kernel, most);
    if (!body_is_plain(s->plan, i, &s->grid[i]))
        return;
    s->parts[i] = parts_of(s, pk, &s->grid[i]);
    if (s->parts[i] != 0 && longer(s, i) > launch_us)
        s->parts[i] = 0;
}

// --- the kernel of several -----------------------------------------------------------------------

// Does kernel `to` touch what a kernel of [from, to) wrote, or write what one of these touches?
static bool must_wait(const Plan *p, uint32_t from, uint32_t to)
{
    const PlanKernel *b = &p->kernels.data[to];
    for (uint32_t i = from; i < to; i++)
        for (uint32_t x = 0; x < p->kernels.data[i].args.len; x++)
            for (uint32_t y = 0; y < b->args.len; y++)
                if (plan_args_meet(&p->kernels.data[i].args.data[x], &b->args.data[y]))
                    return true;
    return false;
}

static bool is_same_param(const PlanArg *a, const KParam *p, const PlanArg *b, const KParam *q)
{
    return a->buf == b->buf && a->byte_offset == b->byte_offset && a->move == 0 && b->move == 0 &&
           p->dtype == q->dtype && p->first == q->first && !p->is_own && !q->is_own && p->table == 0 &&
           q->table == 0;
}

// The parameters of a kernel, those that there are already once.
static uint32_t *add_params(const Behind *s, PlanKernel *to, const PlanKernel *from)
{
    Kernel *k = to->kernel;
    uint32_t *param = ARENA_ARRAY(s->scratch, uint32_t, from->args.len + 1u);
    for (uint32_t i = 0; i < from->args.len; i++) {
        const PlanArg *a = &from->args.data[i];
        const KParam *p = &from->kernel->params.data[i];
        uint32_t j = 0;
        while (j < to->args.len && !is_same_param(a, p, &to->args.data[j], &k->params.data[j]))
            j++;
        param[i] = j;
        if (j == to->args.len) {
            vec_push(s->plan->arena, &to->args, *a);
            vec_push(k->arena, &k->params, *p);
            continue;
        }
        PlanArg *both = &to->args.data[j];
        both->begin = a->begin < both->begin ? a->begin : both->begin;
        both->end = a->end > both->end ? a->end : both->end;
        both->is_written |= a->is_written;
        both->is_read |= a->is_read;
        k->params.data[j].is_written |= p->is_written;
        k->params.data[j].is_read |= p->is_read;
    }
    return param;
}

// All that kernel i does, by the threads of the group.
static void add_body(const Behind *s, PlanKernel *to, uint32_t i, const BodyShared *shared)
{
    const PlanKernel *from = &s->plan->kernels.data[i];
    Kernel *k = to->kernel;
    const uint16_t group = from->kernel->group;
    const uint32_t parts = s->parts[i];
    const int64_t turns = turns_of(&s->grid[i], from->kernel, parts), at_once = group == 0 ? THREADS : parts;
    BodyCopy c = {.from = from->kernel, .grid = &s->grid[i], .shared = shared};
    c.param = add_params(s, to, from);
    const bool is_part = group != 0 && group < THREADS;
    const KRef zero = k_index(k, 0), thread = k_thread(k);
    const KRef of_group = group == 0 ? thread : is_part ? k_expr(k, "$ / #", thread, group) : zero;
    c.part = is_part ? of_group : 0;
    const KRef turn = turns > 1 ? k_loop(k, turns, KFOR_ROLL, "turn") : zero;
    c.at = k_expr(k, "$ * # + $", turn, at_once, of_group);
    const bool has_idle = group == 0 || is_part;
    if (has_idle)
        k_if(k, is_part && parts * group < THREADS
                    ? k_expr(k, "$ < # & $ < #", of_group, parts, c.at, s->grid[i].n)
                    : k_expr(k, "$ < #", c.at, s->grid[i].n));
    body_copy(s->scratch, k, &c);
    if (has_idle)
        k_end(k);
    if (turns > 1) {
        if (group != 0 && body_has_shared(from->kernel)) // the next turn uses it again
            k_barrier(k);
        k_end(k);
    }
}

static void take_over(const Behind *s, PlanKernel *to, const PlanKernel *from)
{
    Kernel *k = to->kernel;
    const char *comment = from->kernel->comment;
    body_take_over(s->plan->arena, to, from);
    k->comment = k->comment == NULL ? comment : arena_printf(k->arena, "%s; %s", k->comment, comment);
}

// Kernels [first, end) as one.
static PlanKernel joined_kernel(const Behind *s, uint32_t first, uint32_t end)
{
    const PlanKernel *kernels = s->plan->kernels.data;
    const Kernel *model = kernels[first].kernel;
    PlanKernel to = {.kernel = kernel_new(model->arena, model->name), .root = kernels[first].root};
    Kernel *k = to.kernel;
    BodyShared shared = {.n = 0};
    int64_t raw = 0;
    to.anchor = kernels[first].anchor;
    to.is_joined = k->may_alias = true;
    k_set_group(k, THREADS);
    for (uint32_t i = first; i < end; i++) {
        const Kernel *from = kernels[i].kernel;
        body_share(&shared, from, s->parts[i], INT64_MAX);
        raw = raw_of(s, i) > raw ? raw_of(s, i) : raw;
        take_over(s, &to, &kernels[i]);
    }
    k->shared_bytes = (uint32_t)raw;
    body_make_shared(&shared, k);
    k_for_group(k, 1, "all");
    for (uint32_t i = first, since = first; i < end; i++) {
        const bool shares = body_has_shared(kernels[i].kernel); // memory of a kernel before it
        if (i > since && (shares || must_wait(s->plan, since, i))) {
            k_barrier(k);
            since = i;
        }
        add_body(s, &to, i, &shared);
    }
    k_end(k);
    const char *wrong = kernel_verify(k);
    if (wrong != NULL)
        diag_bug(k->name, (int)first, wrong);
    return to;
}

// --- the pass ------------------------------------------------------------------------------------

// Does the memory of all fit, and their parameters?
static bool fits(const Behind *s, uint32_t first, uint32_t end)
{
    BodyShared all = {.n = 0};
    const int64_t most = (int64_t)s->plan->caps->shared_bytes - BODY_RAW_UNIT;
    uint32_t params = 0;
    int64_t raw = 0;
    for (uint32_t i = first; i < end; i++) {
        const PlanKernel *pk = &s->plan->kernels.data[i];
        params += pk->args.len;
        raw = raw_of(s, i) > raw ? raw_of(s, i) : raw;
        if (!body_share(&all, pk->kernel, s->parts[i], most - raw))
            return false;
    }
    return params <= MAX_PARAMS;
}

static uint32_t end_of_run(const Behind *s, uint32_t first)
{
    uint32_t end = first;
    while (end < s->plan->kernels.len && end - first < MAX_JOINED && s->parts[end] != 0 &&
           fits(s, first, end + 1))
        end++;
    return end;
}

bool pass_behind(Pass *p)
{
    Plan *plan = p->plan;
    const uint32_t n = plan->kernels.len;
    Behind s = {.plan = plan, .scratch = p->scratch};
    if (!plan->caps->has_mma || p->options->no_fuse || p->frame != NULL || plan->n_check_kernels != 0)
        return false;
    rlx_assert(plan->graph == p->graph);
    s.grid = ARENA_ARRAY(p->scratch, BodyGrid, n + 1u);
    s.parts = ARENA_ARRAY(p->scratch, uint32_t, n + 1u);
    for (uint32_t i = 0; i < n; i++)
        choose(&s, i, (int64_t)gpu_about_threads(plan->caps->gpu));
    uint32_t to = 0;
    for (uint32_t i = 0; i < n;) {
        const uint32_t end = end_of_run(&s, i);
        plan->kernels.data[to++] = end > i + 1 ? joined_kernel(&s, i, end) : plan->kernels.data[i];
        i = end > i ? end : i + 1;
    }
    plan->kernels.len = to;
    rlx_assert(to <= n);
    return to < n;
}
