// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// Packs matrices of floats into panels of columns, in the order in which products read them. Elements keep
// their bytes.
#ifndef RLX_LOAD_PANELS_H
#define RLX_LOAD_PANELS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Panels of equal width from column `first` on; `real` columns of the last exist. A group of panels has some
// steps of each in turn, then the next steps; the last group may have fewer panels.
typedef struct rlx_load_run {
    uint64_t first, width, count, real, group;
} rlx_load_run;

// Element (i, column) of a matrix is at i * row + column * column_step.
typedef struct rlx_load_layout {
    uint32_t bytes, n_runs; // bytes: of an element, 2 or 4
    uint64_t k, steps, row, column_step;
    uint64_t n_matrices, matrix; // elements from one to the next
    uint64_t stride;             // packed bytes from one to the next
    rlx_load_run runs[3];
} rlx_load_layout;

// Bytes that follow each other in the file, a line of a cache, whose elements go to as many rows of a panel.
enum { RLX_LOAD_TILE = 64 };

// Elements of `bytes` bytes: steps [first, end) of the columns from `c` on, one by one.
static inline void rlx_load_each(const rlx_load_layout *y, const unsigned char *from, const rlx_load_run *r,
                                 unsigned char *to, size_t bytes, uint64_t c, uint64_t first, uint64_t end)
{
    const size_t row = (size_t)y->row * bytes, wide = (size_t)r->width * bytes;
    for (; c < r->real; c++) {
        const unsigned char *in = from + (size_t)(c * y->column_step) * bytes + (size_t)first * row;
        unsigned char *out = to + (size_t)first * wide + (size_t)c * bytes;
        uint64_t i;
        for (i = first; i < end; i++, in += row, out += wide)
            memcpy(out, in, bytes);
    }
}

// A square of two by two elements of 4 bytes: words that are `column` bytes apart become words `wide` apart.
static inline void rlx_load_square_4(const unsigned char *in, size_t column, unsigned char *out, size_t wide)
{
    uint64_t a, b, low, high;
    memcpy(&a, in, 8);
    memcpy(&b, in + column, 8);
    low = (a & 0xffffffffu) | b << 32;
    high = a >> 32 | (b >> 32 << 32);
    memcpy(out, &low, 8);
    memcpy(out + wide, &high, 8);
}

// The same of four by four elements of 2 bytes: pairs of columns are mixed first, then pairs of pairs.
static inline void rlx_load_square_2(const unsigned char *in, size_t column, unsigned char *out, size_t wide)
{
    const uint64_t even = 0x0000ffff0000ffffu, low = 0xffffffffu;
    uint64_t a[4], of_even[2], of_odd[2], row[4];
    int i;
    for (i = 0; i < 4; i++)
        memcpy(&a[i], in + (size_t)i * column, 8);
    for (i = 0; i < 2; i++) {
        of_even[i] = (a[2 * i] & even) | (a[2 * i + 1] & even) << 16;
        of_odd[i] = (a[2 * i] >> 16 & even) | (a[2 * i + 1] & ~even);
    }
    row[0] = (of_even[0] & low) | of_even[1] << 32;
    row[1] = (of_odd[0] & low) | of_odd[1] << 32;
    row[2] = of_even[0] >> 32 | (of_even[1] & ~low);
    row[3] = of_odd[0] >> 32 | (of_odd[1] & ~low);
    for (i = 0; i < 4; i++)
        memcpy(out + (size_t)i * wide, &row[i], 8);
}

// The steps of the columns of a panel: from strided elements to rows of `width`, by tiles that caches keep,
// and by squares where the steps of a column follow each other. bytes: of an element, a constant where
// compilers make this code.
static inline void rlx_load_turn(const rlx_load_layout *y, const unsigned char *from, const rlx_load_run *r,
                                 unsigned char *to, size_t bytes)
{
    const size_t column = (size_t)y->column_step * bytes, wide = (size_t)r->width * bytes;
    const uint64_t side = 8 / bytes, tile = RLX_LOAD_TILE / bytes;
    uint64_t first, i, c;
    for (first = 0; first < y->steps; first += tile) {
        const uint64_t end = first + tile < y->steps ? first + tile : y->steps;
        const uint64_t whole = y->row == 1 ? first + (end - first) / side * side : first;
        for (c = 0; c + side <= r->real; c += side) {
            for (i = first; i < whole; i += side) {
                const unsigned char *in = from + (size_t)c * column + (size_t)i * bytes;
                unsigned char *out = to + (size_t)i * wide + (size_t)c * bytes;
                if (bytes == 2)
                    rlx_load_square_2(in, column, out, wide);
                else
                    rlx_load_square_4(in, column, out, wide);
            }
        }
        rlx_load_each(y, from, r, to, bytes, c, first, whole);
        rlx_load_each(y, from, r, to, bytes, 0, whole, end);
    }
}

// Columns that do not exist are zeros.
static inline void rlx_load_pad(const rlx_load_layout *y, const rlx_load_run *r, unsigned char *to)
{
    const size_t used = (size_t)r->real * y->bytes, wide = (size_t)r->width * y->bytes;
    uint64_t i;
    for (i = 0; i < y->steps && used < wide; i++, to += wide)
        memset(to + used, 0, wide - used);
}

// Panel number o of a run that begins at `to`, of a matrix at `from`.
static inline void rlx_load_panel(const rlx_load_layout *y, const rlx_load_run *r, uint64_t o,
                                  const unsigned char *from, unsigned char *to)
{
    const uint64_t first = o / r->group * r->group;
    const uint64_t beside = first + r->group < r->count ? r->group : r->count - first;
    const size_t piece = (size_t)(y->steps * r->width) * y->bytes;
    uint64_t i;
    from += (size_t)((r->first + o * r->width) * y->column_step) * y->bytes;
    to += (size_t)(first * y->k * r->width) * y->bytes + (size_t)(o - first) * piece;
    for (i = 0; i < y->k; i += y->steps, to += beside * piece) {
        const unsigned char *in = from + (size_t)(i * y->row) * y->bytes;
        if (y->bytes == 2)
            rlx_load_turn(y, in, r, to, 2);
        else
            rlx_load_turn(y, in, r, to, 4);
        rlx_load_pad(y, r, to);
    }
}

// Panels of a matrix.
static inline uint64_t rlx_load_count(const rlx_load_layout *y)
{
    uint64_t n = 0;
    uint32_t i;
    for (i = 0; i < y->n_runs; i++)
        n += y->runs[i].count;
    return n;
}

// Panels [first, end) of those of all matrices.
static inline void rlx_load_panels(const rlx_load_layout *y, uint64_t first, uint64_t end,
                                   const unsigned char *from, unsigned char *to)
{
    const uint64_t each = rlx_load_count(y);
    uint64_t at;
    for (at = first; at < end; at++) {
        const uint64_t matrix = at / each;
        const rlx_load_run *r = y->runs;
        unsigned char *out = to + (size_t)(matrix * y->stride);
        uint64_t o = at % each;
        for (; o >= r->count; r++) {
            o -= r->count;
            out += (size_t)(r->count * r->width * y->k) * y->bytes;
        }
        rlx_load_panel(y, r, o, from + (size_t)(matrix * y->matrix) * y->bytes, out);
    }
}

// Behind each matrix but the only one.
static inline void rlx_load_clear_ends(const rlx_load_layout *y, unsigned char *to)
{
    uint64_t used = 0, m;
    uint32_t i;
    for (i = 0; i < y->n_runs; i++)
        used += y->runs[i].count * y->runs[i].width * y->k * y->bytes;
    for (m = 0; m < y->n_matrices; m++)
        memset(to + (size_t)(m * y->stride + used), 0, (size_t)(y->stride - used));
}

#endif
