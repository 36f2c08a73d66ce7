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

// Elements that follow each other in the file, and are as many columns of a panel apart.
enum { RLX_LOAD_TILE = 16 };

// The steps of the columns of a panel: from strided elements to rows of `width`, by tiles that caches keep.
// bytes: of an element, a constant where compilers make this code.
static inline void rlx_load_turn(const rlx_load_layout *y, const unsigned char *from, const rlx_load_run *r,
                                 unsigned char *to, size_t bytes)
{
    const size_t row = (size_t)y->row * bytes, wide = (size_t)r->width * bytes;
    uint64_t first, i, c;
    for (first = 0; first < y->steps; first += RLX_LOAD_TILE) {
        const uint64_t end = first + RLX_LOAD_TILE < y->steps ? first + RLX_LOAD_TILE : y->steps;
        for (c = 0; c < r->real; c++) {
            const unsigned char *in = from + (size_t)(c * y->column_step) * bytes + (size_t)first * row;
            unsigned char *out = to + (size_t)first * wide + (size_t)c * bytes;
            for (i = first; i < end; i++, in += row, out += wide)
                memcpy(out, in, bytes);
        }
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
