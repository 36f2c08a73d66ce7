// SPDX-License-Identifier: Apache-2.0
// A kernel whose result shares bytes with what it reads is gone through access by access: no byte may be read
// that was written in place of another one. Part of plan_verify; shares no code with the passes that made the
// plan.
#include "ir/eval/scalar.h"
#include "ir/kernel/device.h"
#include "ir/plan/plan_check.h"

// Instructions that addresses, bounds and conditions depend on, and accesses to bytes that are shared.
typedef struct Replay {
    const Plan *p;
    const PlanKernel *pk;
    const Kernel *k;
    bool *is_shared; // by argument
    bool *is_needed; // by instruction
    KRef *else_of, *end_of;
    int64_t *value;
    bool *is_open;  // by instruction: its value is not known before a run
    BufId *writer;  // by byte of the arena from `first` on: the buffer that the kernel has written there
    uint64_t first; // the lowest byte that is shared
    const char *wrong;
} Replay;

// --- numbers -------------------------------------------------------------------------------------

typedef int64_t (*Meaning)(int64_t a, int64_t b, int64_t c);
#define I    int64_t
#define NONE 0
#define KOP(name, arity, cost, fexpr, iexpr, cls)                                                            \
    static int64_t mean_##name(int64_t a, int64_t b, int64_t c)                                              \
    {                                                                                                        \
        (void)a, (void)b, (void)c;                                                                           \
        return (int64_t)(iexpr);                                                                             \
    }
#include "ir/kernel/kops.def"
#undef KOP
#undef NONE
#undef I

static const Meaning meanings[KOP_COUNT] = {
#define KOP(name, arity, cost, fexpr, iexpr, cls) mean_##name,
#include "ir/kernel/kops.def"
#undef KOP
};

// Numbers of a type are those of i64 that fit it.
static int64_t of_type(uint8_t type, int64_t v)
{
    const uint32_t bits = type == KT_INDEX ? 64 : 8 * (uint32_t)dtype_info[type].bytes;
    const bool is_signed = type == KT_INDEX || dtype_info[type].cls == DCLASS_INT;
    if (bits == 64)
        return v;
    const uint64_t low = (uint64_t)v & ((UINT64_C(1) << bits) - 1);
    const uint64_t sign = UINT64_C(1) << (bits - 1);
    return is_signed ? (int64_t)((low ^ sign) - sign) : (int64_t)low;
}

static int64_t value_of(const Replay *r, const KInst *n)
{
    switch (n->kind) {
    case KI_const:
        return n->imm;
    case KI_op:
        return of_type(n->dtype, meanings[n->kop](r->value[n->a], r->value[n->b], r->value[n->c]));
    case KI_cast:
        return of_type(n->dtype, r->value[n->a]);
    default:
        return r->value[n->a]; // a variable, or what it has
    }
}

// --- accesses ------------------------------------------------------------------------------------

static BufId owner_of(const Plan *p, BufId b)
{
    while (p->buffers.data[b].shares != 0)
        b = p->buffers.data[b].shares;
    return b;
}

static bool is_access(const Replay *r, const KInst *n)
{
    return (n->kind == KI_load || n->kind == KI_store) && r->is_shared[n->imm];
}

// Operand i of a device function, if it is the address of an argument that shares bytes.
static const KInst *shared_address(const Replay *r, const KInst *n, uint32_t i)
{
    const KInst *o = k_inst(r->k, k_device_operand(r->k, n, i));
    return o->kind == KI_address && r->is_shared[o->imm] ? o : NULL;
}

static bool is_call(const Replay *r, const KInst *n)
{
    bool any = false;
    for (uint32_t i = 0; n->kind == KI_device && k_device_operand(r->k, n, i) != 0; i++)
        any = any || shared_address(r, n, i) != NULL;
    return any;
}

// May it touch bytes that are shared in ways that are not replayed?
static bool is_hidden(const Replay *r, const KInst *n)
{
    const bool names =
        kkind_info[n->kind].param != KPARAM_NO && n->kind != KI_prefetch && n->kind != KI_address;
    return n->kind == KI_custom || n->kind == KI_matrix ||
           (names && r->is_shared[n->imm] && !is_access(r, n)) ||
           (n->kind == KI_device && device_info[kdev_of(n)].target != KDEV_CPU);
}

// Bytes [begin, end) of the argument's buffer.
static void touch(Replay *r, uint32_t arg, int64_t begin, int64_t end, bool is_write)
{
    const PlanArg *a = &r->pk->args.data[arg];
    const PlanBuffer *b = &r->p->buffers.data[a->buf];
    const BufId owner = owner_of(r->p, a->buf);
    if (begin < (int64_t)a->begin || end > (int64_t)a->end) {
        r->wrong = arena_printf(r->p->arena, "%s: an access beyond %s", r->k->name, b->name);
        return;
    }
    BufId *writer = r->writer + b->offset - r->first;
    for (int64_t i = begin; i < end; i++) {
        if (is_write)
            writer[i] = owner;
        else if (writer[i] != 0 && writer[i] != owner)
            r->wrong = arena_printf(r->p->arena, "%s: byte %lld of %s is written as %s before it is read",
                                    r->k->name, (long long)i, b->name, r->p->buffers.data[writer[i]].name);
    }
}

static void touch_elements(Replay *r, uint32_t arg, int64_t index, int64_t count, bool is_write)
{
    const PlanArg *a = &r->pk->args.data[arg];
    const int64_t bytes = dtype_info[r->k->params.data[arg].dtype].bytes;
    const int64_t at = (int64_t)(a->byte_offset - a->below) + index * bytes;
    touch(r, arg, at, at + count * bytes, is_write);
}

// What a call reads or writes.
typedef struct CallRuns {
    uint32_t arg;
    bool is_write;
    int64_t index;
    KDeviceRuns runs;
} CallRuns;

static void touch_turn(Replay *r, const CallRuns *c, int64_t i)
{
    for (int64_t j = 0; i < c->runs.n[0] && j < c->runs.n[1]; j++)
        touch_elements(r, c->arg, c->index + i * c->runs.step[0] + j * c->runs.step[1], c->runs.length,
                       c->is_write);
}

static void touch_runs(Replay *r, const CallRuns *c, uint32_t n)
{
    int64_t turns = 0;
    for (uint32_t i = 0; i < n; i++)
        turns = c[i].runs.n[0] > turns ? c[i].runs.n[0] : turns;
    for (int64_t turn = 0; turn < turns; turn++)
        for (uint32_t i = 0; i < 2 * n; i++)
            if (c[i % n].is_write == (i >= n))
                touch_turn(r, &c[i % n], turn);
}

static void check_known(Replay *r, KRef i)
{
    if (r->is_open[i])
        r->wrong = arena_printf(r->p->arena, "%s: what is read and written depends on data", r->k->name);
}

static void call(Replay *r, const KInst *n)
{
    int64_t v[KDEV_MAX_OPERANDS] = {0};
    for (uint32_t i = 0; k_device_operand(r->k, n, i) != 0; i++)
        v[i] = r->value[k_device_operand(r->k, n, i)];
    CallRuns found[KDEV_MAX_OPERANDS];
    uint32_t n_found = 0;
    for (uint32_t i = 0; k_device_operand(r->k, n, i) != 0; i++) {
        const KInst *o = shared_address(r, n, i);
        const KDeviceAccess *known = k_device_access(kdev_of(n), i);
        if (o == NULL)
            continue;
        const PlanArg *a = &r->pk->args.data[o->imm];
        if (known != NULL) {
            check_known(r, o->a);
            for (uint32_t j = 0; known->needs >> j != 0; j++)
                if ((known->needs >> j & 1) != 0)
                    check_known(r, k_device_operand(r->k, n, j));
            found[n_found++] = (CallRuns){(uint32_t)o->imm, known->is_write, r->value[o->a], known->runs(v)};
            continue;
        }
        if (a->is_written)
            touch(r, (uint32_t)o->imm, (int64_t)a->begin, (int64_t)a->end, true);
        if (a->is_read)
            touch(r, (uint32_t)o->imm, (int64_t)a->begin, (int64_t)a->end, false);
    }
    touch_runs(r, found, n_found);
}

static void set_value(Replay *r, KRef i)
{
    const KInst *n = k_inst(r->k, i);
    const bool is_set = n->kind == KI_set, is_load = n->kind == KI_load || n->kind == KI_aload;
    const KRef to = is_set ? n->a : i;
    r->is_open[to] =
        is_set ? r->is_open[n->b] : is_load || r->is_open[n->a] || r->is_open[n->b] || r->is_open[n->c];
    r->value[to] = r->is_open[to] ? 0 : is_set ? r->value[n->b] : value_of(r, n);
}

static void go(Replay *r, KRef begin, KRef end);

static void forget_variables(Replay *r, KRef begin, KRef end)
{
    for (KRef i = begin; i < end; i++)
        if (k_inst(r->k, i)->kind == KI_set)
            r->is_open[k_inst(r->k, i)->a] = true;
}

// Both branches of an `if` whose condition is not known, one after the other: the accesses of either one are
// among them, in their order.
static void choose(Replay *r, KRef i)
{
    const KRef condition = k_inst(r->k, i)->a, turn = r->else_of[i], stop = r->end_of[i];
    const bool is_open = r->is_open[condition], holds = r->value[condition] != 0;
    if (is_open || holds)
        go(r, i + 1, turn != 0 ? turn : stop);
    if (is_open)
        forget_variables(r, i, stop);
    if ((is_open || !holds) && turn != 0)
        go(r, turn + 1, stop);
    if (is_open)
        forget_variables(r, i, stop);
}

static void go(Replay *r, KRef begin, KRef end)
{
    for (KRef i = begin; i < end && r->wrong == NULL; i++) {
        const KInst *n = k_inst(r->k, i);
        if (!r->is_needed[i])
            continue;
        if (n->kind == KI_for) {
            check_known(r, n->a);
            check_known(r, n->b);
            for (int64_t v = r->value[n->a]; v < r->value[n->b] && r->wrong == NULL; v += n->imm) {
                r->value[i] = v;
                go(r, i + 1, r->end_of[i]);
            }
            i = r->end_of[i];
        } else if (n->kind == KI_if) {
            choose(r, i);
            i = r->end_of[i];
        } else if (is_access(r, n)) {
            check_known(r, n->kind == KI_store ? n->b : n->a);
            r->is_open[i] = true;
            touch_elements(r, (uint32_t)n->imm, r->value[n->kind == KI_store ? n->b : n->a], n->count,
                           n->kind == KI_store);
        } else if (n->kind == KI_device) {
            call(r, n);
        } else {
            set_value(r, i);
        }
    }
}

// --- what has to be known ------------------------------------------------------------------------

static bool need(Replay *r, KRef i)
{
    static const bool is_known[KI_COUNT] = {
        [KI_none] = true, [KI_const] = true, [KI_op] = true,   [KI_cast] = true, [KI_get] = true,
        [KI_var] = true,  [KI_for] = true,   [KI_load] = true, [KI_aload] = true};
    const KInst *n = k_inst(r->k, i);
    const bool is_new = i != 0 && !r->is_needed[i];
    if (!is_known[n->kind] || n->lanes != 1 || (n->kind == KI_cast && n->imm != KCAST_VALUE))
        r->wrong = arena_printf(r->p->arena, "%s: what is read and written depends on data", r->k->name);
    r->is_needed[i] = i != 0;
    return is_new;
}

// Loops and conditions matter where something inside does.
static bool need_around(Replay *r, const KRef *open, uint32_t n_open)
{
    bool any = false;
    for (uint32_t b = 0; b < n_open; b++) {
        any = any || !r->is_needed[open[b]];
        r->is_needed[open[b]] = true;
    }
    return any;
}

// Of a call, where it reads and how much.
static bool need_call(Replay *r, const KInst *n)
{
    uint32_t needs = 0;
    bool any = false;
    for (uint32_t i = 0; k_device_operand(r->k, n, i) != 0; i++) {
        const KInst *o = shared_address(r, n, i);
        const KDeviceAccess *known = o != NULL ? k_device_access(kdev_of(n), i) : NULL;
        any |= known != NULL && need(r, o->a);
        needs |= known != NULL ? known->needs : 0;
    }
    for (uint32_t i = 0; needs >> i != 0; i++)
        any |= (needs >> i & 1) != 0 && need(r, k_device_operand(r->k, n, i));
    return any;
}

static bool need_operands(Replay *r, KRef i)
{
    const KInst *n = k_inst(r->k, i);
    if (n->kind == KI_device)
        return need_call(r, n);
    if (is_access(r, n))
        return need(r, n->kind == KI_store ? n->b : n->a);
    bool any = need(r, n->a);
    any |= need(r, n->b);
    any |= need(r, n->c);
    return any;
}

static bool find_needed(Replay *r, Arena *scratch)
{
    VEC(KRef) open = {0};
    bool any = false;
    for (KRef i = 1; i < r->k->insts.len && r->wrong == NULL; i++) {
        const KInst *n = k_inst(r->k, i);
        if (n->kind == KI_end)
            r->end_of[open.data[--open.len]] = i;
        else if (n->kind == KI_else)
            r->else_of[open.data[open.len - 1]] = i;
        const bool is_set = n->kind == KI_set && r->is_needed[n->a];
        if (is_hidden(r, n))
            r->wrong = arena_printf(r->p->arena, "%s: arguments that share bytes are hidden", r->k->name);
        const bool is_touch = is_access(r, n) || is_call(r, n);
        r->is_needed[i] = r->is_needed[i] || is_touch || is_set;
        if (is_touch || is_set)
            any |= need_around(r, open.data, open.len);
        if (r->is_needed[i])
            any |= need_operands(r, i);
        if (kkind_opens(n->kind) && n->kind != KI_else)
            vec_push(scratch, &open, i);
    }
    return any;
}

// --- which kernels -------------------------------------------------------------------------------

// Marks arguments that share bytes of the arena with others of other buffers.
static bool find_shared(Replay *r, uint64_t *end)
{
    const Plan *p = r->p;
    bool any = false;
    for (uint32_t i = 0; i < r->pk->args.len; i++)
        for (uint32_t j = 0; j < r->pk->args.len; j++) {
            const PlanArg *a = &r->pk->args.data[i], *b = &r->pk->args.data[j];
            const PlanBuffer *x = &p->buffers.data[a->buf], *y = &p->buffers.data[b->buf];
            const bool meet = x->offset + a->begin < y->offset + b->end &&
                              y->offset + b->begin < x->offset + a->end && a->begin < a->end &&
                              b->begin < b->end;
            if (x->region != REGION_ARENA || y->region != REGION_ARENA || !meet || !b->is_written ||
                owner_of(p, a->buf) == owner_of(p, b->buf))
                continue;
            r->is_shared[i] = r->is_shared[j] = any = true;
            const uint64_t lo = x->offset < y->offset ? x->offset : y->offset;
            const uint64_t hi_x = x->offset + x->bytes, hi_y = y->offset + y->bytes;
            r->first = lo < r->first ? lo : r->first;
            *end = hi_x > *end ? hi_x : *end;
            *end = hi_y > *end ? hi_y : *end;
        }
    return any;
}

const char *plan_replay_kernel(const Plan *p, const PlanKernel *k)
{
    Arena scratch = {0};
    uint64_t end = 0;
    Replay r = {.p = p, .pk = k, .k = k->kernel, .first = UINT64_MAX};
    r.is_shared = ARENA_ARRAY(&scratch, bool, k->args.len + 1u);
    if (find_shared(&r, &end)) {
        const uint32_t n = k->kernel->insts.len;
        r.is_needed = ARENA_ARRAY(&scratch, bool, n);
        r.else_of = ARENA_ARRAY(&scratch, KRef, n);
        r.end_of = ARENA_ARRAY(&scratch, KRef, n);
        r.value = ARENA_ARRAY(&scratch, int64_t, n);
        r.is_open = ARENA_ARRAY(&scratch, bool, n);
        r.writer = ARENA_ARRAY(&scratch, BufId, end - r.first);
        if (k->loop != NULL || !k->kernel->may_alias || k->args.len != k->kernel->params.len)
            r.wrong = arena_printf(p->arena, "%s: its arguments share bytes", k->kernel->name);
        while (r.wrong == NULL && find_needed(&r, &scratch)) {
        }
        if (r.wrong == NULL)
            go(&r, 1, n);
    }
    arena_free(&scratch);
    return r.wrong;
}
