// SPDX-License-Identifier: Apache-2.0
// Building kernels: one function per kind of instruction. An equal pure expression of an enclosing block is
// reused, so lowering may build the same index arithmetic again wherever that is convenient. Folding is in
// kernel_fold.c.
#include "ir/kernel/kernel_fold.h"

#include <math.h>
#include <string.h>

const KOpInfo kop_info[KOP_COUNT] = {
#define KOP(name, arity, cost, fexpr, iexpr, cls) {#name, arity, cost, KCLASS_##cls},
#include "ir/kernel/kops.def"
#undef KOP
};

const KKindInfo kkind_info[KI_COUNT] = {
#define KIND(name, cls, block, param, operands, form)                                                        \
    {#name, operands, form, KIND_##cls, KBLOCK_##block, KPARAM_##param},
#include "ir/kernel/kinds.def"
#undef KIND
};

bool kop_parse(const char *name, size_t len, KOp *out)
{
    for (uint32_t i = 0; i < KOP_COUNT; i++) {
        if (strlen(kop_info[i].name) == len && !memcmp(kop_info[i].name, name, len)) {
            *out = (KOp)i;
            return true;
        }
    }
    return false;
}

// --- reuse of expressions ------------------------------------------------------------------------

enum { N_BUCKETS = 2048 }; // of the table of reusable expressions; a large kernel has some 10^4

typedef struct KScope {
    uint8_t kind;  // KI_for, KI_if or KI_else; KI_none for the whole kernel
    uint32_t mark; // length of `order` when the block began
} KScope;

// Chained hash table. Entries are only ever added in front and removed in reverse order, when their block
// ends.
struct KScopes {
    KRef bucket[N_BUCKETS];
    VEC(KRef) next;  // by instruction: the following one of its chain
    VEC(KRef) order; // reusable expressions, oldest first
    VEC(KScope) open;
};

static uint32_t hash_inst(const KInst *n)
{
    const int64_t key[] = {n->kind, n->kop, n->dtype, n->lanes, n->a, n->b, n->c, n->imm};
    return hash_bytes(key, sizeof key) % N_BUCKETS;
}

static bool is_same(const KInst *x, const KInst *y)
{
    return x->kind == y->kind && x->kop == y->kop && x->dtype == y->dtype && x->lanes == y->lanes &&
           x->a == y->a && x->b == y->b && x->c == y->c && x->imm == y->imm;
}

KRef kernel_push(Kernel *k, const KInst *n)
{
    const KRef r = k->insts.len;
    rlx_assert(r == 0 || (n->a < r && n->b < r && n->c < r));
    if (n->lanes > k->max_lanes)
        k->max_lanes = n->lanes;
    vec_push(k->arena, &k->insts, *n);
    vec_push(k->arena, &k->scopes->next, 0);
    return r;
}

static KRef reuse(Kernel *k, const KInst *n)
{
    struct KScopes *s = k->scopes;
    KRef *head = &s->bucket[hash_inst(n)];
    for (KRef r = *head; r; r = s->next.data[r])
        if (is_same(&k->insts.data[r], n))
            return r;
    const KRef r = kernel_push(k, n);
    s->next.data[r] = *head;
    *head = r;
    vec_push(k->arena, &s->order, r);
    return r;
}

static void open_scope(Kernel *k, KKind kind)
{
    vec_push(k->arena, &k->scopes->open, ((KScope){(uint8_t)kind, k->scopes->order.len}));
}

static KKind close_scope(Kernel *k)
{
    struct KScopes *s = k->scopes;
    rlx_assert(s->open.len > 1);
    const KScope top = s->open.data[--s->open.len];
    while (s->order.len > top.mark) {
        const KRef r = s->order.data[--s->order.len];
        s->bucket[hash_inst(&k->insts.data[r])] = s->next.data[r];
    }
    return (KKind)top.kind;
}

// --- kernels -------------------------------------------------------------------------------------

Kernel *kernel_new(Arena *a, const char *name)
{
    rlx_assert(name != NULL);
    Kernel *k = ARENA_NEW(a, Kernel);
    k->arena = a;
    k->name = name;
    k->comment = "";
    k->max_lanes = 1;
    k->scopes = ARENA_NEW(a, struct KScopes);
    kernel_push(k, &(KInst){.kind = KI_none, .lanes = 1});
    open_scope(k, KI_none);
    return k;
}

uint32_t kernel_param(Kernel *k, const char *name, DType t, bool is_written, bool is_read)
{
    rlx_assert(name != NULL && t < DTYPE_COUNT);
    const KParam p = {.name = name, .dtype = t, .is_written = is_written, .is_read = is_read};
    vec_push(k->arena, &k->params, p);
    return k->params.len - 1;
}

// --- expressions ---------------------------------------------------------------------------------

bool k_is_const(const Kernel *k, KRef r, int64_t *v)
{
    const KInst *n = k_inst(k, r);
    if (n->kind != KI_const || kt_is_float(n->dtype))
        return false;
    *v = n->imm;
    return true;
}

KRef k_integer(Kernel *k, int type, int64_t v)
{
    if (kt_is_float(type))
        return k_number(k, type, (double)v);
    return reuse(k, &(KInst){.kind = KI_const, .dtype = (uint8_t)type, .lanes = 1, .imm = kt_wrap(type, v)});
}

KRef k_index(Kernel *k, int64_t v)
{
    return k_integer(k, KT_INDEX, v);
}

KRef k_number(Kernel *k, int type, double v)
{
    if (type == DTYPE_bool)
        return k_integer(k, type, v != 0);
    if (!kt_is_float(type)) {
        rlx_assert(v >= -9223372036854775808.0 && v < 9223372036854775808.0);
        return k_integer(k, type, (int64_t)v);
    }
    KInst n = {.kind = KI_const, .dtype = (uint8_t)type, .lanes = 1};
    if (isnan(v))
        v = (double)NAN; // 0 / 0 has a sign that depends on the host
    memcpy(&n.imm, &v, sizeof v);
    return reuse(k, &n);
}

KRef k_splat(Kernel *k, KRef a, uint8_t lanes)
{
    const KInst *n = k_inst(k, a);
    rlx_assert(n->lanes == 1);
    rlx_assert(lanes >= 1);
    if (lanes == 1)
        return a;
    return reuse(k, &(KInst){.kind = KI_splat, .dtype = n->dtype, .lanes = lanes, .a = a});
}

bool k_casts_vectors(int from, int to)
{
    const bool is_wide = from == DTYPE_f32 || from == DTYPE_i32 || k_is_half(from);
    const bool to_wide = to == DTYPE_f32 || to == DTYPE_i32 || k_is_half(to);
    if (to == DTYPE_bool || from == DTYPE_bool)
        return is_wide || to_wide;
    return (is_wide || k_is_byte(from)) && (to_wide || k_is_byte(to));
}

KRef k_cast(Kernel *k, KRef a, int type)
{
    const KInst *n = k_inst(k, a);
    rlx_assert(a != 0 && type >= 0 && type <= KT_INDEX);
    if (n->dtype == type)
        return a;
    const KRef folded = n->lanes > 1                           ? kernel_fold_cast(k, a, type)
                        : (k->has_dsp || k->is_narrow) && type == (int)DTYPE_i32 ? kernel_fold_high(k, a)
                                                               : 0;
    if (folded)
        return folded;
    n = k_inst(k, a);
    if (n->kind == KI_const && n->dtype == KT_INDEX && type != DTYPE_bool)
        return k_integer(k, type, n->imm);
    if (n->kind == KI_splat && type != DTYPE_bool)
        return k_splat(k, k_cast(k, n->a, type), n->lanes);
    return reuse(k, &(KInst){.kind = KI_cast, .dtype = (uint8_t)type, .lanes = n->lanes, .a = a});
}

KRef kernel_round(Kernel *k, KRef a)
{
    return reuse(
        k,
        &(KInst){
            .kind = KI_cast, .dtype = DTYPE_i32, .lanes = k_inst(k, a)->lanes, .a = a, .imm = KCAST_ROUND});
}

KRef k_bitcast(Kernel *k, KRef a, int type)
{
    const KInst *n = k_inst(k, a);
    rlx_assert(n->lanes == 1 || k_bitcasts_vectors(n->dtype, type));
    if (n->dtype == type)
        return a;
    return reuse(
        k, &(KInst){
               .kind = KI_cast, .dtype = (uint8_t)type, .lanes = n->lanes, .a = a, .imm = KCAST_BITS});
}

KRef k_op(Kernel *k, KOp op, KRef a, KRef b, KRef c)
{
    const uint32_t arity = kop_info[op].arity;
    const uint32_t first = kop_info[op].cls == KCLASS_SEL; // operand 0 of a selection has its own type
    KRef src[3] = {a, b, c};
    uint8_t lanes = 1;
    for (uint32_t i = 0; i < 3; i++) {
        rlx_assert((src[i] != 0) == (i < arity));
        if (k_inst(k, src[i])->lanes > lanes)
            lanes = k_inst(k, src[i])->lanes;
    }
    for (uint32_t i = 0; i < arity; i++) {
        if (k_inst(k, src[i])->lanes != lanes)
            src[i] = k_splat(k, src[i], lanes);
        rlx_assert(i < first || k_inst(k, src[i])->dtype == k_inst(k, src[first])->dtype);
    }
    rlx_assert(!first || k_inst(k, src[0])->dtype == DTYPE_bool);
    const KRef folded = kernel_fold(k, op, src);
    if (folded)
        return folded;
    const bool is_test = kop_info[op].cls == KCLASS_CMP;
    const uint8_t dtype = is_test ? (uint8_t)DTYPE_bool : k_inst(k, src[first])->dtype;
    return reuse(k, &(KInst){.kind = KI_op,
                             .kop = (uint8_t)op,
                             .dtype = dtype,
                             .lanes = lanes,
                             .a = src[0],
                             .b = src[1],
                             .c = src[2]});
}

KRef k_hreduce(Kernel *k, KOp op, KRef a)
{
    const KInst *n = k_inst(k, a);
    if (n->lanes == 1)
        return a;
    return reuse(k, &(KInst){.kind = KI_hreduce, .kop = (uint8_t)op, .dtype = n->dtype, .lanes = 1, .a = a});
}

KRef k_zip(Kernel *k, KZip how, KRef a, KRef b)
{
    const KInst *n = k_inst(k, a);
    rlx_assert(k_inst(k, b)->lanes == n->lanes && k_inst(k, b)->dtype == n->dtype);
    return reuse(
        k, &(KInst){.kind = KI_zip, .dtype = n->dtype, .lanes = n->lanes, .a = a, .b = b, .imm = how});
}

// One step zips rows that are half of them apart, which turns the bits of (row, lane) by one place.
void k_transpose(Kernel *k, KRef *rows)
{
    enum { MAX_ROWS = 64 };
    const uint32_t n = k_inst(k, rows[0])->lanes;
    KRef next[MAX_ROWS];
    rlx_assert(n <= MAX_ROWS);
    for (uint32_t step = 1; step < n; step *= 2) {
        for (uint32_t i = 0; i < n / 2; i++) {
            next[2 * i] = k_zip(k, KZIP_LOW, rows[i], rows[i + n / 2]);
            next[2 * i + 1] = k_zip(k, KZIP_HIGH, rows[i], rows[i + n / 2]);
        }
        memcpy(rows, next, n * sizeof *rows);
    }
}

// --- memory and variables ------------------------------------------------------------------------

KRef kernel_index(Kernel *k, uint32_t param, KRef index)
{
    rlx_assert(param < k->params.len);
    rlx_assert(k_inst(k, index)->dtype == KT_INDEX && k_inst(k, index)->lanes == 1);
    const int64_t first = k->params.data[param].first;
    return first == 0 ? index : k_add(k, index, k_index(k, first));
}

KRef k_load(Kernel *k, uint32_t param, KRef index, uint8_t lanes, uint8_t count)
{
    rlx_assert(count >= 1 && count <= lanes);
    rlx_assert(param < k->params.len && k->params.data[param].is_read);
    index = kernel_index(k, param, index);
    return kernel_push(k, &(KInst){.kind = KI_load,
                                   .dtype = (uint8_t)k->params.data[param].dtype,
                                   .lanes = lanes,
                                   .count = count,
                                   .a = index,
                                   .imm = param});
}

void k_store(Kernel *k, uint32_t param, KRef index, KRef value, uint8_t count)
{
    index = kernel_index(k, param, index);
    const KInst v = *k_inst(k, value);
    rlx_assert(count >= 1 && count <= v.lanes);
    kernel_push(k, &(KInst){.kind = KI_store,
                            .dtype = v.dtype,
                            .lanes = v.lanes,
                            .count = count,
                            .a = value,
                            .b = index,
                            .imm = param});
}

void k_prefetch(Kernel *k, uint32_t param, KRef index)
{
    index = kernel_index(k, param, index);
    kernel_push(k, &(KInst){.kind = KI_prefetch,
                            .dtype = (uint8_t)k->params.data[param].dtype,
                            .lanes = 1,
                            .count = 1,
                            .a = index,
                            .imm = param});
}

void k_point(Kernel *k, uint32_t param, KRef entry, KRef otherwise)
{
    rlx_assert(param < k->params.len && k->params.data[param].table != 0);
    rlx_assert(k_inst(k, entry)->dtype == KT_INDEX && k_inst(k, otherwise)->dtype == KT_INDEX);
    kernel_push(k, &(KInst){.kind = KI_point,
                            .dtype = DTYPE_u64,
                            .lanes = 1,
                            .count = 1,
                            .a = entry,
                            .b = otherwise,
                            .imm = param});
}

KRef k_var(Kernel *k, KRef init, const char *name_hint)
{
    rlx_assert(init != 0);
    const KInst v = *k_inst(k, init);
    return kernel_push(
        k, &(KInst){.kind = KI_var, .dtype = v.dtype, .lanes = v.lanes, .a = init, .text = name_hint});
}

KRef k_get(Kernel *k, KRef var)
{
    const KInst v = *k_inst(k, var);
    rlx_assert(v.kind == KI_var);
    return kernel_push(k, &(KInst){.kind = KI_get, .dtype = v.dtype, .lanes = v.lanes, .a = var});
}

void k_set(Kernel *k, KRef var, KRef value)
{
    const KInst v = *k_inst(k, var);
    rlx_assert(v.kind == KI_var && k_inst(k, value)->dtype == v.dtype);
    if (k_inst(k, value)->lanes != v.lanes)
        value = k_splat(k, value, v.lanes);
    kernel_push(k, &(KInst){.kind = KI_set, .dtype = v.dtype, .lanes = v.lanes, .a = var, .b = value});
}

KRef k_array(Kernel *k, int type, int64_t n)
{
    rlx_assert(n > 0);
    return kernel_push(k, &(KInst){.kind = KI_array, .dtype = (uint8_t)type, .lanes = 1, .imm = n});
}

KRef k_aload(Kernel *k, KRef array, KRef index, uint8_t lanes)
{
    const KInst v = *k_inst(k, array);
    rlx_assert(v.kind == KI_array);
    rlx_assert(k_inst(k, index)->dtype == KT_INDEX && lanes >= 1);
    return kernel_push(
        k,
        &(KInst){.kind = KI_aload, .dtype = v.dtype, .lanes = lanes, .count = lanes, .a = array, .b = index});
}

void k_astore(Kernel *k, KRef array, KRef index, KRef value)
{
    const KInst v = *k_inst(k, value);
    rlx_assert(k_inst(k, array)->kind == KI_array && k_inst(k, array)->dtype == v.dtype);
    rlx_assert(k_inst(k, index)->dtype == KT_INDEX);
    kernel_push(k, &(KInst){.kind = KI_astore,
                            .dtype = v.dtype,
                            .lanes = v.lanes,
                            .count = v.lanes,
                            .a = array,
                            .b = index,
                            .c = value});
}

// --- blocks --------------------------------------------------------------------------------------

KRef k_for(Kernel *k, KRef lo, KRef hi, int64_t step, uint8_t flags, const char *name_hint)
{
    rlx_assert(step > 0 && k_inst(k, lo)->dtype == KT_INDEX && k_inst(k, hi)->dtype == KT_INDEX);
    const KRef r = kernel_push(k, &(KInst){.kind = KI_for,
                                           .dtype = KT_INDEX,
                                           .lanes = 1,
                                           .flags = flags,
                                           .a = lo,
                                           .b = hi,
                                           .imm = step,
                                           .text = name_hint});
    open_scope(k, KI_for);
    return r;
}

void k_if(Kernel *k, KRef cond)
{
    rlx_assert(k_inst(k, cond)->dtype == DTYPE_bool && k_inst(k, cond)->lanes == 1);
    kernel_push(k, &(KInst){.kind = KI_if, .dtype = DTYPE_bool, .lanes = 1, .a = cond});
    open_scope(k, KI_if);
}

void k_else(Kernel *k)
{
    const KKind kind = close_scope(k);
    rlx_assert(kind == KI_if);
    kernel_push(k, &(KInst){.kind = KI_else, .dtype = DTYPE_bool, .lanes = 1});
    open_scope(k, KI_else);
}

void k_end(Kernel *k)
{
    close_scope(k);
    kernel_push(k, &(KInst){.kind = KI_end, .dtype = DTYPE_bool, .lanes = 1});
}

void k_ends(Kernel *k, uint32_t n)
{
    while (n-- > 0)
        k_end(k);
}

void k_barrier(Kernel *k)
{
    kernel_push(k, &(KInst){.kind = KI_barrier, .dtype = DTYPE_bool, .lanes = 1});
}

void k_wait(Kernel *k)
{
    kernel_push(k, &(KInst){.kind = KI_wait, .dtype = DTYPE_bool, .lanes = 1});
}

bool kernel_has_wait(const Kernel *k)
{
    for (KRef r = 1; r < k->insts.len; r++)
        if (k_inst(k, r)->kind == KI_wait)
            return true;
    return false;
}

void k_custom(Kernel *k, KRef i)
{
    rlx_assert(k_inst(k, i)->dtype == KT_INDEX);
    kernel_push(k, &(KInst){.kind = KI_custom, .lanes = 1, .a = i});
}

void k_comment(Kernel *k, const char *text)
{
    rlx_assert(text != NULL);
    kernel_push(
        k,
        &(KInst){.kind = KI_comment, .dtype = DTYPE_bool, .lanes = 1, .text = arena_strdup(k->arena, text)});
}

// --- threads and rewriting -----------------------------------------------------------------------

KRef k_part(Kernel *k)
{
    return reuse(k, &(KInst){.kind = KI_part, .dtype = KT_INDEX, .lanes = 1});
}

KRef k_parts(Kernel *k)
{
    return reuse(k, &(KInst){.kind = KI_part, .dtype = KT_INDEX, .lanes = 1, .imm = 1});
}

KRef k_since(Kernel *k)
{
    return reuse(k, &(KInst){.kind = KI_since, .dtype = KT_INDEX, .lanes = 1});
}

bool kernel_is_given(const Kernel *k)
{
    for (KRef r = 1; r < k->insts.len; r++)
        if (k_inst(k, r)->kind == KI_for && k_inst(k, r)->flags == KFOR_GIVEN)
            return true;
    return false;
}

KRef k_append(Kernel *k, const KInst *n)
{
    rlx_assert(n->kind != KI_none && n->kind < KI_COUNT);
    if (kkind_closes(n->kind))
        close_scope(k);
    const KRef r = kkind_info[n->kind].cls == KIND_PURE ? reuse(k, n) : kernel_push(k, n);
    if (kkind_opens(n->kind))
        open_scope(k, (KKind)n->kind);
    return r;
}

bool kernel_is_shared(const Kernel *k)
{
    for (KRef r = 1; r < k->insts.len; r++)
        if (k_inst(k, r)->kind == KI_part)
            return true;
    return false;
}

KRef k_block_end(const Kernel *k, KRef r)
{
    rlx_assert(r != 0 && r < k->insts.len);
    int depth = 0;
    for (;; r++) {
        rlx_assert(r < k->insts.len);
        depth += kkind_depth(k_inst(k, r)->kind);
        if (depth == 0)
            return r;
    }
}
