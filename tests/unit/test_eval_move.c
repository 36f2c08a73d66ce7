// SPDX-License-Identifier: Apache-2.0
// The evaluator's meanings against numbers worked out by hand: products, windows, attention, recurrence, and
// ops that move elements. Random cases of the same ops against ONNX Runtime are in tests/conformance.
#include "value_cases.h"

static const Value product_rows[] = {
    {"f32[2, 2] = {1.0, 2.0, 3.0, 4.0}; f32[2, 1] = {10.0, 1.0}", "matmul(%1, %2) : f32[2, 1]", "12.0 34.0"},
    {"f32[2] = {1.0, 2.0}; f32[2] = {10.0, 1.0}", "matmul(%1, %2) : f32[]", "12.0"},
    {"f32[2] = {1.0, 2.0}; f32[2, 2] = {1.0, 2.0, 3.0, 4.0}", "matmul(%1, %2) {transpose_b = true} : f32[2]",
     "5.0 11.0"},
    {"f32[2, 1] = {1.0, 2.0}; f32[2, 2] = {1.0, 2.0, 3.0, 4.0}",
     "matmul(%1, %2) {transpose_a = true} : f32[1, 2]", "7.0 10.0"},
    {"f32[2, 1, 1] = {1.0, 2.0}; f32[3, 1, 1, 1] = {1.0, 10.0, 100.0}", "matmul(%1, %2) : f32[3, 2, 1, 1]",
     "1.0 2.0 10.0 20.0 100.0 200.0"},
    {"f32[2, 0] = {}; f32[0, 1] = {}", "matmul(%1, %2) : f32[2, 1]", "0.0 0.0"},
    {"f32[0, 2, 2] = {}; f32[2, 2] = {1.0, 2.0, 3.0, 4.0}", "matmul(%1, %2) : f32[0, 2, 2]", ""},
    {"f32[1, 2] = {inf, 0.0}; f32[2, 1] = {0.0, 1.0}", "matmul(%1, %2) : f32[1, 1]", "nan"},
    {"i8[1, 2] = {100, 2}; i8[2, 1] = {3, 1}", "matmul(%1, %2) : i8[1, 1]", "46"},
    {"i64[1, 2] = {9007199254740993, 1}; i64[2, 1] = {1, 1}", "matmul(%1, %2) : i64[1, 1]",
     "9007199254740994"},
    {"u64[1] = {18446744073709551615}; u64[1] = {2}", "matmul(%1, %2) : u64[]", "18446744073709551614"},
    {"f16[1, 3] = {2048.0, 1.0, 1.0}; f16[3, 1] = {1.0, 1.0, 1.0}", "matmul(%1, %2) : f16[1, 1]", "2050.0"},
    {"f32[1, 2] = {1.0, 2.0}; f32[2, 2] = {1.0, 2.0, 3.0, 4.0}; f32[2] = {0.5, -0.5}",
     "linear(%1, %2, %3) {transpose_b = true} : f32[1, 2]", "5.5 10.5"},
};

static void products(void **state)
{
    CHECK_VALUES(*state, product_rows);
}

static const Value window_rows[] = {
    {"f32[1, 1, 4] = {1.0, 2.0, 3.0, 4.0}; f32[1, 1, 2] = {1.0, 10.0}", "conv(%1, %2) : f32[1, 1, 3]",
     "21.0 32.0 43.0"},
    {"f32[1, 1, 4] = {1.0, 2.0, 3.0, 4.0}; f32[1, 1, 2] = {1.0, 10.0}; f32[1] = {0.5}",
     "conv(%1, %2, %3) {pads = [2, 0], strides = [2], dilations = [2]} : f32[1, 1, 2]", "10.5 31.5"},
    {"f32[1, 2, 2] = {1.0, 2.0, 3.0, 4.0}; f32[2, 1, 1] = {10.0, 100.0}",
     "conv(%1, %2) {group = 2} : f32[1, 2, 2]", "10.0 20.0 300.0 400.0"},
    {"f32[0, 1, 4] = {}; f32[1, 1, 2] = {1.0, 10.0}", "conv(%1, %2) : f32[0, 1, 3]", ""},
    {"f32[1, 0, 2] = {}; f32[1, 0, 1] = {}; f32[1] = {7.0}", "conv(%1, %2, %3) : f32[1, 1, 2]", "7.0 7.0"},
    {"f32[1, 1, 2] = {1.0, 2.0}; f32[1, 1, 2] = {1.0, 10.0}", "conv_transpose(%1, %2) : f32[1, 1, 3]",
     "1.0 12.0 20.0"},
    {"f32[1, 1, 2] = {1.0, 2.0}; f32[1, 1, 2] = {1.0, 10.0}; f32[1] = {0.5}",
     "conv_transpose(%1, %2, %3) {strides = [3], output_padding = [1], pads = [1, 0]} : f32[1, 1, 5]",
     "10.5 0.5 2.5 20.5 0.5"},
    {"f32[1, 1, 5] = {1.0, 5.0, 2.0, nan, 3.0}", "max_pool(%1) {kernel = [2]} : f32[1, 1, 4]",
     "5.0 5.0 nan nan"},
    {"f32[1, 1, 5] = {-1.0, -5.0, -2.0, -4.0, -3.0}",
     "max_pool(%1) {kernel = [2], strides = [2], pads = [1, 0], ceil_mode = true} : f32[1, 1, 3]",
     "-1.0 -2.0 -3.0"},
    {"f32[1, 1, 1] = {4.0}", "max_pool(%1) {kernel = [3], dilations = [3], pads = [5, 4]} : f32[1, 1, 4]",
     "-inf -inf 4.0 -inf"},
    {"f32[1, 1, 3] = {1.0, 2.0, 6.0}", "avg_pool(%1) {kernel = [2], pads = [1, 0]} : f32[1, 1, 3]",
     "1.0 1.5 4.0"},
    {"f32[1, 1, 3] = {1.0, 2.0, 6.0}",
     "avg_pool(%1) {kernel = [2], pads = [1, 0], count_include_pad = true} : f32[1, 1, 3]", "0.5 1.5 4.0"},
    // The last window has one element and one position behind the padded end, which never counts.
    {"f32[1, 1, 3] = {1.0, 2.0, 6.0}",
     "avg_pool(%1) {kernel = [2], strides = [2], ceil_mode = true, count_include_pad = true} : f32[1, 1, 2]",
     "1.5 6.0"},
    {"f32[1, 1, 1] = {4.0}", "avg_pool(%1) {kernel = [3], dilations = [3], pads = [5, 4]} : f32[1, 1, 4]",
     "0.0 0.0 4.0 0.0"},
};

static void windows(void **state)
{
    CHECK_VALUES(*state, window_rows);
}

static const Value resize_rows[] = {
    {"f32[2] = {1.0, 2.0}", "resize(%1) {sizes = [4]} : f32[4]", "1.0 1.0 2.0 2.0"},
    {"f32[2] = {1.0, 3.0}", "resize(%1) {sizes = [4], mode = \"linear\"} : f32[4]", "1.0 1.5 2.5 3.0"},
    {"f32[2] = {1.0, 3.0}", "resize(%1) {sizes = [3], mode = \"linear\", coord = \"align_corners\"} : f32[3]",
     "1.0 2.0 3.0"},
    {"f32[2] = {1.0, 3.0}",
     "resize(%1) {scales = \"2.5\", coord = \"asymmetric\", nearest = \"floor\"} : f32[5]",
     "1.0 1.0 1.0 3.0 3.0"},
    {"f32[4] = {1.0, 2.0, 3.0, 4.0}", "resize(%1) {sizes = [2]} : f32[2]", "1.0 3.0"},
    {"f32[4] = {1.0, 2.0, 3.0, 4.0}", "resize(%1) {sizes = [2], nearest = \"round_prefer_ceil\"} : f32[2]",
     "2.0 4.0"},
    {"f32[4] = {1.0, 2.0, 3.0, 4.0}", "resize(%1) {sizes = [1], coord = \"pytorch_half_pixel\"} : f32[1]",
     "1.0"},
    {"u8[2, 1] = {7, 9}", "resize(%1) {sizes = [2, 2]} : u8[2, 2]", "7 7 9 9"},
    {"f32[2] = {inf, 1.0}", "resize(%1) {sizes = [2], mode = \"linear\"} : f32[2]", "inf 1.0"},
    {"f32[0] = {}", "resize(%1) {sizes = [0]} : f32[0]", ""},
};

static void resizes(void **state)
{
    CHECK_VALUES(*state, resize_rows);
}

static const Value attention_rows[] = {
    // Two keys with equal scores.
    {"f32[1, 1, 1] = {0.0}; f32[1, 2, 1] = {1.0, 2.0}; f32[1, 2, 2] = {1.0, 2.0, 3.0, 4.0}",
     "attention(%1, %2, %3) : f32[1, 1, 2]", "2.0 3.0"},
    // A key whose score is far above.
    {"f32[1, 1, 1] = {100.0}; f32[1, 2, 1] = {0.0, 10.0}; f32[1, 2, 1] = {1.0, 3.0}",
     "attention(%1, %2, %3) : f32[1, 1, 1]", "3.0"},
    {"f32[1, 2, 1] = {0.0, 0.0}; f32[1, 2, 1] = {0.0, 0.0}; f32[1, 2, 1] = {1.0, 3.0}",
     "attention(%1, %2, %3) {causal = true} : f32[1, 2, 1]", "1.0 2.0"},
    // More queries than keys: the first query sees none.
    {"f32[1, 2, 1] = {0.0, 0.0}; f32[1, 1, 1] = {0.0}; f32[1, 1, 1] = {5.0}",
     "attention(%1, %2, %3) {causal = true} : f32[1, 2, 1]", "0.0 5.0"},
    {"f32[1, 1, 1] = {0.0}; f32[1, 2, 1] = {0.0, 0.0}; f32[1, 2, 1] = {1.0, nan}; bool[2] = {true, false}",
     "attention(%1, %2, %3, %4) : f32[1, 1, 1]", "1.0"},
    {"f32[1, 1, 1] = {0.0}; f32[1, 2, 1] = {0.0, 0.0}; f32[1, 2, 1] = {1.0, 3.0}; bool[2] = {false, false}",
     "attention(%1, %2, %3, %4) : f32[1, 1, 1]", "0.0"},
    {"f32[1, 1, 1] = {0.0}; f32[1, 2, 1] = {0.0, 0.0}; f32[1, 2, 1] = {1.0, 3.0}; f32[2] = {-inf, 7.0}",
     "attention(%1, %2, %3, %4) : f32[1, 1, 1]", "3.0"},
    {"f32[1, 1, 1] = {0.0}; f32[1, 0, 1] = {}; f32[1, 0, 2] = {}", "attention(%1, %2, %3) : f32[1, 1, 2]",
     "0.0 0.0"},
    // Heads 0 and 1 share the first key head, 2 and 3 the second.
    {"f32[4, 1, 1] = {0.0, 0.0, 0.0, 0.0}; f32[2, 1, 1] = {0.0, 0.0}; f32[2, 1, 1] = {1.0, 2.0}",
     "attention(%1, %2, %3) : f32[4, 1, 1]", "1.0 1.0 2.0 2.0"},
    {"f32[1, 4] = {1.0, 2.0, 3.0, 4.0}; f32[1, 2] = {0.0, 1.0}; f32[1, 2] = {1.0, 0.0}",
     "rope(%1, %2, %3) : f32[1, 4]", "-3.0 2.0 1.0 4.0"},
    {"f32[1, 4] = {1.0, 2.0, 3.0, 4.0}; f32[2] = {0.0, 1.0}; f32[2] = {1.0, 0.0}",
     "rope(%1, %2, %3) {interleaved = true} : f32[1, 4]", "-2.0 1.0 3.0 4.0"},
};

static void attention(void **state)
{
    CHECK_VALUES(*state, attention_rows);
}

// With weights of 0 all gates are 0.5: the cell halves at each step, and h is half of its tanh. A large bias
// opens a gate.
static const Value lstm_rows[] = {
    {"f32[1, 1, 1] = {5.0}; f32[1, 4, 1] = {0.0, 0.0, 0.0, 0.0}; f32[1, 4, 1] = {0.0, 0.0, 0.0, 0.0}; f32[1, "
     "1, 1] = {1000.0}",
     "lstm(%1, %2, %3, _, _, %4) : (f32[1, 1, 1, 1], f32[1, 1, 1], f32[1, 1, 1])", "0.5"},
    // Input gate open, forget gate shut, output gate open, cell = tanh(1000 x).
    {"f32[2, 1, 1] = {1.0, -1.0}; f32[1, 4, 1] = {0.0, 0.0, 0.0, 1000.0}; f32[1, 4, 1] = {0.0, 0.0, 0.0, "
     "0.0}; "
     "f32[1, 8] = {500.0, 500.0, -500.0, 0.0, 500.0, 500.0, -500.0, 0.0}",
     "lstm(%1, %2, %3, %4) : (f32[2, 1, 1, 1], f32[1, 1, 1], f32[1, 1, 1])", "0.7615942 -0.7615942"},
};

static void lstms(void **state)
{
    CHECK_VALUES(*state, lstm_rows);
}

static const Value move_rows[] = {
    {"f32[3] = {1.0, 2.0, 3.0}; i32[5] = {0, -1, -4, 9, 2}", "gather(%1, %2) : f32[5]",
     "1.0 3.0 1.0 3.0 3.0"},
    {"f32[2, 2] = {1.0, 2.0, 3.0, 4.0}; u64[1] = {18446744073709551615}",
     "gather(%1, %2) {axis = 1} : f32[2, 1]", "2.0 4.0"},
    {"f32[2, 2] = {1.0, 2.0, 3.0, 4.0}; i8[] = {1}", "gather(%1, %2) : f32[2]", "3.0 4.0"},
    {"f32[0, 2] = {}; i8[0] = {}", "gather(%1, %2) : f32[0, 2]", ""},
    {"i8[1, 2] = {1, 2}; i8[1, 0] = {}; i8[1, 1] = {3}", "concat(%1, %2, %3) {axis = 1} : i8[1, 3]", "1 2 3"},
    {"i8[2, 1] = {1, 2}; i8[2, 2] = {3, 4, 5, 6}", "concat(%1, %2) {axis = 1} : i8[2, 3]", "1 3 4 2 5 6"},
    {"i8[5] = {0, 1, 2, 3, 4}", "slice(%1) {starts = [-1], ends = [-99], steps = [-2]} : i8[3]", "4 2 0"},
    {"i8[2, 3] = {0, 1, 2, 3, 4, 5}", "slice(%1) {starts = [1], ends = [99], axes = [1]} : i8[2, 2]",
     "1 2 4 5"},
    {"i8[3] = {0, 1, 2}", "slice(%1) {starts = [2], ends = [1]} : i8[0]", ""},
    {"i8[3] = {1, 2, 3}; i8[] = {9}", "pad(%1, %2) {pads = [1, -1]} : i8[3]", "9 1 2"},
    {"i8[3] = {1, 2, 3}", "pad(%1) {pads = [2, 2], mode = \"reflect\"} : i8[7]", "3 2 1 2 3 2 1"},
    {"i8[3] = {1, 2, 3}", "pad(%1) {pads = [2, 2], mode = \"edge\"} : i8[7]", "1 1 1 2 3 3 3"},
    {"i8[3] = {1, 2, 3}", "pad(%1) {pads = [2, 2], mode = \"wrap\"} : i8[7]", "2 3 1 2 3 1 2"},
    {"i8[0] = {}", "pad(%1) {pads = [1, 1]} : i8[2]", "0 0"},
    {"i8[2, 3] = {0, 1, 2, 3, 4, 5}", "transpose(%1) : i8[3, 2]", "0 3 1 4 2 5"},
    {"i8[1, 2, 2] = {0, 1, 2, 3}", "transpose(%1) {perm = [1, 0, 2]} : i8[2, 1, 2]", "0 1 2 3"},
    {"i8[2, 1] = {1, 2}", "expand(%1) {shape = [2, 2]} : i8[2, 2]", "1 1 2 2"},
    {"i8[2] = {1, 2}", "expand(%1) {shape = [2, 1]} : i8[2, 2]", "1 2 1 2"},
    {"i8[2, 2] = {1, 2, 3, 4}", "reshape(%1) {shape = [-1]} : i8[4]", "1 2 3 4"},
    {"i8[2, 2] = {1, 2, 3, 4}", "copy(%1) {order = \"channels_last\"} : i8[2, 2]", "1 2 3 4"},
    {"i8[1, 2] = {1, 2}", "squeeze(%1) : i8[2]", "1 2"},
    {"i8[2] = {1, 2}", "unsqueeze(%1) {axes = [0]} : i8[1, 2]", "1 2"},
    {"i8[2, 1, 2] = {1, 2, 3, 4}", "flatten(%1) : i8[2, 2]", "1 2 3 4"},
    {"i8[4] = {0, 0, 0, 0}; i8[2] = {1, 2}; i32[] = {9}", "update_slice(%1, %2, %3) : i8[4]", "0 0 1 2"},
    {"i8[2, 2] = {0, 0, 0, 0}; i8[1, 1] = {7}; i64[2] = {-5, 1}", "update_slice(%1, %2, %3) : i8[2, 2]",
     "0 7 0 0"},
    {"i8[2, 2] = {0, 0, 0, 0}; i8[1, 2] = {7, 8}; i64[] = {1}", "update_slice(%1, %2, %3) : i8[2, 2]",
     "0 0 7 8"},
    {"i8[2] = {1, 2}; i8[0] = {}; i64[] = {1}", "update_slice(%1, %2, %3) : i8[2]", "1 2"},
    {"i8[3] = {1, 2, 3}", "split(%1) {sizes = [1, 2]} : (i8[1], i8[2])", "1"},
};

static void moves(void **state)
{
    CHECK_VALUES(*state, move_rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(products), TEST(windows), TEST(resizes), TEST(attention), TEST(lstms), TEST(moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
