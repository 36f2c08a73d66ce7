// SPDX-License-Identifier: Apache-2.0
// Lowers kernels of several stages: the loops over chunks and strips, which rows each stage makes, and the
// moving of rows that the next strip needs again. The stages themselves are the schedules of their anchors,
// kept to a window of rows. See strip.h.
#include "passes/lower/strip.h"

typedef struct StripLower {
    Lower *l;
    Strip s;
    int64_t chunk; // rows of the result that a thread makes
    KRef image;
    HeldRows held[STRIP_MAX_STAGES];
    KRef scratch[STRIP_MAX_STAGES]; // index of this thread's scratch memory
    KRef done[STRIP_MAX_STAGES];    // variable: the rows below it are made, or are not needed
    KRef first[STRIP_MAX_STAGES];   // variable: the row at the beginning of the scratch memory
    KRef lo[STRIP_MAX_STAGES], hi[STRIP_MAX_STAGES]; // to be made for the strip
    KRef from[STRIP_MAX_STAGES];                     // the lowest row that the next stage reads for the strip
} StripLower;

// The lowest input row that output row `row` of a stage reads, inside the image.
static KRef lowest_input(Kernel *k, const StripStage *t, KRef row)
{
    const KRef at = k_expr(k, "$ * # + #", row, t->stride, -t->pad);
    return k_expr(k, "min(max($, 0), #)", at, t->in_rows);
}

// Behind the highest input row that the output rows below `end` read.
static KRef input_end(Kernel *k, const StripStage *t, KRef end)
{
    const int64_t reach = (t->kernel - 1) * t->dilation + 1 - t->stride - t->pad;
    const KRef at = k_expr(k, "$ * # + #", end, t->stride, reach);
    return k_expr(k, "min(max($, 0), #)", at, t->in_rows);
}

static bool has_overlap(const StripLower *s, uint32_t i)
{
    return strip_has_overlap(&s->s, i);
}

// The lowest row of a stage that the next one reads for its rows from `row` on, or the even one before it.
static KRef lowest_row(const StripLower *s, uint32_t i, KRef row)
{
    Kernel *k = s->l->k;
    const KRef lowest = lowest_input(k, &s->s.stage[i + 1], row);
    if (!s->s.has_even_rows[i] || !has_overlap(s, i))
        return lowest;
    return k_expr(k, "$ - $ % 2", lowest, lowest);
}

// Behind the highest row of a stage that the next one reads for its rows below `end`, or the even one after.
static KRef end_of_rows(const StripLower *s, uint32_t i, KRef end)
{
    Kernel *k = s->l->k;
    const KRef highest = input_end(k, &s->s.stage[i + 1], end);
    if (!s->s.has_even_rows[i] || !has_overlap(s, i))
        return highest;
    return k_expr(k, "$ + $ % 2", highest, highest);
}

// Before the first strip of a chunk: what lies below the rows that it needs counts as made.
static void begin_chunk(StripLower *s, KRef row)
{
    Kernel *k = s->l->k;
    for (uint32_t i = s->s.n - 1; i-- > 0;) {
        row = lowest_row(s, i, row);
        if (!has_overlap(s, i))
            continue;
        s->done[i] = k_var(k, row, "done");
        s->first[i] = k_var(k, row, "first");
    }
}

static void find_rows(StripLower *s, KRef row, KRef end)
{
    Kernel *k = s->l->k;
    const uint32_t last = s->s.n - 1;
    s->lo[last] = row;
    s->hi[last] = end;
    for (uint32_t i = last; i-- > 0;) {
        s->from[i] = lowest_row(s, i, s->lo[i + 1]);
        s->lo[i] = has_overlap(s, i) ? k_max(k, k_get(k, s->done[i]), s->from[i]) : s->from[i];
        s->hi[i] = k_max(k, end_of_rows(s, i, s->hi[i + 1]), s->lo[i]);
    }
}

// Rows from[i] to done[i] go to the front, from the lowest on: they move downwards.
static void move_rows(StripLower *s, uint32_t i)
{
    Kernel *k = s->l->k;
    const int64_t pitch = s->s.stage[i].pitch, lanes = s->l->caps->f32_lanes,
                  width = pitch % lanes == 0 ? lanes : 1;
    const uint32_t param = s->held[i].param;
    const KRef left = k_sub(k, k_get(k, s->done[i]), s->from[i]);
    const KRef n = k_expr(k, "max($, 0) * #", left, pitch);
    const KRef gone = k_sub(k, s->from[i], k_get(k, s->first[i]));
    const KRef source = k_expr(k, "$ * # + $", gone, pitch, s->scratch[i]);
    const KRef e = k_for(k, k_index(k, 0), n, width, KFOR_SERIAL, "e");
    const KRef v = k_load(k, param, k_add(k, source, e), (uint8_t)width, (uint8_t)width);
    k_store(k, param, k_add(k, s->scratch[i], e), v, (uint8_t)width);
    k_end(k);
    k_set(k, s->done[i], s->hi[i]);
    k_set(k, s->first[i], s->from[i]);
}

static void keep_rows(StripLower *s, uint32_t i)
{
    Kernel *k = s->l->k;
    if (has_overlap(s, i))
        move_rows(s, i);
    s->held[i].base = k_expr(k, "$ - $ * #", s->scratch[i], s->from[i], s->s.stage[i].pitch);
}

static void emit_stage(StripLower *s, uint32_t i)
{
    const PlanStage *stage = &s->l->pk->stages.data[i];
    const RowWindow window = {.image = s->image,
                              .lo = s->lo[i],
                              .hi = s->hi[i],
                              .rows = s->s.max_rows[i],
                              .is_even = s->s.has_even_rows[i]};
    Lower l = *s->l;
    PlanKernel *pk = l.pk;
    const PlanKernel whole = *pk;
    l.root = stage->root;
    l.anchor = stage->anchor;
    l.strip.window = &window;
    l.strip.held = s->held;
    l.strip.n_held = s->s.n - 1;
    pk->body.data = stage->body.data;
    pk->body.len = stage->body.len;
    lower_anchor(&l);
    pk->body = whole.body;
}

static void emit_strip(StripLower *s, KRef row, KRef end)
{
    find_rows(s, row, end);
    for (uint32_t i = 0; i + 1 < s->s.n; i++)
        keep_rows(s, i);
    for (uint32_t i = 0; i < s->s.n; i++)
        emit_stage(s, i);
}

static void emit_chunk(StripLower *s, KRef row, KRef end)
{
    Kernel *k = s->l->k;
    begin_chunk(s, row);
    const KRef at = k_for(k, row, end, s->s.rows, KFOR_SERIAL, "strip");
    const KRef stop = k_expr(k, "$ + #", at, s->s.rows);
    emit_strip(s, at,
               s->chunk % s->s.rows == 0 && s->s.stage[s->s.n - 1].rows % s->s.rows == 0
                   ? stop
                   : k_min(k, stop, end));
    k_end(k);
}

// Threads get as many chunks as they are, where images are too few; else an image is one.
static int64_t chunk_rows(const Lower *l, const Strip *s, int64_t images)
{
    const int64_t rows = s->stage[s->n - 1].rows;
    const int64_t threads = l->caps->threads > 1 && images < l->caps->threads ? l->caps->threads : 1;
    const int64_t share = ceil_div(rows, threads);
    return ceil_div(share, 2) * 2 < rows ? ceil_div(share, 2) * 2 : rows;
}

static Strip strip_of(const Lower *l)
{
    const PlanKernel *pk = l->pk;
    Strip s = {.n = pk->stages.len, .rows = pk->strip_rows};
    for (uint32_t i = 0; i < s.n; i++) {
        const bool is_stage =
            strip_stage(l->g, l->caps, pk->stages.data[i].anchor, pk->stages.data[i].root, &s.stage[i]);
        rlx_assert(is_stage);
    }
    strip_count_rows(&s);
    return s;
}

// Scratch memory for the strip of a stage, and the strides with which the stages find their elements there.
static void add_scratch(StripLower *s, uint32_t i)
{
    Lower *l = s->l;
    const StripStage *t = &s->s.stage[i];
    Loc *loc = &l->plan->locs.data[t->root];
    *loc = (Loc){.buf = 0};
    loc->stride[1] = 1;
    loc->stride[2] = t->pitch;
    loc->stride[3] = t->pixel_pitch;
    s->held[i].id = t->root;
    s->held[i].param = lower_param_thread_scratch(l, node_name(l->g, t->root), DTYPE_f32,
                                                  (uint64_t)(s->s.max_rows[i] * t->pitch), &s->scratch[i]);
}

void strip_lower(Lower *l)
{
    Kernel *k = l->k;
    StripLower s = {.l = l, .s = strip_of(l)};
    const int64_t images = lower_node(l, l->root)->shape->dim[0], rows = s.s.stage[s.s.n - 1].rows;
    const LiveRef live = live_bound(l->plan, l->root, 0);
    s.chunk = chunk_rows(l, &s.s, images);
    rlx_assert(s.chunk >= 1 && s.s.rows >= 1 && s.s.n == l->pk->stages.len);
    for (uint32_t i = 0; i + 1 < s.s.n; i++)
        add_scratch(&s, i);
    s.image = k_index(k, 0);
    if (images > 1)
        s.image = k_for(k, s.image, lower_live(l, &live, images), 1, KFOR_PARALLEL, "n");
    KRef row = k_index(k, 0), end = k_index(k, rows);
    const bool has_chunks = s.chunk < rows;
    if (has_chunks) {
        row = k_for(k, row, end, s.chunk, KFOR_PARALLEL, "chunk");
        end = k_expr(k, "min($ + #, $)", row, s.chunk, end);
    }
    const KRef inside = k->insts.len;
    emit_chunk(&s, row, end);
    for (KRef r = inside; r < k->insts.len; r++) // what a stage makes is the thread's own
        if (k->insts.data[r].kind == KI_for && k->insts.data[r].flags == KFOR_PARALLEL)
            k->insts.data[r].flags = KFOR_SERIAL;
    k_ends(k, (images > 1 ? 1u : 0u) + (has_chunks ? 1u : 0u));
}
