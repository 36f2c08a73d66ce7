// SPDX-License-Identifier: Apache-2.0
// The table of operators, and how those without a row are reported: every one of the model, once.
#include "compiler/import/onnx_import.h"

#include <string.h>

static const OnnxOp table[] = {
#define ONNX_EW(name, min, max, op) {#name, min, max, OP_##op, onnx_import_elementwise},
#define ONNX_OP(name, min, max, fn) {#name, min, max, OP_none, onnx_import_##fn},
#include "compiler/import/onnx_ops.def"
};

static const OnnxOp microsoft_table[] = {
#define ONNX_MS(name, fn) {#name, 1, 0, OP_none, onnx_import_##fn},
#include "compiler/import/onnx_ops.def"
};

enum {
    N_OPS = sizeof table / sizeof *table,
    N_MICROSOFT = sizeof microsoft_table / sizeof *microsoft_table,
};

static const OnnxOp *find_op(const char *name, int64_t opset)
{
    for (size_t i = 0; i < N_OPS; i++)
        if (strcmp(table[i].name, name) == 0 && opset >= table[i].min &&
            (table[i].max == 0 || opset <= table[i].max))
            return &table[i];
    return NULL;
}

static const OnnxOp *find_microsoft_op(const char *name)
{
    for (size_t i = 0; i < N_MICROSOFT; i++)
        if (strcmp(microsoft_table[i].name, name) == 0)
            return &microsoft_table[i];
    return NULL;
}

static bool is_default_domain(const char *domain)
{
    domain = onnx_text(domain);
    return domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0;
}

static int64_t domain_version(const OnnxModel *m, const char *domain)
{
    for (size_t i = 0; i < m->proto->n_opset_import; i++)
        if (strcmp(onnx_text(m->proto->opset_import[i]->domain), domain) == 0)
            return m->proto->opset_import[i]->version;
    return 0;
}

// Each missing operator once.
static void report(OnnxModel *m, const Onnx__NodeProto *n, const char *label)
{
    const bool is_default = is_default_domain(n->domain);
    const char *domain = is_default ? "ai.onnx" : n->domain;
    const int64_t version = is_default ? m->opset : domain_version(m, domain);
    if (!map_put_str(m->arena, &m->missing, arena_printf(m->arena, "%s\n%s", domain, onnx_text(n->op_type)),
                     1))
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

const OnnxOp *onnx_node_op(OnnxModel *m, const Onnx__NodeProto *n)
{
    const OnnxOp *op = NULL;
    if (is_default_domain(n->domain))
        op = find_op(onnx_text(n->op_type), m->opset);
    else if (strcmp(n->domain, "com.microsoft") == 0)
        op = find_microsoft_op(onnx_text(n->op_type));
    if (!op)
        report(m, n, onnx_node_label(n));
    return op;
}

void onnx_check_graphs(OnnxModel *m, const Onnx__NodeProto *n, uint32_t depth)
{
    for (size_t i = 0; i < n->n_attribute && depth < ONNX_MAX_DEPTH; i++) {
        const Onnx__GraphProto *g = n->attribute[i]->g;
        for (size_t k = 0; g && k < g->n_node; k++) {
            onnx_node_op(m, g->node[k]);
            onnx_check_graphs(m, g->node[k], depth + 1);
        }
    }
}
