// SPDX-License-Identifier: Apache-2.0
// Copies that need not be made: a value of a variable that is used before the variable changes is the
// variable itself, and an operation that is computed only to become a variable's value is computed there.
#include "ir/interp/resolve.h"

// Instructions between an operation and the statement that sets a variable to it.
enum { MOST_BETWEEN = 32 };

typedef struct Copies {
    Resolver *r;
    KRef *loop, *end; // by instruction: the innermost loop around it; of loops: where they end
    KRef *last;       // where a value is used last; a loop that begins behind the value counts as a whole
    KRef *next_set;   // by variable: where it changes next, seen from the instruction that is looked at
    uint32_t *uses;
} Copies;

static void find_loops(Copies *c)
{
    const Kernel *k = c->r->k;
    KRef open = 0;
    for (KRef ref = 1; ref < k->insts.len; ref++) {
        while (open != 0 && ref > c->end[open])
            open = c->loop[open];
        c->loop[ref] = open;
        if (k_inst(k, ref)->kind == KI_for) {
            c->end[ref] = k_block_end(k, ref);
            open = ref;
        }
    }
}

// A value is used at instruction `at`.
static void use(Copies *c, KRef value, KRef at)
{
    KRef last = at;
    for (KRef l = c->loop[at]; l > value; l = c->loop[l])
        last = c->end[l];
    c->uses[value]++;
    c->last[value] = last > c->last[value] ? last : c->last[value];
}

// Operands of lists and addresses are read by what these belong to; bounds of loops, in all iterations.
static void use_operands(Copies *c, KRef ref)
{
    const KInst *n = k_inst(c->r->k, ref);
    const KRef src[3] = {n->a, n->b, n->c};
    const bool is_part = n->kind == KI_list || n->kind == KI_address;
    const KRef at = is_part && c->last[ref] > ref ? c->last[ref] : n->kind == KI_for ? c->end[ref] : ref;
    for (uint32_t i = 0; i < 3; i++)
        if (src[i] != 0)
            use(c, src[i], at);
}

static bool is_get_of(const Kernel *k, KRef ref, KRef var)
{
    return ref != 0 && k_inst(k, ref)->kind == KI_get && k_inst(k, ref)->a == var;
}

// Could the variable have its new value already when instruction n runs?
static bool is_free_of(const Kernel *k, const KInst *n, KRef var)
{
    const bool is_simple = kkind_is_expression(n->kind) || n->kind == KI_set || n->kind == KI_comment;
    return is_simple && n->a != var && !is_get_of(k, n->a, var) && !is_get_of(k, n->b, var) &&
           !is_get_of(k, n->c, var);
}

// The operation whose result can be in the variable's register at once, or 0.
static KRef direct_source(const Copies *c, KRef set)
{
    const Kernel *k = c->r->k;
    const KInst *n = k_inst(k, set), *op = k_inst(k, n->b);
    if (op->kind != KI_op || c->uses[n->b] != 1 || n->a > n->b || set - n->b > MOST_BETWEEN)
        return 0;
    for (KRef ref = n->b + 1; ref < set; ref++)
        if (!is_free_of(k, k_inst(k, ref), n->a))
            return 0;
    return n->b;
}

static void look_at_set(Copies *c, KRef set)
{
    const KInst *n = k_inst(c->r->k, set);
    const KRef op = direct_source(c, set);
    c->next_set[n->a] = op != 0 ? op : set;
    if (op == 0)
        return;
    c->r->same[op] = n->a;
    c->r->is_left_out[set] = true;
}

// A device function may change its variables before it reads its other operands.
static void look_at_device(Copies *c, KRef ref)
{
    const KInst *n = k_inst(c->r->k, ref);
    const char *letters = device_info[kdev_of(n)].operands;
    for (uint32_t i = 0; letters[i] != '\0'; i++)
        if (letters[i] == 'V')
            c->next_set[k_device_operand(c->r->k, n, i)] = ref - 1;
}

static void look_at_get(Copies *c, KRef get)
{
    const KRef var = k_inst(c->r->k, get)->a, set = c->next_set[var];
    if (set != 0 && set < c->last[get])
        return;
    c->r->same[get] = var;
    c->r->is_left_out[get] = true;
}

void resolve_copies(Resolver *r)
{
    const uint32_t n = r->k->insts.len;
    Copies c = {.r = r};
    rlx_assert(n != 0);
    c.loop = ARENA_ARRAY(r->arena, KRef, n);
    c.end = ARENA_ARRAY(r->arena, KRef, n);
    c.last = ARENA_ARRAY(r->arena, KRef, n);
    c.next_set = ARENA_ARRAY(r->arena, KRef, n);
    c.uses = ARENA_ARRAY(r->arena, uint32_t, n);
    find_loops(&c);
    for (KRef ref = n; ref-- > 1;) {
        const KInst *i = k_inst(r->k, ref);
        if (kkind_is_expression(i->kind) && !r->is_used[ref])
            continue;
        use_operands(&c, ref);
        if (i->kind == KI_set)
            look_at_set(&c, ref);
        else if (i->kind == KI_device)
            look_at_device(&c, ref);
        else if (i->kind == KI_get)
            look_at_get(&c, ref);
    }
}
