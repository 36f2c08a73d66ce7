// SPDX-License-Identifier: Apache-2.0
// The meaning of the ops that read quantised blocks: every element is rounded to f32 once, whoever reads it.
#include "ir/graph/blocks.h"
#include "ir/eval/eval_ops.h"

bool eval_block_decode(EvalCtx *c)
{
    const BlockFormat *f = block_format(c->scratch, node_get_str(c->node, A_block_decode_format));
    rlx_assert(f != NULL && c->out[0].dtype == DTYPE_f32 && c->out[0].numel % f->elements == 0);
    const unsigned char *from = c->in[0].data;
    float *to = c->out[0].data;
    for (int64_t i = 0; i < c->out[0].numel; i += f->elements, from += f->bytes)
        block_decode(f, from, to + i);
    return true;
}

bool eval_block_gather(EvalCtx *c)
{
    const BlockFormat *f = block_format(c->scratch, node_get_str(c->node, A_block_gather_format));
    const Tensor *x = &c->in[0], *index = &c->in[1];
    const int64_t n = x->dim[0], blocks = x->dim[1];
    float *to = c->out[0].data;
    rlx_assert(f != NULL && n > 0 && c->out[0].numel == index->numel * blocks * f->elements);
    for (int64_t i = 0; i < index->numel; i++) {
        const int64_t row = eval_row(index, i, n);
        const unsigned char *from = (const unsigned char *)x->data + row * blocks * f->bytes;
        for (int64_t b = 0; b < blocks; b++, to += f->elements)
            block_decode(f, from + b * f->bytes, to);
    }
    return true;
}

// --- products ------------------------------------------------------------------------------------

// Where rows of weights come from: element k of row n, in f32.
typedef struct Rows Rows;
struct Rows {
    void (*decode)(const Rows *r, int64_t n, float *row);
    int64_t inner, columns;
    const unsigned char *data;
    const BlockFormat *f;       // of blocks
    const double *scale, *bias; // of groups
    int64_t bits, groups, pitch, per_word; // pitch: bytes of a row
};

static void decode_blocks(const Rows *r, int64_t n, float *row)
{
    const int64_t blocks = r->inner / r->f->elements;
    for (int64_t b = 0; b < blocks; b++)
        block_decode(r->f, r->data + (n * blocks + b) * r->f->bytes, row + b * r->f->elements);
}

static void decode_groups(const Rows *r, int64_t n, float *row)
{
    const unsigned char *bytes = r->data + n * r->pitch;
    for (int64_t i = 0; i < r->inner; i++) {
        const int64_t bit =
            r->per_word == 0 ? i * r->bits : i / r->per_word * 32 + i % r->per_word * r->bits;
        const int64_t g = n * r->groups + i / (r->inner / r->groups);
        const unsigned above = bit % 8 + r->bits > 8 ? bytes[bit / 8 + 1] : 0;
        const unsigned both = bytes[bit / 8] | above << 8;
        const unsigned q = both >> (bit % 8) & ((1u << r->bits) - 1);
        row[i] = (float)(q * r->scale[g] + r->bias[g]);
    }
}

// y[r] = the decoded rows times x[r / shared]; with an index, those of the expert that it names.
static bool multiply_rows(EvalCtx *c, const Rows *w, const int64_t *index, int64_t experts, int64_t shared)
{
    rlx_assert(experts >= 0 && shared >= 1 && w->inner >= 0 && (experts == 1 || index != NULL));
    const int64_t rows = w->columns > 0 ? c->out[0].numel / w->columns : 0;
    const double *a = eval_doubles(c, 0);
    double *y = eval_scratch(c, c->out[0].numel);
    float *row = ARENA_ARRAY(c->scratch, float, w->inner + 1);
    if (!eval_check_work(c, c->out[0].numel, w->inner))
        return false;
    for (int64_t n = 0; n < experts * w->columns && rows > 0; n++) {
        w->decode(w, n, row);
        for (int64_t r = 0; r < rows; r++) {
            if (index && index[r] != n / w->columns)
                continue;
            for (int64_t k = 0; k < w->inner; k++)
                y[r * w->columns + n % w->columns] += a[r / shared * w->inner + k] * (double)row[k];
        }
    }
    eval_store(c, 0, y);
    return true;
}

static bool multiply_experts(EvalCtx *c, const Rows *w)
{
    const Tensor *x = &c->in[0], *index = &c->in[2];
    const int64_t shared = x->rank == index->rank && index->numel > 0 ? index->dim[index->rank - 1] : 1;
    return multiply_rows(c, w, eval_integers(c, 2), c->in[1].dim[0], shared);
}

static Rows rows_of(const EvalCtx *c, uint32_t leading)
{
    rlx_assert(c->in[0].rank >= 1 && leading < c->in[1].rank);
    const Tensor *x = &c->in[0], *w = &c->in[1];
    return (Rows){.inner = x->dim[x->rank - 1], .columns = w->dim[leading], .data = w->data};
}

static Rows blocks_of(const EvalCtx *c, AttrId format, uint32_t leading)
{
    Rows r = rows_of(c, leading);
    r.decode = decode_blocks;
    r.f = block_format(c->scratch, node_get_str(c->node, format));
    return r;
}

// The attribute behind `bits` says how many there are in a word.
static Rows groups_of(EvalCtx *c, AttrId bits, uint32_t leading, uint32_t first)
{
    const Tensor *w = &c->in[1];
    Rows r = rows_of(c, leading);
    r.decode = decode_groups;
    r.bits = node_get_int(c->node, bits);
    r.scale = eval_doubles(c, first);
    r.bias = eval_doubles(c, first + 1);
    r.groups = c->in[first].dim[leading + 1];
    r.per_word = node_get_int(c->node, bits + 1);
    r.pitch = w->dtype == DTYPE_u32 ? 4 * w->dim[leading + 1] : w->dim[leading + 1] * w->dim[leading + 2];
    return r;
}

bool eval_block_matmul(EvalCtx *c)
{
    const Rows w = blocks_of(c, A_block_matmul_format, 0);
    return multiply_rows(c, &w, NULL, 1, 1);
}

bool eval_block_grouped_matmul(EvalCtx *c)
{
    const Rows w = blocks_of(c, A_block_grouped_matmul_format, 1);
    return multiply_experts(c, &w);
}

bool eval_affine_matmul(EvalCtx *c)
{
    const Rows w = groups_of(c, A_affine_matmul_bits, 0, 2);
    return multiply_rows(c, &w, NULL, 1, 1);
}

bool eval_affine_grouped_matmul(EvalCtx *c)
{
    const Rows w = groups_of(c, A_affine_grouped_matmul_bits, 1, 3);
    return multiply_experts(c, &w);
}
