// SPDX-License-Identifier: Apache-2.0
// Kernels side by side: on GPUs, kernels that do not depend on each other and are too small to fill the
// device become one launch, which has the threads (or groups) of one behind those of another. The rotations
// of queries and keys, the products that make them, copies into the parts of a concat: a launch costs about a
// microsecond, whatever it does. Only kernels at the same depth of the dependencies are joined, so that
// nobody waits for more than before.
#include "ir/machine/machine.h"
#include "passes/plan/bodies.h"
#include "passes/plan/parts.h"

// How far back kernels are joined; how many to one.
enum { WINDOW = 64, MAX_JOINED = 32 };

typedef struct Beside {
    Plan *plan;
    Arena *scratch;
    BodyGrid *grid;  // by kernel
    uint32_t *level; // by kernel
    bool *is_gone;   // by kernel: it is part of an earlier one
} Beside;

// --- what may stand beside what ------------------------------------------------------------------

// Buffers have no places yet: different ones never share bytes.
static bool in_conflict(const Plan *p, const PlanKernel *a, const PlanKernel *b)
{
    for (uint32_t i = 0; i < a->args.len; i++)
        for (uint32_t j = 0; j < b->args.len; j++) {
            const PlanArg *x = &a->args.data[i], *y = &b->args.data[j];
            if (plan_args_meet(x, y) && !parts_are_apart(p, a, x, b, y))
                return true;
        }
    return false;
}

// Bytes of a buffer that a kernel at some depth touches.
typedef struct Touch {
    uint32_t kernel;
    const PlanArg *arg;
    uint32_t level;
} Touch;
typedef VEC(Touch) Touches;

static uint32_t level_behind(const Plan *p, const Touches *t, const Touch *to)
{
    const PlanKernel *kernels = p->kernels.data;
    const PlanArg *a = to->arg;
    uint32_t level = to->level;
    for (uint32_t i = 0; i < t->len; i++) {
        const Touch *x = &t->data[i];
        if (plan_args_meet(x->arg, a) && level <= x->level &&
            !parts_are_apart(p, &kernels[x->kernel], x->arg, &kernels[to->kernel], a))
            level = x->level + 1;
    }
    return level;
}

static void find_levels(Beside *s)
{
    const Plan *p = s->plan;
    Touches *touches = ARENA_ARRAY(s->scratch, Touches, p->buffers.len); // by buffer
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        const PlanKernel *k = &p->kernels.data[i];
        for (uint32_t j = 0; j < k->args.len; j++)
            s->level[i] =
                level_behind(p, &touches[k->args.data[j].buf], &(Touch){i, &k->args.data[j], s->level[i]});
        for (uint32_t j = 0; j < k->args.len; j++) {
            const PlanArg *a = &k->args.data[j];
            const Region region = p->buffers.data[a->buf].region;
            if (region != REGION_WEIGHTS && region != REGION_PARAM) // nobody writes these
                vec_push(s->scratch, &touches[a->buf],
                         ((Touch){i, a, s->level[i]}));
        }
    }
}

static bool is_plain(const Beside *s, uint32_t i)
{
    return !s->is_gone[i] && body_is_plain(s->plan, i, &s->grid[i]);
}

// Some targets count the parameters of a kernel.
static bool has_room(const Beside *s, const uint32_t *joined, uint32_t n, uint32_t to)
{
    const PlanKernel *kernels = s->plan->kernels.data;
    const uint32_t most = s->plan->caps->max_params;
    uint32_t params = kernels[to].kernel->params.len;
    for (uint32_t i = 0; i < n; i++)
        params += kernels[joined[i]].kernel->params.len;
    return most == 0 || params <= most;
}

// Threads that have nothing to do with each other may be those of any group.
static uint16_t group_of(const Beside *s, const uint32_t *joined, uint32_t n)
{
    uint16_t group = 0;
    for (uint32_t i = 0; i < n; i++)
        group = group != 0 ? group : s->plan->kernels.data[joined[i]].kernel->group;
    return group;
}

static bool agree_on_groups(const Beside *s, const uint32_t *joined, uint32_t n, uint32_t to)
{
    const uint16_t group = group_of(s, joined, n), other = s->plan->kernels.data[to].kernel->group;
    return group == 0 || other == 0 || group == other;
}

// Arrays have their own limit, and less than that beside what a part uses without an array.
static bool has_shared_room(const Beside *s, const uint32_t *joined, uint32_t n, uint32_t to)
{
    const TargetCaps *caps = s->plan->caps;
    int64_t raw = s->plan->kernels.data[to].kernel->shared_bytes;
    for (uint32_t i = 0; i < n; i++) {
        const int64_t of_part = s->plan->kernels.data[joined[i]].kernel->shared_bytes;
        raw = of_part > raw ? of_part : raw;
    }
    const int64_t arrays = (int64_t)caps->shared_bytes;
    const int64_t left = (int64_t)caps->gpu->group_shared - raw - BODY_RAW_UNIT;
    const int64_t room = raw != 0 && left < arrays ? left : arrays;
    BodyShared all = {.n = 0};
    for (uint32_t i = 0; i < n; i++)
        if (!body_share(&all, s->plan->kernels.data[joined[i]].kernel, 1, room))
            return false;
    return body_share(&all, s->plan->kernels.data[to].kernel, 1, room);
}

// May kernel `to` be computed where kernel `from` is, beside all of `joined`?
static bool can_join(const Beside *s, const uint32_t *joined, uint32_t n, uint32_t to)
{
    const PlanKernel *kernels = s->plan->kernels.data;
    const uint32_t from = joined[0];
    if (!is_plain(s, to) || s->level[to] != s->level[from] || !agree_on_groups(s, joined, n, to) ||
        !has_room(s, joined, n, to) || !has_shared_room(s, joined, n, to))
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (in_conflict(s->plan, &kernels[joined[i]], &kernels[to]))
            return false;
    for (uint32_t i = from + 1; i < to; i++)
        if (!s->is_gone[i] && in_conflict(s->plan, &kernels[i], &kernels[to]))
            return false;
    return true;
}

// --- the kernel of several -----------------------------------------------------------------------

// Iterations of the joined kernel that are those of one of its parts.
static int64_t share_of(const Beside *s, uint32_t index, uint16_t group)
{
    const bool is_spread = group != 0 && s->plan->kernels.data[index].kernel->group == 0;
    return is_spread ? (s->grid[index].n + group - 1) / group : s->grid[index].n;
}

// Copies the body for iteration `at` of the kernel's share.
static void copy_share(const Beside *s, Kernel *to, uint32_t index, KRef at, const BodyShared *shared)
{
    const Kernel *from = s->plan->kernels.data[index].kernel;
    uint32_t *param = ARENA_ARRAY(s->scratch, uint32_t, from->params.len + 1u);
    for (uint32_t i = 0; i < from->params.len; i++) {
        param[i] = to->params.len;
        vec_push(to->arena, &to->params, from->params.data[i]);
    }
    BodyCopy c = {from, &s->grid[index], shared, param, at, true, 0};
    if (to->group == 0 || from->group != 0) {
        body_copy(s->scratch, to, &c);
        return;
    }
    c.at = k_expr(to, "$ * # + $", at, to->group, k_thread(to));
    k_if(to, k_expr(to, "$ < #", c.at, s->grid[index].n));
    body_copy(s->scratch, to, &c);
    k_end(to);
}

static Kernel *kernel_of(const Beside *s, const uint32_t *joined, uint32_t n)
{
    const PlanKernel *kernels = s->plan->kernels.data;
    const Kernel *first = kernels[joined[0]].kernel;
    Kernel *to = kernel_new(first->arena, first->name);
    int64_t total = 0, end = 0;
    bool has_wait = false;
    const uint16_t group = group_of(s, joined, n);
    to->comment = first->comment;
    for (uint32_t i = 0; i < n; i++) {
        const Kernel *k = kernels[joined[i]].kernel;
        total += share_of(s, joined[i], group);
        has_wait = has_wait || kernel_has_wait(k);
        to->may_alias = to->may_alias || k->may_alias;
        to->shared_bytes = k->shared_bytes > to->shared_bytes ? k->shared_bytes : to->shared_bytes;
        to->comment = i == 0 ? first->comment : arena_printf(to->arena, "%s; %s", to->comment, k->comment);
    }
    if (group != 0)
        k_set_group(to, group);
    BodyShared shared = {.n = 0};
    for (uint32_t i = 0; i < n; i++) {
        const bool has_place = body_share(&shared, kernels[joined[i]].kernel, 1, INT64_MAX);
        rlx_assert(has_place);
    }
    body_make_shared(&shared, to);
    const KRef at = group != 0 ? k_for_group(to, total, "part") : k_loop(to, total, KFOR_PARALLEL, "part");
    for (uint32_t i = 0; i < n; i++) {
        const int64_t begin = end;
        end += share_of(s, joined[i], group);
        if (i + 1 < n)
            k_if(to, k_expr(to, "$ < #", at, end));
        if (has_wait && !kernel_has_wait(kernels[joined[i]].kernel))
            k_wait(to);
        copy_share(s, to, joined[i], k_expr(to, "$ + #", at, -begin), &shared);
        if (i + 1 < n)
            k_else(to);
    }
    for (uint32_t i = 0; i < n; i++) // the conditions, and the loop
        k_end(to);
    return to;
}

static void join(Beside *s, const uint32_t *joined, uint32_t n)
{
    PlanKernel *kernels = s->plan->kernels.data, *first = &kernels[joined[0]];
    Kernel *to = kernel_of(s, joined, n);
    const char *wrong = kernel_verify(to);
    if (wrong != NULL)
        diag_bug(to->name, (int)joined[0], wrong);
    first->kernel = to;
    first->is_joined = true;
    first->copy = (PlanCopy){0};
    for (uint32_t i = 1; i < n; i++) {
        const PlanKernel *k = &kernels[joined[i]];
        for (uint32_t j = 0; j < k->args.len; j++)
            vec_push(s->plan->arena, &first->args, k->args.data[j]);
        body_take_over(s->plan->arena, first, k);
        s->is_gone[joined[i]] = true;
    }
}

// --- the pass ------------------------------------------------------------------------------------

static bool join_all(Beside *s)
{
    const uint32_t n = s->plan->kernels.len;
    bool any = false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t joined[MAX_JOINED] = {i}, n_joined = 1;
        if (!is_plain(s, i))
            continue;
        for (uint32_t j = i + 1; j < n && j <= i + WINDOW && n_joined < MAX_JOINED; j++)
            if (can_join(s, joined, n_joined, j))
                joined[n_joined++] = j;
        if (n_joined == 1)
            continue;
        join(s, joined, n_joined);
        any = true;
    }
    return any;
}

bool pass_beside(Pass *p)
{
    rlx_assert(p->plan->prepare.n_kernels <= p->plan->kernels.len);
    rlx_assert(p->plan->graph == p->graph);
    Plan *plan = p->plan;
    const uint32_t n = plan->kernels.len;
    Beside s = {.plan = plan, .scratch = p->scratch};
    if (!plan->caps->is_gpu || p->options->no_fuse || p->frame != NULL || plan->n_check_kernels != 0)
        return false;
    const int64_t most = (int64_t)gpu_about_threads(plan->caps->gpu);
    s.grid = ARENA_ARRAY(p->scratch, BodyGrid, n + 1u);
    s.level = ARENA_ARRAY(p->scratch, uint32_t, n + 1u);
    s.is_gone = ARENA_ARRAY(p->scratch, bool, n + 1u);
    for (uint32_t i = 0; i < n; i++)
        if (plan->kernels.data[i].loop == NULL)
            s.grid[i] = body_grid(plan->kernels.data[i].kernel, most);
    find_levels(&s);
    if (!join_all(&s))
        return false;
    plan->kernels.len = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!s.is_gone[i])
            plan->kernels.data[plan->kernels.len++] = plan->kernels.data[i];
    rlx_assert(plan->kernels.len >= 1 && plan->kernels.len < n);
    return true;
}
