// SPDX-License-Identifier: Apache-2.0
// Sub-graphs, custom ops, and ops whose results have sizes that their values decide, as ONNX.
#include "compiler/export/onnx/put.h"
#include "ir/graph/custom.h"

// Up to a size that is a number: zeros behind what there is.
static Value filled_up(Put *w, Value x, const TensorType *t, int64_t axis)
{
    const Dim size = t->shape.dim[axis];
    if (!dim_is_const(size))
        return x;
    const Value none = put_number(w, t->dtype, 0);
    const Value zeros = put_op2(w, "Expand", none, put_dims(w, t->shape.dim, t->shape.rank));
    const Value more = put_concat(w, (const Value[]){x, zeros}, 2, axis);
    return put_slice(w, more, put_list(w, &(int64_t){0}, 1), put_list(w, &size, 1), axis);
}

// --- branches ------------------------------------------------------------------------------------

static void put_branch(Put *w, Onnx__NodeProto *n, const char *attr)
{
    const Graph *g = put_get_list(w, attr)->u.graph;
    Put sub;
    put_begin_graph(&sub, w->file, g, w);
    for (uint32_t i = 0; i < g->inputs.len; i++)
        sub.value[g->inputs.data[i]] = put_src(w, i + 1);
    put_nodes(&sub);
    put_inner_outputs(&sub, 0, g->outputs.len);
    put_end_graph(&sub);
    w->failed = w->failed || sub.failed;
    put_graph(w, n, attr[0] == 't' ? "then_branch" : "else_branch", &sub);
}

// The graphs are written first, because their nodes may need constants of this one.
Value put_if(Put *w, const char *type)
{
    const Value cond = put_reshape(w, put_src(w, 0), NULL, 0);
    Onnx__NodeProto *n = put_begin(w, type, &cond, 1);
    put_branch(w, n, "then");
    put_branch(w, n, "else");
    const Value first = put_result(w, n);
    for (uint32_t i = 1; i < put_node(w)->n_results; i++)
        put_more(w, i, put_result(w, n));
    return first;
}

// --- loops ---------------------------------------------------------------------------------------

// The body of ONNX has one carried value more: how many iterations there were.
static void put_body(Put *w, Onnx__NodeProto *n, uint32_t carried)
{
    const Graph *g = put_get_list(w, "body")->u.graph;
    static const Shape scalar;
    Put sub;
    put_begin_graph(&sub, w->file, g, w);
    for (uint32_t i = 0; i < g->inputs.len; i++) {
        const Node *input = graph_node(g, g->inputs.data[i]);
        if (i >= 2 + carried) {
            sub.value[g->inputs.data[i]] = put_src(w, i);
            continue;
        }
        const Value name = put_new_name(w->file, node_get_str(input, A_input_name));
        sub.value[g->inputs.data[i]] = name;
        put_declare(&sub, name, (DType)input->dtype, input->shape, false);
    }
    put_declare(&sub, put_new_name(w->file, "trips"), DTYPE_i64, &scalar, false);
    put_nodes(&sub);
    put_inner_outputs(&sub, 0, 1 + carried);
    const Value one = put_number(&sub, DTYPE_i64, 1);
    put_declare(&sub, put_op2(&sub, "Add", sub.value[g->inputs.data[0]], one), DTYPE_i64, &scalar, true);
    put_inner_outputs(&sub, 1 + carried, g->outputs.len);
    put_end_graph(&sub);
    w->failed = w->failed || sub.failed;
    put_graph(w, n, "body", &sub);
}

// A loop that always makes as many iterations as it can.
static bool has_all_rows(const Put *w)
{
    const Graph *body = put_get_list(w, "body")->u.graph;
    const AttrVal *most = put_get_list(w, "max_trips");
    const NodeId go = body->outputs.data[0].node;
    double trips = 0, first = 0, next = 0;
    return node_is_scalar_const(w->g, put_node(w)->src[0], &trips) && dim_is_const(most->u.ints[0]) &&
           trips >= (double)most->u.ints[0] && node_is_scalar_const(w->g, put_node(w)->src[1], &first) &&
           first != 0 && (go == body->inputs.data[1] || (node_is_scalar_const(body, go, &next) && next != 0));
}

Value put_loop(Put *w, const char *type)
{
    const uint32_t carried = (uint32_t)put_get(w, "carried"), n_results = put_node(w)->n_results;
    Value in[NODE_MAX_RESULTS + 3], out[NODE_MAX_RESULTS] = {NULL};
    rlx_assert(carried < n_results);
    Value trips = put_reshape(w, put_src(w, 0), NULL, 0);
    const AttrVal *most = put_get_list(w, "max_trips");
    if (most->len != 0)
        trips = put_op2(w, "Min", trips, put_reshape(w, put_dims(w, most->u.ints, 1), NULL, 0));
    in[0] = trips;
    in[1] = put_reshape(w, put_src(w, 1), NULL, 0);
    for (uint32_t i = 0; i < carried; i++)
        in[2 + i] = put_src(w, 2 + i);
    in[2 + carried] = put_number(w, DTYPE_i64, 0);
    Onnx__NodeProto *n = put_begin(w, type, in, 3 + carried);
    put_body(w, n, carried);
    for (uint32_t i = 0; i < n_results; i++)
        out[i] = put_result(w, n);
    const Value count = out[carried];
    for (uint32_t i = carried; i + 1 < n_results; i++)
        out[i] = has_all_rows(w) ? out[i + 1] : filled_up(w, out[i + 1], &put_node(w)->results[i], 0);
    out[n_results - 1] = count;
    for (uint32_t i = 1; i < n_results; i++)
        put_more(w, i, out[i]);
    return out[0];
}

// --- sizes that values decide --------------------------------------------------------------------

// How many of the rows there are, of which no more than the size count.
static Value rows_of(Put *w, Value x, Dim size)
{
    Onnx__NodeProto *n = put_begin(w, "Shape", &x, 1);
    put_int(w, n, "end", 1);
    const Value rows = put_reshape(w, put_result(w, n), NULL, 0);
    return dim_is_const(size) ? put_op2(w, "Min", rows, put_number(w, DTYPE_i64, (double)size)) : rows;
}

Value put_nonzero(Put *w, const char *type)
{
    const TensorType t = {DTYPE_i64, *put_node(w)->shape};
    return filled_up(w, put_op1(w, type, put_src(w, 0)), &t, 1);
}

Value put_unique(Put *w, const char *type)
{
    const Value x = put_src(w, 0);
    if (put_has(w, 1))
        put_fail(w, "rows of which a run decides the number have no form in ONNX");
    Onnx__NodeProto *n = put_begin(w, type, &x, 1);
    put_int(w, n, "axis", 0);
    put_copy_int(w, n, "sorted", "sorted");
    put_result(w, n);
    const Value first = put_result(w, n), number = put_result(w, n), times = put_result(w, n);
    const TensorType *types = put_node(w)->results;
    put_more(w, 1, number);
    put_more(w, 2, filled_up(w, times, &types[2], 0));
    put_more(w, 3, rows_of(w, first, types[0].shape.dim[0]));
    return filled_up(w, first, &types[0], 0);
}

Value put_nms(Put *w, const char *type)
{
    const Value most = put_reshape(w, put_src(w, 2), NULL, 0), iou = put_reshape(w, put_src(w, 3), NULL, 0);
    const Value score = put_has(w, 4) ? put_reshape(w, put_src(w, 4), NULL, 0) : "";
    const Value in[] = {put_src(w, 0), put_src(w, 1), most, iou, score};
    Onnx__NodeProto *n = put_begin(w, type, in, 5);
    put_copy_int(w, n, "center_point_box", "center_point_box");
    const Value chosen = put_result(w, n);
    put_more(w, 1, rows_of(w, chosen, put_node(w)->results[0].shape.dim[0]));
    return filled_up(w, chosen, &put_node(w)->results[0], 0);
}

// --- custom ops ----------------------------------------------------------------------------------

// A node of a domain of its own: only who has the declaration (--custom) knows what it computes.
Value put_custom(Put *w, const char *type)
{
    CustomNames names = {0};
    (void)type;
    Onnx__NodeProto *n = put_begin(w, put_get_text(w, "function"), put_all_src(w), put_node(w)->n_src);
    n->domain = arena_strdup(&w->file->scratch, PUT_CUSTOM_DOMAIN);
    w->file->has_custom = true;
    const char *wrong = custom_read_constants(&w->file->scratch, put_get_text(w, "constants"), &names);
    rlx_assert(wrong == NULL); // the shape rule has read them
    for (uint32_t i = 0; i < names.n; i++) {
        if (names.at[i].is_float)
            put_float(w, n, names.at[i].name, names.at[i].number);
        else
            put_int(w, n, names.at[i].name, names.at[i].size);
    }
    const Value first = put_result(w, n);
    for (uint32_t i = 1; i < put_node(w)->n_results; i++)
        put_more(w, i, put_result(w, n));
    return first;
}
