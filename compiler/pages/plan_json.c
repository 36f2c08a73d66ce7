// SPDX-License-Identifier: Apache-2.0
// Kernels and weights of a plan as the pages draw them. See pages.h.
#include "compiler/report/facts.h"
#include "compiler/system/json_text.h"
#include "compiler/pages/pages.h"

static const char *const region_names[] = {
    [REGION_ARENA] = "arena",     [REGION_STATE] = "state",       [REGION_PARAM] = "param",
    [REGION_WEIGHTS] = "weights", [REGION_PREPARED] = "prepared", [REGION_EXPERTS] = "experts",
    [REGION_OUTER] = "outer",     [REGION_MAPS] = "maps",         [REGION_FILE] = "file",
    [REGION_ROWS] = "rows"};

static void print_member(const char *name, const char *text, Str *out)
{
    str_printf(out, "\"%s\": \"%s\"", name, json_text(out->arena, text));
}

// The nodes that a kernel computes; a kernel that copies has the value that it copies.
static void print_nodes(const Plan *p, const PlanKernel *k, Str *out)
{
    const Graph *g = p->graph;
    const NodeId only = k->copy.src != 0 ? k->copy.src : k->root;
    const uint32_t n = k->body.len != 0 ? k->body.len : 1;
    str_add(out, "\"nodes\": [");
    for (uint32_t i = 0; i < n; i++) {
        const NodeId id = k->body.len != 0 ? k->body.data[i] : only;
        if (id == 0)
            continue;
        Str type = str_new(out->arena);
        shape_print(g->dims, (DType)graph_node(g, id)->dtype, graph_node(g, id)->shape, &type);
        str_add(out, i == 0 ? "{" : ", {");
        print_member("name", node_name(g, id), out);
        str_printf(out, ", \"op\": \"%s\", ", op_info[graph_node(g, id)->op].name);
        print_member("type", str_text(&type), out);
        str_add(out, "}");
    }
    str_add(out, "]");
}

// Arguments: [buffer, first byte, end, 1 read + 2 written].
static void print_args(const PlanKernel *k, Str *out)
{
    str_add(out, ", \"args\": [");
    for (uint32_t i = 0; i < k->args.len; i++) {
        const PlanArg *a = &k->args.data[i];
        str_printf(out, "%s[%u, %llu, %llu, %d]", i == 0 ? "" : ", ", a->buf, (unsigned long long)a->begin,
                   (unsigned long long)a->end, (a->is_read ? 1 : 0) + (a->is_written ? 2 : 0));
    }
    str_add(out, "]");
}

static uint32_t count_rows(const PlanKernel *k)
{
    return k->loop == NULL ? 0 : plan_count_kernels(k->loop->body);
}

static void print_kernels(const Plan *p, Str *out)
{
    uint32_t row = 0; // of the table of kernels of inspect, which has those of the bodies too
    str_add(out, "\"steps\": [");
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        const PlanKernel *k = &p->kernels.data[i];
        str_printf(out, "%s\n{\"row\": %u, \"rows\": %u, ", i == 0 ? "" : ",", row, count_rows(k));
        print_nodes(p, k, out);
        print_args(k, out);
        str_add(out, "}");
        row += 1 + count_rows(k);
    }
    str_add(out, "]");
}

static void print_memory(const Plan *p, Str *out)
{
    int32_t placed = 0; // index among the buffers that inspect lists
    str_add(out, ",\n\"memory\": [");
    for (BufId b = 1; b < p->buffers.len; b++) {
        const PlanBuffer *buf = &p->buffers.data[b];
        str_printf(out,
                   "%s\n{\"buf\": %u, \"region\": \"%s\", \"bytes\": %llu, \"shares\": %u, \"placed\": %d, ",
                   b == 1 ? "" : ",", b, region_names[buf->region], (unsigned long long)buf->bytes,
                   buf->shares, facts_is_placed(buf) ? placed++ : -1);
        print_member("name", buf->name != NULL ? buf->name : "", out);
        str_add(out, "}");
    }
    str_add(out, "]");
}

static void print_ios(const char *kind, const PlanIo *io, uint32_t n, Str *out)
{
    str_printf(out, ",\n\"%s\": [", kind);
    for (uint32_t i = 0; i < n; i++) {
        str_printf(out, "%s{\"buf\": %u, \"begin\": %llu, \"end\": %llu, ", i == 0 ? "" : ", ", io[i].buf,
                   (unsigned long long)io[i].byte_offset,
                   (unsigned long long)(io[i].byte_offset + io[i].bytes));
        print_member("name", io[i].name, out);
        str_add(out, "}");
    }
    str_add(out, "]");
}

void pages_plan(const Plan *p, Str *out)
{
    print_kernels(p, out);
    print_memory(p, out);
    print_ios("inputs", p->inputs.data, p->inputs.len, out);
    print_ios("outputs", p->outputs.data, p->outputs.len, out);
    print_ios("params", p->params.data, p->params.len, out);
    print_ios("states", p->states.data, p->states.len, out);
}
