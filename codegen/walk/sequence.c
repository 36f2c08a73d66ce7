// SPDX-License-Identifier: Apache-2.0
// Named values are written right before the statement that needs them first, not where they were built: that
// reads better, and the text does not depend on the order in which C evaluates the arguments of the builders'
// calls, which differs between compilers. A value stays in its own block, and before the first write to what
// it reads.
#include "codegen/walk/sequence.h"

typedef struct Visit {
    KRef ref;
    uint32_t next; // operand to look at
} Visit;

typedef struct Sequencer {
    const Kernel *k;
    const Value *values;
    Arena *arena;
    Sequence out;
    VEC(Visit) stack;
    VEC(KRef) waiting; // values that read what is written later
    bool *is_placed;
    KRef *seen; // by instruction: the last statement for which it was looked through
} Sequencer;

static void visit(Sequencer *s, KRef r, KRef statement)
{
    rlx_assert(r < s->k->insts.len);
    const bool is_known = s->is_placed[r] || s->seen[r] == statement;
    if (r == 0 || is_known || !kkind_is_expression(k_inst(s->k, r)->kind))
        return;
    s->seen[r] = statement;
    vec_push(s->arena, &s->stack, ((Visit){r, 0}));
}

// Places what the instruction needs, operands first. Values after `statement` belong to a block that it
// opens: they are looked through only.
static void place_needs(Sequencer *s, KRef root, KRef statement)
{
    vec_push(s->arena, &s->stack, ((Visit){root, 0}));
    while (s->stack.len) {
        Visit *top = &s->stack.data[s->stack.len - 1];
        const KInst *n = k_inst(s->k, top->ref);
        if (top->next < 3) {
            const KRef operand[3] = {n->a, n->b, n->c};
            visit(s, operand[top->next++], statement);
            continue;
        }
        const KRef r = top->ref;
        s->stack.len--;
        if (!kkind_is_expression(n->kind) || r > statement || s->is_placed[r])
            continue;
        s->is_placed[r] = true;
        vec_push(s->arena, &s->out, r);
    }
}

// Values that must be written before instruction `limit` changes what they read.
static void place_waiting(Sequencer *s, KRef limit, KRef statement)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->waiting.len; i++) {
        const KRef r = s->waiting.data[i];
        if (s->is_placed[r])
            continue;
        if (s->values[r].expires <= limit)
            place_needs(s, r, statement);
        else
            s->waiting.data[kept++] = r;
    }
    s->waiting.len = kept;
}

static void place_statement(Sequencer *s, KRef r)
{
    const uint8_t kind = k_inst(s->k, r)->kind;
    const bool opens = kind == KI_for || kind == KI_if;
    const KRef last = opens ? k_block_end(s->k, r) : r;
    place_waiting(s, last, r);
    for (KRef q = r; q <= last; q++)
        if (!kkind_is_expression(k_inst(s->k, q)->kind))
            place_needs(s, q, r);
    vec_push(s->arena, &s->out, r);
}

Sequence sequence_of(const Kernel *k, const Value *values, Arena *a)
{
    rlx_assert(k->insts.len != 0 && values != NULL);
    Sequencer s = {.k = k, .values = values, .arena = a};
    s.is_placed = ARENA_ARRAY(a, bool, k->insts.len);
    s.seen = ARENA_ARRAY(a, KRef, k->insts.len);
    for (KRef r = 1; r < k->insts.len; r++) {
        if (!kkind_is_expression(k_inst(k, r)->kind))
            place_statement(&s, r);
        else if (values[r].n_uses && values[r].expires != VALUE_NEVER)
            vec_push(a, &s.waiting, r);
    }
    return s.out;
}
