// SPDX-License-Identifier: Apache-2.0
// Functions of a model: a call becomes the nodes of the body, in a scope that has the operands under the
// names of the function's inputs. Attributes of the body that name one of the function are looked up in the
// call (onnx_node.c).
#include "compiler/import/onnx/onnx_import.h"
#include "compiler/import/onnx/onnx_proto.h"

#include <string.h>

// Field numbers of ONNX's schema that older versions of it lack.
enum { NODE_OVERLOAD = 8, FUNCTION_ATTRIBUTE_PROTO = 11, FUNCTION_OVERLOAD = 13 };

// --- what a function says ---

static const void *known_field(const ProtobufCMessage *m, const char *name, size_t *count)
{
    const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field_by_name(m->descriptor, name);
    const char *at = (const char *)m;
    *count = 0;
    if (!f)
        return NULL;
    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        memcpy(count, at + f->quantifier_offset, sizeof *count);
    const void *value = NULL;
    memcpy(&value, at + f->offset, sizeof value);
    return value;
}

static const char *overload(Arena *a, const ProtobufCMessage *m, uint32_t tag)
{
    size_t len = 0;
    const char *known = known_field(m, "overload", &len);
    const uint8_t *extra = known ? NULL : onnx_proto_extra(m, tag, 0, &len);
    return known ? known : extra ? arena_strndup(a, (const char *)extra, len) : "";
}

// The default attribute i, or NULL after the last.
static const Onnx__AttributeProto *default_attribute(OnnxModel *m, const Onnx__FunctionProto *f, uint32_t i)
{
    size_t len = 0;
    const Onnx__AttributeProto *const *known = known_field(&f->base, "attribute_proto", &len);
    if (known)
        return i < len ? known[i] : NULL;
    const uint8_t *data = onnx_proto_extra(&f->base, FUNCTION_ATTRIBUTE_PROTO, i, &len);
    uint64_t cached = 0;
    if (!data || map_get(&m->defaults, &data, sizeof data, &cached))
        return (const Onnx__AttributeProto *)(uintptr_t)cached;
    const Onnx__AttributeProto *a = onnx_proto_attribute(m->arena, data, len);
    map_put(m->arena, &m->defaults, &data, sizeof data, (uint64_t)(uintptr_t)a);
    return a;
}

const Onnx__AttributeProto *onnx_function_default(OnnxModel *m, const Onnx__FunctionProto *f,
                                                  const char *name)
{
    const Onnx__AttributeProto *a = NULL;
    for (uint32_t i = 0; (a = default_attribute(m, f, i)); i++)
        if (strcmp(onnx_text(a->name), name) == 0)
            return a;
    return NULL;
}

static const char *domain_of(const char *domain)
{
    domain = onnx_text(domain);
    return strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

static const char *function_key(Arena *a, const char *domain, const char *name, const char *overloaded)
{
    return arena_printf(a, "%s\n%s\n%s", domain_of(domain), onnx_text(name), overloaded);
}

static void collect_functions(OnnxModel *m)
{
    for (size_t i = m->functions.len; i < m->proto->n_functions; i++) {
        const Onnx__FunctionProto *f = m->proto->functions[i];
        uint64_t first = 0;
        const char *key =
            function_key(m->arena, f->domain, f->name, overload(m->arena, &f->base, FUNCTION_OVERLOAD));
        if (map_get_str(&m->functions, key, &first)) // a function that is there twice: the first counts
            key = arena_printf(m->arena, "%s\n%zu", key, i);
        map_put_str(m->arena, &m->functions, key, i);
    }
}

const Onnx__FunctionProto *onnx_find_function(OnnxModel *m, const Onnx__NodeProto *n)
{
    uint64_t index = 0;
    if (m->proto->n_functions == 0)
        return NULL;
    collect_functions(m);
    const char *key =
        function_key(m->arena, n->domain, n->op_type, overload(m->arena, &n->base, NODE_OVERLOAD));
    return map_get_str(&m->functions, key, &index) ? m->proto->functions[index] : NULL;
}

// --- calls ---

static bool check_call(OnnxNode *n, const Onnx__FunctionProto *f)
{
    if (!onnx_count_inlined(n, f->n_node))
        return false;
    if (n->scope->depth >= ONNX_MAX_DEPTH)
        return onnx_fail(n, E0004, "graphs and functions are nested more than %d deep", ONNX_MAX_DEPTH);
    for (const OnnxCall *c = onnx_scope_call(n->scope); c; c = c->outer)
        if (c->function == f)
            return onnx_fail(n, E0106, "the function calls itself");
    if (n->n_in > f->n_input || n->n_out > f->n_output)
        return onnx_fail(n, E0202, "the node has %u inputs and %u outputs, but the function has %zu and %zu",
                         n->n_in, n->n_out, f->n_input, f->n_output);
    return true;
}

static int64_t function_opset(const OnnxNode *n, const Onnx__FunctionProto *f)
{
    for (size_t i = 0; i < f->n_opset_import; i++)
        if (domain_of(f->opset_import[i]->domain)[0] == '\0')
            return f->opset_import[i]->version;
    return onnx_scope_opset(n->scope);
}

static void use_attributes(OnnxNode *n, const Onnx__FunctionProto *f)
{
    const Onnx__AttributeProto *a = NULL;
    for (size_t i = 0; i < f->n_attribute; i++)
        onnx_ignore_attr(n, onnx_text(f->attribute[i]));
    for (uint32_t i = 0; (a = default_attribute(n->model, f, i)); i++)
        onnx_ignore_attr(n, onnx_text(a->name));
}

static void import_body(OnnxNode *n, OnnxScope *s, const Onnx__FunctionProto *f)
{
    rlx_assert(n->n_in <= f->n_input && n->n_out <= f->n_output);
    Arena *a = n->model->arena;
    for (uint32_t i = 0; i < f->n_input; i++)
        onnx_put(s, onnx_text(f->input[i]), onnx_any(n, i), n->span);
    // A graph of its own in all but its place: the messages differ in their types only.
    Onnx__GraphProto body = ONNX__GRAPH_PROTO__INIT;
    body.n_node = f->n_node;
    body.node = f->node;
    if (!onnx_import_nodes(s, &body)) {
        n->failed = true;
        return;
    }
    for (uint32_t i = 0; i < n->n_out; i++) {
        const OnnxValue v = onnx_get(s, onnx_text(f->output[i]), n->span,
                                     arena_printf(a, "the function of node '%s'", n->label));
        if (v.kind == ONNX_ABSENT && onnx_wants(n, i))
            onnx_fail(n, E0106, "output %u of the function has no name", i);
        n->failed = n->failed || v.kind == ONNX_BROKEN;
        onnx_out_any(n, i, v);
    }
}

bool onnx_import_call(OnnxNode *n)
{
    const Onnx__FunctionProto *f = onnx_find_function(n->model, n->proto);
    if (!f)
        return false;
    use_attributes(n, f);
    if (!check_call(n, f))
        return true;
    const OnnxCall call = {
        .outer = onnx_scope_call(n->scope), .function = f, .node = n, .opset = function_opset(n, f)};
    OnnxScope s = {.model = n->model, .graph = n->graph, .call = &call, .depth = n->scope->depth + 1};
    import_body(n, &s, f);
    return true;
}
