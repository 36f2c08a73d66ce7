// SPDX-License-Identifier: Apache-2.0
// An expression is written in its user when that is its only one, in the same block, with nothing between the
// two that changes what it reads. All the rest is decided here, so that the walk only prints.
#include "codegen/walk/values.h"
#include "ir/kernel/device.h"
#include "ir/kernel/kernel_fold.h"

#include <string.h>

enum { MAX_SIZE = 8 };

static void count_uses(const Kernel *k, Value *v)
{
    for (KRef r = k->insts.len; r-- > 1;) {
        const KInst *n = k_inst(k, r);
        if (kkind_is_expression(n->kind) && v[r].n_uses == 0)
            continue;
        const KRef src[3] = {n->a, n->b, n->c};
        for (uint32_t i = 0; i < 3; i++) {
            if (!src[i])
                continue;
            Value *o = &v[src[i]];
            o->in_own_block = (o->n_uses == 0 || o->in_own_block) && o->block == v[r].block;
            if (o->n_uses++ == 0)
                o->last_use = r;
        }
    }
}

static void find_blocks(const Kernel *k, Value *v, Arena *a)
{
    VEC(uint32_t) open = {0};
    vec_push(a, &open, 0);
    uint32_t n_blocks = 1;
    for (KRef r = 1; r < k->insts.len; r++) {
        const uint8_t kind = k_inst(k, r)->kind;
        rlx_assert(!kkind_closes(kind) || open.len > 1);
        if (kkind_closes(kind))
            open.len--;
        v[r].block = open.data[open.len - 1];
        if (kkind_opens(kind))
            vec_push(a, &open, n_blocks++);
    }
    rlx_assert(open.len == 1);
}

// The first write after each read. What a load reads may be written through its own parameter, or through any
// where parameters overlap.
static void find_writes(const Kernel *k, Value *v, Arena *a)
{
    KRef *next = ARENA_ARRAY(a, KRef, k->insts.len); // by variable or array
    KRef *next_store = ARENA_ARRAY(a, KRef, (size_t)k->params.len + 1);
    for (KRef r = 0; r < k->insts.len; r++)
        next[r] = VALUE_NEVER;
    for (uint32_t i = 0; i <= k->params.len; i++)
        next_store[i] = VALUE_NEVER;
    for (KRef r = k->insts.len; r-- > 1;) {
        const KInst *n = k_inst(k, r);
        v[r].expires = VALUE_NEVER;
        const bool is_matrix_store = n->kind == KI_matrix && n->kop == KMATRIX_store;
        if (n->kind == KI_set || n->kind == KI_astore || is_matrix_store)
            next[n->a] = r;
        if (n->kind == KI_fetch)
            next[n->b] = r;
        for (uint32_t i = 0; n->kind == KI_device && k_device_operand(k, n, i) != 0; i++)
            next[k_device_operand(k, n, i)] = r;
        // Other threads may have written anything before a barrier, and device functions may be one.
        const bool is_call = n->kind == KI_device || n->kind == KI_custom;
        for (uint32_t i = 0; (n->kind == KI_barrier || is_call) && i <= k->params.len; i++)
            next_store[i] = r;
        for (KRef s = 1; n->kind == KI_barrier && s < r; s++)
            if (k_inst(k, s)->kind == KI_array && k_inst(k, s)->flags == KARRAY_SHARED)
                next[s] = r;
        if (n->kind == KI_get || n->kind == KI_aload)
            v[r].expires = next[n->a];
        rlx_assert((!k_writes_param(n) && n->kind != KI_load) || (uint64_t)n->imm < k->params.len);
        if (k_writes_param(n))
            next_store[k->may_alias ? 0 : n->imm] = r;
        if (n->kind == KI_load)
            v[r].expires = next_store[k->may_alias ? 0 : n->imm];
    }
}

// Of a float, of either sign.
static bool is_zero(const KInst *n)
{
    return n->kind == KI_const && kt_is_float(n->dtype) && (n->imm & INT64_MAX) == 0;
}

const char *value_template(const Target *t, const Kernel *k, const KInst *n)
{
    if (n->kind != KI_op)
        return NULL;
    rlx_assert(n->kop < KOP_COUNT && n->a != 0);
    if (t->times_zero != NULL && n->kop == KOP_mul && n->dtype == DTYPE_f32 &&
        (is_zero(k_inst(k, n->a)) || is_zero(k_inst(k, n->b))))
        return t->times_zero;
    const KInst *src = k_inst(k, kop_info[n->kop].cls == KCLASS_SEL ? n->b : n->a);
    return target_spell(t, (KOp)n->kop, src->dtype, src->lanes);
}

static bool is_doubled(const char *template, uint32_t operand)
{
    const char mark[3] = {'$', (char)('0' + operand), 0};
    const char *first = template ? strstr(template, mark) : NULL;
    return first && strstr(first + 1, mark);
}

// May the operand be written inside user r?
static bool can_inline(const Value *v, const KInst *n, KRef operand, KRef r, bool doubled)
{
    const Value *o = &v[operand];
    if (n->kind == KI_const || n->kind == KI_since || n->kind == KI_list || n->kind == KI_address)
        return true;
    if (!kkind_is_expression(n->kind) || !o->in_own_block || n->kind == KI_part || n->kind == KI_thread)
        return false;
    return n->kind == KI_get ? o->expires >= o->last_use : o->n_uses == 1 && !doubled && o->expires >= r;
}

// A product that is added: compilers may join the two to one rounding, but which of two products, or whether
// at all, depends on how they are written. So they always stand together, whatever the addresses in them.
static bool is_added_product(const KInst *user, const KInst *o)
{
    const bool adds = user->kind == KI_op && (user->kop == KOP_add || user->kop == KOP_sub);
    return adds && kt_is_float(user->dtype) && o->kind == KI_op && o->kop == KOP_mul;
}

// Does the text of an operand read memory?
static bool reads_memory(const Kernel *k, const Value *v, KRef r)
{
    const KInst *n = k_inst(k, r);
    const KRef src[3] = {n->a, n->b, n->c};
    if (n->kind == KI_load || n->kind == KI_aload)
        return true;
    for (uint32_t i = 0; kkind_is_expression(n->kind) && i < 3 && src[i]; i++)
        if (v[src[i]].is_inline && reads_memory(k, v, src[i]))
            return true;
    return false;
}

static void decide(const Target *t, const Kernel *k, Value *v, KRef r)
{
    const KInst *n = k_inst(k, r);
    const KRef src[3] = {n->a, n->b, n->c};
    const char *template = value_template(t, k, n);
    v[r].size = 1;
    for (uint32_t i = 0; i < 3 && src[i]; i++) {
        const KInst *o = k_inst(k, src[i]);
        Value *of = &v[src[i]];
        // A loop's bound is written in its condition, and so computed more than once: nobody has to ask
        // whether the loop changes what it reads.
        const bool is_bound = n->kind == KI_for && i == 1;
        const bool changes = is_bound && (of->expires != VALUE_NEVER || reads_memory(k, v, src[i]));
        const bool fits = o->kind == KI_const || v[r].size + of->size <= MAX_SIZE || is_added_product(n, o);
        of->is_pinned =
            of->is_pinned || changes || !fits || !can_inline(v, o, src[i], r, is_doubled(template, i));
        of->is_inline = !of->is_pinned;
        if (!of->is_inline)
            continue;
        v[r].size = (uint16_t)(v[r].size + of->size);
        if (of->expires < v[r].expires)
            v[r].expires = of->expires;
    }
    if (n->kind == KI_const || n->kind == KI_get || n->kind == KI_list || n->kind == KI_address)
        v[r].size = 0;
}

Value *values_of(const Target *t, const Kernel *k, Arena *a)
{
    Value *v = ARENA_ARRAY(a, Value, k->insts.len);
    find_blocks(k, v, a);
    count_uses(k, v);
    find_writes(k, v, a);
    for (KRef r = 1; r < k->insts.len; r++)
        if (!kkind_is_expression(k_inst(k, r)->kind) || v[r].n_uses)
            decide(t, k, v, r);
    return v;
}

bool *values_used_params(const Kernel *k, const Value *v, Arena *a)
{
    bool *used = ARENA_ARRAY(a, bool, (size_t)k->params.len + 1);
    for (KRef r = 1; r < k->insts.len; r++) {
        const KInst *n = k_inst(k, r);
        const bool is_matrix = n->kind == KI_matrix && (n->kop == KMATRIX_load || n->kop == KMATRIX_split);
        const bool is_wide = n->kind == KI_fetch || n->kind == KI_put || n->kind == KI_address;
        if (n->kind == KI_store || is_wide || is_matrix || (n->kind == KI_load && v[r].n_uses)) {
            rlx_assert((uint64_t)n->imm < k->params.len);
            used[n->imm] = true;
        }
        for (uint32_t i = 0; n->kind == KI_custom && i < k->params.len; i++)
            used[i] = true;
        if (n->kind == KI_point) {
            const uint32_t table = k->params.data[n->imm].table;
            rlx_assert(table >= 1 && table <= k->params.len);
            used[n->imm] = used[table - 1] = true;
        }
    }
    return used;
}
