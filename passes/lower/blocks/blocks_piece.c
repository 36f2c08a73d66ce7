// SPDX-License-Identifier: Apache-2.0
// Pieces of blocks in shared memory, 32 elements of a thread, and their products with x in registers: how the
// planes of a format (blocks.def) become words, integers and floats. Integers become floats without a
// conversion: their bits are or'ed into the mantissa of 2^23 (`magic`), which is subtracted again, exactly.
#include "passes/lower/blocks/blocks_team.h"

enum { MAGIC_BITS = 23 };

// --- numbers -------------------------------------------------------------------------------------

static KRef whole(const Team *t, uint32_t v)
{
    return k_integer(t->l->k, DTYPE_u32, v);
}

static KRef down(const Team *t, KRef a, int64_t bits)
{
    return bits ? team_op(t, KOP_shr, a, whole(t, (uint32_t)bits)) : a;
}

static bool is_power_of_two(int64_t v)
{
    return (v & (v - 1)) == 0;
}

KRef team_div(const Team *t, KRef a, int64_t b)
{
    rlx_assert(b >= 1);
    Kernel *k = t->l->k;
    if (b == 1)
        return a;
    if (!is_power_of_two(b))
        return k_expr(k, "$ / #", a, b);
    return k_shr(k, a, k_index(k, __builtin_ctzll((unsigned long long)b)));
}

KRef team_rem(const Team *t, KRef a, int64_t b)
{
    rlx_assert(b >= 1);
    Kernel *k = t->l->k;
    return k_op(k, is_power_of_two(b) ? KOP_and : KOP_rem, a, k_index(k, is_power_of_two(b) ? b - 1 : b), 0);
}

// A word shifted right by a number of bits that is a value below 32.
static KRef down_by(const Team *t, KRef word, KRef bits)
{
    return team_op(t, KOP_shr, word, team_op(t, KOP_and, k_cast(t->l->k, bits, DTYPE_u32), whole(t, 31)));
}

// The unsigned integer in `bits` bits of a word from bit `at` on, plus `add`, as a float.
static KRef field_float(const Team *t, KRef word, int64_t at, int64_t bits, double add)
{
    int64_t moved = 0;
    while (at - moved + bits > MAGIC_BITS)
        moved += 8;
    at -= moved;
    rlx_assert(at >= 0);
    const KRef kept = team_op(t, KOP_and, down(t, word, moved), whole(t, ((1u << bits) - 1) << at));
    const KRef v = k_bitcast(t->l->k, team_op(t, KOP_or, kept, t->magic), DTYPE_f32);
    const double scale = 1.0 / (double)(1 << at), offset = add - (double)(1 << MAGIC_BITS) * scale;
    return at == 0 ? team_op(t, KOP_add, v, team_number(t, offset))
                   : k_fma(t->l->k, v, team_number(t, scale), team_number(t, offset));
}

// --- blocks in shared memory ---------------------------------------------------------------------

static KRef word_at(const Team *t, KRef from, int64_t i)
{
    return k_aload(t->l->k, t->tile, k_expr(t->l->k, "$ + #", from, i), 1);
}

// Four bytes from byte `at` behind word `from` on.
static KRef bytes_at(const Team *t, KRef from, int64_t at)
{
    const KRef low = word_at(t, from, at / WORD);
    const int64_t bits = at % WORD * 8;
    if (bits == 0)
        return low;
    const KRef high = team_op(t, KOP_shl, word_at(t, from, at / WORD + 1), whole(t, (uint32_t)(32 - bits)));
    return team_op(t, KOP_or, down(t, low, bits), high);
}

// Byte `at` + moved, in the lowest bits.
static KRef byte_at(const Team *t, KRef from, int64_t at, KRef moved)
{
    Kernel *k = t->l->k;
    const KRef place = k_expr(k, "$ + #", moved, at);
    const KRef word = k_aload(k, t->tile, k_add(k, from, team_div(t, place, WORD)), 1);
    const KRef bits = k_expr(k, "$ * 8", team_rem(t, place, WORD));
    return down_by(t, word, bits);
}

// d or m.
static KRef number_at(const Team *t, KRef from, int64_t at)
{
    Kernel *k = t->l->k;
    const KRef low = down(t, word_at(t, from, at / WORD), at % WORD * 8);
    const BlockFloat kind = t->f->float_kind;
    if (kind == BLOCK_F32)
        return k_bitcast(k, low, DTYPE_f32);
    if (kind == BLOCK_BF16)
        return k_bitcast(k, team_op(t, KOP_shl, low, whole(t, 16)), DTYPE_f32);
    if (kind == BLOCK_F16) {
        const KRef half = k_cast(k, team_op(t, KOP_and, low, whole(t, 0xffff)), DTYPE_u16);
        return k_cast(k, k_bitcast(k, half, DTYPE_f16), DTYPE_f32);
    }
    const KRef e = team_op(t, KOP_and, low, whole(t, 0xff));
    const KRef small = team_op(t, KOP_shl, whole(t, 0x00200000), e),
               plain = team_op(t, KOP_shl, team_op(t, KOP_sub, e, whole(t, 1)), whole(t, MAGIC_BITS));
    return k_bitcast(k, k_select(k, team_op(t, KOP_lt, e, whole(t, 2)), small, plain), DTYPE_f32);
}

// Entry g of a plane, whose number is a value.
static KRef entry_at(const Team *t, const BlockPlane *p, KRef from, int64_t skew, KRef g)
{
    Kernel *k = t->l->k;
    KRef e = g;
    if (p->part)
        e = k_expr(k, "$ * # + $", team_div(t, g, p->part), p->step, team_rem(t, g, p->part));
    e = k_expr(k, "$ + #", e, p->first);
    const KRef place = k_expr(k, "$ * # + $", team_div(t, e, team_span(p)), p->run, team_rem(t, e, p->run));
    const KRef byte = byte_at(t, from, skew + p->at, place);
    if (p->bits == 8)
        return team_op(t, KOP_and, byte, whole(t, 0xff));
    const KRef part = team_div(t, team_rem(t, e, team_span(p)), p->run);
    const KRef bits = k_expr(k, "$ * #", part, p->bits);
    return team_op(t, KOP_and, down_by(t, byte, bits), whole(t, (1u << p->bits) - 1));
}

// Entries 4 q to 4 q + 3 of a plane, a byte each.
static KRef quad_at(const Team *t, const BlockPlane *p, KRef from, int64_t skew, int64_t q)
{
    const int64_t g = 4 * q, e = p->first + (p->part ? g / p->part * p->step + g % p->part : g);
    const KRef bytes = bytes_at(t, from, skew + p->at + e / team_span(p) * p->run + e % p->run);
    return team_op(t, KOP_and, down(t, bytes, e % team_span(p) / p->run * p->bits),
               whole(t, ((1u << p->bits) - 1) * 0x01010101u));
}

static bool has_quads(const BlockPlane *p)
{
    return p->bits != 0 && p->run % 4 == 0 && p->part % 4 == 0 && p->first % 4 == 0;
}

// The integer that belongs to group g + add of a block, g being even for two groups of a piece: a float.
static KRef group_field(const Team *t, const BlockField *f, const Piece *piece, KRef from, KRef g,
                        int64_t add)
{
    Kernel *k = t->l->k;
    const int64_t bits = f->low.bits + f->high.bits;
    KRef v = 0;
    double sum = f->bias;
    int64_t at = 0;
    if (has_quads(&f->low) && has_quads(&f->high) && t->f->elements / t->f->group == 8) {
        KRef quad[2];
        for (int64_t q = 0; q < 2; q++) {
            const KRef high = quad_at(t, &f->high, from, piece->skew, q);
            quad[q] = team_op(t, KOP_or, quad_at(t, &f->low, from, piece->skew, q),
                              team_op(t, KOP_shl, high, whole(t, f->low.bits)));
        }
        const KRef is_first = team_op(t, KOP_lt, g, k_index(k, 4));
        const KRef moved = k_expr(k, "$ * 8", team_rem(t, g, 4));
        v = down_by(t, k_select(k, is_first, quad[0], quad[1]), moved);
        at = 8 * add;
    } else {
        const KRef number = k_expr(k, "$ + #", g, add);
        v = entry_at(t, &f->low, from, piece->skew, number);
        if (f->high.bits) {
            const KRef high = entry_at(t, &f->high, from, piece->skew, number);
            v = team_op(t, KOP_or, v, team_op(t, KOP_shl, high, whole(t, f->low.bits)));
        }
    }
    if (f->flip)
        v = team_op(t, KOP_xor, v, whole(t, f->flip));
    const KRef q = field_float(t, v, at, bits, sum);
    return f->sign < 0 ? k_neg(k, q) : q;
}

// A number of the block, or of group g + add itself, times the integer of that group.
static KRef group_number(const Team *t, const BlockField *f, uint8_t at, const Piece *piece, KRef from,
                         KRef g, int64_t add)
{
    Kernel *k = t->l->k;
    if (t->f->pitch)
        from = k_expr(k, "($ + #) * # + $", g, add, t->f->pitch / WORD, from);
    const KRef number = number_at(t, from, piece->skew + at);
    if (f->low.bits == 0)
        return f->sign < 0 ? k_neg(k, number) : number;
    return team_op(t, KOP_mul, number, group_field(t, f, piece, from, g, add));
}

// --- decoding ------------------------------------------------------------------------------------

// Two bits above the low ones of four elements: byte w of the piece's run, segment s; in place.
static KRef high_quad(const Team *t, const Piece *piece, KRef from, int64_t w, int64_t s)
{
    Kernel *k = t->l->k;
    const BlockPlane *low = &t->f->q.low, *high = &t->f->q.high;
    const int64_t run = high->run, at = piece->skew + high->at, element = WORD * w + s * low->run;
    if (high->bits * run == 1) { // a bit for each element, in order
        const KRef bits = team_op(t, KOP_and, down(t, bytes_at(t, from, at), element), whole(t, 15));
        const KRef spread = team_op(t, KOP_mul, bits, whole(t, 0x00204081));
        const KRef each = team_op(t, KOP_and, spread, whole(t, 0x01010101));
        return team_op(t, KOP_shl, each, whole(t, low->bits));
    }
    KRef word = 0;
    int64_t moved = 0;
    const KRef begin = team_div(t, piece->first, team_span(high));
    if (run < t->length) {
        word = bytes_at(t, k_expr(k, "$ * # + $", begin, run / WORD, from), at + WORD * w % run);
        moved = element / run;
    } else {
        const KRef rest = team_rem(t, piece->first, run);
        const KRef place = k_expr(k, "$ * # + ($ + $)", begin, run / WORD, from, team_div(t, rest, WORD));
        const KRef part = team_div(t, team_rem(t, piece->first, team_span(high)), run);
        word = bytes_at(t, place, at + WORD * w);
        word = down_by(t, word, k_expr(k, "$ * #", part, high->bits));
        moved = s * low->run / run;
    }
    const uint32_t mask = ((1u << high->bits) - 1) * 0x01010101u;
    word = team_op(t, KOP_and, down(t, word, moved * high->bits), whole(t, mask));
    return team_op(t, KOP_shl, word, whole(t, low->bits));
}

// Elements 4 w to 4 w + 3 of segment s, a byte each, without the bias.
static KRef quad(const Team *t, const Piece *piece, KRef from, const KRef *words, int64_t s, int64_t w)
{
    const BlockField *q = &t->f->q;
    if (q->low.bits == 8)
        return words[w];
    const uint32_t mask = ((1u << q->low.bits) - 1) * 0x01010101u;
    const KRef low = team_op(t, KOP_and, down(t, words[w], q->low.bits * s), whole(t, mask));
    return q->high.bits ? team_op(t, KOP_or, low, high_quad(t, piece, from, w, s)) : low;
}

// Element i of segment s, without its scale.
static KRef element(const Team *t, const Piece *piece, KRef from, const KRef *words, int64_t s, int64_t i)
{
    const BlockField *q = &t->f->q;
    const int64_t bits = q->low.bits, each = 8 / bits;
    const bool is_dense = q->low.run < WORD; // the entries of a byte are neighbours
    const int64_t byte = is_dense ? i / each : i;
    int64_t at = 8 * (byte % WORD) + bits * (is_dense ? i % each : s), n = bits;
    KRef word = words[byte / WORD];
    if (q->high.bits) {
        word = quad(t, piece, from, words, s, byte / WORD);
        at = 8 * (byte % WORD);
        n += q->high.bits;
    }
    if (t->values == 0)
        return field_float(t, word, at, n, q->bias);
    const KRef number = team_op(t, KOP_and, down(t, word, at), whole(t, (1u << n) - 1));
    return k_aload(t->l->k, t->values, k_cast(t->l->k, number, KT_INDEX), 1);
}

// Products of a segment with digits: sums of bytes, which are exact, of each digit.
static KRef digit_sum(const Team *t, const Piece *piece, KRef from, const KRef *words, int64_t s)
{
    Kernel *k = t->l->k;
    const int64_t n = t->length / WORD;
    KRef sum[MAX_DIGITS];
    for (int64_t d = 0; d < t->digits; d++)
        sum[d] = k_integer(k, DTYPE_i32, 0);
    for (int64_t w = 0; w < n; w++) {
        const KRef bytes = k_cast(k, quad(t, piece, from, words, s, w), DTYPE_i32);
        for (int64_t d = 0; d < t->digits; d++)
            sum[d] = k_dot8(k, bytes, t->xr[(s * t->digits + d) * n + w], sum[d]);
    }
    KRef all = k_cast(k, sum[0], DTYPE_f32);
    for (int64_t d = 1; d < t->digits; d++)
        all = k_fma(k, all, team_number(t, 256), k_cast(k, sum[d], DTYPE_f32));
    return all;
}

void team_step_numbers(const Team *t, const Piece *piece, KRef from, int64_t ahead, KRef *scale, KRef *min)
{
    rlx_assert(piece->first != 0 && from != 0);
    Kernel *k = t->l->k;
    const BlockFormat *f = t->f;
    KRef first = piece->first;
    if (ahead % f->group != 0) { // the piece begins within a group
        first = k_expr(k, "$ + #", first, ahead);
        ahead = 0;
    }
    const KRef g = team_div(t, first, f->group);
    *scale = group_number(t, &f->scale, f->d_at, piece, from, g, ahead / f->group);
    *min = f->min.sign ? group_number(t, &f->min, f->m_at, piece, from, g, ahead / f->group) : 0;
}

static void add_digits(const Team *t, const Piece *piece, KRef from, const KRef *words, KRef to)
{
    Kernel *k = t->l->k;
    const BlockFormat *f = t->f;
    KRef acc = k_get(k, to), scale = 0, min = 0;
    for (int64_t s = 0; s < t->segments; s++) {
        team_step_numbers(t, piece, from, team_is_joined(t) ? 0 : s * f->q.low.run, &scale, &min);
        const KRef sum = digit_sum(t, piece, from, words, s);
        acc = k_fma(k, sum, team_op(t, KOP_mul, scale, t->step[s]), acc);
        const KRef rest = f->q.bias ? team_op(t, KOP_mul, scale, team_number(t, f->q.bias)) : min;
        if (rest)
            acc = k_fma(k, t->sum[s], rest, acc);
    }
    k_set(k, to, acc);
}

static void add_floats(const Team *t, const Piece *piece, KRef from, const KRef *words, KRef to)
{
    Kernel *k = t->l->k;
    const bool is_joined = team_is_joined(t);
    const KRef zero = team_number(t, 0);
    KRef acc = k_get(k, to), part = zero, scale = 0, min = 0;
    for (int64_t e = 0; e < PIECE; e++) {
        const int64_t s = e / t->length, i = e % t->length, first = i / t->same * t->same;
        part = k_fma(k, t->xr[e], element(t, piece, from, words, s, i), part);
        if ((e + 1) % (is_joined ? PIECE : t->same) != 0)
            continue;
        team_step_numbers(t, piece, from, is_joined ? 0 : s * t->f->q.low.run + first, &scale, &min);
        acc = k_fma(k, part, scale, acc);
        if (min)
            acc = k_fma(k, t->sum[team_sum(t, s, i)], min, acc);
        part = zero;
    }
    k_set(k, to, acc);
}

void team_add_piece(const Team *t, const Piece *piece, int64_t column, KRef to)
{
    rlx_assert(column >= 0 && column < t->columns);
    Kernel *k = t->l->k;
    const BlockFormat *f = t->f;
    KRef words[PIECE / WORD];
    const int64_t n = t->is_part ? PIECE / WORD : f->q.low.bits; // words with the low bits
    const KRef place = k_expr(k, "$ * # + #", t->team, t->columns, column);
    const KRef from = k_expr(k, "$ * # + $", place, t->words, piece->block);
    KRef bits_from = k_expr(k, "$ * # + $", piece->number, n, from), moved = 0;
    if (t->is_part) { // the bytes of a run are those of several pieces
        const int64_t parts = 8 / f->q.low.bits;
        const KRef number = team_rem(t, piece->number, parts);
        bits_from = k_expr(k, "$ * # + $", team_div(t, piece->number, parts), n, from);
        moved = k_expr(k, "$ * #", number, f->q.low.bits);
    }
    for (int64_t w = 0; w < n; w++) {
        words[w] = bytes_at(t, bits_from, piece->skew + f->q.low.at + WORD * w);
        if (moved)
            words[w] = down_by(t, words[w], moved);
        if (f->q.flip)
            words[w] = team_op(t, KOP_xor, words[w], whole(t, f->q.flip * 0x01010101u));
    }
    if (t->has_digits) {
        add_digits(t, piece, from, words, to);
        return;
    }
    add_floats(t, piece, from, words, to);
}

// --- whole elements ------------------------------------------------------------------------------

// Entries e to e + 3 of a plane of the elements, a byte each.
static KRef plane_quad(const Team *t, const BlockPlane *p, KRef from, int64_t skew, int64_t e)
{
    const uint32_t mask = ((1u << p->bits) - 1) * 0x01010101u;
    if (p->bits * p->run == 1) { // in order
        const KRef bits = bytes_at(t, from, skew + p->at + e / 32 * WORD);
        const KRef four = team_op(t, KOP_and, down(t, bits, e % 32), whole(t, 15));
        return team_op(t, KOP_and, team_op(t, KOP_mul, four, whole(t, 0x00204081)), whole(t, mask));
    }
    const KRef bytes = bytes_at(t, from, skew + p->at + e / team_span(p) * p->run + e % p->run);
    if (p->bits == 8)
        return bytes;
    return team_op(t, KOP_and, down(t, bytes, e % team_span(p) / p->run * p->bits), whole(t, mask));
}

void team_decode_four(const Team *t, KRef from, int64_t skew, int64_t e, KRef *out)
{
    rlx_assert(e >= 0 && e % 4 == 0);
    Kernel *k = t->l->k;
    const BlockFormat *f = t->f;
    const BlockField *q = &f->q;
    const Piece piece = {.skew = skew};
    const KRef group = k_index(k, e / f->group);
    const KRef scale = group_number(t, &f->scale, f->d_at, &piece, from, group, 0);
    const KRef min = f->min.sign ? group_number(t, &f->min, f->m_at, &piece, from, group, 0) : 0;
    const int64_t bits = q->low.bits + q->high.bits;
    KRef word = plane_quad(t, &q->low, from, skew, e);
    if (q->high.bits) {
        const KRef high = plane_quad(t, &q->high, from, skew, e);
        word = team_op(t, KOP_or, word, team_op(t, KOP_shl, high, whole(t, q->low.bits)));
    }
    if (q->flip)
        word = team_op(t, KOP_xor, word, whole(t, q->flip * 0x01010101u));
    for (int64_t i = 0; i < 4; i++) {
        KRef v = 0;
        if (t->values) {
            const KRef number = team_op(t, KOP_and, down(t, word, 8 * i), whole(t, (1u << bits) - 1));
            v = k_aload(k, t->values, k_cast(k, number, KT_INDEX), 1);
        } else {
            v = field_float(t, word, 8 * i, bits, q->bias);
        }
        out[i] = min ? k_fma(k, v, scale, min) : team_op(t, KOP_mul, v, scale);
    }
}
