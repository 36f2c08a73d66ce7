// SPDX-License-Identifier: Apache-2.0
// Quantised blocks packed for vectors of columns: constants when they are written out, parameters by kernels
// that run once after they were set. See blocks.h. Both make the same bytes from the same table.
#include "passes/lower/blocks/blocks.h"
#include "passes/lower/product/experts.h"
#include "passes/lower/operand.h"
#include "passes/lower/packer.h"

#include <string.h>

// --- layout --------------------------------------------------------------------------------------

static DType part_type(const PackedBlocks *p, BlockPart part)
{
    const DType number = block_float_type(p->f->float_kind);
    return part == BLOCK_WORDS ? DTYPE_i32 : part == BLOCK_D || part == BLOCK_M ? number : DTYPE_i8;
}

static int64_t n_words(const PackedBlocks *p)
{
    return p->low + p->high;
}

// The number of entries of a block; 0: it lacks the part.
int64_t blocks_packed_entries(const PackedBlocks *p, BlockPart part)
{
    const BlockFormat *f = p->f;
    const bool is_there[BLOCK_PARTS] = {[BLOCK_WORDS] = true,
                                        [BLOCK_D] = true,
                                        [BLOCK_M] = f->min.sign != 0,
                                        [BLOCK_SCALES] = f->scale.low.bits != 0,
                                        [BLOCK_MINS] = f->min.low.bits != 0};
    if (!is_there[part])
        return 0;
    return part == BLOCK_WORDS                      ? p->units * n_words(p)
           : part == BLOCK_D || part == BLOCK_M ? p->numbers
                                                : p->groups;
}

// Entries that follow each other before those of the next vector come.
static int64_t n_together(const PackedBlocks *p, BlockPart part)
{
    return part == BLOCK_WORDS ? n_words(p) : 1;
}

static int64_t blocks_packed_width(const PackedBlocks *p, BlockPart part)
{
    return dtype_info[part_type(p, part)].bytes;
}

static int64_t n_vectors(const PackedBlocks *p)
{
    return ceil_div(p->columns, p->lanes);
}

// The number of records that stand beside each other, for as many vectors each.
static int64_t blocks_packed_records(const PackedBlocks *p)
{
    rlx_assert(p->beside >= 1 && p->lanes >= 1);
    return ceil_div(n_vectors(p), p->beside);
}

static void place_parts(PackedBlocks *p)
{
    p->record = 0;
    for (BlockPart part = 0; part < BLOCK_PARTS; part++) {
        p->at[part] = p->record;
        const int64_t width = blocks_packed_width(p, part);
        p->record += blocks_packed_entries(p, part) * p->beside * p->lanes * width;
        rlx_assert(p->at[part] % width == 0);
    }
    rlx_assert(p->record % blocks_packed_width(p, BLOCK_WORDS) == 0);
    rlx_assert(p->record % blocks_packed_width(p, BLOCK_D) == 0);
}

static PackedBlocks layout_of(const Lower *l, const BlockFormat *f, NodeId weight, uint8_t lanes,
                              uint8_t beside, int64_t experts)
{
    const Shape *s = lower_node(l, weight)->shape;
    const int64_t groups = f->elements / f->group, step = f->group & -f->group;
    PackedBlocks p = {.f = f,
                      .columns = s->rank > 3 ? s->dim[0] * s->dim[1] : s->dim[0],
                      .blocks = s->dim[s->rank - 2],
                      .units = f->elements / BLOCK_UNIT,
                      .experts = experts,
                      .lanes = lanes,
                      .beside = 1,
                      .low = f->values ? 8 : f->q.low.bits,
                      .high = f->values ? 0 : f->q.high.bits,
                      .bias = f->values ? -128 : f->q.bias,
                      .groups = groups,
                      .numbers = f->pitch ? groups : 1,
                      .step = step < BLOCK_UNIT ? step : BLOCK_UNIT};
    const int64_t each = s->rank > 3 ? s->dim[1] : p.columns;
    if (s->rank > 3 ? each % (lanes * beside) == 0 : each > lanes * (beside - 1))
        p.beside = beside;
    place_parts(&p);
    return p;
}

// --- constants -----------------------------------------------------------------------------------

typedef struct Filling {
    PackedBlocks p;
    const unsigned char *data;
} Filling;

// The entries of a plane for all elements of a block.
static void spread(const BlockPlane *p, const unsigned char *block, int64_t elements, unsigned char *out)
{
    const unsigned char *from = block + p->at;
    const unsigned char mask = (unsigned char)((1 << p->bits) - 1);
    rlx_assert(p->first == 0 && p->part == 0);
    for (int64_t e = 0; e < elements; from += p->run)
        for (uint32_t shift = 0; shift < 8 && e < elements; shift += p->bits, e += p->run)
            for (uint32_t i = 0; i < p->run; i++)
                out[e + i] = (unsigned char)(from[i] >> shift & mask);
}

// The bytes of the words of a unit, `bits` of each element: elements that share a byte lie 4 * bits apart.
static void fold_unit(const unsigned char *element, uint32_t bits, unsigned char *out)
{
    const uint32_t n = 4 * bits;
    for (uint32_t i = 0; i < n; i++)
        out[i] = element[i];
    for (uint32_t part = 1; part < 8 / bits; part++)
        for (uint32_t i = 0; i < n; i++)
            out[i] = (unsigned char)(out[i] | element[part * n + i] << (bits * part));
}

// All words of a block, in the order of a lane's.
static void fill_words(const PackedBlocks *p, const unsigned char *block, unsigned char *out)
{
    const BlockFormat *f = p->f;
    unsigned char low[BLOCK_GROUP_MOST], high[BLOCK_GROUP_MOST];
    rlx_assert(f->elements <= BLOCK_GROUP_MOST);
    spread(&f->q.low, block, f->elements, low);
    for (int64_t e = 0; e < f->elements && f->values; e++)
        low[e] = (unsigned char)(f->values[low[e]] + 128);
    for (int64_t e = 0; e < f->elements && f->q.flip && !f->values; e++)
        low[e] ^= f->q.flip;
    if (p->high)
        spread(&f->q.high, block, f->elements, high);
    for (int64_t u = 0; u < p->units; u++, out += n_words(p) * 4) {
        fold_unit(low + u * BLOCK_UNIT, p->low, out);
        if (p->high)
            fold_unit(high + u * BLOCK_UNIT, p->high, out + p->low * 4);
    }
}

static void fill_entry(const PackedBlocks *p, BlockPart part, const unsigned char *block, uint32_t i,
                       unsigned char *to)
{
    const BlockFormat *f = p->f;
    const uint8_t at = part == BLOCK_M ? f->m_at : f->d_at;
    rlx_assert(part != BLOCK_WORDS);
    if (part == BLOCK_SCALES || part == BLOCK_MINS) {
        *to = (unsigned char)block_field(part == BLOCK_MINS ? &f->min : &f->scale, block, i);
    } else if (f->float_kind != BLOCK_E8M0) {
        memcpy(to, block + at + i * f->pitch, block_float_bytes(f->float_kind));
    } else {
        const float v = (float)block_number(f, block, at, i);
        memcpy(to, &v, sizeof v);
    }
}

// Block b of a column: a lane of a record.
static void fill_lane(const Filling *c, int64_t column, int64_t b, int64_t v, int64_t lane, unsigned char *to)
{
    const PackedBlocks *p = &c->p;
    const unsigned char *block = c->data + (column * p->blocks + b) * p->f->bytes;
    const int64_t per = n_words(p);
    unsigned char words[BLOCK_GROUP_MOST];
    fill_words(p, block, words);
    for (int64_t u = 0; u < p->units; u++)
        for (int64_t w = 0; w < per; w++) {
            const int64_t entry = (u * p->beside + v) * per + w;
            memcpy(to + (entry * p->lanes + lane) * 4, words + (u * per + w) * 4, 4);
        }
    for (BlockPart part = BLOCK_WORDS + 1; part < BLOCK_PARTS; part++) {
        const int64_t n = blocks_packed_entries(p, part), width = blocks_packed_width(p, part);
        for (int64_t i = 0; i < n; i++)
            fill_entry(p, part, block, (uint32_t)i,
                       to + p->at[part] + ((i * p->beside + v) * p->lanes + lane) * width);
    }
}

static void fill(const void *ctx, void *out)
{
    const Filling *c = ctx;
    const PackedBlocks *p = &c->p;
    const int64_t records = blocks_packed_records(p), wide = p->beside * p->lanes;
    unsigned char *to = out;
    for (int64_t r = 0; r < records; r++)
        for (int64_t b = 0; b < p->blocks; b++, to += p->record)
            for (int64_t i = 0; i < wide; i++) {
                const int64_t at = r * wide + i, column = at < p->columns ? at : p->columns - 1;
                fill_lane(c, column, b, i / p->lanes, i % p->lanes, to);
            }
}

// --- parameters ----------------------------------------------------------------------------------

typedef struct PackPoint {
    KRef block;            // index of its first byte
    PackedPlace at;        // where it goes
    KRef lane;
    const uint32_t *param; // the records to write, by part
} PackPoint;

// Index of the first lane of an entry: `sub` of those together, number i.
static KRef entry_index(Kernel *k, const PackedBlocks *p, BlockPart part, const PackedPlace *at, KRef i,
                        KRef sub)
{
    const int64_t width = blocks_packed_width(p, part), per = n_together(p, part) * p->lanes;
    const KRef vector = k_expr(k, "($ * # + $) * #", i, p->beside, at->vector, per);
    const KRef base = k_expr(k, "$ * # + #", at->record, p->record / width, p->at[part] / width);
    return k_expr(k, "$ + ($ + $ * #)", base, vector, sub, p->lanes);
}

static void store_entry(Kernel *k, const PackedBlocks *p, BlockPart part, const PackPoint *at, KRef i,
                        KRef sub, KRef value)
{
    const KRef to = k_add(k, entry_index(k, p, part, &at->at, i, sub), at->lane);
    k_store(k, at->param[part], to, k_cast(k, value, part_type(p, part)), 1);
}

static KRef low_entry(Kernel *k, const BlockReader *r, KRef block, KRef e)
{
    if (r->f->values)
        return k_add(k, blocks_q(k, r, block, e), k_integer(k, DTYPE_i32, 128));
    const KRef bits = blocks_entry(k, r, &r->f->q.low, block, e);
    return r->f->q.flip ? k_xor(k, bits, k_integer(k, DTYPE_i32, r->f->q.flip)) : bits;
}

// All words of the low or the high bits.
static void pack_words(Kernel *k, const PackedBlocks *p, const BlockReader *r, const PackPoint *at,
                       bool is_low)
{
    const int64_t bits = is_low ? p->low : p->high, skipped = is_low ? 0 : p->low;
    const KRef unit = k_loop(k, p->units, KFOR_SERIAL, "u");
    const KRef w = k_loop(k, bits, KFOR_SERIAL, "w");
    const KRef word = k_var(k, k_integer(k, DTYPE_i32, 0), "word");
    const KRef part = k_loop(k, 8 / bits, KFOR_SERIAL, "p");
    const KRef j = k_loop(k, 4, KFOR_SERIAL, "j");
    const KRef e = k_expr(k, "$ * # + ($ * # + ($ * 4 + $))", unit, BLOCK_UNIT, part, 4 * bits, w, j);
    const KRef v = is_low ? low_entry(k, r, at->block, e) : blocks_entry(k, r, &r->f->q.high, at->block, e);
    const KRef shift = k_cast(k, k_expr(k, "$ * 8 + $ * #", j, part, bits), DTYPE_i32);
    k_set(k, word, k_or(k, k_get(k, word), k_shl(k, v, shift)));
    k_ends(k, 2);
    store_entry(k, p, BLOCK_WORDS, at, unit, k_expr(k, "$ + #", w, skipped), k_get(k, word));
    k_ends(k, 2);
}

static void pack_entries(Kernel *k, const PackedBlocks *p, const BlockReader *r, const PackPoint *at,
                         BlockPart part)
{
    const BlockFormat *f = p->f;
    const KRef g = k_loop(k, blocks_packed_entries(p, part), KFOR_SERIAL, "g");
    const KRef v = part == BLOCK_SCALES || part == BLOCK_MINS
                       ? blocks_field(k, r, part == BLOCK_MINS ? &f->min : &f->scale, at->block, g)
                       : blocks_number(k, r, at->block, part == BLOCK_M ? f->m_at : f->d_at, g);
    store_entry(k, p, part, at, g, k_index(k, 0), v);
    k_end(k);
}

static void pack_block(Kernel *k, const PackedBlocks *p, const BlockReader *r, const PackPoint *at)
{
    pack_words(k, p, r, at, true);
    if (p->high)
        pack_words(k, p, r, at, false);
    for (BlockPart part = BLOCK_WORDS + 1; part < BLOCK_PARTS; part++)
        if (blocks_packed_entries(p, part) > 0)
            pack_entries(k, p, r, at, part);
}

static int64_t all_bytes(const PackedBlocks *p)
{
    return blocks_packed_records(p) * p->blocks * p->record;
}

// The other parts as views of the records, the words.
static void view_parts(Lower *l, PackedBlocks *p)
{
    const uint32_t words = p->param[BLOCK_WORDS];
    const BufId records = l->pk->args.data[words].buf;
    for (BlockPart part = BLOCK_WORDS + 1; part < BLOCK_PARTS; part++) {
        if (blocks_packed_entries(p, part) == 0)
            continue;
        p->param[part] = lower_param_buffer(l, records, part_type(p, part), PARAM_READ);
        l->k->params.data[p->param[part]].table = l->k->params.data[words].table;
    }
}

// By a kernel of its own, which writes a lane at a time.
static uint32_t pack_lasting(Lower *l, const PackedBlocks *p, NodeId weight)
{
    Packer packer;
    uint32_t param[BLOCK_PARTS] = {0};
    packer_open(l, weight, DTYPE_i32, (uint64_t)all_bytes(p) / 4, &packer);
    Kernel *k = packer.l.k;
    for (BlockPart part = BLOCK_WORDS; part < BLOCK_PARTS; part++)
        if (blocks_packed_entries(p, part) > 0)
            param[part] = part == BLOCK_WORDS ? packer.to
                                              : lower_param_view(&packer.l, packer.to, part_type(p, part));
    const BlockReader r = blocks_reader(&packer.l, p->f, weight);
    const KRef record = k_loop(k, blocks_packed_records(p), KFOR_PARALLEL, "r");
    const KRef vector = k_loop(k, p->beside, KFOR_SERIAL, "v");
    const KRef lane = k_loop(k, p->lanes, KFOR_SERIAL, "l");
    const KRef b = k_loop(k, p->blocks, KFOR_SERIAL, "b");
    const KRef first = k_expr(k, "($ * # + $) * #", record, p->beside, vector, p->lanes);
    const KRef column = k_expr(k, "min($ + $, #)", first, lane, p->columns - 1);
    const Shape *s = lower_node(l, weight)->shape;
    const KRef each = k_index(k, s->dim[s->rank - 3]), zero = k_index(k, 0), rows[3] = {column, b, zero},
               idx[4] = {k_div(k, column, each), k_rem(k, column, each), b, zero};
    const PackPoint at = {.block = operand_index(&packer.l, weight, s->rank > 3 ? idx : rows),
                          .at = {k_expr(k, "$ * # + $", record, p->blocks, b), vector},
                          .lane = lane,
                          .param = param};
    pack_block(k, p, &r, &at);
    k_ends(k, 4);
    packer_close(l, &packer);
    return packer.reader;
}

const PackedBlocks *blocks_packed_in(const PlanBuffer *b, const unsigned char **data)
{
    const Filling *c = b->fill_ctx;
    if (b->fill != fill)
        return NULL;
    *data = c->data;
    return &c->p;
}

// The address of the blocks, which lie in a file that is mapped once, and a hash of the layout.
static void note_source(PlanBuffer *b, const Filling *c)
{
    const PackedBlocks *p = &c->p;
    const int64_t layout[] = {p->columns, p->blocks, p->lanes, p->beside, p->record, p->f->bytes};
    const uint64_t of_name = hash_bytes64(p->f->name, strlen(p->f->name), 1);
    b->made_of[0] = (uint64_t)(uintptr_t)c->data;
    b->made_of[1] = hash_bytes64(layout, sizeof layout, of_name);
}

bool blocks_can_pack(const Lower *l, NodeId weight)
{
    rlx_assert(weight != 0);
    return node_is_const(l->g, weight) || packer_can_pack(l, weight);
}

static bool is_same(const Filling *a, const Filling *b)
{
    const PackedBlocks *p = &a->p, *q = &b->p;
    return a->data == b->data && strcmp(p->f->name, q->f->name) == 0 && p->columns == q->columns &&
           p->blocks == q->blocks && p->lanes == q->lanes && p->beside == q->beside;
}

// What another kernel of the plan reads may be the same; 0: none does.
static BufId find_packed(const Lower *l, const Filling *c)
{
    for (BufId b = 1; b < l->plan->buffers.len; b++) {
        const PlanBuffer *buffer = &l->plan->buffers.data[b];
        if (buffer->region == REGION_WEIGHTS && buffer->fill == fill && is_same(buffer->fill_ctx, c))
            return b;
    }
    return 0;
}

static uint32_t pack(Lower *l, const PackedBlocks *p, NodeId weight, const Experts *of)
{
    if (!node_is_const(l->g, weight))
        return pack_lasting(l, p, weight);
    const uint64_t bytes = (uint64_t)all_bytes(p);
    Filling *c = ARENA_NEW(l->pass->perm, Filling);
    *c = (Filling){.p = *p, .data = node_attr(lower_node(l, weight), A_const_data)->u.blob};
    const uint64_t experts = of != NULL ? (uint64_t)of->n_experts : 1;
    const GemmPack all = {fill, c, .stride = bytes / experts, .bytes = bytes};
    const char *name = node_name(l->g, weight);
    const BufId made = of != NULL ? 0 : find_packed(l, c);
    if (made != 0)
        return lower_param_buffer(l, made, DTYPE_i32, PARAM_READ);
    const uint32_t param = of != NULL ? experts_place(l, of, DTYPE_i32, &all)
                                      : lower_param_filled(l, name, DTYPE_i32, fill, c, bytes);
    PlanBuffer *b = &l->plan->buffers.data[l->pk->args.data[param].buf];
    if (l->g->reads != NULL) // the program packs it
        note_source(b, c);
    return param;
}

PackedBlocks blocks_pack(Lower *l, const BlockFormat *f, NodeId weight, uint8_t lanes, uint8_t beside,
                         const Experts *of)
{
    rlx_assert(lanes > 1 && beside >= 1 && blocks_can_pack(l, weight));
    PackedBlocks p = layout_of(l, f, weight, lanes, beside, of != NULL ? of->n_experts : 1);
    p.param[BLOCK_WORDS] = pack(l, &p, weight, of);
    view_parts(l, &p);
    return p;
}

void blocks_packed_point(Kernel *k, const PackedBlocks *p, KRef e)
{
    rlx_assert(e != 0);
    for (BlockPart part = BLOCK_WORDS; part < BLOCK_PARTS; part++)
        if (blocks_packed_entries(p, part) > 0)
            k_point(k, p->param[part], e,
                    k_expr(k, "$ * #", e, all_bytes(p) / p->experts / blocks_packed_width(p, part)));
}

// --- reading -------------------------------------------------------------------------------------

PackedPlace blocks_packed_place(Kernel *k, const PackedBlocks *p, KRef vector, KRef block)
{
    rlx_assert(vector != 0 && block != 0);
    if (p->beside == 1)
        return (PackedPlace){.record = k_expr(k, "$ * # + $", vector, p->blocks, block),
                             .vector = k_index(k, 0)};
    return (PackedPlace){.record = k_expr(k, "$ / # * # + $", vector, p->beside, p->blocks, block),
                         .vector = k_expr(k, "$ % #", vector, p->beside)};
}

PackedPlace blocks_packed_lane(Kernel *k, const PackedBlocks *p, KRef row, KRef block)
{
    PackedPlace at = blocks_packed_place(k, p, k_expr(k, "$ / #", row, p->lanes), block);
    at.lane = k_expr(k, "$ % #", row, p->lanes);
    return at;
}

static KRef load_entry(Kernel *k, const PackedBlocks *p, BlockPart part, const PackedPlace *at, KRef i,
                       int64_t sub)
{
    const KRef index = entry_index(k, p, part, at, i, k_index(k, sub));
    if (at->lane != 0)
        return k_load(k, p->param[part], k_add(k, index, at->lane), 1, 1);
    return k_load(k, p->param[part], index, p->lanes, p->lanes);
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

static PackedNumbers load_numbers(Kernel *k, const PackedBlocks *p, const PackedPlace *at, KRef g)
{
    PackedNumbers n = {.d = k_cast(k, load_entry(k, p, BLOCK_D, at, g, 0), DTYPE_f32)};
    if (p->f->min.sign)
        n.m = k_cast(k, load_entry(k, p, BLOCK_M, at, g, 0), DTYPE_f32);
    return n;
}

PackedNumbers blocks_packed_numbers(Kernel *k, const PackedBlocks *p, const PackedPlace *at)
{
    return p->numbers == 1 ? load_numbers(k, p, at, k_index(k, 0)) : (PackedNumbers){0};
}

// In as many lanes as the other value has.
static KRef as_wide(Kernel *k, KRef value, KRef as)
{
    const uint8_t lanes = k_inst(k, as)->lanes;
    return lanes > 1 ? k_splat(k, value, lanes) : value;
}

// A number times the integer of group g.
static KRef scaled(Kernel *k, const PackedBlocks *p, BlockPart part, KRef number, const PackedPlace *at,
                   KRef g)
{
    const KRef i = load_entry(k, p, part, at, g, 0);
    return k_mul(k, number, k_cast(k, k_cast(k, i, DTYPE_i32), DTYPE_f32));
}

static PackedGroup own_group(Kernel *k, const PackedBlocks *p, const PackedUnit *u, int64_t first)
{
    const int64_t before = u->turn * BLOCK_UNIT, g = (before + first) / p->f->group;
    const int64_t end = (g + 1) * p->f->group - before;
    const PackedNumbers own = load_numbers(k, p, &u->at, k_index(k, g));
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
                         .scale = f->scale.low.bits ? scaled(k, p, BLOCK_SCALES, n->d, &u->at, g) : n->d};
    if (f->min.sign)
        group.add = f->min.low.bits ? scaled(k, p, BLOCK_MINS, n->m, &u->at, g) : n->m;
    else if (p->bias) // exact, like every product of an element's integers
        group.add = k_mul(k, group.scale, as_wide(k, k_number(k, DTYPE_f32, p->bias), group.scale));
    return group;
}

void blocks_packed_words(Kernel *k, const PackedBlocks *p, const PackedUnit *u, KRef *words)
{
    rlx_assert(u->at.record != 0 && u->unit != 0 && n_words(p) <= BLOCK_MAX_WORDS);
    for (int64_t i = 0; i < n_words(p); i++)
        words[i] = load_entry(k, p, BLOCK_WORDS, &u->at, u->unit, i);
}

// Moved right by `bits`, or left where they are less than 0, and masked.
static KRef moved(Kernel *k, KRef word, int64_t bits, int64_t mask)
{
    const KRef by = k_integer(k, DTYPE_i32, bits > 0 ? bits : -bits), kept = k_integer(k, DTYPE_i32, mask);
    if (bits != 0)
        word = k_op(k, bits > 0 ? KOP_shr : KOP_shl, word, as_wide(k, by, word), 0);
    return k_and(k, word, as_wide(k, kept, word));
}

KRef blocks_packed_quad(Kernel *k, const PackedBlocks *p, const KRef *words, int64_t t)
{
    rlx_assert(t >= 0 && p->low + p->high <= 8);
    const int64_t bytes = 0x01010101, low = ((1 << p->low) - 1) * bytes;
    if (p->low == 8)
        return words[t];
    const KRef v = moved(k, words[t % p->low], p->low * (t / p->low), low);
    if (p->high == 0)
        return v;
    const int64_t high = (((1 << p->high) - 1) << p->low) * bytes;
    const KRef above = moved(k, words[p->low + t % p->high], p->high * (t / p->high) - p->low, high);
    return k_or(k, v, above);
}

KRef blocks_packed_bits(Kernel *k, const PackedBlocks *p, const KRef *words, int64_t i, int64_t at)
{
    rlx_assert(i >= 0 && i < BLOCK_UNIT && at >= 0);
    const int64_t mask = ((int64_t)1 << (p->low + p->high)) - 1;
    if (p->high == 0) {
        const int64_t part = i / (4 * p->low), w = i % (4 * p->low) / 4;
        return moved(k, words[w], 8 * (i % 4) + p->low * part - at, mask << at);
    }
    return moved(k, blocks_packed_quad(k, p, words, i / 4), 8 * (i % 4) - at, mask << at);
}

KRef blocks_packed_value(Kernel *k, const PackedBlocks *p, const KRef *words, const PackedGroup *g, int64_t i)
{
    rlx_assert(g->scale != 0);
    const KRef q = k_cast(k, blocks_packed_bits(k, p, words, i, 0), DTYPE_f32);
    return g->add ? k_fma(k, q, g->scale, g->add) : k_mul(k, q, g->scale);
}
