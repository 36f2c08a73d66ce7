// SPDX-License-Identifier: Apache-2.0
// Steps of --stream against the whole run, in the evaluator, bit for bit: graphs of files, and random stacks.
// The name of a graph says what is asked: "NAME @ x:2 y:0=4" streams these axes, with steps of 4; a graph
// "NAME @ x:2 ! WORDS" cannot be streamed, and the message has these words.
#include "../e2e/ops_cases.h"

#include "../common/rotation.h"
#include "codegen/target/target.h"
#include "ir/eval/eval.h"
#include "ir/text/text.h"
#include "passes/graph/driver.h"
#include "passes/stream/stream.h"
#include "random_stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_AXES = 4, RANDOM_STACKS = 300 };

typedef struct Asked {
    StreamAxis axes[MAX_AXES];
    StreamRequest request;
    int64_t unsure;      // elements at the end that may differ
    const char *refused; // NULL: it streams
} Asked;

// --- what is asked -------------------------------------------------------------------------------

static uint32_t find_input(const Graph *g, const char *name, size_t len)
{
    for (uint32_t i = 0; i < g->inputs.len; i++) {
        const char *of = node_name(g, g->inputs.data[i]);
        if (strlen(of) == len && memcmp(of, name, len) == 0)
            return i;
    }
    rlx_assert(false);
    return 0;
}

static void read_asked(const Graph *g, const char *name, Asked *a)
{
    const char *at = strstr(name, " @ ");
    const char *refused = strstr(name, " ! ");
    rlx_assert(at != NULL);
    *a = (Asked){.refused = refused != NULL ? refused + 3 : NULL};
    for (const char *p = at + 3; p != NULL && *p != '!';
         p = strchr(p, ' ') != NULL ? strchr(p, ' ') + 1 : NULL) {
        const char *colon = strchr(p, ':');
        char *end = NULL;
        rlx_assert(colon != NULL && a->request.n_axes < MAX_AXES);
        const uint32_t axis = (uint32_t)strtoul(colon + 1, &end, 10);
        a->axes[a->request.n_axes++] = (StreamAxis){find_input(g, p, (size_t)(colon - p)), axis};
        if (*end == '=')
            a->request.frames = strtol(end + 1, NULL, 10);
    }
    a->request.axes = a->axes;
}

// The passes after which a graph has core ops only.
static Graph *to_core(Arena *a, Graph *g)
{
    static Arena scratch;
    CpuInfo cpu;
    if (!cpu_find("generic", &cpu))
        return NULL;
    const TargetCaps caps = target_caps(target_find("c"), &cpu);
    const PassOptions options = {.caps = &caps};
    Pass p = {.perm = a, .scratch = &scratch, .diag = g->diag, .options = &options, .graph = g};
    for (uint32_t i = 0; i < pass_count && !p.failed; i++)
        if (strcmp(pass_info[i].name, "fold") == 0 || strcmp(pass_info[i].name, "expand") == 0)
            pass_run(&p, &pass_info[i]);
    arena_reset(&scratch);
    return p.failed ? NULL : p.graph;
}

// --- tensors along an axis -----------------------------------------------------------------------

static int64_t inner_of(const Tensor *t, uint32_t axis)
{
    int64_t inner = 1;
    for (uint32_t i = axis + 1; i < t->rank; i++)
        inner *= t->dim[i];
    return inner;
}

static Tensor frames_of(Arena *a, const Tensor *t, uint32_t axis, int64_t from, int64_t n)
{
    int64_t dim[SHAPE_MAX_RANK];
    memcpy(dim, t->dim, sizeof dim);
    dim[axis] = n;
    Tensor part = tensor_new(a, t->dtype, t->rank, dim);
    const int64_t inner = inner_of(t, axis);
    for (int64_t i = 0; i < part.numel; i++) {
        const int64_t outer = i / (inner * n), frame = i / inner % n;
        tensor_set_bits(&part, i,
                        tensor_get_bits(t, (outer * t->dim[axis] + from + frame) * inner + i % inner));
    }
    return part;
}

static bool same_bits(const Tensor *a, const Tensor *b)
{
    if (a->numel != b->numel || a->dtype != b->dtype)
        return false;
    for (int64_t i = 0; i < a->numel; i++)
        if (tensor_get_bits(a, i) != tensor_get_bits(b, i) &&
            !(dtype_info[a->dtype].cls == DCLASS_FLOAT && tensor_get_f64(a, i) != tensor_get_f64(a, i) &&
              tensor_get_f64(b, i) != tensor_get_f64(b, i)))
            return false;
    return true;
}

// --- comparing -----------------------------------------------------------------------------------

typedef struct Compared {
    Arena *arena;
    const Graph *whole, *step;
    const Asked *asked;
    const StreamReport *report;
    Tensor *want, *values; // of the whole run; by input and by param of the step
    Tensor *state;         // by state of the step
    int64_t frames;        // compared
    char wrong[200];
} Compared;

static void evaluate_whole(Compared *c)
{
    const Graph *g = c->whole;
    EvalRun run = eval_begin(g, c->arena, (DimValues){0});
    for (uint32_t i = 0; i < g->inputs.len; i++)
        run.value[g->inputs.data[i]] = ops_random_tensor(c->arena, g, g->inputs.data[i], 7);
    for (uint32_t i = 0; i < g->params.len; i++)
        run.value[g->params.data[i]] = ops_random_tensor(c->arena, g, g->params.data[i], 7);
    if (!eval_graph(&run))
        snprintf(c->wrong, sizeof c->wrong, "the whole run failed");
    c->want = run.value;
}

static const StreamAxis *axis_of(const Asked *a, uint32_t input)
{
    for (uint32_t i = 0; i < a->request.n_axes; i++)
        if (a->axes[i].input == input)
            return &a->axes[i];
    return NULL;
}

static const StreamPart *part_of(const StreamReport *r, const char *name)
{
    for (uint32_t i = 0; i < r->parts.len; i++)
        if (strcmp(r->parts.data[i].name, name) == 0)
            return &r->parts.data[i];
    return NULL;
}

static void compare_output(Compared *c, const GraphOutput *whole, const Tensor *got, int64_t k, bool is_end)
{
    const StreamPart *p = part_of(c->report, whole->name);
    const Tensor *want = &c->want[whole->node];
    if (p == NULL) {
        if (is_end && !same_bits(want, got))
            snprintf(c->wrong, sizeof c->wrong, "%s: the latest value differs", whole->name);
        return;
    }
    for (int64_t i = 0; i < p->frames; i++) {
        const int64_t at = k * p->frames - p->late + i;
        if (at < 0 || at >= want->dim[p->axis] - c->asked->unsure)
            continue;
        const Tensor a = frames_of(c->arena, want, p->axis, at, 1),
                     b = frames_of(c->arena, got, p->axis, i, 1);
        c->frames++;
        if (c->wrong[0] == '\0' && !same_bits(&a, &b))
            snprintf(c->wrong, sizeof c->wrong, "%s: element %lld differs (step %lld, late %lld)",
                     whole->name, (long long)at, (long long)k, (long long)p->late);
    }
}

static void run_step(Compared *c, int64_t k, bool is_end)
{
    const Graph *g = c->step;
    EvalRun run = eval_begin(g, c->arena, (DimValues){0});
    for (uint32_t i = 0; i < g->inputs.len; i++) {
        const StreamAxis *a = axis_of(c->asked, i);
        const Tensor *all = &c->want[c->whole->inputs.data[i]];
        run.value[g->inputs.data[i]] =
            a == NULL ? *all : frames_of(c->arena, all, a->axis, k * c->report->frames, c->report->frames);
    }
    for (uint32_t i = 0; i < g->params.len; i++)
        run.value[g->params.data[i]] = c->want[c->whole->params.data[i]];
    for (uint32_t i = 0; k > 0 && i < g->states.len; i++)
        run.value[g->states.data[i].node] = c->state[i];
    if (!eval_graph(&run)) {
        snprintf(c->wrong, sizeof c->wrong, "step %lld failed", (long long)k);
        return;
    }
    for (uint32_t i = 0; i < g->states.len; i++)
        c->state[i] = run.value[g->states.data[i].next];
    for (uint32_t i = 0; i < g->outputs.len; i++)
        compare_output(c, &c->whole->outputs.data[i], &run.value[g->outputs.data[i].node], k, is_end);
}

// Each output must come in full, but for what depends on the padding behind the end.
static void check_count(Compared *c, int64_t steps)
{
    for (uint32_t i = 0; i < c->report->parts.len; i++) {
        const StreamPart *p = &c->report->parts.data[i];
        if (steps * p->frames - p->late < 1)
            snprintf(c->wrong, sizeof c->wrong, "%s: no element in %lld steps", p->name, (long long)steps);
    }
}

static void compare(Compared *c)
{
    const int64_t steps = c->report->total / c->report->frames;
    const char *broken = graph_verify(c->step, STAGE_CORE);
    if (broken != NULL)
        snprintf(c->wrong, sizeof c->wrong, "%s", broken);
    evaluate_whole(c);
    c->state = ARENA_ARRAY(c->arena, Tensor, c->step->states.len + 1u);
    for (int64_t k = 0; k < steps && c->wrong[0] == '\0'; k++)
        run_step(c, k, (k + 1) * c->report->frames == c->report->total);
    if (c->wrong[0] == '\0')
        check_count(c, steps);
}

// --- cases ---------------------------------------------------------------------------------------

static uint32_t n_run, n_failed;

static void report(const char *name, const char *wrong, const Diag *d, const char *more)
{
    n_run++;
    n_failed += wrong != NULL;
    printf("%s %u - %s%s\n", wrong != NULL ? "not ok" : "ok", n_run, name, more);
    if (wrong != NULL) {
        printf("# %s\n", wrong);
        fflush(stdout);
        diag_print(d, stderr, DIAG_PLAIN);
    }
}

static void check_refused(const char *name, const Diag *d, const char *words, bool streams)
{
    const char *message = d->items.len > 0 ? d->items.data[0].message : "";
    report(name, streams ? "it was not refused" : strstr(message, words) == NULL ? message : NULL, d, "");
}

// With TEST_SAVE=FOLDER: the graph and what is asked, for check_stream.py.
static void save(Arena *a, const Graph *g, const Asked *asked)
{
    const char *folder = getenv("TEST_SAVE");
    Str text = str_new(a);
    if (folder == NULL || asked->refused != NULL)
        return;
    for (uint32_t i = 0; i < asked->request.n_axes; i++)
        str_printf(&text, "# %s:%u\n", node_name(g, g->inputs.data[asked->axes[i].input]),
                   asked->axes[i].axis);
    str_printf(&text, "# =%lld\n# unsure %lld\n", (long long)asked->request.frames, (long long)asked->unsure);
    graph_print(g, &text, TEXT_FULL);
    FILE *f = fopen(arena_printf(a, "%s/%u.rlx", folder, n_run), "w");
    rlx_assert(f != NULL);
    fputs(str_text(&text), f);
    fclose(f);
}

static void run_case(Arena *a, Graph *g, const char *name, const Asked *asked)
{
    StreamReport r = {0};
    save(a, g, asked);
    Graph *step = NULL, *whole = to_core(a, g);
    const bool ok = whole != NULL && stream_graph(whole, &asked->request, &r, &step);
    if (asked->refused != NULL) {
        check_refused(name, g->diag, asked->refused, ok);
        return;
    }
    if (!ok) {
        report(name, "it was refused", g->diag, "");
        return;
    }
    Compared c = {.arena = a, .whole = whole, .step = step, .asked = asked, .report = &r};
    compare(&c);
    if (c.wrong[0] != '\0' && getenv("TEST_PRINT") != NULL) {
        Str text = str_new(a);
        graph_print(whole, &text, TEXT_ELIDE);
        graph_print(step, &text, TEXT_ELIDE);
        fprintf(stderr, "%s", str_text(&text));
    }
    report(name, c.wrong[0] != '\0' ? c.wrong : NULL, g->diag,
           arena_printf(a, " (steps of %lld, %u states, %lld frames)", (long long)r.frames, r.n_states,
                        (long long)c.frames));
}

static void run_file(const char *path)
{
    Arena cases = {0};
    OpsCases list = {0};
    ops_read_cases(&cases, path, getenv("TEST_OPS"), &list);
    for (uint32_t i = 0; i < list.len; i++) {
        Arena a = {0};
        Diag d = diag_new(&a);
        Graph *g = NULL;
        Asked asked;
        const char *text = ops_text(&a, &list.data[i]);
        if (graph_parse(&a, &d, diag_add_file(&d, path, text, strlen(text)), &g)) {
            read_asked(g, list.data[i].name, &asked);
            run_case(&a, g, list.data[i].name, &asked);
        } else {
            report(list.data[i].name, "it does not parse", &d, "");
        }
        arena_free(&a);
    }
    arena_free(&cases);
}

static void run_random(uint64_t seed)
{
    Arena a = {0};
    Diag d = diag_new(&a);
    Graph *g = graph_new(&a, &d, "random");
    Asked asked = {.axes = {{0, 2}}};
    asked.request = (StreamRequest){asked.axes, 1, 0};
    asked.unsure = random_stack(g, seed);
    run_case(&a, g, arena_printf(&a, "random stack %llu", (unsigned long long)seed), &asked);
    arena_free(&a);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        run_file(argv[i]);
    printf("# TEST_ROTATE=%u takes the same random stacks again\n", test_rotation());
    for (uint64_t i = 0; i < RANDOM_STACKS && getenv("TEST_OPS") == NULL; i++)
        run_random((uint64_t)test_rotation() * RANDOM_STACKS + i);
    printf("1..%u\n", n_run);
    return n_failed != 0;
}
