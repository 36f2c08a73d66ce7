// SPDX-License-Identifier: Apache-2.0
// Quantised blocks packed for vectors of columns: constants when they are written out, parameters by kernels
// that run once after they were set. See blocks.h. Both make the same bytes from the same table.
#include "passes/lower/blocks/blocks.h"
#include "passes/lower/product/experts.h"
#include "passes/lower/operand.h"
#include "passes/lower/packer.h"

#include <string.h>

// --- layout --------------------------------------------------------------------------------------

typedef enum PackKind { PACK_WORDS, PACK_SCALES, PACK_MINS, PACK_D, PACK_M } PackKind;

static DType kind_type(const PackedBlocks *p, PackKind kind)
{
    const DType number = block_float_type(p->f->float_kind);
    return kind == PACK_WORDS ? DTYPE_i32 : kind == PACK_SCALES || kind == PACK_MINS ? DTYPE_i8 : number;
}

static int64_t n_words(const PackedBlocks *p)
{
    return p->low + p->high;
}

// The number of entries of a block.
static int64_t n_entries(const PackedBlocks *p, PackKind kind)
{
    return kind == PACK_WORDS                         ? p->units * n_words(p)
           : kind == PACK_SCALES || kind == PACK_MINS ? p->groups
                                                      : p->numbers;
}

static int64_t n_vectors(const PackedBlocks *p)
{
    return ceil_div(p->columns, p->lanes);
}

static PackedBlocks layout_of(const Lower *l, const BlockFormat *f, NodeId weight, uint8_t lanes)
{
    const Shape *s = lower_node(l, weight)->shape;
    const int64_t groups = f->elements / f->group, step = f->group & -f->group;
    return (PackedBlocks){.f = f,
                          .columns = s->rank > 3 ? s->dim[0] * s->dim[1] : s->dim[0],
                          .blocks = s->dim[s->rank - 2],
                          .units = f->elements / BLOCK_UNIT,
                          .lanes = lanes,
                          .low = f->values ? 8 : f->q.low.bits,
                          .high = f->values ? 0 : f->q.high.bits,
                          .bias = f->values ? -128 : f->q.bias,
                          .groups = groups,
                          .numbers = f->pitch ? groups : 1,
                          .step = step < BLOCK_UNIT ? step : BLOCK_UNIT};
}

// --- constants -----------------------------------------------------------------------------------

typedef struct Filling {
    PackedBlocks p;
    PackKind kind;
    const unsigned char *data;
} Filling;

static uint32_t low_bits(const BlockFormat *f, const unsigned char *block, uint32_t e)
{
    if (f->values)
        return (uint32_t)(block_q(f, block, e) + 128);
    return block_entry(&f->q.low, block, e) ^ f->q.flip;
}

static uint32_t word_of(const PackedBlocks *p, const unsigned char *block, uint32_t i)
{
    const uint32_t words = (uint32_t)n_words(p), unit = i / words, w = i % words;
    const bool is_low = w < p->low;
    const uint32_t bits = is_low ? p->low : p->high, first = is_low ? w : w - p->low;
    uint32_t word = 0;
    for (uint32_t part = 0; part < 8 / bits; part++)
        for (uint32_t j = 0; j < 4; j++) {
            const uint32_t e = unit * BLOCK_UNIT + part * 4 * bits + 4 * first + j;
            const uint32_t v = is_low ? low_bits(p->f, block, e) : block_entry(&p->f->q.high, block, e);
            word |= v << (8 * j + bits * part);
        }
    return word;
}

static void fill_entry(const Filling *c, const unsigned char *block, uint32_t i, unsigned char *to)
{
    const BlockFormat *f = c->p.f;
    const uint8_t at = c->kind == PACK_M ? f->m_at : f->d_at;
    if (c->kind == PACK_WORDS) {
        const uint32_t word = word_of(&c->p, block, i);
        memcpy(to, &word, sizeof word);
    } else if (c->kind == PACK_SCALES || c->kind == PACK_MINS) {
        *to = (unsigned char)block_field(c->kind == PACK_MINS ? &f->min : &f->scale, block, i);
    } else if (f->float_kind != BLOCK_E8M0) {
        memcpy(to, block + at + i * f->pitch, block_float_bytes(f->float_kind));
    } else {
        const float v = (float)block_number(f, block, at, i);
        memcpy(to, &v, sizeof v);
    }
}

static void fill(const void *ctx, void *out)
{
    const Filling *c = ctx;
    const PackedBlocks *p = &c->p;
    const uint32_t entries = (uint32_t)n_entries(p, c->kind);
    unsigned char *to = out;
    for (int64_t first = 0; first < p->columns; first += p->lanes)
        for (int64_t b = 0; b < p->blocks; b++)
            for (uint32_t i = 0; i < entries; i++)
                for (int64_t lane = 0; lane < p->lanes; lane++) {
                    const int64_t column = first + lane < p->columns ? first + lane : p->columns - 1;
                    fill_entry(c, c->data + (column * p->blocks + b) * p->f->bytes, i, to);
                    to += dtype_info[kind_type(p, c->kind)].bytes;
                }
}

// --- parameters ----------------------------------------------------------------------------------

typedef struct PackPoint {
    KRef block; // index of its first byte
    KRef to;    // of the first entry of the block and this lane
} PackPoint;

static KRef low_entry(Kernel *k, const BlockReader *r, KRef block, KRef e)
{
    if (r->f->values)
        return k_add(k, blocks_q(k, r, block, e), k_integer(k, DTYPE_i32, 128));
    const KRef bits = blocks_entry(k, r, &r->f->q.low, block, e);
    return r->f->q.flip ? k_xor(k, bits, k_integer(k, DTYPE_i32, r->f->q.flip)) : bits;
}

// All words of the low or the high bits.
static void pack_words(Kernel *k, const PackedBlocks *p, const BlockReader *r, uint32_t param, PackPoint at,
                       bool is_low)
{
    const int64_t bits = is_low ? p->low : p->high, skipped = is_low ? 0 : p->low;
    const KRef unit = k_loop(k, p->units, KFOR_SERIAL, "u");
    const KRef w = k_loop(k, bits, KFOR_SERIAL, "w");
    const KRef word = k_var(k, k_integer(k, DTYPE_i32, 0), "word");
    const KRef part = k_loop(k, 8 / bits, KFOR_SERIAL, "p");
    const KRef j = k_loop(k, 4, KFOR_SERIAL, "j");
    const KRef e = k_expr(k, "$ * # + ($ * # + ($ * 4 + $))", unit, BLOCK_UNIT, part, 4 * bits, w, j);
    const KRef v = is_low ? low_entry(k, r, at.block, e) : blocks_entry(k, r, &r->f->q.high, at.block, e);
    const KRef shift = k_cast(k, k_expr(k, "$ * 8 + $ * #", j, part, bits), DTYPE_i32);
    k_set(k, word, k_or(k, k_get(k, word), k_shl(k, v, shift)));
    k_end(k);
    k_end(k);
    const KRef i = k_expr(k, "$ * # + ($ + #)", unit, n_words(p), w, skipped);
    k_store(k, param, k_expr(k, "$ * # + $", i, p->lanes, at.to), k_get(k, word), 1);
    k_end(k);
    k_end(k);
}

static void pack_fields(Kernel *k, const PackedBlocks *p, const BlockReader *r, uint32_t param, PackPoint at,
                        const BlockField *f)
{
    const KRef g = k_loop(k, p->groups, KFOR_SERIAL, "g");
    const KRef v = k_cast(k, blocks_field(k, r, f, at.block, g), DTYPE_i8);
    k_store(k, param, k_expr(k, "$ * # + $", g, p->lanes, at.to), v, 1);
    k_end(k);
}

static void pack_numbers(Kernel *k, const PackedBlocks *p, const BlockReader *r, uint32_t param, PackPoint at,
                         PackKind kind)
{
    const KRef g = k_loop(k, p->numbers, KFOR_SERIAL, "g");
    const KRef v = blocks_number(k, r, at.block, kind == PACK_M ? p->f->m_at : p->f->d_at, g);
    k_store(k, param, k_expr(k, "$ * # + $", g, p->lanes, at.to), k_cast(k, v, kind_type(p, kind)), 1);
    k_end(k);
}

static void pack_block(Kernel *k, const PackedBlocks *p, const BlockReader *r, uint32_t param, PackPoint at,
                       PackKind kind)
{
    const BlockFormat *f = p->f;
    if (kind == PACK_WORDS) {
        pack_words(k, p, r, param, at, true);
        if (p->high)
            pack_words(k, p, r, param, at, false);
    } else if (kind == PACK_SCALES || kind == PACK_MINS) {
        pack_fields(k, p, r, param, at, kind == PACK_MINS ? &f->min : &f->scale);
    } else {
        pack_numbers(k, p, r, param, at, kind);
    }
}

static uint32_t pack_lasting(Lower *l, const PackedBlocks *p, NodeId weight, PackKind kind)
{
    Packer packer;
    const int64_t entries = n_entries(p, kind), vectors = n_vectors(p);
    packer_open(l, weight, kind_type(p, kind), (uint64_t)(vectors * p->blocks * entries * p->lanes),
                 &packer);
    Kernel *k = packer.l.k;
    const BlockReader r = blocks_reader(&packer.l, p->f, weight);
    const KRef v = k_loop(k, vectors, KFOR_PARALLEL, "v");
    const KRef lane = k_loop(k, p->lanes, KFOR_SERIAL, "l");
    const KRef b = k_loop(k, p->blocks, KFOR_SERIAL, "b");
    const KRef column = k_expr(k, "min($ * # + $, #)", v, p->lanes, lane, p->columns - 1);
    const Shape *s = lower_node(l, weight)->shape;
    const KRef each = k_index(k, s->dim[s->rank - 3]), row = k_expr(k, "$ * # + $", v, p->blocks, b);
    const KRef zero = k_index(k, 0), rows[3] = {column, b, zero},
               idx[4] = {k_div(k, column, each), k_rem(k, column, each), b, zero};
    const PackPoint at = {.block = operand_index(&packer.l, weight, s->rank > 3 ? idx : rows),
                          .to = k_expr(k, "$ * # + $", row, entries * p->lanes, lane)};
    pack_block(k, p, &r, packer.to, at, kind);
    k_end(k);
    k_end(k);
    k_end(k);
    packer_close(l, &packer);
    return packer.reader;
}

bool blocks_can_pack(const Lower *l, NodeId weight)
{
    rlx_assert(weight != 0);
    return node_is_const(l->g, weight) || packer_can_pack(l, weight);
}

static int64_t all_entries(const PackedBlocks *p, PackKind kind)
{
    return n_vectors(p) * p->blocks * n_entries(p, kind) * p->lanes;
}

static uint32_t pack(Lower *l, const PackedBlocks *p, NodeId weight, PackKind kind, const Experts *of)
{
    if (!node_is_const(l->g, weight))
        return pack_lasting(l, p, weight, kind);
    const DType type = kind_type(p, kind);
    const uint64_t entries = (uint64_t)all_entries(p, kind), bytes = entries * dtype_info[type].bytes;
    Filling *c = ARENA_NEW(l->pass->perm, Filling);
    *c = (Filling){.p = *p, .kind = kind, .data = node_attr(lower_node(l, weight), A_const_data)->u.blob};
    if (of == NULL)
        return lower_param_filled(l, node_name(l->g, weight), type, fill, c, bytes);
    return experts_place(l, of, type,
                         &(GemmPack){fill, c, .stride = bytes / (uint64_t)of->n_experts, .bytes = bytes});
}

PackedBlocks blocks_pack(Lower *l, const BlockFormat *f, NodeId weight, uint8_t lanes, const Experts *of)
{
    rlx_assert(lanes > 1 && blocks_can_pack(l, weight));
    PackedBlocks p = layout_of(l, f, weight, lanes);
    p.experts = of != NULL ? of->n_experts : 1;
    p.words = pack(l, &p, weight, PACK_WORDS, of);
    p.d = pack(l, &p, weight, PACK_D, of);
    if (f->scale.low.bits)
        p.scales = pack(l, &p, weight, PACK_SCALES, of);
    if (f->min.sign)
        p.m = pack(l, &p, weight, PACK_M, of);
    if (f->min.low.bits)
        p.mins = pack(l, &p, weight, PACK_MINS, of);
    return p;
}

void blocks_packed_point(Kernel *k, const PackedBlocks *p, KRef e)
{
    rlx_assert(e != 0);
    const uint32_t param[] = {[PACK_WORDS] = p->words,
                              [PACK_SCALES] = p->scales,
                              [PACK_MINS] = p->mins,
                              [PACK_D] = p->d,
                              [PACK_M] = p->m};
    for (PackKind kind = PACK_WORDS; kind <= PACK_M; kind++)
        if (kind == PACK_WORDS || param[kind] != 0)
            k_point(k, param[kind], e, k_expr(k, "$ * #", e, all_entries(p, kind) / p->experts));
}

// --- reading -------------------------------------------------------------------------------------

static KRef load_row(Kernel *k, const PackedBlocks *p, uint32_t param, KRef row)
{
    return k_load(k, param, k_expr(k, "$ * #", row, p->lanes), p->lanes, p->lanes);
}

static bool is_loop(const PackedBlocks *p)
{
    return p->numbers == 1 && p->units > 1;
}

int64_t blocks_packed_turns(const PackedBlocks *p)
{
    return is_loop(p) ? 1 : p->units;
}

KRef blocks_packed_open(Kernel *k, const PackedBlocks *p, int64_t turn)
{
    return is_loop(p) ? k_loop(k, p->units, KFOR_SERIAL, "u") : k_index(k, turn);
}

void blocks_packed_close(Kernel *k, const PackedBlocks *p)
{
    if (is_loop(p))
        k_end(k);
}

static PackedNumbers load_numbers(Kernel *k, const PackedBlocks *p, KRef row)
{
    PackedNumbers n = {.d = k_cast(k, load_row(k, p, p->d, row), DTYPE_f32)};
    if (p->f->min.sign)
        n.m = k_cast(k, load_row(k, p, p->m, row), DTYPE_f32);
    return n;
}

PackedNumbers blocks_packed_numbers(Kernel *k, const PackedBlocks *p, KRef row)
{
    return p->numbers == 1 ? load_numbers(k, p, row) : (PackedNumbers){0};
}

// A number times the integer of group g.
static KRef scaled(Kernel *k, const PackedBlocks *p, uint32_t param, KRef number, KRef row, KRef g)
{
    const KRef i = load_row(k, p, param, k_expr(k, "$ * # + $", row, p->groups, g));
    return k_mul(k, number, k_cast(k, k_cast(k, i, DTYPE_i32), DTYPE_f32));
}

static PackedGroup own_group(Kernel *k, const PackedBlocks *p, const PackedUnit *u, int64_t first)
{
    const int64_t before = u->turn * BLOCK_UNIT, g = (before + first) / p->f->group;
    const int64_t end = (g + 1) * p->f->group - before;
    const PackedNumbers own = load_numbers(k, p, k_expr(k, "$ * # + #", u->row, p->numbers, g));
    return (PackedGroup){.end = end < BLOCK_UNIT ? end : BLOCK_UNIT, .scale = own.d, .add = own.m};
}

PackedGroup blocks_packed_group(Kernel *k, const PackedBlocks *p, const PackedNumbers *n, const PackedUnit *u,
                                int64_t first)
{
    rlx_assert(first >= 0 && first % p->step == 0);
    const BlockFormat *f = p->f;
    if (p->numbers > 1)
        return own_group(k, p, u, first);
    const KRef g = k_expr(k, "$ * # + #", u->unit, BLOCK_UNIT / p->step, first / p->step);
    PackedGroup group = {.end = first + p->step,
                         .scale = f->scale.low.bits ? scaled(k, p, p->scales, n->d, u->row, g) : n->d};
    if (f->min.sign)
        group.add = f->min.low.bits ? scaled(k, p, p->mins, n->m, u->row, g) : n->m;
    else if (p->bias) // exact, like every product of an element's integers
        group.add = k_mul(k, group.scale, k_splat(k, k_number(k, DTYPE_f32, p->bias), p->lanes));
    return group;
}

void blocks_packed_words(Kernel *k, const PackedBlocks *p, const PackedUnit *u, KRef *words)
{
    rlx_assert(u->row != 0 && u->unit != 0 && n_words(p) <= BLOCK_MAX_WORDS);
    const KRef first = k_expr(k, "$ * # + $", u->row, p->units, u->unit);
    for (int64_t i = 0; i < n_words(p); i++)
        words[i] = load_row(k, p, p->words, k_expr(k, "$ * # + #", first, n_words(p), i));
}

static KRef whole(Kernel *k, const PackedBlocks *p, int64_t v)
{
    return k_splat(k, k_integer(k, DTYPE_i32, v), p->lanes);
}

// Moved right by `bits`, or left where they are less than 0, and masked.
static KRef moved(Kernel *k, const PackedBlocks *p, KRef word, int64_t bits, int64_t mask)
{
    if (bits != 0)
        word = k_op(k, bits > 0 ? KOP_shr : KOP_shl, word, whole(k, p, bits > 0 ? bits : -bits), 0);
    return k_and(k, word, whole(k, p, mask));
}

KRef blocks_packed_quad(Kernel *k, const PackedBlocks *p, const KRef *words, int64_t t)
{
    rlx_assert(t >= 0 && p->low + p->high <= 8);
    const int64_t bytes = 0x01010101, low = ((1 << p->low) - 1) * bytes;
    if (p->low == 8)
        return words[t];
    const KRef v = moved(k, p, words[t % p->low], p->low * (t / p->low), low);
    if (p->high == 0)
        return v;
    const int64_t high = (((1 << p->high) - 1) << p->low) * bytes;
    const KRef above = moved(k, p, words[p->low + t % p->high], p->high * (t / p->high) - p->low, high);
    return k_or(k, v, above);
}

KRef blocks_packed_value(Kernel *k, const PackedBlocks *p, const KRef *words, const PackedGroup *g, int64_t i)
{
    rlx_assert(i >= 0 && i < BLOCK_UNIT);
    KRef bits;
    if (p->high == 0) {
        const int64_t part = i / (4 * p->low), w = i % (4 * p->low) / 4;
        bits = moved(k, p, words[w], 8 * (i % 4) + p->low * part, (1 << p->low) - 1);
    } else {
        const KRef quad = blocks_packed_quad(k, p, words, i / 4);
        bits = moved(k, p, quad, 8 * (i % 4), (1 << (p->low + p->high)) - 1);
    }
    const KRef q = k_cast(k, bits, DTYPE_f32);
    return g->add ? k_fma(k, q, g->scale, g->add) : k_mul(k, q, g->scale);
}
