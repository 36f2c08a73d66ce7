// SPDX-License-Identifier: Apache-2.0
// Graphs to ONNX and back: `test_onnx_export [--write DIR] FILES...`, op cases (*.rlx with several graphs)
// and models. The reference evaluator gives the same for the graph that is read back: integers to the bit,
// floats within a few roundings, because some ops have no operator of their own in ONNX. What ONNX cannot
// express must be refused with a message, and leave no file. One of EVERY cases and models runs, others each
// day. --write: models with inputs and results as .npy, for check_onnx_export.py.
#include "../common/model_sizes.h"
#include "../e2e/ops_cases.h"
#include "compiler/export/onnx/put_file.h"
#include "compiler/import/import.h"
#include "compiler/import/tensors/npy.h"
#include "ir/eval/eval.h"
#include "ir/graph/intern.h"
#include "ir/text/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Counts {
    uint32_t same, close, refused, different, wrong;
} Counts;

typedef struct Trip {
    Arena *a;
    Diag *d;
    const char *name;
    Graph *g, *back;
    int64_t *values; // of g's symbols
    Tensor *in;      // inputs, params without a value, states
    const char **in_names;
    uint32_t n_in;
} Trip;

// Cases on which ONNX says less, or something else.
static const struct {
    const char *name, *why;
} different[] = {
    {"attention over the first keys", "the values of hidden keys count, if they are NaN"},
    {"attention of blocks over the first keys", "the values of hidden keys count, if they are NaN"},
    {"attention units few hide infinities", "the values of hidden keys count, if they are infinite"},
    {"loop swaps and ends early",
     "the bound on the iterations is a value, which our importer needs as a number"},
    {"cast i32 to f8e8m0", "what becomes of numbers below the least is another NaN"},
    {"max i4 of nothing", "the greatest of nothing is not defined"},
    {"min i4 of nothing, many", "the least of nothing is not defined"},
    {"resize nearest round_prefer_floor", "scales are f32, which moves a place between two elements"},
    {"resize nearest roi", "regions are f32, which moves a place between two elements"},
    {"resize roi ints", "regions are f32, which moves a place between two elements"},
    {"scatter rows", "rows outside are an error"},
    {"unique of nothing", "there is no first row"},
};

enum { EVERY = 3 };

static char folder[] = "/tmp/rlxc-export-XXXXXX";
static const char *write_to;

// --- sizes and inputs ----------------------------------------------------------------------------

// A number for each symbol that the model does not compute.
static void choose_sizes(Trip *t, ImportOptions *o)
{
    const DimTable *dims = t->g->dims;
    ImportSize *sizes = ARENA_ARRAY(t->a, ImportSize, dims->symbols.len + 1);
    t->values = ARENA_ARRAY(t->a, int64_t, dims->symbols.len + 1);
    for (uint32_t i = 0; i < dims->symbols.len; i++) {
        const Symbol *s = &dims->symbols.data[i];
        t->values[i] = graph_find_extent(t->g, i) != NULL ? -1
                       : s->has_dflt                      ? s->dflt
                       : s->min < 2 && s->max >= 2        ? 2
                                                          : s->min;
        if (t->values[i] >= 0)
            sizes[o->n_sizes++] = (ImportSize){.name = s->name, .value = t->values[i]};
    }
    o->sizes = sizes;
}

static void add_input(Trip *t, NodeId id)
{
    t->in_names[t->n_in] = leaf_name(graph_node(t->g, id));
    t->in[t->n_in++] = ops_random_tensor(t->a, t->g, id, 7);
}

static void choose_inputs(Trip *t)
{
    const Graph *g = t->g;
    const uint32_t most = g->inputs.len + g->params.len + g->states.len + 1;
    t->in = ARENA_ARRAY(t->a, Tensor, most);
    t->in_names = ARENA_ARRAY(t->a, const char *, most);
    for (uint32_t i = 0; i < g->inputs.len; i++)
        add_input(t, g->inputs.data[i]);
    for (uint32_t i = 0; i < g->params.len; i++)
        if (node_attr(graph_node(g, g->params.data[i]), A_param_init)->len == 0)
            add_input(t, g->params.data[i]);
    for (uint32_t i = 0; i < g->states.len; i++)
        add_input(t, g->states.data[i].node);
}

static const Tensor *input_of(const Trip *t, const char *name)
{
    for (uint32_t i = 0; i < t->n_in; i++)
        if (str_equal(t->in_names[i], name))
            return &t->in[i];
    return NULL;
}

// The outputs, and then what states become.
static Tensor *evaluate(Trip *t, Graph *g, uint32_t *n)
{
    EvalRun run = eval_begin(g, t->a, (DimValues){0});
    Tensor *out = ARENA_ARRAY(t->a, Tensor, g->outputs.len + g->states.len + 1);
    for (RootWalk r = {0}; graph_next_root(g, ROOT_INPUT | ROOT_STATE, &r);) {
        const Tensor *v = input_of(t, leaf_name(graph_node(g, r.id)));
        if (v != NULL)
            run.value[r.id] = *v;
    }
    for (uint32_t i = 0; i < g->params.len; i++) {
        const Tensor *v = input_of(t, leaf_name(graph_node(g, g->params.data[i])));
        if (v != NULL)
            run.value[g->params.data[i]] = *v;
    }
    if (!eval_graph(&run))
        return NULL;
    *n = 0;
    for (uint32_t i = 0; i < g->outputs.len; i++)
        out[(*n)++] = run.value[g->outputs.data[i].node];
    for (uint32_t i = 0; i < g->states.len; i++)
        out[(*n)++] = run.value[g->states.data[i].next];
    return out;
}

// --- comparison ----------------------------------------------------------------------------------

static double allowed(DType t)
{
    return t == DTYPE_f64 ? 1e-12 : t == DTYPE_f32 ? 2e-5 : 2e-2;
}

// False: x and y differ by more than roundings. *is_same: they have the same bits.
static bool agree(const Tensor *x, const Tensor *y, bool *is_same)
{
    double most = 0, error = 0;
    if (x->dtype != y->dtype || x->rank != y->rank || memcmp(x->dim, y->dim, x->rank * sizeof *x->dim) != 0)
        return false;
    if (memcmp(x->data, y->data, (size_t)x->numel * dtype_info[x->dtype].bytes) == 0)
        return true;
    bool has_same = true;
    for (int64_t i = 0; i < x->numel; i++) {
        const double a = tensor_get_f64(x, i), b = tensor_get_f64(y, i);
        if ((a != a && b != b) || (a <= b && a >= b && tensor_get_bits(x, i) == tensor_get_bits(y, i)))
            continue;
        has_same = false;
        if (!(isfinite(a) && isfinite(b)))
            return isfinite(a) == isfinite(b) && a <= b && a >= b;
        most = fmax(most, fabs(a));
        error = fmax(error, fabs(a - b));
    }
    *is_same = *is_same && has_same;
    return dtype_info[x->dtype].cls == DCLASS_FLOAT ? error <= allowed(x->dtype) * fmax(most, 1) : error <= 0;
}

static void write_case(Trip *t, const char *path, const Tensor *out, uint32_t n)
{
    const char *dir = arena_printf(t->a, "%s/%s", write_to, t->name);
    if (mkdir(dir, 0777) != 0 || rename(path, arena_printf(t->a, "%s/model.onnx", dir)) != 0)
        exit(2);
    for (uint32_t i = 0; i < t->n_in; i++)
        npy_write(t->d, arena_printf(t->a, "%s/in_%s.npy", dir, t->in_names[i]), &t->in[i]);
    for (uint32_t i = 0; i < n; i++)
        npy_write(t->d, arena_printf(t->a, "%s/out_%02u.npy", dir, i), &out[i]);
}

// NULL: it went well.
static const char *check(Trip *t, Counts *counts)
{
    const char *path = arena_printf(t->a, "%s/m.onnx", folder);
    ImportOptions o = {0};
    Graph *g = NULL;
    uint32_t n = 0, n_back = 0;
    choose_sizes(t, &o);
    unlink(path);
    if (!export_onnx(t->g, path, t->d)) {
        counts->refused++;
        if (getenv("TEST_VERBOSE") != NULL)
            printf("# refused %s: %s\n", t->name, t->d->items.data[0].message);
        return access(path, F_OK) == 0 ? "it was refused, but the file is there" : NULL;
    }
    if (!import_model_with(t->a, t->d, path, &o, &t->back))
        return "it was not read back";
    if (!graph_bind(t->g, (DimValues){t->values, t->g->dims->symbols.len}, &g))
        return "its sizes do not fit";
    t->g = g;
    choose_inputs(t);
    const Tensor *before = evaluate(t, t->g, &n), *after = evaluate(t, t->back, &n_back);
    if (before == NULL || after == NULL)
        return before == NULL ? "it cannot be evaluated" : "what is read back cannot be evaluated";
    bool is_same = true;
    if (n != n_back)
        return "it has another number of outputs";
    for (uint32_t i = 0; i < n; i++)
        if (!agree(&before[i], &after[i], &is_same))
            return arena_printf(t->a, "output %u differs", i);
    counts->same += is_same;
    counts->close += !is_same;
    if (!is_same && getenv("TEST_VERBOSE") != NULL)
        printf("# close %s\n", t->name);
    if (write_to != NULL)
        write_case(t, path, before, n);
    return NULL;
}

// --- files ---------------------------------------------------------------------------------------

static void run(Trip *t, Counts *counts)
{
    const uint32_t errors = t->d->n_errors;
    const char *why = t->g == NULL || errors != 0 ? "it was not read" : check(t, counts);
    for (size_t i = 0; i < sizeof different / sizeof *different; i++)
        if (str_equal(different[i].name, t->name)) {
            counts->different += why != NULL;
            why = why != NULL ? NULL : "it is expected to differ, but does not";
        }
    if (why == NULL)
        return;
    counts->wrong++;
    printf("# %s: %s\n", t->name, why);
    diag_print(t->d, stdout, DIAG_PLAIN);
}

static void check_cases(const char *file, Counts *counts)
{
    Arena perm = {0}, a = {0};
    OpsCases cases = {0};
    ops_read_cases(&perm, file, getenv("TEST_OPS"), &cases);
    for (uint32_t i = 0; i < cases.len; i++, arena_reset(&a)) {
        if (!ops_is_sampled(i, EVERY, 0))
            continue;
        Diag d = diag_new(&a);
        const char *text = ops_text(&a, &cases.data[i]);
        Trip t = {.a = &a, .d = &d, .name = cases.data[i].name};
        graph_parse(&a, &d, diag_add_file(&d, file, text, strlen(text)), &t.g);
        run(&t, counts);
    }
    arena_free(&a);
    arena_free(&perm);
}

static void check_model(const char *file, Counts *counts)
{
    Arena a = {0};
    Diag d = diag_new(&a);
    const char *slash = strrchr(file, '/');
    Trip t = {.a = &a, .d = &d, .name = slash != NULL ? slash + 1 : file};
    const ImportOptions o = model_sizes_of(file);
    import_model_with(&a, &d, file, &o, &t.g);
    run(&t, counts);
    arena_free(&a);
}

// --- weights in a file of their own --------------------------------------------------------------

static const OpsCase outside = {
    "outside", "graph \"outside\" {\n  %1 = input \"x\" : f32[3, 40]\n  %2 = const : f32[40, 50] = random\n"
               "  %3 = matmul(%1, %2)\n  %4 = const : u8[3, 1999] = random\n  %5 = const : f32[50] = random\n"
               "  %6 = add(%3, %5)\n  output \"y\" = %6\n  output \"bytes\" = %4\n}\n"};

static bool is_there(Arena *a, const char *name)
{
    struct stat s;
    return stat(arena_printf(a, "%s/%s", folder, name), &s) == 0 && s.st_size > 0;
}

// Tensors of 1 KiB and more go to NAME.onnx.data where all of them are too large; a folder that does not
// exist, or stands where the file should be, is reported, and then there is no NAME.onnx.data either.
static const char *check_outside(Arena *a)
{
    Diag d = diag_new(a);
    Trip t = {.a = a, .d = &d, .name = "outside"};
    uint32_t n = 0;
    bool is_same = true;
    const char *text = ops_text(a, &outside), *path = arena_printf(a, "%s/m.onnx", folder);
    if (!graph_parse(a, &d, diag_add_file(&d, "outside", text, strlen(text)), &t.g))
        return "it was not read";
    if (!export_onnx_with(t.g, path, &d, 1 << 20) || is_there(a, "m.onnx.data"))
        return "small tensors are not inside";
    if (!export_onnx_with(t.g, path, &d, 1000) || !is_there(a, "m.onnx.data"))
        return "large tensors are not outside";
    if (!import_model(a, &d, path, &t.back))
        return "it was not read back";
    choose_inputs(&t);
    const Tensor *before = evaluate(&t, t.g, &n), *after = evaluate(&t, t.back, &n);
    for (uint32_t i = 0; i < n; i++)
        if (!agree(&before[i], &after[i], &is_same) || !is_same)
            return "it differs";
    unlink(arena_printf(a, "%s/m.onnx.data", folder));
    if (export_onnx(t.g, "/no/such/folder/m.onnx", &d) || d.n_errors != 1)
        return "a folder that does not exist was not reported";
    if (unlink(path) != 0 || mkdir(path, 0777) != 0 || export_onnx_with(t.g, path, &d, 1000) ||
        d.n_errors != 2)
        return "a folder in the place of the file was not reported";
    if (rmdir(path) != 0 || is_there(a, "m.onnx.data"))
        return "the weights of a file that was not written are there";
    return NULL;
}

int main(int argc, char **argv)
{
    int failed = 0, n_tests = 0, first = 1;
    Arena a = {0};
    if (argc > 2 && strcmp(argv[1], "--write") == 0) {
        write_to = argv[2];
        first = 3;
    }
    if (mkdtemp(folder) == NULL)
        return 2;
    ops_say_sample(EVERY);
    for (int i = first; i < argc; i++) {
        const bool has_cases = str_ends_with(argv[i], ".rlx");
        Counts c = {0};
        if (!has_cases && !ops_is_sampled((uint32_t)i, EVERY, 0)) {
            printf("# %s: taken on another day\n", argv[i]);
            continue;
        }
        (has_cases ? check_cases : check_model)(argv[i], &c);
        const bool ok = c.wrong == 0;
        printf("%s %d - %s: %u the same, %u within roundings, %u refused, %u differ as expected\n",
               ok ? "ok" : "not ok", ++n_tests, argv[i], c.same, c.close, c.refused, c.different);
        failed += !ok;
        fflush(stdout);
    }
    const char *wrong = check_outside(&a);
    printf("%s %d - weights in a file of their own\n%s%s%s", wrong == NULL ? "ok" : "not ok", ++n_tests,
           wrong == NULL ? "" : "# ", wrong == NULL ? "" : wrong, wrong == NULL ? "" : "\n");
    printf("1..%d\n", n_tests);
    failed += wrong != NULL;
    unlink(arena_printf(&a, "%s/m.onnx", folder));
    arena_free(&a);
    return rmdir(folder) != 0 || failed != 0;
}
