// SPDX-License-Identifier: Apache-2.0
// Products with blocks for vectors of columns, with packed weights. A few rows: weights become floats in
// registers, where all rows meet them. Many rows: panels of weights are decoded once into a thread's scratch
// memory, and tiles of rows read these (gemm.h). Experts: every row by itself. Accumulation: fused
// multiply-adds of decoded elements in rising k either way, so all give the same bits, those of a product
// with the decoded matrix.
#include "passes/lower/blocks/blocks_product.h"
#include "passes/lower/product/gemm.h"
#include "passes/lower/operand.h"

enum { AHEAD = 64 }; // words that are fetched ahead

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
    pull_store_root(l, &p->d, at, k_cast(k, value, lower_node(l, l->anchor)->dtype));
}

// --- few rows ------------------------------------------------------------------------------------

PackedUnit block_product_unit(Lower *l, const BlockProduct *p, KRef vector, KRef block, KRef unit,
                              int64_t turn)
{
    rlx_assert(vector != 0 && block != 0 && turn >= 0);
    const KRef row = k_expr(l->k, "$ * # + $", vector, p->packed.blocks, block);
    return (PackedUnit){.row = row, .unit = unit, .turn = turn};
}

static void prefetch_words(Lower *l, const PackedBlocks *b, const PackedUnit *u)
{
    Kernel *k = l->k;
    const int64_t each = b->low + b->high;
    const KRef place = k_expr(k, "$ * # + $", u->row, b->units, u->unit);
    for (int64_t i = 0; i < each; i++)
        k_prefetch(k, b->words, k_expr(k, "$ * # + #", place, each * b->lanes, (AHEAD + i) * b->lanes));
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
        u[v] = block_product_unit(l, p, k_expr(k, "$ + #", c->first, v), block, unit, turn);
        blocks_packed_words(k, b, &u[v], words[v]);
        prefetch_words(l, b, &u[v]);
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

// All rows of some vectors, of which the last has `count` columns.
static void emit_columns(Lower *l, const BlockProduct *p, KRef first, int64_t n, uint8_t count)
{
    Kernel *k = l->k;
    const PackedBlocks *b = &p->packed;
    BlockColumns c = {.first = first, .n = n};
    const KRef zero = k_splat(k, k_number(k, DTYPE_f32, 0), b->lanes);
    for (int64_t v = 0; v < n; v++)
        for (int64_t r = 0; r < p->rows; r++)
            c.acc[v * BLOCK_MAX_ROWS + r] = k_var(k, zero, "acc");
    const KRef block = k_loop(k, b->blocks, KFOR_SERIAL, "b");
    for (int64_t v = 0; v < n; v++)
        c.numbers[v] = blocks_packed_numbers(k, b, k_expr(k, "($ + #) * # + $", first, v, b->blocks, block));
    for (int64_t turn = 0; turn < blocks_packed_turns(b); turn++) {
        const KRef unit = blocks_packed_open(k, b, turn);
        (p->has_digits ? block_digits_add : add_unit)(l, p, &c, block, unit, turn);
        blocks_packed_close(k, b);
    }
    k_end(k);
    for (int64_t v = 0; v < n; v++) {
        KRef column = k_expr(k, "($ + #) * #", first, v, b->lanes);
        if (p->column)
            column = k_sub(k, column, p->column);
        for (int64_t r = 0; r < p->rows; r++)
            block_product_store(l, p, p->index ? p->row : k_index(k, r), column,
                                v + 1 == n ? count : b->lanes, k_get(k, c.acc[v * BLOCK_MAX_ROWS + r]));
    }
}

static void emit_few_rows(Lower *l, const BlockProduct *p)
{
    Kernel *k = l->k;
    const int64_t lanes = p->packed.lanes, whole = p->columns / lanes, rest = p->columns % lanes;
    const int64_t together = p->rows == 1 ? BLOCK_VECTORS : 1, groups = whole / together;
    if (groups > 0) {
        const KRef i = k_loop(k, groups, KFOR_PARALLEL, "v");
        emit_columns(l, p, k_expr(k, "$ * #", i, together), together, (uint8_t)lanes);
        k_end(k);
    }
    if (whole % together)
        emit_columns(l, p, k_index(k, whole - 1), 1, (uint8_t)lanes);
    if (rest)
        emit_columns(l, p, k_index(k, whole), 1, (uint8_t)rest);
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
    const uint8_t lanes = p->packed.lanes;
    KRef idx[SHAPE_MAX_RANK] = {0};
    const int64_t rows = p->columns > 0 ? shape_numel(lower_node(l, l->anchor)->shape) / p->columns : 0,
                  vectors = p->columns / lanes;
    one.row = k_loop(k, rows, KFOR_PARALLEL, "r");
    const KRef v = k_loop(k, vectors, KFOR_PARALLEL, "v");
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
    emit_columns(l, &one, is_placed(l, p) ? v : k_expr(k, "$ * # + $", e, vectors, v), 1, lanes);
    k_else(k);
    Point at = {.vec_axis = last, .lanes = lanes, .count = lanes};
    block_product_row(l, p, one.row, at.idx);
    at.idx[last] = k_expr(k, "$ * #", v, lanes);
    const KRef zero = k_number(k, lower_node(l, l->anchor)->dtype, 0);
    pull_store_root(l, &p->d, at, k_splat(k, zero, lanes));
    k_end(k);
    k_end(k);
    k_end(k);
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
    const PackedNumbers numbers =
        blocks_packed_numbers(k, b, k_expr(k, "$ * # + $", vector, b->blocks, block));
    for (int64_t turn = 0; turn < blocks_packed_turns(b); turn++) {
        const KRef unit = blocks_packed_open(k, b, turn);
        const PackedUnit u = block_product_unit(g->l, p, vector, block, unit, turn);
        const KRef step = k_expr(k, "($ * # + $) * #", done, b->units, unit, BLOCK_UNIT);
        const KRef to = k_expr(k, "$ * # + ($ * # + $)", step, width, i, b->lanes, g->panel_base);
        decode_unit(g, b, &numbers, &u, to, width);
        blocks_packed_close(k, b);
    }
    k_end(k);
    k_end(k);
}

static void store_tile(Lower *l, KRef row, KRef column, uint8_t lanes, uint8_t count, KRef value, void *ctx)
{
    rlx_assert(lanes == ((const BlockProduct *)ctx)->packed.lanes);
    block_product_store(l, ctx, row, column, count, value);
}

// The live rows, where they are those of a single axis.
static KRef live_rows(Lower *l, const BlockProduct *p)
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
              .m_live = live_rows(l, p),
              .widen = decode_panel,
              .widen_unit = p->f->elements,
              .store = store_tile,
              .ctx = p};
    gemm_choose(&g);
    rlx_assert(g.lanes == p->packed.lanes);
    gemm_emit(&g);
}

bool block_product_vectors(Lower *l, BlockProduct *p)
{
    rlx_assert(p->f != NULL && p->inner % p->f->elements == 0);
    const int type = lower_node(l, p->x)->dtype;
    if (l->caps->is_gpu || !l->caps->packs_weights || (type != DTYPE_f32 && !k_is_half(type)))
        return false;
    if (p->rows * p->inner * p->columns == 0 || !blocks_can_pack(l, p->w))
        return false;
    const uint8_t lanes = gemm_lanes(l, p->columns);
    if (lanes == 1 || domain_lanes(l, &p->d, p->d.rank - 1) == 1 || (p->index && p->columns % lanes != 0))
        return false;
    p->packed = blocks_pack(l, p->f, p->w, lanes, is_placed(l, p) ? &p->of : NULL);
    find_rows(l, p);
    if (p->index) {
        emit_experts(l, p);
        return true;
    }
    if (p->rows > BLOCK_MAX_ROWS) {
        emit_many_rows(l, p);
        return true;
    }
    p->has_digits = block_digits_apply(l, p);
    if (p->has_digits)
        block_digits_round(l, p);
    emit_few_rows(l, p);
    return true;
}
