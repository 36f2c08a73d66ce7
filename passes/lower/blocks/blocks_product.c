// SPDX-License-Identifier: Apache-2.0
// Products with blocks for vectors of columns, with packed weights. A few rows: weights become floats in
// registers, where all rows meet them. Many rows: panels of weights are decoded once into a thread's scratch
// memory, and tiles of rows read these (gemm.h). Experts: every row by itself. Accumulation: fused
// multiply-adds of decoded elements in rising k either way, so all give the same bits, those of a product
// with the decoded matrix.
#include "passes/lower/blocks/blocks_product.h"
#include "passes/lower/product/gemm.h"
#include "passes/lower/operand.h"

// --- rows ----------------------------------------------------------------------------------------

// Are rows of x f32 elements that lie `inner` apart?
static bool has_plain_rows(const Lower *l, const BlockProduct *p)
{
    const Shape *s = lower_node(l, p->x)->shape;
    int64_t stride = 1;
    for (uint32_t i = s->rank; i-- > 0; stride *= s->dim[i])
        if (s->dim[i] > 1 && lower_loc(l, p->x)->stride[i] != stride)
            return false;
    return lower_node(l, p->x)->dtype == DTYPE_f32;
}

static void find_rows(Lower *l, BlockProduct *p)
{
    Kernel *k = l->k;
    const Shape *s = lower_node(l, p->x)->shape;
    const uint32_t last = s->rank - 1;
    p->x_base = k_index(k, 0);
    if (has_plain_rows(l, p)) {
        p->x_rows = lower_param(l, p->x, PARAM_READ);
        p->x_base = lower_base(l, p->x);
        return;
    }
    p->x_rows = lower_param_scratch(l, "rows", DTYPE_f32, (uint64_t)(p->rows * p->inner));
    Domain d = domain_of(s);
    domain_trim(l, &d, p->x);
    Point at = {.lanes = 1, .count = 1};
    const uint32_t opened = lower_open(l, &d, last, &at);
    KRef row = k_index(k, 0);
    for (uint32_t i = 0; i < last; i++)
        row = k_expr(k, "$ * # + $", row, s->dim[i], at.idx[i]);
    at.idx[last] = k_loop(k, p->inner, KFOR_SERIAL, "k");
    const KRef v = operand_scalar(l, p->x, operand_index(l, p->x, at.idx), DTYPE_f32);
    k_store(k, p->x_rows, k_expr(k, "$ * # + $", row, p->inner, at.idx[last]), v, 1);
    k_end(k);
    lower_close(l, opened);
    k_barrier(k);
}

void block_product_row(Lower *l, const BlockProduct *p, KRef row, KRef *idx)
{
    rlx_assert(p->d.rank >= 1 && row != 0);
    Kernel *k = l->k;
    for (uint32_t i = p->d.rank - 1; i-- > 0;) {
        const KRef extent = k_index(k, p->d.extent[i]);
        idx[i] = i > 0 ? k_rem(k, row, extent) : row;
        row = k_div(k, row, extent);
    }
}

void block_product_store(Lower *l, const BlockProduct *p, KRef row, KRef column, uint8_t count, KRef value)
{
    rlx_assert(count >= 1 && count <= p->packed.lanes);
    Kernel *k = l->k;
    const uint32_t last = p->d.rank - 1;
    Point at = {.vec_axis = last, .lanes = p->packed.lanes, .count = count};
    block_product_row(l, p, row, at.idx);
    at.idx[last] = column;
    if (p->stored)
        k_if(k, k_expr(k, "$ <= $", p->stored, row));
    pull_store_root(l, &p->d, at, k_cast(k, value, lower_node(l, l->anchor)->dtype));
    if (p->stored)
        k_end(k);
}

KRef block_product_tile(Lower *l, BlockProduct *p, KRef tile, int64_t rows)
{
    rlx_assert(rows >= 1 && rows <= p->rows);
    Kernel *k = l->k;
    const KRef begin = k_expr(k, "$ * #", tile, rows);
    p->stored = p->rows % rows != 0 ? begin : 0;
    return k_expr(k, "min($, #)", begin, p->rows - rows);
}

// --- few rows ------------------------------------------------------------------------------------

PackedUnit block_product_unit(Lower *l, const BlockColumns *c, int64_t v, KRef block, KRef unit, int64_t turn)
{
    rlx_assert(v >= 0 && v < c->n && block != 0 && turn >= 0);
    const PackedPlace at = {.record = k_add(l->k, c->records, block), .vector = k_index(l->k, v)};
    return (PackedUnit){.at = at, .unit = unit, .turn = turn};
}

// One unit of 32 elements: number `unit` of block `block`.
static void add_unit(Lower *l, const BlockProduct *p, const BlockColumns *c, KRef block, KRef unit,
                     int64_t turn)
{
    Kernel *k = l->k;
    const PackedBlocks *b = &p->packed;
    KRef words[BLOCK_VECTORS][BLOCK_MAX_WORDS];
    PackedUnit u[BLOCK_VECTORS];
    PackedGroup group[BLOCK_VECTORS] = {0};
    const KRef first = k_expr(k, "($ * # + $) * #", block, b->units, unit, BLOCK_UNIT);
    for (int64_t v = 0; v < c->n; v++) {
        u[v] = block_product_unit(l, c, v, block, unit, turn);
        blocks_packed_words(k, b, &u[v], words[v]);
    }
    for (int64_t i = 0; i < BLOCK_UNIT; i++) {
        for (int64_t v = 0; v < c->n; v++)
            if (i == group[v].end)
                group[v] = blocks_packed_group(k, b, &c->numbers[v], &u[v], i);
        for (int64_t v = 0; v < c->n; v++) {
            const KRef value = blocks_packed_value(k, b, words[v], &group[v], i);
            for (int64_t r = 0; r < p->rows; r++) {
                const KRef at = k_expr(k, "$ + $ + #", p->x_base, first, r * p->inner + i);
                const KRef x = k_splat(k, k_load(k, p->x_rows, at, 1, 1), b->lanes);
                const KRef acc = c->acc[v * BLOCK_MAX_ROWS + r];
                k_set(k, acc, k_fma(k, x, value, k_get(k, acc)));
            }
        }
    }
}

// The row of the result that is computed as number r.
static KRef row_of(Lower *l, const BlockProduct *p, int64_t r)
{
    return p->index ? p->row : k_index(l->k, r);
}

// Fetches what a unit reads some records later, a share of the lines of a record.
static void fetch_ahead(Lower *l, const BlockProduct *p, KRef record, KRef unit)
{
    Kernel *k = l->k;
    const PackedBlocks *b = &p->packed;
    const int64_t ahead = l->caps->cpu.ahead_bytes, word = 4, share = b->record / b->units;
    if (ahead == 0 || l->constant_bytes <= l->caps->cpu.l2_bytes)
        return;
    const KRef first = k_expr(k, "$ * # + $ * #", record, b->record / word, unit, share / word);
    for (int64_t i = 0; i < share; i += CACHE_LINE)
        k_prefetch(k, b->param[BLOCK_WORDS], k_expr(k, "$ + #", first, (ahead + i) / word));
}

// All rows of the columns of a record, of which `real` exist, from number `first` of the records on.
static void emit_columns(Lower *l, const BlockProduct *p, KRef first, int64_t real)
{
    Kernel *k = l->k;
    const PackedBlocks *b = &p->packed;
    BlockColumns c = {.records = k_expr(k, "$ * #", first, b->blocks), .n = ceil_div(real, b->lanes)};
    const KRef zero = k_splat(k, k_number(k, DTYPE_f32, 0), b->lanes);
    for (int64_t v = 0; v < c.n; v++)
        for (int64_t r = 0; r < p->rows; r++)
            c.acc[v * BLOCK_MAX_ROWS + r] = k_var(k, zero, "acc");
    const KRef block = k_loop(k, b->blocks, KFOR_SERIAL, "b");
    for (int64_t v = 0; v < c.n; v++)
        c.numbers[v] = blocks_packed_numbers(
            k, b, &(PackedPlace){.record = k_add(k, c.records, block), .vector = k_index(k, v)});
    for (int64_t turn = 0; turn < blocks_packed_turns(b); turn++) {
        const KRef unit = blocks_packed_open(k, b, turn);
        fetch_ahead(l, p, k_add(k, c.records, block), unit);
        (p->n_digits ? block_digits_add : add_unit)(l, p, &c, block, unit, turn);
        blocks_packed_close(k, b);
    }
    k_end(k);
    for (int64_t v = 0; v < c.n; v++) {
        const int64_t left = real - v * b->lanes;
        KRef column = k_expr(k, "$ * # + #", first, b->beside * b->lanes, v * b->lanes);
        if (p->column)
            column = k_sub(k, column, p->column);
        for (int64_t r = 0; r < p->rows; r++)
            block_product_store(l, p, row_of(l, p, r), column,
                                (uint8_t)(left < b->lanes ? left : b->lanes),
                                k_get(k, c.acc[v * BLOCK_MAX_ROWS + r]));
    }
}

// Emits the product with a record, of which `real` columns are there.
typedef void EmitRecord(Lower *l, const BlockProduct *p, KRef record, int64_t real);

static void emit_records(Lower *l, const BlockProduct *p, EmitRecord *emit)
{
    Kernel *k = l->k;
    const int64_t wide = p->packed.lanes * p->packed.beside, whole = p->columns / wide;
    if (whole > 0) {
        emit(l, p, k_loop(k, whole, KFOR_PARALLEL, "v"), wide);
        k_end(k);
    }
    if (p->columns % wide)
        emit(l, p, k_index(k, whole), p->columns % wide);
}

// --- experts -------------------------------------------------------------------------------------

// Are the packed weights those of a layer?
static bool is_placed(const Lower *l, const BlockProduct *p)
{
    return p->of.is_layer && node_is_const(l->g, p->w);
}

// Every row of the result by itself: its expert's matrix is a part of the columns that are packed, or lies
// where the host has put it.
static void emit_experts(Lower *l, const BlockProduct *p)
{
    Kernel *k = l->k;
    BlockProduct one = *p;
    const uint32_t last = p->d.rank - 1;
    const int64_t lanes = p->packed.lanes, wide = lanes * p->packed.beside;
    KRef idx[SHAPE_MAX_RANK] = {0};
    const int64_t rows = p->columns > 0 ? shape_numel(lower_node(l, l->anchor)->shape) / p->columns : 0,
                  records = p->columns / wide;
    one.row = k_loop(k, rows, KFOR_PARALLEL, "r");
    const KRef v = k_loop(k, records, KFOR_PARALLEL, "v");
    block_product_row(l, p, one.row, idx);
    const KRef e = block_expert(l, p, idx);
    k_if(k, block_is_expert(k, e, p->experts));
    one.rows = 1;
    if (is_placed(l, p))
        blocks_packed_point(k, &p->packed, e);
    else
        one.column = k_expr(k, "$ * #", e, p->columns);
    const KRef from = k_expr(k, "$ / #", one.row, rows / p->rows);
    one.x_base = k_expr(k, "$ * # + $", from, p->inner, p->x_base);
    emit_columns(l, &one, is_placed(l, p) ? v : k_expr(k, "$ * # + $", e, records, v), wide);
    k_else(k);
    Point at = {.vec_axis = last, .lanes = (uint8_t)lanes, .count = (uint8_t)lanes};
    block_product_row(l, p, one.row, at.idx);
    const KRef zero = k_splat(k, k_number(k, lower_node(l, l->anchor)->dtype, 0), (uint8_t)lanes);
    for (int64_t i = 0; i < wide; i += lanes) {
        at.idx[last] = k_expr(k, "$ * # + #", v, wide, i);
        pull_store_root(l, &p->d, at, zero);
    }
    k_ends(k, 3);
}

// --- many rows -----------------------------------------------------------------------------------

// One unit of a vector, to index `to` of the panel, elements `width` apart.
static void decode_unit(const Gemm *g, const PackedBlocks *b, const PackedNumbers *numbers,
                        const PackedUnit *u, KRef to, int64_t width)
{
    Kernel *k = g->l->k;
    KRef words[BLOCK_MAX_WORDS];
    PackedGroup group = {0};
    blocks_packed_words(k, b, u, words);
    for (int64_t e = 0; e < BLOCK_UNIT; e++) {
        if (e == group.end)
            group = blocks_packed_group(k, b, numbers, u, e);
        k_store(k, g->panel, k_expr(k, "$ + #", to, e * width), blocks_packed_value(k, b, words, &group, e),
                b->lanes);
    }
}

// Some steps of a panel of `n` vectors of columns from `column` on, in rising k.
static void decode_panel(const Gemm *g, KRef column, int64_t n, KRef first, void *product)
{
    const BlockProduct *p = product;
    const PackedBlocks *b = &p->packed;
    Kernel *k = g->l->k;
    const int64_t width = n * b->lanes;
    const KRef i = k_loop(k, n, KFOR_SERIAL, "v");
    const KRef vector = k_expr(k, "$ / # + $", column, b->lanes, i);
    const KRef top = k_expr(k, "$ / #", first, p->f->elements);
    const KRef done = k_loop(k, g->t.steps / p->f->elements, KFOR_SERIAL, "b");
    const KRef block = k_add(k, top, done);
    const PackedPlace at = blocks_packed_place(k, b, vector, block);
    const PackedNumbers numbers = blocks_packed_numbers(k, b, &at);
    for (int64_t turn = 0; turn < blocks_packed_turns(b); turn++) {
        const KRef unit = blocks_packed_open(k, b, turn);
        const PackedUnit u = {.at = at, .unit = unit, .turn = turn};
        const KRef step = k_expr(k, "($ * # + $) * #", done, b->units, unit, BLOCK_UNIT);
        const KRef to = k_expr(k, "$ * # + ($ * # + $)", step, width, i, b->lanes, g->panel_base);
        decode_unit(g, b, &numbers, &u, to, width);
        blocks_packed_close(k, b);
    }
    k_ends(k, 2);
}

static void store_tile(Lower *l, KRef row, KRef column, uint8_t lanes, uint8_t count, KRef value, void *ctx)
{
    rlx_assert(lanes == ((const BlockProduct *)ctx)->packed.lanes);
    block_product_store(l, ctx, row, column, count, value);
}

KRef block_product_live(Lower *l, const BlockProduct *p)
{
    for (uint32_t i = 0; i + 1 < p->d.rank; i++)
        if (p->d.live[i].size != 0 && p->d.extent[i] == p->rows)
            return lower_live(l, &p->d.live[i], p->rows);
    return 0;
}

static void emit_many_rows(Lower *l, BlockProduct *p)
{
    Gemm g = {.l = l,
              .m = p->rows,
              .n = p->columns,
              .k = p->inner,
              .a = p->x_rows,
              .a_base = p->x_base,
              .b_base = k_index(l->k, 0),
              .a_row = p->inner,
              .a_k = 1,
              .b_col = 1,
              .b_type = DTYPE_f16,
              .source = GEMM_WIDENED,
              .m_live = block_product_live(l, p),
              .widen = decode_panel,
              .widen_unit = p->f->elements,
              .store = store_tile,
              .ctx = p};
    gemm_choose(&g);
    rlx_assert(g.lanes == p->packed.lanes);
    gemm_emit(&g);
}

uint8_t block_product_lanes(const Lower *l, NodeId x, NodeId weight)
{
    const Shape *w = lower_node(l, weight)->shape;
    const int type = lower_node(l, x)->dtype;
    rlx_assert(w->rank >= 3);
    if (l->caps->is_gpu || !l->caps->packs_weights || (type != DTYPE_f32 && !k_is_half(type)))
        return 1;
    if (shape_numel(lower_node(l, x)->shape) == 0 || shape_numel(w) == 0 || !blocks_can_pack(l, weight))
        return 1;
    return gemm_lanes(l, w->dim[w->rank - 3]);
}

bool block_product_vectors(Lower *l, BlockProduct *p)
{
    rlx_assert(p->f != NULL && p->inner % p->f->elements == 0);
    const uint8_t lanes = block_product_lanes(l, p->x, p->w);
    if (lanes == 1 || domain_lanes(l, &p->d, p->d.rank - 1) == 1 || (p->index && p->columns % lanes != 0))
        return false;
    p->packed = blocks_pack(l, p->f, p->w, lanes, BLOCK_VECTORS, is_placed(l, p) ? &p->of : NULL);
    find_rows(l, p);
    if (p->index) {
        if (!block_matrix_experts(l, p))
            emit_experts(l, p);
        return true;
    }
    if (block_matrix_fit(l, p)) {
        block_matrix_emit(l, p);
        return true;
    }
    block_digits_choose(l, p);
    p->has_starts = block_rows_fit(l, p) && p->packed.bias != 0 && !p->f->min.sign;
    if (p->n_digits)
        block_digits_round(l, p, block_product_live(l, p));
    if (p->rows <= BLOCK_MAX_ROWS)
        emit_records(l, p, emit_columns);
    else if (block_rows_fit(l, p))
        emit_records(l, p, block_rows_emit);
    else
        emit_many_rows(l, p);
    return true;
}
