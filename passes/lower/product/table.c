// SPDX-License-Identifier: Apache-2.0
// See table.h. For a single row that is multiplied, rows of memory are as fast to read as panels of columns:
// all of the table is one stream then.
#include "passes/lower/product/table.h"
#include "ir/shape/forms.h"
#include "passes/lower/halves.h"

enum { MOST_SUMS = 4 }; // vectors

// --- which constants -----------------------------------------------------------------------------

// Is it the product of rows by those of a constant?
static bool multiplies(const Node *n, NodeId table)
{
    const MatmulForm form = matmul_form(n);
    return form.is_there && form.turns_b && n->src[1] == table;
}

bool table_is_shared(const Lower *l, NodeId id)
{
    const Node *t = lower_node(l, id);
    bool is_product_there = false, is_gather_there = false;
    if (l->caps->is_gpu || !l->caps->packs_weights || !node_is_const(l->g, id) || t->dtype != DTYPE_f32 ||
        t->shape->rank != 2 || shape_numel(t->shape) < READS_LEAST || lower_is_in_file(l, id))
        return false;
    for (NodeId i = 1; i < l->g->nodes.len; i++) {
        const Node *n = lower_node(l, i);
        is_gather_there = is_gather_there || (gather_axis(n) == 0 && n->src[0] == id);
        is_product_there = is_product_there || multiplies(n, id);
    }
    return is_gather_there && is_product_there;
}

// --- its elements --------------------------------------------------------------------------------

typedef struct Narrow {
    const void *data;
    DType type;
    int64_t n;
} Narrow;

static void fill(const void *ctx, void *out)
{
    const Narrow *c = ctx;
    for (int64_t i = 0; i < c->n; i++)
        halves_copy((unsigned char *)out + i * dtype_info[c->type].bytes, c->type, c->data, DTYPE_f32, i);
}

// What another kernel of the plan reads; 0: none does so far.
static BufId find_buffer(const Lower *l, const Narrow *c, const void *bytes)
{
    for (BufId b = 1; b < l->plan->buffers.len; b++) {
        const PlanBuffer *buffer = &l->plan->buffers.data[b];
        const Narrow *own = buffer->fill == fill ? buffer->fill_ctx : NULL;
        const bool is_same = own != NULL ? own->data == c->data && own->type == c->type
                                         : bytes != NULL && buffer->data == bytes;
        if (is_same && buffer->region == REGION_WEIGHTS &&
            buffer->bytes == (uint64_t)c->n * dtype_info[c->type].bytes)
            return b;
    }
    return 0;
}

uint32_t table_param(Lower *l, NodeId id)
{
    const int64_t n = shape_numel(lower_node(l, id)->shape);
    Narrow *c = ARENA_NEW(l->pass->perm, Narrow);
    rlx_assert(node_is_const(l->g, id) && n >= READS_LEAST);
    *c = (Narrow){.data = node_attr(lower_node(l, id), A_const_data)->u.blob, .n = n};
    c->type = halves_type_in(l->g, DTYPE_f32, c->data, n);
    if (c->type == DTYPE_f32)
        return lower_param(l, id, PARAM_READ);
    const ReadsWidened *w = l->g->reads != NULL ? reads_widened(l->g->reads, c->data) : NULL;
    const uint64_t bytes = (uint64_t)n * dtype_info[c->type].bytes;
    const BufId made = find_buffer(l, c, w != NULL ? w->from : NULL);
    if (made != 0)
        return lower_param_buffer(l, made, c->type, PARAM_READ);
    if (w != NULL) // as the program finds them in the file
        return lower_param_data(l, node_name(l->g, id), c->type, w->from, bytes);
    return lower_param_filled(l, node_name(l->g, id), c->type, fill, c, bytes);
}

KRef table_load(Lower *l, uint32_t table, KRef index, uint8_t lanes, uint8_t count)
{
    rlx_assert(count >= 1 && count <= lanes);
    return k_cast(l->k, k_load(l->k, table, index, lanes, count), DTYPE_f32);
}

// --- the product ---------------------------------------------------------------------------------

// Vectors of a column that are added up side by side.
static int64_t vectors_of(const Lower *l, int64_t k)
{
    int64_t n = MOST_SUMS;
    while (k % (n * l->caps->f32_lanes) != 0)
        n /= 2;
    return n;
}

// Some elements from index `at` on are read: those that follow later are to be there then.
static void fetch_ahead(Lower *l, uint32_t table, KRef at, int64_t elements)
{
    Kernel *k = l->k;
    const int64_t width = dtype_info[k->params.data[table].dtype].bytes, ahead = l->caps->cpu.ahead_bytes;
    if (ahead == 0 || l->constant_bytes <= l->caps->cpu.l2_bytes)
        return;
    for (int64_t i = 0; i < elements * width; i += CACHE_LINE)
        k_prefetch(k, table, k_expr(k, "$ + #", at, (ahead + i) / width));
}

// The column of the table's row `row`.
static KRef sum_column(Lower *l, const Matmul *x, uint32_t table, KRef row)
{
    Kernel *k = l->k;
    const uint8_t lanes = l->caps->f32_lanes;
    const int64_t n = vectors_of(l, x->k);
    const Point none = {.lanes = 1, .count = 1};
    const uint32_t a = lower_param(l, x->a, PARAM_READ);
    const KRef base = matmul_base(l, x, x->a, &x->a_loc, &none), zero = k_number(k, DTYPE_f32, 0);
    KRef acc[MOST_SUMS];
    rlx_assert(n >= 1 && n <= MOST_SUMS);
    for (int64_t i = 0; i < n; i++)
        acc[i] = k_var(k, k_splat(k, zero, lanes), "acc");
    const KRef at = k_for(k, k_index(k, 0), k_index(k, x->k), n * lanes, KFOR_SERIAL, "c");
    fetch_ahead(l, table, k_expr(k, "$ * # + $", row, x->k, at), n * lanes);
    for (int64_t i = 0; i < n; i++) {
        const KRef own = k_load(k, a, k_expr(k, "$ + # + $", at, i * lanes, base), lanes, lanes);
        const KRef index = k_expr(k, "$ * # + ($ + #)", row, x->k, at, i * lanes);
        k_set(k, acc[i], k_fma(k, own, table_load(l, table, index, lanes, lanes), k_get(k, acc[i])));
    }
    k_end(k);
    KRef sum = k_get(k, acc[0]);
    for (int64_t i = 1; i < n; i++)
        sum = k_add(k, sum, k_get(k, acc[i]));
    sum = k_hreduce(k, KOP_add, sum);
    return x->scale == 1 ? sum : k_mul(k, sum, k_number(k, DTYPE_f32, x->scale));
}

static bool is_one_row(const Lower *l, const Matmul *x)
{
    const Node *n = lower_node(l, l->anchor);
    if (x->m != 1 || x->batch != 0 || x->norm != 0 || x->a_k != 1 || x->k_live != 0)
        return false;
    return n->dtype == DTYPE_f32 && lower_node(l, x->a)->dtype == DTYPE_f32 && l->caps->f32_lanes > 1 &&
           x->k % l->caps->f32_lanes == 0 && multiplies(n, x->b);
}

bool table_lower_product(Lower *l, const Matmul *product)
{
    const Matmul x = matmul_join_rows(l, product);
    Kernel *k = l->k;
    if (!is_one_row(l, &x) || !table_is_shared(l, x.b))
        return false;
    const Point none = {.lanes = 1, .count = 1};
    const uint32_t table = table_param(l, x.b);
    const KRef column = k_loop(k, x.n, KFOR_PARALLEL, "o"), sum = sum_column(l, &x, table, column);
    pull_store_root(l, &x.d, matmul_point(&x, &none, k_index(k, 0), column), sum);
    k_end(k);
    return true;
}
