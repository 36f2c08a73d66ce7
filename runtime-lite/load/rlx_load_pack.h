// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// Packs quantised blocks of a file for vectors of columns, by tables of the compiler that say where each bit
// goes.
#ifndef RLX_LOAD_PACK_H
#define RLX_LOAD_PACK_H

#include "rlx_load.h"
#include "rlx_load_file.h"

// A part of a word of four bytes: of those of the block from `at` on, moved right, then left, what the mask
// has. Where bits stand for values, the mask comes before the move to the left.
typedef struct rlx_load_piece {
    uint16_t at;
    uint8_t right, left;
    uint32_t mask;
} rlx_load_piece;

// An integer of a group: sign * (((low + high above it) ^ flip) + bias).
typedef struct rlx_load_field {
    uint16_t at, high_at;
    uint8_t right, mask, high_right, high_mask, high_left, flip;
    int16_t bias;
    int16_t sign;
} rlx_load_field;

// How a block of a column becomes a lane of a record, which has the blocks of beside * lanes columns: words
// [unit][vector][word][lane], then numbers and integers of groups, [group][vector][lane].
typedef struct rlx_load_format {
    uint32_t block, record; // bytes
    uint32_t lanes, beside, units, words, groups;
    uint32_t flip;               // of all words
    const unsigned char *values; // that 4 bits stand for; NULL: they are themselves
    const uint16_t *ends;        // by word of a block: the end of its pieces
    const rlx_load_piece *pieces;
    uint32_t has_m, is_power, d, m;             // in the block; is_power: d is one byte, an exponent
    uint32_t to_d, to_m, to_scales, to_mins;    // in the record
    const rlx_load_field *scales, *mins;        // by group; NULL: there are none
} rlx_load_format;

// Columns of blocks, and the part of them that is made: numbers of records of columns, from 0 on.
typedef struct rlx_load_columns {
    uint64_t columns, blocks;
    uint64_t first, end;
} rlx_load_columns;

// The lanes of a vector: the block of each.
enum { RLX_LOAD_LANES = 64 };
typedef struct rlx_load_lanes {
    const unsigned char *block[RLX_LOAD_LANES];
    uint32_t n;
} rlx_load_lanes;

static inline uint32_t rlx_load_bits(const unsigned char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

// Adds a piece to the words of all lanes.
static inline void rlx_load_add(const rlx_load_format *f, const rlx_load_piece *p, const rlx_load_lanes *l,
                                uint32_t *word)
{
    uint32_t i;
    if (f->values != NULL)
        for (i = 0; i < l->n; i++)
            word[i] ^= (uint32_t)f->values[rlx_load_bits(l->block[i] + p->at) >> p->right & p->mask]
                       << p->left;
    else
        for (i = 0; i < l->n; i++)
            word[i] ^= rlx_load_bits(l->block[i] + p->at) >> p->right << p->left & p->mask;
}

// The words of a vector, of which those of a unit follow each other.
static inline void rlx_load_words(const rlx_load_format *f, const rlx_load_lanes *l, unsigned char *to)
{
    const size_t step = (size_t)4 * l->n, over = step * f->words * (f->beside - 1);
    const rlx_load_piece *p = f->pieces;
    const uint16_t *end = f->ends;
    uint32_t word[RLX_LOAD_LANES], u, w, i;
    for (u = 0; u < f->units; u++, to += over)
        for (w = 0; w < f->words; w++, to += step) {
            const rlx_load_piece *const last = f->pieces + *end++;
            for (i = 0; i < l->n; i++)
                word[i] = f->flip;
            for (; p < last; p++)
                rlx_load_add(f, p, l, word);
            memcpy(to, word, step);
        }
}

static inline void rlx_load_fields(const rlx_load_format *f, const rlx_load_field *fields,
                                   const rlx_load_lanes *l, unsigned char *to)
{
    uint32_t g, i;
    for (g = 0; g < f->groups; g++, to += f->beside * l->n) {
        const rlx_load_field *e = &fields[g];
        for (i = 0; i < l->n; i++) {
            const unsigned char *block = l->block[i];
            const int low = block[e->at] >> e->right & e->mask;
            const int high = (block[e->high_at] >> e->high_right & e->high_mask) << e->high_left;
            to[i] = (unsigned char)(e->sign * (((low | high) ^ e->flip) + e->bias));
        }
    }
}

// d as f32, where the block has its exponent: 2^(e - 128).
static inline uint32_t rlx_load_power(uint32_t e)
{
    return e > 1 ? (e - 1) << 23 : (uint32_t)0x200000 << e;
}

static inline void rlx_load_numbers(const rlx_load_format *f, const rlx_load_lanes *l, uint32_t first,
                                    unsigned char *record)
{
    uint32_t i;
    for (i = 0; i < l->n; i++) {
        const unsigned char *block = l->block[i];
        if (f->is_power) {
            const uint32_t d = rlx_load_power(block[f->d]);
            memcpy(record + f->to_d + (size_t)4 * (first + i), &d, sizeof d);
        } else {
            memcpy(record + f->to_d + (size_t)2 * (first + i), block + f->d, 2);
        }
        if (f->has_m)
            memcpy(record + f->to_m + (size_t)2 * (first + i), block + f->m, 2);
    }
}

// The lanes of a vector become its part of a record. first: how many lanes stand before them.
static inline void rlx_load_vector(const rlx_load_format *f, const rlx_load_lanes *l, uint32_t first,
                                   unsigned char *record)
{
    rlx_load_words(f, l, record + (size_t)4 * first * f->words);
    rlx_load_numbers(f, l, first, record);
    if (f->scales != NULL)
        rlx_load_fields(f, f->scales, l, record + f->to_scales + first);
    if (f->mins != NULL)
        rlx_load_fields(f, f->mins, l, record + f->to_mins + first);
}

static inline uint64_t rlx_load_records(const rlx_load_format *f, uint64_t columns)
{
    const uint64_t wide = (uint64_t)f->beside * f->lanes;
    return (columns + wide - 1) / wide;
}

// The last column fills what lanes are left.
static inline void rlx_load_blocks(const rlx_load_format *f, const rlx_load_columns *c,
                                   const unsigned char *from, unsigned char *to)
{
    const uint64_t wide = (uint64_t)f->beside * f->lanes, row = c->blocks * f->block;
    rlx_load_lanes l;
    uint64_t r, b;
    uint32_t v, i;
    l.n = f->lanes;
    to += c->first * c->blocks * f->record;
    for (r = c->first; r < c->end; r++)
        for (b = 0; b < c->blocks; b++, to += f->record)
            for (v = 0; v < wide; v += l.n) {
                for (i = 0; i < l.n; i++) {
                    const uint64_t at = r * wide + v + i, column = at < c->columns ? at : c->columns - 1;
                    l.block[i] = from + column * row + b * f->block;
                }
                rlx_load_vector(f, &l, v, to);
            }
}

#endif
