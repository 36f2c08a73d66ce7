// SPDX-License-Identifier: Apache-2.0
// Evaluating whole graphs: leaves and what callers give for them, several results, sub-graphs, symbols, and
// the limits that keep a graph from eating memory or time.
#include "ir/eval/eval_work.h"
#include "value_cases.h"

static Tensor floats(Fixture *f, uint32_t n, const double *v)
{
    Tensor t = tensor_new(&f->arena, DTYPE_f32, 1, (const int64_t[]){n});
    for (uint32_t i = 0; i < n; i++)
        tensor_set_f64(&t, i, v[i]);
    return t;
}

static const char *output_text(Fixture *f, const EvalRun *run, uint32_t i)
{
    return elements_text(f, &run->value[run->g->outputs.data[i].node]);
}

static void leaves_take_what_is_given_or_their_init(void **state)
{
    Fixture *f = *state;
    const Graph *g = parse_graph(f, "graph \"g\" {\n"
                                    "  %1 = input \"x\" : f32[2]\n"
                                    "  %2 = param \"p\" : f32[2] = {10.0, 20.0}\n"
                                    "  %3 = state \"s\" : f32[2]\n"
                                    "  %4 = add(%1, %2) : f32[2]\n"
                                    "  %5 = add(%4, %3) : f32[2]\n"
                                    "  %6 = exp(%1) : f32[2]\n"
                                    "  state %3 -> %5\n"
                                    "  output \"y\" = %4\n"
                                    "}\n");
    EvalRun run = eval_begin(g, &f->arena, (DimValues){0});
    run.value[1] = floats(f, 2, (const double[]){1, 2});
    assert_true(eval_graph(&run));
    assert_string_equal(output_text(f, &run, 0), "11.0 22.0");
    assert_string_equal(elements_text(f, &run.value[g->states.data[0].next]), "11.0 22.0");
    assert_null(run.value[6].data); // nothing needs it

    EvalRun again = eval_begin(g, &f->arena, (DimValues){0});
    again.value[1] = floats(f, 2, (const double[]){1, 2});
    again.value[2] = floats(f, 2, (const double[]){0, 0});
    again.value[3] = run.value[5];
    assert_true(eval_graph(&again));
    assert_string_equal(output_text(f, &again, 0), "1.0 2.0");
    assert_string_equal(elements_text(f, &again.value[5]), "12.0 24.0");
}

static void wrong_inputs_are_reported(void **state)
{
    Fixture *f = *state;
    const Graph *g = parse_graph(f, "graph \"g\" {\n"
                                    "  %1 = input \"x\" : f32[2]\n"
                                    "  %2 = neg(%1) : f32[2]\n"
                                    "  output \"y\" = %2\n"
                                    "}\n");
    EvalRun run = eval_begin(g, &f->arena, (DimValues){0});
    assert_false(eval_graph(&run));
    assert_error(f, E0402, "x: no value was given");
    run.value[1] = floats(f, 3, (const double[]){1, 2, 3});
    assert_false(eval_graph(&run));
    assert_error(f, E0402, "x: the value has another type or shape");
    run.value[1] = tensor_new(&f->arena, DTYPE_i32, 1, (const int64_t[]){2});
    assert_false(eval_graph(&run));
    assert_error(f, E0402, "x: the value has another type or shape");
}

static void checks_must_hold(void **state)
{
    Fixture *f = *state;
    const Graph *g = parse_graph(f, "graph \"g\" {\n"
                                    "  %1 = input \"x\" : f32[2]\n"
                                    "  %2 = input \"flag\" : bool[]\n"
                                    "  %3 = if(%2, %1) {then = graph \"then\" {\n"
                                    "    %1 = input \"a\" : f32[2]\n"
                                    "    %2 = reduce_min(%1) : f32[]\n"
                                    "    %3 = const : f32[] = {0.0}\n"
                                    "    %4 = ge(%2, %3) : bool[]\n"
                                    "    output \"y\" = %1\n"
                                    "    check %4 \"no element may be negative\"\n"
                                    "  }, else = graph \"else\" {\n"
                                    "    %1 = input \"a\" : f32[2]\n"
                                    "    output \"y\" = %1\n"
                                    "  }} : f32[2]\n"
                                    "  output \"y\" = %3\n"
                                    "}\n");
    for (int flag = 0; flag <= 1; flag++) {
        EvalRun run = eval_begin(g, &f->arena, (DimValues){0});
        run.value[1] = floats(f, 2, (const double[]){1, -2});
        run.value[2] = tensor_new(&f->arena, DTYPE_bool, 0, NULL);
        tensor_set_i64(&run.value[2], 0, flag);
        assert_int_equal(eval_graph(&run), !flag); // a check of a branch that is not taken says nothing
    }
    assert_error(f, E0403, "no element may be negative");
}

// What a branch holds counts, before anybody evaluates it.
static void work_of_branches_counts(void **state)
{
    Fixture *f = *state;
    const Graph *g = parse_graph(f, "graph \"g\" {\n"
                                    "  %1 = input \"x\" : f32[2]\n"
                                    "  %2 = input \"flag\" : bool[]\n"
                                    "  %3 = if(%2, %1) {then = graph \"then\" {\n"
                                    "    %1 = input \"a\" : f32[2]\n"
                                    "    %2 = const : i64[] = {1000000000}\n"
                                    "    %3 = const : bool[] = {true}\n"
                                    "    %4 = loop(%2, %3, %1) {body = graph \"body\" {\n"
                                    "      %1 = input \"i\" : i64[]\n"
                                    "      %2 = input \"go\" : bool[]\n"
                                    "      %3 = input \"s\" : f32[2]\n"
                                    "      %4 = neg(%3) : f32[2]\n"
                                    "      output \"go\" = %2\n"
                                    "      output \"s\" = %4\n"
                                    "    }, carried = 1} : (f32[2], i64[])\n"
                                    "    output \"y\" = %4\n"
                                    "  }, else = graph \"else\" {\n"
                                    "    %1 = input \"a\" : f32[2]\n"
                                    "    output \"y\" = %1\n"
                                    "  }} : f32[2]\n"
                                    "  output \"y\" = %3\n"
                                    "}\n");
    assert_true(eval_work(g, 3, INT64_MAX) > UINT64_C(1000000000));
}

static void all_results_can_be_read(void **state)
{
    Fixture *f = *state;
    const Graph *g =
        parse_graph(f, "graph \"g\" {\n"
                       "  %1 = const : i8[2, 3] = {1, 2, 3, 4, 5, 6}\n"
                       "  %2 = split(%1) {axis = 1, sizes = [1, 0, 2]} : (i8[2, 1], i8[2, 0], i8[2, 2])\n"
                       "  %3 = result(%2) {index = 1} : i8[2, 0]\n"
                       "  %4 = result(%2) {index = 2} : i8[2, 2]\n"
                       "  output \"a\" = %2\n"
                       "  output \"b\" = %3\n"
                       "  output \"c\" = %4\n"
                       "}\n");
    EvalRun run = eval_begin(g, &f->arena, (DimValues){0});
    assert_true(eval_graph(&run));
    assert_string_equal(output_text(f, &run, 0), "1 4");
    assert_string_equal(output_text(f, &run, 1), "");
    assert_string_equal(output_text(f, &run, 2), "2 3 5 6");
}

static const char if_text[] = "graph \"g\" {\n"
                              "  %%1 = const : bool[] = {%s}\n"
                              "  %%2 = const : f32[2] = {1.0, 2.0}\n"
                              "  %%3 = if(%%1, %%2) {then = graph \"yes\" {\n"
                              "    %%1 = input \"x\" : f32[2]\n"
                              "    %%2 = neg(%%1) : f32[2]\n"
                              "    output \"a\" = %%2\n"
                              "    output \"b\" = %%1\n"
                              "  }, else = graph \"no\" {\n"
                              "    %%1 = input \"x\" : f32[2]\n"
                              "    %%2 = const : f32[2] = {7.0, 7.0}\n"
                              "    output \"a\" = %%1\n"
                              "    output \"b\" = %%2\n"
                              "  }} : (f32[2], f32[2])\n"
                              "  %%4 = result(%%3) {index = 1} : f32[2]\n"
                              "  output \"a\" = %%3\n"
                              "  output \"b\" = %%4\n"
                              "}\n";

static void if_runs_one_branch(void **state)
{
    Fixture *f = *state;
    EvalRun yes =
        eval_begin(parse_graph(f, arena_printf(&f->arena, if_text, "true")), &f->arena, (DimValues){0});
    assert_true(eval_graph(&yes));
    assert_string_equal(output_text(f, &yes, 0), "-1.0 -2.0");
    assert_string_equal(output_text(f, &yes, 1), "1.0 2.0");
    EvalRun no =
        eval_begin(parse_graph(f, arena_printf(&f->arena, if_text, "false")), &f->arena, (DimValues){0});
    assert_true(eval_graph(&no));
    assert_string_equal(output_text(f, &no, 0), "1.0 2.0");
    assert_string_equal(output_text(f, &no, 1), "7.0 7.0");
}

static const char symbolic_text[] = "graph \"g\" {\n"
                                    "  symbol t [0, 64]\n"
                                    "  %1 = input \"x\" : f32[1, 1, t]\n"
                                    "  %2 = const : f32[1, 1, 2] = {1.0, 1.0}\n"
                                    "  %3 = conv(%1, %2) : f32[1, 1, t - 1]\n"
                                    "  output \"y\" = %3\n"
                                    "}\n";

static void symbols_get_values(void **state)
{
    Fixture *f = *state;
    const Graph *g = parse_graph(f, symbolic_text);
    EvalRun run = eval_begin(g, &f->arena, (DimValues){(const int64_t[]){3}, 1});
    run.value[1] = floats(f, 3, (const double[]){1, 2, 3});
    run.value[1].rank = 3;
    memcpy(run.value[1].dim, (const int64_t[]){1, 1, 3}, 3 * sizeof(int64_t));
    assert_true(eval_graph(&run));
    assert_string_equal(output_text(f, &run, 0), "3.0 5.0");

    EvalRun unknown = eval_begin(g, &f->arena, (DimValues){0});
    assert_false(eval_graph(&unknown));
    assert_error(f, E0207, "x: a size depends on a dimension without a value");

    EvalRun negative = eval_begin(g, &f->arena, (DimValues){(const int64_t[]){0}, 1});
    negative.value[1] = tensor_new(&f->arena, DTYPE_f32, 3, (const int64_t[]){1, 1, 0});
    assert_false(eval_graph(&negative));
    assert_error(f, E0208, "a size is negative");
}

// What the shape rules cannot see on symbols is checked on the numbers.
static void late_misfits_are_reported(void **state)
{
    Fixture *f = *state;
    const Graph *g = parse_graph(f, "graph \"g\" {\n"
                                    "  symbol n [0, 64]\n"
                                    "  %1 = input \"x\" : f32[n]\n"
                                    "  %2 = const : f32[2] = {1.0, 1.0}\n"
                                    "  %3 = const : i32[] = {0}\n"
                                    "  %4 = update_slice(%1, %2, %3) : f32[n]\n"
                                    "  %5 = gather(%1, %3) : f32[]\n"
                                    "  %6 = argmax(%1) : i64[]\n"
                                    "  %7 = reshape(%1) {shape = [-1, 2]} : f32[floor(n / 2), 2]\n"
                                    "  output \"a\" = %4\n"
                                    "  output \"b\" = %5\n"
                                    "  output \"c\" = %6\n"
                                    "  output \"d\" = %7\n"
                                    "}\n");
    static const char *const parts[] = {"the patch is larger", "no element to gather", "no element to find",
                                        "1 elements cannot take a shape of 0"};
    static const int64_t sizes[] = {1, 0, 0, 1};
    for (uint32_t i = 0; i < 4; i++) {
        Graph one = *g;
        one.outputs.data = g->outputs.data + i;
        one.outputs.len = 1;
        EvalRun run = eval_begin(&one, &f->arena, (DimValues){&sizes[i], 1});
        run.value[1] = tensor_new(&f->arena, DTYPE_f32, 1, &sizes[i]);
        assert_false(eval_graph(&run));
        assert_error(f, E0204, parts[i]);
    }
}

static const Value oversized[] = {
    {"f32[] = {0.0}", "expand(%1) {shape = [65536, 65536]} : f32[65536, 65536]", "over the 4 GiB"},
    {"f32[] = {0.0}", "expand(%1) {shape = [1099511627776]} : f32[1099511627776]", "over the 4 GiB"},
    // 2^21 windows of 2^20 elements.
    {"f32[1, 1, 1] = {0.0}",
     "max_pool(%1) {kernel = [1048577], pads = [1048576, 1048576]} : f32[1, 1, 1048577]", "too much"},
};

static void sizes_and_work_are_limited(void **state)
{
    Fixture *f = *state;
    for (size_t i = 0; i < sizeof oversized / sizeof *oversized; i++) {
        const Graph *g = parse_value(f, &oversized[i]);
        EvalRun run = eval_begin(g, &f->arena, (DimValues){0});
        assert_false(eval_graph(&run));
        assert_error(f, E0004, oversized[i].want);
    }
    EvalRun full = eval_begin(parse_value(f, &(Value){"f32[] = {0.0}", "neg(%1) : f32[]", ""}), &f->arena,
                              (DimValues){0});
    full.bytes = UINT64_C(16) << 30;
    assert_false(eval_graph(&full));
    assert_error(f, E0004, "over the 16 GiB");
    full.depth = GRAPH_MAX_DEPTH + 1;
    assert_false(eval_graph(&full));
    assert_error(f, E0004, "nested deeper");
}

// The folder evaluates single nodes, in its own memory.
static void one_node_alone(void **state)
{
    Fixture *f = *state;
    const Graph *g =
        parse_value(f, &(Value){"f32[2] = {1.0, 2.0}; f32[] = {3.0}", "mul(%1, %2) : f32[2]", ""});
    Tensor in[2] = {tensor_of_const(g, 1), tensor_of_const(g, 2)},
           out = tensor_new(&f->arena, DTYPE_f32, 1, in[0].dim);
    EvalCtx c = {.arena = &f->arena, .g = g, .node = graph_node(g, 3), .id = 3, .in = in, .out = &out};
    assert_true(eval_node(&c));
    assert_string_equal(elements_text(f, &out), "3.0 6.0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(leaves_take_what_is_given_or_their_init),
        TEST(wrong_inputs_are_reported),
        TEST(checks_must_hold),
        TEST(work_of_branches_counts),
        TEST(all_results_can_be_read),
        TEST(if_runs_one_branch),
        TEST(symbols_get_values),
        TEST(late_misfits_are_reported),
        TEST(sizes_and_work_are_limited),
        TEST(one_node_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
