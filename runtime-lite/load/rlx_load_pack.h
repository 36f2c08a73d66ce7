// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// Packs tensors into the weights of a model: quantised blocks of the file for vectors of columns, by tables
// of the compiler that say where each bit goes; others as they are.
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

// What becomes bytes [to, to + bytes) of the weights.
enum { RLX_LOAD_NONE = 0xffff };
typedef struct rlx_load_part {
    uint64_t to, bytes;
    uint64_t from;           // of what it is made of: its first byte
    uint64_t columns, blocks;
    uint32_t tensor, format; // RLX_LOAD_NONE: bytes of the code; bytes as they are
} rlx_load_part;

typedef struct rlx_load_plan {
    const rlx_model *model;
    const char *arch;
    uint64_t settings, vocabulary; // sums, as in rlx_load_head
    uint32_t n_tensors, n_parts;
    const rlx_load_tensor *tensors; // by name
    const rlx_load_part *parts;     // by `to`
    const rlx_load_format *formats;
    const void *own;                // bytes of the code
} rlx_load_plan;

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

// Columns of blocks; the last one fills what lanes are left.
static inline void rlx_load_blocks(const rlx_load_format *f, const rlx_load_part *p,
                                   const unsigned char *from, unsigned char *to)
{
    const uint64_t wide = (uint64_t)f->beside * f->lanes, row = p->blocks * f->block;
    rlx_load_lanes l;
    uint64_t first, b;
    uint32_t v, i;
    l.n = f->lanes;
    for (first = 0; first < p->columns; first += wide)
        for (b = 0; b < p->blocks; b++, to += f->record)
            for (v = 0; v < wide; v += l.n) {
                for (i = 0; i < l.n; i++) {
                    const uint64_t column = first + v + i < p->columns ? first + v + i : p->columns - 1;
                    l.block[i] = from + column * row + b * f->block;
                }
                rlx_load_vector(f, &l, v, to);
            }
}

// Where each tensor begins in the file, 0: it has not come.
static inline int rlx_load_places(const rlx_load_plan *p, rlx_load_reader *r, const rlx_load_head *h,
                                  uint64_t *place)
{
    uint64_t i, begin;
    uint32_t k;
    memset(place, 0, p->n_tensors * sizeof *place);
    if (h->n_tensors != p->n_tensors)
        return RLX_LOAD_TENSORS;
    for (i = 0; i < h->n_tensors && !r->failed; i++) {
        uint64_t offset = 0;
        const uint32_t t = rlx_load_find(p->tensors, p->n_tensors, rlx_load_string(r));
        if (r->failed || t == p->n_tensors || place[t] != 0 ||
            !rlx_load_is_like(r, &p->tensors[t], &offset))
            return r->failed ? RLX_LOAD_DAMAGED : RLX_LOAD_TENSORS;
        if (r->failed || offset % h->alignment != 0 || offset >= UINT64_MAX)
            return RLX_LOAD_DAMAGED;
        place[t] = offset + 1;
    }
    begin = (r->at + (uint64_t)h->alignment - 1) / h->alignment * h->alignment;
    if (r->failed || begin > r->n)
        return RLX_LOAD_DAMAGED;
    for (k = 0; k < p->n_tensors; k++) {
        const uint64_t offset = place[k] - 1, left = r->n - begin;
        if (offset > left || p->tensors[k].bytes > left - offset)
            return RLX_LOAD_DAMAGED;
        place[k] = begin + offset;
    }
    return 0;
}

static inline int rlx_load_check_fixed(const rlx_load_plan *p, const unsigned char *file,
                                       const uint64_t *place)
{
    uint32_t k;
    for (k = 0; k < p->n_tensors; k++) {
        const rlx_load_tensor *t = &p->tensors[k];
        if (t->is_fixed && rlx_load_sum(file + place[k], t->bytes) != t->sum)
            return RLX_LOAD_VALUES;
    }
    return 0;
}

// All parts, with zeros between them.
static inline void rlx_load_all(const rlx_load_plan *p, const unsigned char *file, const uint64_t *place,
                                unsigned char *to, uint64_t bytes)
{
    uint64_t at = 0;
    uint32_t i;
    for (i = 0; i < p->n_parts; i++) {
        const rlx_load_part *part = &p->parts[i];
        const unsigned char *from = part->tensor == RLX_LOAD_NONE ? (const unsigned char *)p->own
                                                                  : file + place[part->tensor];
        memset(to + at, 0, (size_t)(part->to - at));
        at = part->to + part->bytes;
        if (part->format == RLX_LOAD_NONE)
            memcpy(to + part->to, from + part->from, (size_t)part->bytes);
        else
            rlx_load_blocks(&p->formats[part->format], part, from + part->from, to + part->to);
    }
    memset(to + at, 0, (size_t)(bytes - at));
}

// Behind the weights come the seal, their checksum, and what is known of the tensors' places while they are
// packed.
static inline int rlx_load_model(const rlx_load_plan *p, void *memory, size_t n_memory, const void *file,
                                 size_t n)
{
    const rlx_model *m = p->model;
    unsigned char *to = (unsigned char *)memory;
    rlx_load_reader r;
    rlx_load_head h;
    int status;
    if (memory == NULL || file == NULL)
        return RLX_LOAD_NULL;
    if (n_memory != m->weight_bytes || (uintptr_t)memory % RLX_ALIGNMENT != 0)
        return RLX_LOAD_MEMORY;
    const uint64_t bytes = m->weight_bytes - m->weights_seal;
    uint64_t *place = (uint64_t *)(void *)(to + bytes + 2 * RLX_SEAL_BYTES);
    memset(to + bytes, 0, m->weights_seal);
    r.data = (const unsigned char *)file;
    r.n = n;
    r.at = 0;
    r.failed = 0;
    if (!rlx_load_head_of(&r, p->arch, &h))
        return RLX_LOAD_FORMAT;
    if (r.failed)
        return RLX_LOAD_DAMAGED;
    if (h.settings != p->settings || h.vocabulary != p->vocabulary)
        return h.settings != p->settings ? RLX_LOAD_SETTINGS : RLX_LOAD_VOCABULARY;
    status = rlx_load_places(p, &r, &h, place);
    if (status == 0)
        status = rlx_load_check_fixed(p, r.data, place);
    if (status != 0)
        return status;
    rlx_load_all(p, r.data, place, to, bytes);
    const uint64_t sum = rlx_hash(to, bytes);
    memcpy(to + bytes, &m->weights_hash, RLX_SEAL_BYTES);
    memcpy(to + bytes + RLX_SEAL_BYTES, &sum, sizeof sum);
    return 0;
}

#endif
