// SPDX-License-Identifier: Apache-2.0
// Graphs to .rlxb and back: `test_rlxb FILE...`, op cases (*.rlx with several graphs) and models. The graph
// that is read back prints the same, as IR text and as JSON, and compiles to the same C (of op cases: every
// eighth, for time).
#include "../common/model_sizes.h"
#include "../e2e/ops_cases.h"
#include "codegen/host/host.h"
#include "compiler/import/import.h"
#include "compiler/job/pipeline.h"
#include "compiler/rlxb/rlxb.h"
#include "ir/text/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_IN_TEXT = 1 << 18 };

static char path[] = "/tmp/rlxc-rlxb-XXXXXX";

static bool add_to_hash(void *ctx, const void *bytes, size_t n)
{
    uint64_t *h = ctx;
    *h = hash_bytes64(bytes, n, *h);
    return true;
}

// The hash of all that is emitted; what stops the compiler is the same on both sides too.
static const char *compile(Arena *a, Diag *d, Graph *g)
{
    CpuInfo cpu;
    const Target *target = target_find("c");
    Plan *plan = NULL;
    Emitted out = {0};
    if (!cpu_find("x86-64-v3", &cpu))
        return "no such CPU";
    const TargetCaps caps = target_caps(target, &cpu);
    PipelineOptions o = {.opt_level = 3, .accuracy = 1e-5, .caps = &caps, .report = stderr};
    for (uint32_t i = 0; i < g->dims->symbols.len; i++) {
        const Symbol *s = &g->dims->symbols.data[i];
        vec_push(a, &o.dims, ((ImportSize){.name = s->name, .value = s->has_dflt ? s->dflt : s->min}));
    }
    const HostOptions host = {
        .name = "m", .compiler = "rlxc", .cc_flags = "", .cpu = cpu.name, .weights = WEIGHTS_FILE};
    if (!pipeline_run(a, d, g, &o, &plan) || !host_emit(a, d, target, plan, &host, &out))
        return d->items.data[0].message;
    uint64_t h = 0;
    for (uint32_t i = 0; i < out.files.len; i++)
        host_stream(&out.files.data[i], add_to_hash, &h);
    return arena_printf(a, "%016llx", (unsigned long long)h);
}

static const char *text_of(Arena *a, Graph *g)
{
    Str s = str_new(a);
    graph_print(graph_compact(g, NULL), &s, TEXT_ELIDE);
    return str_text(&s);
}

// Compares the constants of two graphs that print the same.
static bool same_constants(Graph *x, Graph *y, uint64_t *bytes)
{
    x = graph_compact(x, NULL);
    y = graph_compact(y, NULL);
    for (NodeId id = 1; id < x->nodes.len; id++) {
        const Node *p = graph_node(x, id), *q = graph_node(y, id);
        for (uint32_t i = 0; i < p->n_attr; i++) {
            const AttrVal *v = &p->attr[i], *w = &q->attr[i];
            if (attr_info[v->id].type != ATTR_BLOB)
                continue;
            if (v->len != w->len || (v->len && memcmp(v->u.blob, w->u.blob, v->len) != 0))
                return false;
            *bytes += v->len;
        }
    }
    return true;
}

static const char *json_of(Arena *a, const Graph *g)
{
    Str s = str_new(a);
    import_print_json(g, &s);
    return str_text(&s);
}

static bool same_io(const Graph *x, const Graph *y)
{
    bool ok = x->io.len == y->io.len;
    for (uint32_t i = 0; ok && i < x->io.len; i++) {
        const GraphIo *p = &x->io.data[i], *q = &y->io.data[i];
        ok = str_equal(p->name, q->name) && p->kind == q->kind && p->of == q->of &&
             p->is_output == q->is_output && p->is_text == q->is_text && p->has_value == q->has_value &&
             p->dtype == q->dtype && p->n_parts == q->n_parts;
        for (uint32_t k = 0; ok && k < p->n_parts; k++)
            ok = str_equal(p->parts[k], q->parts[k]);
    }
    return ok;
}

// NULL: the same in all respects; has_c: also when it is compiled.
static const char *differs(Arena *a, Diag *d, Graph *g, bool has_c)
{
    Graph *back = NULL;
    if (!import_export_rlxb(g, path, d))
        return "it was not written";
    if (!import_model(a, d, path, &back))
        return "it was not read back";
    if (strcmp(text_of(a, g), text_of(a, back)) != 0)
        return "the text differs";
    uint64_t bytes = 0;
    if (!same_constants(g, back, &bytes))
        return "constants differ";
    if (bytes < MOST_IN_TEXT && strcmp(json_of(a, g), json_of(a, back)) != 0)
        return "the JSON differs";
    if (!same_io(g, back))
        return "the inputs and outputs of the model differ";
    if (!has_c)
        return NULL;
    Diag first = diag_new(a), second = diag_new(a);
    g->diag = &first;
    back->diag = &second;
    return strcmp(compile(a, &first, g), compile(a, &second, back)) == 0 ? NULL : "the C differs";
}

static bool check(Arena *a, Diag *d, const char *name, Graph *g, uint32_t *n)
{
    const char *why = g ? differs(a, d, g, *n % 8 == 0) : "it was not read";
    ++*n;
    if (!why)
        return true;
    printf("# %s: %s\n", name, why);
    diag_print(d, stdout, DIAG_PLAIN);
    return false;
}

static bool check_cases(const char *file, uint32_t *n)
{
    Arena perm = {0}, a = {0};
    OpsCases cases = {0};
    bool ok = true;
    ops_read_cases(&perm, file, NULL, &cases);
    for (uint32_t i = 0; i < cases.len; i++, arena_reset(&a)) {
        Graph *g = NULL;
        Diag d = diag_new(&a);
        const char *text = ops_text(&a, &cases.data[i]);
        graph_parse(&a, &d, diag_add_file(&d, file, text, strlen(text)), &g);
        ok &= check(&a, &d, cases.data[i].name, g, n);
    }
    arena_free(&a);
    arena_free(&perm);
    return ok;
}

static bool check_model(const char *file, uint32_t *n)
{
    Arena a = {0};
    Diag d = diag_new(&a);
    Graph *g = NULL;
    const ImportOptions o = model_sizes_of(file);
    import_model_with(&a, &d, file, &o, &g);
    const bool ok = check(&a, &d, file, g, n);
    arena_free(&a);
    return ok;
}

int main(int argc, char **argv)
{
    int failed = 0;
    const int fd = mkstemp(path);
    if (fd < 0 || close(fd) != 0)
        return 2;
    printf("1..%d\n", argc - 1);
    for (int i = 1; i < argc; i++) {
        uint32_t n = 0;
        const bool ok = str_ends_with(argv[i], ".rlx") ? check_cases(argv[i], &n) : check_model(argv[i], &n);
        printf("%s %d - %s, %u graphs\n", ok ? "ok" : "not ok", i, argv[i], n);
        failed += !ok;
    }
    unlink(path);
    return failed != 0;
}
