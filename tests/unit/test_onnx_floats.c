// SPDX-License-Identifier: Apache-2.0
// 8-bit floats of ONNX models. Products read them as they are where nothing is taken from them, so that zero
// points, which are 0 and which exporters write all the same, leave no node behind.
#include "compiler/import/onnx/onnx.h"
#include "onnx_model.h"
#include "unit.h"

static Arena arena;

#define STEPS(zero)                                                                                          \
    "opset 21; in x f8e4m3fn 2,3; init s f32 - = 0.5; init z f8e4m3fn - = " zero                             \
    "; node DequantizeLinear x,s,z -> y; out y"

static bool has_sub(const char *text)
{
    Diag diag = {.arena = &arena};
    size_t len = 0;
    const uint8_t *data = onnx_model(&arena, text, &len);
    const OnnxSource source = {.name = "m", .data = data, .len = len, .dir = ""};
    Graph *g = NULL;
    assert_true(import_onnx_source(&arena, &diag, &source, &g));
    for (NodeId id = 1; id < g->nodes.len; id++)
        if (graph_node(g, id)->op == OP_sub)
            return true;
    return false;
}

static void test_zero_points(void **state)
{
    (void)state;
    assert_false(has_sub(STEPS("0")));
    assert_true(has_sub(STEPS("2")));
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_zero_points)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
