// SPDX-License-Identifier: Apache-2.0
// Matrix products of a graph as those of gpu_matmul.h.
#include "ir/machine/machine.h"
#include "ir/shape/forms.h"
#include "passes/graph/simplify_eighths.h"
#include "passes/graph/simplify_scale.h"
#include "passes/lower/gpu/gpu_matmul.h"
#include "passes/lower/product/matmul.h"

enum { LEAST_SECOND = 64 }; // columns and steps of k, and what these are multiples of

static Point point_of(const GpuMatmul *p, const KRef *batch, KRef row, KRef column)
{
    const Matmul *x = p->ctx;
    Point at = {.lanes = 1, .count = 1};
    for (uint32_t i = 0; i < x->batch; i++)
        at.idx[i] = batch[i];
    return matmul_point(x, &at, row, column);
}

static GpuMatrix operand_of(const Lower *l, const Matmul *x, NodeId id, const Loc *loc)
{
    const Shape *s = lower_node(l, id)->shape;
    rlx_assert(s->rank >= 2 && s->rank - 2 <= x->all_batch);
    const bool is_a = id == x->a && loc == &x->a_loc;
    GpuMatrix m = {
        .id = id, .loc = loc, .outer = is_a ? x->a_row : x->b_col, .k = is_a ? x->a_k : x->b_k};
    for (uint32_t i = 0, own = s->rank - 2; i < own; i++) {
        const uint32_t axis = x->all_batch - own + i;
        if (axis < x->batch && s->dim[i] != 1)
            m.batch[axis] = loc->stride[i];
    }
    return m;
}

static GpuMatrix result_of(const Lower *l, const Matmul *x)
{
    const Access *a = domain_access(&x->d, l->root, SPACE_IN);
    rlx_assert(a != NULL);
    GpuMatrix m = {.id = l->root,
                   .loc = lower_loc(l, l->root),
                   .outer = a->stride[x->batch],
                   .k = a->stride[x->batch + 1]};
    for (uint32_t b = 0; b < x->batch; b++)
        m.batch[b] = x->d.extent[b] > 1 ? a->stride[b] : 0;
    return m;
}

static bool is_number(const Lower *l, NodeId id)
{
    return lower_is_float(lower_node(l, id)->dtype) || is_eighth(lower_node(l, id)->dtype);
}

static bool has_form(const Lower *l, const Matmul *x)
{
    const Node *node = lower_node(l, l->anchor);
    return l->caps->shared_bytes != 0 && (node->n_src < 3 || node->src[2] == 0) &&
           lower_is_float(node->dtype) && is_number(l, x->a) && is_number(l, x->b);
}

// The second product of the kernel (group_join_products), whose matrix has places of its own.
static GpuSecond second_of(const Lower *l, NodeId product)
{
    const Node *n = lower_node(l, product);
    const Loc *loc = lower_loc(l, n->src[1]);
    const bool is_turned = !matmul_form(n).turns_b;
    return (GpuSecond){product, {.id = n->src[1], .loc = loc, .outer = loc->stride[is_turned],
                                 .k = loc->stride[!is_turned]}};
}

static GpuMatmul product_of(Lower *l, const Matmul *x)
{
    GpuMatmul p = {.l = l, .m = x->m, .n = x->n, .k = x->k, .n_batch = x->batch, .d = &x->d,
                   .scale = x->scale == 1 ? 0 : x->scale, .point = point_of, .ctx = x};
    for (uint32_t i = 0; i < x->batch; i++)
        p.batch[i] = x->d.extent[i];
    p.a = operand_of(l, x, x->a, &x->a_loc);
    p.b = operand_of(l, x, x->b, lower_loc(l, x->b));
    p.c = result_of(l, x);
    // Casts to f32 were taken in (group_join_products).
    p.by_slots = lower_node(l, x->a)->dtype != lower_node(l, lower_node(l, l->anchor)->src[0])->dtype;
    return p;
}

// Few small products of one slice, both of whose operands lie along k: groups that have a processor each
// begin sooner without the copy engine.
static bool are_small(const GpuMatmul *p)
{
    enum { MOST_LINES = 64, MOST_STEPS = 64 };
    const GpuMachine *machine = p->l->caps->gpu;
    const bool are_few = machine == NULL || gpu_matmul_count(p) <= machine->processors;
    return are_few && p->m <= MOST_LINES && p->n <= MOST_LINES && p->k <= MOST_STEPS &&
           gpu_matmul_count(p) > 1 && p->a.k == 1 && p->b.k == 1 && !p->by_slots && p->rows == 0;
}

bool gpu_matmul_lower(Lower *l, const Matmul *product)
{
    if (!has_form(l, product) || product->a_is_vector || product->b_is_vector ||
        product->norm != 0)
        return false;
    const Matmul x = matmul_join_rows(l, product);
    if (x.batch > GPU_MATMUL_MAX_BATCH || x.d.rank != x.batch + 2 || x.d.is_exact)
        return false;
    GpuMatmul p = product_of(l, &x);
    const NodeId other = matmul_other(l);
    const GpuSecond second = other != 0 ? second_of(l, other) : (GpuSecond){0};
    if (other != 0) {
        rlx_assert(x.batch == 0 && p.scale == 0);
        p.second = &second;
        l->pk->macs *= 2;
    }
    const bool is_wgmma = gpu_matmul_fits(&p) && !(are_small(&p) && gpu_simt_fits(&p));
    rlx_assert(other == 0 || is_wgmma);
    if (is_wgmma)
        gpu_matmul_emit(&p);
    else if (gpu_simt_fits(&p))
        gpu_matmul_simt(&p);
    return is_wgmma || gpu_simt_fits(&p);
}

// --- two products -------------------------------------------------------------------------------

// A value of rows with nothing between them: nobody places it elsewhere than a kernel leaves it.
static bool has_whole_rows(const Plan *p, NodeId id)
{
    double factor = 1;
    return op_is_computed((OpId)graph_node(p->graph, id)->op) && p->orders.data[id] == ORDER_ROW_MAJOR &&
           graph_node(p->graph, id)->shape->rank == 2 &&
           scaled_value(p->graph, id, &factor) == 0;
}

// Tiles of two products have half of their columns for each, and none share k.
static bool are_many_tiles(const GpuMachine *m, int64_t rows, int64_t columns)
{
    enum { MOST_ROWS = 128, OWN_COLUMNS = 64 };
    return 4 * ceil_div(rows, MOST_ROWS) * ceil_div(columns, OWN_COLUMNS) >= 3 * m->processors;
}

bool gpu_matmul_takes_second(const Plan *p, NodeId matmul)
{
    const Graph *g = p->graph;
    const Node *n = graph_node(g, matmul);
    const MatmulForm form = matmul_form(n);
    if (p->caps->shared_bytes == 0 || !p->caps->has_mma || !form.is_there || form.turns_a ||
        (n->n_src > 2 && n->src[2] != 0))
        return false;
    const Node *a = graph_node(g, n->src[0]), *b = graph_node(g, n->src[1]);
    const bool is_turned = !form.turns_b;
    if ((b->op != OP_const && b->op != OP_param) || b->shape->rank != 2 || !k_is_half(b->dtype) ||
        a->dtype != b->dtype || n->dtype != b->dtype || !has_whole_rows(p, n->src[0]))
        return false;
    const int64_t columns = b->shape->dim[is_turned], k = b->shape->dim[!is_turned];
    return k % LEAST_SECOND == 0 && columns % LEAST_SECOND == 0 && k > 0 && a->shape->dim[0] > 1 &&
           are_many_tiles(p->caps->gpu, a->shape->dim[0], columns);
}
