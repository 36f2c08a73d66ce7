// SPDX-License-Identifier: Apache-2.0
// Products with blocks by groups of threads, on GPUs.
#ifndef PASSES_LOWER_BLOCKS_BLOCKS_TEAM_H
#define PASSES_LOWER_BLOCKS_BLOCKS_TEAM_H

#include "passes/lower/blocks/blocks_product.h"

// A row of x at a time; tiles of many rows. False: it does not apply.
bool block_team_product(Lower *l, BlockProduct *p);
bool block_tile_product(Lower *l, BlockProduct *p);

// What --accuracy must allow for digits. With three, elements are rounded to 2^-23 of the largest one in
// their unit of 32, which on sums of random numbers is less than what sums in f32 are off by. Two and one are
// taken for the errors for which CPUs take them.
#define BLOCK_DIGITS_ERROR 1e-6
#define BLOCK_TWO_ERROR    1e-4
#define BLOCK_ONE_ERROR    1e-2

// --- what its parts share ------------------------------------------------------------------------

enum {
    PIECE = 32, // elements of a thread
    TEAM = 32,
    MAX_SEGMENTS = 4,
    MAX_COLUMNS = 4, // of a team
    MAX_DIGITS = 3,
    WORD = 4,
};

// What a thread decodes: the same pieces of the blocks of all columns.
typedef struct Piece {
    KRef block;  // index of the block's first word, within a column's
    KRef number; // of the piece in its block
    KRef first;  // its first element in the block
    int64_t skew; // bytes that the block begins behind that word
} Piece;

typedef struct Team {
    Lower *l;
    BlockProduct *p;
    const BlockFormat *f;
    int64_t threads, teams, columns; // of a group; columns of a team
    int64_t period, per_block;       // blocks that begin alike are so far apart; pieces of a block
    int64_t span, segments, length;  // elements of a run's bytes; runs of elements of a piece, `length` each
    int64_t same;                    // elements of a run between which no group ends
    int64_t chunk, blocks, words;    // elements, blocks and words of a column in a chunk
    int64_t vector;                  // words of an access
    int64_t row_words, pad;
    uint32_t w, x;
    bool is_part;  // the bytes of a piece have bits of other pieces too, so that it is of one group
    bool has_digits; // x is integers of `digits` bytes, see blocks_digits.c
    int64_t digits;
    bool is_early; // weights may be read before the kernels before have ended
    KRef magic, thread, lane, team; // number of the thread in its team, of the team
    KRef tile, xs, values;          // shared
    KRef column, expert;            // the first one of the group; whose matrix it is
    KRef w_base, x_base;            // of column 0, of the row
    KRef held, held_x;              // words and elements of x on their way
    KRef acc[MAX_COLUMNS];
    KRef xr[PIECE], sum[PIECE];        // x of the piece (words of digits), and its sums, a step each
    KRef step[MAX_SEGMENTS];           // of the digits
} Team;

static inline KRef team_op(const Team *t, KOp op, KRef a, KRef b)
{
    return k_op(t->l->k, op, a, b, 0);
}
static inline KRef team_number(const Team *t, double v)
{
    return k_number(t->l->k, DTYPE_f32, v);
}
// Quotient and remainder of indices that are not negative; powers of two need no division.
KRef team_div(const Team *t, KRef a, int64_t b);
KRef team_rem(const Team *t, KRef a, int64_t b);
// Do all elements of a piece belong to one group?
static inline bool team_is_joined(const Team *t)
{
    return t->f->group % (t->segments == 1 ? PIECE : t->span) == 0;
}
// Number of the sum of x that has element i of segment s.
static inline int64_t team_sum(const Team *t, int64_t s, int64_t i)
{
    return team_is_joined(t) ? 0 : (s * t->length + i) / t->same;
}
// Words of 32 elements as digits: these, the step, sums of both halves.
static inline int64_t team_unit_words(const Team *t)
{
    return t->digits * PIECE / WORD + 4;
}
// Where digits of unit `number` of the chunk begin.
KRef team_unit(const Team *t, KRef number);
// Can x be digits? Elements that are table entries, and short runs, are floats. And how many digits.
bool team_can_digits(const Team *t);
bool team_wants_digits(const Team *t);
int64_t team_digits(const Team *t);
// Begins to read a chunk's elements of x, team_held_elements of a thread; rounds them to digits, in shared
// memory; reads those of a segment that begins at element e of the chunk.
int64_t team_held_elements(const Team *t);
void team_fetch_digits(const Team *t, KRef chunk);
void team_store_digits(const Team *t, KRef chunk);
void team_read_digits(Team *t, int64_t s, KRef e);
// What threads and chunks are, by the format and the sizes of the product.
void team_find_shape(Team *t);
// Are rows of blocks words, one behind the other?
bool team_has_words(const Team *t);
// Parameters of the kernel; what is known of a thread; values of elements, in shared memory.
void team_add_params(Team *t);
uint32_t team_weight(const Team *t, NodeId w);
void team_begin(Team *t);
void team_load_values(const Team *t);
// The matrix and the row of x of a row of the result. 0, or whether there is such a matrix.
KRef team_find_operands(Team *t, KRef row);
// What a thread decodes in step `step` of a chunk. Where blocks have no power of two of pieces, the last
// threads of a team have none: 0, or whether it has one.
Piece team_piece(const Team *t, int64_t step);
KRef team_has_piece(const Team *t);
// Words of shared memory for the elements of x of a chunk; a piece of x from there to registers, of block
// `block` of the chunk.
int64_t team_x_words(const Team *t);
void team_read_x(Team *t, const Piece *piece, KRef block);
// Stores an element of the result, of the sum by each matrix. is_some: as of team_find_operands.
void team_store(const Team *t, KRef row, KRef column, const KRef *sums, KRef is_some);
// Elements of x that one access reads.
int64_t team_x_width(const Lower *l, const BlockProduct *p);
// Adds the products of a piece of one column, which is in shared memory, to a variable.
void team_add_piece(const Team *t, const Piece *piece, int64_t column, KRef to);
// The scale of a piece's elements from the one `ahead` of its first on, which are of one group, and the min
// (0: none), of the block from word `from` on.
void team_step_numbers(const Team *t, const Piece *piece, KRef from, int64_t ahead, KRef *scale, KRef *min);
// Sums of columns by parts of k, for each of the matrices: [matrices][columns][parts], shared.
typedef struct TeamParts {
    KRef sums;
    int64_t matrices, columns, parts;
} TeamParts;
// Adds them up and stores the columns that there are.
void team_store_parts(const Team *t, const TeamParts *p, KRef row, KRef is_some);
// Elements e to e + 3 of the block that begins `skew` bytes behind word `from`: f32, e being a multiple of 4.
void team_decode_four(const Team *t, KRef from, int64_t skew, int64_t e, KRef *out);
// Elements that the bytes of a run of a plane hold.
static inline int64_t team_span(const BlockPlane *p)
{
    return p->run * (8 / p->bits);
}

// Tiles of many rows of 16-bit floats on matrix units. False: it does not apply.
bool block_mma_product(Lower *l, BlockProduct *p);
// The product on matrix units of bytes; on devices that copy to shared memory by themselves. False: it does
// not apply. And is the first one of those for a row, with two matrices?
bool block_units_product(const Team *shape);
bool block_units_take(Team *shape);
bool block_stream_product(const Team *shape);
// Tiles of so many columns of all products of the same row, which may stand beside each other
// (passes/plan/beside.c).
int64_t block_row_tiles(const Team *t, int64_t columns);

#endif
