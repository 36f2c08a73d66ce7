// SPDX-License-Identifier: Apache-2.0
// Matrix times vector on GPUs. See matvec.h.
#include "passes/lower/product/matvec.h"

#include <math.h>
#include <string.h>

enum { WARP = 32, FETCH_BYTES = 16, MAX_WARPS = 8, MAX_FLIGHT = 8, MAX_CHUNKS = 8, MAX_SUMS = 32 };

// --- shapes --------------------------------------------------------------------------------------

// Time, about, as a factor of the best: measured on an H200. flight: loads of a thread under way at once.
static double cost_of(const MatVecShape *s, int64_t n_vectors, bool is_small, uint32_t n_b)
{
    const uint32_t rows = s->rows * n_b, flight = rows * s->vectors;
    double cost = (double)(s->vectors * s->chunks * s->warps * WARP) / (double)n_vectors;
    cost *= rows == 1 ? 1.06 : rows == 2 ? 1.03 : 1.0; // reads of the other operand
    if (s->chunks == 1)
        cost *= is_small ? 1.0 : 1.02;
    else
        cost *= s->chunks == 2 ? (is_small ? 1.03 : 1.0) : s->chunks <= 4 ? 1.04 : 1.1;
    if (flight < 4)
        cost *= 1 + 0.05 * (4 - flight);
    else if (s->chunks > 1)
        cost *= 1 + 0.005 * (flight - 4);
    return cost * (1 + 0.0025 * s->warps);
}

// Small: the product is under way as a whole before the first byte is used.
bool matvec_choose(const GpuMachine *gpu, const MatVec *v, DType t, MatVecShape *out)
{
    const int64_t m = v->m, n = v->n, k = v->k, n_b = v->n_b;
    const int64_t width = FETCH_BYTES / dtype_info[t].bytes, n_vectors = k / width;
    const bool is_small = n * k * dtype_info[t].bytes * n_b <= (int64_t)gpu_about_l2(gpu) / 2;
    double best = HUGE_VAL;
    if ((t != DTYPE_f32 && !k_is_half(t)) || m < 1 || m > MATVEC_MAX_ROWS || n < 1 || k % width != 0 ||
        n_vectors < WARP / 4)
        return false;
    for (uint8_t warps = 1; warps <= MAX_WARPS; warps *= 2)
        for (uint8_t rows = 4; rows > 0; rows /= 2)
            for (uint8_t chunks = 1; chunks <= MAX_CHUNKS; chunks++) {
                const int64_t vectors = ceil_div(n_vectors, (int64_t)WARP * warps * chunks);
                if (rows > n || vectors * rows * n_b > MAX_FLIGHT || rows * m * n_b > MAX_SUMS)
                    continue;
                const MatVecShape s = {rows, warps, (uint8_t)vectors, chunks};
                const double cost = cost_of(&s, n_vectors, is_small, v->n_b);
                if (cost >= best)
                    continue;
                best = cost;
                *out = s;
            }
    return best < HUGE_VAL;
}

// --- kernels -------------------------------------------------------------------------------------

typedef struct Emit {
    const MatVec *v;
    Lower *l;
    Kernel *k;
    DType type;        // of the elements
    DType word;        // that loads are made of
    int64_t width;     // elements of a load
    int64_t per_word;  // elements of a word
    int64_t n_vectors; // loads of a row
    KRef thread, lane, part, first_row, first_vector;
    uint32_t a, scale, b[MATVEC_MAX_MATRICES];
    bool is_a_wide;
    bool is_once; // caches do not keep the matrices until the next run
    KRef held, words;       // what of the matrices is under way; what of another operand is in use
    KRef floats;            // the same of one that is f32 beside halves
    KRef sum[MAX_SUMS];     // variables: [matrix][row of a][row of the team]
    KRef square[MATVEC_MAX_ROWS]; // of the rows of a, for the norm
} Emit;

// The number of a load in its row; beyond: may there be none of that number?
static KRef vector_at(const Emit *e, uint32_t step, bool *beyond)
{
    const MatVecShape *s = &e->v->shape;
    const int64_t own = s->vectors * s->chunks;
    *beyond = (s->warps - 1) * own * WARP + ((int64_t)step + 1) * WARP > e->n_vectors;
    return k_expr(e->k, "$ + #", e->first_vector, (int64_t)step * WARP);
}

static KRef clamped(const Emit *e, KRef index, int64_t n)
{
    return k_expr(e->k, "min($, #)", index, n - 1);
}

// Where the loads of row r of a matrix and of a step are held.
static uint32_t place_of(const Emit *e, uint32_t matrix, uint32_t r, uint32_t step)
{
    const MatVecShape *s = &e->v->shape;
    return (matrix * s->rows + r) * s->vectors + step % s->vectors;
}

static void fetch_matrix(const Emit *e, uint32_t matrix, uint32_t r, uint32_t step)
{
    Kernel *k = e->k;
    const int64_t words = FETCH_BYTES / dtype_info[e->word].bytes;
    bool beyond = false;
    KRef vector = vector_at(e, step, &beyond), row = k_expr(k, "$ + #", e->first_row, r);
    vector = beyond ? clamped(e, vector, e->n_vectors) : vector;
    row = r > 0 && e->v->n % e->v->shape.rows != 0 ? clamped(e, row, e->v->n) : row;
    KRef at = k_expr(k, "$ * # + $ * #", row, e->v->b_pitch / e->per_word, vector, words);
    if (e->v->b_base != 0)
        at = k_expr(k, "$ / # + $", e->v->b_base, e->per_word, at);
    const KRef to = k_index(k, place_of(e, matrix, r, step) * words);
    if (e->is_once)
        k_fetch_once(k, e->b[matrix], at, e->held, to, (uint8_t)words);
    else
        k_fetch(k, e->b[matrix], at, e->held, to, (uint8_t)words);
}

// Element i of a load, of which `array` has the words from `at` on.
static KRef element(const Emit *e, KRef array, int64_t at, int64_t i)
{
    Kernel *k = e->k;
    const KRef word = k_aload(k, array, k_index(k, at + i / e->per_word), 1);
    if (e->type == DTYPE_f32)
        return word;
    const KRef shift = k_integer(k, DTYPE_u32, 16), high = k_integer(k, DTYPE_u32, 0xffff0000);
    if (e->type == DTYPE_bf16)
        return k_bitcast(k, k_op(k, i % 2 == 0 ? KOP_shl : KOP_and, word, i % 2 == 0 ? shift : high, 0),
                         DTYPE_f32);
    const KRef half = i % 2 == 0 ? word : k_shr(k, word, shift);
    return k_cast(k, k_bitcast(k, k_cast(k, half, DTYPE_u16), DTYPE_f16), DTYPE_f32);
}

// Words of the parameter of an operand beside the matrices.
static DType word_beside(const Emit *e, NodeId id)
{
    return lower_node(e->l, id)->dtype == DTYPE_f32 ? DTYPE_f32 : e->word;
}

// All elements of load `vector` of a parameter that begins at `base` as f32.
static void read_wide(const Emit *e, uint32_t param, KRef base, KRef vector, KRef *out)
{
    Kernel *k = e->k;
    const DType word = (DType)k->params.data[param].dtype;
    const int64_t words = FETCH_BYTES / dtype_info[e->word].bytes;
    const int64_t per_word = word == e->word ? e->per_word : 1;
    const int64_t each = words * per_word; // elements of a fetch
    const KRef to = word == e->word ? e->words : e->floats;
    for (int64_t first = 0; first < e->width; first += each) {
        const KRef at = k_expr(k, "($ + $ * # + #) / #", base, vector, e->width, first, per_word);
        k_fetch(k, param, at, to, k_index(k, 0), (uint8_t)words);
        for (int64_t i = 0; i < each; i++) {
            const KRef x = word == DTYPE_f32 ? k_aload(k, to, k_index(k, i), 1) : element(e, to, 0, i);
            out[first + i] = k_get(k, k_var(k, x, "x"));
        }
    }
}

static void read_a(const Emit *e, uint32_t row, KRef vector, KRef *out)
{
    Kernel *k = e->k;
    const MatVec *v = e->v;
    const KRef base = k_expr(k, "$ + #", v->a_base, row * v->a_row);
    if (e->is_a_wide) {
        read_wide(e, e->a, base, vector, out);
        return;
    }
    for (int64_t i = 0; i < e->width; i++) {
        const KRef at = k_expr(k, "$ * # + #", vector, e->width, i);
        const KRef x = k_cast(k, k_load(k, e->a, k_expr(k, "$ * # + $", at, v->a_k, base), 1, 1), DTYPE_f32);
        out[i] = k_get(k, k_var(k, x, "x"));
    }
}

// The elements of a row of a at a step, in the form in which they are multiplied. inside: 0, or whether there
// are any.
static void operand_at(const Emit *e, uint32_t row, KRef vector, KRef inside, KRef *x)
{
    Kernel *k = e->k;
    KRef scale[FETCH_BYTES];
    read_a(e, row, vector, x);
    for (int64_t i = 0; inside != 0 && i < e->width; i++)
        x[i] = k_select(k, inside, x[i], k_number(k, DTYPE_f32, 0));
    if (e->v->norm == 0)
        return;
    for (int64_t i = 0; i < e->width; i++)
        k_set(k, e->square[row], k_fma(k, x[i], x[i], k_get(k, e->square[row])));
    if (e->scale == UINT32_MAX)
        return;
    read_wide(e, e->scale, k_index(k, 0), vector, scale);
    for (int64_t i = 0; i < e->width; i++)
        x[i] = k_mul(k, x[i], scale[i]);
}

static uint32_t sum_of(const Emit *e, uint32_t matrix, uint32_t row, uint32_t r)
{
    return ((uint32_t)(matrix * e->v->m) + row) * e->v->shape.rows + r;
}

typedef struct MatvecStep {
    uint32_t number;
    KRef inside; // 0, or whether there is anything
    KRef x[MATVEC_MAX_ROWS][FETCH_BYTES];
} MatvecStep;

static void multiply_row(const Emit *e, uint32_t matrix, uint32_t r, const MatvecStep *t)
{
    Kernel *k = e->k;
    const int64_t words = FETCH_BYTES / dtype_info[e->word].bytes;
    for (int64_t i = 0; i < e->width; i++) {
        KRef w = element(e, e->held, place_of(e, matrix, r, t->number) * words, i);
        if (t->inside != 0)
            w = k_select(k, t->inside, w, k_number(k, DTYPE_f32, 0));
        for (uint32_t row = 0; row < e->v->m; row++) {
            const KRef sum = e->sum[sum_of(e, matrix, row, r)];
            k_set(k, sum, k_fma(k, w, t->x[row][i], k_get(k, sum)));
        }
    }
}

static void step_along_k(const Emit *e, uint32_t step)
{
    const MatVecShape *s = &e->v->shape;
    Kernel *k = e->k;
    MatvecStep t = {.number = step};
    bool beyond = false;
    KRef vector = vector_at(e, step, &beyond);
    if (beyond) {
        const KRef end = k_index(k, e->n_vectors);
        t.inside = k_get(k, k_var(k, k_lt(k, vector, end), "inside"));
        vector = clamped(e, vector, e->n_vectors);
    }
    for (uint32_t row = 0; row < e->v->m; row++)
        operand_at(e, row, vector, t.inside, t.x[row]);
    for (uint32_t matrix = 0; matrix < e->v->n_b; matrix++)
        for (uint32_t r = 0; r < s->rows; r++) {
            multiply_row(e, matrix, r, &t);
            if (step + s->vectors < (uint32_t)s->vectors * s->chunks)
                fetch_matrix(e, matrix, r, step + s->vectors);
        }
}

// --- what the team has summed ---------------------------------------------------------------------

// The sum over all warps of entry `at` of the list that each has left.
static KRef joined(const Emit *e, KRef list, uint32_t len, KRef at)
{
    KRef sum = k_aload(e->k, list, at, 1);
    for (uint32_t i = 1; i < e->v->shape.warps; i++)
        sum = k_add(e->k, sum, k_aload(e->k, list, k_expr(e->k, "$ + #", at, (int64_t)i * len), 1));
    return k_get(e->k, k_var(e->k, sum, "sum"));
}

static KRef norm_factor(const Emit *e, KRef squares)
{
    Kernel *k = e->k;
    const double epsilon = node_get_float(lower_node(e->l, e->v->norm), A_rms_norm_epsilon);
    const KRef mean = k_div(k, squares, k_number(k, DTYPE_f32, (double)e->v->k));
    const KRef root = k_sqrt(k, k_add(k, mean, k_number(k, DTYPE_f32, epsilon)));
    return k_div(k, k_number(k, DTYPE_f32, 1), root);
}

// Thread i has element i of the team's part of the product, row after row.
static void store_sums(const Emit *e, KRef list, uint32_t len)
{
    Kernel *k = e->k;
    const MatVec *v = e->v;
    const int64_t rows = v->shape.rows, each = v->m * rows;
    KRef value[MATVEC_MAX_MATRICES];
    k_if(k, k_expr(k, "$ < #", e->thread, each));
    const KRef row = v->m == 1 ? k_index(k, 0) : k_expr(k, "$ / #", e->thread, rows),
               r = v->m == 1 ? e->thread : k_expr(k, "$ % #", e->thread, rows);
    const KRef column = k_add(k, e->first_row, r);
    const KRef factor =
        v->norm == 0 ? 0 : norm_factor(e, joined(e, list, len, k_expr(k, "$ + #", row, v->n_b * each)));
    for (uint32_t i = 0; i < v->n_b; i++) {
        value[i] = joined(e, list, len, k_expr(k, "$ + #", e->thread, i * each));
        value[i] = factor != 0 ? k_mul(k, value[i], factor) : value[i];
    }
    if (v->n % rows != 0)
        k_if(k, k_expr(k, "$ < #", column, v->n));
    v->store(e->l, row, column, value, v->ctx);
    if (v->n % rows != 0)
        k_end(k);
    k_end(k);
}

static void finish(const Emit *e)
{
    Kernel *k = e->k;
    const MatVec *v = e->v;
    const uint32_t n = v->n_b * (uint32_t)v->m * v->shape.rows, len = n + (v->norm != 0 ? (uint32_t)v->m : 0);
    KRef total[MAX_SUMS + MATVEC_MAX_ROWS];
    const KRef list = k_shared(k, DTYPE_f32, (int64_t)v->shape.warps * len);
    for (uint32_t i = 0; i < len; i++)
        total[i] = k_team(k, KOP_add, k_get(k, i < n ? e->sum[i] : e->square[i - n]), WARP);
    k_if(k, k_expr(k, "$ == 0", e->lane));
    for (uint32_t i = 0; i < len; i++)
        k_astore(k, list, k_expr(k, "$ * # + #", e->part, len, i), total[i]);
    k_end(k);
    k_barrier(k);
    store_sums(e, list, len);
}

// --- the whole ------------------------------------------------------------------------------------

static bool is_aligned(const Lower *l, NodeId id, int64_t width)
{
    return lower_loc(l, id)->offset % width == 0;
}

typedef struct Turned {
    const unsigned char *data;
    int64_t k, n;
    uint32_t bytes;
} Turned;

static void fill_turned(const void *ctx, void *out)
{
    const Turned *t = ctx;
    unsigned char *to = out;
    for (int64_t i = 0; i < t->n; i++)
        for (int64_t j = 0; j < t->k; j++, to += t->bytes)
            memcpy(to, t->data + (j * t->n + i) * t->bytes, t->bytes);
}

static uint32_t turned_param(const Emit *e, NodeId id)
{
    const MatVec *v = e->v;
    const Node *n = lower_node(e->l, id);
    Turned *t = ARENA_NEW(e->l->pass->perm, Turned);
    *t = (Turned){node_attr(n, A_const_data)->u.blob, v->k, v->n, dtype_info[n->dtype].bytes};
    return lower_param_filled(e->l, node_name(e->l->g, id), e->word, fill_turned, t,
                              (uint64_t)(v->k * v->n) * t->bytes);
}

static void set_params(Emit *e)
{
    const MatVec *v = e->v;
    int64_t base = 0;
    const Node *norm = lower_node(e->l, v->norm);
    const NodeId scale = v->norm != 0 && norm->n_src > 1 ? norm->src[1] : 0;
    const bool is_base_aligned =
        v->is_base_aligned || (v->a_base != 0 && k_is_const(e->k, v->a_base, &base) && base % e->width == 0);
    e->is_a_wide = v->a_k == 1 && is_aligned(e->l, v->a, e->width) && is_base_aligned &&
                   (v->m == 1 || v->a_row % e->width == 0);
    e->a = e->is_a_wide ? lower_param_words(e->l, v->a, word_beside(e, v->a))
                        : lower_param(e->l, v->a, PARAM_READ);
    for (uint32_t i = 0; i < v->n_b; i++)
        e->b[i] = v->packed != 0 ? v->packed - 1
                  : v->is_turned ? turned_param(e, v->b[i])
                                 : lower_param_words(e->l, v->b[i], e->word);
    e->scale = scale != 0 ? lower_param_words(e->l, scale, word_beside(e, scale)) : UINT32_MAX;
}

static bool is_lasting(const Lower *l, NodeId id)
{
    const Region region = l->plan->buffers.data[lower_loc(l, id)->buf].region;
    return region == REGION_PARAM || region == REGION_WEIGHTS;
}

static void begin_sums(Emit *e)
{
    Kernel *k = e->k;
    const KRef zero = k_number(k, DTYPE_f32, 0);
    for (uint32_t i = 0; i < e->v->n_b * (uint32_t)e->v->m * e->v->shape.rows; i++)
        e->sum[i] = k_var(k, zero, "acc");
    for (uint32_t i = 0; e->v->norm != 0 && i < e->v->m; i++)
        e->square[i] = k_var(k, zero, "square");
}

// Loads of the matrices that do not depend on other kernels are under way before the wait for these.
static void begin_reading(Emit *e, MatVec *own, KRef product)
{
    Kernel *k = e->k;
    const MatVec *v = e->v;
    bool is_early = v->products == 0;
    for (uint32_t i = 0; i < v->n_b && is_early; i++)
        is_early = v->is_turned || is_lasting(v->l, v->b[i]);
    if (!is_early)
        k_wait(k);
    if (v->products != 0)
        own->begin(own, product);
    for (uint32_t i = 0; i < v->n_b; i++)
        for (uint32_t r = 0; r < v->shape.rows; r++)
            for (uint32_t j = 0; j < v->shape.vectors; j++)
                fetch_matrix(e, i, r, j);
    if (is_early)
        k_wait(k);
}

void matvec_emit(const MatVec *product)
{
    MatVec own = *product;
    const MatVec *v = &own;
    rlx_assert(v->n_b >= 1 && v->n_b <= 2 && v->store != NULL);
    rlx_assert((v->products == 0 || v->begin != NULL) && (v->packed == 0 || v->n_b == 1));
    Kernel *k = v->l->k;
    const MatVecShape *s = &v->shape;
    const DType type = (DType)lower_node(v->l, v->b[0])->dtype;
    Emit e = {.v = v, .l = v->l, .k = k, .type = type, .word = type == DTYPE_f32 ? DTYPE_f32 : DTYPE_u32};
    e.per_word = dtype_info[e.word].bytes / dtype_info[type].bytes;
    e.width = FETCH_BYTES / dtype_info[type].bytes;
    e.n_vectors = v->k / e.width;
    e.is_once = v->l->constant_bytes > gpu_about_l2(v->l->caps->gpu); // no cache could keep them
    set_params(&e);
    k_set_group(k, (uint32_t)WARP * s->warps);
    const int64_t teams = ceil_div(v->n, s->rows);
    const KRef group = k_for_group(k, v->products != 0 ? v->products * teams : teams, "team");
    const KRef team = v->products != 0 ? k_expr(k, "$ % #", group, teams) : group;
    e.thread = k_thread(k);
    e.lane = k_expr(k, "$ % #", e.thread, WARP);
    e.part = s->warps == 1 ? k_index(k, 0) : k_expr(k, "$ / #", e.thread, WARP);
    e.first_row = k_expr(k, "$ * #", team, s->rows);
    e.first_vector = k_expr(k, "$ * # + $", e.part, (int64_t)s->vectors * s->chunks * WARP, e.lane);
    const int64_t words = FETCH_BYTES / dtype_info[e.word].bytes;
    e.held = k_array(k, e.word, (int64_t)v->n_b * s->rows * s->vectors * words);
    e.words = k_array(k, e.word, words);
    e.floats = type == DTYPE_f32 ? e.words : k_array(k, DTYPE_f32, words);
    begin_reading(&e, &own, v->products != 0 ? k_expr(k, "$ / #", group, teams) : 0);
    begin_sums(&e);
    for (uint32_t step = 0; step < (uint32_t)s->vectors * s->chunks; step++)
        step_along_k(&e, step);
    finish(&e);
    k_end(k);
}
