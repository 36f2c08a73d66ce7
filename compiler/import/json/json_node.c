// SPDX-License-Identifier: Apache-2.0
// Nodes in JSON: operands, attributes by their declared types, and names for the results.
#include "compiler/import/import.h"
#include "compiler/import/json/json_custom.h"

#include <string.h>

typedef enum Member { M_op, M_inputs, M_name, M_outputs, M_COUNT } Member;

typedef struct NodeReader {
    JsonScope *s;
    const JsonPlace *p; // the node
    JsonMember m[M_COUNT + BUILD_MAX_ATTRS];
    OpId op;
    const CustomDecl *custom; // of a declared op; else NULL
    AttrId first; // of the op
    uint32_t n_attr;
    Span span;
    NodeId *src;
    uint32_t n_src;
} NodeReader;

// --- the op and the members --------------------------------------------------

static bool unknown_op(JsonReader *r, const JsonPlace *p, const char *name)
{
    const char *names[OP_COUNT];
    uint32_t n = 0;
    for (uint32_t i = 0; i < OP_COUNT; i++)
        if (op_info[i].kind != OPKIND_LEAF)
            names[n++] = op_info[i].name;
    return json_error(r, p, E0201, "there is no op '%s'%s", name, json_hint(r, name, names, n));
}

static bool read_op(NodeReader *nr)
{
    JsonReader *r = nr->s->r;
    JsonPlace child = {0};
    const char *name = NULL;
    if (!cJSON_IsObject(nr->p->item))
        return json_wrong(r, nr->p, "an object that describes a node");
    while (json_next(nr->p, &child) && strcmp(child.item->string, "op") != 0)
        continue;
    if (!child.item)
        return json_error(r, nr->p, E0102, "a node needs the member 'op'");
    if (!json_string(r, &child, "the name of an op", &name))
        return false;
    nr->custom = custom_decl_find(r->custom, name);
    if (nr->custom != NULL) {
        nr->op = OP_custom;
        return true;
    }
    return (op_parse(name, &nr->op) && op_info[nr->op].kind != OPKIND_LEAF) || unknown_op(r, &child, name);
}

static const char *op_name(const NodeReader *nr)
{
    return nr->custom != NULL ? nr->custom->name : op_info[nr->op].name;
}

static bool read_members(NodeReader *nr)
{
    static const char *const names[M_COUNT] = {"op", "inputs", "name", "outputs"};
    JsonReader *r = nr->s->r;
    attr_range(nr->op, &nr->first, &nr->n_attr);
    rlx_assert(nr->n_attr <= BUILD_MAX_ATTRS);
    for (uint32_t i = 0; i < M_COUNT; i++)
        nr->m[i] = (JsonMember){.name = names[i], .is_required = i <= M_inputs};
    if (nr->custom != NULL)
        nr->n_attr = nr->custom->attrs.len;
    rlx_assert(nr->n_attr <= BUILD_MAX_ATTRS);
    for (uint32_t i = 0; i < nr->n_attr; i++)
        nr->m[M_COUNT + i] = nr->custom == NULL
                                 ? (JsonMember){.name = attr_info[nr->first + i].name}
                                 : (JsonMember){.name = nr->custom->attrs.data[i].name,
                                                .is_required = nr->custom->attrs.data[i].is_required};
    const char *owner = op_name(nr);
    if (!json_members(r, nr->p, owner, E0203, nr->m, M_COUNT + nr->n_attr))
        return false;
    bool has_name = nr->m[M_name].place.item, has_outputs = nr->m[M_outputs].place.item;
    if (has_name && has_outputs)
        return json_error(r, &nr->m[M_outputs].place, E0102, "a node has 'name' or 'outputs', not both");
    return has_name || has_outputs ||
           json_error(r, nr->p, E0102, "a node needs the member 'name' or 'outputs'");
}

// --- operands --------------------------------------------------

bool json_is_index(OpId op, uint32_t at)
{
    return op == OP_gather && at == 1;
}

// The element type of the numbers among the operands, from the first operand that has a type; operand 0 of
// `where` is a condition. False: there is none.
static bool find_number_type(const NodeReader *nr, uint32_t at, DType *out)
{
    if (json_is_index(nr->op, at)) {
        *out = DTYPE_i64;
        return true;
    }
    for (uint32_t i = op_info[nr->op].ew == EW_SEL; i < nr->n_src; i++) {
        if (nr->src[i]) {
            *out = (DType)graph_node(nr->s->g, nr->src[i])->dtype;
            return true;
        }
    }
    return false;
}

static bool make_scalar(NodeReader *nr, const JsonPlace *p, DType dtype, NodeId *out)
{
    JsonScope *s = nr->s;
    Tensor t = tensor_new(s->r->arena, dtype, 0, NULL);
    if (!cJSON_IsBool(p->item) && dtype == DTYPE_bool)
        return json_error(s->r, p, E0205, "the other operands are bool: write true or false");
    if (!json_element(s->r, p, &t, 0))
        return false;
    Shape scalar = {0};
    *out = graph_const(s->g, dtype, &scalar, t.data, dtype_info[dtype].bytes, nr->span);
    return *out != 0;
}

static bool read_number(NodeReader *nr, const JsonPlace *p)
{
    rlx_assert(p->index < nr->n_src);
    DType dtype = DTYPE_bool;
    if (!cJSON_IsBool(p->item) && !find_number_type(nr, p->index, &dtype))
        return json_error(nr->s->r, p, E0205,
                          "a number takes its element type from an operand that is a name, and "
                          "this node has no such operand; write it as a weight");
    return make_scalar(nr, p, dtype, &nr->src[p->index]);
}

// Names first, since they give the numbers their type. *is_broken: an operand was reported already.
static bool read_names(NodeReader *nr, const JsonPlace *inputs, bool *is_broken)
{
    bool ok = true;
    JsonPlace child = {0};
    while (json_next(inputs, &child)) {
        if (cJSON_IsNumber(child.item) || cJSON_IsBool(child.item) || cJSON_IsNull(child.item))
            continue;
        if (!cJSON_IsString(child.item))
            ok = json_wrong(nr->s->r, &child, "the name of a value, a number, true, false or null");
        else if (!json_value(nr->s, &child, nr->p->item->next, &nr->src[child.index]))
            ok = false;
        else
            *is_broken |= nr->src[child.index] == 0;
    }
    return ok;
}

static bool read_operands(NodeReader *nr)
{
    const JsonPlace *inputs = &nr->m[M_inputs].place;
    JsonReader *r = nr->s->r;
    bool is_broken = false, ok = true;
    JsonPlace child = {0};
    if (!json_list(r, inputs, "a list of operands", &nr->n_src))
        return false;
    uint32_t max = nr->custom != NULL ? nr->custom->n_operands : op_info[nr->op].max_src;
    if (nr->n_src > max)
        return json_error(r, inputs, E0202, "%s takes at most %u input%s, not %u", op_name(nr), max,
                          max == 1 ? "" : "s", nr->n_src);
    nr->src = ARENA_ARRAY(r->arena, NodeId, nr->n_src);
    if (!read_names(nr, inputs, &is_broken) || is_broken)
        return false;
    while (ok && json_next(inputs, &child))
        if (cJSON_IsNumber(child.item) || cJSON_IsBool(child.item))
            ok = read_number(nr, &child);
    return ok;
}

// --- attributes --------------------------------------------------

static bool set_int(NodeReader *nr, const JsonPlace *p, NodeBuild *b, AttrId id)
{
    int64_t v = 0;
    if (!json_int(nr->s->r, p, "a whole number", &v))
        return false;
    node_int(b, id, v);
    return true;
}

static bool set_float(NodeReader *nr, const JsonPlace *p, NodeBuild *b, AttrId id)
{
    double v = 0;
    if (!json_float(nr->s->r, p, &v))
        return false;
    node_float(b, id, v);
    return true;
}

static bool set_bool(NodeReader *nr, const JsonPlace *p, NodeBuild *b, AttrId id)
{
    bool v = false;
    if (!json_bool(nr->s->r, p, &v))
        return false;
    node_int(b, id, v);
    return true;
}

static bool set_str(NodeReader *nr, const JsonPlace *p, NodeBuild *b, AttrId id)
{
    const char *v = NULL;
    if (!json_string(nr->s->r, p, "a string", &v))
        return false;
    node_str(b, id, v);
    return true;
}

static bool set_ints(NodeReader *nr, const JsonPlace *p, NodeBuild *b, AttrId id)
{
    int64_t *v = NULL;
    uint32_t n = 0;
    if (!json_ints(nr->s->r, p, &v, &n))
        return false;
    node_ints(b, id, v, n);
    return true;
}

static bool set_dims(NodeReader *nr, const JsonPlace *p, NodeBuild *b, AttrId id)
{
    Dim *v = NULL;
    uint32_t n = 0;
    if (!json_dims(nr->s->r, p, &v, &n))
        return false;
    node_ints(b, id, v, n);
    return true;
}

static bool set_dtype(NodeReader *nr, const JsonPlace *p, NodeBuild *b, AttrId id)
{
    DType v = DTYPE_f32;
    if (!json_dtype(nr->s->r, p, &v))
        return false;
    node_int(b, id, v);
    return true;
}

static bool set_blob(NodeReader *nr, const JsonPlace *p, NodeBuild *b, AttrId id)
{
    (void)b;
    return json_error(nr->s->r, p, E0203, "the attribute '%s' cannot be written in JSON", attr_info[id].name);
}

static bool set_graph(NodeReader *nr, const JsonPlace *p, NodeBuild *b, AttrId id)
{
    Graph *sub = NULL;
    if (!json_subgraph(nr->s, p, &sub))
        return false;
    node_graph(b, id, sub);
    return true;
}

// Reads the constants of a declared op.
static bool read_constants(NodeReader *nr, NodeBuild *b)
{
    JsonReader *r = nr->s->r;
    CustomAttr values[BUILD_MAX_ATTRS];
    for (uint32_t i = 0; i < nr->n_attr; i++) {
        const JsonPlace *p = &nr->m[M_COUNT + i].place;
        values[i] = nr->custom->attrs.data[i];
        if (p->item && !(values[i].is_float ? json_float(r, p, &values[i].number)
                                            : json_int(r, p, "a whole number", &values[i].whole)))
            return false;
    }
    custom_decl_set(r->arena, nr->custom, values, b);
    return true;
}

static bool read_attrs(NodeReader *nr, NodeBuild *b)
{
    static bool (*const set[])(NodeReader *, const JsonPlace *, NodeBuild *, AttrId) = {
        [ATTR_INT] = set_int,     [ATTR_FLOAT] = set_float, [ATTR_BOOL] = set_bool,
        [ATTR_STR] = set_str,     [ATTR_INTS] = set_ints,   [ATTR_DIMS] = set_dims,
        [ATTR_DTYPE] = set_dtype, [ATTR_BLOB] = set_blob,   [ATTR_GRAPH] = set_graph,
    };
    bool ok = true;
    if (nr->custom != NULL)
        return read_constants(nr, b);
    for (uint32_t i = 0; i < nr->n_attr; i++) {
        const JsonPlace *place = &nr->m[M_COUNT + i].place;
        AttrId id = (AttrId)(nr->first + i);
        rlx_assert((size_t)attr_info[id].type < sizeof set / sizeof *set);
        if (place->item)
            ok &= set[attr_info[id].type](nr, place, b, id);
    }
    return ok;
}

// --- results --------------------------------------------------

static NodeId make_result(const NodeReader *nr, NodeId id, uint32_t index, const char *name)
{
    if (id == 0 || index == 0)
        return id;
    rlx_assert(index < graph_node(nr->s->g, id)->n_results);
    NodeBuild b = node_begin(nr->s->g, OP_result, nr->span, name);
    node_src(&b, id);
    node_int(&b, A_result_index, index);
    return node_end(&b);
}

// Defines the names also when the node failed (id 0), so that its users do not complain too.
static void name_results(NodeReader *nr, NodeId id)
{
    JsonReader *r = nr->s->r;
    const JsonPlace *outputs = &nr->m[M_outputs].place;
    JsonPlace child = {0};
    const char *name = NULL;
    uint32_t n_results = id ? graph_node(nr->s->g, id)->n_results : NODE_MAX_RESULTS;
    if (nr->m[M_name].place.item) {
        if (json_string(r, &nr->m[M_name].place, "a name", &name))
            json_define(nr->s, nr->p, name, id);
        return;
    }
    while (json_next(outputs, &child) && !json_is_hopeless(r)) {
        if (child.index == n_results) {
            json_error(r, &child, E0102, "%s has only %u result%s here", op_name(nr), n_results,
                       n_results == 1 ? "" : "s");
            return;
        }
        if (cJSON_IsNull(child.item) || !json_string(r, &child, "a name or null", &name))
            continue;
        json_define(nr->s, &child, name, make_result(nr, id, child.index, arena_strdup(r->arena, name)));
    }
}

static void define_wrong(JsonScope *s, const JsonPlace *p, const cJSON *name)
{
    if (cJSON_IsString(name) && !map_get_str(&s->names, name->valuestring, NULL))
        json_define(s, p, name->valuestring, 0);
}

// A node without members that could be read: its names are wrong values, not unknown ones.
static void name_wrong_node(JsonScope *s, const JsonPlace *p)
{
    JsonPlace member = {0}, out = {0};
    while (cJSON_IsObject(p->item) && json_next(p, &member)) {
        if (strcmp(member.item->string, "name") == 0)
            define_wrong(s, p, member.item);
        if (strcmp(member.item->string, "outputs") != 0 || !cJSON_IsArray(member.item))
            continue;
        while (json_next(&member, &out))
            define_wrong(s, &out, out.item);
    }
}

// The name by which messages call the node.
static const char *find_label(const NodeReader *nr)
{
    const cJSON *item = nr->m[M_name].place.item;
    if (!item && nr->m[M_outputs].place.item)
        item = nr->m[M_outputs].place.item->child;
    while (item && !cJSON_IsString(item))
        item = item->next;
    return item ? arena_strdup(nr->s->r->arena, item->valuestring) : NULL;
}

static void read_node(JsonScope *s, const JsonPlace *p)
{
    NodeReader nr = {.s = s, .p = p};
    uint32_t n = 0;
    if (!read_op(&nr) || !read_members(&nr)) {
        name_wrong_node(s, p);
        return;
    }
    nr.span = json_span(s->r, p);
    if (nr.m[M_outputs].place.item && !json_list(s->r, &nr.m[M_outputs].place, "a list of names", &n))
        return;
    NodeId id = 0;
    if (read_operands(&nr)) {
        NodeBuild b = node_begin(s->g, nr.op, nr.span, find_label(&nr));
        for (uint32_t i = 0; i < nr.n_src; i++)
            node_src(&b, nr.src[i]);
        if (read_attrs(&nr, &b))
            id = node_end(&b);
    }
    name_results(&nr, id);
}

void json_nodes(JsonScope *s, const JsonPlace *section)
{
    JsonPlace child = {0};
    if (!section->item)
        return;
    if (!cJSON_IsArray(section->item)) {
        json_wrong(s->r, section, "a list of nodes");
        return;
    }
    const JsonRange *ranges = json_ranges(s->r, section);
    while (json_next(section, &child) && !json_is_hopeless(s->r)) {
        rlx_assert(ranges != NULL);
        child.range = ranges[child.index];
        read_node(s, &child);
    }
}
