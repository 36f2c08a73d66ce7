// SPDX-License-Identifier: Apache-2.0
// Operators that choose elements by their values, and whose results are as large as the values say: TopK,
// NonZero, Compress, Unique, NonMaxSuppression. Such a size is a symbol with the value of a node.
#include "compiler/import/onnx/onnx_import.h"

#include <ctype.h>
#include <string.h>

// --- sizes that the model computes ---

static const char *declared_in(const Onnx__ValueInfoProto *const *list, size_t n, const char *name,
                               uint32_t axis)
{
    for (size_t i = 0; i < n; i++) {
        const Onnx__TypeProto *t = list[i]->type;
        if (strcmp(onnx_text(list[i]->name), name) != 0 || !t ||
            t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !t->tensor_type->shape ||
            axis >= t->tensor_type->shape->n_dim)
            continue;
        const Onnx__TensorShapeProto__Dimension *d = t->tensor_type->shape->dim[axis];
        if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM)
            return onnx_text(d->dim_param);
    }
    return "";
}

// The name that the model gives to the size of a result, or one made of the operator and a number.
static const char *size_name(const OnnxNode *n, uint32_t out, uint32_t axis, uint32_t number)
{
    const Onnx__GraphProto *g = n->model->proto->graph;
    const char *result = out < n->n_out ? onnx_text(n->proto->output[out]) : "";
    const char *name = "";
    if (g && result[0])
        name = declared_in((const Onnx__ValueInfoProto *const *)g->output, g->n_output, result, axis);
    if (g && result[0] && !name[0])
        name = declared_in((const Onnx__ValueInfoProto *const *)g->value_info, g->n_value_info, result, axis);
    bool is_plain = name[0] != '\0' && strlen(name) < 100 && !isdigit((unsigned char)name[0]);
    for (const char *c = name; *c; c++)
        is_plain = is_plain && (isalnum((unsigned char)*c) || *c == '_');
    if (is_plain)
        return name;
    char *made = arena_printf(n->model->arena, "%s_%u", n->op, number);
    for (char *c = made; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return made;
}

// A run that needs more than the caller allows ends with an error. Returns the size to compute with: what is
// computed before the check is tested stays in its memory too.
static NodeId check_bound(OnnxNode *n, NodeId value, int64_t bound, const char *name)
{
    const NodeId most = onnx_scalar(n, DTYPE_i64, (double)bound), fits = onnx_op2(n, OP_le, value, most);
    if (!n->failed)
        n->failed = !graph_check(n->graph, fits,
                                 arena_printf(n->model->arena,
                                              GRAPH_RANGE "node '%s': %s: the size '%s' is over %lld",
                                              n->label, n->op, name, (long long)bound));
    return onnx_op2(n, OP_min, value, most);
}

// PyTorch's names of sizes that its exporter cannot tell: results with one name have one size, however it is
// computed. A check makes sure that they do. 0: there is none.
static Dim find_shared(OnnxNode *n, const char *name, NodeId value)
{
    bool is_unbacked = name[0] == 'u' && name[1] != '\0';
    for (const char *c = name + 1; is_unbacked && *c; c++)
        is_unbacked = isdigit((unsigned char)*c);
    for (uint32_t i = 0; is_unbacked && i < n->graph->extents.len; i++) {
        const GraphExtent e = n->graph->extents.data[i];
        if (!str_equal(n->graph->dims->symbols.data[dim_as_symbol(n->graph->dims, e.dim)].name, name))
            continue;
        if (e.value != value)
            onnx_require(n, onnx_op2(n, OP_eq, onnx_reshape(n, e.value, &(Shape){0}), value),
                         arena_printf(n->model->arena, "node '%s': %s: another size than '%s'", n->label,
                                      n->op, name));
        return e.dim;
    }
    return 0;
}

Dim onnx_extent(OnnxNode *n, uint32_t out, uint32_t axis, NodeId value, Dim max)
{
    double known = 0;
    if (n->failed)
        return 0;
    if (node_is_scalar_const(n->graph, value, &known))
        return known < 0 ? 0 : known < (double)DIM_MAX_ENTRY ? (Dim)known : DIM_MAX_ENTRY;
    const char *name = size_name(n, out, axis, n->graph->extents.len);
    const int64_t given = onnx_given_bound(n->model, name);
    int64_t low = 0, high = INT64_MAX;
    if (max != ONNX_NO_BOUND)
        dim_range(n->graph->dims, max, &low, &high);
    if (given >= 0 && given < high) {
        value = check_bound(n, value, given, name);
        max = given;
    } else if (max == ONNX_NO_BOUND) {
        onnx_fail(n, E0207,
                  "its size depends on what the model computes; say how large it can be with --dim %s=VALUE",
                  name);
        return 0;
    }
    const Dim shared = n->failed ? 0 : find_shared(n, name, onnx_reshape(n, value, &(Shape){0}));
    if (n->failed || shared != 0)
        return shared;
    const Dim d = graph_extent(n->graph, name, value, max);
    const ImportSize *size = onnx_find_size(n->model, name);
    n->failed = !graph_check_least(n->graph, value, name, size && size->is_range ? size->min : 0);
    if (given >= 0) // known by this name too, where another size is the same
        dim_symbol(n->graph->dims, name, 0, given, 1);
    return d;
}

int64_t onnx_least(const OnnxNode *n, Dim d)
{
    int64_t low = 0, high = 0;
    const int32_t symbol = dim_as_symbol(n->graph->dims, d);
    dim_range(n->graph->dims, d, &low, &high);
    if (symbol < 0 || !graph_find_extent(n->graph, (uint32_t)symbol))
        return low;
    const ImportSize *size = onnx_find_size(n->model, n->graph->dims->symbols.data[symbol].name);
    return size && size->is_range && size->min > low ? size->min : low;
}

// The name of a computed size that `d` has in it.
static const char *computed_in(const OnnxNode *n, Dim d)
{
    const Graph *g = n->graph;
    for (uint32_t i = 0; i < g->extents.len; i++)
        if (graph_dim_uses(g, d, &g->extents.data[i]))
            return g->dims->symbols.data[dim_as_symbol(g->dims, g->extents.data[i].dim)].name;
    return NULL;
}

bool onnx_sizes_fit(OnnxNode *n, NodeId x, const OnnxDims *shape)
{
    const Shape from = *onnx_shape(n, x);
    for (uint32_t i = 0; !n->failed && shape_is_const(&from) && i < shape->n && i < from.rank; i++) {
        int64_t low = 0, high = 0;
        dim_range(n->graph->dims, shape->dim[i], &low, &high);
        const char *name = low < high && high == from.dim[i] ? computed_in(n, shape->dim[i]) : NULL;
        if (name)
            onnx_fail(n, E0207,
                      "entry %u of the shape is computed, but only %lld fits; if '%s' is never less, say so "
                      "with --dim %s=%lld..VALUE",
                      i, (long long)high, name, name, (long long)high);
    }
    return !n->failed;
}

NodeId onnx_list_entry(OnnxNode *n, NodeId list, uint32_t k)
{
    const Node *node = graph_node(n->graph, list);
    NodeId part = list;
    int64_t at = k;
    for (uint32_t i = 0; part == list && node->op == OP_concat && i < node->n_src; i++) {
        const Dim size = onnx_shape(n, node->src[i])->dim[0];
        if (!dim_is_const(size))
            break;
        if (at < size)
            part = node->src[i];
        else
            at -= size;
    }
    at = part == list ? k : at;
    const Shape *s = onnx_shape(n, part);
    const NodeId one = s->rank == 0 || s->dim[0] == 1 ? part : onnx_slice(n, part, 0, at, at + 1, 1);
    return onnx_cast(n, onnx_reshape(n, one, &(Shape){0}), DTYPE_i64);
}

// The size whose value a node has, of those that the model computes. False: it is none of them.
static bool find_size(const OnnxNode *n, NodeId id, Dim *out)
{
    for (; id; id = graph_node(n->graph, id)->src[0]) {
        const Node *node = graph_node(n->graph, id);
        for (uint32_t i = 0; i < n->model->size_nodes.len; i++) {
            const OnnxSizeNode *s = &n->model->size_nodes.data[i];
            *out = s->dim;
            if (s->graph == n->graph && s->node == id)
                return true;
        }
        const bool is_same = node->op == OP_reshape || (node->op == OP_concat && node->n_src == 1);
        if (!is_same)
            return false;
    }
    return false;
}

// The options that say how large the computed entries can be, as far as the caller has not given them.
static const char *missing_bounds(OnnxNode *n, NodeId list, uint32_t count)
{
    const uint32_t before = n->graph->extents.len;
    Str missing = str_new(n->model->arena);
    for (uint32_t k = 0, at = before; k < count && !n->failed; k++) {
        const NodeId entry = onnx_list_entry(n, list, k);
        Dim known = 0;
        if (node_is_const(n->graph, entry) || find_size(n, entry, &known))
            continue;
        const char *name = size_name(n, 0, k, at++);
        if (onnx_given_bound(n->model, name) < 0)
            str_printf(&missing, " --dim %s=VALUE", name);
    }
    return str_text(&missing);
}

bool onnx_src_sizes(OnnxNode *n, uint32_t i, OnnxDims *out)
{
    OnnxDims known;
    const NodeId list = onnx_peek_dims(n, i, &known) ? 0 : onnx_opt(n, i);
    const Shape s = *onnx_shape(n, list);
    const Dim count = s.rank == 0 ? 1 : s.dim[0];
    if (!list || s.rank > 1 || !dim_is_const(count) || count < 1 || count > SHAPE_MAX_RANK ||
        dtype_info[onnx_dtype(n, list)].cls == DCLASS_FLOAT || node_is_const(n->graph, list))
        return onnx_src_dims(n, i, out);
    const char *missing = missing_bounds(n, list, (uint32_t)count);
    if (missing[0] != '\0') {
        if (onnx_src_dims(n, i, out))
            return true;
        diag_note(n->model->diag, n->span, "or say how large the sizes can be:%s", missing);
        return false;
    }
    *out = (OnnxDims){.dtype = DTYPE_i64, .rank = 1, .n = (uint32_t)count};
    for (uint32_t k = 0; k < out->n; k++) {
        const NodeId entry = onnx_list_entry(n, list, k);
        if (find_size(n, entry, &out->dim[k]))
            continue;
        const bool is_open = !node_is_const(n->graph, entry);
        const NodeId value = is_open ? onnx_op2(n, OP_max, entry, onnx_scalar(n, DTYPE_i64, 0)) : entry;
        out->dim[k] = onnx_extent(n, 0, k, value, ONNX_NO_BOUND);
    }
    return !n->failed;
}

bool onnx_has_bound(OnnxNode *n)
{
    return onnx_given_bound(n->model, size_name(n, 0, 0, n->graph->extents.len)) >= 0;
}

// The places of what is not 0 in a tensor of rank 1 and more, i64[rank, count].
static NodeId nonzero(OnnxNode *n, NodeId x, uint32_t out, uint32_t axis)
{
    const Shape s = *onnx_shape(n, x);
    int64_t axes[SHAPE_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    const bool is_bool = onnx_dtype(n, x) == DTYPE_bool;
    const NodeId is_set = is_bool ? x : onnx_op2(n, OP_ne, x, onnx_scalar(n, onnx_dtype(n, x), 0));
    const NodeId ones = onnx_cast(n, is_set, DTYPE_i64);
    const NodeId count = onnx_reshape(n, onnx_reduce(n, OP_reduce_sum, ones, axes, s.rank), &(Shape){0});
    const Dim size = onnx_extent(n, out, axis, count, dim_product(n->graph->dims, s.dim, s.rank));
    return onnx_op_ints(n, OP_nonzero, is_set, A_nonzero_size, &size, 1);
}

void onnx_import_nonzero(OnnxNode *n)
{
    NodeId x = onnx_src(n, 0);
    if (onnx_shape(n, x)->rank == 0)
        x = onnx_reshape(n, x, &(Shape){.rank = 1, .dim = {1}});
    onnx_out(n, 0, nonzero(n, x, 0, 1));
}

static const Dim flat[1] = {-1};

void onnx_import_compress(OnnxNode *n)
{
    NodeId x = onnx_src(n, 0), condition = onnx_src(n, 1);
    const bool has_axis = onnx_has_attr(n, "axis");
    const int64_t given = onnx_int(n, "axis", 0);
    uint32_t axis = 0;
    int64_t low = 0, high = 0;
    if (!has_axis)
        x = onnx_reshape_to(n, x, flat, 1);
    if (!onnx_axis(n, given, onnx_shape(n, x)->rank, &axis))
        return;
    const Dim size = onnx_shape(n, x)->dim[axis], length = onnx_shape(n, condition)->dim[0];
    if (onnx_shape(n, condition)->rank != 1 || onnx_dtype(n, condition) != DTYPE_bool)
        onnx_fail(n, E0204, "the condition must be a list of bool");
    dim_range(n->graph->dims, dim_sub(n->graph->dims, size, length), &low, &high);
    if (!n->failed && low < 0 && dim_is_const(size))
        condition = onnx_slice(n, condition, 0, 0, size, 1);
    const NodeId places = onnx_reshape_to(n, nonzero(n, condition, 0, axis), flat, 1);
    onnx_out(n, 0, onnx_gather(n, x, places, axis));
}

// --- TopK ---

static void require_k(OnnxNode *n, NodeId k, NodeId all, uint32_t axis)
{
    onnx_require(n, onnx_op2(n, OP_le, k, all),
                 arena_printf(n->model->arena, GRAPH_RANGE "node '%s': TopK: k is over the size of axis %u",
                              n->label, axis));
}

static Dim computed_k(OnnxNode *n, uint32_t axis, Dim size)
{
    const NodeId given = onnx_src(n, 1);
    if (!n->failed && (!shape_is_const(onnx_shape(n, given)) || shape_numel(onnx_shape(n, given)) != 1))
        return -1;
    const NodeId k = onnx_cast(n, onnx_reshape(n, given, &(Shape){0}), DTYPE_i64);
    const NodeId all = onnx_dim_value(n, size), none = onnx_scalar(n, DTYPE_i64, 0);
    require_k(n, k, all, axis);
    onnx_require(n, onnx_op2(n, OP_ge, k, none),
                 arena_printf(n->model->arena, GRAPH_RANGE "node '%s': TopK: k is negative", n->label));
    return onnx_extent(n, 0, axis, onnx_op2(n, OP_max, onnx_op2(n, OP_min, k, all), none), size);
}

// A k that is known, of an axis that may turn out to be shorter.
static void check_k(OnnxNode *n, uint32_t axis, Dim size, Dim k)
{
    int64_t least = 0, most = 0;
    dim_range(n->graph->dims, dim_sub(n->graph->dims, size, k), &least, &most);
    if (!dim_is_const(size) && least < 0)
        require_k(n, onnx_dim_value(n, k), onnx_dim_value(n, size), axis);
}

// How many: an attribute in opset 1, then an operand. One that the model computes is a size of its own, at
// most that of the axis.
static bool read_k(OnnxNode *n, uint32_t axis, Dim size, Dim *out)
{
    OnnxDims k;
    Tensor known;
    bool is_known = true;
    if (n->opset < 10) {
        *out = dim_from_entry(onnx_int(n, "k", -1));
    } else {
        onnx_promise_size(n, 1, axis);
        is_known = onnx_peek_dims(n, 1, &k) || onnx_assume(n, 1, &known);
        if (!is_known)
            *out = computed_k(n, axis, size);
        else if (!onnx_src_dims(n, 1, &k))
            return false;
        else
            *out = k.n == 1 ? k.dim[0] : -1;
    }
    if (!n->failed && dim_is_const(*out) && *out < 0)
        return onnx_fail(n, E0203, "needs one k that is not negative");
    if (!n->failed && is_known)
        check_k(n, axis, size, *out);
    return !n->failed;
}

void onnx_import_top_k(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const int64_t given = onnx_int(n, "axis", -1), largest = onnx_int(n, "largest", 1);
    uint32_t axis = 0;
    Dim k = 0;
    onnx_ignore_attr(n, "sorted"); // they are
    if (!onnx_axis(n, given, onnx_shape(n, x)->rank, &axis) ||
        !read_k(n, axis, onnx_shape(n, x)->dim[axis], &k))
        return;
    NodeBuild b = ONNX_BEGIN(n, OP_top_k, x);
    node_ints(&b, A_top_k_k, &k, 1);
    node_int(&b, A_top_k_axis, axis);
    node_int(&b, A_top_k_largest, largest != 0);
    const NodeId values = onnx_end(n, &b);
    onnx_out(n, 0, values);
    onnx_out(n, 1, onnx_result(n, values, 1));
}

// --- Unique ---

// Rows along the axis, [n, m].
static NodeId rows_of(OnnxNode *n, NodeId x, uint32_t axis)
{
    Shape s = *onnx_shape(n, x);
    int64_t perm[SHAPE_MAX_RANK] = {axis};
    for (uint32_t i = 0, at = 1; i < s.rank; i++)
        if (i != axis)
            perm[at++] = i;
    const Dim count = s.dim[axis];
    s.dim[axis] = 1;
    return onnx_reshape(n, onnx_transpose(n, x, perm),
                        &(Shape){.rank = 2, .dim = {count, dim_product(n->graph->dims, s.dim, s.rank)}});
}

// A size that a node computes for its own results: it has room for `max`, and may find fewer. What the caller
// allows (limit; -1: all) is a size of its own, of the first ones that were found.
typedef struct OwnSize {
    AttrId attr;
    uint32_t result; // which one is the size
    Dim max;
    const char *name;
    int64_t limit;
} OwnSize;

static OwnSize own_size(OnnxNode *n, AttrId attr, uint32_t result, uint32_t axis, Dim max)
{
    const char *name = size_name(n, 0, axis, n->graph->extents.len);
    const int64_t given = onnx_given_size(n->model, name);
    int64_t low = 0, high = 0;
    dim_range(n->graph->dims, max, &low, &high);
    return (OwnSize){attr, result, max, name, given < high ? given : -1};
}

// The node; its symbol comes first. An equal node serves again.
static NodeId find_all(OnnxNode *n, NodeBuild *b, const OwnSize *s)
{
    Graph *g = n->graph;
    for (uint32_t i = 0; i < g->extents.len && !n->failed; i++) {
        const GraphExtent *e = &g->extents.data[i];
        const Node *r = graph_node(g, e->value);
        NodeBuild again = *b;
        node_ints(&again, s->attr, &e->dim, 1);
        if (r->op != OP_result || graph_node(g, r->src[0])->op != b->op)
            continue;
        const NodeId id = onnx_end(n, &again);
        if (id == r->src[0])
            return id;
    }
    if (n->failed)
        return 0;
    const char *name = s->limit < 0 ? s->name : arena_printf(n->model->arena, "%s_found", s->name);
    const Dim d = graph_extent(g, name, 0, s->max);
    const uint32_t index = g->extents.len - 1;
    node_ints(b, s->attr, &d, 1);
    const NodeId id = onnx_end(n, b), value = onnx_result(n, id, s->result);
    if (value)
        g->extents.data[index].value = value;
    else
        g->extents.len = index;
    return id;
}

// As many rows of a result as the caller allows.
static NodeId take_allowed(OnnxNode *n, NodeId all, uint32_t result, const OwnSize *s)
{
    const NodeId rows = onnx_result(n, all, result);
    if (s->limit < 0 || n->failed)
        return rows;
    const NodeId count = check_bound(n, onnx_result(n, all, s->result), s->limit, s->name);
    if (n->failed)
        return 0;
    const Dim size = graph_extent(n->graph, s->name, count, s->limit);
    const NodeId id = graph_first(n->graph, rows, 0, size, n->span);
    n->failed = !id;
    return id;
}

void onnx_import_unique(OnnxNode *n)
{
    NodeId x = onnx_src(n, 0);
    const bool has_axis = onnx_has_attr(n, "axis");
    const int64_t given = onnx_int(n, "axis", 0), sorted = onnx_int(n, "sorted", 1);
    uint32_t axis = 0;
    if (!has_axis)
        x = onnx_reshape_to(n, x, flat, 1);
    if (!onnx_axis(n, given, onnx_shape(n, x)->rank, &axis))
        return;
    NodeBuild b = ONNX_BEGIN(n, OP_unique, rows_of(n, x, axis));
    node_int(&b, A_unique_sorted, sorted != 0);
    const OwnSize size = own_size(n, A_unique_size, 3, axis, onnx_shape(n, x)->dim[axis]);
    const NodeId all = find_all(n, &b, &size), first = take_allowed(n, all, 0, &size);
    onnx_out(n, 0, onnx_gather(n, x, first, axis));
    onnx_out(n, 1, first);
    if (onnx_wants(n, 2))
        onnx_out(n, 2, onnx_result(n, all, 1));
    if (onnx_wants(n, 3))
        onnx_out(n, 3, take_allowed(n, all, 2, &size));
}

// --- NonMaxSuppression ---

static NodeId one_number(OnnxNode *n, uint32_t i, DType t, double dflt)
{
    const NodeId given = onnx_opt(n, i);
    return given ? onnx_cast(n, onnx_reshape(n, given, &(Shape){0}), t) : onnx_scalar(n, t, dflt);
}

void onnx_import_nms(OnnxNode *n)
{
    const NodeId boxes = onnx_src(n, 0), scores = onnx_src(n, 1);
    const NodeId most = one_number(n, 2, DTYPE_i64, 0), iou = one_number(n, 3, DTYPE_f32, 0);
    const NodeId score = onnx_has(n, 4) ? one_number(n, 4, DTYPE_f32, 0) : 0;
    const int64_t center = onnx_int(n, "center_point_box", 0);
    const Shape s = *onnx_shape(n, scores);
    double known = 0;
    if (!n->failed && s.rank != 3)
        onnx_fail(n, E0204, "needs scores [batches, classes, boxes], found rank %u", s.rank);
    if (n->failed)
        return;
    DimTable *t = n->graph->dims;
    Dim each = s.dim[2];
    if (node_is_scalar_const(n->graph, most, &known))
        each = dim_min(t, each, known < 0 ? 0 : known < 1e9 ? (Dim)known : (Dim)1e9);
    NodeBuild b = ONNX_BEGIN(n, OP_nms, boxes, scores, most, iou);
    if (score)
        node_src(&b, score);
    node_int(&b, A_nms_center_point_box, center != 0);
    const OwnSize size = own_size(n, A_nms_size, 1, 0, dim_mul(t, dim_mul(t, s.dim[0], s.dim[1]), each));
    onnx_out(n, 0, take_allowed(n, find_all(n, &b, &size), 0, &size));
}

// --- Range ---

// How many numbers there are from start to limit: at least 0.
static NodeId range_count(OnnxNode *n, NodeId start, NodeId limit, NodeId step)
{
    const bool is_float = dtype_info[onnx_dtype(n, start)].cls == DCLASS_FLOAT;
    const DType t = is_float ? DTYPE_f64 : DTYPE_i64;
    NodeId span = onnx_op2(n, OP_sub, onnx_cast(n, limit, t), onnx_cast(n, start, t));
    const NodeId by = onnx_cast(n, step, t);
    if (is_float) {
        span = onnx_cast(n, onnx_op1(n, OP_ceil, onnx_op2(n, OP_div, span, by)), DTYPE_i64);
    } else { // rounded up: what is missing to a multiple of the step comes on top
        const NodeId missing = onnx_op2(n, OP_mod, onnx_op1(n, OP_neg, span), by);
        span = onnx_op2(n, OP_div, onnx_op2(n, OP_add, span, missing), by);
    }
    return onnx_op2(n, OP_max, span, onnx_scalar(n, DTYPE_i64, 0));
}

static void require_step(OnnxNode *n, NodeId step)
{
    double known = 0;
    if (node_is_scalar_const(n->graph, step, &known) && known != 0)
        return;
    const NodeId is_none = onnx_op2(n, OP_eq, step, onnx_scalar(n, onnx_dtype(n, step), 0));
    onnx_require(n, onnx_op1(n, OP_logical_not, is_none),
                 arena_printf(n->model->arena, GRAPH_RANGE "node '%s': Range: the step is 0", n->label));
}

Dim onnx_range_extent(OnnxNode *n, NodeId start, NodeId limit, NodeId step)
{
    const Shape scalar = {0};
    start = onnx_reshape(n, start, &scalar);
    limit = onnx_reshape(n, limit, &scalar);
    step = onnx_reshape(n, step, &scalar);
    require_step(n, step);
    const NodeId count = range_count(n, start, limit, step);
    if (!onnx_takes_one(n, start, limit))
        return onnx_extent(n, 0, 0, count, ONNX_NO_BOUND);
    onnx_require_one(n, count);
    return 1;
}
