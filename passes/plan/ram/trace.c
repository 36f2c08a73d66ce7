// SPDX-License-Identifier: Apache-2.0
// Runs the loops of a kernel over intervals. See trace.h.
#include "passes/plan/ram/trace.h"
#include "ir/kernel/device.h"
#include "ir/kernel/kernel_fold.h"
#include "passes/plan/ram/slope.h"

// Instructions that one run of a kernel may take, and iterations that one may stand for.
enum { MAX_STEPS = 1 << 21, MAX_REPEATS = 1 << 24 };

// Far from where additions of them overflow.
#define LEAST (INT64_MIN / 8)
#define MOST  (INT64_MAX / 8)

typedef struct Range {
    int64_t lo, hi; // inclusive
} Range;

static const Range anything = {LEAST, MOST};

// What depends on an instruction: nothing (0), conditions, or addresses and bounds.
enum { NEED_TRUTH = 1, NEED_NUMBER = 2 };
enum { HAS_READ = 1, HAS_WRITE = 2, HAS_BOTH = 3, HAS_SET = 4 }; // HAS_SET: ranges would be too wide

typedef struct Trace {
    const PlanKernel *pk;
    const Kernel *k;
    const TraceWatch *watch;
    TraceOnly only;
    Range *value;  // by instruction; of a variable: what it has now
    uint8_t *need; // the same: NEED_*
    KRef *turn;    // by `if`: its else, or 0
    KRef *end;     // by `for`, `if` and `else`: the end of the block
    uint8_t *has;  // by `for`: HAS_*
    Slope *slope;  // the same; even only where repeats are wanted
    bool *is_seen; // by instruction: it touches what is watched
    uint64_t steps;
    uint32_t repeats;     // that are open
    Range reach[2];       // how far their iterations move reads and writes
    bool is_loose;        // in one of them, an access may be of all that the argument has
    bool is_held;         // inside a loop that is not run, but reads and writes: `held` collects
    TraceAccess *held[2]; // by argument: reads, writes; nothing where begin == end
    bool is_failed;
} Trace;

// --- intervals -----------------------------------------------------------------------------------

static bool is_point(Range s)
{
    return s.lo == s.hi;
}

static Range point(int64_t v)
{
    return (Range){v, v};
}

static int64_t clamp(int64_t v)
{
    return v < LEAST ? LEAST : v > MOST ? MOST : v;
}

static Range span_of(int64_t a, int64_t b)
{
    return (Range){clamp(a < b ? a : b), clamp(a < b ? b : a)};
}

static bool is_known(Range s)
{
    return s.lo > LEAST && s.hi < MOST;
}

static Range add(Range a, Range b)
{
    return is_known(a) && is_known(b) ? span_of(a.lo + b.lo, a.hi + b.hi) : anything;
}

static Range subtract(Range a, Range b)
{
    return is_known(a) && is_known(b) ? span_of(a.lo - b.hi, a.hi - b.lo) : anything;
}

static Range multiply(Range a, Range b)
{
    const Range x = is_point(a) ? b : a, by = is_point(a) ? a : b;
    int64_t lo = 0, hi = 0;
    if (!is_known(x) || !is_point(by) || __builtin_mul_overflow(x.lo, by.lo, &lo) ||
        __builtin_mul_overflow(x.hi, by.lo, &hi))
        return anything;
    return span_of(lo, hi);
}

// Truncates, as kernels do.
static Range divide(Range a, Range b)
{
    return is_known(a) && is_point(b) && b.lo > 0 ? (Range){a.lo / b.lo, a.hi / b.lo} : anything;
}

static Range remainder_of(Range a, Range b)
{
    if (!is_known(a) || !is_point(b) || b.lo <= 0)
        return anything;
    if (a.lo / b.lo == a.hi / b.lo && (a.lo >= 0 || a.hi <= 0))
        return (Range){a.lo % b.lo, a.hi % b.lo};
    return (Range){a.lo < 0 ? 1 - b.lo : 0, b.lo - 1};
}

static Range least(Range a, Range b)
{
    return (Range){a.lo < b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
}

static Range most(Range a, Range b)
{
    return (Range){a.lo > b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
}

static Range hull(Range a, Range b)
{
    return (Range){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
}

static Range negate(Range a)
{
    return subtract(point(0), a);
}

static Range complement(Range a)
{
    return subtract(point(1), a);
}

// always: it holds for all values; never: for none.
static Range truth(bool always, bool never)
{
    return (Range){always, !never};
}

static bool are_same(Range a, Range b)
{
    return is_point(a) && is_point(b) && a.lo == b.lo;
}

static bool are_apart(Range a, Range b)
{
    return a.hi < b.lo || b.hi < a.lo;
}

// What an operation makes of intervals; what is not listed makes anything of them.
typedef Range (*RangeOp)(Range a, Range b, Range c);
#define SPAN_OP(name, value)                                                                                 \
    static Range span_##name(Range a, Range b, Range c)                                                      \
    {                                                                                                        \
        (void)a, (void)b, (void)c;                                                                           \
        return value;                                                                                        \
    }
#define SPAN_OPS(OP)                                                                                         \
    OP(add, add(a, b))                                                                                       \
    OP(sub, subtract(a, b))                                                                                  \
    OP(mul, multiply(a, b))                                                                                  \
    OP(fma, add(multiply(a, b), c))                                                                          \
    OP(div, divide(a, b))                                                                                    \
    OP(rem, remainder_of(a, b))                                                                              \
    OP(min, least(a, b))                                                                                     \
    OP(max, most(a, b))                                                                                      \
    OP(neg, negate(a))                                                                                       \
    OP(eq, truth(are_same(a, b), are_apart(a, b)))                                                           \
    OP(ne, truth(are_apart(a, b), are_same(a, b)))                                                           \
    OP(lt, truth(a.hi < b.lo, a.lo >= b.hi))                                                                 \
    OP(le, truth(a.hi <= b.lo, a.lo > b.hi))                                                                 \
    OP(select, is_point(a) ? (a.lo != 0 ? b : c) : hull(b, c))
SPAN_OPS(SPAN_OP)
// Of truths only.
SPAN_OP(and, least(a, b))
SPAN_OP(or, most(a, b))
SPAN_OP(not, complement(a))

#define SPAN_ROW(name, value) [KOP_##name] = span_##name,
static const RangeOp span_ops[KOP_COUNT] = {SPAN_OPS(SPAN_ROW)};
static const RangeOp truth_ops[KOP_COUNT] = {[KOP_and] = span_and, [KOP_or] = span_or, [KOP_not] = span_not};

static Range op_span(const Trace *t, const KInst *n)
{
    const bool is_truth = n->dtype == DTYPE_bool && truth_ops[n->kop] != NULL;
    const RangeOp op = is_truth ? truth_ops[n->kop] : span_ops[n->kop];
    return op != NULL ? op(t->value[n->a], t->value[n->b], t->value[n->c]) : anything;
}

// Numbers of fewer bits wrap; those within them are what they seem.
static Range fitted(const KInst *n, Range s)
{
    const bool is_wide = n->dtype == KT_INDEX || n->dtype == DTYPE_i64 || n->dtype == DTYPE_bool;
    const bool fits = is_wide || (n->dtype == DTYPE_i32 && s.lo >= INT32_MIN && s.hi <= INT32_MAX);
    return fits && n->lanes == 1 ? s : anything;
}

static Range span_of_expression(const Trace *t, const KInst *n)
{
    if (n->kind == KI_const)
        return fitted(n, kt_is_float(n->dtype) ? anything : point(n->imm));
    if (n->kind == KI_op)
        return fitted(n, op_span(t, n));
    if (n->kind == KI_cast && n->imm == KCAST_VALUE)
        return fitted(n, t->value[n->a]);
    return n->kind == KI_get ? t->value[n->a] : anything;
}

// --- accesses ------------------------------------------------------------------------------------

static void report(Trace *t, const TraceAccess *a)
{
    if (!t->is_held) {
        t->watch->fn(t->watch->ctx, a);
        return;
    }
    TraceAccess *all = &t->held[a->is_write][a->arg];
    const bool is_first = all->begin == all->end;
    const int64_t begin = is_first || a->begin < all->begin ? a->begin : all->begin;
    const int64_t end = is_first || a->end > all->end ? a->end : all->end;
    *all = (TraceAccess){a->arg, a->is_write, begin, end};
}

// Operand i of a device function, if it is the address of a parameter that is watched.
static const KInst *watched_address(const Trace *t, const KInst *n, uint32_t i)
{
    const KInst *o = k_inst(t->k, k_device_operand(t->k, n, i));
    return o->kind == KI_address && (t->watch->reads[o->imm] || t->watch->writes[o->imm]) ? o : NULL;
}

static bool is_call_watched(const Trace *t, const KInst *n)
{
    bool any = false;
    for (uint32_t i = 0; n->kind == KI_device && k_device_operand(t->k, n, i) != 0; i++)
        any = any || watched_address(t, n, i) != NULL;
    return any;
}

static bool is_watched(const Trace *t, const KInst *n)
{
    return is_call_watched(t, n) || (k_reads_param(n) && t->watch->reads[n->imm]) ||
           (k_writes_param(n) && t->watch->writes[n->imm]);
}

// Elements [index, index + count) of the parameter, inside what the argument may touch.
static void touch(Trace *t, uint32_t param, Range index, int64_t count, bool is_write)
{
    const PlanArg *arg = &t->pk->args.data[param];
    const int64_t bytes = dtype_info[t->k->params.data[param].dtype].bytes;
    const int64_t at = (int64_t)arg->byte_offset - (int64_t)arg->below;
    TraceAccess a = {param, is_write, (int64_t)arg->begin, (int64_t)arg->end};
    bool is_loose = !is_known(index);
    if (!is_loose) {
        const int64_t begin = at + index.lo * bytes, end = at + (index.hi + count) * bytes;
        is_loose = begin + t->reach[is_write].lo < a.begin || end + t->reach[is_write].hi > a.end;
        a.begin = begin > a.begin ? begin : a.begin;
        a.end = end < a.end ? end : a.end;
    }
    t->is_loose = t->is_loose || (is_loose && t->repeats > 0);
    if (a.begin < a.end)
        report(t, &a);
}

// What is not known of a function may be all of the parameter, the writes first.
static void access_all(Trace *t, uint32_t param)
{
    const PlanArg *arg = &t->pk->args.data[param];
    t->is_loose = t->is_loose || t->repeats > 0;
    for (uint32_t write = 2; write-- > 0;)
        if (arg->begin < arg->end && (write ? t->watch->writes : t->watch->reads)[param])
            report(t, &(TraceAccess){param, write, (int64_t)arg->begin, (int64_t)arg->end});
}

// From the first time to the last.
static void access_known(Trace *t, const KInst *address, const KDeviceAccess *a, const int64_t *v,
                         int64_t first, int64_t last)
{
    const uint32_t param = (uint32_t)address->imm;
    const bool is_watched_so = (a->is_write ? t->watch->writes : t->watch->reads)[param];
    for (int64_t i = first; i <= last && is_watched_so && a->elements(v) > 0; i++)
        touch(t, param, add(t->value[address->a], point(kdev_far(a, v, i))), a->elements(v), a->is_write);
}

// All operands that are known, each of which is accessed in each turn.
static void access_in_turns(Trace *t, const KInst *n, const int64_t *v)
{
    for (int64_t i = 0; i < 2 * kdev_turns(kdev_of(n), v); i++)
        for (uint32_t j = 0; k_device_operand(t->k, n, j) != 0; j++) {
            const KDeviceAccess *a = k_device_access(kdev_of(n), j);
            if (a != NULL && kdev_is_late(a) == (i % 2 != 0) && watched_address(t, n, j) != NULL)
                access_known(t, watched_address(t, n, j), a, v, i / 2, i / 2);
        }
}

static void call(Trace *t, const KInst *n)
{
    int64_t v[KDEV_MAX_OPERANDS] = {0};
    uint32_t known = 0;
    for (uint32_t i = 0; k_device_operand(t->k, n, i) != 0; i++) {
        const Range r = t->value[k_device_operand(t->k, n, i)];
        v[i] = r.lo;
        known |= is_point(r) ? 1u << i : 0;
    }
    for (uint32_t i = 0; k_device_operand(t->k, n, i) != 0; i++) {
        const KInst *o = watched_address(t, n, i);
        const KDeviceAccess *a = k_device_access(kdev_of(n), i);
        if (o == NULL)
            continue;
        if (a == NULL || (a->needs & ~known) != 0)
            access_all(t, (uint32_t)o->imm);
        else if (kdev_turns(kdev_of(n), v) == 0)
            access_known(t, o, a, v, 0, kdev_times(a, v) - 1);
    }
    access_in_turns(t, n, v);
}

// --- running -------------------------------------------------------------------------------------

static void run(Trace *t, KRef begin, KRef end, uint32_t depth);

static void forget_variables(Trace *t, KRef begin, KRef end)
{
    for (KRef r = begin; r < end; r++)
        if (k_inst(t->k, r)->kind == KI_set)
            t->value[k_inst(t->k, r)->a] = anything;
}

// All iterations at once. depth 0: nothing inside runs one by one.
static void run_at_once(Trace *t, KRef loop, KRef end, Range values)
{
    const bool holds = (t->has[loop] & HAS_BOTH) == HAS_BOTH && !t->is_held;
    const KRef set_end = (t->has[loop] & HAS_SET) != 0 ? end : loop; // variables that matter
    forget_variables(t, loop, set_end);
    t->value[loop] = values;
    t->is_held = t->is_held || holds;
    run(t, loop + 1, end, 0);
    forget_variables(t, loop, set_end);
    if (!holds)
        return;
    t->is_held = false; // whatever an iteration writes may come before what another one reads
    for (uint32_t write = 2; write-- > 0;)
        for (uint32_t i = 0; i < t->pk->args.len; i++) {
            const TraceAccess a = t->held[write][i];
            t->held[write][i] = (TraceAccess){0};
            if (a.begin < a.end)
                report(t, &a);
        }
}

// One iteration, which says what all of them do. False: it does not.
static bool run_repeat(Trace *t, KRef loop, int64_t first, int64_t count, uint32_t depth)
{
    const Slope *s = &t->slope[loop];
    const int64_t step = k_inst(t->k, loop)->imm, reads = s->reads * step, writes = s->writes * step;
    const bool was_loose = t->is_loose;
    const Range reach[2] = {t->reach[0], t->reach[1]};
    t->reach[0] = add(reach[0], span_of(0, reads * (count - 1)));
    t->reach[1] = add(reach[1], span_of(0, writes * (count - 1)));
    t->is_loose = false;
    t->repeats++;
    t->watch->repeat(t->watch->ctx, &(TraceRepeat){count, reads, writes});
    t->value[loop] = point(first);
    run(t, loop + 1, t->end[loop], depth - 1);
    t->watch->repeat_end(t->watch->ctx, t->is_loose);
    t->repeats--;
    t->reach[0] = reach[0];
    t->reach[1] = reach[1];
    const bool is_even = !t->is_loose;
    t->is_loose = t->repeats > 0 && (was_loose || t->is_loose);
    return is_even;
}

static void run_loop(Trace *t, KRef loop, uint32_t depth)
{
    const KInst *n = k_inst(t->k, loop);
    const bool is_only = t->only.loops != NULL && t->only.loops[loop];
    const Range lo = is_only ? point(t->only.begin) : t->value[n->a];
    const Range hi = is_only ? point(t->only.end) : t->value[n->b];
    const KRef end = t->end[loop];
    if (hi.hi <= lo.lo || t->has[loop] == 0)
        return;
    const bool is_exact = is_point(lo) && is_point(hi);
    const int64_t last = is_exact ? lo.lo + (hi.lo - 1 - lo.lo) / n->imm * n->imm : hi.hi - 1;
    const bool matters =
        (t->has[loop] & HAS_BOTH) == HAS_BOTH || (t->has[loop] & HAS_SET) != 0 || t->watch->is_exact;
    if (!is_exact || depth == 0 || !matters) {
        run_at_once(t, loop, end, is_known(lo) && is_known(hi) ? (Range){lo.lo, last} : anything);
        return;
    }
    const int64_t count = (last - lo.lo) / n->imm + 1;
    if (t->slope[loop].is_even && count > 1 && count <= MAX_REPEATS &&
        (run_repeat(t, loop, lo.lo, count, depth) || t->is_loose))
        return; // where it is loose, loops around it run again
    for (int64_t i = lo.lo; i <= last && !t->is_failed; i += n->imm) {
        t->value[loop] = point(i);
        run(t, loop + 1, end, depth - 1);
        if (t->watch->is_sample && i == lo.lo + n->imm && last - i > 2 * n->imm)
            i = last - 2 * n->imm;
    }
}

// Both branches where the condition is not known, one after the other: nothing that may happen is left out.
static void run_if(Trace *t, KRef at, uint32_t depth)
{
    const Range condition = t->value[k_inst(t->k, at)->a];
    const KRef turn = t->turn[at], end = t->end[at];
    const bool may_hold = condition.hi != 0, may_fail = condition.lo <= 0;
    if (may_hold)
        run(t, at + 1, turn != 0 ? turn : end, depth);
    if (may_hold && may_fail)
        forget_variables(t, at, end);
    if (may_fail && turn != 0)
        run(t, turn + 1, end, depth);
    if (may_hold && may_fail)
        forget_variables(t, at, end);
}

static void run(Trace *t, KRef begin, KRef end, uint32_t depth)
{
    for (KRef r = begin; r < end && !t->is_failed; r++) {
        const KInst *n = k_inst(t->k, r);
        if (n->kind == KI_for) {
            run_loop(t, r, depth);
            r = t->end[r];
        } else if (n->kind == KI_if) {
            run_if(t, r, depth);
            r = t->end[r];
        } else if (t->need[r] != 0) {
            t->is_failed = ++t->steps > MAX_STEPS || (t->watch->stop != NULL && *t->watch->stop);
            if (n->kind == KI_device)
                call(t, n);
            else if (t->is_seen[r])
                touch(t, (uint32_t)n->imm, t->value[n->kind == KI_store ? n->b : n->a], n->count,
                      n->kind == KI_store);
            if (n->kind == KI_set)
                t->value[n->a] = t->value[n->b];
            else
                t->value[r] = n->kind == KI_var ? t->value[n->a] : span_of_expression(t, n);
        }
    }
}

// --- what matters --------------------------------------------------------------------------------

// Instructions that touch memory in ways that are not followed, or that belong to threads.
static bool is_strange(const KInst *n)
{
    static const bool kinds[KI_COUNT] = {
        [KI_point] = true,  [KI_fetch] = true, [KI_put] = true,   [KI_matrix] = true,
        [KI_custom] = true, [KI_part] = true,  [KI_thread] = true};
    return kinds[n->kind] || (n->kind == KI_device && device_info[kdev_of(n)].target != KDEV_CPU);
}

static void find_blocks(Trace *t, Arena *a)
{
    VEC(KRef) open = {0};
    for (KRef r = 1; r < t->k->insts.len; r++) {
        const uint8_t kind = k_inst(t->k, r)->kind;
        if (kind == KI_end)
            t->end[open.data[--open.len]] = r;
        else if (kind == KI_else)
            t->turn[open.data[open.len - 1]] = r;
        else if (kkind_opens(kind))
            vec_push(a, &open, r);
    }
}

static bool is_root(const Trace *t, const KInst *n)
{
    return n->kind == KI_for || n->kind == KI_if || is_watched(t, n);
}

// What is loaded is not known before a run. Conditions may depend on it, addresses and bounds not.
static bool mark(Trace *t, KRef r, uint8_t need)
{
    const bool is_new = r != 0 && t->need[r] < need;
    const uint8_t kind = k_inst(t->k, r)->kind;
    const bool is_load = kind == KI_load || kind == KI_aload;
    t->is_failed = t->is_failed || kind == KI_team || (is_load && need == NEED_NUMBER);
    t->need[r] = is_new ? need : t->need[r];
    return is_new;
}

// Of a call, what says where it reads, and how much.
static bool mark_call(Trace *t, const KInst *n)
{
    uint32_t needs = 0;
    bool any = false;
    for (uint32_t i = 0; k_device_operand(t->k, n, i) != 0; i++) {
        const KInst *o = watched_address(t, n, i);
        const KDeviceAccess *a = k_device_access(kdev_of(n), i);
        if (o == NULL || a == NULL)
            continue;
        any |= mark(t, o->a, NEED_NUMBER);
        needs |= a->needs;
    }
    for (uint32_t i = 0; needs >> i != 0; i++)
        if ((needs >> i & 1) != 0)
            any |= mark(t, k_device_operand(t->k, n, i), NEED_NUMBER);
    return any;
}

// What an instruction that matters makes matter.
static bool mark_operands(Trace *t, KRef r)
{
    const KInst *n = k_inst(t->k, r);
    if (n->kind == KI_device)
        return mark_call(t, n);
    if (is_watched(t, n))
        return mark(t, n->kind == KI_store ? n->b : n->a, NEED_NUMBER);
    const uint8_t need = n->kind == KI_if ? NEED_TRUTH : t->need[r];
    bool any = mark(t, n->a, need);
    any |= mark(t, n->b, need);
    any |= mark(t, n->c, need);
    return any;
}

static void find_needed(Trace *t)
{
    bool any = true;
    while (any) {
        any = false;
        for (KRef r = t->k->insts.len; r-- > 1;) {
            const KInst *n = k_inst(t->k, r);
            const uint8_t need = is_root(t, n) ? NEED_NUMBER : n->kind == KI_set ? t->need[n->a] : 0;
            t->need[r] = t->need[r] > need ? t->need[r] : need;
            any |= t->need[r] != 0 && mark_operands(t, r);
        }
    }
}

static uint8_t call_uses(const Trace *t, const KInst *n)
{
    uint32_t uses = 0;
    for (uint32_t i = 0; k_device_operand(t->k, n, i) != 0; i++) {
        const KInst *o = watched_address(t, n, i);
        if (o != NULL)
            uses |= (t->watch->reads[o->imm] ? HAS_READ : 0) | (t->watch->writes[o->imm] ? HAS_WRITE : 0);
    }
    return (uint8_t)uses;
}

static void find_uses(Trace *t)
{
    for (KRef loop = 1; loop < t->k->insts.len; loop++)
        for (KRef r = loop; k_inst(t->k, loop)->kind == KI_for && r < t->end[loop]; r++) {
            const KInst *n = k_inst(t->k, r);
            if (n->kind == KI_set && t->need[r] != 0)
                t->has[loop] |= HAS_SET;
            if (is_call_watched(t, n))
                t->has[loop] |= call_uses(t, n) | HAS_SET; // how much it touches changes from call to call
            else if (is_watched(t, n))
                t->has[loop] |= k_writes_param(n) ? HAS_WRITE : HAS_READ;
        }
}

// In an exact trace, loops that read and write are not repeated.
static void find_slopes(Trace *t, Arena *a)
{
    int64_t *slope = ARENA_ARRAY(a, int64_t, t->k->insts.len);
    for (KRef loop = 1; t->watch->repeat != NULL && loop < t->k->insts.len; loop++)
        if (t->has[loop] != 0 && (!t->watch->is_exact || (t->has[loop] & HAS_BOTH) != HAS_BOTH))
            t->slope[loop] =
                slope_of_loop(&(SlopeQuestion){t->k, t->watch, t->need, loop, t->end[loop], slope});
}

static bool prepare(Trace *t, Arena *a)
{
    const uint32_t n = t->k->insts.len;
    for (KRef r = 1; r < n; r++)
        if (is_strange(k_inst(t->k, r)))
            return false;
    t->value = ARENA_ARRAY(a, Range, n);
    t->need = ARENA_ARRAY(a, uint8_t, n);
    t->turn = ARENA_ARRAY(a, KRef, n);
    t->end = ARENA_ARRAY(a, KRef, n);
    t->has = ARENA_ARRAY(a, uint8_t, n);
    t->slope = ARENA_ARRAY(a, Slope, n);
    t->is_seen = ARENA_ARRAY(a, bool, n);
    for (uint32_t i = 0; i < 2; i++)
        t->held[i] = ARENA_ARRAY(a, TraceAccess, t->pk->args.len + 1u);
    for (KRef r = 0; r < n; r++) {
        t->value[r] = anything;
        t->is_seen[r] = is_watched(t, k_inst(t->k, r));
    }
    find_blocks(t, a);
    find_needed(t);
    find_uses(t);
    find_slopes(t, a);
    return !t->is_failed;
}

bool trace_kernel(const PlanKernel *k, Arena *scratch, const TraceWatch *watch, uint32_t depth)
{
    rlx_assert(k->kernel != NULL && k->kernel->params.len == k->args.len);
    Trace t = {.pk = k, .k = k->kernel, .watch = watch, .only = watch->only};
    if (k->loop != NULL || !prepare(&t, scratch))
        return false;
    run(&t, 1, t.k->insts.len, depth);
    return !t.is_failed;
}
