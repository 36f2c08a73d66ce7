// SPDX-License-Identifier: Apache-2.0
// x as integers of three bytes for products with blocks on GPUs: an element is a whole multiple of the step
// of its unit of 32 elements, X = 65536 a + 256 b + c with signed bytes a, b and c, its digits (as
// blocks_dot.c has them on CPUs); or of two bytes or one, where --accuracy allows that. Adding 1.5 * 2^23 to
// x / step rounds it, so that X is in the lowest bits of the sum. Where an element is not finite, the step is
// NaN. Every group of threads rounds all of x: that is half of the work where it has 16 columns (on an H200,
// Q4_K 4096x14336 with three digits: 16 columns 11.5 us, 32 11.1).
#include "passes/lower/blocks/blocks_team.h"

// What units are rounded as that are smaller, so that steps are no denormals.
#define SMALLEST 0x1p-100

enum {
    MAGIC_BITS = 0x4b400000, // of 1.5 * 2^23: adding it to an element rounds it, X is in the lowest bits
    ABOVE = 0x808080         // makes all digits positive: theirs is the byte with the highest bit turned
};
enum {
    EACH = 4, // elements of a thread
    THREADS = PIECE / EACH, // of a unit
    // Blocks that do not begin alike need long chunks, so that many columns need much memory.
    LITTLE_SHARED = 32 << 10,
    SOME_COLUMNS = 4096
};

// The largest |X|.
static double largest(const Team *t)
{
    static const double of[] = {0, 127, 127 * 256, 63.5 * 65536};
    return of[t->digits];
}

int64_t team_digits(const Team *t)
{
    const double accuracy = t->l->pass->options->accuracy;
    rlx_assert(accuracy >= BLOCK_DIGITS_ERROR);
    return accuracy >= BLOCK_ONE_ERROR ? 1 : accuracy >= BLOCK_TWO_ERROR ? 2 : MAX_DIGITS;
}

bool team_can_digits(const Team *t)
{
    const BlockField *q = &t->f->q;
    return t->l->pass->options->accuracy >= BLOCK_DIGITS_ERROR && t->f->values == NULL &&
           t->same == t->length && t->length >= PIECE / 2 && (q->low.run >= WORD || q->low.bits == 8);
}

bool team_wants_digits(const Team *t)
{
    return team_can_digits(t) &&
           (t->period == 1 || (t->f->q.low.bits == 8 && t->p->columns >= SOME_COLUMNS &&
                               t->l->caps->shared_bytes > LITTLE_SHARED));
}

// Where a thread's elements of a turn of the chunk begin; a block is opened where there may be none.
static bool open_elements(const Team *t, KRef chunk, KRef first, KRef *e)
{
    Kernel *k = t->l->k;
    const int64_t each = t->threads * EACH;
    *e = k_expr(k, "$ * # + $", t->thread, EACH, first);
    KRef is_some = 0;
    if (t->chunk % each != 0)
        is_some = team_op(t, KOP_lt, *e, k_index(k, t->chunk));
    if (t->p->inner % t->chunk != 0) {
        const KRef in_row =
            team_op(t, KOP_lt, k_expr(k, "$ * # + $", chunk, t->chunk, *e), k_index(k, t->p->inner));
        is_some = is_some ? team_op(t, KOP_and, is_some, in_row) : in_row;
    }
    if (is_some)
        k_if(k, is_some);
    return is_some != 0;
}

static KRef open_turns(const Team *t)
{
    Kernel *k = t->l->k;
    return k_for(k, k_index(k, 0), k_index(k, t->chunk), t->threads * EACH, KFOR_UNROLL, "first");
}

static KRef held_place(const Team *t, KRef first)
{
    return k_expr(t->l->k, "$ / #", first, t->threads);
}

int64_t team_held_elements(const Team *t)
{
    rlx_assert(t->chunk >= 1 && t->threads >= 1);
    return ceil_div(t->chunk, t->threads * EACH) * EACH;
}

void team_fetch_digits(const Team *t, KRef chunk)
{
    rlx_assert(t->has_digits && chunk != 0);
    Kernel *k = t->l->k;
    const bool is_wide = team_x_width(t->l, t->p) >= EACH;
    const KRef first = open_turns(t), to = held_place(t, first);
    KRef e = 0;
    const bool is_open = open_elements(t, chunk, first, &e);
    const KRef from = k_expr(k, "$ + ($ * # + $)", t->x_base, chunk, t->chunk, e);
    if (is_wide)
        k_fetch(k, t->x, from, t->held_x, to, EACH);
    for (int64_t i = 0; i < EACH && !is_wide; i++)
        k_astore(k, t->held_x, k_expr(k, "$ + #", to, i), k_load(k, t->x, k_expr(k, "$ + #", from, i), 1, 1));
    if (is_open)
        k_end(k);
    k_end(k);
}

KRef team_unit(const Team *t, KRef number)
{
    rlx_assert(t->has_digits && number != 0);
    return k_expr(t->l->k, "$ * #", number, team_unit_words(t));
}

static KRef word(const Team *t, uint32_t v)
{
    return k_integer(t->l->k, DTYPE_u32, v);
}

static KRef up(const Team *t, KRef a, uint32_t bits)
{
    return team_op(t, KOP_shl, a, word(t, bits));
}

static KRef down(const Team *t, KRef a, uint32_t bits)
{
    return team_op(t, KOP_shr, a, word(t, bits));
}

// Bits of a where mask has them, else those of b.
static KRef mixed(const Team *t, uint32_t mask, KRef a, KRef b)
{
    return team_op(t, KOP_or, team_op(t, KOP_and, a, word(t, mask)), team_op(t, KOP_and, b, word(t, ~mask)));
}

// The three digits of an element, the lowest one in the lowest byte; the highest byte is 0.
static KRef digits_of(const Team *t, KRef x, KRef factor)
{
    Kernel *k = t->l->k;
    const KRef magic = k_bitcast(k, word(t, MAGIC_BITS), DTYPE_f32);
    const KRef bits = k_bitcast(k, k_fma(k, x, factor, magic), DTYPE_u32);
    const KRef above = team_op(t, KOP_add, bits, word(t, (uint32_t)ABOVE - (uint32_t)MAGIC_BITS));
    return team_op(t, KOP_xor, above, word(t, ABOVE));
}

// Words of each digit of four elements: v has the digits of each.
static void words_of(const Team *t, const KRef *v, KRef *out)
{
    KRef even[2], odd[2];
    for (uint32_t i = 0; i < 2; i++) {
        even[i] = mixed(t, 0x00ff00ff, v[2 * i], up(t, v[2 * i + 1], 8));
        odd[i] = mixed(t, 0xff, down(t, v[2 * i], 8), v[2 * i + 1]);
    }
    out[0] = mixed(t, 0xffff, down(t, even[0], 16), even[1]);
    out[1] = mixed(t, 0xffff, odd[0], up(t, odd[1], 16));
    out[2] = mixed(t, 0xffff, even[0], up(t, even[1], 16));
}

static void put_number(const Team *t, KRef at, KRef v)
{
    k_astore(t->l->k, t->xs, at, k_bitcast(t->l->k, v, DTYPE_i32));
}

// The elements of a thread that are held from `held` on; they begin at element e of the chunk.
static void store_elements(const Team *t, KRef chunk, KRef first)
{
    Kernel *k = t->l->k;
    const KRef held = held_place(t, first);
    KRef x[EACH], digit[EACH], words[MAX_DIGITS], e = 0;
    for (int64_t i = 0; i < EACH; i++)
        x[i] = k_cast(k, k_aload(k, t->held_x, k_expr(k, "$ + #", held, i), 1), DTYPE_f32);
    KRef most = k_abs(k, x[0]), sum = x[0];
    for (int64_t i = 1; i < EACH; i++) {
        most = team_op(t, KOP_max, k_abs(k, x[i]), most);
        sum = team_op(t, KOP_add, sum, x[i]);
    }
    most = team_op(t, KOP_max, k_team(k, KOP_max, most, THREADS), team_number(t, SMALLEST));
    const KRef all = k_team(k, KOP_add, sum, THREADS);
    const KRef part = t->length == PIECE ? all : k_team(k, KOP_add, sum, THREADS / 2);
    const KRef factor = team_op(t, KOP_div, team_number(t, largest(t)), most);
    // whatever is not finite makes the sum so
    const KRef finite = team_op(t, KOP_mul, most, team_number(t, 1 / largest(t)));
    const KRef step = k_fma(k, all, team_number(t, 0), finite);
    for (int64_t i = 0; i < EACH; i++)
        digit[i] = digits_of(t, x[i], factor);
    words_of(t, digit, words);
    const bool is_open = open_elements(t, chunk, first, &e);
    const KRef unit = team_unit(t, team_div(t, e, PIECE)), place = team_rem(t, e, PIECE);
    for (int64_t d = 0; d < t->digits; d++) {
        const KRef at = k_expr(k, "$ + ($ + #)", unit, team_div(t, place, WORD), d * PIECE / WORD);
        k_astore(k, t->xs, at, k_bitcast(k, words[MAX_DIGITS - t->digits + d], DTYPE_i32));
    }
    const KRef behind = k_expr(k, "$ + #", unit, t->digits * PIECE / WORD);
    if (t->length != PIECE) { // one thread of the piece, not one of each part
        k_if(k, team_op(t, KOP_eq, place, k_index(k, 0)));
        put_number(t, behind, step);
        k_end(k);
    }
    k_if(k, team_op(t, KOP_eq, team_rem(t, e, t->length), k_index(k, 0)));
    if (t->length == PIECE)
        put_number(t, behind, step);
    put_number(t, k_expr(k, "$ + ($ + 1)", behind, team_div(t, place, t->length)), part);
    k_end(k);
    if (is_open)
        k_end(k);
}

void team_store_digits(const Team *t, KRef chunk)
{
    rlx_assert(t->has_digits);
    store_elements(t, chunk, open_turns(t));
    k_end(t->l->k);
}

void team_read_digits(Team *t, int64_t s, KRef e)
{
    rlx_assert(t->has_digits && t->length % WORD == 0);
    Kernel *k = t->l->k;
    const int64_t n = t->length / WORD;
    const KRef unit = team_unit(t, team_div(t, e, PIECE)), place = team_rem(t, e, PIECE);
    const KRef from = k_add(k, unit, team_div(t, place, WORD));
    for (int64_t d = 0; d < t->digits; d++)
        for (int64_t w = 0; w < n; w++) {
            const KRef v = k_aload(k, t->xs, k_expr(k, "$ + #", from, d * PIECE / WORD + w), 1);
            t->xr[(s * t->digits + d) * n + w] = k_get(k, k_var(k, v, "x"));
        }
    const KRef behind = k_expr(k, "$ + #", unit, t->digits * PIECE / WORD);
    t->step[s] = k_bitcast(k, k_aload(k, t->xs, behind, 1), DTYPE_f32);
    const KRef at = k_expr(k, "$ + ($ + 1)", behind, team_div(t, place, t->length));
    t->sum[s] = k_bitcast(k, k_aload(k, t->xs, at, 1), DTYPE_f32);
}
