// SPDX-License-Identifier: Apache-2.0
// Parallel loops of kernels without groups: their iterations run as threads of the machine, which is quicker
// than one after the other, and finds those that depend on each other.
#include "ir/interp/resolve.h"

static bool is_outside(const Resolver *r, KRef ref, KRef loop, KKind kind)
{
    return ref != 0 && ref < loop && k_inst(r->k, ref)->kind == kind;
}

// What belongs to the thread around the loop, or to all: a variable or an array that it made, its scratch
// memory, matrix registers.
static bool keeps_to_one(const Resolver *r, KRef ref, KRef loop)
{
    const KInst *n = k_inst(r->k, ref);
    const KRef src[3] = {n->a, n->b, n->c};
    if (n->kind == KI_barrier || n->kind == KI_matrix || n->kind == KI_device || n->kind == KI_team)
        return true;
    if (n->kind == KI_set && is_outside(r, n->a, loop, KI_var))
        return true;
    for (uint32_t i = 0; i < 3; i++)
        if (is_outside(r, src[i], loop, KI_array))
            return true;
    return k_writes_param(n) && r->k->params.data[n->imm].is_own;
}

bool resolve_may_fork(const Resolver *r, KRef loop)
{
    const KInst *n = k_inst(r->k, loop);
    if (n->flags != KFOR_PARALLEL || r->k->group != 0 || r->parts > 1)
        return false;
    const KRef end = k_block_end(r->k, loop);
    for (KRef ref = loop + 1; ref < end; ref++)
        if (keeps_to_one(r, ref, loop))
            return false;
    return true;
}

// The only statement of a loop's body, if it is a parallel loop whose bounds are known before `outer`.
static KRef inner_loop(const Resolver *r, KRef loop, KRef outer)
{
    KRef inner = 0;
    const KRef end = k_block_end(r->k, loop);
    for (KRef ref = loop + 1; ref < end; ref++) {
        const KInst *n = k_inst(r->k, ref);
        if (kkind_is_expression(n->kind) || n->kind == KI_comment)
            continue;
        if (inner != 0 || n->kind != KI_for || n->flags != KFOR_PARALLEL)
            return 0;
        const bool is_known = (n->a < outer || k_inst(r->k, n->a)->kind == KI_const) &&
                              (n->b < outer || k_inst(r->k, n->b)->kind == KI_const);
        if (!is_known)
            return 0;
        inner = ref;
        ref = k_block_end(r->k, ref);
    }
    return inner;
}

static void add_spread(Resolver *r, Fork *f, uint32_t slot, uint32_t lanes, uint32_t bytes)
{
    for (uint32_t i = 0; i < f->spread.len; i++)
        if (f->spread.data[i].slot == slot)
            return;
    vec_push(r->arena, &f->spread, ((Spread){slot, lanes, bytes}));
}

static void find_spread(Resolver *r, Fork *f, KRef loop)
{
    const KRef end = k_block_end(r->k, loop);
    for (KRef ref = loop; ref < end; ref++) {
        const KInst *n = k_inst(r->k, ref);
        const KRef src[3] = {n->a, n->b, n->c};
        for (uint32_t i = 0; i < 3; i++) {
            const KInst *o = k_inst(r->k, src[i]);
            if (src[i] != 0 && src[i] < loop && r->slot[src[i]] != 0 && o->kind != KI_const)
                add_spread(r, f, r->slot[src[i]], o->lanes, cell_bytes(o->dtype));
        }
    }
    for (uint32_t i = 0; i < r->k->params.len; i++)
        if (r->point[i] != 0)
            add_spread(r, f, r->point[i], 1, 8);
}

static void push_fork(Resolver *r, const Fork *f, uint32_t code)
{
    rlx_assert(code < r->p->code.len && f->n_loops != 0);
    r->p->code.data[code].at = r->p->forks.len;
    vec_push(r->arena, &r->p->forks, *f);
}

void resolve_batch(Resolver *r, KRef loop, uint32_t code)
{
    const KInst *n = k_inst(r->k, loop);
    Fork f = {.n_loops = 1};
    f.loop[0].var = r->slot[loop];
    f.loop[0].low = resolve_slot(r, n->a);
    f.loop[0].high = resolve_slot(r, n->b);
    f.loop[0].step = n->imm;
    find_spread(r, &f, loop);
    resolve_carried(r, &f, loop);
    push_fork(r, &f, code);
}

void resolve_fork(Resolver *r, KRef loop, uint32_t code)
{
    Fork f = {0};
    for (KRef at = loop; at != 0 && f.n_loops < FORK_MAX_LOOPS; at = inner_loop(r, at, loop)) {
        const KInst *n = k_inst(r->k, at);
        rlx_assert(n->kind == KI_for && n->flags == KFOR_PARALLEL);
        r->is_joined[at] = true;
        if (r->slot[at] == 0)
            r->slot[at] = resolve_register(r, 8);
        f.loop[f.n_loops].var = r->slot[at];
        f.loop[f.n_loops].low = resolve_slot(r, n->a);
        f.loop[f.n_loops].high = resolve_slot(r, n->b);
        f.loop[f.n_loops++].step = n->imm;
    }
    find_spread(r, &f, loop);
    r->p->has_forks = true;
    push_fork(r, &f, code);
}
