// SPDX-License-Identifier: Apache-2.0
// Kernels side by side: on GPUs, kernels that do not depend on each other and are too small to fill the
// device become one launch, which has the threads (or groups) of one behind those of another. The rotations
// of queries and keys, the products that make them, copies into the parts of a concat: a launch costs about a
// microsecond, whatever it does. Only kernels at the same depth of the dependencies are joined, so that
// nobody waits for more than before.
#include "ir/kernel/device.h"
#include "ir/machine/machine.h"
#include "passes/plan/parts.h"

// How far back kernels are joined; how many to one.
enum { WINDOW = 64, MAX_JOINED = 32, MAX_LOOPS = 8, MAX_SHARED = 16 };

typedef struct Grid {
    bool is_possible;
    uint32_t n_loops; // outermost first
    KRef loop[MAX_LOOPS];
    int64_t trips[MAX_LOOPS];
    int64_t n; // threads or groups
} Grid;

typedef struct Beside {
    Plan *plan;
    Arena *scratch;
    Grid *grid;      // by kernel
    uint32_t *level; // by kernel
    bool *is_gone;   // by kernel: it is part of an earlier one
} Beside;

// --- what a kernel is made of --------------------------------------------------------------------

// What may stand in front of the loops.
static bool is_expression(uint8_t kind)
{
    return kkind_is_expression(kind) || kkind_info[kind].cls == KIND_NOTHING || kind == KI_array;
}

static KRef first_statement(const Kernel *k, KRef begin, KRef end)
{
    while (begin < end && is_expression(k_inst(k, begin)->kind))
        begin++;
    return begin;
}

static int64_t trips_of(const Kernel *k, KRef loop, uint8_t flags)
{
    const KInst *n = k_inst(k, loop);
    int64_t lo = 0, hi = 0;
    if (n->kind != KI_for || n->flags != flags || !k_is_const(k, n->a, &lo) || !k_is_const(k, n->b, &hi))
        return 0;
    return hi <= lo ? 0 : (hi - lo + n->imm - 1) / n->imm;
}

// Functions of a device that mean the same behind a condition of whole groups.
static bool is_plain_function(KDevice f)
{
    static const bool is_plain[KDEV_COUNT] = {
        [KDEV_cp_async_words] = true, [KDEV_cp_async_commit] = true, [KDEV_cp_async_wait] = true,
        [KDEV_mma_bf16] = true,       [KDEV_pack_bf16] = true,        [KDEV_mma_bytes] = true,
        [KDEV_shared_begin] = true,   [KDEV_shared_get_words] = true, [KDEV_cp_async16] = true,
    };
    return is_plain[f];
}

// Only what names its parameters by number and means the same behind a condition.
static bool can_be_copied(const Kernel *k)
{
    for (KRef r = 1; r < k->insts.len; r++) {
        const KInst *n = k_inst(k, r);
        const bool is_function = n->kind == KI_device || n->kind == KI_call;
        if (n->kind == KI_point || n->kind == KI_matrix || n->kind == KI_part || n->kind == KI_custom ||
            (is_function && !is_plain_function(kdev_of(n))))
            return false;
    }
    return k->insts.len > 1 && k->cluster <= 1;
}

// The loops around all that the kernel does. most: threads that leave room on the device.
static Grid grid_of(const Kernel *k, int64_t most)
{
    const uint8_t flags = k->group != 0 ? KFOR_GROUP : KFOR_PARALLEL;
    Grid g = {.n = 1};
    KRef begin = 1, end = k->insts.len;
    while (g.n_loops < MAX_LOOPS) {
        const KRef loop = first_statement(k, begin, end);
        const int64_t trips = loop < end ? trips_of(k, loop, flags) : 0;
        if (trips == 0)
            break;
        const KRef close = k_block_end(k, loop);
        if (first_statement(k, close + 1, end) != end)
            break;
        g.loop[g.n_loops] = loop;
        g.trips[g.n_loops++] = trips;
        if (trips > most || g.n > most)
            return g;
        g.n *= trips;
        begin = loop + 1;
        end = close;
    }
    g.is_possible =
        can_be_copied(k) && (k->group == 0 || g.n_loops > 0) && g.n * (k->group != 0 ? k->group : 1) <= most;
    return g;
}

// --- what may stand beside what ------------------------------------------------------------------

// Buffers have no places yet: different ones never share bytes.
static bool in_conflict(const Plan *p, const PlanKernel *a, const PlanKernel *b)
{
    for (uint32_t i = 0; i < a->args.len; i++)
        for (uint32_t j = 0; j < b->args.len; j++) {
            const PlanArg *x = &a->args.data[i], *y = &b->args.data[j];
            if (x->buf == y->buf && (x->is_written || y->is_written) && x->begin < y->end &&
                y->begin < x->end && !parts_are_apart(p, a, x, b, y))
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
        if ((x->arg->is_written || a->is_written) && x->arg->begin < a->end && a->begin < x->arg->end &&
            level <= x->level && !parts_are_apart(p, &kernels[x->kernel], x->arg, &kernels[to->kernel], a))
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

// Around kernels that make choices of experts, or read the table of a layer, the host has something to do.
static bool is_of_experts(const Plan *p, const PlanKernel *k)
{
    for (uint32_t i = 0; i < p->experts.layers.len; i++)
        for (uint32_t a = 0; a < k->args.len; a++) {
            const PlanMoe *m = &p->experts.layers.data[i];
            if (k->args.data[a].buf == m->choice && k->args.data[a].is_written)
                return true;
            for (uint32_t j = 0; j < m->parts.len; j++)
                if (k->args.data[a].buf == m->parts.data[j].table)
                    return true;
        }
    return false;
}

// What runs once (prepare.h) stays where it is.
static bool is_plain(const Beside *s, uint32_t i)
{
    const PlanKernel *k = &s->plan->kernels.data[i];
    return i >= s->plan->prepare.n_kernels && k->loop == NULL && !k->is_last && !k->is_start &&
           !s->is_gone[i] && s->grid[i].is_possible && !is_of_experts(s->plan, k);
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

// Memory that groups share: the parts of a kernel, of which a group runs one, use the same.
typedef struct Shared {
    uint32_t n;
    struct {
        uint8_t type;
        int64_t len;
        KRef array;
    } of[MAX_SHARED];
} Shared;

static bool is_shared(const KInst *n)
{
    return n->kind == KI_array && (n->flags & KARRAY_SHARED) != 0;
}

// The place in `all` of the next array of a part, which has taken those of `taken`; all->n: there is none.
static uint32_t place_of_shared(const Shared *all, const KInst *array, bool *taken)
{
    uint32_t i = 0;
    while (i < all->n && (taken[i] || all->of[i].type != array->dtype))
        i++;
    if (i < all->n)
        taken[i] = true;
    return i;
}

// Makes room for those of a kernel. False: that is too much.
static bool share_memory(Shared *all, const Kernel *k, int64_t room)
{
    bool taken[MAX_SHARED] = {false};
    int64_t bytes = 0;
    for (KRef r = 1; r < k->insts.len; r++) {
        const KInst *n = k_inst(k, r);
        if (!is_shared(n))
            continue;
        const uint32_t i = place_of_shared(all, n, taken);
        if (i == MAX_SHARED)
            return false;
        if (i == all->n) {
            taken[all->n] = true;
            all->of[all->n].len = 0;
            all->of[all->n++].type = n->dtype;
        }
        all->of[i].len = n->imm > all->of[i].len ? n->imm : all->of[i].len;
    }
    for (uint32_t i = 0; i < all->n; i++)
        bytes += all->of[i].len * dtype_info[all->of[i].type].bytes;
    return bytes <= room;
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
    const int64_t arrays = (int64_t)caps->shared_bytes, left = (int64_t)caps->gpu->group_shared - raw;
    const int64_t room = raw != 0 && left < arrays ? left : arrays;
    Shared all = {.n = 0};
    for (uint32_t i = 0; i < n; i++)
        if (!share_memory(&all, s->plan->kernels.data[joined[i]].kernel, room))
            return false;
    return share_memory(&all, s->plan->kernels.data[to].kernel, room);
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

static bool names_param(uint8_t kind)
{
    return kind == KI_load || kind == KI_store || kind == KI_prefetch || kind == KI_fetch || kind == KI_put ||
           kind == KI_address;
}

static uint32_t loop_place(const Grid *g, KRef loop)
{
    uint32_t i = 0;
    while (i < g->n_loops && g->loop[i] != loop)
        i++;
    return i;
}

// The loop variable in iteration `at` of all loops of the grid.
static KRef loop_value(Kernel *to, const Kernel *k, const Grid *g, uint32_t place, KRef at)
{
    const KInst *n = k_inst(k, g->loop[place]);
    int64_t inner = 1, lo = 0;
    for (uint32_t i = place + 1; i < g->n_loops; i++)
        inner *= g->trips[i];
    k_is_const(k, n->a, &lo);
    KRef i = inner > 1 ? k_expr(to, "$ / #", at, inner) : at;
    i = place > 0 ? k_expr(to, "$ % #", i, g->trips[place]) : i;
    return k_expr(to, "$ * # + #", i, n->imm, lo);
}

// Appends the statements of a kernel for iteration `at` of its grid.
static void copy_body(const Beside *s, Kernel *to, uint32_t index, KRef at, const Shared *shared)
{
    bool taken[MAX_SHARED] = {false};
    const Kernel *k = s->plan->kernels.data[index].kernel;
    const Grid *g = &s->grid[index];
    const uint32_t first_param = to->params.len;
    KRef *map = ARENA_ARRAY(s->scratch, KRef, k->insts.len), end[MAX_LOOPS];
    for (uint32_t i = 0; i < k->params.len; i++)
        vec_push(to->arena, &to->params, k->params.data[i]);
    for (uint32_t i = 0; i < g->n_loops; i++)
        end[i] = k_block_end(k, g->loop[i]);
    for (KRef r = 1; r < k->insts.len; r++) {
        KInst n = *k_inst(k, r);
        const uint32_t place = loop_place(g, r);
        bool is_end = false;
        for (uint32_t i = 0; i < g->n_loops; i++)
            is_end = is_end || end[i] == r;
        if (place < g->n_loops)
            map[r] = loop_value(to, k, g, place, at);
        if (is_shared(&n))
            map[r] = shared->of[place_of_shared(shared, &n, taken)].array;
        if (place < g->n_loops || is_end || is_shared(&n))
            continue;
        n.a = map[n.a];
        n.b = map[n.b];
        n.c = map[n.c];
        n.imm += names_param(n.kind) ? first_param : 0;
        map[r] = k_append(to, &n);
    }
}

// Iterations of the joined kernel that are those of one of its parts.
static int64_t share_of(const Beside *s, uint32_t index, uint16_t group)
{
    const bool is_spread = group != 0 && s->plan->kernels.data[index].kernel->group == 0;
    return is_spread ? (s->grid[index].n + group - 1) / group : s->grid[index].n;
}

// Copies the body for iteration `at` of the kernel's share.
static void copy_share(const Beside *s, Kernel *to, uint32_t index, KRef at, const Shared *shared)
{
    if (to->group == 0 || s->plan->kernels.data[index].kernel->group != 0) {
        copy_body(s, to, index, at, shared);
        return;
    }
    const KRef id = k_expr(to, "$ * # + $", at, to->group, k_thread(to));
    k_if(to, k_expr(to, "$ < #", id, s->grid[index].n));
    copy_body(s, to, index, id, shared);
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
    Shared shared = {.n = 0};
    for (uint32_t i = 0; i < n; i++)
        rlx_assert(share_memory(&shared, kernels[joined[i]].kernel, INT64_MAX));
    for (uint32_t i = 0; i < shared.n; i++)
        shared.of[i].array = k_shared(to, shared.of[i].type, shared.of[i].len);
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
        for (uint32_t j = 0; j < k->body.len; j++)
            vec_push(s->plan->arena, &first->body, k->body.data[j]);
        first->flops += k->flops;
        first->macs += k->macs;
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
    s.grid = ARENA_ARRAY(p->scratch, Grid, n + 1u);
    s.level = ARENA_ARRAY(p->scratch, uint32_t, n + 1u);
    s.is_gone = ARENA_ARRAY(p->scratch, bool, n + 1u);
    for (uint32_t i = 0; i < n; i++)
        if (plan->kernels.data[i].loop == NULL)
            s.grid[i] = grid_of(plan->kernels.data[i].kernel, most);
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
