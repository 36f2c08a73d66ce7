// SPDX-License-Identifier: Apache-2.0
// Formats of packed blocks, and layouts of panels, as tables for runtime-lite/load. Those of blocks say of
// each word in a record which bits of which bytes of the block it has. They are derived from the table of
// formats, so that no format has code of its own.
#include "compiler/load/load.h"

enum { MOST_LANES = 64 }; // RLX_LOAD_LANES

typedef struct Piece {
    uint32_t word, at, right, left;
    uint32_t mask;
} Piece;
typedef VEC(Piece) Pieces;

// Pieces of one word that are moved equally are one.
static void add_piece(Arena *a, Pieces *list, Piece p)
{
    for (uint32_t i = list->len; i-- > 0 && list->data[i].word == p.word;) {
        Piece *q = &list->data[i];
        if (q->at == p.at && q->right == p.right && q->left == p.left) {
            q->mask |= p.mask;
            return;
        }
    }
    vec_push(a, list, p);
}

// Bits of an element: those of its plane go to bit `to` of a word.
static void add_element(Arena *a, const PackedBlocks *p, const BlockPlane *plane, uint32_t e, uint32_t word,
                        uint32_t to, Pieces *list)
{
    const BlockPlace bit = block_place(plane, e);
    const uint32_t most = p->f->bytes - 4u, byte_of = to / 8, bits = (1u << plane->bits) - 1;
    uint32_t at = bit.byte > byte_of ? bit.byte - byte_of : 0;
    at = at > most ? most : at;
    const uint32_t from = 8 * (bit.byte - at) + bit.shift;
    rlx_assert(bit.byte >= at && from < 32);
    if (p->f->values != NULL)
        vec_push(a, list, ((Piece){word, at, from, to, bits}));
    else
        add_piece(a, list,
                  (Piece){word, at, from > to ? from - to : 0, to > from ? to - from : 0, bits << to});
}

// The words of a unit that have `bits` of each element: elements that share a byte lie 4 * bits apart.
static void add_plane(Arena *a, const PackedBlocks *p, const BlockPlane *plane, uint32_t bits, uint32_t unit,
                      uint32_t first_word, Pieces *list)
{
    for (uint32_t w = 0; w < bits; w++)
        for (uint32_t part = 0; part < 8 / bits; part++)
            for (uint32_t byte = 0; byte < 4; byte++)
                add_element(a, p, plane, unit * BLOCK_UNIT + part * 4 * bits + 4 * w + byte, first_word + w,
                            8 * byte + bits * part, list);
}

static Pieces find_pieces(Arena *a, const PackedBlocks *p)
{
    Pieces list = {0};
    for (uint32_t u = 0; u < p->units; u++) {
        const uint32_t word = u * (p->low + p->high);
        add_plane(a, p, &p->f->q.low, p->low, u, word, &list);
        if (p->high != 0)
            add_plane(a, p, &p->f->q.high, p->high, u, word + p->low, &list);
    }
    return list;
}

// Bytes that stand for values have as many bits as what they stand for, and more than the plane has.
static void emit_words(const PackedBlocks *p, uint32_t number, Str *out)
{
    const Pieces list = find_pieces(out->arena, p);
    str_printf(out, "static const rlx_load_piece load_pieces%u[%u] = {", number, list.len);
    for (uint32_t i = 0; i < list.len; i++)
        str_printf(out, "%s{%u, %u, %u, 0x%xu}", i == 0 ? "\n    " : i % 4 == 0 ? ",\n    " : ", ",
                   list.data[i].at, list.data[i].right, list.data[i].left, list.data[i].mask);
    str_printf(out, "};\nstatic const uint16_t load_ends%u[] = {", number);
    for (uint32_t i = 0; i < list.len; i++)
        if (i + 1 == list.len || list.data[i + 1].word != list.data[i].word)
            str_printf(out, "%s%u", list.data[i].word == 0 ? "" : ", ", i + 1);
    str_add(out, "};\n");
    if (p->f->values == NULL)
        return;
    str_printf(out, "static const unsigned char load_values%u[16] = {", number);
    for (uint32_t i = 0; i < 16; i++)
        str_printf(out, "%s%d", i == 0 ? "" : ", ", p->f->values[i] + 128);
    str_add(out, "};\n");
}

static void emit_fields(const PackedBlocks *p, const BlockField *f, const char *name, uint32_t number,
                        Str *out)
{
    str_printf(out, "static const rlx_load_field load_%s%u[%lld] = {", name, number, (long long)p->groups);
    for (uint32_t g = 0; g < p->groups; g++) {
        const BlockPlace low = block_place(&f->low, g);
        const BlockPlace high = f->high.bits != 0 ? block_place(&f->high, g) : (BlockPlace){0};
        str_printf(out, "%s{%u, %u, %u, %u, %u, %u, %u, %u, %d, %d}", g == 0 ? "\n    " : ",\n    ",
                   low.byte, high.byte, low.shift, (1u << f->low.bits) - 1, high.shift,
                   (1u << f->high.bits) - 1, f->low.bits, f->flip, f->bias, f->sign);
    }
    str_add(out, "};\n");
}

void load_emit_format(const PackedBlocks *p, uint32_t i, Str *out)
{
    rlx_assert(p->lanes <= MOST_LANES && p->f->pitch == 0 && p->f->bytes >= 4);
    rlx_assert(p->f->q.flip == 0 || p->high == 0);
    emit_words(p, i, out);
    if (blocks_packed_entries(p, BLOCK_SCALES) != 0)
        emit_fields(p, &p->f->scale, "scales", i, out);
    if (blocks_packed_entries(p, BLOCK_MINS) != 0)
        emit_fields(p, &p->f->min, "mins", i, out);
}

static const char *table_name(const PackedBlocks *p, BlockPart part, const char *name, uint32_t i, Arena *a)
{
    return blocks_packed_entries(p, part) != 0 ? arena_printf(a, "load_%s%u", name, i) : "NULL";
}

void load_emit_format_row(const PackedBlocks *p, uint32_t i, Str *out)
{
    const BlockFormat *f = p->f;
    const uint32_t flip = f->values == NULL ? f->q.flip * 0x01010101u : 0;
    Arena *a = out->arena;
    str_printf(out, "    {%u, %lld, %u, %u, %lld, %d, %lld, 0x%xu,", f->bytes, (long long)p->record, p->lanes,
               p->beside, (long long)p->units, p->low + p->high, (long long)p->groups, flip);
    str_printf(out, " %s, load_ends%u, load_pieces%u,",
               f->values != NULL ? arena_printf(a, "load_values%u", i) : "NULL", i, i);
    str_printf(out, " %d, %d, %u, %u, %lld, %lld, %lld, %lld,", blocks_packed_entries(p, BLOCK_M) != 0,
               f->float_kind == BLOCK_E8M0, f->d_at, f->m_at, (long long)p->at[BLOCK_D],
               (long long)p->at[BLOCK_M], (long long)p->at[BLOCK_SCALES], (long long)p->at[BLOCK_MINS]);
    str_printf(out, " %s, %s}, // %s\n", table_name(p, BLOCK_SCALES, "scales", i, a),
               table_name(p, BLOCK_MINS, "mins", i, a), f->name);
}

void load_emit_layout_row(const GemmPacked *p, Str *out)
{
    str_printf(out, "    {%u, %u, %lld, %lld, %lld, %lld, %lld, %lld, %lluu, {", dtype_info[p->type].bytes,
               p->panels.n, (long long)p->k, (long long)p->steps, (long long)p->b_k, (long long)p->b_col,
               (long long)p->n_matrices, (long long)p->matrix, (unsigned long long)p->stride);
    for (uint32_t i = 0; i < p->panels.n; i++) {
        const GemmRun *r = &p->panels.run[i];
        str_printf(out, "%s{%lld, %lld, %lld, %lld, %lld}", i == 0 ? "" : ", ", (long long)r->first,
                   (long long)r->width, (long long)r->count, (long long)r->real, (long long)p->group[i]);
    }
    str_add(out, "}},\n");
}
