// SPDX-License-Identifier: Apache-2.0
// rlxc cut: a part of a model as a model of its own.
#include "compiler/tools/cut.h"
#include "compiler/import/import.h"
#include "compiler/job/job.h"
#include "compiler/system/json_text.h"
#include "compiler/job/node_find.h"
#include <string.h>

typedef struct Ends {
    NodeId *id;
    const char **name;
    uint32_t n;
} Ends;

static bool unknown_value(Job *j, const char *option, const char *name)
{
    const char *near = node_closest(j->graph, name);
    diag_error(j->cli->diag, (Span){0}, E0003, "%s %s: the model has no value of that name", option, name);
    if (near != NULL)
        diag_note(j->cli->diag, (Span){0}, "did you mean '%s'?", near);
    diag_note(j->cli->diag, (Span){0}, "`rlxc convert %s` prints all nodes with their names", j->model);
    return false;
}

// A name once, whatever it was called.
static bool add_end(Job *j, const char *option, const char *name, Ends *e)
{
    const NodeId id = node_find(j->graph, name);
    if (id == 0)
        return unknown_value(j, option, name);
    if (graph_node(j->graph, id)->op == OP_const)
        return diag_error(j->cli->diag, (Span){0}, E0003, "%s %s: this value is a weight", option, name);
    for (uint32_t i = 0; i < e->n; i++)
        if (e->id[i] == id)
            return diag_error(j->cli->diag, (Span){0}, E0003, "%s %s: given twice", option, name);
    e->id[e->n] = id;
    e->name[e->n++] = name;
    return true;
}

static bool read_ends(Job *j, const char *option, const Strings *given, Ends *e)
{
    bool ok = true;
    e->id = ARENA_ARRAY(j->cli->arena, NodeId, given->len + 1);
    e->name = ARENA_ARRAY(j->cli->arena, const char *, given->len + 1);
    for (uint32_t i = 0; i < given->len; i++)
        ok = add_end(j, option, given->data[i], e) && ok;
    return ok;
}

// Without --to: all that the model computes.
static void use_outputs(Job *j, Ends *e)
{
    const Graph *g = j->graph;
    e->id = ARENA_ARRAY(j->cli->arena, NodeId, g->outputs.len + 1);
    e->name = ARENA_ARRAY(j->cli->arena, const char *, g->outputs.len + 1);
    e->n = g->outputs.len;
    for (uint32_t i = 0; i < e->n; i++) {
        e->id[i] = g->outputs.data[i].node;
        e->name[i] = g->outputs.data[i].name;
    }
}

static bool cut(Job *j, Graph **out)
{
    const Options *o = &j->cli->options;
    Ends from = {0}, to = {0};
    Graph *part = NULL;
    if (o->from.len == 0 && o->to.len == 0)
        return diag_error(j->cli->diag, (Span){0}, E0003, "expected --from NAME, --to NAME, or both");
    if (!read_ends(j, "--from", &o->from, &from) || !read_ends(j, "--to", &o->to, &to))
        return false;
    if (o->to.len == 0)
        use_outputs(j, &to);
    const CutEnds ends = {from.id, to.id, from.name, to.name, from.n, to.n};
    return cut_graph(j->graph, &ends, &part) && pipeline_bind_some(part, &j->pipeline, out);
}

static void print_io(const Graph *g, const char *kind, const char *name, NodeId id)
{
    Str s = str_new(g->arena);
    shape_print(g->dims, (DType)graph_node(g, id)->dtype, graph_node(g, id)->shape, &s);
    printf("%-7s %s: %s\n", kind, name, str_text(&s));
}

static void print_written(Cli *c, const Graph *g, const char *to)
{
    if (c->options.json != NULL) {
        printf("{\"file\": \"%s\", \"inputs\": [", json_text(c->arena, to));
        for (uint32_t i = 0; i < g->inputs.len; i++)
            printf("%s\"%s\"", i == 0 ? "" : ", ", json_text(c->arena, node_name(g, g->inputs.data[i])));
        printf("], \"outputs\": [");
        for (uint32_t i = 0; i < g->outputs.len; i++)
            printf("%s\"%s\"", i == 0 ? "" : ", ", json_text(c->arena, g->outputs.data[i].name));
        printf("]}\n");
        return;
    }
    for (uint32_t i = 0; i < g->inputs.len; i++)
        print_io(g, "input", node_name(g, g->inputs.data[i]), g->inputs.data[i]);
    for (uint32_t i = 0; i < g->params.len; i++)
        print_io(g, "param", node_name(g, g->params.data[i]), g->params.data[i]);
    for (uint32_t i = 0; i < g->outputs.len; i++)
        print_io(g, "output", g->outputs.data[i].name, g->outputs.data[i].node);
    printf("wrote %s\n", to);
}

ExitCode cmd_cut(Cli *c)
{
    Job j;
    Graph *g = NULL;
    Str text = str_new(c->arena);
    const char *to = c->options.output_file;
    if (!job_begin(&j, c, "generic", false) || !cut(&j, &g) ||
        (to != NULL && !import_export(g, to, c->diag)))
        return cli_fail(c);
    cli_progress_end();
    diag_print(c->diag, stderr, c->style);
    if (to != NULL) {
        print_written(c, g, to);
        return EXIT_OK;
    }
    import_print_json(g, &text);
    fputs(str_text(&text), stdout);
    return EXIT_OK;
}
