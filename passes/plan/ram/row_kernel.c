// SPDX-License-Identifier: Apache-2.0
// One kernel of a group of kernels: a loop over ticks, in which rows that are needed again move to the begin
// of their windows, and each kernel makes its next row where it is due. See rows.h.
#include "passes/plan/ram/rows.h"

enum { WORD = 4, MOVED = 4 }; // bytes; elements that a turn moves

// A parameter of the joined kernel, for arguments with the same buffer and type.
typedef struct Joined {
    Plan *plan;
    const RowGroup *g;
    Arena *scratch;
    Kernel *to;
    PlanKernel *pk;               // the joined one
    BufId buf[ROWS_MAX_STAGES];   // by stage: where its window is; 0: the value is there as a whole
    KRef lowest[ROWS_MAX_STAGES]; // the same: the row at its begin
    uint32_t lent[ROWS_MAX_STAGES]; // the same: 1 + the parameter for it, where it lies in a result
    BufId common;                 // scratch memory of all stages, which use it one after the other
    KRef tick;
    KRef part; // of the rows that some stages make in turns
} Joined;

// --- parameters ----------------------------------------------------------------------------------

// The stage of the group that makes the value, if it has a window or lies in that of another; UINT32_MAX:
// none.
static uint32_t window_of(const Joined *j, BufId buf)
{
    for (uint32_t i = 0; i < j->g->n; i++)
        if (j->g->stage[i]->out == buf && j->g->held[i].is_inner)
            return i;
    return UINT32_MAX;
}

static BufId add_buffer(Joined *j, uint64_t bytes, const char *name)
{
    const PlanBuffer b = {.region = REGION_ARENA, .bytes = bytes, .align = 64, .name = name};
    vec_push(j->plan->arena, &j->plan->buffers, b);
    return j->plan->buffers.len - 1;
}

static void add_windows(Joined *j)
{
    for (uint32_t i = 0; i < j->g->n; i++) {
        const RowHeld *h = &j->g->held[i];
        const uint64_t bytes = (uint64_t)(h->rows * j->g->stage[i]->pitch / h->parts);
        const char *name = j->plan->buffers.data[j->g->stage[i]->out].name;
        if (h->is_inner && !h->is_lent)
            j->buf[i] = add_buffer(j, (bytes + WORD - 1) / WORD * WORD, name);
    }
    for (uint32_t i = 0; i < j->g->n; i++) {
        const RowHeld *h = &j->g->held[i];
        if (h->is_lent)
            j->buf[i] = j->g->held[h->lender].is_inner ? j->buf[h->lender] : j->g->stage[h->lender]->out;
    }
    if (j->g->scratch_bytes != 0)
        j->common = add_buffer(j, j->g->scratch_bytes, "scratch");
}

static uint32_t push_param(Joined *j, const PlanArg *arg, const KParam *param)
{
    vec_push(j->plan->arena, &j->pk->args, *arg);
    vec_push(j->to->arena, &j->to->params, *param);
    return j->to->params.len - 1;
}

static bool is_lent(const Joined *j, uint32_t param)
{
    for (uint32_t i = 0; i < j->g->n; i++)
        if (j->lent[i] == param + 1)
            return true;
    return false;
}

// The parameter with this argument, which an earlier stage may have.
static uint32_t param_for(Joined *j, const PlanArg *arg, const KParam *param)
{
    for (uint32_t i = 0; i < j->pk->args.len; i++) {
        PlanArg *a = &j->pk->args.data[i];
        KParam *p = &j->to->params.data[i];
        if (a->buf != arg->buf || a->byte_offset != arg->byte_offset || a->below != arg->below ||
            p->dtype != param->dtype || is_lent(j, i))
            continue;
        a->begin = arg->begin < a->begin ? arg->begin : a->begin;
        a->end = arg->end > a->end ? arg->end : a->end;
        a->is_read |= arg->is_read;
        a->is_written |= arg->is_written;
        p->is_read |= param->is_read;
        p->is_written |= param->is_written;
        return i;
    }
    return push_param(j, arg, param);
}

static uint32_t own_param(Joined *j, BufId buf, const KParam *like, DType type)
{
    KParam p = *like;
    p.dtype = type;
    p.is_read = p.is_written = true;
    const PlanArg a = {
        .buf = buf, .end = j->plan->buffers.data[buf].bytes, .is_read = true, .is_written = true};
    return param_for(j, &a, &p);
}

// Scratch memory of a stage lies in what all of them share, one piece behind the other.
static uint32_t scratch_param(Joined *j, const PlanKernel *k, uint32_t i)
{
    uint32_t first = 0; // argument with this piece
    while (k->args.data[first].buf != k->args.data[i].buf)
        first++;
    const uint64_t at = rows_scratch_bytes(j->plan, k, first);
    PlanArg a = k->args.data[i];
    a.buf = j->common;
    a.byte_offset += at;
    a.begin += at;
    a.end += at;
    return param_for(j, &a, &k->kernel->params.data[i]);
}

static bool lies_in_result(const Joined *j, uint32_t stage)
{
    const RowHeld *h = &j->g->held[stage];
    return h->is_lent && !j->g->held[h->lender].is_inner;
}

// The parameter for rows that lie in a result for a while. It is not the result's own one, which is only
// written and so may lie over what the group reads.
static uint32_t lent_param(Joined *j, uint32_t stage, const KParam *like)
{
    KParam p = *like;
    if (j->lent[stage] != 0) {
        rlx_assert(j->to->params.data[j->lent[stage] - 1].dtype == like->dtype);
        return j->lent[stage] - 1;
    }
    p.is_read = p.is_written = true;
    const uint64_t bytes = j->plan->buffers.data[j->buf[stage]].bytes;
    const PlanArg a = {.buf = j->buf[stage], .end = bytes, .is_read = true, .is_written = true};
    const uint32_t param = push_param(j, &a, &p);
    j->lent[stage] = param + 1;
    return param;
}

// A value that is there as a whole. What a stage of the group makes is nothing that the group reads from
// before, though a later stage may read it by words.
static uint32_t value_param(Joined *j, const PlanArg *arg, const KParam *param)
{
    PlanArg a = *arg;
    KParam p = *param;
    for (uint32_t i = 0; i < j->g->n; i++)
        a.is_written = p.is_written = a.is_written || j->g->stage[i]->out == a.buf;
    return param_for(j, &a, &p);
}

// The parameter of the joined kernel for parameter i of a stage; *window: the stage whose rows it has. A sum
// has scratch memory of its own.
static uint32_t param_of(Joined *j, uint32_t stage, uint32_t i, uint32_t *window)
{
    const PlanKernel *k = j->g->stage[stage]->kernel;
    const bool is_sum = j->g->stage[stage]->is_sum;
    const PlanArg *a = &k->args.data[i];
    const KParam *p = &k->kernel->params.data[i];
    *window = window_of(j, a->buf);
    if (*window != UINT32_MAX && lies_in_result(j, *window))
        return lent_param(j, *window, p);
    if (*window != UINT32_MAX)
        return own_param(j, j->buf[*window], p, p->dtype);
    return rows_is_scratch(j->plan, k, a) && !is_sum ? scratch_param(j, k, i) : value_param(j, a, p);
}

// --- rows ----------------------------------------------------------------------------------------

// rows_made and rows_lowest, of a tick that is `after` ticks after the one of the loop.
static KRef made_at(Joined *j, uint32_t stage, int64_t after)
{
    const RowGroup *g = j->g;
    return k_expr(j->to, "min(max(($ + #) / #, 0), #)", j->tick, after + 1 - g->delay[stage], g->every[stage],
                  g->stage[stage]->rows);
}

static KRef lowest_at(Joined *j, uint32_t stage, int64_t after)
{
    KRef lowest = made_at(j, stage, after - 1);
    for (uint32_t i = 0; i < j->g->links.len; i++) {
        const RowLink *l = &j->g->links.data[i];
        if (l->maker == stage)
            lowest = k_expr(j->to, "min($, $ * # - #)", lowest, made_at(j, l->reader, after - 1), l->step,
                            l->below);
    }
    return k_expr(j->to, "max($, 0)", lowest);
}

// Rows that are needed again go to the begin of the window, by words where they are bytes.
static void move_rows(Joined *j, uint32_t stage, const KParam *like)
{
    Kernel *k = j->to;
    const int64_t pitch = j->g->stage[stage]->pitch, bytes = dtype_info[like->dtype].bytes;
    const bool has_words = bytes == 1 && pitch % WORD == 0;
    const int64_t each = pitch / (has_words ? WORD : bytes);
    const uint32_t param = own_param(j, j->buf[stage], like, has_words ? DTYPE_i32 : like->dtype);
    const KRef lowest = lowest_at(j, stage, 0), before = lowest_at(j, stage, -1);
    const KRef by = k_expr(k, "($ - $) * #", lowest, before, each);
    const KRef n = k_expr(k, "($ - $) * #", made_at(j, stage, -1), lowest, each);
    k_if(k, k_expr(k, "0 < $", by));
    const int64_t step = each % MOVED == 0 ? MOVED : 1;
    KRef v[MOVED];
    const KRef e = k_for(k, k_index(k, 0), n, step, KFOR_SERIAL, "e");
    for (int64_t i = 0; i < step; i++)
        v[i] = k_load(k, param, k_expr(k, "$ + $ + #", e, by, i), 1, 1);
    for (int64_t i = 0; i < step; i++)
        k_store(k, param, k_expr(k, "$ + #", e, i), v[i], 1);
    k_ends(k, 2);
}

// The parameter of the stage's kernel for its result.
static const KParam *result_param(const Joined *j, uint32_t stage)
{
    const PlanKernel *k = j->g->stage[stage]->kernel;
    for (uint32_t i = 0; i < k->args.len; i++)
        if (k->args.data[i].buf == j->g->stage[stage]->out)
            return &k->kernel->params.data[i];
    diag_bug(__FILE__, __LINE__, "a stage without a result");
}

// --- stages --------------------------------------------------------------------------------------

// One stage of the group while it is copied.
typedef struct Copy {
    Joined *j;
    const Kernel *from;
    uint32_t stage;
    KRef *map;        // by instruction
    uint32_t *param;  // by parameter
    uint32_t *window; // by parameter: the stage whose rows it has
    int64_t *given;   // by parameter: elements of a row that the program gives; 0: it does not
} Copy;

static bool names_param(uint8_t kind)
{
    return kkind_info[kind].param != KPARAM_NO;
}

// Elements of a value are counted from the lowest row in its window on, or from the part that is there.
static KRef index_in_window(Copy *c, uint32_t param, KRef index)
{
    Joined *j = c->j;
    const uint32_t window = c->window[param];
    const int64_t bytes = dtype_info[c->from->params.data[param].dtype].bytes;
    if (c->given[param] != 0)
        return k_expr(j->to, "$ - $ * #", index, k_since(j->to), c->given[param]);
    if (window == UINT32_MAX)
        return index;
    const int64_t row = j->g->stage[window]->pitch / bytes, parts = j->g->held[window].parts;
    const KRef from = k_expr(j->to, "$ - $ * #", index, j->lowest[window], row);
    return parts > 1 ? k_expr(j->to, "$ - $ * #", from, j->part, row / parts) : from;
}

static void copy_inst(Copy *c, KRef r)
{
    KInst n = *k_inst(c->from, r);
    n.a = c->map[n.a];
    n.b = c->map[n.b];
    n.c = c->map[n.c];
    if (names_param(n.kind)) {
        KRef *index = n.kind == KI_store ? &n.b : &n.a;
        *index = index_in_window(c, (uint32_t)n.imm, *index);
        n.imm = c->param[n.imm];
    }
    n.flags = n.kind == KI_for && (n.flags == KFOR_PARALLEL || n.flags == KFOR_TURNS) ? KFOR_SERIAL : n.flags;
    c->map[r] = k_append(c->j->to, &n);
}

// In which the stage makes a row, where it takes turns with the one before or behind it.
static int64_t parts_of(const RowGroup *g, uint32_t stage)
{
    const int64_t own = g->held[stage].parts;
    return own == 1 && stage != 0 ? g->held[stage - 1].parts : own;
}

static void copy_loop(Copy *c, KRef r)
{
    Joined *j = c->j;
    const RowStage *s = j->g->stage[c->stage];
    const KInst *n = k_inst(c->from, r);
    const int64_t parts = parts_of(j->g, c->stage);
    const KRef lo = k_expr(j->to, "$ * # + #", made_at(j, c->stage, -1), s->span, s->first);
    const KRef hi = k_expr(j->to, "$ * # + #", made_at(j, c->stage, 0), s->span, s->first);
    if (parts == 1) {
        c->map[r] = k_for(j->to, lo, hi, n->imm, KFOR_SERIAL, n->text);
        return;
    }
    const KRef from = k_expr(j->to, "$ + $ * #", lo, j->part, s->span / parts);
    const KRef until = k_expr(j->to, "$ + #", from, s->span / parts);
    c->map[r] = k_for(j->to, from, until, n->imm, KFOR_SERIAL, n->text);
}

// Of a row of an input that the program gives row by row; 0: the argument is another value.
static int64_t given_elements(const Joined *j, uint32_t stage, uint32_t arg)
{
    const PlanKernel *k = j->g->stage[stage]->kernel;
    const PlanBuffer *b = &j->plan->buffers.data[k->args.data[arg].buf];
    const int64_t bytes = dtype_info[k->kernel->params.data[arg].dtype].bytes;
    return b->region == REGION_ROWS ? (int64_t)b->bytes / j->g->stage[stage]->rows / bytes : 0;
}

static void copy_stage(Joined *j, uint32_t stage)
{
    const PlanKernel *k = j->g->stage[stage]->kernel;
    Copy c = {.j = j, .from = k->kernel, .stage = stage};
    c.map = ARENA_ARRAY(j->scratch, KRef, c.from->insts.len);
    c.param = ARENA_ARRAY(j->scratch, uint32_t, k->args.len);
    c.window = ARENA_ARRAY(j->scratch, uint32_t, k->args.len);
    c.given = ARENA_ARRAY(j->scratch, int64_t, k->args.len);
    for (uint32_t i = 0; i < k->args.len; i++) {
        c.param[i] = param_of(j, stage, i, &c.window[i]);
        c.given[i] = given_elements(j, stage, i);
    }
    for (KRef r = 1; r < c.from->insts.len; r++)
        if (j->g->stage[stage]->loops[r])
            copy_loop(&c, r);
        else
            copy_inst(&c, r);
}

// --- the kernel ----------------------------------------------------------------------------------

// A stage, with those behind it that make parts of a row in turns with it. Returns the next one.
static uint32_t emit_parts(Joined *j, uint32_t first)
{
    const int64_t parts = j->g->held[first].parts;
    uint32_t last = first;
    while (j->g->held[last].parts > 1)
        last++;
    rlx_assert(last < j->g->n);
    if (parts > 1) {
        const KRef due = k_sub(j->to, made_at(j, first, 0), made_at(j, first, -1));
        const KRef n = k_expr(j->to, "$ * #", due, parts);
        j->part = k_for(j->to, k_index(j->to, 0), n, 1, KFOR_SERIAL, "part");
    }
    for (uint32_t i = first; i <= last; i++)
        copy_stage(j, i);
    if (parts > 1)
        k_end(j->to);
    return last + 1;
}

static void emit(Joined *j)
{
    const RowGroup *g = j->g;
    j->tick = k_loop(j->to, g->ticks, g->is_given ? KFOR_GIVEN : KFOR_SERIAL, "tick");
    for (uint32_t i = 0; i < g->n; i++)
        if (g->held[i].is_inner && g->held[i].has_moves)
            move_rows(j, i, result_param(j, i));
    for (uint32_t i = 0; i < g->n; i++) {
        const uint32_t holder = g->held[i].is_lent ? g->held[i].lender : i;
        if (g->held[i].is_inner)
            j->lowest[i] = g->held[holder].is_inner ? lowest_at(j, holder, 0) : k_index(j->to, 0);
    }
    for (uint32_t i = 0; i < g->n;)
        i = emit_parts(j, i);
    k_end(j->to);
}

// What the plan says about the kernel: the sum of what it says about all.
static void add_facts(Joined *j)
{
    const RowGroup *g = j->g;
    const PlanKernel *last = g->stage[g->n - 1]->kernel;
    PlanKernel *pk = j->pk;
    pk->root = last->root;
    pk->anchor = last->anchor;
    pk->is_joined = true;
    pk->schedule = arena_printf(j->plan->arena, "rows of %u kernels in turns", g->n);
    for (uint32_t i = 0; i < g->n; i++) {
        const PlanKernel *k = g->stage[i]->kernel;
        for (uint32_t b = 0; b < k->body.len; b++)
            vec_push(j->plan->arena, &pk->body, k->body.data[b]);
        pk->flops += k->flops;
        pk->macs += k->macs;
        pk->again += k->again;
        pk->read_bytes += k->read_bytes;
        pk->write_bytes += k->write_bytes;
        j->to->comment = i == 0 ? k->kernel->comment
                                : arena_printf(j->to->arena, "%s; %s", j->to->comment, k->kernel->comment);
    }
}

void rows_join(Plan *p, const RowGroup *g, Arena *scratch)
{
    rlx_assert((g->span >= 2 || g->is_given) && g->first + g->span <= p->kernels.len);
    PlanKernel pk = {0};
    const Kernel *first = g->stage[0]->kernel->kernel;
    Joined j = {.plan = p, .g = g, .scratch = scratch, .pk = &pk};
    j.to = pk.kernel = kernel_new(first->arena, first->name);
    j.to->may_alias = true; // stages share scratch memory, and windows are moved by words
    add_windows(&j);
    emit(&j);
    add_facts(&j);
    const char *wrong = kernel_verify(j.to);
    if (wrong != NULL)
        diag_bug(j.to->name, (int)g->first, wrong);
    p->kernels.data[g->first] = pk;
    for (uint32_t i = g->first + 1; i + g->span - 1 < p->kernels.len; i++)
        p->kernels.data[i] = p->kernels.data[i + g->span - 1];
    p->kernels.len -= g->span - 1;
}
