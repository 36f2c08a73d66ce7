// SPDX-License-Identifier: Apache-2.0
// Loop and Scan. A loop stays a loop where every iteration has the same types; else, and when it runs at most
// once, it is unrolled.
#include "compiler/import/onnx/onnx_loop.h"

// --- either way ---

// Scan outputs of one iteration that is not part of the result, for their types.
static void try_iteration(OnnxNode *n, const OnnxUnroll *loop, OnnxValue *out)
{
    Arena *a = n->model->arena;
    OnnxUnroll u = *loop;
    u.trips = 1;
    u.cond = (OnnxValue){.kind = ONNX_ABSENT};
    u.carried = arena_copy(a, u.carried, (u.n_carried + 1) * sizeof *u.carried);
    u.scan = ARENA_ARRAY(a, OnnxValueList, u.n_scan + 1);
    if (onnx_unroll(n, &u))
        for (uint32_t i = 0; i < u.n_scan; i++)
            out[i] = u.scan[i].v.data[0];
}

static OnnxValue cut_row(OnnxNode *n, const OnnxUnroll *u, uint32_t row, int64_t i)
{
    rlx_assert(row < u->n_rows && i >= 0);
    const OnnxRow *r = &((const OnnxLoop *)u->ctx)->rows[row];
    const int64_t axis = r->axis, size = onnx_const_dim(n, r->x, r->axis),
                  at = r->is_backward ? size - 1 - i : i;
    return onnx_value(onnx_squeeze(n, onnx_slice(n, r->x, axis, at, at + 1, 1), &axis, 1));
}

static bool unroll(OnnxNode *n, OnnxLoop *l, OnnxValue *out)
{
    OnnxUnroll *u = &l->u;
    OnnxValue *like = ARENA_ARRAY(n->model->arena, OnnxValue, u->n_scan + 1);
    u->row = cut_row;
    u->ctx = l;
    if (!onnx_unroll(n, u))
        return false;
    if (u->done == 0 && u->n_scan)
        try_iteration(n, u, like);
    for (uint32_t i = 0; i < u->n_carried && !n->failed; i++)
        out[i] = u->carried[i];
    for (uint32_t i = 0; i < u->n_scan && !n->failed; i++)
        if (l->wants_scan[i])
            out[u->n_carried + i] = onnx_value(onnx_stack(n, &u->scan[i], like[i]));
    return !n->failed;
}

// Unrolling that may fail without a report.
static bool try_unroll(OnnxNode *n, OnnxLoop *l, bool may_assume, OnnxValue *out)
{
    Diag *own = n->model->diag;
    OnnxLoop copy = *l;
    copy.u.may_assume = may_assume;
    copy.u.carried = arena_copy(n->model->arena, l->u.carried, (l->u.n_carried + 1) * sizeof *l->u.carried);
    l->trial = ARENA_NEW(n->model->arena, Diag);
    *l->trial = diag_new(n->model->arena);
    n->model->diag = n->graph->diag = l->trial;
    const bool ok = unroll(n, &copy, out);
    n->model->diag = n->graph->diag = own;
    if (ok)
        onnx_pass_on(n, l->trial);
    n->failed = false;
    return ok;
}

// Values that only exist in the importer.
static bool has_odd_values(const OnnxLoop *l)
{
    for (uint32_t i = 0; i < l->u.n_carried; i++) {
        const OnnxValue *v = &l->u.carried[i];
        if (v->is_text || (v->kind != ONNX_NODE && v->kind != ONNX_DIMS))
            return true;
    }
    return false;
}

static bool wants_scans(const OnnxLoop *l)
{
    for (uint32_t i = 0; i < l->u.n_scan; i++)
        if (l->wants_scan[i])
            return true;
    return false;
}

// It can be neither a graph nor unrolled.
static void report_both(OnnxNode *n, const Diag *graph, const Diag *unrolled)
{
    for (uint32_t i = 0; i < unrolled->items.len; i++) {
        const DiagItem *item = &unrolled->items.data[i];
        if (item->level == DIAG_ERROR) {
            diag_note(n->model->diag, n->span, "it cannot be unrolled instead: %s", item->message);
            break;
        }
    }
    onnx_pass_on(n, graph);
    n->failed = true;
}

static bool run_loop(OnnxNode *n, OnnxLoop *l, OnnxValue *out)
{
    const bool must_unroll = has_odd_values(l);
    if (n->failed)
        return false;
    if (!must_unroll && l->u.trips > 1 && onnx_loop_graph(n, l, out))
        return true;
    Tensor count;
    if (l->u.trips == INT64_MAX && l->count && onnx_assume(n, 0, &count) && count.numel == 1)
        l->u.trips = tensor_get_i64(&count, 0);
    if (l->trial && (l->u.trips == INT64_MAX || !onnx_may_unroll(n, l->u.body, l->u.trips))) {
        onnx_report_trial(n, l);
        return false;
    }
    const Diag *graph = l->trial; // what is wrong with it as a graph
    if (try_unroll(n, l, true, out))
        return true;
    if (graph == NULL || graph->n_errors == 0)
        onnx_report_trial(n, l);
    else
        report_both(n, graph, l->trial);
    return false;
}

static bool begin_loop(OnnxNode *n, OnnxLoop *l, const Onnx__GraphProto *body, uint32_t n_carried)
{
    Arena *a = n->model->arena;
    if (n->failed || n_carried > n->n_out)
        return onnx_fail(n, E0202, "carries %u values, but has %u outputs", n_carried, n->n_out);
    l->u = (OnnxUnroll){
        .body = body, .n_carried = n_carried, .n_scan = n->n_out - n_carried, .may_assume = true};
    l->u.carried = ARENA_ARRAY(a, OnnxValue, n_carried + 1);
    l->u.scan = ARENA_ARRAY(a, OnnxValueList, l->u.n_scan + 1);
    bool *wants = ARENA_ARRAY(a, bool, l->u.n_scan + 1);
    for (uint32_t i = 0; i < l->u.n_scan; i++)
        wants[i] = onnx_wants(n, n_carried + i);
    l->wants_scan = wants;
    return true;
}

// --- Loop ---

enum { MAX_WHILE = 1 << 20 }; // iterations of a loop for which nobody gives a bound

// What the user gives a size for.
static const char *bound_name(const OnnxNode *n)
{
    return arena_printf(n->model->arena, "%s_trips", n->label);
}

static NodeId bound_node(OnnxNode *n, const OnnxLoop *l)
{
    OnnxDims d = {.dtype = DTYPE_i64, .n = 1, .dim = {l->bound}};
    OnnxValue v = {.kind = ONNX_DIMS, .dims = &d};
    const NodeId id = n->failed ? 0 : onnx_value_node(n->scope, &v, n->span);
    n->failed = !id;
    return id;
}

// Without a trip count the loop runs until its condition ends it, but never longer than a size that the user
// gives. A run in which that is not enough fails.
static void run_while(OnnxNode *n, OnnxLoop *l, OnnxValue *out)
{
    const char *name = bound_name(n);
    const bool is_odd = has_odd_values(l);
    OnnxLoop counted = *l;
    counted.must_count = true;
    if (n->failed || (!is_odd && onnx_loop_graph(n, &counted, out)))
        return;
    if (is_odd || wants_scans(l)) {
        unroll(n, l, out);
        return;
    }
    const bool has_bound = onnx_given_size(n->model, name) >= 0;
    if (try_unroll(n, l, false, out) || (!has_bound && try_unroll(n, l, true, out)))
        return;
    l->has_bound = true;
    l->bound = dim_symbol(n->graph->dims, name, 1, MAX_WHILE, 1);
    if (!onnx_loop_graph(n, l, out)) {
        onnx_report_trial(n, l);
        return;
    }
    if (l->u.n_carried == 0)
        return;
    rlx_assert(out[0].kind == ONNX_NODE && out[0].node != 0);
    const NodeId loop = graph_node(n->graph, out[0].node)->op == OP_result
                            ? graph_node(n->graph, out[0].node)->src[0]
                            : out[0].node;
    const NodeId count = onnx_result(n, loop, graph_node(n->graph, loop)->n_results - 1u);
    onnx_require(n, onnx_op2(n, OP_lt, count, bound_node(n, l)),
                 arena_printf(n->model->arena,
                              GRAPH_RANGE "node '%s': needs more iterations than its bound '%s' allows",
                              n->label, name));
}

static OnnxValue take_value(OnnxNode *n, uint32_t i)
{
    onnx_skip(n, i);
    if (!onnx_has(n, i))
        onnx_fail(n, E0202, "input %u is missing", i);
    return n->failed ? (OnnxValue){.kind = ONNX_BROKEN} : n->in[i];
}

// A trip count that the model computes, but that is no larger than a size that the user gives.
static bool has_given_bound(OnnxNode *n, OnnxLoop *l)
{
    OnnxDims known;
    if (onnx_given_size(n->model, bound_name(n)) < 0 || has_odd_values(l) || onnx_peek_dims(n, 0, &known))
        return false;
    l->has_bound = true;
    l->bound = dim_symbol(n->graph->dims, bound_name(n), 1, MAX_WHILE, 1);
    return true;
}

// The trip count: a number where it is one or must be one, else a node.
static void read_trips(OnnxNode *n, OnnxLoop *l)
{
    OnnxDims dims;
    OnnxInts trips = {0};
    l->u.trips = INT64_MAX;
    if (onnx_peek_dims(n, 0, &dims) && dims.n == 1 && !dim_is_const(dims.dim[0]) && !has_odd_values(l)) {
        onnx_skip(n, 0);
        l->has_bound = true; // sizes are known when the loop is planned
        l->bound = dim_max(n->graph->dims, dims.dim[0], 0);
    } else if (has_given_bound(n, l)) {
        l->count = onnx_cast(n, onnx_reshape(n, onnx_src(n, 0), &(Shape){0}), DTYPE_i64);
        onnx_require(n, onnx_op2(n, OP_le, l->count, bound_node(n, l)),
                     arena_printf(n->model->arena, GRAPH_RANGE "node '%s': more iterations than '%s' allows",
                                  n->label, bound_name(n)));
    } else if (onnx_peek_dims(n, 0, &dims) || wants_scans(l) || has_odd_values(l)) {
        if (onnx_src_ints(n, 0, &trips))
            l->u.trips = trips.n ? trips.v[0] : 0;
        l->u.trips = l->u.trips < 0 ? 0 : l->u.trips;
        l->has_bound = true;
        l->bound = l->u.trips;
    } else {
        l->count = onnx_cast(n, onnx_src(n, 0), DTYPE_i64);
    }
}

static void read_condition(OnnxNode *n, OnnxLoop *l)
{
    Tensor known;
    onnx_skip(n, 1);
    if (!onnx_has(n, 1))
        return;
    if (wants_scans(l) || has_odd_values(l))
        onnx_assume(n, 1, &known); // where it is not known, the loop may still be one without scan outputs
    l->u.cond = n->in[1];
}

void onnx_loop_with(OnnxNode *n, const Onnx__GraphProto *body, const NodeId *row_like)
{
    rlx_assert(n->n_in >= 2);
    OnnxLoop l = {0};
    if (n->failed || !begin_loop(n, &l, body, n->n_in - 2))
        return;
    l.row_like = row_like;
    l.u.has_control = true;
    l.u.trips = INT64_MAX;
    for (uint32_t i = 0; i < l.u.n_carried; i++)
        l.u.carried[i] = take_value(n, i + 2);
    onnx_skip(n, 0);
    if (!n->failed && onnx_has(n, 0))
        read_trips(n, &l);
    read_condition(n, &l);
    if (n->failed)
        return;
    if (onnx_has(n, 0))
        run_loop(n, &l, n->out);
    else
        run_while(n, &l, n->out);
}

// --- Scan ---

typedef struct Scan {
    OnnxLoop loop;
    OnnxRow *rows;
    OnnxInts out_axes, out_backward;
} Scan;

static int64_t entry(const OnnxInts *list, uint32_t i)
{
    return i < list->n ? list->v[i] : 0;
}

static void read_rows(OnnxNode *n, Scan *s, uint32_t first)
{
    OnnxInts axes, backward;
    onnx_ints(n, "scan_input_axes", &axes);
    onnx_ints(n, n->opset < 9 ? "directions" : "scan_input_directions", &backward);
    onnx_ints(n, "scan_output_axes", &s->out_axes);
    onnx_ints(n, "scan_output_directions", &s->out_backward);
    s->rows = ARENA_ARRAY(n->model->arena, OnnxRow, s->loop.u.n_rows + 1);
    for (uint32_t i = 0; i < s->loop.u.n_rows; i++) {
        OnnxRow *r = &s->rows[i];
        *r = (OnnxRow){.x = onnx_src(n, first + i), .is_backward = entry(&backward, i) != 0};
        onnx_axis(n, entry(&axes, i), onnx_shape(n, r->x)->rank, &r->axis);
    }
    s->loop.rows = s->rows;
}

// All rows are as many as the first ones.
static void count_rows(OnnxNode *n, Scan *s)
{
    OnnxLoop *l = &s->loop;
    for (uint32_t i = 0; i < l->u.n_rows && !n->failed; i++) {
        rlx_assert(s->rows[i].axis < onnx_shape(n, s->rows[i].x)->rank);
        const Dim size = onnx_shape(n, s->rows[i].x)->dim[s->rows[i].axis];
        if (i > 0 && size != l->bound)
            onnx_fail(n, E0204, "scan inputs 0 and %u are not equally long", i);
        l->bound = size;
    }
    l->has_bound = true;
    l->u.trips = !n->failed && dim_is_const(l->bound) ? l->bound : INT64_MAX;
}

// A scan output as the attributes want it: its rows along another axis, or from the last to the first.
static NodeId arrange(OnnxNode *n, const Scan *s, uint32_t i, NodeId x)
{
    const uint32_t rank = onnx_shape(n, x)->rank;
    int64_t perm[SHAPE_MAX_RANK];
    uint32_t axis = 0, from = 1;
    if (n->failed || !onnx_axis(n, entry(&s->out_axes, i), rank, &axis))
        return 0;
    if (entry(&s->out_backward, i) != 0)
        x = onnx_slice(n, x, 0, -1, -2 * DIM_MAX_VALUE, -1);
    for (uint32_t k = 0; k < rank; k++)
        perm[k] = k == axis ? 0 : from++;
    return onnx_transpose(n, x, perm);
}

static bool run_scan(OnnxNode *n, Scan *s, OnnxValue *out)
{
    OnnxLoop *l = &s->loop;
    count_rows(n, s);
    for (uint32_t i = 0; i < l->u.n_scan; i++)
        l->u.scan[i].v.len = 0;
    if (n->failed || !run_loop(n, l, out))
        return false;
    for (uint32_t i = 0; i < l->u.n_scan; i++)
        if (l->wants_scan[i])
            out[l->u.n_carried + i].node = arrange(n, s, i, out[l->u.n_carried + i].node);
    return !n->failed;
}

static bool begin_scan(OnnxNode *n, Scan *s, uint32_t first)
{
    const Onnx__GraphProto *body = onnx_graph(n, "body");
    const int64_t n_rows = onnx_int(n, "num_scan_inputs", 0);
    *s = (Scan){0};
    if (!n->failed && (n->n_in < first || n_rows < 1 || n_rows > (int64_t)n->n_in - first))
        onnx_fail(n, E0203, "attribute 'num_scan_inputs' is %lld, expected 1 to %u", (long long)n_rows,
                  n->n_in < first ? 0 : n->n_in - first);
    if (n->failed || !begin_loop(n, &s->loop, body, n->n_in - first - (uint32_t)n_rows))
        return false;
    rlx_assert(n_rows >= 1 && n_rows <= n->n_in);
    s->loop.u.n_rows = (uint32_t)n_rows;
    for (uint32_t i = 0; i < s->loop.u.n_carried; i++)
        s->loop.u.carried[i] = onnx_value(onnx_src(n, first + i));
    read_rows(n, s, first + s->loop.u.n_carried);
    return !n->failed;
}

void onnx_import_scan(OnnxNode *n)
{
    Scan s;
    if (begin_scan(n, &s, 0))
        run_scan(n, &s, n->out);
}

// --- Scan of opset 8: a batch of scans, one after the other ---

enum { MAX_BATCH = 64 };

static NodeId cut_entry(OnnxNode *n, NodeId x, int64_t at)
{
    const int64_t axis = 0;
    return onnx_squeeze(n, onnx_slice(n, x, axis, at, at + 1, 1), &axis, 1);
}

static bool run_entry(OnnxNode *n, const Scan *all, int64_t at, OnnxValue *out)
{
    rlx_assert(at >= 0 && at < MAX_BATCH);
    Arena *a = n->model->arena;
    Scan s = *all;
    OnnxUnroll *u = &s.loop.u;
    u->carried = ARENA_ARRAY(a, OnnxValue, u->n_carried + 1);
    s.rows = ARENA_ARRAY(a, OnnxRow, u->n_rows + 1);
    s.loop.rows = s.rows;
    for (uint32_t i = 0; i < u->n_carried; i++)
        u->carried[i] = onnx_value(cut_entry(n, all->loop.u.carried[i].node, at));
    for (uint32_t i = 0; i < u->n_rows; i++) {
        s.rows[i] = all->rows[i];
        s.rows[i].x = cut_entry(n, all->rows[i].x, at);
    }
    return !n->failed && run_scan(n, &s, out);
}

void onnx_import_scan_8(OnnxNode *n)
{
    Scan s;
    OnnxValue out[NODE_MAX_RESULTS];
    NodeId part[NODE_MAX_RESULTS][MAX_BATCH];
    if (onnx_has(n, 0))
        onnx_fail(n, E0206, "input 0 ('sequence_lens') is not supported");
    if (n->n_out > NODE_MAX_RESULTS)
        onnx_fail(n, E0004, "more than %d outputs", NODE_MAX_RESULTS);
    onnx_skip(n, 0);
    if (n->failed || !begin_scan(n, &s, 1))
        return;
    rlx_assert(n->n_out <= NODE_MAX_RESULTS && s.loop.u.n_rows >= 1);
    const int64_t batch = onnx_const_dim(n, s.rows[0].x, 0);
    if (!n->failed && (batch < 1 || batch > MAX_BATCH))
        onnx_fail(n, E0206, "a batch of %lld is not supported, only 1 to %d", (long long)batch, MAX_BATCH);
    for (int64_t b = 0; b < batch && !n->failed; b++) {
        if (!run_entry(n, &s, b, out))
            return;
        for (uint32_t i = 0; i < n->n_out; i++)
            part[i][b] = onnx_wants(n, i) ? onnx_unsqueeze(n, out[i].node, (const int64_t[]){0}, 1) : 0;
    }
    for (uint32_t i = 0; i < n->n_out && !n->failed; i++)
        if (onnx_wants(n, i))
            onnx_out(n, i, onnx_concat(n, part[i], (uint32_t)batch, 0));
}
