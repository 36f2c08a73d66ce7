// SPDX-License-Identifier: Apache-2.0
// Constant folding: evaluates nodes whose operands are all constants, with the reference evaluator, so that
// folding can never disagree with it. Results that would only make the program bigger are left alone, but not
// weights: a kernel that packs them needs them as a constant. All of it has a budget (eval_work.h): what
// takes longer, or makes more, stays in the graph and is computed in each run.
#include "passes/graph/fold.h"
#include "ir/eval/eval.h"
#include "ir/eval/eval_work.h"
#include "ir/graph/intern.h"
#include "ir/graph/reads.h"
#include "passes/graph/bodies.h"
#include "passes/graph/simplify_eighths.h"
#include "passes/pass.h"

enum { FOLD_ALWAYS_BYTES = 1 << 16, FOLD_GROWTH = 4 };
static const uint64_t fold_max_bytes = UINT64_C(1) << 31; // of one constant

typedef struct Fold {
    Arena *perm, *scratch;
    const uint8_t *is_weight; // by NodeId below n_marked: see mark_weights
    uint32_t n_marked;
    NodeId visited; // what the node at hand was before its operands changed
    bool keeps_eighths;    // products may read constants of 8-bit floats as they are
    const bool *is_kept;   // the same: casts that such products read
} Fold;

// --- weights that are spread ---------------------------------------------------------------------

// The operand that is packed when it is a constant, or 0.
static NodeId weights_of(const Graph *g, const Node *n)
{
    if (op_info[n->op].steps == OPSTEPS_FILTER)
        return n->src[1];
    if (op_info[n->op].steps != OPSTEPS_INNER && n->op != OP_linear)
        return 0;
    // One matrix for all: a product with many shares them better as they are.
    const Shape *s = graph_node(g, n->src[1])->shape;
    for (uint32_t i = 0; i + 2 < s->rank; i++)
        if (s->dim[i] != 1)
            return 0;
    return n->src[1];
}

// What constants come to that something reads as its weights: without its values a convolution packs them in
// every run, or is a plain loop, and every run computes the weights anew. So they become constants however
// much larger than their parts they are: spread numbers, filters that a model computes from frequencies.
static void mark_weights(const Graph *g, Fold *f)
{
    uint8_t *mark = ARENA_ARRAY(f->scratch, uint8_t, g->nodes.len);
    for (NodeId id = g->nodes.len; id-- > 1;) { // operands come before what reads them
        const Node *n = graph_node(g, id);
        const NodeId weights = weights_of(g, n);
        if (weights)
            mark[weights] = 1;
        const bool is_form = (op_info[n->op].flags & OPFLAG_VIEW) != 0;
        const uint32_t passed = is_form ? 1 : op_is_pointwise((OpId)n->op) ? n->n_src : 0;
        for (uint32_t i = 0; mark[id] && i < passed; i++)
            mark[n->src[i]] = 1;
    }
    f->is_weight = mark;
    f->n_marked = g->nodes.len;
}

static bool is_spread_weight(const Node *n, const Fold *f)
{
    return ((op_info[n->op].flags & OPFLAG_VIEW) != 0 || op_is_pointwise((OpId)n->op)) &&
           f->visited < f->n_marked && f->is_weight[f->visited];
}

static void note_visit(NodeId old, NodeId rebuilt, void *ctx)
{
    Fold *f = ctx;
    (void)rebuilt;
    f->visited = old;
}

// --- 8-bit floats --------------------------------------------------------------------------------

// Units multiply 8-bit floats: as f32, which they would be folded to, they are none. find: the casts that
// such products read, or might read when pass_pitch has seen them.
static void mark_eighths(const Graph *g, Fold *f, bool (*find)(const Graph *, NodeId, NodeId *))
{
    bool *mark = ARENA_ARRAY(f->scratch, bool, g->nodes.len);
    for (NodeId id = 1; id < g->nodes.len; id++) {
        NodeId casts[2] = {0};
        if (find(g, id, casts))
            mark[casts[0]] = mark[casts[1]] = true;
    }
    f->is_kept = mark;
}

static bool is_kept(const Graph *g, NodeId id, const Fold *f)
{
    const Node *n = graph_node(g, id);
    const NodeId of = eighths_cast_of(g, id);
    if (!f->keeps_eighths || of == 0)
        return false;
    return f->is_kept != NULL ? id < f->n_marked && f->is_kept[id]
                              : n->dtype == DTYPE_f32 && n->shape->rank >= 2 &&
                                    is_eighth(graph_node(g, of)->dtype);
}

// --- folding -------------------------------------------------------------------------------------

// What has no elements is known as well: windows of nothing but padding, sums of nothing.
static bool is_known(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    return node_is_const(g, id) ||
           (n->n_results == 1 && shape_is_const(n->shape) && shape_numel(n->shape) == 0);
}

static bool is_foldable(Graph *g, NodeId id, const Fold *f)
{
    const Node *n = graph_node(g, id);
    uint64_t in = 0;
    if ((op_info[n->op].flags & OPFLAG_KEPT) != 0 || n->n_src == 0 || n->n_results != 1 ||
        !shape_is_const(n->shape) || is_kept(g, id, f))
        return false;
    for (uint32_t i = 0; i < n->n_src; i++) {
        if (n->src[i] != 0 && !is_known(g, n->src[i]))
            return false;
        if (n->src[i] != 0)
            in += type_bytes((DType)graph_node(g, n->src[i])->dtype, graph_node(g, n->src[i])->shape);
    }
    const uint64_t out = type_bytes((DType)n->dtype, n->shape);
    if (n->op == OP_block_decode && out > FOLD_ALWAYS_BYTES) // blocks are there because they are small
        return false;
    return (out <= FOLD_ALWAYS_BYTES || (out <= fold_max_bytes && (out / FOLD_GROWTH <= in || in == 0)) ||
            (out <= fold_max_bytes && is_spread_weight(n, f))) &&
           eval_spend(g, id);
}

// Floats of 16 bits as f32, of which the program will load others: what stands for what is noted, for those
// who pack them in 16 bits after all. What makes such elements of such elements converts them, and no more.
static bool is_widened(const Graph *g, const Node *n)
{
    const Node *from = n->n_src == 1 && op_is_pointwise((OpId)n->op) ? graph_node(g, n->src[0]) : NULL;
    return g->reads != NULL && from != NULL && from->op == OP_const && n->dtype == DTYPE_f32 &&
           (from->dtype == DTYPE_f16 || from->dtype == DTYPE_bf16);
}

static NodeId widen(Graph *g, NodeId id, Fold *f)
{
    const Node *n = graph_node(g, id);
    Tensor in = tensor_of_unread(g, n->src[0]);
    const uint64_t bytes = type_bytes(DTYPE_f32, n->shape);
    const ReadsWidened *known = reads_widened_from(g->reads, in.data);
    void *to = known != NULL ? known->to : NULL;
    if (known == NULL) {
        Tensor out = tensor_new(g->reads->arena, DTYPE_f32, n->shape->rank, n->shape->dim);
        EvalCtx e = {.arena = f->scratch, .g = g, .node = n, .id = id, .in = &in, .out = &out};
        if (!eval_node(&e))
            return id;
        to = out.data;
        reads_note_widened(g->reads, in.data, in.dtype, to);
    }
    intern_known(g, to, bytes, (uint64_t)(uintptr_t)to);
    return graph_const(g, DTYPE_f32, n->shape, to, bytes, node_span(g, id));
}

static NodeId fold_one(Graph *g, NodeId id, Fold *f)
{
    rlx_assert(id != 0);
    const Node *n = graph_node(g, id);
    if (!is_foldable(g, id, f))
        return id;
    if (is_widened(g, n))
        return widen(g, id, f);
    Tensor *in = ARENA_ARRAY(f->scratch, Tensor, n->n_src);
    for (uint32_t i = 0; i < n->n_src; i++) {
        const Node *s = graph_node(g, n->src[i]);
        if (n->src[i] != 0)
            in[i] = node_is_const(g, n->src[i])
                        ? tensor_of_const(g, n->src[i])
                        : tensor_new(f->scratch, (DType)s->dtype, s->shape->rank, s->shape->dim);
    }
    Tensor out = tensor_new(f->perm, (DType)n->dtype, n->shape->rank, n->shape->dim);
    EvalCtx e = {.arena = f->scratch, .g = g, .node = n, .id = id, .in = in, .out = &out};
    if (!eval_node(&e))
        return id;
    return graph_const(g, out.dtype, n->shape, out.data, type_bytes(out.dtype, n->shape), node_span(g, id));
}

NodeId fold_node(Graph *g, NodeId id)
{
    rlx_assert(id != 0 && id < g->nodes.len);
    Arena scratch = {0};
    Fold f = {.perm = g->arena, .scratch = &scratch, .keeps_eighths = true};
    const NodeId folded = fold_one(g, id, &f);
    arena_free(&scratch);
    return folded;
}

static NodeId step_fold(Graph *g, NodeId id, void *ctx)
{
    return fold_one(g, id, ctx);
}

static bool fold_all(Pass *p, bool (*find_eighths)(const Graph *, NodeId, NodeId *))
{
    rlx_assert(p->plan == NULL && !p->failed);
    Fold f = {.perm = p->perm, .scratch = p->scratch, .keeps_eighths = p->options->caps->has_mma};
    mark_weights(p->graph, &f);
    if (f.keeps_eighths)
        mark_eighths(p->graph, &f, find_eighths);
    const uint32_t errors = p->diag->n_errors;
    bool changed = graph_rewrite_watched(p->graph, note_visit, step_fold, &f);
    changed = bodies_tidy(p) || changed;
    p->failed = !graph_settle_checks(p->graph) || p->diag->n_errors != errors;
    return changed;
}

bool pass_fold(Pass *p)
{
    return fold_all(p, eighths_find_constants);
}

bool pass_refold(Pass *p)
{
    const bool changed = fold_all(p, eighths_are_read);
    const uint32_t before = p->graph->nodes.len;
    p->graph = graph_compact(p->graph, NULL);
    return changed || p->graph->nodes.len != before;
}
