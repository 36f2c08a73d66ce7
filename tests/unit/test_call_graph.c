// SPDX-License-Identifier: Apache-2.0
// The stack by gcc's graph of calls, from texts as gcc writes them.
#include "compiler/native/call_graph.h"
#include "unit.h"

static Arena arena;

static int reset(void **state)
{
    (void)state;
    arena_reset(&arena);
    return 0;
}

#define FUNCTION(title, name, bytes, kind)                                                                   \
    "node: { title: \"" title "\" label: \"" name "\\nm.c:1:2\\n" #bytes " bytes (" kind ")\" }\n"
#define LIBRARY(name)   "node: { title: \"" name "\" label: \"" name "\\n<built-in>\" shape : ellipse }\n"
#define CALLS(from, to) "edge: { sourcename: \"" from "\" targetname: \"" to "\" label: \"m.c:3:4\" }\n"
#define POINTER(from)   LIBRARY("__indirect_call") CALLS(from, "__indirect_call")
#define MODEL                                                                                                \
    FUNCTION("m.c:dispatch", "dispatch", 64, "static")                                                       \
    FUNCTION("m.c:k0", "k0", 100, "static") FUNCTION("m.c:k1.isra.0", "k1.isra", 40, "dynamic,bounded")      \
        CALLS("m.c:dispatch", "m.c:k0") CALLS("m.c:dispatch", "m.c:k1.isra.0") LIBRARY("expf")               \
            CALLS("m.c:k1.isra.0", "expf")
#define RUN FUNCTION("run", "run", 8, "static") POINTER("run")

static void test_deepest_path(void **state)
{
    (void)state;
    const CallGraph g =
        call_graph_read(&arena, MODEL RUN FUNCTION("m_init", "m_init", 24, "static"), "m.c", "");
    assert_null(g.unknown);
    assert_int_equal(g.entries.len, 2);
    const StackEntry *run = call_graph_entry(&g, "run"), *init = call_graph_entry(&g, "m_init");
    assert_int_equal(run->bytes, 8 + 64 + 100);
    assert_string_equal(run->path, "run > dispatch > k0");
    assert_int_equal(run->libraries.len, 1);
    assert_string_equal(run->libraries.data[0], "expf");
    assert_int_equal(init->bytes, 24);
    assert_int_equal(init->libraries.len, 0);
    assert_null(call_graph_entry(&g, "dispatch"));
}

// Registers that are pushed, and room below them, are not in gcc's figures.
static void test_assembler(void **state)
{
    (void)state;
    static const char c[] = "#define START \"push {r4-r11, lr}\\n sub sp, #28\\n\"\n"
                            "RLX_DSP_FUNCTION void k0(rlx_i32 *s)\n{\n";
    const CallGraph g = call_graph_read(&arena, MODEL RUN, "m.c", c);
    assert_int_equal(call_graph_entry(&g, "run")->bytes, 8 + 64 + 100 + 9 * 4 + 28);
}

static void assert_unknown(const char *text, const char *why)
{
    const CallGraph g = call_graph_read(&arena, text, "m.c", "");
    assert_non_null(g.unknown);
    assert_non_null(strstr(g.unknown, why));
    assert_null(call_graph_entry(&g, "run"));
}

static void test_what_has_no_bound(void **state)
{
    (void)state;
    assert_unknown("", "no graph");
    assert_unknown(MODEL RUN CALLS("m.c:k0", "m.c:dispatch"), "may lead back to dispatch");
    assert_unknown(MODEL RUN POINTER("m.c:k1.isra.0"), "may lead back");
    assert_unknown(MODEL RUN FUNCTION("m.c:k2", "k2", 16, "dynamic") CALLS("m.c:dispatch", "m.c:k2"),
                   "depends on the run");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_deepest_path, reset),
        cmocka_unit_test_setup(test_assembler, reset),
        cmocka_unit_test_setup(test_what_has_no_bound, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
