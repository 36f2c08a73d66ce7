// SPDX-License-Identifier: Apache-2.0
// rlxc bisect: options and report. The search is in bisect.c.
#include "compiler/tools/bisect.h"
#include "compiler/import/tensors/npy.h"
#include "compiler/system/rawfile.h"
#include "compiler/system/json_text.h"
#include "compiler/job/node_find.h"
#include "compiler/system/output.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

// --- expected values -----------------------------------------------------------------------------

static bool read_expected(Job *j, const char *name, const char *path, Expecteds *out)
{
    Cli *c = j->cli;
    RawFile file;
    Expected e = {.name = name, .path = path, .node = node_find(j->graph, name)};
    if (e.node == 0) {
        const char *near = node_closest(j->graph, name);
        diag_error(c->diag, (Span){0}, E0003, "--against %s: the model has no value of that name", name);
        if (near != NULL)
            diag_note(c->diag, (Span){0}, "did you mean '%s'?", near);
        return false;
    }
    if (!rawfile_open(c->arena, c->diag, (Span){0}, path, &file) ||
        !npy_read(c->arena, c->diag, (Span){0}, path, file.data, file.len, &e.value))
        return false;
    npy_retype(c->arena, &e.value, (DType)graph_node(j->graph, e.node)->dtype);
    vec_push(c->arena, &out->list, e);
    return true;
}

// NAME=FILE, or FILE for a model with one output. Names may contain '='.
static bool read_against(Job *j, const char *given, Expecteds *out)
{
    Cli *c = j->cli;
    const Graph *g = j->graph;
    const char *first = strchr(given, '=');
    if (first == NULL && g->outputs.len == 1)
        return read_expected(j, g->outputs.data[0].name, given, out);
    if (first == NULL)
        return diag_error(c->diag, (Span){0}, E0003,
                          "--against %s: expected NAME=FILE.npy, as the model has %u outputs", given,
                          g->outputs.len);
    for (const char *eq = first; eq != NULL; eq = strchr(eq + 1, '=')) {
        const char *name = arena_strndup(c->arena, given, (size_t)(eq - given));
        if (node_find(g, name) != 0)
            return read_expected(j, name, eq + 1, out);
    }
    return read_expected(j, arena_strndup(c->arena, given, (size_t)(first - given)), first + 1, out);
}

static bool read_folder(Job *j, const char *dir, Expecteds *out)
{
    const Graph *g = j->graph;
    Arena *a = j->cli->arena;
    const uint32_t before = out->list.len;
    for (NodeId id = 1; id < g->nodes.len; id++) {
        const char *name = node_name(g, id), *path = output_path(a, dir, output_npy_name(a, name));
        if (node_find(g, name) == id && access(path, R_OK) == 0 && !read_expected(j, name, path, out))
            return false;
    }
    for (uint32_t i = 0; i < g->outputs.len; i++) {
        const char *name = g->outputs.data[i].name, *path = output_path(a, dir, output_npy_name(a, name));
        if (strcmp(node_name(g, g->outputs.data[i].node), name) != 0 && access(path, R_OK) == 0 &&
            !read_expected(j, name, path, out))
            return false;
    }
    return out->list.len > before ||
           diag_error(j->cli->diag, (Span){0}, E0402,
                      "--against-dir %s: no file there is named after a value of the model (NAME.npy)", dir);
}

static bool read_all_expected(Job *j, Expecteds *out)
{
    const Options *o = &j->cli->options;
    for (uint32_t i = 0; i < o->against.len; i++)
        if (!read_against(j, o->against.data[i], out))
            return false;
    return o->against_dir == NULL || read_folder(j, o->against_dir, out);
}

// --- the command that cuts the node out ----------------------------------------------------------

static void add_option(Str *s, const char *name, const char *value)
{
    if (value != NULL)
        str_printf(s, " %s %s", name, output_shell_word(s->arena, value));
}

static void add_list(Str *s, const char *option, const Strings *list)
{
    for (uint32_t i = 0; i < list->len; i++)
        str_printf(s, " %s %s", option, output_shell_word(s->arena, list->data[i]));
}

// Operands that come from nodes; the others are of the model.
static const char *cut_command(const Bisect *b, const char *model)
{
    rlx_assert(b->first.node != 0);
    const Options *o = &b->cli->options;
    const Graph *g = b->graph;
    Arena *a = b->cli->arena;
    const Node *n = graph_node(g, b->first.node);
    Str s = str_new(a);
    str_printf(&s, "rlxc cut %s", output_shell_word(a, model));
    for (uint32_t i = 0; i < n->n_src; i++) {
        bool is_new = n->src[i] != 0 && node_result(n) == 0 &&
                      op_info[graph_node(g, n->src[i])->op].kind != OPKIND_LEAF;
        for (uint32_t k = 0; k < i; k++)
            is_new = is_new && n->src[k] != n->src[i];
        if (is_new)
            str_printf(&s, " --from %s", output_shell_word(a, node_exact_name(a, g, n->src[i])));
    }
    str_printf(&s, " --to %s", output_shell_word(a, node_exact_name(a, g, b->first.node)));
    add_list(&s, "--dim", &o->dims);
    add_list(&s, "--shape", &o->shapes);
    add_list(&s, "--value", &o->values);
    add_list(&s, "--lora", &o->loras);
    add_option(&s, "--string-bytes", o->string_bytes);
    add_option(&s, "--signature", o->signature);
    add_option(&s, "--rounding", o->rounding);
    add_option(&s, "--context", o->context);
    add_option(&s, "--kv", o->kv);
    add_option(&s, "--windows", o->windows);
    str_add(&s, " -o cut.json");
    return str_text(&s);
}

// --- report --------------------------------------------------------------------------------------

static const char *type_text(const Bisect *b, NodeId id)
{
    Str s = str_new(b->cli->arena);
    const Node *n = graph_node(b->graph, id);
    shape_print(b->graph->dims, (DType)n->dtype, n->shape, &s);
    return str_text(&s);
}

static const char *const how_text[] = {
    [BISECT_NOTHING] = "every value that was compared is as it should be",
    [BISECT_KEPT] = "the generated code departs from the reference evaluator (found with all values kept)",
    [BISECT_FUSED] = "the generated code departs from the reference evaluator (only where nodes are fused)",
    [BISECT_EXPECTED] = "the generated code agrees with the reference evaluator, but what was expected is "
                        "something else",
};

static void print_text(const Bisect *b, const char *model)
{
    rlx_assert((size_t)b->how < sizeof how_text / sizeof *how_text);
    const Difference *d = &b->first.difference;
    Arena *a = b->cli->arena;
    printf("%s\n", how_text[b->how]);
    if (b->how == BISECT_NOTHING)
        return;
    const Node *n = graph_node(b->graph, b->first.node);
    const bool is_expected = b->how == BISECT_EXPECTED;
    printf("first   %s = %s, %s", node_exact_name(a, b->graph, b->first.node), op_info[n->op].name,
           type_text(b, b->first.node));
    if (b->number != 0)
        printf(", node %u of %u", b->number, b->nodes.len);
    printf("\nerror   ");
    if (d->at < 0)
        printf("another shape than it should have\n");
    else
        printf("%.3g of magnitude %.6g (relative %.3g, tolerance %.3g); element %lld: %s %.9g, %s %.9g\n",
               d->error, d->largest, d->relative, bisect_tolerance(b, (DType)n->dtype), (long long)d->at,
               is_expected ? "evaluator" : "generated", b->first.got, is_expected ? "expected" : "evaluator",
               b->first.want);
    for (uint32_t i = 0; i < n->n_src; i++) {
        if (n->src[i] == 0)
            continue;
        printf("operand %s = %s, %s", node_exact_name(a, b->graph, n->src[i]),
               op_info[graph_node(b->graph, n->src[i])->op].name, type_text(b, n->src[i]));
        if (b->by_node[n->src[i]].is_measured)
            printf(", relative error %.3g", b->by_node[n->src[i]].difference.relative);
        printf("\n");
    }
    printf("cut     %s\n", cut_command(b, model));
}

static void print_number(const char *name, double v)
{
    if (isfinite(v))
        printf(", \"%s\": %.17g", name, v);
    else
        printf(", \"%s\": null", name);
}

static void print_json_value(const Bisect *b, const BisectValue *v)
{
    Arena *a = b->cli->arena;
    printf("{\"name\": \"%s\", \"op\": \"%s\", \"type\": \"%s\"",
           json_text(a, node_exact_name(a, b->graph, v->node)),
           op_info[graph_node(b->graph, v->node)->op].name, json_text(a, type_text(b, v->node)));
    if (v->is_measured) {
        print_number("max_error", v->difference.error);
        print_number("max_magnitude", v->difference.largest);
        print_number("relative_error", v->difference.relative);
    }
}

static void print_json(const Bisect *b, const char *model)
{
    static const char *const hows[] = {"nothing", "kept", "fused", "expected"};
    rlx_assert((size_t)b->how < sizeof hows / sizeof *hows);
    const bool is_ok = b->how == BISECT_NOTHING;
    printf("{\n  \"ok\": %s,\n  \"how\": \"%s\",\n  \"nodes\": %u,\n  \"compiled\": %u,\n  \"first\": ",
           is_ok ? "true" : "false", hows[b->how], b->nodes.len, b->n_compiled);
    if (is_ok) {
        printf("null\n}\n");
        return;
    }
    const Node *n = graph_node(b->graph, b->first.node);
    print_json_value(b, &b->first);
    print_number("tolerance", bisect_tolerance(b, (DType)n->dtype));
    printf(", \"number\": %u, \"element\": %lld", b->number, (long long)b->first.difference.at);
    print_number("got", b->first.got);
    print_number("want", b->first.want);
    printf("},\n  \"operands\": [");
    const char *comma = "";
    for (uint32_t i = 0; i < n->n_src; i++) {
        if (n->src[i] == 0)
            continue;
        BisectValue v = b->by_node[n->src[i]];
        v.node = n->src[i];
        printf("%s\n    ", comma);
        print_json_value(b, &v);
        printf("}");
        comma = ",";
    }
    printf("\n  ],\n  \"cut\": \"%s\"\n}\n", json_text(b->cli->arena, cut_command(b, model)));
}

ExitCode cmd_bisect(Cli *c)
{
    Job j;
    Expecteds expected = {0};
    Bisect b = {.cli = c, .expected = &expected};
    if (!compare_read_tolerance(c->diag, c->options.tolerance, &b.tolerance) ||
        !job_begin(&j, c, "native", false) || !read_all_expected(&j, &expected) || !bisect_search(&b))
        return cli_fail(c);
    cli_progress_end();
    diag_print(c->diag, stderr, c->style);
    if (c->options.json != NULL)
        print_json(&b, j.model);
    else
        print_text(&b, j.model);
    return b.how == BISECT_NOTHING ? EXIT_OK : EXIT_WRONG;
}
