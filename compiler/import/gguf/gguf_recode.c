// SPDX-License-Identifier: Apache-2.0
// Each element of a block of IQ1, IQ2 or IQ3 is a small integer times the step of its group of 16 or 32.
// Steps are f16 numbers times odd integers of 4 bits at most, so f32 holds them, and the products, exactly.
#include "compiler/import/gguf/gguf_recode.h"
#include "ir/graph/tensor.h"

#include <string.h>

enum { ELEMENTS = GGUF_RECODED, UNIT = 32, MOST_GRID = 2048, MOST_PLACES = 8, OFFSET = 64, MOST_GROUPS = 16 };

typedef enum GridId {
#define GRID(name, ...) GRID_##name,
#include "compiler/import/gguf/gguf_grids.def"
    GRIDS
} GridId;

static const struct {
    uint32_t digits, places, n;
    const char *gaps;
} grids[GRIDS] = {
#define GRID(name, digits, places, n, gaps) {digits, places, n, gaps},
#include "compiler/import/gguf/gguf_grids.def"
};

typedef struct Grid {
    uint32_t places;
    const int8_t *magnitude; // by digit; NULL with IQ1
    uint8_t digit[MOST_GRID][MOST_PLACES];
} Grid;

static const int8_t three[] = {8, 25, 43}, eight[] = {4, 12, 20, 28, 36, 44, 52, 62};
static const int8_t odd[] = {1, 3, 5, 7, 9, 11, 13, 15};
static const int8_t *const magnitudes[GRIDS] = {[GRID_iq2_xxs] = three,
                                                [GRID_iq2_xs] = three,
                                                [GRID_iq2_s] = three,
                                                [GRID_iq3_xxs] = eight,
                                                [GRID_iq3_s] = odd};

// What a block means: element i is value[i] * step[i / group].
typedef struct Block {
    int8_t value[ELEMENTS];
    double step[MOST_GROUPS];
} Block;

static void read_grid(GridId id, Grid *out)
{
    const char *gap = grids[id].gaps;
    int number = -1;
    out->places = grids[id].places;
    out->magnitude = magnitudes[id];
    for (uint32_t i = 0; i < grids[id].n; i++, gap++) {
        for (; *gap == '!'; gap++)
            number += 88;
        number += *gap - '#' + 1 - (*gap > '?') - (*gap > '\\');
        int rest = number;
        for (uint32_t k = 0; k < out->places; k++, rest /= (int)grids[id].digits)
            out->digit[i][k] = (uint8_t)(rest % (int)grids[id].digits);
    }
    rlx_assert(*gap == 0);
}

// --- bits ----------------------------------------------------------------------------------------

static uint32_t u16_at(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8;
}

static uint32_t u32_at(const uint8_t *p)
{
    return u16_at(p) | u16_at(p + 2) << 16;
}

static double half_at(const uint8_t *p)
{
    return f16_to_f64((uint16_t)u16_at(p));
}

// Nibble i of some bytes, the low one of each first.
static uint32_t nibble_at(const uint8_t *p, uint32_t i)
{
    return p[i / 2] >> 4 * (i % 2) & 15u;
}

// Seven signs as they are stored; the eighth makes their number even.
static uint32_t signs_of(uint32_t seven)
{
    return (seven & 127) | (uint32_t)__builtin_parity(seven & 127) << 7;
}

// --- entries of code books -----------------------------------------------------------------------

// Places of entry i of the grid, from element `at` on, with signs from their bits.
static void put_signed(Block *b, const Grid *g, uint32_t i, uint32_t at, uint32_t signs)
{
    for (uint32_t k = 0; k < g->places; k++) {
        const int8_t m = g->magnitude[g->digit[i][k]];
        b->value[at + k] = (int8_t)((signs >> k & 1) != 0 ? -m : m);
    }
}

// Of IQ1: -1, 0 or 1, and an eighth more or less; the step is that of eighths.
static void put_ternary(Block *b, const Grid *g, uint32_t i, uint32_t at, int eighth)
{
    for (uint32_t k = 0; k < g->places; k++)
        b->value[at + k] = (int8_t)(8 * (g->digit[i][k] - 1) + eighth);
}

// --- blocks --------------------------------------------------------------------------------------

// f16 d; for each 32 elements 4 indices, 4 times 7 signs, a scale.
static void read_iq2_xxs(const uint8_t *p, const Grid *g, Block *b)
{
    for (uint32_t i = 0; i < 8; i++) {
        const uint8_t *q = p + 2 + 8 * i;
        const uint32_t bits = u32_at(q + 4);
        b->step[i] = half_at(p) * (2 * (bits >> 28) + 1) / 8;
        for (uint32_t k = 0; k < 4; k++)
            put_signed(b, g, q[k], 32 * i + 8 * k, signs_of(bits >> 7 * k));
    }
}

// f16 d; for each 8 elements an index of 9 bits and 7 signs; scales of 16.
static void read_iq2_xs(const uint8_t *p, const Grid *g, Block *b)
{
    for (uint32_t i = 0; i < 16; i++)
        b->step[i] = half_at(p) * (2 * nibble_at(p + 66, i) + 1) / 8;
    for (uint32_t i = 0; i < 32; i++) {
        const uint32_t bits = u16_at(p + 2 + 2 * i);
        put_signed(b, g, bits & 511, 8 * i, signs_of(bits >> 9));
    }
}

// f16 d; low bits of indices, signs, high bits, scales of 16.
static void read_iq2_s(const uint8_t *p, const Grid *g, Block *b)
{
    for (uint32_t i = 0; i < 16; i++)
        b->step[i] = half_at(p) * (2 * nibble_at(p + 74, i) + 1) / 8;
    for (uint32_t i = 0; i < 32; i++) {
        const uint32_t high = p[66 + i / 4] >> 2 * (i % 4) & 3u;
        put_signed(b, g, p[2 + i] | high << 8, 8 * i, p[34 + i]);
    }
}

// f16 d; an index for each 4 elements; for each 32 elements 4 times 7 signs, a scale.
static void read_iq3_xxs(const uint8_t *p, const Grid *g, Block *b)
{
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t bits = u32_at(p + 66 + 4 * i);
        b->step[i] = half_at(p) * (2 * (bits >> 28) + 1) / 4;
        for (uint32_t k = 0; k < 8; k++)
            put_signed(b, g, p[2 + 8 * i + k], 32 * i + 4 * k,
                       signs_of(bits >> 7 * (k / 2)) >> 4 * (k % 2));
    }
}

// f16 d; low bits of indices, high bits, signs, scales of 32.
static void read_iq3_s(const uint8_t *p, const Grid *g, Block *b)
{
    for (uint32_t i = 0; i < 8; i++)
        b->step[i] = half_at(p) * (2 * nibble_at(p + 106, i) + 1);
    for (uint32_t i = 0; i < 64; i++) {
        const uint32_t high = p[66 + i / 8] >> i % 8 & 1u;
        put_signed(b, g, p[2 + i] | high << 8, 4 * i, (uint32_t)p[74 + i / 2] >> 4 * (i % 2));
    }
}

// f16 d; low bits of indices; for each 32 elements high bits, a scale, the side of the eighth.
static void read_iq1_s(const uint8_t *p, const Grid *g, Block *b)
{
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t bits = u16_at(p + 34 + 2 * i);
        b->step[i] = half_at(p) * (2 * (bits >> 12 & 7) + 1) / 8;
        for (uint32_t k = 0; k < 4; k++)
            put_ternary(b, g, p[2 + 4 * i + k] | (bits >> 3 * k & 7) << 8, 32 * i + 8 * k,
                        (bits >> 15) != 0 ? -1 : 1);
    }
}

// Low bits of indices; a nibble for each 8 elements, with high bits and the side of the eighth; scales of 16
// with 3 bits, above which d lies in four parts.
static void read_iq1_m(const uint8_t *p, const Grid *g, Block *b)
{
    uint32_t d = 0;
    for (uint32_t i = 0; i < 4; i++)
        d |= u16_at(p + 48 + 2 * i) >> 12 << 4 * i;
    for (uint32_t i = 0; i < 16; i++) {
        const uint32_t scale = u16_at(p + 48 + 2 * (i / 4)) >> 3 * (i % 4) & 7;
        b->step[i] = f16_to_f64((uint16_t)d) * (2 * scale + 1) / 8;
    }
    for (uint32_t i = 0; i < 32; i++) {
        const uint32_t bits = nibble_at(p + 32, i);
        put_ternary(b, g, p[i] | (bits & 7) << 8, 8 * i, (bits & 8) != 0 ? -1 : 1);
    }
}

static const struct {
    GgufRecode about;
    uint32_t bytes, group; // of the type; elements that share a step
    GridId grid;
    void (*read)(const uint8_t *block, const Grid *g, Block *out);
} types[] = {
    {{"IQ2_XXS", "affine8_32_f32", UNIT, 40}, 66, 32, GRID_iq2_xxs, read_iq2_xxs},
    {{"IQ2_XS", "affine8_16_f32", UNIT, 48}, 74, 16, GRID_iq2_xs, read_iq2_xs},
    {{"IQ2_S", "affine8_16_f32", UNIT, 48}, 82, 16, GRID_iq2_s, read_iq2_s},
    {{"IQ3_XXS", "affine8_32_f32", UNIT, 40}, 98, 32, GRID_iq3_xxs, read_iq3_xxs},
    {{"IQ3_S", "affine8_32_f32", UNIT, 40}, 110, 32, GRID_iq3_s, read_iq3_s},
    {{"IQ1_S", "affine8_32_f32", UNIT, 40}, 50, 32, GRID_iq1, read_iq1_s},
    {{"IQ1_M", "affine8_16_f32", UNIT, 48}, 56, 16, GRID_iq1, read_iq1_m},
    {{"TQ1_0", "tq2_0", ELEMENTS, 66}, 54, 0, GRIDS, NULL},
};
enum { TYPES = sizeof types / sizeof *types };

const GgufRecode *gguf_recode(const char *type)
{
    for (uint32_t i = 0; i < TYPES; i++)
        if (strcmp(types[i].about.type, type) == 0)
            return &types[i].about;
    return NULL;
}

// --- other blocks --------------------------------------------------------------------------------

// Units of 32 elements: for each group its step and -OFFSET times it, then bytes with OFFSET added.
static void write_affine(const Block *b, uint32_t group, uint8_t *to)
{
    for (uint32_t u = 0; u < ELEMENTS / UNIT; u++) {
        for (uint32_t i = 0; i < UNIT / group; i++, to += 2 * sizeof(float)) {
            const double step = b->step[u * UNIT / group + i];
            const float pair[] = {(float)step, (float)(-OFFSET * step)};
            memcpy(to, pair, sizeof pair);
        }
        for (uint32_t i = 0; i < UNIT; i++)
            *to++ = (uint8_t)(b->value[u * UNIT + i] + OFFSET);
    }
}

// 48 bytes of 5 digits of base 3, the highest first: runs of 32 bytes, then of 16; 4 bytes of 4 digits; f16
// d. A byte is a fraction of 256: tripled, its overflow is the next digit. TQ2_0 has two bits for each.
static void recode_tq1_0(const uint8_t *p, uint8_t *to)
{
    static const struct {
        uint8_t at, bytes, digits;
    } runs[] = {{0, 32, 5}, {32, 16, 5}, {48, 4, 4}};
    uint32_t e = 0;
    memset(to, 0, 64);
    for (uint32_t r = 0; r < 3; r++)
        for (uint32_t k = 0, power = 1; k < runs[r].digits; k++, power *= 3)
            for (uint32_t i = 0; i < runs[r].bytes; i++, e++) {
                const uint32_t digit = (p[runs[r].at + i] * power & 255) * 3 >> 8;
                to[e / 128 * 32 + e % 32] |= (uint8_t)(digit << 2 * (e / 32 % 4));
            }
    rlx_assert(e == ELEMENTS);
    memcpy(to + 64, p + 52, 2);
}

const void *gguf_recode_blocks(Arena *a, const GgufRecode *r, const uint8_t *blocks, uint64_t n)
{
    uint32_t t = 0;
    while (&types[t].about != r)
        t++;
    const size_t bytes = (size_t)(ELEMENTS / r->elements * r->bytes);
    uint8_t *out = arena_alloc(a, n * bytes);
    Grid grid;
    Block block;
    if (types[t].read != NULL)
        read_grid(types[t].grid, &grid);
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *from = blocks + i * types[t].bytes;
        if (types[t].read == NULL) {
            recode_tq1_0(from, out + i * bytes);
            continue;
        }
        types[t].read(from, &grid, &block);
        write_affine(&block, types[t].group, out + i * bytes);
    }
    return out;
}
