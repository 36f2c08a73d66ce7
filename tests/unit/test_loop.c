// SPDX-License-Identifier: Apache-2.0
// The op loop: its rules, its text, binding of symbols in and around it, what passes make of its body, and
// the plan of one. Values of lowered loops are compared in tests/e2e/ops/loop.rlx.
#include "codegen/host/host.h"
#include "compiler/job/pipeline.h"
#include "graph_fixture.h"
#include "ir/eval/eval.h"
#include "ir/text/text.h"
#include "ir/shape/verify.h"

static Graph *parse(Fixture *f, const char *text)
{
    Graph *g = NULL;
    const uint32_t file = diag_add_file(&f->diag, "loop", text, strlen(text));
    return graph_parse(&f->arena, &f->diag, file, &g) ? g : NULL;
}

static Graph *parse_good(Fixture *f, const char *text)
{
    Graph *g = parse(f, text);
    assert_no_error(f);
    assert_null(graph_verify(g, STAGE_IMPORTED));
    return g;
}

static const char *print(Fixture *f, Graph *g)
{
    Str s = str_new(&f->arena);
    graph_print(g, &s, TEXT_FULL);
    return str_text(&s);
}

// Rows of x, summed up from s: n of them, or as many as there are.
static const char sums[] = "graph \"sums\" {\n"
                           "  symbol rows [1, 100]\n"
                           "  %1 = input \"x\" : f32[rows, 2]\n"
                           "  %2 = input \"s\" : f32[2]\n"
                           "  %3 = input \"n\" : i64[]\n"
                           "  %4 = const : bool[] = {true}\n"
                           "  %5 = loop(%3, %4, %2, %1) {body = graph \"body\" {\n"
                           "    %1 = input \"i\" : i64[]\n"
                           "    %2 = input \"go\" : bool[]\n"
                           "    %3 = input \"s\" : f32[2]\n"
                           "    %4 = input \"x\" : f32[rows, 2]\n"
                           "    %5 = gather(%4, %1) {axis = 0} : f32[2]\n"
                           "    %6 = add(%3, %5) : f32[2]\n"
                           "    output \"go_on\" = %2\n"
                           "    output \"s\" = %6\n"
                           "    output \"row\" = %6\n"
                           "  }, carried = 1, max_trips = [rows]} : (f32[2], f32[rows, 2], i64[])\n"
                           "  output \"s\" = %5\n"
                           "  %6 = result(%5) {index = 1} : f32[rows, 2]\n"
                           "  output \"all\" = %6\n"
                           "  %7 = result(%5) {index = 2} : i64[]\n"
                           "  output \"count\" = %7\n"
                           "}\n";

static void text_is_kept(void **state)
{
    Fixture *f = *state;
    const char *once = print(f, parse_good(f, sums));
    assert_string_equal(print(f, parse_good(f, once)), once);
    assert_non_null(strstr(once, "carried = 1, max_trips = [rows]} : (f32[2], f32[rows, 2], i64[])"));
}

static void symbols_are_bound_inside(void **state)
{
    Fixture *f = *state;
    Graph *out = NULL;
    assert_true(graph_bind(parse_good(f, sums), (DimValues){(int64_t[]){3}, 1}, &out));
    assert_null(graph_verify(out, STAGE_BOUND));
    assert_non_null(strstr(print(f, out), "max_trips = [3]} : (f32[2], f32[3, 2], i64[])"));
}

static void iterations_are_counted(void **state)
{
    Fixture *f = *state;
    Graph *g = parse_good(f, sums);
    for (int64_t n = -1; n <= 4; n++) {
        const int64_t done = n < 0 ? 0 : n > 3 ? 3 : n;
        EvalRun run = eval_begin(g, &f->arena, (DimValues){(int64_t[]){3}, 1});
        run.value[1] = tensor_new(&f->arena, DTYPE_f32, 2, (const int64_t[]){3, 2});
        run.value[2] = tensor_new(&f->arena, DTYPE_f32, 1, (const int64_t[]){2});
        run.value[3] = tensor_new(&f->arena, DTYPE_i64, 0, NULL);
        for (int64_t i = 0; i < 6; i++)
            tensor_set_f64(&run.value[1], i, (double)(i + 1));
        tensor_set_i64(&run.value[3], 0, n);
        assert_true(eval_graph(&run));
        const Tensor *s = &run.value[g->outputs.data[0].node], *all = &run.value[g->outputs.data[1].node];
        assert_true(tensor_get_f64(s, 0) == (double)(done * done)); // 1 + 3 + 5
        assert_int_equal(tensor_get_i64(&run.value[g->outputs.data[2].node], 0), done);
        for (int64_t i = 0; i < 3; i++) // rows that no iteration makes are 0
            assert_true(tensor_get_f64(all, 2 * i) == (i < done ? (double)((i + 1) * (i + 1)) : 0));
    }
}

// The loop of `sums` on f32[2] and i64[], with one line changed.
static void refuses(Fixture *f, const char *operands, const char *attributes, const char *body, DiagCode code,
                    const char *part)
{
    const char *text = arena_printf(&f->arena,
                                    "graph \"g\" {\n"
                                    "  %%1 = input \"x\" : f32[2]\n"
                                    "  %%2 = input \"n\" : i64[]\n"
                                    "  %%3 = input \"go\" : bool[]\n"
                                    "  %%4 = const : i64[] = {9000000000000000000}\n"
                                    "  %%5 = loop(%s) {body = graph \"body\" {\n"
                                    "    %%1 = input \"i\" : i64[]\n"
                                    "    %%2 = input \"go\" : bool[]\n"
                                    "%s  }%s}\n"
                                    "  output \"y\" = %%5\n"
                                    "}\n",
                                    operands, body, attributes);
    assert_null(parse(f, text));
    assert_error(f, code, part);
}

static void rules_are_checked(void **state)
{
    static const char one[] =
        "    %3 = input \"x\" : f32[2]\n    output \"go\" = %2\n    output \"x\" = %3\n";
    static const char none[] = "    output \"go\" = %2\n";
    Fixture *f = *state;
    refuses(f, "%1, %3, %1", ", carried = 1", one, E0205, "operand 0 must be i64");
    refuses(f, "%2, %2, %1", ", carried = 1", one, E0205, "operand 1 must be bool");
    refuses(f, "%2, %3, %1", ", carried = 2", one, E0203, "`carried` is 2, but there are 1 operands");
    refuses(f, "%2, %3, %1", ", carried = -1", one, E0203, "`carried` is -1");
    refuses(f, "%2, %3", "", one, E0202, "the graph `body` has 3 inputs, but the loop has 2 operands");
    refuses(f, "%2, %3, %2", ", carried = 1", one, E0204,
            "input 2 of the graph `body` is f32[2], expected i64[]");
    refuses(f, "%2, %3, %1", "", one, E0203, "scan outputs need `max_trips`");
    refuses(f, "%2, %3, %1", ", carried = 1", "    %3 = input \"x\" : f32[2]\n    output \"go\" = %2\n",
            E0204, "the graph `body` has 1 outputs");
    refuses(f, "%2, %3, %1", ", carried = 1",
            "    %3 = input \"x\" : f32[2]\n    output \"go\" = %2\n    output \"x\" = %1\n", E0204,
            "output 1 of the graph `body` is i64[], expected f32[2]");
    refuses(f, "%2, %3", "", "    output \"go\" = %1\n", E0204,
            "output 0 of the graph `body` is i64[], expected bool[]");
    refuses(f, "%4, %3", "", none, E0203, "the trip count is no bound");
    refuses(f, "%2, %3", ", max_trips = [1, 2]", none, E0203, "2 entries");
    refuses(f, "%2, %3", ", max_trips = [-1]", none, E0203, "must not be negative");
    refuses(f, "%2, %3", "", "    output \"go\" = %2\n    check %2 \"always\"\n", E0209,
            "states, params or checks");
}

static Plan *plan_of(Fixture *f, Graph *g, const Target *t)
{
    CpuInfo cpu;
    assert_true(cpu_find("generic", &cpu));
    TargetCaps *caps = ARENA_NEW(&f->arena, TargetCaps);
    *caps = target_caps(t, &cpu);
    const PipelineOptions o = {.opt_level = 3, .caps = caps, .report = stderr};
    Plan *plan = NULL;
    assert_true(pipeline_run(&f->arena, &f->diag, g, &o, &plan));
    return plan;
}

static const PlanKernel *find_loop(const Plan *p)
{
    for (uint32_t i = 0; i < p->kernels.len; i++)
        if (p->kernels.data[i].loop != NULL)
            return &p->kernels.data[i];
    return NULL;
}

// Rows are read where they are; what the body computes first is stored where the row of the result is.
static void rows_are_places(void **state)
{
    Fixture *f = *state;
    Graph *bound = NULL;
    assert_true(graph_bind(parse_good(f, sums), (DimValues){(int64_t[]){3}, 1}, &bound));
    const PlanKernel *k = find_loop(plan_of(f, bound, target_find("c")));
    assert_non_null(k);
    const Plan *body = k->loop->body;
    assert_int_equal(k->loop->max_trips, 3);
    assert_false(k->loop->has_cond);
    assert_int_equal(body->region_bytes[REGION_ARENA], 0);
    assert_int_equal(body->kernels.len, 2); // the addition, and the copy of its row into the carried value
    Str text = str_new(&f->arena);
    for (uint32_t i = 0; i < body->kernels.len; i++)
        body->kernels.data[i].function = body->kernels.data[i].kernel->name;
    host_print_loop(k, &text);
    assert_non_null(strstr(str_text(&text), " + i * 8;\n"));
    assert_non_null(strstr(str_text(&text), "for (; i < n; i++) {\n"));
}

static void gpus_print_bodies(void **state)
{
    Fixture *f = *state;
    for (const char *const *name = target_names; *name != NULL; name++) {
        Graph *bound = NULL;
        const Target *t = target_find(*name);
        assert_true(graph_bind(parse_good(f, sums), (DimValues){(int64_t[]){3}, 1}, &bound));
        const Plan *body = find_loop(plan_of(f, bound, t))->loop->body;
        Str text = str_new(&f->arena);
        assert_null(target_lacks(t, body->kernels.data[0].kernel));
        cfamily_print_kernel(t, body->kernels.data[0].kernel, &text);
        assert_non_null(strstr(str_text(&text), body->kernels.data[0].kernel->name));
        assert_int_equal(strncmp(body->kernels.data[0].kernel->name, "k1_0_", 5), 0);
    }
}

static uint32_t count_op(const Graph *g, OpId op)
{
    uint32_t n = 0;
    for (NodeId id = 1; id < g->nodes.len; id++)
        n += graph_node(g, id)->op == op;
    return n;
}

// A captured constant, a carried value that never changes and the condition become constants of the body, in
// which what depends on them folds.
static void constants_go_inside(void **state)
{
    Fixture *f = *state;
    Graph *g = parse_good(f, "graph \"g\" {\n"
                             "  %1 = input \"x\" : f32[2]\n"
                             "  %2 = input \"n\" : i64[]\n"
                             "  %3 = const : bool[] = {true}\n"
                             "  %4 = const : f32[2] = {1.0, 2.0}\n"
                             "  %5 = exp(%4)\n"
                             "  %6 = loop(%2, %3, %4, %1, %5, %1) {body = graph \"body\" {\n"
                             "    %1 = input \"i\" : i64[]\n"
                             "    %2 = input \"go\" : bool[]\n"
                             "    %3 = input \"w\" : f32[2]\n"
                             "    %4 = input \"x\" : f32[2]\n"
                             "    %5 = input \"e\" : f32[2]\n"
                             "    %6 = input \"unused\" : f32[2]\n"
                             "    %7 = mul(%3, %5)\n"
                             "    %8 = add(%4, %7)\n"
                             "    output \"go\" = %2\n"
                             "    output \"w\" = %3\n"
                             "    output \"x\" = %8\n"
                             "  }, carried = 2}\n"
                             "  %7 = result(%6) {index = 1}\n"
                             "  output \"x\" = %7\n"
                             "}\n");
    const Plan *p = plan_of(f, g, target_find("c"));
    const Graph *body = find_loop(p)->loop->body->graph;
    assert_int_equal(count_op(body, OP_mul), 0);
    assert_int_equal(count_op(body, OP_const), 1);
    assert_int_equal(count_op(p->graph, OP_exp), 0);
    assert_false(find_loop(p)->loop->has_cond);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(text_is_kept),        TEST(symbols_are_bound_inside), TEST(iterations_are_counted),
        TEST(rules_are_checked),   TEST(rows_are_places),          TEST(gpus_print_bodies),
        TEST(constants_go_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
