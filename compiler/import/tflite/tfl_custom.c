// SPDX-License-Identifier: Apache-2.0
// Custom operators of .tflite models become custom ops (docs/CUSTOM.md), by their names, where --custom FILE
// declares them. Their options are bytes, of which only the operator knows what they mean: the text gets them
// as one more operand if the declaration has one. Most are maps of FlexBuffers, whose numbers are attributes.
#include "compiler/import/json/json_custom.h"
#include "compiler/import/tflite/flex.h"
#include "compiler/import/tflite/tfl_import.h"

static void read_attributes(TflNode *n, const CustomDecl *d, Flex options, CustomAttr *values)
{
    for (uint32_t i = 0; i < d->attrs.len; i++) {
        double v = 0;
        values[i] = d->attrs.data[i];
        if (flex_find(options, values[i].name, &v)) {
            values[i].number = v;
            values[i].whole = tensor_saturate(DTYPE_i64, v);
            if (!values[i].is_float && (double)values[i].whole != v)
                tfl_fail(n, E0203, "option '%s' is %g, but its declaration wants a whole number",
                         values[i].name, v);
        } else if (values[i].is_required) {
            tfl_fail(n, E0203, "option '%s' is missing", values[i].name);
        }
    }
}

static NodeId bytes_operand(TflNode *n, Flex options)
{
    const Shape s = {.rank = 1, .dim = {(int64_t)options.len}};
    return tfl_const(n, DTYPE_u8, &s, arena_copy(n->model->arena, options.data, options.len));
}

const CustomDecl *tfl_custom_find(const TflModel *m, const char *name)
{
    const CustomDecls *decls = m->source->options.custom;
    return decls ? custom_decl_find(decls, name) : NULL;
}

static Flex options_of(const TflNode *n)
{
    return (Flex){flat_list_bytes(n->custom), n->custom.n};
}

bool tfl_custom_number(const TflNode *n, const char *name, double *out)
{
    return flex_find(options_of(n), name, out);
}

void tfl_import_custom(TflNode *n)
{
    const CustomDecl *d = tfl_custom_find(n->model, n->op->name);
    rlx_assert(d != NULL && d->attrs.len <= BUILD_MAX_ATTRS);
    const Flex options = options_of(n);
    CustomAttr values[BUILD_MAX_ATTRS];
    NodeBuild b = tfl_begin(n, OP_custom);
    for (uint32_t i = 0; i < n->n_in; i++)
        node_src(&b, tfl_opt(n, i));
    if (d->n_operands == n->n_in + 1)
        node_src(&b, bytes_operand(n, options));
    read_attributes(n, d, options, values);
    if (n->failed)
        return;
    custom_decl_set(n->model->arena, d, values, &b);
    const NodeId id = tfl_end(n, &b);
    if (!n->failed && n->n_out > graph_node(n->graph, id)->n_results)
        tfl_fail(n, E0202, "the declaration has %u results, not %u", graph_node(n->graph, id)->n_results,
                 n->n_out);
    for (uint32_t i = 0; i < n->n_out && !n->failed; i++)
        tfl_out(n, i, tfl_result(n, id, i));
}
