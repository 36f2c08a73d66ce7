// SPDX-License-Identifier: Apache-2.0
// Kernels as makers of rows, and which rows of a value a kernel needs for which rows of its own. See rows.h.
#include "ir/plan/estimate.h"
#include "passes/plan/ram/rows.h"
#include "passes/plan/ram/trace.h"

enum { MOST_AROUND = 3 }; // loops around those over rows

// --- one kernel ----------------------------------------------------------------------------------

bool rows_is_scratch(const Plan *p, const PlanKernel *k, const PlanArg *a)
{
    return a->is_read && a->is_written && p->buffers.data[a->buf].region == REGION_ARENA &&
           a->buf != p->locs.data[k->root].buf;
}

uint64_t rows_scratch_bytes(const Plan *p, const PlanKernel *k, uint32_t n)
{
    enum { ALIGN = 8 };
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        const PlanArg *a = &k->args.data[i];
        bool is_new = rows_is_scratch(p, k, a);
        for (uint32_t j = 0; j < i && is_new; j++)
            is_new = k->args.data[j].buf != a->buf;
        bytes += is_new ? (p->buffers.data[a->buf].bytes + ALIGN - 1) / ALIGN * ALIGN : 0;
    }
    return bytes;
}

// The only buffer of the arena that the kernel makes, as a whole; 0: it does something else as well.
static BufId only_result(const Plan *p, const PlanKernel *k)
{
    BufId out = 0;
    for (uint32_t i = 0; i < k->args.len; i++) {
        const PlanArg *a = &k->args.data[i];
        const PlanBuffer *b = &p->buffers.data[a->buf];
        if (!a->is_written || rows_is_scratch(p, k, a))
            continue;
        if (b->region != REGION_ARENA || a->begin != 0 || a->end != b->bytes || b->bytes == 0 ||
            (out != 0 && out != a->buf))
            return 0;
        out = a->buf;
    }
    return out;
}

// Rows of a value: places along its first spatial axis, of which an iteration may make several; or along the
// axis in front, where that comes first in memory.
static int64_t rows_of(const Plan *p, const PlanKernel *k)
{
    const Shape *s = graph_node(p->graph, k->root)->shape;
    const Loc *l = &p->locs.data[k->root];
    if (s->rank < 3 || s->dim[0] != 1)
        return 1;
    return s->dim[1] > 1 && l->stride[1] > l->stride[2] ? s->dim[1] : s->dim[2];
}

// Does the loop go by rows, as those that were found before do?
static bool goes_by_rows(const Kernel *k, KRef loop, RowStage *s, uint32_t n_found)
{
    int64_t lo = 0, hi = 0;
    const KInst *n = k_inst(k, loop);
    if (!k_is_const(k, n->a, &lo) || !k_is_const(k, n->b, &hi))
        return false;
    if (n_found == 0 && n->imm == 1 && hi - lo > 0 && s->rows % (hi - lo) == 0)
        s->rows = hi - lo;
    const int64_t span = (hi - lo) / s->rows;
    if (span <= 0 || span % n->imm != 0 || span * s->rows != hi - lo ||
        (n_found != 0 && (lo != s->first || span != s->span)))
        return false;
    s->first = lo;
    s->span = span;
    return true;
}

// Marks the loops over rows: all that the kernel does is in one of them. Loops around them, at least `around`
// of them, go around for each row. Returns how many there are; 0: the kernel does something else as well.
static uint32_t mark_loops(const Kernel *k, RowStage *s, uint32_t around)
{
    uint32_t found = 0, depth = 0;
    for (KRef r = 1; r < k->insts.len; r++) {
        const KInst *n = k_inst(k, r);
        depth -= n->kind == KI_end;
        if (kkind_is_expression(n->kind) || kkind_info[n->kind].cls == KIND_NOTHING ||
            n->kind == KI_array || n->kind == KI_end)
            continue;
        if (n->kind != KI_for)
            return 0;
        s->loops[r] = depth >= around && goes_by_rows(k, r, s, found);
        found += s->loops[r];
        depth += !s->loops[r];
        r = s->loops[r] ? k_block_end(k, r) : r;
    }
    return found;
}

// Rows of several loops, made in turns, must have nothing to do with each other.
static bool has_memory(const PlanKernel *k)
{
    for (uint32_t i = 0; i < k->args.len; i++)
        if (k->args.data[i].is_read && k->args.data[i].is_written)
            return true;
    for (KRef r = 1; r < k->kernel->insts.len; r++)
        if (k_inst(k->kernel, r)->kind == KI_array)
            return true;
    return false;
}

// rows: that are wanted, of which an iteration may make several.
static bool find_loops(const Plan *p, const PlanKernel *k, RowStage *s, uint32_t around, Arena *scratch)
{
    s->loops = ARENA_ARRAY(scratch, bool, k->kernel->insts.len);
    const uint32_t found = mark_loops(k->kernel, s, around);
    s->pitch = (int64_t)p->buffers.data[s->out].bytes / s->rows;
    return found != 0 && (found == 1 || !has_memory(k)) &&
           s->pitch * s->rows == (int64_t)p->buffers.data[s->out].bytes;
}

// --- what its rows read --------------------------------------------------------------------------

typedef struct Look {
    const PlanKernel *k;
    RowStage *stage;
    int64_t row;
    bool is_apart; // every row writes only itself; of a sum, only the last one writes
} Look;

static RowUse *use_of(RowStage *s, BufId buf)
{
    for (uint32_t i = 0; i < s->uses.len; i++)
        if (s->uses.data[i].buf == buf)
            return &s->uses.data[i];
    return NULL;
}

static void look(void *ctx, const TraceAccess *a)
{
    Look *l = ctx;
    const int64_t row = l->row * l->stage->pitch;
    if (a->is_write) {
        const bool is_own = l->stage->is_sum ? l->row + 1 == l->stage->rows
                                             : a->begin >= row && a->end <= row + l->stage->pitch;
        l->is_apart = l->is_apart && is_own;
        return;
    }
    RowUse *u = use_of(l->stage, l->k->args.data[a->arg].buf);
    const bool is_first = u->begin[l->row] == u->end[l->row];
    u->begin[l->row] = is_first || a->begin < u->begin[l->row] ? a->begin : u->begin[l->row];
    u->end[l->row] = is_first || a->end > u->end[l->row] ? a->end : u->end[l->row];
}

static void add_uses(const Plan *p, const PlanKernel *k, RowStage *s, bool *reads, Arena *scratch)
{
    for (uint32_t i = 0; i < k->args.len; i++) {
        const PlanArg *a = &k->args.data[i];
        const bool is_arena = p->buffers.data[a->buf].region == REGION_ARENA;
        reads[i] = is_arena && a->is_read && !a->is_written;
        if (!reads[i] || use_of(s, a->buf) != NULL)
            continue;
        const RowUse u = {.buf = a->buf,
                          .begin = ARENA_ARRAY(scratch, int64_t, s->rows),
                          .end = ARENA_ARRAY(scratch, int64_t, s->rows),
                          .unread = ARENA_ARRAY(scratch, int64_t, s->rows + 1)};
        vec_push(scratch, &s->uses, u);
    }
}

static void find_unread(const RowStage *s)
{
    for (uint32_t i = 0; i < s->uses.len; i++) {
        const RowUse *u = &s->uses.data[i];
        u->unread[s->rows] = INT64_MAX;
        for (int64_t q = s->rows; q-- > 0;)
            u->unread[q] =
                u->begin[q] != u->end[q] && u->begin[q] < u->unread[q + 1] ? u->begin[q] : u->unread[q + 1];
    }
}

static bool find_uses(const Plan *p, const PlanKernel *k, RowStage *s, Arena *scratch)
{
    bool *reads = ARENA_ARRAY(scratch, bool, k->args.len);
    bool *writes = ARENA_ARRAY(scratch, bool, k->args.len);
    s->uses.len = 0;
    add_uses(p, k, s, reads, scratch);
    for (uint32_t i = 0; i < k->args.len; i++)
        writes[i] = k->args.data[i].buf == s->out;
    Look l = {.k = k, .stage = s, .is_apart = true};
    rlx_assert(s->span > 0);
    for (; l.row < s->rows && l.is_apart; l.row++) {
        const int64_t at = s->first + l.row * s->span;
        const TraceWatch watch = {
            .reads = reads, .writes = writes, .fn = look, .ctx = &l, .only = {s->loops, at, at + s->span}};
        if (!trace_kernel(k, scratch, &watch, TRACE_ALL_LOOPS))
            return false;
    }
    find_unread(s);
    return l.is_apart;
}

static RowUse joined_use(const RowUse *u, const RowStage *s, int64_t factor, Arena *scratch)
{
    const int64_t rows = s->rows / factor;
    RowUse to = {.buf = u->buf,
                 .begin = ARENA_ARRAY(scratch, int64_t, rows),
                 .end = ARENA_ARRAY(scratch, int64_t, rows),
                 .unread = ARENA_ARRAY(scratch, int64_t, rows + 1)};
    for (int64_t i = 0; i < s->rows; i++) {
        const int64_t q = i / factor;
        const bool is_first = to.begin[q] == to.end[q], any = u->begin[i] != u->end[i];
        to.begin[q] = any && (is_first || u->begin[i] < to.begin[q]) ? u->begin[i] : to.begin[q];
        to.end[q] = any && (is_first || u->end[i] > to.end[q]) ? u->end[i] : to.end[q];
    }
    for (int64_t q = 0; q <= rows; q++)
        to.unread[q] = u->unread[q * factor];
    return to;
}

const RowStage *rows_coarser(RowStage *s, int64_t factor, Arena *scratch)
{
    rlx_assert(s->out != 0 && factor > 1 && s->rows % factor == 0);
    for (const RowStage *c = s->coarser; c != NULL; c = c->coarser)
        if (c->rows * factor == s->rows)
            return c;
    RowStage *c = ARENA_NEW(scratch, RowStage);
    *c = *s;
    c->uses.data = ARENA_ARRAY(scratch, RowUse, s->uses.len + 1u);
    c->uses.cap = s->uses.len + 1;
    for (uint32_t i = 0; i < s->uses.len; i++)
        c->uses.data[i] = joined_use(&s->uses.data[i], s, factor, scratch);
    c->rows /= factor;
    c->pitch *= factor;
    c->span *= factor;
    c->coarser = s->coarser;
    s->coarser = c;
    return c;
}

// Can the loops over rows stop within a row, for other kernels?
static bool has_parts(const RowStage *s, int64_t parts)
{
    const Kernel *k = s->kernel->kernel;
    for (KRef r = 1; r < k->insts.len; r++) {
        const KInst *n = k_inst(k, r);
        const bool is_free = n->flags == KFOR_PARALLEL || n->flags == KFOR_TURNS;
        if (s->loops[r] && (!is_free || s->span / parts % n->imm != 0))
            return false;
    }
    return true;
}

const RowStage *rows_finer(const Plan *p, RowStage *s, int64_t parts, Arena *scratch)
{
    rlx_assert(parts > 1);
    if (s->out == 0 || s->is_sum || s->rows < 2 || s->span % parts != 0 || s->pitch % parts != 0)
        return NULL;
    for (const RowStage *f = s->finer; f != NULL; f = f->finer)
        if (f->rows == s->rows * parts)
            return f->out != 0 ? f : NULL;
    RowStage *f = ARENA_NEW(scratch, RowStage);
    *f = *s;
    f->rows *= parts;
    f->pitch /= parts;
    f->span /= parts;
    f->uses.data = NULL; // those of `s` stay
    f->uses.cap = 0;
    f->out = has_parts(s, parts) && find_uses(p, s->kernel, f, scratch) ? s->out : 0;
    f->finer = s->finer;
    s->finer = f;
    return f->out != 0 ? f : NULL;
}

// Iterations of the first loop; 0: it is not known.
static int64_t first_count(const Kernel *k)
{
    int64_t lo = 0, hi = 0;
    for (KRef r = 1; r < k->insts.len; r++) {
        const KInst *n = k_inst(k, r);
        if (n->kind == KI_for)
            return k_is_const(k, n->a, &lo) && k_is_const(k, n->b, &hi) ? hi - lo : 0;
    }
    return 0;
}

// A kernel without rows of its own, which adds up those that it reads.
static bool find_sum(const Plan *p, const PlanKernel *k, RowStage *found, Arena *scratch)
{
    RowStage s = *found;
    s.is_sum = true;
    s.rows = first_count(k->kernel);
    s.pitch = 0;
    if (s.rows < 2 || s.scratch == 0)
        return false;
    s.loops = ARENA_ARRAY(scratch, bool, k->kernel->insts.len);
    s.uses.data = NULL; // those of `found` stay
    s.uses.cap = 0;
    if (mark_loops(k->kernel, &s, 0) != 1 || !find_uses(p, k, &s, scratch))
        return false;
    s.kept = s.scratch;
    s.scratch = 0;
    *found = s;
    return true;
}

RowStage rows_stage(const Plan *p, uint32_t kernel, const PlanKernel *k, Arena *scratch)
{
    rlx_assert(kernel < p->kernels.len && k->kernel != NULL);
    RowStage s = {.kernel = k};
    s.insns = k->loop == NULL ? estimate_kernel(p->caps->cpu_name, k->kernel).insns : 0;
    s.scratch = rows_scratch_bytes(p, k, k->args.len);
    if (k->loop != NULL || k->is_first || k->is_last || k->is_start || k->is_joined || k->stages.len != 0 ||
        kernel < p->prepare.n_kernels || kernel < p->n_check_kernels || k->kernel->custom != NULL)
        return s;
    s.out = s.result = only_result(p, k);
    bool is_found = false;
    for (uint32_t around = 0; s.out != 0 && !is_found && around < MOST_AROUND; around++) {
        s.rows = rows_of(p, k);
        is_found = find_loops(p, k, &s, around, scratch) && find_uses(p, k, &s, scratch);
    }
    if (s.out != 0 && (!is_found || s.rows == 1))
        is_found |= find_sum(p, k, &s, scratch);
    s.out = is_found ? s.out : 0;
    return s;
}
