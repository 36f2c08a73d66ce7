// SPDX-License-Identifier: Apache-2.0
// grouped_matmul on GPUs: rows in the order of their experts, as tiles of one product (GpuGroups). Two
// kernels before it make the lists and copy the rows, once for all products of a layer that read the same.
// Each expert's rows begin with a block of their own, so that no tile has rows of two. Rows of no expert are
// zeros among those of the first one, whose sums do not count.
#include "ir/kernel/device.h"
#include "passes/lower/gpu/gpu_matmul.h"
#include "passes/lower/operand.h"
#include "passes/lower/product/experts.h"
#include <string.h>

enum {
    COPY_THREADS = 128,
    SLOT_ALIGN = 64, // bytes: host_moe.c
    LEAST_K = 16,
    LEAST_SECOND = 64 // columns and k, of two products in one kernel
};

static KRef entry_at(const GpuMatmul *p, KRef at)
{
    return k_cast(p->l->k, k_load(p->l->k, p->groups->lists, at, 1, 1), KT_INDEX);
}

KRef gpu_group_entry(const GpuMatmul *p, KRef row)
{
    rlx_assert(p->groups != NULL);
    return p->groups->entry != 0 ? p->groups->entry : entry_at(p, row);
}

// The expert of a row's block; -1: there are no rows.
static KRef expert_of_block(const GpuMatmul *p, KRef row)
{
    return entry_at(p, k_expr(p->l->k, "$ / # + #", row, p->groups->rows, p->m));
}

KRef gpu_group_matrix(const GpuMatmul *p, KRef first)
{
    Kernel *k = p->l->k;
    const KRef e = expert_of_block(p, first);
    if (p->groups->table == 0)
        return e;
    const KRef begin = experts_entry(p->l, p->groups->table - 1, k_expr(k, "max($, 0)", e));
    const KRef place = k_expr(k, "$ / #", begin, p->groups->table_step);
    return k_select(k, k_expr(k, "$ < 0", e), k_index(k, -1), place);
}

GpuStrip gpu_group_strip(const GpuMatmul *p, KRef row)
{
    Kernel *k = p->l->k;
    const int64_t n = p->m / p->groups->rows;
    const KRef block = k_expr(k, "$ / # + #", row, p->groups->rows, p->m);
    return (GpuStrip){entry_at(p, k_expr(k, "$ + #", block, n)),
                      entry_at(p, k_expr(k, "$ + #", block, 2 * n))};
}

KRef gpu_group_has_rows(const GpuMatmul *p, KRef row)
{
    return k_ne(p->l->k, gpu_group_entry(p, row), k_index(p->l->k, EXPERT_NO_ROW));
}

// The row of an entry; 0 where there is none.
static KRef row_of_entry(Kernel *k, KRef entry)
{
    const KRef other = k_expr(k, "max(# - $, 0)", EXPERT_NO_EXPERT, entry);
    return k_select(k, k_expr(k, "$ < 0", entry), other, entry);
}

// The row of the root, whatever the entry.
static KRef gpu_group_row(const GpuMatmul *p, KRef row)
{
    return row_of_entry(p->l->k, gpu_group_entry(p, row));
}

KRef gpu_group_is_in(const GpuMatmul *p, KRef row, KRef in)
{
    if (p->groups == NULL)
        return in;
    return k_and(p->l->k, in, k_ne(p->l->k, gpu_group_entry(p, row), k_index(p->l->k, EXPERT_NO_ROW)));
}

KRef gpu_group_sum(const GpuMatmul *p, KRef row, KRef column, KRef sum)
{
    Kernel *k = p->l->k;
    if (p->groups == NULL)
        return sum;
    if (p->groups->bias != 0) {
        const NodeId bias = p->groups->bias;
        const KRef place[2] = {k_expr(k, "max($, 0)", expert_of_block(p, row)), column};
        const int type = k_inst(k, sum)->dtype;
        sum = k_add(k, sum, operand_scalar(p->l, bias, operand_index(p->l, bias, place), type));
    }
    return k_select(k, k_expr(k, "$ <= #", gpu_group_entry(p, row), EXPERT_NO_EXPERT),
                    k_number(k, k_inst(k, sum)->dtype, 0), sum);
}

// --- kernels before the product ------------------------------------------------------------------

// Begins a kernel that runs before that of l.
static Lower begin_kernel(Lower *l, const char *what, PlanKernel **pk)
{
    Plan *p = l->plan;
    Lower own = *l;
    *pk = ARENA_NEW(p->arena, PlanKernel);
    **pk = *l->pk; // live sizes are those of the product
    memset(&(*pk)->args, 0, sizeof(*pk)->args);
    memset(&own.sizes, 0, sizeof own.sizes);
    own.pk = *pk;
    own.k = kernel_new(l->pass->perm, arena_printf(p->arena, "%s%u_%s", p->prefix, l->index, what));
    own.k->comment = arena_printf(p->arena, "%s: %s", node_name(l->g, l->anchor), what);
    lower_begin_sizes(&own);
    return own;
}

static void end_kernel(Lower *l, const Lower *own, NodeId root)
{
    Plan *p = l->plan;
    *own->pk = (PlanKernel){.kernel = own->k, .root = root, .args = own->pk->args};
    const char *wrong = kernel_verify(own->k);
    if (wrong != NULL)
        diag_bug(own->k->name, (int)l->index, wrong);
    vec_push(p->arena, &p->prepare.packings, ((PlanPacking){.kernel = *own->pk, .reader = l->index}));
}

static BufId add_buffer(Lower *l, const char *name, uint64_t bytes)
{
    Plan *p = l->plan;
    vec_push(p->arena, &p->buffers,
             ((PlanBuffer){.region = REGION_ARENA, .bytes = bytes, .align = 128, .name = name}));
    return p->buffers.len - 1;
}

// --- the rows ------------------------------------------------------------------------------------

// Elements of a row that are moved at once.
static int64_t vector_of(const Lower *l, const Experts *x)
{
    const Node *n = lower_node(l, x->x);
    const Loc *loc = lower_loc(l, x->x);
    const uint32_t last = n->shape->rank - 1;
    int64_t steps = x->k | k_fetch_width(n->dtype) | lower_alignment(l, loc, (DType)n->dtype) /
                                                         dtype_info[n->dtype].bytes;
    for (uint32_t i = 0; i < last; i++)
        steps |= n->shape->dim[i] == 1 ? 0 : loc->stride[i];
    return loc->stride[last] == 1 ? steps & -steps : 1;
}

static void copy_row(Lower *l, const Experts *x, uint32_t to, KRef place, KRef entry)
{
    Kernel *k = l->k;
    const int64_t n = vector_of(l, x);
    const uint32_t from = lower_param(l, x->x, PARAM_READ);
    const int type = lower_node(l, x->x)->dtype;
    KRef idx[SHAPE_MAX_RANK] = {0};
    experts_row(l, x, row_of_entry(k, entry), idx);
    const KRef base = experts_row_base(l, x, idx), is_some = k_expr(k, "0 <= $", entry);
    const KRef c = k_for(k, k_thread(k), k_index(k, x->k / n), COPY_THREADS, KFOR_SERIAL, "c");
    const KRef at = k_expr(k, "$ * #", c, n), values = k_array(k, type, n);
    k_if(k, is_some);
    if (n > 1)
        k_fetch(k, from, k_add(k, base, at), values, k_index(k, 0), (uint8_t)n);
    else
        k_astore(k, values, k_index(k, 0),
                 k_load(k, from, k_expr(k, "$ * # + $", at, experts_row_step(l, x), base), 1, 1));
    k_else(k);
    for (int64_t i = 0; i < n; i++)
        k_astore(k, values, k_index(k, i), k_number(k, type, 0));
    k_end(k);
    const KRef target = k_expr(k, "$ * # + $", place, x->k, at);
    if (n > 1)
        k_put(k, to, target, values, k_index(k, 0), (uint8_t)n);
    else
        k_store(k, to, target, k_aload(k, values, k_index(k, 0), 1), 1);
    k_end(k);
}

static void copy_rows(Lower *l, const Experts *x, BufId lists, BufId rows)
{
    Kernel *k = l->k;
    const ExpertBlocks b = experts_blocks(x);
    const uint32_t from = lower_param_buffer(l, lists, DTYPE_i32, PARAM_READ);
    const uint32_t to =
        lower_param_buffer(l, rows, (DType)lower_node(l, x->x)->dtype, PARAM_WRITE);
    k_set_group(k, COPY_THREADS);
    const KRef place = k_for_group(k, b.n * b.rows, "row");
    k_wait(k);
    const KRef block = k_expr(k, "$ / # + #", place, b.rows, b.n * b.rows);
    k_if(k, k_expr(k, "0 <= $", experts_entry(l, from, block)));
    copy_row(l, x, to, place, experts_entry(l, from, place));
    k_end(k);
    k_end(k);
}

// --- the product ---------------------------------------------------------------------------------

static Point point_of(const GpuMatmul *p, const KRef *batch, KRef row, KRef column)
{
    const Experts *x = p->ctx;
    Point at = {.lanes = 1, .count = 1, .vec_axis = x->d.rank - 1};
    (void)batch;
    experts_row(p->l, x, gpu_group_row(p, row), at.idx);
    at.idx[x->d.rank - 1] = column;
    return at;
}

// The result: rows are in any order, so a step between them is what all steps are multiples of.
static GpuMatrix result_of(const Lower *l, const Experts *x)
{
    GpuMatrix m = {.id = l->root, .loc = lower_loc(l, l->root)};
    const uint32_t last = x->d.rank - 1;
    for (uint32_t i = 0; i < x->d.access.len; i++) {
        const Access *a = &x->d.access.data[i];
        if (a->node != l->root)
            continue;
        m.k = a->stride[last];
        for (uint32_t r = 0; r < last && m.k == 1; r++)
            m.outer |= x->d.extent[r] > 1 ? a->stride[r] : 0;
    }
    return m;
}

// The matrices of a product.
static GpuMatrix matrices_of(const Experts *x, const Loc *loc)
{
    return (GpuMatrix){.id = x->w, .packed = x->is_placed ? 1 + x->weights : 0, .loc = loc, .outer = x->w_col,
                       .k = x->w_k, .batch = {x->w_expert}};
}

static GpuMatmul product_of(Lower *l, const Experts *x, const Loc *locs, const GpuGroups *groups)
{
    const ExpertBlocks b = experts_blocks(x);
    GpuMatmul p = {.l = l, .m = b.n * b.rows, .n = x->n, .k = x->k, .n_batch = 1, .batch = {x->n_experts},
                   .d = &x->d, .point = point_of, .ctx = x, .groups = groups, .c = result_of(l, x)};
    p.a = (GpuMatrix){.id = x->x, .loc = &locs[0], .outer = x->k, .k = 1};
    p.b = matrices_of(x, &locs[1]);
    return p;
}

static bool has_form(Lower *l, const Experts *x)
{
    const int type = lower_node(l, x->x)->dtype;
    return l->pass->frame == NULL && l->caps->shared_bytes != 0 &&
           lower_is_float(lower_node(l, l->anchor)->dtype) && type == lower_node(l, x->w)->dtype &&
           x->n_experts >= 1 && x->n_experts <= EXPERTS_MOST && x->rows >= 1 && x->d.rank >= 1 &&
           !x->d.is_exact &&
           x->rows <= INT32_MAX / 2 / EXPERTS_MANY_ROWS;
}

// What an earlier product of the layer has made already, or room for it: where[0] the lists, [1] the rows.
static void make_rows(Lower *l, const Experts *x, BufId *where)
{
    Plan *p = l->plan;
    const ExpertBlocks b = experts_blocks(x);
    const uint64_t m = (uint64_t)(b.n * b.rows), bytes = dtype_info[lower_node(l, x->x)->dtype].bytes;
    PlanKernel *pk = NULL;
    for (uint32_t i = 0; i < p->experts.sorted.len; i++) {
        const PlanSorted *s = &p->experts.sorted.data[i];
        if (s->index != x->index || s->n_experts != x->n_experts)
            continue;
        where[0] = s->lists;
        where[1] = s->x == x->x ? s->rows : where[1];
    }
    if (where[0] == 0) {
        where[0] = add_buffer(l, "order", (m + 3 * (uint64_t)b.n) * 4);
        Lower own = begin_kernel(l, "sort", &pk);
        experts_list_rows(&own, x, where[0]);
        end_kernel(l, &own, x->index);
    }
    if (where[1] != 0)
        return;
    where[1] = add_buffer(l, "rows", m * (uint64_t)x->k * bytes);
    Lower own = begin_kernel(l, "rows", &pk);
    copy_rows(&own, x, where[0], where[1]);
    end_kernel(l, &own, x->index);
    vec_push(p->arena, &p->experts.sorted,
             ((PlanSorted){.index = x->index, .x = x->x, .n_experts = x->n_experts,
                           .lists = where[0], .rows = where[1]}));
}

// --- results that stay in the order of their experts ---

// Will the product read its rows from what this one leaves? Those of one index and of so many experts are
// all cut into blocks in the same way (experts_units).
static bool reads_sorted(const Lower *l, const Experts *x, NodeId product)
{
    const Node *n = lower_node(l, product), *root = lower_node(l, l->root);
    if (!experts_are_product(n) || n->src[0] != l->root || n->src[1] == l->root || n->src[2] != x->index ||
        (n->n_src > 3 && n->src[3] == l->root))
        return false;
    const Node *w = lower_node(l, n->src[1]);
    return root->shape->rank == lower_node(l, x->index)->shape->rank + 1 &&
           w->shape->dim[0] == x->n_experts &&
           w->shape->dim[1] >= LEAST_K && w->shape->dim[2] >= LEAST_K && w->dtype == root->dtype &&
           lower_is_float(n->dtype);
}

// Is the root read by such products only, in memory that nobody else knows?
static bool is_for_experts(const Lower *l, const Experts *x)
{
    const Graph *g = l->g;
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->outputs.len; i++)
        if (g->outputs.data[i].node == l->root)
            return false;
    for (uint32_t i = 0; i < g->states.len; i++)
        if (g->states.data[i].next == l->root)
            return false;
    for (NodeId id = l->root + 1; id < g->nodes.len; id++)
        for (uint32_t i = 0; i < lower_node(l, id)->n_src; i++)
            if (lower_node(l, id)->src[i] == l->root) {
                if (!reads_sorted(l, x, id))
                    return false;
                n++;
            }
    return n > 0;
}

// Lets the result stay in the order of the rows of the product.
static void keep_order(Lower *l, const Experts *x, BufId lists, GpuMatmul *p, Loc *loc)
{
    const DType type = (DType)lower_node(l, l->root)->dtype;
    const uint64_t bytes = (uint64_t)p->m * (uint64_t)p->n * dtype_info[type].bytes;
    *loc = (Loc){.buf = add_buffer(l, "rows", bytes), .stride = {p->n, 1}};
    p->c = (GpuMatrix){.id = l->root, .loc = loc, .outer = p->n, .k = 1};
    p->c.packed = 1 + lower_param_buffer(l, loc->buf, type, PARAM_WRITE);
    vec_push(l->plan->arena, &l->plan->experts.sorted,
             ((PlanSorted){.index = x->index, .x = l->root, .n_experts = x->n_experts, .lists = lists,
                           .rows = loc->buf}));
}

bool experts_are_sorted(const Lower *l, NodeId x)
{
    for (uint32_t i = 0; i < l->plan->experts.sorted.len; i++)
        if (l->plan->experts.sorted.data[i].x == x)
            return true;
    return false;
}

static Loc loc_of_weights(const Lower *l, const Experts *x)
{
    return x->is_placed ? (Loc){.buf = l->pk->args.data[x->weights].buf} : *lower_loc(l, x->w);
}

bool experts_units(Lower *l, Experts *x)
{
    if (!has_form(l, x))
        return false;
    Loc locs[2] = {{.stride = {x->k, 1}}, loc_of_weights(l, x)};
    const ExpertBlocks b = experts_blocks(x);
    GpuGroups groups = {.rows = b.rows, .matrices = b.matrices, .likely = b.likely * b.rows, .bias = x->bias};
    GpuMatmul p = product_of(l, x, locs, &groups);
    if (x->has_table) { // slots begin at multiples of so many bytes
        groups.table = 1 + x->table;
        groups.table_step = p.b.batch[0] = SLOT_ALIGN / dtype_info[lower_node(l, x->w)->dtype].bytes;
    }
    GpuSecond second = {0};
    Loc loc_second = {0};
    if (x->second != NULL) {
        loc_second = loc_of_weights(l, x->second);
        second = (GpuSecond){x->second->product, matrices_of(x->second, &loc_second)};
        p.second = &second;
    }
    BufId where[2] = {0};
    const bool is_wide = x->n >= 8 && x->k >= LEAST_K;
    if (!is_wide || !gpu_simt_fits(&p))
        return false;
    make_rows(l, x, where);
    locs[0].buf = where[1];
    groups.lists = lower_param_buffer(l, where[0], DTYPE_i32, PARAM_READ);
    p.a.packed = 1 + lower_param_buffer(l, where[1], (DType)lower_node(l, x->x)->dtype, PARAM_READ);
    rlx_assert(p.second == NULL || (!x->has_table && gpu_matmul_fits(&p)));
    if (x->has_table || !gpu_matmul_fits(&p)) { // maps say how many matrices there are
        gpu_matmul_simt(&p);
        return true;
    }
    Loc loc_result = {0};
    if (is_for_experts(l, x))
        keep_order(l, x, where[0], &p, &loc_result);
    gpu_matmul_emit(&p);
    return true;
}

// Weights that are next to each other in the order of their axes.
static bool is_leaf(const Node *n)
{
    return n->op == OP_const || n->op == OP_param;
}

bool experts_take_second(const Plan *p, NodeId product)
{
    const Node *n = graph_node(p->graph, product);
    const Node *x = graph_node(p->graph, n->src[0]), *w = graph_node(p->graph, n->src[1]);
    const int64_t rows = shape_numel(graph_node(p->graph, n->src[2])->shape);
    if (!experts_are_product(n) || !p->caps->is_gpu || !p->caps->has_mma || p->caps->shared_bytes == 0 ||
        (n->n_src > 3 && n->src[3] != 0) || !is_leaf(w) || !k_is_half(n->dtype) || x->dtype != n->dtype ||
        w->dtype != n->dtype || x->shape->rank < 1 || w->shape->dim[0] < 1 ||
        w->shape->dim[0] > EXPERTS_MOST ||
        rows > INT32_MAX / 2 / EXPERTS_MANY_ROWS)
        return false;
    const int64_t k = w->shape->dim[1], columns = w->shape->dim[2]; // or the other way round
    const int64_t width = 16 / dtype_info[n->dtype].bytes;
    return rows > EXPERTS_FEW_ROWS && k % width == 0 && columns % width == 0 && k >= LEAST_SECOND &&
           columns >= LEAST_SECOND;
}
