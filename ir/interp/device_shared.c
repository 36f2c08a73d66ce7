// SPDX-License-Identifier: Apache-2.0
// Device functions that move words between registers and shared memory, by threads and by warps.
#include "ir/interp/device_matrix.h"
#include "ir/interp/state.h"

#include <math.h>
#include <string.h>

enum { WORD = 4, LINE_WORDS = 4, LINE = LINE_WORDS * WORD, ROWS = 8, MATRICES = 4, MAX_WORDS = 256 };

CallResult interp_shared_begin(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        call_set_int(c, t, SHARED_BEGIN);
    return CALL_DONE;
}

CallResult interp_cluster_rank(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        call_set_int(c, t, machine_group_of(c->m, t));
    return CALL_DONE;
}

static bool check_aligned(const Call *c, uint32_t t, int64_t address, int64_t by)
{
    if (address % by == 0)
        return true;
    call_fail(c, t, "address %lld is no multiple of %lld", (long long)address, (long long)by);
    return false;
}

// --- words of threads ----------------------------------------------------------------------------

// n words to the memory of a group, from an array or from operands. is_poison: by word.
static bool put_words(const Call *c, uint32_t t, uint32_t rank, int64_t to, const uint32_t *words,
                      const bool *is_poison)
{
    bool all = true, none = true;
    if (!check_aligned(c, t, to, LINE))
        return false;
    for (uint32_t i = 0; i < LINE_WORDS; i++)
        is_poison[i] ? (none = false) : (all = false);
    if (all || none)
        return shared_write(c, t, rank, to, words, LINE, all);
    for (uint32_t i = 0; i < LINE_WORDS; i++)
        if (!shared_write(c, t, rank, to + i * WORD, &words[i], WORD, is_poison[i]))
            return false;
    return true;
}

// Four numbers of the array that is operand `array`, from the element behind it on.
static bool put_numbers(const Call *c, uint32_t t, uint32_t rank, uint32_t array)
{
    Elements from;
    uint32_t words[LINE_WORDS];
    bool is_poison[LINE_WORDS];
    if (!call_elements(c, array, t, call_int(c, array + 1, t), LINE_WORDS, &from))
        return false;
    memcpy(words, from.r, sizeof words);
    for (uint32_t i = 0; i < LINE_WORDS; i++) {
        if (from.state[i] == ELEMENT_PENDING)
            return call_fail(c, t, "a sum is stored that has not been waited for");
        is_poison[i] = from.state[i] == ELEMENT_UNWRITTEN;
    }
    return put_words(c, t, rank, call_int(c, 0, t), words, is_poison);
}

CallResult interp_cluster_put4(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        if (!put_numbers(c, t, (uint32_t)call_int(c, 1, t), 2))
            break;
    return CALL_DONE;
}

CallResult interp_cluster_put(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        const float value = call_f32(c, 2, t);
        const int64_t to = call_int(c, 0, t);
        if (!check_aligned(c, t, to, WORD) ||
            !shared_write(c, t, (uint32_t)call_int(c, 1, t), to, &value, WORD, call_is_poison(c, 2, t)))
            break;
    }
    return CALL_DONE;
}

CallResult interp_cluster_put_words(Call *c)
{
    return interp_cluster_put4(c);
}

CallResult interp_shared_put4(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        if (!put_numbers(c, t, machine_group_of(c->m, t), 1))
            break;
    return CALL_DONE;
}

CallResult interp_shared_put_words(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        uint32_t words[LINE_WORDS];
        bool is_poison[LINE_WORDS];
        for (uint32_t i = 0; i < LINE_WORDS; i++) {
            words[i] = (uint32_t)call_int(c, 1 + i, t);
            is_poison[i] = call_is_poison(c, 1 + i, t);
        }
        if (!put_words(c, t, machine_group_of(c->m, t), call_int(c, 0, t), words, is_poison))
            break;
    }
    return CALL_DONE;
}

// n words from an address on into an array; align: of the address.
static bool get_words(const Call *c, uint32_t t, int64_t at, int64_t from, uint32_t n, int64_t align)
{
    const uint32_t rank = machine_group_of(c->m, t);
    bool poison = false;
    Elements to;
    rlx_assert(n <= MAX_WORDS);
    if (!check_aligned(c, t, from, align) || !call_elements(c, 0, t, at, n, &to) ||
        !shared_read(c, t, rank, from, to.r, n * WORD, &poison))
        return false;
    memset(to.state, ELEMENT_WRITTEN, n);
    for (uint32_t i = 0; poison && i < n; i++) {
        bool is_bad = false;
        if (!shared_read(c, t, rank, from + (int64_t)i * WORD, &to.r[i], WORD, &is_bad))
            return false;
        to.state[i] = is_bad ? ELEMENT_UNWRITTEN : ELEMENT_WRITTEN;
    }
    return true;
}

CallResult interp_shared_get4(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        if (!get_words(c, t, call_int(c, 1, t), call_int(c, 2, t), LINE_WORDS, LINE))
            break;
    return CALL_DONE;
}

CallResult interp_shared_get_words(Call *c)
{
    return interp_shared_get4(c);
}

CallResult interp_shared_words(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        if (!get_words(c, t, 0, call_int(c, 1, t), (uint32_t)c->constant, WORD))
            break;
    return CALL_DONE;
}

CallResult interp_shared_lines(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        if (!get_words(c, t, 0, call_int(c, 1, t), (uint32_t)c->constant, LINE))
            break;
    return CALL_DONE;
}

// A word that says something: several threads may say the same at once.
CallResult interp_shared_put(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        const int64_t to = call_int(c, 0, t);
        const int32_t value = (int32_t)call_int(c, 1, t);
        if (!check_aligned(c, t, to, WORD) ||
            !shared_write_same(c, t, machine_group_of(c->m, t), to, &value, WORD))
            break;
    }
    return CALL_DONE;
}

CallResult interp_shared_get(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        const int64_t from = call_int(c, 1, t);
        int32_t value = 0;
        bool poison = false;
        if (!check_aligned(c, t, from, WORD) ||
            !shared_read(c, t, machine_group_of(c->m, t), from, &value, WORD, &poison))
            break;
        if (poison)
            return call_done(call_fail(c, t, "a number in shared memory that nobody wrote"));
        call_set_var(c, 0, t, value);
    }
    return CALL_DONE;
}

// --- pairs ---------------------------------------------------------------------------------------

static float half_number(DType type, uint32_t bits)
{
    return type == DTYPE_bool ? (bits != 0 ? INFINITY : -INFINITY) : matrix_number(type, bits);
}

// Two neighbours of a type, as numbers; of bools, the most that a score may be.
static CallResult get_pairs(Call *c, DType type)
{
    const uint32_t bytes = dtype_info[type].bytes;
    for (uint32_t t = c->begin; t < c->end; t++) {
        const int64_t from = call_int(c, 2, t);
        unsigned char two[WORD] = {0};
        bool poison = false;
        Elements to;
        if (!check_aligned(c, t, from, 2 * bytes) || !call_elements(c, 0, t, call_int(c, 1, t), 2, &to) ||
            !shared_read(c, t, machine_group_of(c->m, t), from, two, 2 * bytes, &poison))
            break;
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t bits = bytes == 1 ? two[i] : two[2 * i] | (uint32_t)two[2 * i + 1] << 8;
            to.f[i] = half_number(type, bits);
            to.state[i] = poison ? ELEMENT_UNWRITTEN : ELEMENT_WRITTEN;
        }
    }
    return CALL_DONE;
}

CallResult interp_pair_f16(Call *c)
{
    return get_pairs(c, DTYPE_f16);
}

CallResult interp_pair_bf16(Call *c)
{
    return get_pairs(c, DTYPE_bf16);
}

CallResult interp_pair_bool(Call *c)
{
    return get_pairs(c, DTYPE_bool);
}

// --- matrices of 8 x 8 ---------------------------------------------------------------------------

// Four matrices of a warp: rows of eight numbers, and which of their pairs are poison.
typedef struct Eights {
    uint16_t at[MATRICES][ROWS][ROWS];
    bool is_poison[MATRICES][ROWS][ROWS];
} Eights;

// Lane l has the address of row l % 8 of matrix l / 8.
static bool read_row(const Call *c, uint32_t t, uint32_t lane, int64_t from, Eights *e)
{
    const uint32_t rank = machine_group_of(c->m, t), matrix = lane / ROWS, row = lane % ROWS;
    bool poison = false;
    if (!check_aligned(c, t, from, LINE) || !shared_read(c, t, rank, from, e->at[matrix][row], LINE, &poison))
        return false;
    memset(e->is_poison[matrix][row], 0, ROWS);
    for (uint32_t i = 0; poison && i < ROWS; i++)
        if (!shared_read(c, t, rank, from + 2 * i, &e->at[matrix][row][i], 2, &e->is_poison[matrix][row][i]))
            return false;
    return true;
}

// Word m of a lane is two neighbours of row lane / 4 of matrix m, or (is_turned) of its column lane / 4.
static bool hand_out(const Call *c, uint32_t t, uint32_t lane, const Eights *e, bool is_turned)
{
    Elements to;
    if (!call_elements(c, 0, t, call_int(c, 1, t), MATRICES, &to))
        return false;
    for (uint32_t m = 0; m < MATRICES; m++) {
        const uint32_t own = lane / MATRIX_QUAD, pair = lane % MATRIX_QUAD * 2;
        const uint32_t low = is_turned ? e->at[m][pair][own] : e->at[m][own][pair];
        const uint32_t high = is_turned ? e->at[m][pair + 1][own] : e->at[m][own][pair + 1];
        const bool is_bad = is_turned ? e->is_poison[m][pair][own] || e->is_poison[m][pair + 1][own]
                                      : e->is_poison[m][own][pair] || e->is_poison[m][own][pair + 1];
        to.r[m] = low | high << 16;
        to.state[m] = is_bad ? ELEMENT_UNWRITTEN : ELEMENT_WRITTEN;
    }
    return true;
}

static CallResult load_matrices(Call *c, bool is_turned)
{
    if (!call_gathers(c, MATRIX_LANES))
        return CALL_BLOCKED;
    for (uint32_t warp = c->begin; warp < c->end; warp += MATRIX_LANES) {
        Eights e;
        for (uint32_t lane = 0; lane < MATRIX_LANES; lane++)
            if (!read_row(c, warp + lane, lane, call_int(c, 2, warp + lane), &e))
                return CALL_DONE;
        for (uint32_t lane = 0; lane < MATRIX_LANES; lane++)
            if (!hand_out(c, warp + lane, lane, &e, is_turned))
                return CALL_DONE;
    }
    return CALL_DONE;
}

CallResult interp_ldmatrix4(Call *c)
{
    return load_matrices(c, false);
}

CallResult interp_ldmatrix4_t(Call *c)
{
    return load_matrices(c, true);
}

// On account of one of those that have the words: all threads of a warp store all rows.
static bool write_row(const Call *c, uint32_t warp, uint32_t lane)
{
    const uint32_t matrix = lane / ROWS, row = lane % ROWS;
    uint32_t words[LINE_WORDS];
    bool is_poison[LINE_WORDS];
    for (uint32_t i = 0; i < LINE_WORDS; i++) {
        const uint32_t from = warp + row * MATRIX_QUAD + i;
        words[i] = (uint32_t)call_int(c, 1 + matrix, from);
        is_poison[i] = call_is_poison(c, 1 + matrix, from);
    }
    const uint32_t who = warp + (row * MATRIX_QUAD + matrix) % MATRIX_LANES;
    return put_words(c, who, machine_group_of(c->m, warp), call_int(c, 0, warp + lane), words, is_poison);
}

static bool write_rows(const Call *c, uint32_t warp)
{
    bool is_good = true;
    for (uint32_t lane = 0; is_good && lane < MATRIX_LANES; lane++)
        is_good = write_row(c, warp, lane);
    return is_good;
}

CallResult interp_stmatrix4(Call *c)
{
    return call_each(c, MATRIX_LANES, write_rows);
}
