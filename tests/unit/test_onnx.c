// SPDX-License-Identifier: Apache-2.0
// ONNX import: operators by value in the forms of their opsets, how tensors are stored, symbolic sizes, what
// is refused and how, and files that are wrong on purpose.
#include "compiler/import/onnx/onnx.h"
#include "ir/eval/eval.h"
#include "ir/shape/verify.h"
#include "onnx_model.h"

#include <math.h>

static Arena arena;
static Diag diag;

static int start(void **state)
{
    (void)state;
    diag = diag_new(&arena);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    arena_free(&arena);
    return 0;
}

static Graph *import_bytes(const void *data, size_t len)
{
    Graph *g = NULL;
    const OnnxSource source = {.name = "model.onnx", .data = data, .len = len, .dir = ""};
    const bool ok = import_onnx_source(&arena, &diag, &source, &g);
    assert_int_equal(ok, diag.n_errors == 0);
    if (!ok)
        return NULL;
    const char *broken = graph_verify(g, STAGE_IMPORTED);
    if (broken)
        fail_msg("%s", broken);
    return g;
}

static Graph *import_text(const char *text)
{
    size_t len = 0;
    const uint8_t *data = onnx_model(&arena, text, &len);
    return import_bytes(data, len);
}

static Graph *import_good(const char *text)
{
    Graph *g = import_text(text);
    if (!g)
        fail_msg("%s: %s", text, diag.items.data[0].message);
    return g;
}

// --- values ---

// What the inputs of onnx_cases.def are filled with; named sizes are 2, unnamed ones 3.
static Tensor make_input(const Graph *g, NodeId id, DimValues symbols)
{
    const Node *n = graph_node(g, id);
    int64_t dim[SHAPE_MAX_RANK] = {0};
    for (uint32_t i = 0; i < n->shape->rank; i++)
        assert_true(dim_eval(g->dims, n->shape->dim[i], symbols, &dim[i]));
    Tensor t = tensor_new(&arena, (DType)n->dtype, n->shape->rank, dim);
    for (int64_t i = 0; i < t.numel; i++) {
        if (dtype_info[t.dtype].cls == DCLASS_FLOAT)
            tensor_set_f64(&t, i, (double)(i * 7 % 11 - 5) * 0.5);
        else
            tensor_set_i64(&t, i, t.dtype == DTYPE_bool ? i % 2 : i * 7 % 5);
    }
    return t;
}

static EvalRun evaluate(const Graph *g)
{
    int64_t *sizes = ARENA_ARRAY(&arena, int64_t, g->dims->symbols.len + 1);
    for (uint32_t i = 0; i < g->dims->symbols.len; i++)
        sizes[i] = strstr(g->dims->symbols.data[i].name, "_dim") ? 3 : 2;
    const DimValues symbols = {sizes, g->dims->symbols.len};
    EvalRun run = eval_begin(g, &arena, symbols);
    for (uint32_t i = 0; i < g->inputs.len; i++)
        run.value[g->inputs.data[i]] = make_input(g, g->inputs.data[i], symbols);
    if (!eval_graph(&run))
        fail_msg("%s", diag.items.data[0].message);
    return run;
}

static const char *type_text(const Tensor *t)
{
    Str s = str_new(&arena);
    const Shape shape = shape_of(t->rank, t->dim);
    shape_print(NULL, t->dtype, &shape, &s);
    return str_text(&s);
}

// "f32[2] 0.5 1" describes t, to a relative 1e-5 of its largest element.
static void check_tensor(const Tensor *t, const char *want, const char *what)
{
    const char *type = type_text(t), *values = want + strlen(type);
    if (strncmp(want, type, strlen(type)) != 0)
        fail_msg("%s: got %s, expected %s", what, type, want);
    double *wanted = ARENA_ARRAY(&arena, double, t->numel), largest = 1e-3;
    for (int64_t i = 0; i < t->numel; i++) {
        char *end = NULL;
        wanted[i] = strtod(values, &end);
        assert_true(end != values);
        values = end;
        if (isfinite(wanted[i]) && fabs(wanted[i]) > largest)
            largest = fabs(wanted[i]);
    }
    assert_int_equal(*values, 0);
    for (int64_t i = 0; i < t->numel; i++) {
        const double got = tensor_get_f64(t, i);
        const bool is_same = isnan(wanted[i]) ? isnan(got) != 0 : !(fabs(got - wanted[i]) > 1e-5 * largest);
        if (!is_same || isnan(got) != isnan(wanted[i]))
            fail_msg("%s: element %lld is %.9g, expected %.9g", what, (long long)i, got, wanted[i]);
    }
}

typedef struct Case {
    const char *group, *model, *want;
} Case;

static const Case cases[] = {
#define CASE(group, model, want) {#group, model, want},
#include "onnx_cases.def"
#undef CASE
};

static void check_case(const Case *c)
{
    Graph *g = import_good(c->model);
    EvalRun run = evaluate(g);
    const Pieces wanted = split(&arena, c->want, ';');
    assert_int_equal(g->outputs.len, wanted.n);
    for (uint32_t i = 0; i < wanted.n; i++)
        check_tensor(&run.value[g->outputs.data[i].node], wanted.at[i],
                     arena_printf(&arena, "%s: output '%s'", c->model, g->outputs.data[i].name));
}

static void check_group(const char *group)
{
    uint32_t found = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].group, group) == 0) {
            check_case(&cases[i]);
            found++;
        }
    }
    assert_true(found > 0);
}

#define GROUP_TEST(group)                                                                                    \
    static void test_##group(void **state)                                                                   \
    {                                                                                                        \
        (void)state;                                                                                         \
        check_group(#group);                                                                                 \
    }
GROUP_TEST(broadcast)
GROUP_TEST(activations)
GROUP_TEST(reduce)
GROUP_TEST(norm)
GROUP_TEST(matmul)
GROUP_TEST(window)
GROUP_TEST(resize)
GROUP_TEST(shape)
GROUP_TEST(move)
GROUP_TEST(scatter)
GROUP_TEST(rnn)
GROUP_TEST(loop)
GROUP_TEST(scan)
GROUP_TEST(make)
GROUP_TEST(flow)
GROUP_TEST(sizes)
GROUP_TEST(microsoft)
GROUP_TEST(sequence)
GROUP_TEST(function)
GROUP_TEST(text)
GROUP_TEST(quant)
GROUP_TEST(sample)
GROUP_TEST(rearrange)
GROUP_TEST(attention)

// Before opset 7 the second operand was aligned by an attribute.
static void test_legacy_broadcast(void **state)
{
    (void)state;
    check_case(&(Case){
        "", "opset 6; in x f32 2,3,2; init y f32 3 = 1,2,3; node Add x,y -> z broadcast=1 axis=1; out z",
        "f32[2, 3, 2] -1.5 2 1 4.5 3.5 1.5 3 1 0 3.5 2.5 0.5"});
}

// --- tensors ---

static void test_tensor_storage(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"f32 3 = 0.5,-1,2", "f32[3] 0.5 -1 2"},
        {"f64 2 = 0.5,-1", "f64[2] 0.5 -1"},
        {"f16 3 = 0.5,-1,2", "f16[3] 0.5 -1 2"},
        {"bf16 2 = 0.5,-2", "bf16[2] 0.5 -2"},
        {"i64 2 = -5,7", "i64[2] -5 7"},
        {"i32 2 = -5,7", "i32[2] -5 7"},
        {"i16 2 = -300,7", "i16[2] -300 7"},
        {"i8 2 = -5,7", "i8[2] -5 7"},
        {"u64 1 = 5", "u64[1] 5"},
        {"u32 2 = 4000000000,1", "u32[2] 4000000000 1"},
        {"u16 2 = 65535,1", "u16[2] 65535 1"},
        {"u8 2 = 200,1", "u8[2] 200 1"},
        {"bool 3 = 0,1,1", "bool[3] 0 1 1"},
        {"f8e4m3fn 3 = 0.5,-448,2", "f8e4m3fn[3] 0.5 -448 2"},
        {"f8e5m2 2 = 57344,-0.25", "f8e5m2[2] 57344 -0.25"},
        {"f8e8m0 2 = 0.5,4", "f8e8m0[2] 0.5 4"},
        {"f4e2m1 3 = 0.5,-6,3", "f4e2m1[3] 0.5 -6 3"},
        {"i4 5 = -8,7,-1,0,3", "i4[5] -8 7 -1 0 3"},
        {"u4 2 = 15,9", "u4[2] 15 9"},
        {"i2 5 = -2,1,-1,0,1", "i2[5] -2 1 -1 0 1"},
        {"u2 4 = 3,0,2,1", "u2[4] 3 0 2 1"},
        {"f32 -  = 3", "f32[] 3"},
        {"f32 0,2", "f32[0, 2]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *values = arena_printf(&arena, "%s", rows[i][0]);
        check_case(&(Case){"", arena_printf(&arena, "opset 13; init w %s; out w", values), rows[i][1]});
        check_case(&(Case){"", arena_printf(&arena, "opset 13; raw w %s; out w", values), rows[i][1]});
    }
}

// Initializers that are listed as inputs too, as in old models, are constants.
static void test_initializer_is_input(void **state)
{
    (void)state;
    Graph *g = import_good("opset 8; in w f32 2; in x f32 2; init w f32 2 = 1,2; node Add x,w -> z; out z");
    assert_int_equal(g->inputs.len, 1);
    assert_string_equal(node_name(g, g->inputs.data[0]), "x");
}

// --- names and sizes ---

static const char *output_type(const Graph *g, uint32_t i)
{
    const Node *n = graph_node(g, g->outputs.data[i].node);
    Str s = str_new(&arena);
    shape_print(g->dims, (DType)n->dtype, n->shape, &s);
    return str_text(&s);
}

static void test_names(void **state)
{
    (void)state;
    Graph *g = import_good("opset 13; in x f32 2; node Exp x -> a name=first; node Neg a -> b; out b; out a");
    assert_string_equal(g->outputs.data[0].name, "b");
    assert_string_equal(g->outputs.data[1].name, "a");
    assert_string_equal(node_name(g, g->outputs.data[0].node), "b");
    assert_string_equal(node_name(g, g->outputs.data[1].node), "first");
    assert_string_equal(node_span(g, g->outputs.data[1].node).path, "first");
}

static void test_symbols(void **state)
{
    (void)state;
    Graph *g = import_good(
        "opset 13; in x f32 batch,?,past+1,-1,4; in y f32 batch,1,past,1,1; node Neg x -> z; out z");
    assert_string_equal(output_type(g, 0), "f32[batch, x_dim1, past + 1, x_dim3, 4]");
    const Symbol *batch = &g->dims->symbols.data[dim_find_symbol(g->dims, "batch")];
    assert_int_equal(batch->min, 1);
    assert_int_equal(batch->max, 1 << 20);
    g = import_good("opset 13; in x f32 odd$name; node Neg x -> z; out z");
    assert_true(dim_find_symbol(g->dims, "odd$name") >= 0);
}

// Sizes that are given at import decide what a symbol leaves open.
static void test_given_sizes(void **state)
{
    (void)state;
    size_t len = 0;
    Graph *g = NULL;
    const char *text =
        "opset 13; in x f32 n,2; init o i64 1 = 1; init z i64 1 = 0; node Shape x -> s;"
        "node Gather s,z -> d; node Equal d,o -> c; node If c -> y; begin then_branch;"
        "node Squeeze x,z -> p; out p; end; begin else_branch; node Neg x -> q; out q; end; out y";
    const uint8_t *data = onnx_model(&arena, text, &len);
    OnnxSource source = {.name = "m",
                         .data = data,
                         .len = len,
                         .dir = "",
                         .options = {.sizes = &(ImportSize){.name = "n", .value = 1}, .n_sizes = 1}};
    assert_true(import_onnx_source(&arena, &diag, &source, &g));
    assert_string_equal(output_type(g, 0), "f32[2]");
    source.options.sizes = &(ImportSize){.name = "n", .value = 5};
    assert_true(import_onnx_source(&arena, &diag, &source, &g));
    assert_string_equal(output_type(g, 0), "f32[5, 2]");
    source.options.n_sizes = 0;
    assert_false(import_onnx_source(&arena, &diag, &source, &g)); // branches of different rank
    source.options.n_sizes = 1;
    source.options.sizes = &(ImportSize){.name = "n", .value = -1};
    assert_false(import_onnx_source(&arena, &diag, &source, &g));
}

// Shape arithmetic leaves no nodes behind.
static void test_sizes_are_folded(void **state)
{
    (void)state;
    Graph *g = import_good("opset 13; in x f32 n,3,4; init z i64 1 = 0; init m i64 1 = -1; node Shape x -> s;"
                           "node Gather s,z -> b; node Concat b,m -> t axis=0; node Reshape x,t -> y; out y");
    Graph *used = graph_compact(g, NULL);
    assert_int_equal(used->nodes.len, 3); // none, x, reshape
    assert_string_equal(output_type(used, 0), "f32[n, 12]");
}

// --- what is refused ---

typedef struct Refusal {
    const char *model;
    DiagCode code;
    const char *path, *message; // part of the message
} Refusal;

static const Refusal refusals[] = {
    {"opset 11; in x f32 2; node Foo x -> y name=conv_3; out y", E0206, "conv_3",
     "node 'conv_3': operator 'Foo' (domain 'ai.onnx', opset 11) is not supported"},
    {"opset 11; in x f32 2; node NoSuchOp x -> y domain=com.microsoft; out y", E0206, "y",
     "operator 'NoSuchOp' (domain 'com.microsoft', opset 0)"},
    {"opset 13; function f x -> y -; node g x -> y domain=test; end; function g x -> y -; node f x -> y "
     "domain=test; end; in x f32 2; node f x -> y domain=test; out y",
     E0106, "y/y/y", "the function calls itself"},
    {"opset 13; function f x -> y -; node Relu x -> y; end; in x f32 2; node f x,x -> y domain=test; out y",
     E0202, "y", "2 inputs and 1 outputs, but the function has 1 and 1"},
    {"opset 13; in x f32 2; node SequenceConstruct x -> s; node Relu s -> y; out y", E0205, "y",
     "input 0 ('s') is a sequence, which this operator does not take"},
    {"opset 13; in x f32 2; in z i64 2; node SequenceConstruct x,z -> s; out s", E0205, "s",
     "a tensor of i64 does not fit a sequence of f32"},
    {"opset 13; in x f32 2; init i i64 - = 1; node SequenceConstruct x -> s; node SequenceAt s,i -> y; out y",
     E0203, "y", "there is no such position in a sequence of 1 elements"},
    {"opset 13; in x f32 6; in z i64 -; node NonZero x -> p; node SplitToSequence p -> s axis=1 keepdims=0; "
     "node SequenceInsert s,z -> y; out y",
     E0207, "y", "input 0: the number of tensors in this sequence must be known"},
    {"opset 13; in x f32 6; node NonZero x -> p; node SplitToSequence p -> s axis=1 keepdims=0; out s", E0206,
     "s", "a sequence is used where only tensors are supported"},
    {"opset 13; in x f32 6; in c bool -; node NonZero x -> p; node SplitToSequence p -> s axis=1 keepdims=0; "
     "node If c -> y; begin then_branch; node SequenceErase s -> r; out r; end; begin else_branch; "
     "node SequenceErase s -> r; out r; end; out y",
     E0207, "r", "the number of tensors in this sequence must be known"},
    {"opset 13; in x f32 6; in c bool -; node If c -> y; begin then_branch; node NonZero x -> p; "
     "node SplitToSequence p -> r axis=1 keepdims=0; out r; end; begin else_branch; node NonZero x -> p; "
     "node SplitToSequence p -> r axis=1 keepdims=0; out r; end; out y",
     E0206, "y", ""},
    {"opset 18; node Optional - -> o; node OptionalGetElement o -> y; out y", E0204, "y",
     "the optional has no value"},
    {"opset 13; node Constant - -> s value_strings=[a,b]; node Relu s -> y; out y", E0205, "y",
     "input 0 ('s') is a tensor of strings, which this operator does not take"},
    {"opset 20; node Constant - -> s value_strings=[a,b]; node RegexFullMatch s -> y pattern=a(; out y",
     E0206, "y", "the pattern is not supported: a group ( is not closed"},
    {"opset 20; in x u8 9; node ImageDecoder x -> y; out y", E0206, "y",
     "generated code has no codecs for image files"},
    {"opset 11; in x f32 2; node Gelu x -> y; out y", E0206, "y", "(domain 'ai.onnx', opset 11)"}, // since 20
    {"opset 10; in x f32 2; node Upsample x -> y; out y", E0206, "y", "opset 10"},                 // until 9
    {"opset 13; in x f32 2; node Relu x -> y color=3; out y", E0206, "y",
     "attribute 'color' is not supported"},
    {"opset 13; in x f32 2; node Relu x,x -> y; out y", E0206, "y", "input 1 ('x') is not supported"},
    {"opset 13; in x f32 2; node Relu x -> y,z; out y", E0206, "y", "output 1 ('z') is not supported"},
    {"opset 13; in x f32 2; node Relu - -> y; out y", E0202, "y", "input 0 is missing"},
    {"opset 13; in x f32 2; node Add x,u -> y; out y", E0103, "y", "the value 'u'"},
    {"opset 13; in x f32 2; node Add b,x -> a; node Add a,x -> b; out b", E0106, "a", "a cycle"},
    {"opset 13; in x f32 2; node Neg x -> y; node Exp x -> y; out y", E0104, "y", "'y' is defined twice"},
    {"opset 13; in x f32 2; node Neg x -> y; out u", E0103, "u", "the value 'u'"},
    {"opset 13; in x f32 2; node Neg x -> y", E0106, "", "no outputs"},
    {"opset 13; in x f32 2; out x; out x", E0104, "x", "two outputs"},
    {"opset 13; in x f32 2,-7; out x", E0106, "x", "axis 1 has the size -7; expected a size from 0"},
#include "onnx_hostile.def"
    {"opset 13; in x f32 1,1,1,1,1,1,1,1,1; out x", E0206, "x", "9 axes"},
    {"opset 13; in x f32 2,3; in y f32 4; node Add x,y -> z; out z", E0204, "z", "do not broadcast"},
    {"opset 13; in x f32 2; in y i32 2; node Add x,y -> z; out z", E0205, "z", "different element types"},
    {"opset 13; in x f32 2,3; in s i64 2; node Reshape x,s -> z; out z", E0206, "z",
     "give the values with --value s=..."},
    {"opset 13; in x f32 n,3; init s i64 1 = 2; node Split x,s -> z; out z", E0207, "z",
     "the size of axis 0 is n"},
    {"opset 13; in x f32 2; node Concat x -> z; out z", E0203, "z", "needs the attribute 'axis'"},
    {"opset 13; in x f32 2; node Concat x -> z axis=0.5; out z", E0203, "z", "'axis' must be a whole number"},
    {"opset 13; in x f32 2; node Cast x -> z to=14; out z", E0206, "z", "element type complex64"},
    {"opset 13; in x f32 2; node Cast x -> z to=-1; out z", E0206, "z", "element type"},
    {"opset 13; in x f32 2,2; node Transpose x -> z perm=[1]; out z", E0203, "z", "'perm' has 1 entries"},
    {"opset 13; in x f32 2,2; node Transpose x -> z perm=[0,0]; out z", E0203, "", "perm"},
    {"opset 13; in x f32 1,1,4; in w f32 1,1,2; node Conv x,w -> z kernel_shape=[3]; out z", E0204, "z",
     "kernel_shape"},
    {"opset 13; in x f32 1,1,4; node MaxPool x -> z kernel_shape=[0]; out z", E0203, "z",
     "must be from 1 to"},
    {"opset 13; in x f32 1,1,4; node MaxPool x -> z; out z", E0203, "z", "'kernel_shape'"},
    {"opset 13; in x f32 4; init w f32 3 = 1,2; out x", E0106, "w",
     "has 2 elements of data, but its shape needs 3"},
    {"opset 13; in x f32 4; raw w f32 3 = 1,2; out x", E0106, "w",
     "has 8 bytes of data, but its type needs 12"},
    {"opset 13; in x f32 4; init w f32 -3 = 1,2; out x", E0106, "w", "negative size"},
    {"opset 13; in x f32 4; raw w f32 4000000000,4000000000,4000000000 = 1; out x", E0004, "w", "more than"},
    {"opset 13; in x f32 2; init s i64 1 = 1099511627776; node Expand x,s -> y; out y", E0204, "y",
     "broadcast"},
    {"opset 13; init x f32 1 = 0; init s i64 2 = 1099511627776,1099511627776; node Expand x,s -> y; out y",
     E0004, "y", ""},
    {"opset 13; in c bool -; in x f32 2; node If c -> z; out z", E0203, "z", "'then_branch'"},
    {"opset 7; in x f32 3,1,2; in w f32 1,8,2; in r f32 1,8,2; node LSTM x,w,r -> y "
     "activations=[Gelu,Tanh,Tanh]; out y",
     E0206, "y", "activation 'Gelu'"},
    {"opset 14; in x f32 3,1,2; in w f32 1,2,2; in r f32 1,2,2; in b f32 1,3; node RNN x,w,r,b -> y; out y",
     E0204, "y", "operand 3"},
    {"opset 11; in x f32 3,1,2; in w i8 1,2,8; in r i8 1,2,8; in s f32 3; node DynamicQuantizeLSTM "
     "x,w,r,_,_,_,_,_,s,_,s -> y domain=com.microsoft; out y",
     E0204, "y", "input 8 must have a number for each direction"},
    {"opset 13; in x f32 2; in n i64 -; node Loop n,_,x -> y; begin body; in i i64 -; in c bool -; in a f32 "
     "*;node Concat a,x -> b axis=0; out c; out b; end; out y",
     E0206, "y", "input 0 ('n')"},
    {"opset 13; in x f32 2; in n i64 -; node Loop n,_,x -> y,r; begin body; in i i64 -; in c bool -;"
     "in a f32 2; node Exp a -> b; out c; out b; out b; end; out y; out r",
     E0206, "y", "input 0 ('n')"},
    {"opset 13; in x f32 2; init n i64 - = 3; node Loop n,_,x -> y; begin body; in i i64 -; in c bool -; out "
     "c;end; out y",
     E0106, "y", "the body has 2 inputs, expected 3"},
    {"opset 13; in x f32 2; init n i64 - = 1099511627776; node Loop n,_,x -> y; begin body; in i i64 -;"
     "in c bool -; in a f32 *; node Concat a,x -> b axis=0; out c; out b; end; out y",
     E0206, "y", "the carried value 0 changes"},
    {"opset 9; in x f32 3,2; node Scan x -> y num_scan_inputs=2; begin body; in a f32 2; out a; end; out y",
     E0203, "y", "'num_scan_inputs' is 2"},
    {"opset 9; in x f32 3,2; in z f32 4,2; node Scan x,z -> y num_scan_inputs=2; begin body; in a f32 2;"
     "in b f32 2; node Add a,b -> d; out d; end; out y",
     E0204, "y", "not equally long"},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const Refusal *r = &refusals[i];
        diag = diag_new(&arena);
        if (import_text(r->model))
            fail_msg("accepted: %s", r->model);
        const DiagItem *item = &diag.items.data[0];
        const char *path = item->span.path ? item->span.path : "";
        if (item->code != r->code || !strstr(item->message, r->message) ||
            (r->path[0] && strcmp(path, r->path) != 0))
            fail_msg("%s: got %s at '%s': %s", r->model, diag_code_text(item->code), path, item->message);
    }
}

// Every unsupported operator is named once, also behind values that could not be made; other errors are not
// hidden.
static void test_all_unsupported(void **state)
{
    (void)state;
    assert_null(
        import_text("opset 13; in x f32 2; in c bool -; node Foo x -> a; node Relu a -> b; node Bar b -> d;"
                    "node Foo d -> e; node Add x,u -> f; node If e -> g; begin then_branch;"
                    "node Baz x -> p; out p; end; begin else_branch; node Neg x -> q; out q; end; out g"));
    assert_int_equal(diag.n_errors, 4);
    assert_non_null(strstr(diag.items.data[0].message, "'Foo'"));
    assert_non_null(strstr(diag.items.data[1].message, "'Bar'"));
    assert_non_null(strstr(diag.items.data[2].message, "'u'"));
    assert_non_null(strstr(diag.items.data[3].message, "'Baz'"));
}

// --- bytes ---

static void test_no_model(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
        const char *message;
    } rows[] = {
        {"", 0, "the file has no graph"},
        {"hello world", 11, "not a serialized ModelProto"},
        {"\x3a\x05\x0a", 3, "a field is longer than the message"},
        {"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, "more than 10 bytes"},
        {"\x08", 1, "cut off"},
        {"\x00\x01", 2, "a number that protobuf does not allow"},
        {"\x0b", 1, "a type that protobuf does not have"},
        {"\x38\x01", 2, "another type than ONNX says"},
        {"\x12\x03"
         "a\0b",
         5, "zero byte"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        diag = diag_new(&arena);
        assert_null(import_bytes(rows[i].bytes, rows[i].len));
        if (!strstr(diag.items.data[0].message, rows[i].message))
            fail_msg("row %zu: %s", i, diag.items.data[0].message);
    }
}

// Graphs in attributes in nodes in graphs, as deep as a length of two bytes allows and far beyond.
static void test_deep_nesting(void **state)
{
    (void)state;
    enum { LEVELS = 4000, SIZE = 1 << 17 };
    static const uint8_t tags[] = {0x32, 0x2a,
                                   0x0a}; // AttributeProto.g, NodeProto.attribute, GraphProto.node
    uint8_t *bytes = arena_alloc(&arena, SIZE);
    size_t at = SIZE;
    for (uint32_t i = 0; i < 3 * LEVELS; i++) {
        const size_t len = SIZE - at;
        bytes[--at] = (uint8_t)(len >> 14);
        bytes[--at] = (uint8_t)(0x80 | (len >> 7 & 0x7f));
        bytes[--at] = (uint8_t)(0x80 | (len & 0x7f));
        bytes[--at] = tags[i % 3];
    }
    const size_t len = SIZE - at;
    bytes[--at] = (uint8_t)(len >> 14);
    bytes[--at] = (uint8_t)(0x80 | (len >> 7 & 0x7f));
    bytes[--at] = (uint8_t)(0x80 | (len & 0x7f));
    bytes[--at] = 0x3a; // ModelProto.graph
    assert_null(import_bytes(bytes + at, SIZE - at));
    assert_non_null(strstr(diag.items.data[0].message, "nested too deep"));
}

// Two bytes of an empty message take a hundred in memory: that must have an end.
static void test_memory_limit(void **state)
{
    (void)state;
    enum { SIZE = 4 << 20 };
    uint8_t *bytes = arena_alloc(&arena, SIZE);
    for (size_t i = 0; i < SIZE; i += 2)
        bytes[i] = 0xa2 & 0x7f; // field 4 of unknown use, without content
    bytes[0] = 0x3a;
    const size_t len = SIZE - 5;
    for (size_t i = 0; i < 4; i++)
        bytes[1 + i] = (uint8_t)((i < 3 ? 0x80 : 0) | (len >> 7 * i & 0x7f));
    for (size_t i = 5; i + 1 < SIZE; i += 2) {
        bytes[i] = 0x0a; // GraphProto.node
        bytes[i + 1] = 0;
    }
    bytes[SIZE - 1] = 0;
    const size_t before = arena.used;
    assert_null(import_bytes(bytes, SIZE - 1));
    assert_true(arena.used - before < 128u << 20);
}

// Every prefix of a good model is refused, or is a model.
static void test_cut_off(void **state)
{
    (void)state;
    size_t len = 0;
    const uint8_t *data =
        onnx_model(&arena, "opset 13; in x f32 2,n; init w f32 2,1 = 1,2; node Add x,w -> z; out z", &len);
    assert_true(len > 60);
    for (size_t i = 0; i < len; i++) {
        diag = diag_new(&arena);
        uint8_t *copy = malloc(i + 1); // so that a sanitizer sees a read behind the end
        memcpy(copy, data, i);
        import_bytes(copy, i);
        free(copy);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(broadcast),
        TEST(activations),
        TEST(reduce),
        TEST(norm),
        TEST(matmul),
        TEST(window),
        TEST(resize),
        TEST(shape),
        TEST(move),
        TEST(scatter),
        TEST(rnn),
        TEST(loop),
        TEST(scan),
        TEST(make),
        TEST(flow),
        TEST(sizes),
        TEST(microsoft),
        TEST(sequence),
        TEST(function),
        TEST(text),
        TEST(sample),
        TEST(rearrange),
        TEST(attention),
        TEST(quant),
        TEST(legacy_broadcast),
        TEST(tensor_storage),
        TEST(initializer_is_input),
        TEST(names),
        TEST(symbols),
        TEST(given_sizes),
        TEST(sizes_are_folded),
        TEST(refusals),
        TEST(all_unsupported),
        TEST(no_model),
        TEST(deep_nesting),
        TEST(memory_limit),
        TEST(cut_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
