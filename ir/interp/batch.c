// SPDX-License-Identifier: Apache-2.0
// Loops of a thread that is alone, which only read memory and go on with some variables, such as a sum. What
// does not depend on these variables is computed for many iterations at once, as by threads; the rest (the
// chain) follows for one iteration after the other, in their order.
#include "ir/interp/resolve.h"

// Loops that are known to be shorter are not worth it.
enum { LEAST_TRIPS = 4 };

static bool is_simple(uint8_t kind)
{
    static const bool simple[KI_COUNT] = {
        [KI_const] = true,   [KI_op] = true,   [KI_cast] = true, [KI_splat] = true, [KI_zip] = true,
        [KI_hreduce] = true, [KI_call] = true, [KI_load] = true, [KI_get] = true,   [KI_set] = true,
        [KI_comment] = true, [KI_prefetch] = true,
    };
    return simple[kind];
}

static bool is_long(const Resolver *r, const KInst *loop)
{
    int64_t low = 0, high = 0;
    const bool is_known = k_is_const(r->k, loop->a, &low) && k_is_const(r->k, loop->b, &high);
    return !is_known || (high - low) / loop->imm >= LEAST_TRIPS;
}

// Marks the chain. Returns how many instructions are not of it less those that are.
static int64_t mark_chain(Resolver *r, KRef loop, KRef end)
{
    int64_t more = 0;
    for (KRef ref = loop + 1; ref < end; ref++) {
        const KInst *n = k_inst(r->k, ref);
        if (n->kind == KI_set)
            r->is_chain[n->a] = true;
    }
    for (KRef ref = loop + 1; ref < end; ref++) {
        const KInst *n = k_inst(r->k, ref);
        const bool is_in_var = r->is_chain[r->same[ref]]; // it is computed where the variable is (copies.c)
        const bool is_own = is_in_var || r->is_chain[n->a] || r->is_chain[n->b] || r->is_chain[n->c];
        r->is_chain[ref] = is_own;
        if (r->is_used[ref] && n->kind != KI_const && !r->is_left_out[ref])
            more += is_own ? -1 : 1;
    }
    for (KRef ref = loop + 1; ref < end; ref++)
        if (k_inst(r->k, ref)->kind == KI_set)
            r->is_chain[k_inst(r->k, ref)->a] = false;
    return more;
}

static bool may_batch(Resolver *r, KRef loop)
{
    const KInst *n = k_inst(r->k, loop);
    const KRef end = k_block_end(r->k, loop);
    if (n->imm < 1 || n->flags == KFOR_PARALLEL || n->flags == KFOR_GROUP || !is_long(r, n))
        return false;
    for (KRef ref = loop + 1; ref < end; ref++)
        if (!is_simple(k_inst(r->k, ref)->kind))
            return false;
    return mark_chain(r, loop, end) > 0;
}

bool resolve_find_batches(Resolver *r)
{
    bool any = false;
    for (KRef ref = 1; ref < r->k->insts.len && r->k->group == 0 && r->parts <= 1; ref++)
        if (k_inst(r->k, ref)->kind == KI_for) {
            r->is_batch[ref] = may_batch(r, ref);
            any = any || r->is_batch[ref];
        }
    return any;
}

void resolve_carried(Resolver *r, Fork *f, KRef loop)
{
    const KRef end = k_block_end(r->k, loop);
    rlx_assert(r->is_batch[loop] && end > loop);
    for (KRef ref = loop + 1; ref < end; ref++) {
        const KInst *n = k_inst(r->k, ref), *var = k_inst(r->k, n->a);
        bool is_known = n->kind != KI_set;
        for (uint32_t i = 0; i < f->carried.len && !is_known; i++)
            is_known = f->carried.data[i].slot == r->slot[n->a];
        if (!is_known)
            vec_push(r->arena, &f->carried, ((Spread){r->slot[n->a], var->lanes, cell_bytes(var->dtype)}));
    }
}
