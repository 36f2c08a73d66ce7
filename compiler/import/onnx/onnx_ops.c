// SPDX-License-Identifier: Apache-2.0
// The table of operators, and how those without a row are reported: every one of the model, once.
#include "compiler/import/json/json_custom.h"
#include "compiler/import/onnx/onnx_import.h"

#include <string.h>

static const OnnxOp ops[] = {
#define ONNX_ROW(domain, name, min, max, fn, op) {domain, #name, min, max, OP_##op, onnx_import_##fn},
#include "compiler/import/onnx/onnx_ops.def"
};
enum { N_OPS = sizeof ops / sizeof *ops };

static const char *domain_name(const Onnx__NodeProto *n)
{
    const char *name = onnx_text(n->domain);
    return name[0] ? name : "ai.onnx";
}

static const OnnxOp *find_op(const char *domain, const char *name, int64_t opset)
{
    for (size_t i = 0; i < N_OPS; i++) {
        const OnnxOp *op = &ops[i];
        rlx_assert(op->min >= 0 && (op->max == 0 || op->min <= op->max));
        if (strcmp(op->name, name) == 0 && strcmp(op->domain, domain) == 0 && opset >= op->min &&
            (op->max == 0 || opset <= op->max))
            return op;
    }
    return NULL;
}

static int64_t domain_version(const OnnxScope *s, const char *domain)
{
    const OnnxCall *call = onnx_scope_call(s);
    const Onnx__ModelProto *m = s->model->proto;
    const size_t count = call ? call->function->n_opset_import : m->n_opset_import;
    for (size_t i = 0; i < count; i++) {
        const Onnx__OperatorSetIdProto *o = call ? call->function->opset_import[i] : m->opset_import[i];
        if (strcmp(onnx_text(o->domain), domain) == 0)
            return o->version;
    }
    return 0;
}

int64_t onnx_node_opset(const OnnxScope *s, const Onnx__NodeProto *n)
{
    const char *domain = domain_name(n);
    // Those of com.microsoft have one version, and share import functions with the default domain.
    const bool is_own = strcmp(domain, "ai.onnx") != 0 && strcmp(domain, "com.microsoft") != 0;
    return is_own ? domain_version(s, domain) : onnx_scope_opset(s);
}

// Each missing operator once; and again to each of those who listen for what keeps a loop from being imported
// in one way or another, since what they heard may be dropped.
static void report(const OnnxScope *s, const Onnx__NodeProto *n, const char *label)
{
    OnnxModel *m = s->model;
    const char *domain = domain_name(n);
    const int64_t version = strcmp(domain, "ai.onnx") == 0 ? onnx_scope_opset(s) : domain_version(s, domain);
    const char *key = arena_printf(m->arena, "%p\n%s\n%s", (void *)m->diag, domain, onnx_text(n->op_type));
    if (!map_put_str(m->arena, &m->missing, key, 1))
        return;
    diag_error(m->diag, (Span){.file = m->file, .path = label}, E0206,
               "node '%s': operator '%s' (domain '%s', opset %lld) is not supported", label,
               onnx_text(n->op_type), domain, (long long)version);
}

const char *onnx_node_label(const Onnx__NodeProto *n)
{
    const char *name = onnx_text(n->name);
    return name[0] || !n->n_output ? name : onnx_text(n->output[0]);
}

const OnnxOp *onnx_node_op(const OnnxScope *s, const Onnx__NodeProto *n)
{
    static const OnnxOp custom = {"", "custom", 0, 0, OP_none, onnx_import_custom};
    const OnnxOp *op = find_op(domain_name(n), onnx_text(n->op_type), onnx_node_opset(s, n));
    if (!op && custom_decl_find(s->model->source->options.custom, onnx_text(n->op_type)) != NULL)
        return &custom;
    if (!op)
        report(s, n, onnx_node_label(n));
    return op;
}

void onnx_check_graphs(const OnnxScope *s, const Onnx__NodeProto *n, uint32_t depth)
{
    for (size_t i = 0; i < n->n_attribute && depth < ONNX_MAX_DEPTH; i++) {
        const Onnx__GraphProto *g = n->attribute[i]->g;
        for (size_t k = 0; g && k < g->n_node; k++) {
            if (!onnx_find_function(s->model, g->node[k]))
                onnx_node_op(s, g->node[k]);
            onnx_check_graphs(s, g->node[k], depth + 1);
        }
    }
}
