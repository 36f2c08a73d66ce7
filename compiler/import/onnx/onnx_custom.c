// SPDX-License-Identifier: Apache-2.0
// Operators that the user declares (--custom FILE): nodes of any domain that this importer has no operator
// for become custom ops.
#include "compiler/import/json/json_custom.h"
#include "compiler/import/onnx/onnx_import.h"

static void give_results(OnnxNode *n, NodeId id)
{
    if (id == 0) {
        n->failed = true; // was reported
        return;
    }
    const uint32_t count = graph_node(n->graph, id)->n_results;
    if (n->n_out > count) {
        onnx_fail(n, E0202, "the declaration has %u results, not %u", count, n->n_out);
        return;
    }
    for (uint32_t i = 0; i < n->n_out; i++)
        if (onnx_wants(n, i))
            onnx_out(n, i, graph_result(n->graph, id, i));
}

void onnx_import_custom(OnnxNode *n)
{
    const CustomDecl *d = custom_decl_find(n->model->source->options.custom, n->op);
    rlx_assert(d != NULL && d->attrs.len <= BUILD_MAX_ATTRS);
    CustomAttr values[BUILD_MAX_ATTRS];
    NodeBuild b = node_begin(n->graph, OP_custom, n->span, n->label);
    for (uint32_t i = 0; i < n->n_in; i++)
        node_src(&b, onnx_src(n, i));
    for (uint32_t i = 0; i < d->attrs.len; i++) {
        values[i] = d->attrs.data[i];
        if (values[i].is_required && onnx_attr(n, values[i].name) == NULL)
            onnx_fail(n, E0203, "attribute '%s' is missing", values[i].name);
        if (values[i].is_float)
            values[i].number = onnx_float(n, values[i].name, values[i].number);
        else
            values[i].whole = onnx_int(n, values[i].name, values[i].whole);
    }
    if (n->failed)
        return;
    custom_decl_set(n->model->arena, d, values, &b);
    give_results(n, node_end(&b));
}
