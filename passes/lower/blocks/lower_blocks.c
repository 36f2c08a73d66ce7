// SPDX-License-Identifier: Apache-2.0
// Quantised blocks: block_decode, and the products with blocks as plain sums. Accumulation: fused
// multiply-adds of decoded elements in rising k, in f32 (f64 for f64).
#include "passes/lower/blocks/blocks_team.h"
#include "passes/lower/operand.h"
#include "passes/lower/product/experts.h"

// --- decoding ------------------------------------------------------------------------------------

// Where blocks are decoded: all axes of the result but the last are open, and where each element has a thread
// the loops over the blocks of a row, their groups and the elements of these too.
typedef struct Decoding {
    const BlockFormat *f;
    NodeId x;
    Domain d;
    Point at;
    uint32_t opened, last;
    KRef b, g, i; // 0: not open
} Decoding;

// On GPUs each element has a thread, those of rows that do not exist in a run too: only what is not inside of
// a condition becomes threads.
static void open_elements(Lower *l, Decoding *c)
{
    Kernel *k = l->k;
    c->b = k_loop(k, c->d.extent[c->last] / c->f->elements, KFOR_PARALLEL, "b");
    c->g = k_loop(k, c->f->elements / c->f->group, KFOR_PARALLEL, "g");
    c->i = k_loop(k, c->f->group, KFOR_PARALLEL, "i");
    c->opened += 3;
    for (uint32_t axis = 0; axis < c->last; axis++) {
        if (c->d.live[axis].size == 0)
            continue;
        k_if(k, k_lt(k, c->at.idx[axis], lower_live(l, &c->d.live[axis], c->d.extent[axis])));
        c->opened++;
    }
}

static Decoding decoding_open(Lower *l, AttrId format)
{
    const Node *n = lower_node(l, l->anchor);
    Decoding c = {.f = block_format(l->pass->perm, node_get_str(n, format)), .x = n->src[0],
                  .d = domain_of_root(l), .at = {.lanes = 1, .count = 1},
                  .last = n->shape->rank - 1u};
    Domain all = c.d;
    for (uint32_t i = 0; l->caps->is_gpu && i < c.last; i++)
        all.live[i] = (LiveRef){0};
    c.opened = lower_open(l, &all, c.last, &c.at);
    if (l->caps->is_gpu)
        open_elements(l, &c);
    return c;
}

// The blocks of a row, whose coordinates come before those of a block and a byte in idx.
static void decode_row(Lower *l, Decoding *c, const BlockReader *r, KRef *idx, uint32_t rank)
{
    Kernel *k = l->k;
    const BlockFormat *f = c->f;
    const bool is_open = c->b != 0;
    const KRef b = is_open ? c->b : k_loop(k, c->d.extent[c->last] / f->elements, KFOR_PARALLEL, "b");
    idx[rank] = b;
    idx[rank + 1] = k_index(k, 0);
    const KRef block = operand_index(l, c->x, idx);
    const KRef g = is_open ? c->g : k_loop(k, f->elements / f->group, KFOR_SERIAL, "g");
    const BlockGroup group = blocks_group(k, r, block, g);
    const KRef i = is_open ? c->i : k_loop(k, f->group, KFOR_SERIAL, "i");
    const KRef e = k_expr(k, "$ * # + $", g, f->group, i);
    c->at.idx[c->last] = k_expr(k, "$ * # + $", b, f->elements, e);
    pull_store_root(l, &c->d, c->at, blocks_value(k, r, &group, block, e));
    c->opened += is_open ? 0 : 3;
}

void lower_block_decode(Lower *l)
{
    const BlockFormat *f =
        block_format(l->pass->perm, node_get_str(lower_node(l, l->anchor), A_block_decode_format));
    const BlockReader r = blocks_reader(l, f, lower_node(l, l->anchor)->src[0]);
    Decoding c = decoding_open(l, A_block_decode_format);
    KRef idx[SHAPE_MAX_RANK] = {0};
    for (uint32_t i = 0; i < c.last; i++)
        idx[i] = c.at.idx[i];
    decode_row(l, &c, &r, idx, c.last);
    lower_close(l, c.opened);
}

// A unit of a packed block, from element `first` of the row on.
static void decode_unit(Lower *l, Decoding *c, const PackedBlocks *p, const PackedUnit *u, KRef first)
{
    Kernel *k = l->k;
    const PackedNumbers numbers = blocks_packed_numbers(k, p, &u->at);
    PackedGroup group = {0};
    KRef words[BLOCK_MAX_WORDS];
    blocks_packed_words(k, p, u, words);
    for (int64_t e = 0; e < BLOCK_UNIT; e++) {
        if (e == group.end)
            group = blocks_packed_group(k, p, &numbers, u, e);
        c->at.idx[c->last] = k_expr(k, "$ + #", first, e);
        pull_store_root(l, &c->d, c->at, blocks_packed_value(k, p, words, &group, e));
    }
}

static void decode_packed_row(Lower *l, Decoding *c, const PackedBlocks *p, KRef row)
{
    Kernel *k = l->k;
    rlx_assert(c->b == 0);
    const KRef b = k_loop(k, p->blocks, KFOR_PARALLEL, "b");
    const PackedPlace at = blocks_packed_lane(k, p, row, b);
    for (int64_t turn = 0; turn < blocks_packed_turns(p); turn++) {
        const KRef unit = blocks_packed_open(k, p, turn);
        const PackedUnit u = {.at = at, .unit = unit, .turn = turn};
        decode_unit(l, c, p, &u, k_expr(k, "($ * # + $) * #", b, p->units, unit, BLOCK_UNIT));
        blocks_packed_close(k, p);
    }
    k_end(k);
}

// The lanes of the weights of a product that has the same rows; 0: there is none.
static uint8_t lanes_of_product(const Lower *l, NodeId weight)
{
    for (NodeId id = 1; id < l->g->nodes.len; id++) {
        const Node *n = lower_node(l, id);
        if (n->op == OP_block_matmul && n->src[1] == weight && node_is_const(l->g, weight) &&
            block_product_lanes(l, n->src[0], weight) > 1)
            return block_product_lanes(l, n->src[0], weight);
    }
    return 0;
}

// Rows that are the weights of a product as well are read as that has them, so that they are stored once.
void lower_block_gather(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    const BlockFormat *f = block_format(l->pass->perm, node_get_str(n, A_block_gather_format));
    const NodeId weight = n->src[0], index = n->src[1];
    const uint8_t lanes = lanes_of_product(l, weight);
    PackedBlocks p = {0};
    BlockReader r = {0};
    if (lanes > 1)
        p = blocks_pack(l, f, weight, lanes, BLOCK_VECTORS, NULL);
    else
        r = blocks_reader(l, f, weight);
    Decoding c = decoding_open(l, A_block_gather_format);
    const KRef place = operand_index(l, index, c.at.idx);
    const KRef row = operand_row(l, index, place, lower_node(l, weight)->shape->dim[0]);
    KRef idx[SHAPE_MAX_RANK] = {row};
    if (lanes > 1)
        decode_packed_row(l, &c, &p, row);
    else
        decode_row(l, &c, &r, idx, 1);
    lower_close(l, c.opened);
}

// --- products ------------------------------------------------------------------------------------

// What a plain sum reads.
typedef struct PlainSum {
    const BlockProduct *p;
    BlockReader r;
} PlainSum;

void block_product_plain(Lower *l, const BlockProduct *p, const BlockReader *r, Point at, KRef e, KRef acc)
{
    rlx_assert(acc != 0 && p->d.rank >= 1);
    const BlockFormat *f = r->f;
    const KRef column = at.idx[p->d.rank - 1];
    Kernel *k = l->k;
    const int type = k_inst(k, acc)->dtype;
    const int64_t blocks = p->inner / f->elements;
    const KRef matrix = p->of.is_placed ? block_product_matrix(l, p, r, e) : 0;
    const KRef b = k_loop(k, blocks, KFOR_SERIAL, "b");
    const KRef idx[4] = {e, column, b, k_index(k, 0)};
    const KRef block = matrix != 0 ? k_expr(k, "($ * # + $) * # + $", column, blocks, b, f->bytes, matrix)
                                   : operand_index(l, p->w, p->index ? idx : idx + 1);
    const KRef g = k_loop(k, f->elements / f->group, KFOR_SERIAL, "g");
    const BlockGroup group = blocks_group(k, r, block, g);
    const KRef i = k_loop(k, f->group, KFOR_SERIAL, "i");
    const KRef element = k_expr(k, "$ * # + $", g, f->group, i);
    const KRef value = k_cast(k, blocks_value(k, r, &group, block, element), type);
    at.idx[lower_node(l, p->x)->shape->rank - 1] = k_expr(k, "$ * # + $", b, f->elements, element);
    const KRef x = operand_scalar(l, p->x, operand_index(l, p->x, at.idx), type);
    k_set(k, acc, k_fma(k, x, value, k_get(k, acc)));
    k_ends(k, 3);
}

// The sums of both products of a kernel that has two.
static void store_both(Lower *l, const Domain *d, Point at, void *ctx)
{
    const PlainSum *s = ctx;
    Kernel *k = l->k;
    const int dtype = lower_node(l, s->p->x)->dtype, type = operand_sum_type(dtype);
    KRef sum[2];
    for (uint32_t i = 0; i < 2; i++) {
        BlockProduct p = *s->p;
        p.w = i == 0 ? p.w : p.other_w;
        const BlockReader r = block_product_reader(l, &p);
        const KRef acc = k_var(k, k_number(k, type, 0), "acc");
        block_product_plain(l, &p, &r, at, 0, acc);
        sum[i] = k_cast(k, k_get(k, acc), dtype);
    }
    pull_store_given(l, d, at, sum[0], &(Given){s->p->other, sum[1]});
}

static KRef sum_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const PlainSum *s = ctx;
    const BlockProduct *p = s->p;
    Kernel *k = l->k;
    const int dtype = lower_node(l, p->x)->dtype, type = operand_sum_type(dtype);
    const KRef acc = k_var(k, k_number(k, type, 0), "acc");
    (void)d;
    if (p->index == 0) {
        block_product_plain(l, p, &s->r, at, 0, acc);
        return k_cast(k, k_get(k, acc), dtype);
    }
    const KRef e = block_expert(l, p, at.idx);
    k_if(k, block_is_expert(k, e, p->experts));
    block_product_plain(l, p, &s->r, at, e, acc);
    k_end(k);
    return k_cast(k, k_get(k, acc), dtype);
}

KRef block_expert(Lower *l, const BlockProduct *p, const KRef *idx)
{
    KRef row = k_index(l->k, 0);
    if (!p->of.is_layer || !l->caps->is_gpu)
        return operand_clamped(l, p->index, operand_index(l, p->index, idx), -1, p->experts);
    for (uint32_t i = 0; i + 1 < p->d.rank; i++)
        row = k_expr(l->k, "$ * # + $", row, p->d.extent[i], idx[i]);
    return experts_entry(l, p->of.choice, row);
}

KRef block_is_expert(Kernel *k, KRef e, int64_t experts)
{
    rlx_assert(experts >= 0);
    if (experts == 0) // compilers warn of 0 <= e && e < 0
        return k_integer(k, DTYPE_bool, 0);
    return k_expr(k, "0 <= $ & $ < #", e, e, experts);
}

void block_product_place(Lower *l, BlockProduct *p, DType type)
{
    if (p->of.is_layer && node_is_const(l->g, p->w))
        experts_place_given(l, &p->of, type);
}

// Placed weights may be words for what else the kernel does.
static uint32_t placed_bytes(Lower *l, const Experts *x)
{
    const BufId b = l->pk->args.data[x->weights].buf;
    for (uint32_t i = 0; i < l->pk->args.len; i++)
        if (l->pk->args.data[i].buf == b && l->k->params.data[i].dtype == DTYPE_u8)
            return i;
    return lower_param_buffer(l, b, DTYPE_u8, PARAM_READ);
}

BlockReader block_product_reader(Lower *l, BlockProduct *p)
{
    if (!p->of.is_placed)
        return blocks_reader(l, p->f, p->w);
    return blocks_reader_of(l, p->f, placed_bytes(l, &p->of));
}

KRef block_product_matrix(Lower *l, const BlockProduct *p, const BlockReader *r, KRef e)
{
    rlx_assert(p->of.is_placed && e != 0);
    Kernel *k = l->k;
    const uint32_t width = dtype_info[k->params.data[p->of.weights].dtype].bytes;
    if (l->caps->is_gpu)
        return k_expr(k, "$ * #", experts_begin(l, &p->of, e), width);
    k_point(k, r->param, e, k_expr(k, "$ * #", e, (int64_t)p->of.stride));
    return k_index(k, 0);
}

// The layer of experts that the rows of an index make.
static void note_experts(Lower *l, BlockProduct *p)
{
    const Shape *x = lower_node(l, p->x)->shape;
    p->of = (Experts){.x = p->x,
                      .w = p->w,
                      .index = p->index,
                      .n_experts = p->experts,
                      .rows = 1,
                      .n = p->columns,
                      .k = p->inner / p->f->elements * p->f->bytes,
                      .is_shared = x->rank == lower_node(l, p->index)->shape->rank,
                      .d = p->d};
    for (uint32_t i = 0; i + 1 < p->d.rank; i++)
        p->of.rows *= p->d.extent[i];
    experts_note_rows(l, &p->of);
}

// A second product of the same row (group_join_products), and its weights.
static void note_second(Lower *l, BlockProduct *p)
{
    for (uint32_t i = 0; i < l->pk->body.len; i++) {
        const Node *n = lower_node(l, l->pk->body.data[i]);
        if (l->pk->body.data[i] == l->anchor || n->op != OP_block_matmul)
            continue;
        p->other = l->pk->body.data[i];
        p->other_w = n->src[1];
        l->pk->macs *= 2;
    }
}

static bool has_schedule(Lower *l, BlockProduct *p)
{
    if (p->other != 0)
        return block_team_product(l, p);
    return block_product_vectors(l, p) || block_mma_product(l, p) || block_tile_product(l, p) ||
           block_team_product(l, p);
}

static void lower_product(Lower *l, AttrId format, NodeId index)
{
    const Node *n = lower_node(l, l->anchor);
    const BlockFormat *f = block_format(l->pass->perm, node_get_str(n, format));
    const Shape *x = lower_node(l, n->src[0])->shape, *w = lower_node(l, n->src[1])->shape;
    BlockProduct p = {.x = n->src[0],
                      .w = n->src[1],
                      .index = index,
                      .f = f,
                      .inner = x->dim[x->rank - 1],
                      .columns = w->dim[w->rank - 3],
                      .experts = index ? w->dim[0] : 1,
                      .d = domain_of_root(l)};
    p.rows = p.inner > 0 ? shape_numel(x) / p.inner : 0;
    l->pk->macs = (uint64_t)shape_numel(n->shape) * (uint64_t)p.inner;
    if (index != 0)
        note_experts(l, &p);
    else
        note_second(l, &p);
    if (shape_numel(w) > 0 && has_schedule(l, &p))
        return;
    if (p.other != 0) {
        lower_walk(l, &p.d, 1, store_both, &(PlainSum){.p = &p});
        return;
    }
    block_product_place(l, &p, DTYPE_u8);
    PlainSum sum = {.p = &p, .r = block_product_reader(l, &p)};
    lower_map(l, sum_point, &sum, MAP_SCALAR);
}

void lower_block_matmul(Lower *l)
{
    lower_product(l, A_block_matmul_format, 0);
}

void lower_block_grouped_matmul(Lower *l)
{
    lower_product(l, A_block_grouped_matmul_format, lower_node(l, l->anchor)->src[2]);
}
