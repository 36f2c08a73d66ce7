// SPDX-License-Identifier: Apache-2.0
// What becomes of operators between DequantizeLinear and QuantizeLinear: which of them are left as floats.
#include "compiler/import/onnx/onnx.h"
#include "ir/shape/verify.h"
#include "onnx_model.h"
#include "unit.h"

static Arena arena;

// Nodes from f, which are dequantised bytes, to y.
static Graph *import_chain(const char *nodes)
{
    const char *text = arena_printf(&arena,
                                    "opset 13; in x u8 1,2,4,3; init s f32 - = 0.5; init z u8 - = 3; "
                                    "node DequantizeLinear x,s,z -> f; %s; out y",
                                    nodes);
    size_t len = 0;
    Graph *g = NULL;
    Diag diag = diag_new(&arena);
    const uint8_t *data = onnx_model(&arena, text, &len);
    const OnnxSource source = {.name = "m", .data = data, .len = len, .dir = ""};
    if (!import_onnx_source(&arena, &diag, &source, &g))
        fail_msg("%s: %s", text, diag.items.data[0].message);
    assert_null(graph_verify(g, STAGE_IMPORTED));
    return g;
}

static bool is_of_floats(OpId op)
{
    return op == OP_reduce_mean || op == OP_avg_pool || op == OP_global_avg_pool || op == OP_softmax ||
           op == OP_matmul || op == OP_linear || op == OP_conv_transpose;
}

// Means are sums of the bytes and one factor, softmax is a table; but not where windows at the border have
// fewer elements, where nothing is quantised, or where the largest byte is not the largest finite number.
// Bytes may have another shape before they are multiplied. Strides that divide the kernel of a transposed
// convolution make one of integers.
static void test_quantised_chains(void **state)
{
    static const struct {
        const char *nodes;
        OpId has;
    } chains[] = {
        {"node GlobalAveragePool f -> m; node QuantizeLinear m,s,z -> y", OP_reduce_sum},
        {"node ReduceMean f -> m axes=[1,3]; node QuantizeLinear m,s,z -> y", OP_reduce_sum},
        {"node AveragePool f -> m kernel_shape=[2,2]; node QuantizeLinear m,s,z -> y", OP_int_conv},
        {"node AveragePool f -> m kernel_shape=[2,2] pads=[1,1,1,1] count_include_pad=1; "
         "node Relu m -> c; node QuantizeLinear c,s,z -> y",
         OP_int_conv},
        {"node AveragePool f -> m kernel_shape=[2,2] pads=[1,1,1,1]; node QuantizeLinear m,s,z -> y",
         OP_avg_pool},
        {"node AveragePool f -> m kernel_shape=[2,2] strides=[2,2] ceil_mode=1; "
         "node QuantizeLinear m,s,z -> y",
         OP_avg_pool},
        {"node GlobalAveragePool f -> y", OP_global_avg_pool},
        {"node Softmax f -> m axis=1; node Flatten m -> c; node QuantizeLinear c,s,z -> y", OP_gather},
        {"node Softmax f -> y", OP_softmax},
        {"init d f32 - = -0.5; node DequantizeLinear x,d,z -> e; node Softmax e -> m; "
         "node QuantizeLinear m,s,z -> y",
         OP_softmax},
        {"init d f32 - = inf; node DequantizeLinear x,d,z -> e; node Softmax e -> m; "
         "node QuantizeLinear m,s,z -> y",
         OP_softmax},
        {"node QLinearGlobalAveragePool x,s,z,s,z -> y domain=com.microsoft channels_last=0", OP_reduce_sum},
        {"node QLinearSoftmax x,s,z,s,z -> y domain=com.microsoft axis=-1 opset=13", OP_gather},
        {"init w i8 1,24 = 1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6; init v i8 - = 0; "
         "node DequantizeLinear w,s,v -> q; node Flatten f -> m; node Gemm m,q -> c transB=1; "
         "node QuantizeLinear c,s,z -> y",
         OP_int_conv},
        {"init w i8 2,1,2,2 = 1,2,3,4,5,6,7,8; init v i8 - = 0; node DequantizeLinear w,s,v -> q; "
         "node ConvTranspose f,q -> c strides=[2,2]; node QuantizeLinear c,s,z -> y",
         OP_int_conv},
        {"init w i8 2,1,3,2 = 1,2,3,4,5,6,7,8,9,10,11,12; init v i8 - = 0; node DequantizeLinear w,s,v -> q; "
         "node ConvTranspose f,q -> c strides=[2,2]; node QuantizeLinear c,s,z -> y",
         OP_conv_transpose},
    };
    (void)state;
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        const Graph *used = graph_compact(import_chain(chains[i].nodes), NULL);
        uint32_t found = 0, of_floats = 0;
        for (NodeId id = 1; id < used->nodes.len; id++) {
            const OpId op = (OpId)graph_node(used, id)->op;
            found += op == chains[i].has;
            of_floats += is_of_floats(op);
        }
        assert_int_equal(found, 1);
        assert_int_equal(of_floats, is_of_floats(chains[i].has));
    }
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_quantised_chains)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
