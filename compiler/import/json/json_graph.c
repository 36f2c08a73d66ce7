// SPDX-License-Identifier: Apache-2.0
// A graph in JSON but for its nodes: the name space, leaves, states, outputs, checks and sub-graphs.
#include "compiler/import/json/json_reader.h"
#include "ir/graph/intern.h"

#include <string.h>

enum { MAX_CANDIDATES = 4096, MAX_GRAPH_DEPTH = 8 };

// --- names --------------------------------------------------

static bool defined_twice(const JsonScope *s, const JsonPlace *p, const char *name)
{
    rlx_assert(s->values.len != 0);
    uint32_t i = 0;
    if (json_is_hopeless(s->r))
        return json_error(s->r, p, E0104, "%s", "");
    while (!str_equal(s->values.data[i].name, name))
        i++;
    JsonRange first = s->values.data[i].range;
    json_error(s->r, p, E0104, "there is already a value '%s'", name);
    diag_note(s->r->diag, (Span){s->r->file, first.begin, first.end, NULL}, "the first one is here");
    return false;
}

void json_define(JsonScope *s, const JsonPlace *p, const char *name, NodeId id)
{
    if (!json_name(s->r, p, name))
        return;
    if (!map_put_str(s->r->arena, &s->names, name, s->values.len))
        defined_twice(s, p, name);
    const JsonPlace *known = p; // the entry or the node that gives the name
    while (known->up && !known->range.end)
        known = known->up;
    JsonValue v = {name, id, known->range};
    vec_push(s->r->arena, &s->values, v);
}

static bool is_name_of(const cJSON *item, const char *name)
{
    return cJSON_IsString(item) && strcmp(item->valuestring, name) == 0;
}

// True when one of the nodes makes a value of that name.
static bool is_made_by(const cJSON *node, const char *name)
{
    for (; node; node = node->next) {
        for (const cJSON *m = node->child; m && m->string; m = m->next) {
            if (strcmp(m->string, "name") == 0 && is_name_of(m, name))
                return true;
            if (strcmp(m->string, "outputs") != 0 || !cJSON_IsArray(m))
                continue;
            for (const cJSON *out = m->child; out; out = out->next)
                if (is_name_of(out, name))
                    return true;
        }
    }
    return false;
}

static bool unknown_value(const JsonScope *s, const JsonPlace *p, const char *name, const cJSON *later)
{
    uint32_t n = 0;
    if (json_is_hopeless(s->r))
        return json_error(s->r, p, E0103, "%s", "");
    if (is_made_by(later, name))
        return json_error(s->r, p, E0103,
                          "'%s' is not defined yet: a node must come after those that it uses", name);
    const char **names = ARENA_ARRAY(s->r->arena, const char *, MAX_CANDIDATES);
    for (uint32_t i = s->values.len; i > 0 && n < MAX_CANDIDATES; i--)
        names[n++] = s->values.data[i - 1].name;
    return json_error(s->r, p, E0103, "there is no value '%s'%s", name, json_hint(s->r, name, names, n));
}

bool json_value(JsonScope *s, const JsonPlace *p, const cJSON *later, NodeId *out)
{
    const char *name = NULL;
    uint64_t index = 0;
    *out = 0;
    if (!json_string(s->r, p, "the name of a value", &name))
        return false;
    if (!map_get_str(&s->names, name, &index))
        return unknown_value(s, p, name, later);
    rlx_assert(index < s->values.len);
    *out = s->values.data[index].id;
    return true;
}

// --- leaves --------------------------------------------------

static NodeId make_leaf(JsonScope *s, const JsonPlace *p, JsonRole role, const JsonTensor *t)
{
    rlx_assert(role != JSON_WEIGHT || t->has_values);
    const char *name = p->item->string;
    Span span = json_span(s->r, p);
    NodeId id = 0;
    switch (role) {
    case JSON_INPUT:
        return graph_input(s->g, name, t->dtype, &t->shape, span);
    case JSON_PARAM:
        return graph_param(s->g, name, t->dtype, &t->shape, t->data, t->bytes, span);
    case JSON_STATE:
        return graph_state(s->g, name, t->dtype, &t->shape, t->data, t->bytes, span);
    case JSON_WEIGHT:
        id = graph_const(s->g, t->dtype, &t->shape, t->data, t->bytes, span);
        if (id)
            intern_origin(s->g, id, span, arena_strdup(s->r->arena, name));
        return id;
    }
    return 0;
}

void json_leaves(JsonScope *s, const JsonPlace *section, JsonRole role)
{
    JsonPlace child = {0};
    if (!section->item)
        return;
    if (!cJSON_IsObject(section->item)) {
        json_wrong(s->r, section, "an object: name to description");
        return;
    }
    const JsonRange *ranges = json_ranges(s->r, section);
    while (json_next(section, &child) && !json_is_hopeless(s->r)) {
        JsonTensor t;
        JsonPlace next = {0};
        rlx_assert(ranges != NULL);
        child.range = ranges[child.index];
        // A name that stands twice is reported by json_define alone, not by the graph too.
        bool is_new = !map_get_str(&s->names, child.item->string, NULL);
        bool ok = json_tensor(s->r, &child, role, &t, &next) && is_new;
        NodeId id = ok ? make_leaf(s, &child, role, &t) : 0;
        json_define(s, &child, child.item->string, id);
        if (role == JSON_STATE && id) {
            JsonPending pending = {id, child, next};
            vec_push(s->r->arena, &s->pending, pending);
        }
    }
}

static const char *type_text(const JsonScope *s, NodeId id)
{
    const Node *n = graph_node(s->g, id);
    Str text = str_new(s->r->arena);
    shape_print(s->g->dims, (DType)n->dtype, n->shape, &text);
    return str_text(&text);
}

void json_next_values(JsonScope *s)
{
    for (uint32_t i = 0; i < s->pending.len && !json_is_hopeless(s->r); i++) {
        JsonPending *p = &s->pending.data[i];
        rlx_assert(graph_node(s->g, p->state)->op == OP_state);
        NodeId next = 0;
        p->next.up = &p->owner; // the places on the stack are gone, this copy stays
        if (!json_value(s, &p->next, NULL, &next) || !next)
            continue;
        const Node *a = graph_node(s->g, p->state), *b = graph_node(s->g, next);
        if (a->dtype != b->dtype || !shape_equal(a->shape, b->shape))
            json_error(s->r, &p->next, E0209, "the state '%s' is %s, but its next value '%s' is %s",
                       p->owner.item->string, type_text(s, p->state), p->next.item->valuestring,
                       type_text(s, next));
        for (uint32_t k = 0; k < s->g->states.len; k++)
            if (s->g->states.data[k].node == p->state)
                s->g->states.data[k].next = next;
    }
}

// --- outputs --------------------------------------------------

void json_outputs(JsonScope *s, const JsonPlace *section)
{
    JsonPlace child = {0};
    Map labels = {0};
    if (!cJSON_IsArray(section->item) && !cJSON_IsObject(section->item)) {
        json_wrong(s->r, section, "a list of names, or an object of label to name");
        return;
    }
    if (!section->item->child)
        json_error(s->r, section, E0102, "there must be at least one output");
    while (json_next(section, &child) && !json_is_hopeless(s->r)) {
        NodeId id = 0;
        if (!json_value(s, &child, NULL, &id))
            continue;
        const char *label = child.item->string ? child.item->string : child.item->valuestring;
        if (!json_name(s->r, &child, label))
            continue;
        if (map_put_str(s->r->arena, &labels, label, 0))
            graph_output(s->g, label, id);
        else
            json_error(s->r, &child, E0104, "there are two outputs '%s'", label);
    }
}

// --- checks --------------------------------------------------

static void read_check(JsonScope *s, const JsonPlace *p)
{
    JsonMember m[] = {{.name = "cond", .is_required = true}, {.name = "message", .is_required = true}};
    const char *message = NULL;
    NodeId id = 0;
    if (json_members(s->r, p, "a check", E0102, m, 2) && json_value(s, &m[0].place, NULL, &id) &&
        json_string(s->r, &m[1].place, "the message of the check", &message) && id)
        graph_check(s->g, id, message);
}

static void read_list(JsonScope *s, const JsonPlace *section, const char *what,
                      void (*read)(JsonScope *s, const JsonPlace *p))
{
    JsonPlace child = {0};
    uint32_t n = 0;
    if (!section->item || !json_list(s->r, section, what, &n))
        return;
    while (json_next(section, &child) && !json_is_hopeless(s->r))
        read(s, &child);
}

void json_checks(JsonScope *s, const JsonPlace *section)
{
    read_list(s, section, "a list of checks", read_check);
}

// --- sizes that the model computes --------------------------------------------------

static void read_extent(JsonScope *s, const JsonPlace *p)
{
    JsonMember m[] = {{.name = "value", .is_required = true}, {.name = "size", .is_required = true}};
    Dim *dims = NULL;
    uint32_t n = 0;
    NodeId id = 0;
    if (!json_members(s->r, p, "an extent", E0102, m, 2) || !json_value(s, &m[0].place, NULL, &id) ||
        !json_dims(s->r, &m[1].place, &dims, &n) || !id)
        return;
    if (n != 2)
        json_wrong(s->r, &m[1].place, "a symbol and its largest value");
    else
        graph_add_extent(s->g, dims[0], id, dims[1]);
}

void json_extents(JsonScope *s, const JsonPlace *section)
{
    read_list(s, section, "a list of extents", read_extent);
}

// --- sub-graphs --------------------------------------------------

bool json_subgraph(JsonScope *parent, const JsonPlace *p, Graph **out)
{
    rlx_assert(parent->depth <= MAX_GRAPH_DEPTH);
    enum { INPUTS, WEIGHTS, NODES, OUTPUTS, CHECKS, EXTENTS, COUNT };
    JsonReader *r = parent->r;
    uint32_t n_errors = r->diag->n_errors;
    JsonMember m[COUNT] = {{.name = "inputs"}, {.name = "weights"},
                           {.name = "nodes"},  {.name = "outputs", .is_required = true},
                           {.name = "checks"}, {.name = "extents"}};
    if (parent->depth == MAX_GRAPH_DEPTH)
        return json_error(r, p, E0004, "sub-graphs are nested more than %d deep", MAX_GRAPH_DEPTH);
    if (!json_members(r, p, "a sub-graph", E0102, m, COUNT))
        return false;
    DimParse symbols = r->symbols;
    r->symbols = DIM_KNOWN_ONLY; // the model's
    JsonScope s = {.r = r, .g = graph_new_like(parent->g, p->item->string), .depth = parent->depth + 1};
    json_leaves(&s, &m[INPUTS].place, JSON_INPUT);
    json_leaves(&s, &m[WEIGHTS].place, JSON_WEIGHT);
    json_nodes(&s, &m[NODES].place);
    json_outputs(&s, &m[OUTPUTS].place);
    json_checks(&s, &m[CHECKS].place);
    json_extents(&s, &m[EXTENTS].place);
    r->symbols = symbols;
    *out = s.g;
    return r->diag->n_errors == n_errors;
}
