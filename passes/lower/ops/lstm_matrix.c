// SPDX-License-Identifier: Apache-2.0
// Sums of lstm, gru and rnn on the matrix registers of CPUs (amx/matrix.h), where several entries of a batch
// and all weights come from bf16. Sums over inputs are one product for a chunk of steps; a step has one
// product of the hidden values of all entries, which are two numbers of bf16, the second of which is what the
// first one lacks; where --accuracy allows 1e-3, the first is all. Each number is a row of its own, so that
// both meet the same weights, and what follows adds up their sums. What is missing of a hidden value is 2^-17
// of it at most.
#include "passes/lower/amx/matrix.h"
#include "passes/lower/halves.h"
#include "passes/lower/ops/lstm.h"

#include <string.h>

enum { MOST_PLANES = 2, STORE_CYCLES = 8 };
static const double one_plane_error = 1e-3;

// --- is it worthwhile ----------------------------------------------------------------------------

static bool is_of_bf16(const Lower *l, NodeId id)
{
    const Node *n = lower_node(l, id);
    return halves_type(DTYPE_f32, node_attr(n, A_const_data)->u.blob, shape_numel(n->shape)) == DTYPE_bf16;
}

// Cycles of the products of a step: of matrix registers, and of vectors.
static bool is_faster(const Lower *l, const Lstm *m)
{
    const CpuMachine *cpu = &l->caps->cpu;
    const double rows = (double)(m->planes * m->batch), results = (double)(lstm_sums(m) / MATRIX_LANES);
    const double tiles = (double)ceil_div(m->planes * m->batch, MATRIX_LANES) * results;
    const double steps = (double)ceil_div(m->padded, MATRIX_BLOCK);
    const double matrix = tiles * steps * 2 * cpu->matrix_cycles + rows * results * STORE_CYCLES;
    const double macs = (double)(m->batch * lstm_gates(m) * m->hidden) * (double)m->hidden;
    return matrix < macs / (0.9 * l->caps->f32_lanes * cpu->fma_per_cycle);
}

bool lstm_choose_matrix(Lower *l, Lstm *m)
{
    m->planes = l->pass->options->accuracy >= one_plane_error ? 1 : MOST_PLANES;
    return l->caps->has_matrix && m->is_packed && m->lanes == MATRIX_LANES && m->cell->phases == 1 &&
           m->steps == 0 && m->batch > 1 && m->input > 0 && m->seq > 0 && l->g->reads == NULL &&
           halves_come_from(l->g, m->x, DTYPE_bf16) && is_of_bf16(l, m->w) && is_of_bf16(l, m->r) &&
           is_faster(l, m) && lower_take(l);
}

// --- weights -------------------------------------------------------------------------------------

// Rows of a direction in the order of sums, those of inputs or of hidden values; zeros for sums and units
// that have none.
static const uint16_t *rows_of_sums(const Lower *l, const Lstm *m, int64_t dir, bool is_hidden)
{
    const int64_t size = is_hidden ? m->hidden : m->input, width = is_hidden ? m->padded : size;
    const float *from = node_attr(lower_node(l, is_hidden ? m->r : m->w), A_const_data)->u.blob;
    uint16_t *rows = ARENA_ARRAY(l->pass->perm, uint16_t, lstm_sums(m) * width);
    for (int64_t sum = 0; sum < m->cell->sums; sum++) {
        const int64_t gate = lstm_gate(m, sum, is_hidden);
        for (int64_t i = 0; gate >= 0 && i < m->hidden * size; i++)
            halves_copy(rows + (sum * m->padded + i / size) * width + i % size, DTYPE_bf16, from, DTYPE_f32,
                        (dir * lstm_gates(m) + gate) * m->hidden * size + i);
    }
    return rows;
}

static uint32_t bias_of_sums(Lower *l, const Lstm *m, int64_t dir)
{
    const float *from = m->b == 0 ? NULL : node_attr(lower_node(l, m->b), A_const_data)->u.blob;
    float *bias = ARENA_ARRAY(l->pass->perm, float, lstm_sums(m));
    for (int64_t sum = 0; sum < m->cell->sums && from != NULL; sum++)
        for (int64_t unit = 0; unit < m->hidden; unit++)
            bias[sum * m->padded + unit] = lstm_bias_of(m, from, dir, sum, unit);
    return lower_param_data(l, "bias", DTYPE_f32, bias, (uint64_t)lstm_sums(m) * sizeof *bias);
}

// --- products ------------------------------------------------------------------------------------

typedef struct Product {
    const LstmStep *s;
    int64_t dir;
} Product;

static bool goes_back(const Product *p)
{
    return p->s->m->reverse_only || p->dir == 1;
}

// Row: a step of the chunk, by its time; column: an entry.
static void store_input(Lower *l, const TileOut *out, KRef value, void *ctx)
{
    const Product *p = ctx;
    Kernel *k = l->k;
    const Lstm *m = p->s->m;
    const KRef step = goes_back(p) ? k_expr(k, "# - $", m->chunk - 1, out->row) : out->row;
    const KRef row = k_expr(k, "$ * # + $", step, m->batch, out->column);
    k_store(k, m->ahead, k_expr(k, "$ + ($ * # + $)", p->s->ahead, row, lstm_sums(m), out->channel), value,
            out->lanes);
}

void lstm_matrix_inputs(Lower *l, const LstmStep *s, int64_t dir)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const int64_t *stride = lower_loc(l, m->x)->stride;
    const int64_t of_time = stride[m->batch_major ? 1 : 0], of_entry = stride[m->batch_major ? 0 : 1];
    Product p = {s, dir};
    rlx_assert(m->chunk > 0 && m->seq % m->chunk == 0);
    const KRef first = goes_back(&p) ? k_expr(k, "# - $", m->seq - m->chunk, s->chunk) : s->chunk;
    const TileShape shape = {.is_bf16 = true, .n = 1, .h = m->chunk, .w = m->batch, .in_h = m->chunk,
                             .in_w = m->batch, .ic = m->input, .oc = lstm_sums(m), .kh = 1, .kw = 1, .sh = 1,
                             .sw = 1, .dh = 1, .dw = 1};
    Tile t = tile_new(l, shape);
    t.in = (TileInput){.param = lower_param(l, m->x, PARAM_READ), .stride_c = stride[2],
                       .stride_h = of_time, .stride_w = of_entry,
                       .base = k_expr(k, "$ * #", first, of_time)};
    t.has_bias = true;
    t.bias = bias_of_sums(l, m, dir);
    t.bias_base = k_index(k, 0);
    t.store = store_input;
    t.ctx = &p;
    const TileSource weights = {.data = rows_of_sums(l, m, dir, false), .stride_oc = m->input,
                                .stride_ic = 1};
    matrix_emit_inside(&t, &weights, node_name(l->g, m->w));
}

static int64_t first_plane(const Lstm *m, int64_t dir)
{
    return dir * m->planes * m->batch;
}

// Column: an entry of a plane.
static void store_sums(Lower *l, const TileOut *out, KRef value, void *ctx)
{
    const Product *p = ctx;
    Kernel *k = l->k;
    const Lstm *m = p->s->m;
    const KRef row = k_expr(k, "$ + #", out->column, first_plane(m, p->dir));
    k_store(k, m->hidden_sums, k_expr(k, "$ * # + $", row, lstm_sums(m), out->channel), value, out->lanes);
}

void lstm_matrix_hidden(Lower *l, const LstmStep *s, int64_t dir)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    Product p = {s, dir};
    rlx_assert(m->planes >= 1 && m->planes <= MOST_PLANES);
    const int64_t rows = m->planes * m->batch;
    Tile t = tile_new(l, (TileShape){.is_bf16 = true, .n = 1, .h = 1, .w = rows, .in_h = 1, .in_w = rows,
                                     .ic = m->padded, .oc = lstm_sums(m), .kh = 1, .kw = 1, .sh = 1, .sw = 1,
                                     .dh = 1, .dw = 1});
    t.in = (TileInput){.param = m->halves, .stride_c = 1, .stride_w = m->padded,
                       .base = k_index(k, first_plane(m, dir) * m->padded)};
    t.store = store_sums;
    t.ctx = &p;
    const TileSource weights = {.data = rows_of_sums(l, m, dir, true), .stride_oc = m->padded,
                                .stride_ic = 1};
    matrix_emit_inside(&t, &weights, node_name(l->g, m->r));
}

// --- hidden values and their sums ----------------------------------------------------------------

static KRef row_of_plane(Kernel *k, const LstmStep *s, uint32_t e, int64_t plane)
{
    const Lstm *m = s->m;
    return k_expr(k, "($ * # + #) * # + ($ + #)", s->dir, m->planes, plane, m->batch, s->entry, e);
}

void lstm_matrix_keep(Lower *l, const LstmStep *s, uint32_t e, KRef unit, KRef value)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    for (int64_t p = 0; p < m->planes; p++) {
        const KRef at = k_expr(k, "$ * # + $", row_of_plane(k, s, e, p), m->padded, unit);
        const KRef part = k_cast(k, value, DTYPE_bf16);
        k_store(k, m->halves, at, part, m->lanes);
        if (p + 1 < m->planes)
            value = lstm_rest(k, value, part, m->lanes);
    }
}

KRef lstm_matrix_sum(Lower *l, const LstmStep *s, uint32_t e, uint32_t sum, KRef unit, KRef ahead)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    rlx_assert(sum < m->cell->sums);
    for (int64_t p = m->planes; p-- > 0;) {
        const KRef at = k_expr(k, "$ * # + ($ + #)", row_of_plane(k, s, e, p), lstm_sums(m), unit,
                               (int64_t)sum * m->padded);
        ahead = k_add(k, ahead, k_load(k, m->hidden_sums, at, m->lanes, m->lanes));
    }
    return ahead;
}

void lstm_matrix_params(Lower *l, Lstm *m)
{
    const int64_t rows = m->dirs * m->planes * m->batch;
    m->halves = lower_param_scratch(l, "hidden values", DTYPE_bf16, (uint64_t)(rows * m->padded));
    m->hidden_sums = lower_param_scratch(l, "sums", DTYPE_f32, (uint64_t)(rows * lstm_sums(m)));
}
