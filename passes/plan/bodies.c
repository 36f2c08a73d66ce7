// SPDX-License-Identifier: Apache-2.0
// Kernels of GPUs as parts of others. See bodies.h.
#include "passes/plan/bodies.h"

#include "ir/kernel/device.h"
#include "ir/machine/machine.h"

enum { SUBGROUP = 32, RAW_UNIT = 128 };

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

// Functions of a device that mean the same behind a condition of whole groups. Those of clusters do where
// there is none: a group has rank 0, and its own memory.
static bool is_plain_function(KDevice f)
{
    static const bool is_plain[KDEV_COUNT] = {
        [KDEV_cp_async_words] = true, [KDEV_cp_async_commit] = true, [KDEV_cp_async_wait] = true,
        [KDEV_mma_bf16] = true,       [KDEV_pack_bf16] = true,       [KDEV_mma_bytes] = true,
        [KDEV_shared_begin] = true,   [KDEV_shared_get_words] = true, [KDEV_cp_async16] = true,
        [KDEV_mma_tf32] = true,       [KDEV_cluster_rank] = true,    [KDEV_cluster_put] = true,
        [KDEV_shared_get4] = true,    [KDEV_shared_put4] = true,     [KDEV_shared_put] = true,
    };
    return is_plain[f];
}

static bool is_function(const KInst *n)
{
    return n->kind == KI_device || n->kind == KI_call;
}

// Only what names its parameters by number and means the same behind a condition.
static bool can_be_copied(const Kernel *k)
{
    for (KRef r = 1; r < k->insts.len; r++) {
        const KInst *n = k_inst(k, r);
        if (n->kind == KI_point || n->kind == KI_matrix || n->kind == KI_part || n->kind == KI_custom ||
            (is_function(n) && !is_plain_function(kdev_of(n))))
            return false;
    }
    return k->insts.len > 1 && k->cluster <= 1;
}

BodyGrid body_grid(const Kernel *k, int64_t most)
{
    const uint8_t flags = k->group != 0 ? KFOR_GROUP : KFOR_PARALLEL;
    BodyGrid g = {.n = 1};
    KRef begin = 1, end = k->insts.len;
    while (g.n_loops < BODY_MAX_LOOPS) {
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

bool body_is_plain(const Plan *p, uint32_t kernel, const BodyGrid *g)
{
    const PlanKernel *k = &p->kernels.data[kernel];
    return kernel >= p->prepare.n_kernels && k->loop == NULL && !k->is_last && !k->is_start &&
           g->is_possible && !is_of_experts(p, k);
}

// --- shared memory -------------------------------------------------------------------------------

static bool is_shared(const KInst *n)
{
    return n->kind == KI_array && (n->flags & KARRAY_SHARED) != 0;
}

// The place in `all` of the next array of a part, which has taken those of `taken`; all->n: there is none.
static uint32_t place_of_shared(const BodyShared *all, const KInst *array, bool *taken)
{
    uint32_t i = 0;
    while (i < all->n && (taken[i] || all->of[i].type != array->dtype))
        i++;
    if (i < all->n)
        taken[i] = true;
    return i;
}

bool body_has_shared(const Kernel *k)
{
    for (KRef r = 1; r < k->insts.len; r++)
        if (is_shared(k_inst(k, r)))
            return true;
    return k->shared_bytes != 0;
}

int64_t body_raw_bytes(const Kernel *k)
{
    return ((int64_t)k->shared_bytes + RAW_UNIT - 1) / RAW_UNIT * RAW_UNIT;
}

bool body_share(BodyShared *all, const Kernel *k, int64_t parts, int64_t room)
{
    bool taken[BODY_MAX_SHARED] = {false};
    int64_t bytes = 0;
    for (KRef r = 1; r < k->insts.len; r++) {
        const KInst *n = k_inst(k, r);
        if (!is_shared(n))
            continue;
        const uint32_t i = place_of_shared(all, n, taken);
        if (i == BODY_MAX_SHARED)
            return false;
        if (i == all->n) {
            taken[all->n] = true;
            all->of[all->n].len = 0;
            all->of[all->n++].type = n->dtype;
        }
        all->of[i].len = n->imm * parts > all->of[i].len ? n->imm * parts : all->of[i].len;
    }
    for (uint32_t i = 0; i < all->n; i++)
        bytes += all->of[i].len * dtype_info[all->of[i].type].bytes;
    return bytes <= room;
}

void body_make_shared(BodyShared *all, Kernel *to)
{
    for (uint32_t i = 0; i < all->n; i++)
        all->of[i].array = k_shared(to, all->of[i].type, all->of[i].len);
    if (all->n != 0 && to->shared_bytes != 0)
        to->shared_bytes += BODY_RAW_UNIT;
}

// --- a copy --------------------------------------------------------------------------------------

static bool names_param(uint8_t kind)
{
    return kind == KI_load || kind == KI_store || kind == KI_prefetch || kind == KI_fetch || kind == KI_put ||
           kind == KI_address;
}

static uint32_t loop_place(const BodyGrid *g, KRef loop)
{
    uint32_t i = 0;
    while (i < g->n_loops && g->loop[i] != loop)
        i++;
    return i;
}

// The loop variable in iteration `at` of all loops of the grid.
static KRef loop_value(Kernel *to, const BodyCopy *c, uint32_t place)
{
    const BodyGrid *g = c->grid;
    const KInst *n = k_inst(c->from, g->loop[place]);
    int64_t inner = 1, lo = 0;
    for (uint32_t i = place + 1; i < g->n_loops; i++)
        inner *= g->trips[i];
    k_is_const(c->from, n->a, &lo);
    KRef i = inner > 1 ? k_expr(to, "$ / #", c->at, inner) : c->at;
    i = place > 0 ? k_expr(to, "$ % #", i, g->trips[place]) : i;
    return k_expr(to, "$ * # + #", i, n->imm, lo);
}

// Which operand of an access to an array is the array, and which the index; NULL: it is none.
static KRef *array_index(KInst *n, KRef *array)
{
    const bool is_wide = n->kind == KI_fetch || n->kind == KI_put;
    *array = is_wide ? n->b : n->a;
    return is_wide ? &n->c : n->kind == KI_aload || n->kind == KI_astore ? &n->b : NULL;
}

// Each part has its own of what a group shares.
static void move_to_part(Kernel *to, const BodyCopy *c, KInst *n, KRef source)
{
    KInst old = *k_inst(c->from, source);
    KRef array = 0;
    KRef *index = array_index(&old, &array);
    if (index == NULL || !is_shared(k_inst(c->from, array)))
        return;
    KRef unused = 0, *moved = array_index(n, &unused);
    *moved = k_expr(to, "$ + $ * #", *moved, c->part, k_inst(c->from, array)->imm);
}

bool body_can_be_part(const Kernel *k)
{
    for (KRef r = 1; r < k->insts.len; r++) {
        const KInst *n = k_inst(k, r);
        const bool is_shuffled = n->imm <= SUBGROUP && (n->dtype == DTYPE_f32 || k_is_half(n->dtype));
        if (n->kind == KI_team && !is_shuffled)
            return false;
        const KRef of[] = {n->a, n->b, n->c};
        for (uint32_t i = 0; i < sizeof of / sizeof *of && (is_function(n) || n->kind == KI_list); i++)
            if (is_shared(k_inst(k, of[i])))
                return false;
    }
    return true;
}

// An instruction that is another one for a part of a group; 0: it is not.
static KRef part_of(Kernel *to, const BodyCopy *c, const KInst *n)
{
    const int64_t threads = c->from->group;
    if (c->part == 0)
        return 0;
    if (n->kind == KI_thread)
        return k_expr(to, "$ % #", k_thread(to), threads);
    if (n->kind == KI_call && kdev_of(n) == KDEV_shared_begin)
        return k_expr(to, "$ + $ * #", k_call(to, KDEV_shared_begin, 0, 0, 0), c->part,
                      body_raw_bytes(c->from));
    if (n->kind != KI_barrier)
        return 0;
    k_device(to, KDEV_named_sync, k_expr(to, "$ + 1", c->part), k_index(to, threads));
    return to->insts.len - 1;
}

void body_copy(Arena *scratch, Kernel *to, const BodyCopy *c)
{
    bool taken[BODY_MAX_SHARED] = {false};
    const Kernel *k = c->from;
    const BodyGrid *g = c->grid;
    KRef *map = ARENA_ARRAY(scratch, KRef, k->insts.len), end[BODY_MAX_LOOPS];
    for (uint32_t i = 0; i < g->n_loops; i++)
        end[i] = k_block_end(k, g->loop[i]);
    for (KRef r = 1; r < k->insts.len; r++) {
        KInst n = *k_inst(k, r);
        const uint32_t place = loop_place(g, r);
        bool is_end = n.kind == KI_wait && !c->waits;
        for (uint32_t i = 0; i < g->n_loops; i++)
            is_end = is_end || end[i] == r;
        if (place < g->n_loops)
            map[r] = loop_value(to, c, place);
        else if (is_shared(&n))
            map[r] = c->shared->of[place_of_shared(c->shared, &n, taken)].array;
        else if (!is_end)
            map[r] = part_of(to, c, &n);
        if (map[r] != 0 || is_end)
            continue;
        n.a = map[n.a];
        n.b = map[n.b];
        n.c = map[n.c];
        if (names_param(n.kind))
            n.imm = c->param[n.imm];
        if (c->part != 0)
            move_to_part(to, c, &n, r);
        map[r] = k_append(to, &n);
    }
}

void body_take_over(Arena *a, PlanKernel *to, const PlanKernel *from)
{
    for (uint32_t i = 0; i < from->body.len; i++)
        vec_push(a, &to->body, from->body.data[i]);
    to->flops += from->flops;
    to->macs += from->macs;
}
