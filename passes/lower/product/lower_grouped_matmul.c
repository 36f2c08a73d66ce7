// SPDX-License-Identifier: Apache-2.0
// grouped_matmul: rows are sorted by expert, then each expert's are one product with its matrix, in tiles of
// gemm.h. A panel of columns is outermost, so that threads share the work evenly whatever the router chooses;
// inside, only the experts that have rows are visited, and each panel of weights is read once. Accumulation:
// f32 fused multiply-adds in rising k, for any routing and any number of threads. Other types, vectors and
// GPUs take plain loops.
#include "passes/lower/product/experts.h"
#include "passes/lower/halves.h"
#include "passes/lower/operand.h"
#include "passes/lower/transpose.h"

enum { MAX_TILE_ROWS = 12, MAX_SIZES = 8 };
// Rows whose distance is a multiple of this part of a way share few sets of the first-level cache: a line
// lies between them.
enum { WAY_PART = 8 };

static bool turns_weights(const Node *n)
{
    return node_get_int(n, A_grouped_matmul_transpose_b) != 0;
}

static bool is_turned(const Lower *l)
{
    return turns_weights(lower_node(l, l->anchor));
}

bool experts_are_product(const Node *n)
{
    return n->op == OP_grouped_matmul;
}

bool experts_are_alike(const Graph *g, const Node *one, const Node *other)
{
    return other->op == one->op && one->src[2] == other->src[2] &&
           graph_node(g, one->src[1])->op == graph_node(g, other->src[1])->op &&
           turns_weights(one) == turns_weights(other);
}

static Experts experts_of(Lower *l, NodeId product)
{
    const Node *n = lower_node(l, product);
    const bool t = is_turned(l);
    Experts x = {.product = product, .x = n->src[0], .w = n->src[1], .index = n->src[2],
                 .bias = n->n_src > 3 ? n->src[3] : 0};
    const Shape *w = lower_node(l, x.w)->shape;
    const Loc *loc = lower_loc(l, x.w);
    x.n_experts = w->dim[0];
    x.k = w->dim[t ? 2 : 1];
    x.n = w->dim[t ? 1 : 2];
    x.rows = shape_numel(lower_node(l, x.index)->shape);
    x.w_expert = loc->stride[0];
    x.w_k = loc->stride[t ? 2 : 1];
    x.w_col = loc->stride[t ? 1 : 2];
    x.is_shared = lower_node(l, x.x)->shape->rank == lower_node(l, x.index)->shape->rank;
    x.d = domain_of_root(l);
    return x;
}

KRef experts_row_base(Lower *l, const Experts *x, const KRef *idx)
{
    const uint32_t last = lower_node(l, x->x)->shape->rank - 1;
    KRef at[SHAPE_MAX_RANK] = {0};
    for (uint32_t i = 0; i < last; i++)
        at[i] = idx[i];
    at[last] = k_index(l->k, 0);
    return operand_index(l, x->x, at);
}

int64_t experts_row_step(const Lower *l, const Experts *x)
{
    return lower_loc(l, x->x)->stride[lower_node(l, x->x)->shape->rank - 1];
}

// --- plain loops ---------------------------------------------------------------------------------

// The expert of a row, which is none where it is not among them.
static KRef plain_expert(Lower *l, const Experts *x, const KRef *idx)
{
    KRef row = k_index(l->k, 0);
    if (!x->is_layer)
        return operand_clamped(l, x->index, operand_index(l, x->index, idx), -1, x->n_experts);
    for (uint32_t i = 0; i + 1 < x->d.rank; i++)
        row = k_expr(l->k, "$ * # + $", row, x->d.extent[i], idx[i]);
    return experts_entry(l, x->choice, row);
}

// Where the weights of an expert begin.
static KRef plain_weights(Lower *l, const Experts *x, KRef e)
{
    return x->is_placed ? experts_begin(l, x, e) : k_expr(l->k, "$ * # + 0", e, x->w_expert);
}

static KRef plain_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Experts *x = ctx;
    Kernel *k = l->k;
    const int type = operand_sum_type(lower_node(l, l->anchor)->dtype);
    const KRef column = at.idx[d->rank - 1], sum = k_var(k, k_number(k, type, 0), "sum");
    const KRef e = plain_expert(l, x, at.idx);
    const KRef is_some = k_expr(k, "0 <= $ & $ < #", e, e, x->n_experts);
    k_if(k, x->n_experts == 0 ? k_integer(k, DTYPE_bool, 0) : is_some); // compilers warn of 0 <= e && e < 0
    const KRef a = experts_row_base(l, x, at.idx);
    const KRef b = k_expr(k, "$ * # + $", column, x->w_col, plain_weights(l, x, e));
    const KRef c = k_loop(k, x->k, KFOR_SERIAL, "c");
    const KRef av = operand_scalar(l, x->x, k_expr(k, "$ * # + $", c, experts_row_step(l, x), a), type);
    const KRef b_at = k_expr(k, "$ * # + $", c, x->w_k, b);
    const KRef bv = x->is_placed ? k_cast(k, k_load(k, x->weights, b_at, 1, 1), type)
                                 : operand_scalar(l, x->w, b_at, type);
    k_set(k, sum, k_fma(k, av, bv, k_get(k, sum)));
    k_end(k);
    if (x->bias) {
        const KRef place[2] = {e, column};
        k_set(k, sum,
              k_add(k, k_get(k, sum), operand_scalar(l, x->bias, operand_index(l, x->bias, place), type)));
    }
    k_end(k);
    return k_cast(k, k_get(k, sum), lower_node(l, l->anchor)->dtype);
}

// --- tiles ---------------------------------------------------------------------------------------

static bool is_packable(const Lower *l, const Experts *x)
{
    return node_is_const(l->g, x->w);
}

// Floats, and numbers of rows and experts that are counted in i32.
static bool can_be_layer(const Lower *l, const Experts *x)
{
    return lower_is_float(lower_node(l, l->anchor)->dtype) && x->n >= 2 && x->k >= 1 && x->rows >= 1 &&
           x->n_experts >= 1 && x->rows <= INT32_MAX / 2 && x->n_experts <= INT32_MAX / 2;
}

static bool can_tile(const Lower *l, const Experts *x)
{
    const uint32_t last = x->d.rank - 1;
    if (l->caps->is_gpu || !can_be_layer(l, x) || (x->bias && !operand_has_vectors(l, x->bias, 1)))
        return false;
    const uint8_t lanes = lower_fit_lanes(l, x->n);
    const bool turns = x->w_k == 1 && lanes > 1 && lower_node(l, x->w)->dtype == DTYPE_f32;
    return (is_packable(l, x) || x->w_col == 1 || turns) && (lanes == 1 || domain_lanes(l, &x->d, last) > 1);
}

// Rows of x next to each other, in f32. Behind them is room for what the last tile reads beyond them.
static void copy_rows(Lower *l, Experts *x)
{
    Kernel *k = l->k;
    KRef idx[SHAPE_MAX_RANK] = {0};
    const int64_t step = experts_row_step(l, x);
    const uint8_t lanes = step == 1 ? lower_fit_lanes(l, x->k) : 1;
    const int64_t whole = x->k - x->k % lanes;
    const uint32_t from = lower_param(l, x->x, PARAM_READ);
    const int64_t bytes = x->k * (int64_t)sizeof(float), alias = l->caps->cpu.way_bytes / WAY_PART;
    x->pitch = bytes % alias == 0 ? x->k + CACHE_LINE / (int64_t)sizeof(float) : x->k;
    x->sorted =
        lower_param_scratch(l, "rows", DTYPE_f32, (uint64_t)(x->rows + MAX_TILE_ROWS) * (uint64_t)x->pitch);
    const KRef n = experts_entry(l, x->bounds, k_index(k, x->n_experts));
    const KRef p = k_for(k, k_index(k, 0), n, 1, KFOR_PARALLEL, "p");
    experts_row(l, x, experts_entry(l, x->order, p), idx);
    const KRef a = experts_row_base(l, x, idx), to = k_expr(k, "$ * #", p, x->pitch);
    if (whole > 0) {
        const KRef c = k_for(k, k_index(k, 0), k_index(k, whole), lanes, KFOR_SERIAL, "c");
        const KRef v = k_load(k, from, k_expr(k, "$ * # + $", c, step, a), lanes, lanes);
        k_store(k, x->sorted, k_add(k, to, c), k_cast(k, v, DTYPE_f32), lanes);
        k_end(k);
    }
    if (whole < x->k) {
        const uint8_t rest = (uint8_t)(x->k - whole);
        const KRef v = k_load(k, from, k_expr(k, "# * # + $", whole, step, a), lanes, rest);
        k_store(k, x->sorted, k_expr(k, "$ + #", to, whole), k_cast(k, v, DTYPE_f32), rest);
    }
    k_end(k);
}

static void clear_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    Kernel *k = l->k;
    const KRef zero = k_number(k, lower_node(l, l->anchor)->dtype, 0);
    (void)ctx;
    pull_store_root(l, d, at, at.lanes > 1 ? k_splat(k, zero, at.lanes) : zero);
}

// Rows without an expert.
static void clear_rows(Lower *l, const Experts *x)
{
    Kernel *k = l->k;
    const uint32_t last = x->d.rank - 1;
    const KRef n = experts_entry(l, x->bounds, k_index(k, x->n_experts)),
               end = experts_entry(l, x->bounds, k_index(k, x->n_experts + 1));
    const KRef p = k_for(k, n, end, 1, KFOR_PARALLEL, "p");
    Point at = {.lanes = 1, .count = 1};
    experts_row(l, x, experts_entry(l, x->order, p), at.idx);
    lower_along(l, &x->d, last, domain_lanes(l, &x->d, last), at, clear_point, NULL);
    k_end(k);
}

// A panel of one expert while its tiles are computed.
typedef struct Panel {
    const Experts *x;
    KRef expert, column; // first column
    KRef place;          // of the tile's first row
    KRef end;            // behind the expert's last row, where tiles reach beyond it; else 0
} Panel;

static void store_tile(Lower *l, KRef row, KRef column, uint8_t lanes, uint8_t count, KRef value, void *ctx)
{
    const Panel *p = ctx;
    const Experts *x = p->x;
    Kernel *k = l->k;
    const uint32_t last = x->d.rank - 1;
    Point at = {.vec_axis = last, .lanes = lanes, .count = count};
    const KRef place_of_row = k_add(k, p->place, row);
    if (p->end != 0)
        k_if(k, k_lt(k, place_of_row, p->end));
    experts_row(l, x, experts_entry(l, x->order, place_of_row), at.idx);
    at.idx[last] = k_add(k, p->column, column);
    if (x->bias) {
        const KRef place[2] = {p->expert, at.idx[last]};
        const KRef v =
            k_load(k, lower_param(l, x->bias, PARAM_READ), operand_index(l, x->bias, place), lanes, count);
        value = k_add(k, value, k_cast(k, v, DTYPE_f32));
    }
    pull_store_root(l, &x->d, at, k_cast(k, value, lower_node(l, l->anchor)->dtype));
    if (p->end != 0)
        k_end(k);
}

// Heights of tiles, each at most about three quarters of the one before; the last is 1.
static uint32_t tile_sizes(int64_t most, int64_t *size)
{
    static const int64_t heights[] = {8, 6, 4, 2, 1};
    uint32_t n = 0;
    size[n++] = most;
    for (uint32_t i = 0; i < sizeof heights / sizeof *heights; i++)
        if (4 * heights[i] <= 3 * size[n - 1])
            size[n++] = heights[i];
    return n;
}

// How the product is cut: for as many rows as an expert is likely to have at a time. Plans of several sizes
// read the same packed weights, whose panels must not depend on the number of rows.
static Gemm product_of(Lower *l, const Experts *x, bool *turns)
{
    const int64_t tokens = x->is_shared ? x->rows / x->d.extent[x->d.rank - 2] : x->rows;
    const int64_t likely = ceil_div(2 * x->rows, x->n_experts),
                  fit = likely < MAX_TILE_ROWS ? likely : MAX_TILE_ROWS;
    const DType type = (DType)lower_node(l, x->w)->dtype;
    const bool is_packed = is_packable(l, x);
    *turns = !is_packed && x->w_col != 1;
    Gemm g = {.l = l,
              .m = l->pass->options->has_buckets ? MAX_TILE_ROWS
                   : fit < tokens                ? fit
                                                 : tokens,
              .n = x->n,
              .k = x->k,
              .a = x->sorted,
              .a_row = x->pitch,
              .a_k = 1,
              .b_k = x->w_k,
              .b_col = x->w_col,
              .source = is_packed || *turns ? GEMM_PACKED : GEMM_ROWS,
              .b_type = type};
    if (is_packed)
        g.b_type = halves_type_in(l->g, type, node_attr(lower_node(l, x->w), A_const_data)->u.blob,
                                  x->n_experts * x->k * x->n);
    gemm_choose(&g);
    return g;
}

static void emit_tile(const Gemm *g, const GemmRun *run, Panel *p, int64_t rows)
{
    Gemm tile = *g;
    tile.m = rows;
    tile.n = run->real;
    tile.t = (GemmTiles){.rows = rows, .nv = (uint8_t)(run->width / g->lanes), .block = rows, .steps = g->k};
    tile.a_base = k_expr(g->l->k, "$ * #", p->place, g->a_row);
    tile.store = store_tile;
    tile.ctx = p;
    gemm_emit(&tile);
}

// The tiles of an expert's rows in one panel, from place `first` to `end`: as many of the tallest as there
// are whole ones, and one of the least height that is enough for the rest. It may reach beyond the rows.
static void emit_tiles(const Gemm *g, const GemmRun *run, Panel *p, KRef first, KRef end)
{
    Kernel *k = g->l->k;
    int64_t size[MAX_SIZES + 1];
    const uint32_t n = tile_sizes(g->t.rows, size);
    const KRef most = k_index(k, size[0]);
    const KRef whole = k_expr(k, "($ - $) / $", end, first, most);
    const KRef behind = k_expr(k, "$ * # + $", whole, size[0], first), rest = k_sub(k, end, behind);
    p->end = 0;
    p->place = k_for(k, first, behind, size[0], KFOR_SERIAL, "r");
    emit_tile(g, run, p, size[0]);
    k_end(k);
    p->place = behind;
    size[n] = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (size[i] == size[0] && size[1] + 1 == size[0])
            continue;
        k_if(k, k_expr(k, "# < $ & $ <= #", size[i + 1], rest, rest, size[i]));
        p->end = size[i + 1] + 1 < size[i] ? end : 0;
        emit_tile(g, run, p, size[i]);
        k_end(k);
    }
}

// Where the weights of an expert's panel are.
static void find_panel(Gemm *g, const Experts *x, const GemmRun *run, const Panel *p, KRef number,
                       const GemmPack *pack)
{
    Lower *l = g->l;
    Kernel *k = l->k;
    if (pack == NULL) {
        g->b_base = k_expr(k, "$ * # + ($ * # + 0)", p->expert, x->w_expert, p->column, x->w_col);
        return;
    }
    const int64_t each = (int64_t)(pack->stride / dtype_info[g->b_type].bytes);
    const KRef expert = k_expr(k, "$ * #", p->expert, each);
    const KRef panel = k_expr(k, "$ * # + #", number, g->k * run->width, g->k * run->first);
    if (k->params.data[g->b].table != 0)
        k_point(k, g->b, p->expert, expert);
    g->b_base = k->params.data[g->b].table != 0 ? panel : k_add(k, expert, panel);
}

static void emit_panels(Gemm *g, const Experts *x, const GemmRun *run, const GemmPack *pack, bool turns)
{
    Lower *l = g->l;
    Kernel *k = l->k;
    const uint32_t b = g->b;
    KRef panel_base = 0;
    const uint32_t panel =
        turns ? lower_param_thread_scratch(l, "panel", DTYPE_f32, (uint64_t)(g->k * run->width), &panel_base)
              : 0;
    const KRef number = k_loop(k, run->count, KFOR_PARALLEL, "ob");
    const KRef n = experts_entry(l, x->groups, k_index(k, x->n_experts));
    const KRef group = k_for(k, k_index(k, 0), n, 1, KFOR_SERIAL, "g");
    Panel p = {.x = x, .column = k_expr(k, "$ * # + #", number, run->width, run->first)};
    p.expert = experts_entry(l, x->groups, group);
    const KRef first = experts_entry(l, x->bounds, p.expert),
               end = experts_entry(l, x->bounds, k_expr(k, "$ + 1", p.expert));
    find_panel(g, x, run, &p, number, pack);
    if (turns) {
        transpose_emit(l, &(Transpose){.from = b,
                                       .to = panel,
                                       .from_at = g->b_base,
                                       .to_at = panel_base,
                                       .rows = run->real,
                                       .columns = g->k,
                                       .from_row = x->w_col,
                                       .to_row = run->width,
                                       .lanes = g->lanes});
        g->b = panel;
        g->b_base = panel_base;
    }
    emit_tiles(g, run, &p, first, end);
    g->b = b;
    k_end(k);
    k_end(k);
}

static void lower_tiled(Lower *l, Experts *x)
{
    bool turns = false;
    experts_sort(l, x);
    experts_note(l, x);
    copy_rows(l, x);
    clear_rows(l, x);
    Gemm g = product_of(l, x, &turns);
    GemmPack pack = {0};
    const bool is_packed = is_packable(l, x);
    if (is_packed) {
        const DType type = (DType)lower_node(l, x->w)->dtype;
        pack = gemm_pack(&g, node_attr(lower_node(l, x->w), A_const_data)->u.blob, type, x->k, x->n_experts,
                         x->w_expert);
        g.b = experts_place(l, x, g.b_type, &pack);
        gemm_note_source(l, g.b);
    } else {
        g.b = lower_param(l, x->w, PARAM_READ);
    }
    const GemmRuns panels = gemm_panels(&g);
    for (uint32_t i = 0; i < panels.n; i++)
        emit_panels(&g, x, &panels.run[i], is_packed ? &pack : NULL, turns);
}

// Constants as they were given; the others are where their nodes are.
static void place_weights(Lower *l, Experts *x)
{
    if (!x->is_layer || !is_packable(l, x))
        return;
    x->w_k = is_turned(l) ? 1 : x->n, x->w_col = is_turned(l) ? x->k : 1;
    x->w_expert = x->k * x->n;
}

static NodeId second_of(const Lower *l)
{
    for (uint32_t i = 0; i < l->pk->body.len; i++)
        if (l->pk->body.data[i] != l->anchor && experts_are_product(lower_node(l, l->pk->body.data[i])))
            return l->pk->body.data[i];
    return 0;
}

// Both products of experts_take_second.
static void lower_both(Lower *l, Experts *x, NodeId product)
{
    Experts second = experts_of(l, product);
    x->second = &second;
    second.is_layer = x->is_layer;
    place_weights(l, &second);
    if (x->is_placed)
        experts_place_given(l, &second, (DType)lower_node(l, second.w)->dtype);
    l->pk->macs *= 2;
    const bool is_done = experts_units(l, x);
    rlx_assert(is_done);
    (void)is_done;
}

void lower_grouped_matmul(Lower *l)
{
    Experts x = experts_of(l, l->anchor);
    const NodeId second = second_of(l);
    l->pk->macs = (uint64_t)shape_numel(lower_node(l, l->anchor)->shape) * (uint64_t)x.k;
    if (can_tile(l, &x)) {
        lower_tiled(l, &x);
        return;
    }
    if (l->caps->is_gpu && can_be_layer(l, &x)) {
        experts_note_rows(l, &x);
        place_weights(l, &x);
        if (second == 0 && !experts_are_sorted(l, x.x) && experts_few(l, &x))
            return;
        if (x.is_layer && is_packable(l, &x))
            experts_place_given(l, &x, (DType)lower_node(l, x.w)->dtype);
    }
    if (second != 0) {
        lower_both(l, &x, second);
        return;
    }
    if (experts_units(l, &x))
        return;
    rlx_assert(!experts_are_sorted(l, x.x));
    lower_map(l, plain_point, &x, MAP_SCALAR);
}
