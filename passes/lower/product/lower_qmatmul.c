// SPDX-License-Identifier: Apache-2.0
// qmatmul: products with weights of few bits. They stay packed in memory and become numbers in registers,
// where a few rows share them. For vectors, constant weights are rearranged into words, each with neighbours
// along the inner axis of one column, next to those of the other columns of a vector; all else is a plain sum
// per element. Accumulation: in rising k within a block, then the blocks in order, times their scales.
#include "passes/lower/halves.h"
#include "passes/lower/operand.h"
#include "passes/lower/product/qmatmul.h"

#include <string.h>

enum { MAX_ROWS = QMATMUL_MAX_ROWS };

static Product product_of(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    const Shape *x = lower_node(l, n->src[0])->shape, *w = lower_node(l, n->src[1])->shape;
    Product p = {.x = n->src[0],
                 .w = n->src[1],
                 .scale = n->src[2],
                 .zero = n->n_src > 3 ? n->src[3] : 0,
                 .inner = x->dim[x->rank - 1],
                 .columns = w->dim[0],
                 .blocks = w->dim[1],
                 .blob = w->dim[2],
                 .bits = node_get_int(n, A_qmatmul_bits),
                 .is_rounded = node_get_int(n, A_qmatmul_x_bits) == 8};
    p.per_byte = 8 / p.bits;
    p.block = p.blob * p.per_byte;
    return p;
}

// --- packing -------------------------------------------------------------------------------------

// What fills a packed buffer: words of weights, or the parameters of blocks, with as many columns as whole
// vectors have.
typedef struct RowPacking {
    const unsigned char *data;
    int64_t columns, each; // each: words or blocks of a column
    DType from, to;        // of one
    uint8_t lanes;
} RowPacking;

typedef struct PartPacking {
    RowPacking base;
    int64_t blob, bits;
} PartPacking;

// [vector][word or block][lane]
static void pack(const void *ctx, void *out)
{
    const RowPacking *p = ctx;
    unsigned char *to = out;
    for (int64_t first = 0; first < p->columns; first += p->lanes)
        for (int64_t i = 0; i < p->each; i++)
            for (int64_t lane = 0; lane < p->lanes; lane++, to += dtype_info[p->to].bytes)
                if (first + lane < p->columns)
                    halves_copy(to, p->to, p->data, p->from, (first + lane) * p->each + i);
}

// Packs blocks of words whose bytes qmatmul_dot.c reads: the elements of a byte lie a part of the block
// apart.
static void pack_parts(const void *ctx, void *out)
{
    const PartPacking *q = ctx;
    const RowPacking *p = &q->base;
    const int64_t words = q->blob / 4, per_byte = 8 / q->bits, mask = (1 << q->bits) - 1;
    unsigned char *to = out;
    for (int64_t first = 0; first < p->columns; first += p->lanes)
        for (int64_t i = 0; i < p->each; i++)
            for (int64_t lane = 0; lane < p->lanes; lane++, to += 4) {
                const unsigned char *blob =
                    p->data + (size_t)((first + lane) * p->each + i - i % words) * 4; // of the column's block
                for (int64_t j = 0; j < 4 && first + lane < p->columns; j++)
                    for (int64_t part = 0; part < per_byte; part++) {
                        const int64_t e = part * q->blob + i % words * 4 + j; // element of the block
                        const int v = blob[e / per_byte] >> (e % per_byte * q->bits) & (int)mask;
                        to[j] = (unsigned char)(to[j] | v << (part * q->bits));
                    }
            }
}

static uint32_t packed_words(Lower *l, const Product *p)
{
    PartPacking *k = ARENA_NEW(l->pass->perm, PartPacking);
    const int64_t vectors = (p->columns + p->lanes - 1) / p->lanes, each = p->blocks * p->blob / 4;
    k->base = (RowPacking){.data = node_attr(lower_node(l, p->w), A_const_data)->u.blob,
                           .columns = p->columns,
                           .each = each,
                           .from = DTYPE_i32,
                           .to = DTYPE_i32,
                           .lanes = p->lanes};
    k->blob = p->blob;
    k->bits = p->bits;
    return lower_param_filled(l, node_name(l->g, p->w), DTYPE_i32, pack_parts, k,
                              (uint64_t)vectors * (uint64_t)each * p->lanes * 4);
}

// `each` elements of every column: words (i32), or parameters of blocks, those in 16 bits that fit there.
static uint32_t packed_param(Lower *l, const Product *p, NodeId id, DType type, int64_t each)
{
    RowPacking *k = ARENA_NEW(l->pass->perm, RowPacking);
    const int64_t vectors = (p->columns + p->lanes - 1) / p->lanes;
    const void *data = node_attr(lower_node(l, id), A_const_data)->u.blob;
    *k = (RowPacking){.data = data,
                      .columns = p->columns,
                      .each = each,
                      .from = type,
                      .to = halves_type(type, data, p->columns * each),
                      .lanes = p->lanes};
    return lower_param_filled(l, node_name(l->g, id), k->to, pack, k,
                              (uint64_t)vectors * (uint64_t)each * p->lanes * dtype_info[k->to].bytes);
}

static bool can_pack(Lower *l, Product *p, const Domain *d)
{
    if (l->caps->is_gpu || !l->caps->packs_weights || !lower_is_float(lower_node(l, p->x)->dtype))
        return false;
    if (!node_is_const(l->g, p->w) || !node_is_const(l->g, p->scale) ||
        (p->zero && !node_is_const(l->g, p->zero)))
        return false;
    p->lanes = domain_lanes(l, d, d->rank - 1);
    return p->lanes > 1 || p->is_rounded;
}

// --- vectors -------------------------------------------------------------------------------------

// A vector of columns for some rows, while it is computed.
typedef struct Sums {
    const Product *p;
    const Point *at;
    KRef vector;         // number of the vector of columns
    KRef row[MAX_ROWS];  // index of the row's first element in x
    KRef part[MAX_ROWS]; // of the block
    KRef zero;
} Sums;

// Adds the products of elements first .. first + count - 1 of a block's word.
static void add_word(Lower *l, const Sums *s, KRef block, KRef word, int64_t count)
{
    Kernel *k = l->k;
    const Product *p = s->p;
    const uint32_t x = lower_param(l, p->x, PARAM_READ);
    const int64_t x_step = lower_loc(l, p->x)->stride[lower_node(l, p->x)->shape->rank - 1];
    const int64_t per_word = 4 * p->per_byte, words = p->blob / 4;
    const KRef at = k_expr(k, "($ * # + $) * # + $", s->vector, p->blocks, block, words, word);
    const KRef bits = k_load(k, p->words, k_expr(k, "$ * #", at, p->lanes), p->lanes, p->lanes);
    const KRef mask = k_integer(k, DTYPE_i32, (1 << p->bits) - 1);
    const KRef first = k_expr(k, "$ * # + $ * #", block, p->block, word, per_word);
    for (int64_t i = 0; i < count; i++) {
        const KRef moved = i ? k_shr(k, bits, k_integer(k, DTYPE_i32, i * p->bits)) : bits;
        const KRef whole = k_cast(k, k_and(k, moved, mask), DTYPE_f32);
        const KRef q = k_sub(k, whole, s->zero);
        for (int64_t r = 0; r < p->rows; r++) {
            const KRef index = k_expr(k, "($ + #) * # + $", first, i, x_step, s->row[r]);
            const KRef a = k_splat(k, k_cast(k, k_load(k, x, index, 1, 1), DTYPE_f32), p->lanes);
            k_set(k, s->part[r], k_fma(k, a, q, k_get(k, s->part[r])));
        }
    }
}

// One block of `count` elements: its sum times its scale goes to acc.
static void add_block(Lower *l, Sums *s, KRef block, int64_t count, const KRef *acc)
{
    Kernel *k = l->k;
    const Product *p = s->p;
    const int64_t per_word = 4 * p->per_byte, whole = count / per_word;
    const KRef at = k_expr(k, "($ * # + $) * #", s->vector, p->blocks, block, p->lanes);
    const KRef half = k_splat(k, k_number(k, DTYPE_f32, (double)(1 << (p->bits - 1))), p->lanes);
    s->zero = p->zero ? k_cast(k, k_load(k, p->zeros, at, p->lanes, p->lanes), DTYPE_f32) : half;
    for (int64_t r = 0; r < p->rows; r++)
        k_set(k, s->part[r], k_splat(k, k_number(k, DTYPE_f32, 0), p->lanes));
    if (whole > 0) {
        const KRef word = k_loop(k, whole, KFOR_SERIAL, "w");
        add_word(l, s, block, word, per_word);
        k_end(k);
    }
    if (count % per_word)
        add_word(l, s, block, k_index(k, whole), count % per_word);
    const KRef scale = k_cast(k, k_load(k, p->scales, at, p->lanes, p->lanes), DTYPE_f32);
    for (int64_t r = 0; r < p->rows; r++)
        k_set(k, acc[r], k_fma(k, k_get(k, s->part[r]), scale, k_get(k, acc[r])));
}

Point qmatmul_row(Lower *l, const Domain *d, const Point *at, int64_t r)
{
    Point p = *at;
    if (d->rank > 1)
        p.idx[d->rank - 2] = k_expr(l->k, "$ + #", at->idx[d->rank - 2], r);
    return p;
}

static void vector_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Product *p = ctx;
    Kernel *k = l->k;
    Sums s = {.p = p, .at = &at, .vector = k_expr(k, "$ / #", at.idx[d->rank - 1], p->lanes)};
    const KRef none = k_splat(k, k_number(k, DTYPE_f32, 0), p->lanes);
    KRef acc[MAX_ROWS];
    for (int64_t r = 0; r < p->rows; r++) {
        Point row = qmatmul_row(l, d, &at, r);
        row.idx[d->rank - 1] = k_index(k, 0);
        s.row[r] = operand_index(l, p->x, row.idx);
        acc[r] = k_var(k, none, "acc");
        s.part[r] = k_var(k, none, "part");
    }
    const int64_t whole = p->inner / p->block;
    if (whole > 0) {
        const KRef block = k_loop(k, whole, KFOR_SERIAL, "b");
        add_block(l, &s, block, p->block, acc);
        k_end(k);
    }
    if (p->inner % p->block)
        add_block(l, &s, k_index(k, whole), p->inner % p->block, acc);
    for (int64_t r = 0; r < p->rows; r++) {
        Point out = qmatmul_row(l, d, &at, r);
        out.lanes = p->lanes;
        out.count = at.count;
        pull_store_root(l, d, out, k_cast(k, k_get(k, acc[r]), lower_node(l, l->anchor)->dtype));
    }
}

// Rows [first, end) in groups of p->rows.
static void emit_rows(Lower *l, Product *p, const Domain *d, Point at, KRef first, KRef end)
{
    at.idx[d->rank - 2] = k_for(l->k, first, end, p->rows, KFOR_PARALLEL, "row");
    lower_along(l, d, d->rank - 1, p->lanes, at, p->is_rounded ? qmatmul_dot_point : vector_point, p);
    k_end(l->k);
}

// As many rows as there are in the run: groups, then one by one.
static void emit_live_rows(Lower *l, Product *p, const Domain *d, Point at, int64_t group)
{
    Kernel *k = l->k;
    const uint32_t axis = d->rank - 2;
    const KRef rows = lower_live(l, &d->live[axis], d->extent[axis]);
    const KRef whole = k_expr(k, "$ - $ % #", rows, rows, group);
    p->rows = group;
    emit_rows(l, p, d, at, k_index(k, 0), whole);
    p->rows = 1;
    emit_rows(l, p, d, at, whole, rows);
}

// Rows in groups, then those that are left.
static void lower_vectors(Lower *l, Product *p, const Domain *d)
{
    Kernel *k = l->k;
    const int64_t rows = d->rank > 1 ? d->extent[d->rank - 2] : 1, group = rows < MAX_ROWS ? rows : MAX_ROWS;
    Point at = {.lanes = 1, .count = 1};
    if (p->is_rounded)
        qmatmul_round_rows(l, p);
    p->words =
        p->is_rounded ? packed_words(l, p) : packed_param(l, p, p->w, DTYPE_i32, p->blocks * p->blob / 4);
    const DType type = (DType)lower_node(l, p->scale)->dtype;
    p->scales = packed_param(l, p, p->scale, type, p->blocks);
    p->zeros = p->zero ? packed_param(l, p, p->zero, (DType)lower_node(l, p->zero)->dtype, p->blocks) : 0;
    const uint32_t opened = lower_open(l, d, d->rank > 2 ? d->rank - 2 : 0, &at);
    if (d->rank > 1 && d->live[d->rank - 2].size != 0) {
        emit_live_rows(l, p, d, at, group);
        lower_close(l, opened);
        return;
    }
    for (int64_t first = 0; first < rows; first = first + group <= rows ? rows - rows % group : rows) {
        p->rows = rows - first < group ? rows - first : group;
        const int64_t end = p->rows == group ? rows - rows % group : rows;
        const bool is_loop = d->rank > 1 && end - first > p->rows;
        if (is_loop)
            at.idx[d->rank - 2] = k_for(k, k_index(k, first), k_index(k, end), p->rows, KFOR_PARALLEL, "row");
        else if (d->rank > 1)
            at.idx[d->rank - 2] = k_index(k, first);
        lower_along(l, d, d->rank - 1, p->lanes, at, p->is_rounded ? qmatmul_dot_point : vector_point, p);
        if (is_loop)
            k_end(k);
    }
    lower_close(l, opened);
}

// --- single sums ---------------------------------------------------------------------------------

// Element k of the inner axis: x * (weight - zero) * scale, added to acc.
static void add_element(Lower *l, const Product *p, KRef *idx, KRef column, KRef block, KRef in_block,
                        KRef acc)
{
    Kernel *k = l->k;
    const int type = k_inst(k, acc)->dtype;
    const KRef per_byte = k_index(k, p->per_byte);
    const KRef w_idx[3] = {column, block, k_div(k, in_block, per_byte)};
    const KRef byte = operand_scalar(l, p->w, operand_index(l, p->w, w_idx), DTYPE_i32);
    const KRef shift = k_expr(k, "$ % $ * #", in_block, per_byte, p->bits);
    const KRef moved = k_shr(k, byte, k_cast(k, shift, DTYPE_i32));
    const KRef q = k_cast(k, k_and(k, moved, k_integer(k, DTYPE_i32, (1 << p->bits) - 1)), type);
    const KRef block_idx[2] = {column, block};
    const KRef scale = operand_scalar(l, p->scale, operand_index(l, p->scale, block_idx), type);
    const KRef zero = p->zero ? operand_scalar(l, p->zero, operand_index(l, p->zero, block_idx), type)
                              : k_number(k, type, (double)(1 << (p->bits - 1)));
    idx[lower_node(l, p->x)->shape->rank - 1] = k_expr(k, "$ * # + $", block, p->block, in_block);
    const KRef x = operand_scalar(l, p->x, operand_index(l, p->x, idx), type);
    const KRef weight = k_expr(k, "($ - $) * $", q, zero, scale);
    k_set(k, acc, k_fma(k, x, weight, k_get(k, acc)));
}

static KRef sum_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Product *p = ctx;
    Kernel *k = l->k;
    const int dtype = lower_node(l, p->x)->dtype, type = operand_sum_type(dtype);
    const KRef column = at.idx[d->rank - 1], acc = k_var(k, k_number(k, type, 0), "acc");
    const int64_t whole = p->inner / p->block, rest = p->inner % p->block;
    if (whole > 0) {
        const KRef block = k_loop(k, whole, KFOR_SERIAL, "b");
        const KRef i = k_loop(k, p->block, KFOR_SERIAL, "c");
        add_element(l, p, at.idx, column, block, i, acc);
        k_ends(k, 2);
    }
    if (rest > 0) {
        const KRef i = k_loop(k, rest, KFOR_SERIAL, "c");
        add_element(l, p, at.idx, column, k_index(k, whole), i, acc);
        k_end(k);
    }
    return k_cast(k, k_get(k, acc), dtype);
}

void lower_qmatmul(Lower *l)
{
    Product p = product_of(l);
    Domain d = domain_of_root(l);
    l->pk->macs = (uint64_t)shape_numel(lower_node(l, l->anchor)->shape) * (uint64_t)p.inner;
    const bool packs = shape_numel(lower_node(l, l->root)->shape) > 0 && can_pack(l, &p, &d);
    rlx_assert(packs || !p.is_rounded || shape_numel(lower_node(l, l->root)->shape) == 0);
    if (packs)
        lower_vectors(l, &p, &d);
    else
        lower_map(l, sum_point, &p, MAP_SCALAR);
}
