// SPDX-License-Identifier: Apache-2.0
// A kernel whose result shares bytes with what it reads is gone through access by access: no byte may be read
// that was written in place of another one. Where loops only read, or only write one buffer, their accesses
// have no order: if all that changes are addresses, by the same distance each time, they are gone through
// together. Part of plan_verify; shares no code with the passes that made the plan.
#include "ir/eval/scalar.h"
#include "ir/kernel/device.h"
#include "ir/plan/plan_check.h"

// Loops around each other that are gone through together, and iterations of each.
enum { MAX_OPEN = 8, MAX_COUNT = 1 << 24 };
// Which accesses count: those that only measure say where they are.
enum { READS = 1, WRITES = 2, BOTH = 3, MEASURE = 4 };

typedef struct OpenLoop {
    KRef loop;
    int64_t count;
} OpenLoop;

// Where the first iteration of a loop reads ([0]) and writes ([1]), and by how many bytes each other one
// moves that.
typedef struct Measure {
    bool any[2], is_even;
    bool is_turned; // something may be read behind a write
    uint32_t at;    // the loop's place in Replay.open
    int64_t from[2], until[2], move[2];
} Measure;

// Instructions that addresses, bounds and conditions depend on, and accesses to bytes that are shared.
typedef struct Replay {
    Arena *scratch;
    const Plan *p;
    const PlanKernel *pk;
    const Kernel *k;
    bool *is_shared; // by argument
    bool *is_needed; // by instruction
    KRef *else_of, *end_of;
    int64_t *value;
    bool *is_open;         // by instruction: its value is not known before a run
    const int64_t **moves; // by loop: NULL, or how values in it move (plan_moves)
    bool *is_mixed;        // by loop with moves: it reads and writes
    OpenLoop open[MAX_OPEN];
    uint32_t n_open, phase; // READS ... MEASURE
    Measure measure;
    PlanBytes bytes; // from `first` on
    uint64_t first;  // the lowest byte that is shared
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

// An access to bytes [begin, end) of the argument's buffer, and by how many bytes the open loops move it.
typedef struct Access {
    uint32_t arg;
    bool is_write;
    int64_t begin, end, move[MAX_OPEN];
} Access;

static void touch(Replay *r, const Access *t)
{
    const PlanArg *a = &r->pk->args.data[t->arg];
    const PlanBuffer *b = &r->p->buffers.data[a->buf];
    const BufId owner = owner_of(r->p, a->buf);
    if (t->begin < (int64_t)a->begin || t->end > (int64_t)a->end) {
        r->wrong = arena_printf(r->p->arena, "%s: an access beyond %s", r->k->name, b->name);
        return;
    }
    const uint64_t at = b->offset - r->first, begin = at + (uint64_t)t->begin, end = at + (uint64_t)t->end;
    if (t->is_write) {
        plan_bytes_write(&r->bytes, owner, begin, end);
        return;
    }
    const BufId other = plan_bytes_read(&r->bytes, owner, begin, end);
    if (other != 0)
        r->wrong = arena_printf(r->p->arena, "%s: a byte of %s is written as %s before it is read",
                                r->k->name, b->name, r->p->buffers.data[other].name);
}

// The access in all iterations of the open loops from `at` on.
static void touch_all(Replay *r, const Access *t, uint32_t at)
{
    if (at == r->n_open) {
        touch(r, t);
        return;
    }
    const int64_t bytes = t->end - t->begin, move = t->move[at], count = r->open[at].count;
    const int64_t far = move * (count - 1);
    Access one = *t;
    if (move <= bytes && -move <= bytes) { // one piece
        one.begin += far < 0 ? far : 0;
        one.end += far > 0 ? far : 0;
        touch_all(r, &one, at + 1);
        return;
    }
    for (int64_t i = 0; i < count && r->wrong == NULL; i++, one.begin += move, one.end += move)
        touch_all(r, &one, at + 1);
}

static void measure(Replay *r, const Access *t)
{
    const PlanBuffer *b = &r->p->buffers.data[r->pk->args.data[t->arg].buf];
    Measure *m = &r->measure;
    const bool w = t->is_write, is_first = !m->any[w];
    int64_t from = (int64_t)b->offset + t->begin, until = (int64_t)b->offset + t->end;
    for (uint32_t i = m->at + 1; i < r->n_open; i++) {
        const int64_t far = t->move[i] * (r->open[i].count - 1);
        from += far < 0 ? far : 0;
        until += far > 0 ? far : 0;
    }
    m->from[w] = is_first || from < m->from[w] ? from : m->from[w];
    m->until[w] = is_first || until > m->until[w] ? until : m->until[w];
    m->is_even = m->is_even && (is_first || m->move[w] == t->move[m->at]);
    m->move[w] = t->move[m->at];
    m->is_turned = m->is_turned || (!w && m->any[1]);
    m->any[w] = true;
}

static void access(Replay *r, const Access *t)
{
    if (r->phase == MEASURE)
        measure(r, t);
    else if ((r->phase & (t->is_write ? WRITES : READS)) != 0)
        touch_all(r, t, 0);
}

// Elements from the index on, and `by` behind it.
static void access_elements(Replay *r, uint32_t arg, KRef index, int64_t by, int64_t count, bool is_write)
{
    const PlanArg *a = &r->pk->args.data[arg];
    const int64_t bytes = dtype_info[r->k->params.data[arg].dtype].bytes;
    const int64_t at = (int64_t)(a->byte_offset - a->below) + (r->value[index] + by) * bytes;
    Access t = {arg, is_write, at, at + count * bytes, {0}};
    for (uint32_t i = 0; i < r->n_open; i++) {
        const KRef loop = r->open[i].loop;
        t.move[i] = plan_move(r->moves[loop], loop, index) * k_inst(r->k, loop)->imm * bytes;
    }
    access(r, &t);
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
    for (uint32_t i = 0; k_device_operand(r->k, n, i) != 0; i++) {
        const KInst *o = shared_address(r, n, i);
        const KDeviceAccess *known = k_device_access(kdev_of(n), i);
        if (o == NULL)
            continue;
        if (known != NULL) {
            check_known(r, o->a);
            for (uint32_t j = 0; known->needs >> j != 0; j++)
                if ((known->needs >> j & 1) != 0)
                    check_known(r, k_device_operand(r->k, n, j));
            for (int64_t j = 0; j < kdev_times(known, v) && kdev_turns(kdev_of(n), v) == 0; j++)
                access_elements(r, (uint32_t)o->imm, o->a, kdev_far(known, v, j), known->elements(v),
                                known->is_write);
            continue;
        }
        const PlanArg *a = &r->pk->args.data[o->imm];
        const Access all = {(uint32_t)o->imm, true, (int64_t)a->begin, (int64_t)a->end, {0}};
        if (a->is_written)
            access(r, &all);
        if (a->is_read)
            access(r, &(Access){all.arg, false, all.begin, all.end, {0}});
    }
    for (int64_t i = 0; i < 2 * kdev_turns(kdev_of(n), v); i++)
        for (uint32_t j = 0; k_device_operand(r->k, n, j) != 0; j++) {
            const KDeviceAccess *known = k_device_access(kdev_of(n), j);
            const KInst *o = shared_address(r, n, j);
            if (known != NULL && kdev_is_late(known) == (i % 2 != 0) && o != NULL)
                access_elements(r, (uint32_t)o->imm, o->a, kdev_far(known, v, i / 2), known->elements(v),
                                known->is_write);
        }
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

// All iterations of a loop at once; which accesses count.
static void go_together(Replay *r, OpenLoop open, uint32_t phase)
{
    const uint32_t before = r->phase;
    r->measure.is_turned = r->measure.is_turned || (r->is_mixed[open.loop] && before == MEASURE);
    r->open[r->n_open++] = open;
    r->phase = phase;
    r->value[open.loop] = r->value[k_inst(r->k, open.loop)->a];
    go(r, open.loop + 1, r->end_of[open.loop]);
    r->phase = before;
    r->n_open--;
}

// Is what iteration i reads apart from what iteration j writes, for all j < i, or for all j where something
// may be read behind a write? Distances are linear in i and j, so the least and the greatest are at the
// corners.
static bool is_measure_apart(const Measure *m, int64_t count)
{
    const int64_t last = count - 1, before[][2] = {{1, 0}, {last, 0}, {last, last - 1}},
                  all[][2] = {{0, 0}, {last, 0}, {0, last}, {last, last}};
    bool is_above = true, is_below = true;
    for (uint32_t c = 0; c < (m->is_turned ? 4 : 3); c++) {
        const int64_t *corner = m->is_turned ? all[c] : before[c];
        const int64_t read = m->move[0] * corner[0], written = m->move[1] * corner[1];
        is_above = is_above && m->from[0] + read >= m->until[1] + written;
        is_below = is_below && m->until[0] + read <= m->from[1] + written;
    }
    return is_above || is_below;
}

// May all iterations read before any of them writes?
static bool is_apart(Replay *r, OpenLoop open)
{
    r->measure = (Measure){.is_even = true, .at = r->n_open};
    go_together(r, open, MEASURE);
    const Measure *m = &r->measure;
    return !m->any[0] || !m->any[1] || (m->is_even && is_measure_apart(m, open.count));
}

static void go_around(Replay *r, KRef loop)
{
    const KInst *n = k_inst(r->k, loop);
    check_known(r, n->a);
    check_known(r, n->b);
    const int64_t first = r->value[n->a], end = r->value[n->b];
    const OpenLoop open = {loop, end > first ? (end - 1 - first) / n->imm + 1 : 0};
    const bool is_mixed = r->is_mixed[loop] && r->phase == BOTH;
    if (r->moves[loop] != NULL && open.count > 1 && open.count <= MAX_COUNT && r->n_open < MAX_OPEN &&
        (!is_mixed || is_apart(r, open))) {
        go_together(r, open, is_mixed ? READS : r->phase);
        if (is_mixed)
            go_together(r, open, WRITES);
        return;
    }
    for (int64_t v = first; v < end && r->wrong == NULL; v += n->imm) {
        r->value[loop] = v;
        go(r, loop + 1, r->end_of[loop]);
    }
}

static void go(Replay *r, KRef begin, KRef end)
{
    for (KRef i = begin; i < end && r->wrong == NULL; i++) {
        const KInst *n = k_inst(r->k, i);
        if (!r->is_needed[i])
            continue;
        if (n->kind == KI_for) {
            go_around(r, i);
            i = r->end_of[i];
        } else if (n->kind == KI_if) {
            choose(r, i);
            i = r->end_of[i];
        } else if (is_access(r, n)) {
            const KRef index = n->kind == KI_store ? n->b : n->a;
            check_known(r, index);
            r->is_open[i] = true;
            access_elements(r, (uint32_t)n->imm, index, 0, n->count, n->kind == KI_store);
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

static bool find_needed(Replay *r)
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
            vec_push(r->scratch, &open, i);
    }
    return any;
}

// --- loops that may be gone through together -----------------------------------------------------

typedef struct Nest {
    const Replay *r;
    KRef loop;
    const int64_t *moves;
    bool is_plain, is_read;
    BufId writer;
} Nest;

// index 0: all of the argument. Reads of what is written need the order.
static void see(Nest *nest, uint32_t arg, KRef index, bool is_write)
{
    const BufId owner = owner_of(nest->r->p, nest->r->pk->args.data[arg].buf);
    const bool is_same = nest->writer == owner, is_other = nest->writer != 0 && !is_same;
    if (plan_move(nest->moves, nest->loop, index) == PLAN_ANY_MOVE || (is_write ? is_other : is_same))
        nest->is_plain = false;
    nest->writer = is_write ? owner : nest->writer;
    nest->is_read = nest->is_read || !is_write;
}

static void see_call(Nest *nest, const KInst *n)
{
    const Replay *r = nest->r;
    for (uint32_t i = 0; k_device_operand(r->k, n, i) != 0; i++) {
        const KInst *o = shared_address(r, n, i);
        const KDeviceAccess *known = o != NULL ? k_device_access(kdev_of(n), i) : NULL;
        for (uint32_t j = 0; known != NULL && known->needs >> j != 0; j++)
            if ((known->needs >> j & 1) != 0 &&
                plan_move(nest->moves, nest->loop, k_device_operand(r->k, n, j)) != 0)
                nest->is_plain = false;
        if (known != NULL)
            see(nest, (uint32_t)o->imm, o->a, known->is_write);
        else if (o != NULL && r->pk->args.data[o->imm].is_written)
            see(nest, (uint32_t)o->imm, 0, true);
        if (known == NULL && o != NULL && r->pk->args.data[o->imm].is_read)
            see(nest, (uint32_t)o->imm, 0, false);
    }
}

static void see_all(Nest *nest)
{
    const Replay *r = nest->r;
    for (KRef i = nest->loop + 1; i < r->end_of[nest->loop] && nest->is_plain; i++) {
        const KInst *n = k_inst(r->k, i);
        if (n->kind == KI_device)
            see_call(nest, n);
        else if (is_access(r, n))
            see(nest, (uint32_t)n->imm, n->kind == KI_store ? n->b : n->a, n->kind == KI_store);
    }
}

static void find_moves(Replay *r)
{
    for (KRef i = 1; i < r->k->insts.len; i++) {
        if (k_inst(r->k, i)->kind != KI_for || !r->is_needed[i])
            continue;
        const int64_t *moves = plan_moves(r->scratch, r->k, i, r->end_of[i], r->is_needed);
        Nest nest = {.r = r, .loop = i, .moves = moves, .is_plain = moves != NULL};
        see_all(&nest);
        see_all(&nest); // now that the writer is known
        r->moves[i] = nest.is_plain ? moves : NULL;
        r->is_mixed[i] = nest.is_read && nest.writer != 0;
    }
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

static void replay(Replay *r, uint64_t bytes)
{
    const uint32_t n = r->k->insts.len;
    r->is_needed = ARENA_ARRAY(r->scratch, bool, n);
    r->else_of = ARENA_ARRAY(r->scratch, KRef, n);
    r->end_of = ARENA_ARRAY(r->scratch, KRef, n);
    r->value = ARENA_ARRAY(r->scratch, int64_t, n);
    r->is_open = ARENA_ARRAY(r->scratch, bool, n);
    r->moves = ARENA_ARRAY(r->scratch, const int64_t *, n);
    r->is_mixed = ARENA_ARRAY(r->scratch, bool, n);
    r->phase = BOTH;
    for (uint32_t i = 0; i < r->pk->args.len; i++)
        if (r->is_shared[i] && r->pk->args.data[i].is_written)
            plan_bytes_add(&r->bytes, r->scratch, owner_of(r->p, r->pk->args.data[i].buf), bytes);
    while (r->wrong == NULL && find_needed(r)) {
    }
    if (r->wrong == NULL) {
        find_moves(r);
        go(r, 1, n);
    }
}

const char *plan_replay_kernel(const Plan *p, const PlanKernel *k)
{
    Arena scratch = {0};
    uint64_t end = 0;
    Replay r = {.scratch = &scratch, .p = p, .pk = k, .k = k->kernel, .first = UINT64_MAX};
    r.is_shared = ARENA_ARRAY(&scratch, bool, k->args.len + 1u);
    if (find_shared(&r, &end)) {
        if (k->loop != NULL || !k->kernel->may_alias || k->args.len != k->kernel->params.len)
            r.wrong = arena_printf(p->arena, "%s: its arguments share bytes", k->kernel->name);
        else
            replay(&r, end - r.first);
    }
    arena_free(&scratch);
    return r.wrong;
}
