// SPDX-License-Identifier: Apache-2.0
// Loads that stand before a condition though only what it holds for needs them. All threads do them, but
// those that then go another way drop what they got: it may change while they read it. So such a load counts
// as one, for those who ask about races, where its branch begins.
#include "ir/interp/resolve.h"

static uint32_t depth_of(const Resolver *r, KRef block)
{
    uint32_t n = 0;
    for (; block != 0; block = r->around[block])
        n++;
    return n;
}

// The innermost block that both are in.
static KRef common(const Resolver *r, KRef a, KRef b)
{
    uint32_t x = depth_of(r, a), y = depth_of(r, b);
    while (a != b) {
        const bool is_first = x >= y;
        if (is_first) {
            a = r->around[a];
            x--;
        } else {
            b = r->around[b];
            y--;
        }
    }
    return a;
}

// The block that an instruction is in, by the instruction that opens it; 0: the kernel.
static void find_blocks(Resolver *r, KRef *block)
{
    KRef open = 0;
    for (KRef ref = 1; ref < r->k->insts.len; ref++) {
        const uint8_t kind = k_inst(r->k, ref)->kind;
        if (kkind_closes(kind))
            open = r->around[open];
        block[ref] = open;
        r->around[ref] = open;
        if (kkind_opens(kind))
            open = ref;
    }
}

// The innermost block that holds all that need the value.
static void find_homes(const Resolver *r, const KRef *block, KRef *home, bool *is_needed)
{
    for (KRef ref = r->k->insts.len; ref-- > 1;) {
        const KInst *n = k_inst(r->k, ref);
        const KRef src[3] = {n->a, n->b, n->c};
        const bool is_value = kkind_is_expression(n->kind);
        const KRef where = is_value ? home[ref] : block[ref];
        for (uint32_t i = 0; (!is_value || is_needed[ref]) && i < 3 && src[i] != 0; i++) {
            home[src[i]] = is_needed[src[i]] ? common(r, home[src[i]], where) : where;
            is_needed[src[i]] = true;
        }
    }
}

static bool reads_what_changes(const Resolver *r, const KInst *n)
{
    if (n->kind == KI_aload)
        return k_inst(r->k, n->a)->flags == KARRAY_SHARED;
    return n->kind == KI_load && (r->k->may_alias || r->k->params.data[n->imm].is_written);
}

void resolve_branches(Resolver *r)
{
    const uint32_t n = r->k->insts.len;
    KRef *block = ARENA_ARRAY(r->arena, KRef, n), *home = ARENA_ARRAY(r->arena, KRef, n);
    bool *is_needed = ARENA_ARRAY(r->arena, bool, n);
    r->around = ARENA_ARRAY(r->arena, KRef, n);
    r->first_late = ARENA_ARRAY(r->arena, KRef, n);
    r->next_late = ARENA_ARRAY(r->arena, KRef, n);
    r->is_late = ARENA_ARRAY(r->arena, bool, n);
    find_blocks(r, block);
    find_homes(r, block, home, is_needed);
    for (KRef ref = n; ref-- > 1;) {
        KRef branch = 0;
        if (!is_needed[ref] || !reads_what_changes(r, k_inst(r->k, ref)))
            continue;
        for (KRef at = home[ref]; at != block[ref]; at = r->around[at])
            branch = k_inst(r->k, at)->kind == KI_for ? branch : at;
        r->is_late[ref] = branch != 0;
        r->next_late[ref] = branch != 0 ? r->first_late[branch] : 0;
        r->first_late[branch] = branch != 0 ? ref : 0;
    }
}
