// SPDX-License-Identifier: Apache-2.0
// What the user says about the inputs of an ONNX model: sizes, shapes and values. Values that decide about
// the graph become checks in it.
#include "compiler/import/onnx/onnx.h"
#include "ir/eval/eval.h"
#include "ir/shape/verify.h"
#include "onnx_model.h"
#include "unit.h"

static Arena arena;
static Diag diag;

static int start(void **state)
{
    (void)state;
    diag = (Diag){.arena = &arena};
    return 0;
}

static int stop(void **state)
{
    (void)state;
    arena_free(&arena);
    return 0;
}

static Graph *import(const char *text, const ImportOptions *options)
{
    size_t len = 0;
    Graph *g = NULL;
    const uint8_t *data = onnx_model(&arena, text, &len);
    const OnnxSource source = {.name = "m", .data = data, .len = len, .dir = "", .options = *options};
    diag = (Diag){.arena = &arena};
    const bool ok = import_onnx_source(&arena, &diag, &source, &g);
    assert_int_equal(ok, diag.n_errors == 0);
    if (ok)
        assert_null(graph_verify(g, STAGE_IMPORTED));
    return ok ? g : NULL;
}

static Tensor ints(int64_t n, const int64_t *v)
{
    Tensor t = tensor_new(&arena, DTYPE_i64, 1, &n);
    for (int64_t i = 0; i < n; i++)
        tensor_set_i64(&t, i, v[i]);
    return t;
}

static const char *type_of(const Graph *g, NodeId id)
{
    Str s = str_new(&arena);
    shape_print(g->dims, (DType)graph_node(g, id)->dtype, graph_node(g, id)->shape, &s);
    return str_text(&s);
}

static void assert_message(DiagCode code, const char *part)
{
    for (uint32_t i = 0; i < diag.items.len; i++)
        if (diag.items.data[i].code == code && strstr(diag.items.data[i].message, part))
            return;
    fail_msg("no message with '%s', the first is '%s'", part,
             diag.items.len ? diag.items.data[0].message : "");
}

// --- values ---

typedef struct ValueCase {
    const char *model; // with the inputs x (f32), v (i64)
    int64_t n, v[4];
    const char *type; // of the result
    uint32_t n_checks;
} ValueCase;

static const ValueCase value_cases[] = {
    {"opset 13; in x f32 2,3; in v i64 2; node Reshape x,v -> y; out y", 2, {3, -1}, "f32[3, 2]", 1},
    {"opset 13; in x f32 1,3; in v i64 2; node Expand x,v -> y; out y", 2, {4, 3}, "f32[4, 3]", 1},
    {"opset 13; in x f32 1,3; in v i64 2; node Mul v,v -> w; node Tile x,w -> y; out y",
     2,
     {2, 1},
     "f32[4, 3]",
     1},
    {"opset 13; in x f32 1; in v i64 2; node Neg v -> w; node Neg w -> s; node ConstantOfShape s -> y; out y",
     2,
     {2, 5},
     "f32[2, 5]",
     1},
    {"opset 13; in x f32 1; in v i64 -; init a i64 - = 1; init d i64 - = 2; node Range a,v,d -> y; out y",
     1,
     {8},
     "i64[4]",
     1},
    {"opset 13; in x f32 4,3; in v i64 1; init e i64 1 = 9; node Slice x,v,e -> y; out y",
     1,
     {2},
     "f32[2, 3]",
     1},
    {"opset 13; in x f32 2,3; in v i64 1; node Cast v -> c to=9; node If c -> y; begin then_branch;"
     "node Flatten x -> p axis=0; out p; end; begin else_branch; node Neg x -> q; out q; end; out y",
     1,
     {1},
     "f32[1, 6]",
     1},
    // Both reshapes assume the same value; the check is made once.
    {"opset 13; in x f32 2,3; in v i64 2; node Reshape x,v -> a; node Reshape x,v -> b; node Add a,b -> y; "
     "out y",
     2,
     {6, 1},
     "f32[6, 1]",
     1},
    {"opset 13; in x f32 2,3; in v i64 2; init n i64 - = 500; node Loop n,_,x -> y; begin body; in i i64 -;"
     "in c bool -; in a f32 2,3; node Reshape a,v -> r; node Transpose r -> t; out c; out t; end; out y",
     2,
     {3, 2},
     "f32[2, 3]",
     1},
    // A value between them is large, and grows: it stays a node, but what it is made of is known.
    {"opset 13; in x f32 70000; in v i64 1; init n i64 1 = 70000; node Tile v,n -> t; node ReduceSum t -> s;"
     "node Reshape x,s -> y; out y",
     1,
     {1},
     "f32[70000]",
     1},
    // What only is computed with is not assumed.
    {"opset 13; in x f32 2,3; in v i64 2; node Add v,v -> y; out y", 2, {6, 1}, "i64[2]", 0},
};

static bool runs_with(const Graph *g, int64_t n, const int64_t *v, bool is_scalar)
{
    EvalRun run = eval_begin(g, &arena, (DimValues){0});
    for (uint32_t i = 0; i < g->inputs.len; i++) {
        const Node *node = graph_node(g, g->inputs.data[i]);
        Tensor t = tensor_new(&arena, (DType)node->dtype, node->shape->rank, node->shape->dim);
        if (node->dtype == DTYPE_i64) {
            t = ints(n, v);
            t.rank = is_scalar ? 0 : 1;
        }
        run.value[g->inputs.data[i]] = t;
    }
    return eval_graph(&run);
}

static void test_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof value_cases / sizeof *value_cases; i++) {
        const ValueCase *c = &value_cases[i];
        const ImportValue value = {.name = "v", .value = ints(c->n, c->v), .is_list = true};
        const Graph *g = import(c->model, &(ImportOptions){.values = &value, .n_values = 1});
        if (!g)
            fail_msg("%s: %s", c->model, diag.items.data[0].message);
        assert_string_equal(type_of(g, g->outputs.data[0].node), c->type);
        assert_int_equal(g->checks.len, c->n_checks);
        const bool is_scalar = graph_node(g, g->inputs.data[1])->shape->rank == 0;
        int64_t other[4] = {c->v[0] + 7, c->v[1], c->v[2], c->v[3]};
        if (strstr(c->model, "Cast"))
            other[0] = 0;
        assert_true(runs_with(g, c->n, c->v, is_scalar));
        assert_int_equal(runs_with(g, c->n, other, is_scalar), c->n_checks == 0);
        if (c->n_checks)
            assert_message(E0403, "for which the model was compiled");
    }
}

// An assumption of a branch says nothing where the branch is not taken.
static void test_values_in_branches(void **state)
{
    (void)state;
    const char *text = "opset 13; in x f32 2,3; in c bool -; in v i64 2; node If c -> y; begin then_branch;"
                       "node Reshape x,v -> p; out p; end; begin else_branch; init s i64 2 = 3,2;"
                       "node Reshape x,s -> q; out q; end; out y";
    const ImportValue value = {.name = "v", .value = ints(2, (const int64_t[]){3, 2}), .is_list = true};
    const Graph *g = import(text, &(ImportOptions){.values = &value, .n_values = 1});
    assert_non_null(g);
    assert_int_equal(g->checks.len, 0);
    for (int64_t c = 0; c <= 1; c++) {
        EvalRun run = eval_begin(g, &arena, (DimValues){0});
        run.value[g->inputs.data[0]] = tensor_new(&arena, DTYPE_f32, 2, (const int64_t[]){2, 3});
        run.value[g->inputs.data[1]] = tensor_new(&arena, DTYPE_bool, 0, NULL);
        tensor_set_i64(&run.value[g->inputs.data[1]], 0, c);
        run.value[g->inputs.data[2]] = ints(2, (const int64_t[]){6, 1});
        assert_int_equal(eval_graph(&run), !c);
    }
}

static void test_wrong_values(void **state)
{
    (void)state;
    const char *text = "opset 13; in x f32 2,3; in v i64 2; node Reshape x,v -> y; out y";
    const struct {
        ImportValue value;
        DiagCode code;
        const char *message;
    } cases[] = {
        {{.name = "w", .value = ints(2, (const int64_t[]){3, 2})}, E0402, "the model has no such input"},
        {{.name = "v", .value = ints(1, (const int64_t[]){3}), .is_list = true},
         E0402,
         "1 numbers are given"},
        {{.name = "v", .value = ints(1, (const int64_t[]){3})}, E0402, "another type or shape"},
        {{.name = "v", .value = ints(2, (const int64_t[]){4, 4}), .is_list = true}, E0204, ""},
        {{.name = "w", .value = ints(1, (const int64_t[]){3}), .is_optional = true},
         E0206,
         "give the values with --value v=..."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(import(text, &(ImportOptions){.values = &cases[i].value, .n_values = 1}));
        assert_message(cases[i].code, cases[i].message);
    }
}

// --- promises ---

// Models whose operand v decides about a shape that is declared: with v they must give what the graph gives
// that was made for v, without a check that fails; with `other` a check must fail.
typedef struct PromiseCase {
    const char *model;
    int64_t n, v[4], other[4];
} PromiseCase;

// clang-format off
#define RANGE "opset 13; in x f32 1; in v i64 3; init i i64 - = 0; init j i64 - = 1; init k i64 - = 2;" \
    "node Gather v,i -> a; node Gather v,j -> b; node Gather v,k -> c; node Range a,b,c -> y; "
static const PromiseCase promise_cases[] = {
    {"opset 13; in x f32 2,6; in v i64 2; node Reshape x,v -> y; out y f32 3,4", 2, {3, 4}, {4, 3}},
    {"opset 13; in x f32 2,6; in v i64 2; node Reshape x,v -> y; out y f32 2,6", 2, {0, -1}, {-1, -1}},
    {"opset 13; in x f32 2,6; in v i64 2; node Reshape x,v -> y; out y f32 3,4", 2, {-1, 4}, {0, 4}},
    {"opset 13; in x f32 3,1; in v i64 2; node Expand x,v -> y; out y f32 3,4", 2, {1, 4}, {3, 5}},
    {"opset 13; in x f32 4; in v i64 2; node Expand x,v -> y; out y f32 3,4", 2, {3, 4}, {1, 4}},
    {"opset 13; in x f32 2,3; in v i64 1; node Expand x,v -> y; out y f32 2,3", 1, {1}, {2}},
    {"opset 13; in x f32 2,3; in v i64 2; node Tile x,v -> y; out y f32 4,3", 2, {2, 1}, {1, 2}},
    {"opset 13; in x f32 1; in v i64 2; node ConstantOfShape v -> y; out y f32 2,3", 2, {2, 3}, {3, 2}},
    {RANGE "out y i64 4", 3, {3, 10, 2}, {3, 11, 1}},
    {RANGE "out y i64 3", 3, {7, 0, -3}, {7, 1, -3}},
    {"opset 13; in x f32 1; in v i64 -; init i i64 3 = 0,2,-1; init o f32 2 = 5,6; node OneHot i,v,o -> y;"
     "out y f32 3,4", 1, {4}, {5}},
    {"opset 13; in x f32 2,6; in v i64 1; node TopK x,v -> y,z; out y f32 2,3; out z i64 2,3", 1, {3}, {2}},
    {"opset 13; in x f32 2,6; in v i64 2; node Split x,v -> y,z axis=1; out y f32 2,2; out z f32 2,4",
     2, {2, 4}, {4, 2}},
    {"opset 13; in x f32 1,1,2,3; in v i64 4; node Resize x,_,_,v -> y; out y f32 1,1,4,6",
     4, {1, 1, 4, 6}, {1, 1, 4, 5}},
    {"opset 13; in x f32 1,3,1; in v i64 1; node Squeeze x,v -> y; out y f32 1,3", 1, {-1}, {0}},
    {"opset 13; in x f32 1,1,3; in v i64 1; node Squeeze x,v -> y; out y f32 1,3", 1, {1}, {2}},
    {"opset 13; in x f32 2,3; in v i64 2; node Unsqueeze x,v -> y; out y f32 2,1,3,1", 2, {-1, 1}, {0, 1}},
    {"opset 13; in x f32 5,4; in v i64 2; init e i64 2 = 9,-1; node Slice x,v,e -> y; out y f32 3,2",
     2, {2, -3}, {1, -3}},
    {"opset 13; in x f32 5,4; in v i64 1; init s i64 1 = 9; init a i64 1 = 0; init p i64 1 = -2;"
     "node Slice x,s,v,a,p -> y; out y f32 2,4", 1, {1}, {-99}},
    {"opset 13; in x f32 2,3; in v i64 4; node Pad x,v -> y; out y f32 4,4", 4, {1, -1, 1, 2}, {1, 0, 1, 2}},
    {"opset 13; in x f32 2,3; in v i64 4; node Pad x,v -> y mode=edge; out y f32 4,4",
     4, {0, 1, 2, 0}, {0, 1, 1, 0}},
    {"opset 13; in x f32 2,3; in v i64 4; node Pad x,v -> y mode=reflect; out y f32 3,6",
     4, {1, 2, 0, 1}, {1, 1, 1, 1}},
    {"opset 19; in x f32 2,3; in v i64 4; node Pad x,v -> y mode=wrap; out y f32 3,6",
     4, {1, 2, 0, 1}, {1, 1, 1, 1}},
};
// clang-format on

static bool eval_filled(const Graph *g, int64_t n, const int64_t *v, EvalRun *run)
{
    *run = eval_begin(g, &arena, (DimValues){0});
    for (uint32_t i = 0; i < g->inputs.len; i++) {
        const Node *node = graph_node(g, g->inputs.data[i]);
        Tensor t = tensor_new(&arena, (DType)node->dtype, node->shape->rank, node->shape->dim);
        assert_true(node->dtype != DTYPE_i64 || t.numel == n);
        for (int64_t k = 0; k < t.numel; k++) {
            if (node->dtype == DTYPE_i64)
                tensor_set_i64(&t, k, v[k]);
            else
                tensor_set_f64(&t, k, (double)(k * 7 % 11));
        }
        run->value[g->inputs.data[i]] = t;
    }
    return eval_graph(run);
}

static void assert_same_outputs(const Graph *g, const EvalRun *run, const Graph *known,
                                const EvalRun *expected)
{
    for (uint32_t k = 0; k < g->outputs.len; k++) {
        const Tensor *a = &run->value[g->outputs.data[k].node];
        const Tensor *b = &expected->value[known->outputs.data[k].node];
        assert_int_equal(a->numel, b->numel);
        assert_memory_equal(a->data, b->data, (size_t)a->numel * dtype_info[a->dtype].bytes);
    }
}

static void test_promises(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof promise_cases / sizeof *promise_cases; i++) {
        const PromiseCase *c = &promise_cases[i];
        const ImportValue value = {.name = "v", .value = ints(c->n, c->v), .is_list = true};
        EvalRun run, expected;
        const Graph *known = import(c->model, &(ImportOptions){.values = &value, .n_values = 1});
        const Graph *g = import(c->model, &(ImportOptions){0});
        if (!g || !known)
            fail_msg("%s: %s", c->model, diag.n_errors ? diag.items.data[0].message : "not with the value");
        assert_true(eval_filled(known, c->n, c->v, &expected));
        if (!eval_filled(g, c->n, c->v, &run))
            fail_msg("%s: %s", c->model, diag.items.data[0].message);
        assert_same_outputs(g, &run, known, &expected);
        if (eval_filled(g, c->n, c->other, &run))
            fail_msg("%s: the check holds for other values", c->model);
        assert_message(E0403, "must lead to the shape that the model declares");
    }
}

// --- sizes ---

typedef struct SizeCase {
    const char *model;
    const char *option; // "N=5", "x:2,3" (a shape), "x?2,3" (a shape of a file)
    const char *more;
    const char *types; // of the inputs; NULL: refused
    const char *message;
} SizeCase;

static const SizeCase size_cases[] = {
    {"opset 13; in x f32 N,3; in z f32 N; out x", "N=5", "", "f32[5, 3] f32[5]", NULL},
    {"opset 13; in x f32 N,3; in z f32 N; out x", "x?4,3", "", "f32[4, 3] f32[4]", NULL},
    {"opset 13; in x f32 N,3; in z f32 N; out x", "x?4,3", "N=5", "f32[5, 3] f32[5]", NULL},
    {"opset 13; in x f32 N,3; in z f32 N; out x", "x?4,3", "z?5", NULL,
     "the size 'N' is 4 according to axis 0 of input 'x'"},
    {"opset 13; in x f32 N,3; in z f32 N; out x", "x:4,4", "", NULL, "is 4, but 3 according to the model"},
    {"opset 13; in x f32 N,3; in z f32 N; out x", "x:4", "", NULL, "has 1 sizes, but the input has 2 axes"},
    {"opset 13; in x f32 N,3; in z f32 N; out x", "w:4", "", NULL, "the model has no such input"},
    {"opset 13; in x f32 N,3; in z f32 N; out x", "input1_dim0=7", "", "f32[7, 3] f32[7]", NULL},
    {"opset 13; in x f32 ?,3; in z f32 ?; out x", "input0_dim0=7", "z_dim0=2", "f32[7, 3] f32[2]", NULL},
    {"opset 13; in x f32 P,3; in z f32 P+1; out x", "z?5", "", "f32[4, 3] f32[5]", NULL},
    {"opset 13; in x f32 P,3; in z f32 P+1; out x", "P+1=9", "", "f32[8, 3] f32[9]", NULL},
    {"opset 13; in x f32 P,3; in z f32 P+1; out x", "P=1..8", "", "f32[P, 3] f32[P + 1]", NULL},
    {"opset 13; in x f32 P,3; in z f32 P+1; out x", "P=0..8", "", "f32[P, 3] f32[P + 1]", NULL},
    {"opset 13; in x f32 *; in z f32 2; out x", "x:2,3,4", "", "f32[2, 3, 4] f32[2]", NULL},
    {"opset 13; in x f32 *; in z f32 2; out x", "x?", "", "f32[] f32[2]", NULL},
    {"opset 13; in x f32 *; in z f32 2; out x", "N=3", "", NULL, "give one with --shape x="},
};

static void parse_option(const char *text, ImportSize *sizes, uint32_t *n_sizes, ImportShape *shapes,
                         uint32_t *n_shapes)
{
    const size_t at = strcspn(text, "=:?");
    const char *name = arena_strndup(&arena, text, at);
    const char *dots = strstr(text, "..");
    char *end = NULL;
    if (text[0] == '\0')
        return;
    if (text[at] == '=') {
        ImportSize size = {.name = name, .is_range = dots != NULL};
        size.min = strtoll(text + at + 1, NULL, 10);
        size.value = dots ? strtoll(dots + 2, NULL, 10) : size.min;
        sizes[(*n_sizes)++] = size;
        return;
    }
    ImportShape shape = {.name = name, .origin = "given", .is_firm = text[at] == ':'};
    for (const char *c = text + at + 1; *c != '\0'; c = *end == ',' ? end + 1 : end)
        shape.dim[shape.rank++] = strtoll(c, &end, 10);
    shapes[(*n_shapes)++] = shape;
}

static void test_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof size_cases / sizeof *size_cases; i++) {
        const SizeCase *c = &size_cases[i];
        ImportSize sizes[2] = {0};
        ImportShape shapes[2];
        ImportOptions o = {.sizes = sizes, .shapes = shapes};
        parse_option(c->option, sizes, &o.n_sizes, shapes, &o.n_shapes);
        parse_option(c->more, sizes, &o.n_sizes, shapes, &o.n_shapes);
        const Graph *g = import(c->model, &o);
        if (!c->types) {
            if (g)
                fail_msg("%s %s was taken", c->option, c->more);
            assert_message(diag.items.data[0].code, c->message);
            for (uint32_t k = 1; k < diag.items.len; k++) // the input is there, though it could not be read
                assert_null(strstr(diag.items.data[k].message, "no such input"));
            continue;
        }
        if (!g)
            fail_msg("%s: %s", c->option, diag.items.data[0].message);
        const char *x = type_of(g, g->inputs.data[0]), *z = type_of(g, g->inputs.data[1]);
        assert_string_equal(arena_printf(&arena, "%s %s", x, z), c->types);
        const int32_t p = dim_find_symbol(g->dims, "P");
        if (strcmp(c->option, "P=1..8") == 0)
            assert_int_equal(g->dims->symbols.data[p].dflt, 8);
    }
}

// --- bounds of computed sizes ---

typedef struct BoundCase {
    const char *model; // with the inputs x (f32), v (i64)
    int64_t n, v[2];
    const char *option;         // a bound for the size, which is why nothing is assumed of v
    const char *type, *assumed; // of the result with the bound, and without
    int64_t over[2];            // values beyond the bound
} BoundCase;

// clang-format off
static const BoundCase bound_cases[] = {
    {"opset 13; in x f32 1; in v i64 -; init a i64 - = 0; init d i64 - = 1; node Range a,v,d -> y; out y",
     1, {5}, "range_0=8", "i64[range_0]", "i64[5]", {9}},
    {"opset 13; in x f32 1; in v i64 -; init a i64 - = 0; init d i64 - = 1; node Range a,v,d -> y;"
     "out y i64 hits", 1, {5}, "hits=8", "i64[hits]", "i64[5]", {9}},
    {"opset 13; in x f32 1; in v i64 1; node ConstantOfShape v -> y; out y",
     1, {2}, "constantofshape_0=4", "f32[constantofshape_0]", "f32[2]", {5}},
    {"opset 13; in x f32 1; in v i64 1; node Expand x,v -> y; out y",
     1, {3}, "expand_0=4", "f32[expand_0]", "f32[3]", {6}},
};
// clang-format on

static void test_bounds_before_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bound_cases / sizeof *bound_cases; i++) {
        const BoundCase *c = &bound_cases[i];
        const ImportValue value = {.name = "v", .value = ints(c->n, c->v), .is_list = true};
        ImportSize sizes[2] = {0};
        ImportOptions o = {.sizes = sizes, .values = &value, .n_values = 1};
        const Graph *g = import(c->model, &o);
        if (!g)
            fail_msg("%s: %s", c->model, diag.items.data[0].message);
        assert_string_equal(type_of(g, g->outputs.data[0].node), c->assumed);
        parse_option(c->option, sizes, &o.n_sizes, NULL, NULL);
        g = import(c->model, &o);
        if (!g)
            fail_msg("%s: %s", c->option, diag.items.data[0].message);
        assert_string_equal(type_of(g, g->outputs.data[0].node), c->type);
        const bool is_scalar = graph_node(g, g->inputs.data[1])->shape->rank == 0;
        const int64_t less[1] = {1};
        assert_true(runs_with(g, c->n, c->v, is_scalar) && runs_with(g, c->n, less, is_scalar));
        assert_false(runs_with(g, c->n, c->over, is_scalar));
    }
}

// Branches of different rank: both ends of a range take the same one, or the choice is open. A branch whose
// shapes do not fit is left out.
static void test_branches_by_range(void **state)
{
    (void)state;
    const char *squeezed =
        "opset 13; in x f32 n,2; init o i64 1 = 1; init z i64 1 = 0; node Shape x -> s;"
        "node Gather s,z -> d; node Equal d,o -> c; node If c -> y; begin then_branch;"
        "node Squeeze x,z -> p; out p; end; begin else_branch; node Neg x -> q; out q; end; out y";
    const char *misfit =
        "opset 13; in x f32 2,3; in c bool -; init a f32 3 = 1,2,3; init b f32 4 = 1,2,3,4;"
        "node If c -> y; begin then_branch; node Add x,b -> p; out p; end; begin else_branch;"
        "node Add x,a -> q; out q; end; out y";
    ImportSize range = {.name = "n", .min = 2, .value = 5, .is_range = true};
    const ImportOptions o = {.sizes = &range, .n_sizes = 1}, none = {0};
    const Graph *g = import(squeezed, &o);
    assert_non_null(g);
    assert_string_equal(type_of(g, g->outputs.data[0].node), "f32[n, 2]");
    range.min = 1;
    assert_null(import(squeezed, &o));
    assert_message(E0204, "of different rank (1 and 2), and sizes that are open decide which one is taken");
    assert_null(import(squeezed, &none));
    assert_message(E0204, "of different rank");
    g = import(misfit, &none);
    assert_non_null(g);
    assert_int_equal(g->checks.len, 1);
    assert_message(E0204, "only the else branch is compiled, and a run that takes the other one fails");
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, start, stop)

// A carried value that the body does not read may begin with another shape, but not where it becomes a row.
static void test_shapes_before_loops(void **state)
{
    (void)state;
    const char *late =
        "opset 13; in x f32 1,3; in t bool -; init n i64 - = 9; init a f32 3 = 1,2,3; node Loop n,t,a -> y,z;"
        "begin body; in i i64 -; in c bool -; in p f32 *; node Add x,x -> q; node Neg x -> r;"
        "out c; out q; out r; end; out y; out z";
    const char *row =
        "opset 13; in x f32 1,3; in t bool -; init n i64 - = 9; init a f32 3 = 1,2,3; node Loop n,t,a -> y,z;"
        "begin body; in i i64 -; in c bool -; in p f32 *; node Add x,x -> q; node Identity p -> r;"
        "out c; out q; out r; end; out y; out z";
    ImportSize most = {.name = "y", .value = 9};
    const ImportOptions o = {.sizes = &most, .n_sizes = 1};
    const Graph *g = import(late, &o);
    assert_non_null(g);
    assert_int_equal(g->checks.len, 1);
    assert_null(import(row, &o));
    assert_message(E0206, "the type or shape of the carried value 0 changes in every iteration");
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(values),       TEST(values_in_branches),
                                       TEST(wrong_values), TEST(promises),
                                       TEST(sizes),        TEST(bounds_before_values),
                                       TEST(branches_by_range), TEST(shapes_before_loops)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
