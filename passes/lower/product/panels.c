// SPDX-License-Identifier: Apache-2.0
// See panels.h. Sums of some rows and of a panel of neighbouring columns, which is copied where many rows
// read it, are in arrays on the stack, to which several elements of the inner axis are added at once, in
// rising order: one innermost loop over the columns, in which every operand is next to its neighbour.
#include "passes/lower/product/panels.h"

enum { PANEL_ROWS = 4, PANEL_DEPTH = 4, PANEL_WIDTH = 16, LEAST_COLUMNS = 8, LEAST_ROWS = 16 };

typedef struct Panel {
    const Matmul *x;
    const Point *batch;
    KRef row, column; // the first
    int64_t rows, width;
    int64_t depth; // products that are added to a sum in one step
    KRef sums[PANEL_ROWS]; // arrays
    int type;
    uint32_t b; // parameter of the columns: their own, or that of a copy
    KRef b_base;
    int64_t b_k;
    KRef b_column; // first column in it
    uint32_t copy; // 1 + parameter of the memory for a copy; 0: columns are read where they are
    KRef copy_base;
} Panel;

static KRef zero_of(Kernel *k, int type)
{
    return dtype_info[type].cls == DCLASS_FLOAT ? k_number(k, type, 0) : k_integer(k, type, 0);
}

// With vectors, what is multiplied stays in registers beside the columns and a sum.
static int64_t panel_depth(const Lower *l)
{
    int64_t depth = PANEL_DEPTH;
    while (l->caps->f32_lanes > 1 && depth > 1 && (PANEL_ROWS + 1) * depth + 1 > l->caps->vector_regs)
        depth--;
    return depth;
}

// Adds `depth` products from c on to all sums.
static void add_products(Lower *l, const Panel *p, KRef c, int64_t depth)
{
    Kernel *k = l->k;
    const Matmul *x = p->x;
    const KRef a = matmul_base(l, x, x->a, &x->a_loc, p->batch);
    const uint32_t pa = lower_param(l, x->a, PARAM_READ);
    KRef value[PANEL_ROWS][PANEL_DEPTH];
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t u = 0; u < depth; u++) {
            const KRef from = k_expr(k, "($ + #) * # + $", p->row, r, x->a_row, a);
            const KRef index = k_expr(k, "($ + #) * # + $", c, u, x->a_k, from);
            value[r][u] = k_var(k, k_load(k, pa, index, 1, 1), "x");
        }
    const KRef j = k_loop(k, p->width, KFOR_SERIAL, "j");
    for (int64_t r = 0; r < p->rows; r++) {
        KRef sum = k_aload(k, p->sums[r], j, 1);
        for (int64_t u = 0; u < depth; u++) {
            const KRef column = k_add(k, p->b_column, j);
            const KRef index = k_expr(k, "($ + #) * # + ($ + $)", c, u, p->b_k, column, p->b_base);
            sum = k_fma(k, k_get(k, value[r][u]), k_load(k, p->b, index, 1, 1), sum);
        }
        k_astore(k, p->sums[r], j, sum);
    }
    k_end(k);
}

static void emit_panel(Lower *l, Panel *p)
{
    Kernel *k = l->k;
    const int64_t inner = p->x->k, whole = inner - inner % p->depth;
    for (int64_t r = 0; r < p->rows; r++)
        p->sums[r] = k_array(k, p->type, p->width);
    const KRef i = k_loop(k, p->width, KFOR_SERIAL, "j");
    for (int64_t r = 0; r < p->rows; r++)
        k_astore(k, p->sums[r], i, zero_of(k, p->type));
    k_end(k);
    if (whole > 0) {
        add_products(l, p, k_for(k, k_index(k, 0), k_index(k, whole), p->depth, KFOR_SERIAL, "c"),
                     p->depth);
        k_end(k);
    }
    if (whole < inner) {
        add_products(l, p, k_for(k, k_index(k, whole), k_index(k, inner), 1, KFOR_SERIAL, "c"), 1);
        k_end(k);
    }
    for (int64_t r = 0; r < p->rows; r++) {
        const KRef j = k_loop(k, p->width, KFOR_SERIAL, "j");
        Point at = matmul_point(p->x, p->batch, k_expr(k, "$ + #", p->row, r), k_add(k, p->column, j));
        pull_store_root(l, &p->x->d, at, k_aload(k, p->sums[r], j, 1));
        k_end(k);
    }
}

// Copies the columns, which many rows read: they then stay in a near cache, however far apart their rows are.
static void gather_columns(Lower *l, Panel *p, uint32_t copy, KRef base)
{
    Kernel *k = l->k;
    const KRef c = k_loop(k, p->x->k, KFOR_SERIAL, "c"), j = k_loop(k, p->width, KFOR_SERIAL, "j");
    const KRef from = k_expr(k, "$ * # + ($ + $ + $)", c, p->b_k, p->b_column, j, p->b_base);
    k_store(k, copy, k_expr(k, "$ * # + ($ + $)", c, p->width, j, base), k_load(k, p->b, from, 1, 1), 1);
    k_ends(k, 2);
    p->b = copy;
    p->b_base = base;
    p->b_k = p->width;
    p->b_column = k_index(k, 0);
}

// All rows of some columns.
static void emit_rows(Lower *l, const Panel *columns)
{
    Kernel *k = l->k;
    Panel own = *columns, *p = &own;
    p->b_column = p->column;
    if (p->copy != 0)
        gather_columns(l, p, p->copy - 1, p->copy_base);
    const int64_t whole = p->x->m - p->x->m % PANEL_ROWS;
    p->rows = PANEL_ROWS;
    if (whole > 0) {
        const uint8_t kind = p->copy != 0 ? KFOR_SERIAL : KFOR_PARALLEL; // a thread reads its own copy
        p->row = k_for(k, k_index(k, 0), k_index(k, whole), PANEL_ROWS, kind, "row");
        emit_panel(l, p);
        k_end(k);
    }
    p->rows = p->x->m - whole;
    p->row = k_index(k, whole);
    if (p->rows > 0)
        emit_panel(l, p);
}

static void emit_columns(Lower *l, Panel *p)
{
    Kernel *k = l->k;
    const int64_t n = p->x->n, width = n < PANEL_WIDTH ? n : PANEL_WIDTH, whole = n - n % width;
    p->width = width;
    p->column = k_for(k, k_index(k, 0), k_index(k, whole), width, KFOR_PARALLEL, "column");
    emit_rows(l, p);
    k_end(k);
    p->width = n - whole;
    p->column = k_index(k, whole);
    if (p->width > 0)
        emit_rows(l, p);
}

// Do enough rows read each column, and have all threads columns of their own?
static bool copies_columns(const Lower *l, const Matmul *x)
{
    return x->m >= LEAST_ROWS && (l->caps->threads <= 1 || x->n >= (int64_t)l->caps->threads * PANEL_WIDTH);
}

bool panels_lower(Lower *l, const Matmul *x)
{
    rlx_assert(x->batch + 2 <= SHAPE_MAX_RANK);
    const int type = lower_node(l, l->anchor)->dtype;
    const bool has_type =
        dtype_info[type].cls != DCLASS_BOOL && dtype_info[type].bytes >= 4 && type != DTYPE_f32;
    if (l->caps->is_gpu || l->caps->prefers_ints || !has_type || x->a_is_vector || x->b_is_vector ||
        x->b_col != 1 || x->n < LEAST_COLUMNS || x->k < PANEL_DEPTH || x->m < 1 || x->k_live != 0 ||
        domain_has_live(&x->d))
        return false;
    Point batch = {.lanes = 1, .count = 1};
    const uint32_t opened = lower_open(l, &x->d, x->batch, &batch);
    Panel p = {.x = x, .batch = &batch, .depth = panel_depth(l), .type = type,
               .b = lower_param(l, x->b, PARAM_READ), .b_k = x->b_k};
    p.b_base = matmul_base(l, x, x->b, lower_loc(l, x->b), &batch);
    if (copies_columns(l, x))
        p.copy = 1 + lower_param_thread_scratch(l, "columns", (DType)type, (uint64_t)(x->k * PANEL_WIDTH),
                                                &p.copy_base);
    emit_columns(l, &p);
    lower_close(l, opened);
    return true;
}
