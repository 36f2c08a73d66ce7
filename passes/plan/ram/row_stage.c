// SPDX-License-Identifier: Apache-2.0
// Kernels as makers of rows, and which rows of a value a kernel needs for which rows of its own. See rows.h.
#include "ir/plan/estimate.h"
#include "passes/plan/ram/rows.h"
#include "passes/plan/ram/trace.h"

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

// The loop around all that the kernel does; 0: there is none.
static KRef only_loop(const Kernel *k)
{
    KRef loop = 0;
    for (KRef r = 1; r < k->insts.len; r++) {
        const KInst *n = k_inst(k, r);
        if (kkind_is_expression(n->kind) || kkind_info[n->kind].cls == KIND_NOTHING || n->kind == KI_array)
            continue;
        if (loop != 0 || n->kind != KI_for)
            return 0;
        loop = r;
        r = k_block_end(k, r);
    }
    return loop;
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

// Rows of a value: places along its first spatial axis, of which an iteration may make several.
static int64_t rows_of(const Plan *p, const PlanKernel *k)
{
    const Shape *s = graph_node(p->graph, k->root)->shape;
    return s->rank >= 3 && s->dim[0] == 1 ? s->dim[2] : 1;
}

static bool find_loop(const Plan *p, const PlanKernel *k, RowStage *s)
{
    int64_t lo = 0, hi = 0;
    s->loop = only_loop(k->kernel);
    if (s->loop == 0)
        return false;
    const KInst *n = k_inst(k->kernel, s->loop);
    s->rows = rows_of(p, k);
    if (!k_is_const(k->kernel, n->a, &lo) || !k_is_const(k->kernel, n->b, &hi))
        return false;
    if (n->imm == 1 && hi - lo > 0 && s->rows % (hi - lo) == 0)
        s->rows = hi - lo;
    s->pitch = (int64_t)p->buffers.data[s->out].bytes / s->rows;
    s->first = lo;
    s->span = (hi - lo) / s->rows;
    return s->span > 0 && s->span % n->imm == 0 && s->span * s->rows == hi - lo &&
           s->pitch * s->rows == (int64_t)p->buffers.data[s->out].bytes;
}

// --- what its rows read --------------------------------------------------------------------------

typedef struct Look {
    const PlanKernel *k;
    RowStage *stage;
    int64_t row;
    bool is_apart; // every row writes only itself
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
        l->is_apart = l->is_apart && a->begin >= row && a->end <= row + l->stage->pitch;
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
    add_uses(p, k, s, reads, scratch);
    for (uint32_t i = 0; i < k->args.len; i++)
        writes[i] = k->args.data[i].buf == s->out;
    Look l = {.k = k, .stage = s, .is_apart = true};
    for (; l.row < s->rows && l.is_apart; l.row++) {
        const int64_t at = s->first + l.row * s->span;
        const TraceWatch watch = {
            .reads = reads, .writes = writes, .fn = look, .ctx = &l, .only = {s->loop, at, at + s->span}};
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

RowStage rows_stage(const Plan *p, uint32_t kernel, const PlanKernel *k, Arena *scratch)
{
    rlx_assert(kernel < p->kernels.len && k->kernel != NULL);
    RowStage s = {.kernel = k};
    s.insns = k->loop == NULL ? estimate_kernel(p->caps->cpu_name, k->kernel).insns : 0;
    s.scratch = rows_scratch_bytes(p, k, k->args.len);
    if (k->loop != NULL || k->is_last || k->is_start || k->is_joined || k->stages.len != 0 ||
        kernel < p->prepare.n_kernels || kernel < p->n_check_kernels || k->kernel->custom != NULL)
        return s;
    s.out = s.result = only_result(p, k);
    if (s.out != 0 && (!find_loop(p, k, &s) || !find_uses(p, k, &s, scratch)))
        s.out = 0;
    return s;
}
