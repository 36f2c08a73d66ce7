// SPDX-License-Identifier: Apache-2.0
// x as integers of three bytes for products with blocks on GPUs: an element is a whole multiple of the step
// of its unit of 32 elements, X = 65536 a + 256 b + c with signed bytes a, b and c, its digits (as
// blocks_dot.c has them on CPUs). Each is what is left of x / step, rounded by adding 1.5 * 2^23, whose
// lowest byte then is the digit; a little is added before, so that what is left never rounds to 128. Where an
// element is not finite, the step is NaN. Worth it where a chunk is short (measured on an H200: Q4_K
// 4096x14336 13.4 us, 15.5 with floats; Q8_0, whose chunks are two steps, 23 and 18): every group of threads
// rounds all of x, and waits for it.
#include "passes/blocks_team.h"
#include "passes/operand.h"

// The largest upper digit, and what units are rounded as that are smaller, so that steps are no denormals.
#define LARGEST  127.0
#define SMALLEST 0x1p-100
#define MAGIC    (1.5 * 0x1p23)

enum { EACH = 4, THREADS = PIECE / EACH }; // elements of a thread, threads of a unit

bool team_can_digits(const Team *t)
{
    const BlockField *q = &t->f->q;
    return t->f->values == NULL && t->period == 1 && t->length >= PIECE / 2 &&
           (q->low.run >= WORD || q->low.bits == 8);
}

// Elements e .. e + 3 of the chunk, 0 from n on.
static void load_x(const Team *t, KRef from, KRef is_some, KRef *x)
{
    Kernel *k = t->l->k;
    const int type = (int)k->params.data[t->x].dtype;
    const bool is_wide = team_x_width(t->l, t->p) >= EACH;
    const KRef words = is_wide ? k_array(k, type, EACH) : 0;
    for (int64_t i = 0; i < EACH; i++)
        x[i] = k_var(k, team_number(t, 0), "x");
    if (is_some)
        k_if(k, is_some);
    if (is_wide)
        k_fetch(k, t->x, from, words, k_index(k, 0), EACH);
    for (int64_t i = 0; i < EACH; i++) {
        const KRef v = is_wide ? k_aload(k, words, k_index(k, i), 1)
                               : k_load(k, t->x, k_add(k, from, k_index(k, i)), 1, 1);
        k_set(k, x[i], k_cast(k, v, DTYPE_f32));
    }
    if (is_some)
        k_end(k);
    for (int64_t i = 0; i < EACH; i++)
        x[i] = k_get(k, x[i]);
}

// The digits of an element, each in the lowest byte.
static void digits_of(const Team *t, KRef x, KRef factor, KRef *digit)
{
    Kernel *k = t->l->k;
    const KRef magic = team_number(t, MAGIC), little = team_number(t, 0x1p-9);
    KRef rest = x, by = factor;
    for (int64_t d = 0; d < DIGITS; d++) {
        KRef v = k_op(k, KOP_fma, rest, by, d + 1 < DIGITS ? little : magic);
        if (d + 1 < DIGITS) {
            v = team_op(t, KOP_add, v, magic);
            rest = k_op(k, KOP_fma, rest, by, team_op(t, KOP_sub, magic, v));
        }
        digit[d] = k_bitcast(k, v, DTYPE_i32);
        by = team_number(t, 256);
    }
}

static KRef bytes_of(const Team *t, const KRef *v)
{
    Kernel *k = t->l->k;
    const KRef byte = k_integer(k, DTYPE_i32, 255);
    KRef word = team_op(t, KOP_and, v[0], byte);
    for (int64_t i = 1; i < EACH; i++) {
        const KRef one = i + 1 < EACH ? team_op(t, KOP_and, v[i], byte) : v[i];
        word = team_op(t, KOP_or, word, team_op(t, KOP_shl, one, k_integer(k, DTYPE_i32, 8 * i)));
    }
    return word;
}

static void put_number(const Team *t, KRef at, KRef v)
{
    k_astore(t->l->k, t->xs, at, k_bitcast(t->l->k, v, DTYPE_i32));
}

// The elements of a thread, from element e of the chunk on.
static void store_elements(const Team *t, KRef chunk, KRef e, KRef is_some)
{
    Kernel *k = t->l->k;
    KRef x[EACH], digit[EACH][DIGITS];
    load_x(t, k_add(k, t->x_base, k_mul_add(k, chunk, t->chunk, e)), is_some, x);
    KRef most = k_op(k, KOP_abs, x[0], 0, 0), sum = x[0];
    for (int64_t i = 1; i < EACH; i++) {
        most = team_op(t, KOP_max, k_op(k, KOP_abs, x[i], 0, 0), most);
        sum = team_op(t, KOP_add, sum, x[i]);
    }
    most = team_op(t, KOP_max, k_team(k, KOP_max, most, THREADS), team_number(t, SMALLEST));
    const KRef all = k_team(k, KOP_add, sum, THREADS);
    const KRef part = t->length == PIECE ? all : k_team(k, KOP_add, sum, THREADS / 2);
    const KRef factor = team_op(t, KOP_div, team_number(t, LARGEST), most);
    // whatever is not finite makes the sum so
    const KRef finite = team_op(t, KOP_mul, most, team_number(t, 0x1p-16 / LARGEST));
    const KRef step = k_op(k, KOP_fma, all, team_number(t, 0), finite);
    const KRef unit = k_mul(k, team_div(t, e, PIECE), k_index(k, UNIT_WORDS)), place = team_rem(t, e, PIECE);
    for (int64_t i = 0; i < EACH; i++)
        digits_of(t, x[i], factor, digit[i]);
    if (is_some)
        k_if(k, is_some);
    for (int64_t d = 0; d < DIGITS; d++) {
        const KRef v[EACH] = {digit[0][d], digit[1][d], digit[2][d], digit[3][d]};
        const KRef at = k_add(k, unit, k_add(k, team_div(t, place, WORD), k_index(k, d * PIECE / WORD)));
        k_astore(k, t->xs, at, bytes_of(t, v));
    }
    k_if(k, team_op(t, KOP_eq, team_rem(t, e, t->length), k_index(k, 0)));
    const KRef behind = k_add(k, unit, k_index(k, DIGITS * PIECE / WORD));
    put_number(t, behind, step);
    put_number(t, k_add(k, behind, k_add(k, team_div(t, place, t->length), k_index(k, 1))), part);
    k_end(k);
    if (is_some)
        k_end(k);
}

void team_store_digits(const Team *t, KRef chunk, int64_t n)
{
    Kernel *k = t->l->k;
    const int64_t each = t->threads * EACH;
    const KRef first = k_for(k, k_index(k, 0), k_index(k, n), each, KFOR_UNROLL, "first");
    const KRef e = k_mul_add(k, t->thread, EACH, first);
    store_elements(t, chunk, e, n % each == 0 ? 0 : team_op(t, KOP_lt, e, k_index(k, n)));
    k_end(k);
}

void team_read_digits(Team *t, int64_t s, KRef e)
{
    Kernel *k = t->l->k;
    const int64_t n = t->length / WORD;
    const KRef unit = k_mul(k, team_div(t, e, PIECE), k_index(k, UNIT_WORDS)), place = team_rem(t, e, PIECE);
    const KRef from = k_add(k, unit, team_div(t, place, WORD));
    for (int64_t d = 0; d < DIGITS; d++)
        for (int64_t w = 0; w < n; w++) {
            const KRef v = k_aload(k, t->xs, k_add(k, from, k_index(k, d * PIECE / WORD + w)), 1);
            t->xr[(s * DIGITS + d) * n + w] = k_get(k, k_var(k, v, "x"));
        }
    const KRef behind = k_add(k, unit, k_index(k, DIGITS * PIECE / WORD));
    t->step[s] = k_bitcast(k, k_aload(k, t->xs, behind, 1), DTYPE_f32);
    const KRef at = k_add(k, behind, k_add(k, team_div(t, place, t->length), k_index(k, 1)));
    t->sum[s] = k_bitcast(k, k_aload(k, t->xs, at, 1), DTYPE_f32);
}
