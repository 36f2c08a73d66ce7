# SPDX-License-Identifier: Apache-2.0
"""The graphs of check_dynamic.py: those that can be compiled for open sizes, and those that cannot."""

# name, nodes, values that become outputs
CASES = [
    (
        "loop over the entries of an axis",
        """%1 = input "x" : f32[seq, 6]
        %2 = input "z" : f32[5, seq, 3]
        %3 = const : i64[] = {1000}
        %4 = const : bool[] = {true}
        %5 = input "s" : f32[6]
        %6 = loop(%3, %4, %5, %1, %2) {carried = 1, max_trips = [seq], body = graph "body" {
        %1 = input "i" : i64[]
        %2 = input "go" : bool[]
        %3 = input "sum" : f32[6]
        %4 = input "all" : f32[seq, 6]
        %5 = input "columns" : f32[5, seq, 3]
        %6 = gather(%4, %1) {axis = 0}
        %7 = gather(%5, %1) {axis = 1}
        %8 = add(%3, %6)
        %9 = tanh(%8)
        %10 = exp(%7)
        output "go_on" = %2
        output "sum" = %9
        output "row" = %8
        output "other" = %10
        }}
        %7 = result(%6) {index = 1}
        %8 = result(%6) {index = 2}
        %9 = result(%6) {index = 3}
        %10 = reduce_sum(%8) {axes = [0]}""",
        [6, 7, 8, 9, 10],
    ),
    (
        "fewer iterations than entries",
        """%1 = input "x" : f32[seq, 4]
        %2 = const : i64[] = {0}
        %3 = const : f32[] = {1}
        %4 = expand(%3) {shape = [seq]}
        %5 = reduce_sum(%4)
        %6 = cast(%5) {to = i64}
        %7 = const : i64[] = {2}
        %8 = div(%6, %7)
        %9 = const : bool[] = {true}
        %10 = input "s" : f32[4]
        %11 = loop(%8, %9, %10, %1) {carried = 1, max_trips = [seq], body = graph "body" {
        %1 = input "i" : i64[]
        %2 = input "go" : bool[]
        %3 = input "sum" : f32[4]
        %4 = input "all" : f32[seq, 4]
        %5 = gather(%4, %1) {axis = 0}
        %6 = add(%3, %5)
        output "go_on" = %2
        output "sum" = %6
        output "row" = %6
        }}
        %12 = result(%11) {index = 1}
        %13 = reduce_mean(%12) {axes = [0]}""",
        [11, 12, 13],
    ),
    (
        "arithmetic",
        """%1 = input "x" : f32[batch, seq, 5]
        %2 = input "y" : f32[seq, 1]
        %3 = add(%1, %2)
        %4 = gelu(%3)
        %5 = input "n" : i32[seq]
        %6 = mul(%5, %5)""",
        [3, 4, 6],
    ),
    (
        "rows and columns of products",
        """%1 = input "a" : f32[seq, 24]
        CONST 2 24 40
        %3 = matmul(%1, %2)
        %4 = input "b" : f32[24, seq]
        %5 = matmul(%1, %4)
        %6 = matmul(%4, %1)
        %7 = matmul(%1, %1) {transpose_a = true}""",
        [3, 5, 6, 7],
    ),
    (
        "products of a batch",
        """%1 = input "a" : f32[batch, seq, 16]
        %2 = input "b" : f32[batch, 16, 2*seq + 1]
        %3 = matmul(%1, %2)
        CONST 4 16 33
        %5 = matmul(%1, %4)
        %6 = input "c" : f32[batch, 16]
        %7 = matmul(%6, %4)
        %8 = input "v" : f32[seq]
        %9 = matmul(%8, %5)""",
        [3, 5, 7, 9],
    ),
    (
        "rows against columns that lie along k",
        """%1 = input "a" : f32[batch, seq, 24]
        %2 = input "b" : f32[batch, 2*seq + 1, 24]
        %3 = matmul(%1, %2) {transpose_b = true}
        %4 = input "c" : f32[2*seq + 1, 24]
        %5 = matmul(%1, %4) {transpose_b = true}
        %6 = softmax(%3) {axis = 2}
        %7 = reduce_sum(%5) {axes = [2]}""",
        [3, 5, 6, 7],
    ),
    (
        "a linear layer",
        """%1 = input "x" : f32[batch, seq, 12]
        CONST 2 12 20
        CONST 3 20
        %4 = linear(%1, %2, %3)
        %5 = relu(%4)
        %6 = reshape(%5) {shape = [batch*seq, 20]}""",
        [5, 6],
    ),
    (
        "convolutions",
        """%1 = input "x" : f32[batch, 3, seq, past + 3]
        CONST 2 8 3 3 3
        CONST 3 8
        %4 = conv(%1, %2, %3) {pads = [1, 1, 1, 1]}
        %5 = relu(%4)
        CONST 6 8 1 3 3
        %7 = conv(%5, %6) {pads = [1, 1, 1, 1], strides = [2, 2], group = 8}
        CONST 8 4 8 1 1
        %9 = conv(%5, %8)""",
        [5, 7, 9],
    ),
    (
        "a convolution with stride",
        """%1 = input "x" : f32[batch, 4, block]
        CONST 2 6 4 3
        %3 = conv(%1, %2) {pads = [0, 1], strides = [2]}
        CONST 4 4 2 4
        %5 = conv_transpose(%1, %4) {strides = [2], pads = [1, 1]}""",
        [3, 5],
    ),
    (
        "a batch of pictures",
        """%1 = input "x" : f32[batch, 3, 8, 8]
        CONST 2 8 3 3 3
        %3 = conv(%1, %2) {pads = [1, 1, 1, 1]}
        %4 = max_pool(%3) {kernel = [2, 2], strides = [2, 2]}
        %5 = avg_pool(%4) {kernel = [2, 2], pads = [1, 1, 1, 1]}
        %6 = global_avg_pool(%5)
        %7 = reshape(%6) {shape = [batch, 8]}
        %8 = softmax(%7)""",
        [4, 5, 8],
    ),
    (
        "pools",
        """%1 = input "x" : f32[batch, 2, block, seq + 2]
        %2 = max_pool(%1) {kernel = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]}
        %3 = avg_pool(%1) {kernel = [3, 3], pads = [1, 1, 1, 1]}
        %4 = avg_pool(%1) {kernel = [3, 3], pads = [1, 1, 1, 1], count_include_pad = true}
        %5 = avg_pool(%1) {kernel = [2, 2], strides = [2, 2]}
        %6 = global_avg_pool(%1)
        %7 = global_max_pool(%1)""",
        [2, 3, 4, 5, 6, 7],
    ),
    (
        "softmax",
        """%1 = input "x" : f32[batch, seq, past + seq]
        %2 = softmax(%1)
        %3 = softmax(%1) {axis = 1}
        %4 = log_softmax(%1) {axis = 0}""",
        [2, 3, 4],
    ),
    (
        "norms",
        """%1 = input "x" : f32[batch, seq, 32]
        CONST 2 32
        %3 = layer_norm(%1, %2, %2)
        %4 = rms_norm(%1, %2)
        %5 = input "y" : f32[batch, seq]
        %6 = layer_norm(%5)
        %7 = rms_norm(%5)""",
        [3, 4, 6, 7],
    ),
    (
        "sums and means",
        """%1 = input "x" : f32[batch, seq, 5]
        %2 = reduce_mean(%1) {axes = [1]}
        %3 = reduce_mean(%1) {axes = [0, 2], keepdims = true}
        %4 = reduce_sum(%1)
        %5 = reduce_max(%1) {axes = [1]}
        %6 = reduce_min(%1) {axes = [0]}
        %7 = argmax(%1) {axis = 1}
        %8 = cumsum(%1) {axis = 1, reverse = true}
        %9 = reduce_prod(%1) {axes = [1]}
        %10 = reduce_logsumexp(%1) {axes = [1]}
        %11 = cumprod(%1) {axis = 1, reverse = true}
        %12 = cumprod(%1) {axis = 0}""",
        [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
    ),
    (
        "regions and matrices",
        """%1 = input "x" : f32[2, 3, 9, 9]
        %2 = input "regions" : f32[seq, 4]
        %3 = input "image" : i64[seq]
        %4 = roi_pool(%1, %2, %3) {height = 2, width = 2}
        %5 = input "m" : f32[batch, seq, 3, 3]
        %6 = det(%5)""",
        [4, 6],
    ),
    (
        "attention over keys",
        """%1 = input "q" : f32[batch, 4, 3, 16]
        %2 = input "k" : f32[batch, 2, seq, 16]
        %3 = input "v" : f32[batch, 2, seq, 16]
        %4 = attention(%1, %2, %3)
        %5 = input "mask" : f32[1, 1, 3, seq]
        %6 = attention(%1, %2, %3, %5)
        %7 = input "allowed" : bool[batch, 1, 1, seq]
        %8 = attention(%1, %2, %3, %7)""",
        [4, 6, 8],
    ),
    (
        "attention, causal",
        """%1 = input "q" : f32[batch, 2, seq, 8]
        %2 = input "k" : f32[batch, 2, seq, 8]
        %3 = attention(%1, %2, %2) {causal = true}
        %4 = attention(%1, %2, %2)""",
        [3, 4],
    ),
    (
        "attention, causal, behind a past",
        """%1 = input "q" : f32[1, 4, seq, 8]
        %2 = input "k" : f32[1, 2, past + seq, 8]
        %3 = input "v" : f32[1, 2, past + seq, 8]
        %4 = attention(%1, %2, %3) {causal = true}
        %5 = input "mask" : f32[seq, past + seq]
        %6 = attention(%1, %2, %3, %5) {causal = true}""",
        [4, 6],
    ),
    (
        "a past and what comes",
        """%1 = input "past" : f32[1, 2, past, 8]
        %2 = input "new" : f32[1, 2, seq, 8]
        %3 = concat(%1, %2) {axis = 2}
        %4 = attention(%2, %3, %3) {causal = true}
        %5 = transpose(%4) {perm = [0, 2, 1, 3]}
        %6 = reshape(%5) {shape = [1, seq, 16]}""",
        [3, 6],
    ),
    (
        "joined, cut, turned",
        """%1 = input "x" : f32[batch, seq, 6]
        %2 = input "y" : f32[batch, past, 6]
        %3 = concat(%1, %2, %1) {axis = 1}
        %4 = slice(%3) {starts = [1], ends = [1000], axes = [1]}
        %5 = slice(%1) {starts = [-1], ends = [1000], axes = [1]}
        %6 = transpose(%1) {perm = [2, 0, 1]}
        %7 = reshape(%1) {shape = [batch, 2*seq, 3]}
        %8 = reshape(%6) {shape = [6, batch*seq]}
        %9 = slice(%1) {starts = [-1], ends = [-1000], axes = [1], steps = [-1]}
        %10 = expand(%2) {shape = [batch, past, 6]}
        %11 = pad(%1) {pads = [0, 1, 0, 0, 2, 0]}""",
        [3, 4, 5, 6, 7, 8, 9, 10, 11],
    ),
    (
        "chosen",
        """%1 = input "x" : f32[seq, 6]
        %2 = const : i64[3] = {0, -1, 0}
        %3 = gather(%1, %2)
        CONST 4 9 6
        %5 = input "at" : i64[batch, seq]
        %6 = gather(%4, %5)
        %7 = top_k(%1) {k = [min(seq, 4)], axis = 0}
        %8 = result(%7) {index = 1}
        %9 = gather(%1, %5)""",
        [3, 6, 7, 8],
    ),
    (
        "halves",
        """%1 = input "x" : f32[batch, block, 4]
        %2 = slice(%1) {starts = [0], ends = [100], axes = [1], steps = [8]}
        %3 = reduce_mean(%2) {axes = [1]}
        %4 = input "y" : f32[2*seq + 1]
        %5 = slice(%4) {starts = [0], ends = [1000], steps = [2]}
        %6 = slice(%4) {starts = [1], ends = [1000], steps = [2]}
        %7 = concat(%5, %6) {axis = 0}""",
        [2, 3, 5, 6, 7],
    ),
    (
        "lstm, a batch",
        """%1 = input "x" : f32[6, batch, 5]
        CONST 2 2 16 5
        CONST 3 2 16 4
        %4 = lstm(%1, %2, %3) {direction = "bidirectional"}
        %5 = result(%4) {index = 1}
        %6 = result(%4) {index = 2}""",
        [4, 5, 6],
    ),
    (
        "gru that resets before and rnn, time and a batch",
        """%1 = input "x" : f32[seq, batch, 5]
        CONST 2 2 12 5
        CONST 3 2 12 4
        %4 = gru(%1, %2, %3) {direction = "bidirectional", reset_after = false}
        %5 = result(%4) {index = 1}
        CONST 6 1 4 5
        CONST 7 1 4 4
        %8 = rnn(%1, %6, %7) {direction = "reverse"}
        %9 = result(%8) {index = 1}""",
        [4, 5, 8, 9],
    ),
    (
        "lstm over time",
        """%1 = input "x" : f32[seq, batch, 5]
        CONST 2 1 16 5
        CONST 3 1 16 4
        CONST 4 1 32
        %5 = lstm(%1, %2, %3, %4)
        %6 = result(%5) {index = 1}
        %7 = result(%5) {index = 2}
        %8 = input "h" : f32[1, batch, 4]
        %9 = lstm(%1, %2, %3, %4, %8, %8) {direction = "reverse"}
        %10 = result(%9) {index = 1}
        CONST 11 2 16 5
        CONST 12 2 16 4
        %13 = lstm(%1, %11, %12) {direction = "bidirectional"}
        %14 = result(%13) {index = 1}
        %15 = result(%13) {index = 2}""",
        [5, 6, 7, 9, 10, 13, 14, 15],
    ),
    (
        "larger and smaller pictures",
        """%1 = input "x" : f32[batch, 2, seq, block]
        %2 = resize(%1) {scales = "1,1,2,2", mode = "nearest"}
        %3 = resize(%1) {scales = "1,1,2,2", mode = "linear"}
        %4 = resize(%1) {sizes = [batch, 2, 3*seq, block], mode = "cubic"}""",
        [2, 3, 4],
    ),
    (
        "rows written into a cache",
        """%1 = state "cache" : f32[40, 4]
        %2 = input "rows" : f32[seq, 4]
        %3 = input "at" : i64[]
        %4 = update_slice(%1, %2, %3)
        %5 = reduce_sum(%4) {axes = [0]}
        state %1 -> %4""",
        [4, 5],
    ),
    (
        "rows written into heads",
        """%1 = input "cache" : f32[1, 2, 40, 4]
        %2 = input "rows" : f32[1, 2, seq, 4]
        %3 = input "at" : i64[4]
        %4 = update_slice(%1, %2, %3)""",
        [4],
    ),
    (
        "rope",
        """%1 = input "x" : f32[batch, 2, seq, 8]
        %2 = input "c" : f32[seq, 4]
        %3 = input "s" : f32[seq, 4]
        %4 = rope(%1, %2, %3)""",
        [4],
    ),
    (
        "states",
        """%1 = state "sum" : f32[batch, seq]
        %2 = input "x" : f32[batch, seq]
        %3 = add(%1, %2)
        state %1 -> %3""",
        [3],
    ),
    (
        "a few and none",
        """%1 = input "x" : f32[past, 5]
        %2 = reduce_sum(%1) {axes = [0]}
        %3 = matmul(%1, %1) {transpose_a = true}
        %4 = softmax(%1)
        %5 = concat(%1, %1) {axis = 1}""",
        [2, 3, 4, 5],
    ),
    (
        "corners of a resize",
        """%1 = input "x" : f32[1, 1, seq]
        %2 = resize(%1) {sizes = [1, 1, 2*seq], mode = "linear", coord = "align_corners"}""",
        [2],
    ),
    (
        "a loop that reads other entries than that of the iteration",
        """%1 = input "x" : f32[seq, 4]
        %2 = const : i64[] = {3}
        %3 = const : bool[] = {true}
        %4 = input "s" : f32[4]
        %5 = loop(%2, %3, %4, %1) {carried = 1, max_trips = [seq], body = graph "body" {
        %1 = input "i" : i64[]
        %2 = input "go" : bool[]
        %3 = input "sum" : f32[4]
        %4 = input "all" : f32[seq, 4]
        %5 = const : i64[] = {-1}
        %6 = sub(%5, %1)
        %7 = gather(%4, %6) {axis = 0}
        %8 = add(%3, %7)
        output "go_on" = %2
        output "sum" = %8
        }}""",
        [5],
    ),
    (
        "a loop that reads all of an axis",
        """%1 = input "x" : f32[seq]
        %2 = const : i64[] = {3}
        %3 = const : bool[] = {true}
        %4 = input "s" : f32[]
        %5 = loop(%2, %3, %4, %1) {carried = 1, max_trips = [seq], body = graph "body" {
        %1 = input "i" : i64[]
        %2 = input "go" : bool[]
        %3 = input "sum" : f32[]
        %4 = input "all" : f32[seq]
        %5 = reduce_sum(%4)
        %6 = add(%3, %5)
        output "go_on" = %2
        output "sum" = %6
        }}""",
        [5],
    ),
    (
        "a loop that carries an open size",
        """%1 = input "x" : f32[seq]
        %2 = const : i64[] = {3}
        %3 = const : bool[] = {true}
        %4 = loop(%2, %3, %1) {carried = 1, max_trips = [seq], body = graph "body" {
        %1 = input "i" : i64[]
        %2 = input "go" : bool[]
        %3 = input "sum" : f32[seq]
        %4 = exp(%3)
        output "go_on" = %2
        output "sum" = %4
        }}""",
        [4],
    ),
    (
        "inside of a loop",
        """%1 = input "x" : f32[4]
        %9 = input "z" : f32[seq]
        %2 = const : i64[] = {3}
        %3 = const : bool[] = {true}
        %4 = loop(%2, %3, %1) {carried = 1, max_trips = [3], body = graph "body" {
        %1 = input "i" : i64[]
        %2 = input "c" : bool[]
        %3 = input "v" : f32[4]
        %4 = const : f32[] = {1}
        %5 = expand(%4) {shape = [seq]}
        %6 = reduce_sum(%5)
        %7 = add(%3, %6)
        output "c" = %2
        output "v" = %7
        }}""",
        [4],
    ),
    (
        "mirrors and rings",
        """%1 = input "x" : f32[2, block, 3]
        %2 = pad(%1) {pads = [1, 3, 0, 0, 7, 1], mode = "reflect"}
        %3 = pad(%1) {pads = [0, 8, 1, 0, -2, 0], mode = "wrap"}
        %4 = pad(%1) {pads = [0, -1, 0, 2, 20, 0], mode = "edge"}""",
        [2, 3, 4],
    ),
    (
        "a recurrent loop over a batch that is open",
        """%1 = input "x" : f32[batch, seq, 4]
        %8 = transpose(%1) {perm = [1, 0, 2]}
        %2 = const : i64[] = {19}
        %3 = const : bool[] = {true}
        %4 = input "h" : f32[batch, 4]
        %5 = input "w" : f32[4, 8]
        %6 = loop(%2, %3, %4, %8, %5) {carried = 1, max_trips = [seq], body = graph "body" {
        %1 = input "i" : i64[]
        %2 = input "go" : bool[]
        %3 = input "h" : f32[batch, 4]
        %4 = input "all" : f32[seq, batch, 4]
        %5 = input "w" : f32[4, 8]
        %6 = gather(%4, %1) {axis = 0}
        %7 = matmul(%3, %5)
        %8 = slice(%7) {axes = [1], starts = [0], ends = [4]}
        %9 = slice(%7) {axes = [1], starts = [4], ends = [8]}
        %10 = add(%6, %8)
        %11 = reduce_max(%10) {axes = [0], keepdims = true}
        %12 = tanh(%10)
        %13 = add(%12, %9)
        %14 = tanh(%13)
        %15 = sub(%14, %11)
        output "go_on" = %2
        output "h" = %14
        output "row" = %15
        }}
        %7 = result(%6) {index = 1}""",
        [6, 7],
    ),
    (
        "rows and columns of open lengths",
        """%1 = input "x" : f32[batch, seq, 40]
        %2 = transpose(%1) {perm = [0, 2, 1]}
        %3 = layer_norm(%2) {axis = 2}
        %4 = softmax(%2) {axis = 1}
        %5 = softmax(%2) {axis = 2}
        %6 = argmax(%1) {axis = 1}""",
        [3, 4, 5, 6],
    ),
    (
        "largest updates of an open number",
        """%1 = input "x" : i32[9, 3]
        %2 = input "i" : i8[seq]
        %3 = input "u" : i32[seq, 3]
        %4 = scatter(%1, %2, %3) {reduction = "max"}""",
        [4],
    ),
    (
        "images of an open number, with channels last",
        """%1 = input "x" : f32[batch, 5, 6, 8]
        %2 = transpose(%1) {perm = [0, 3, 1, 2]}
        %3 = resize(%2) {sizes = [batch, 8, 11, 13], mode = "cubic", coord = "half_pixel"}
        %4 = relu(%3)
        %5 = transpose(%4) {perm = [0, 2, 3, 1]}""",
        [5],
    ),
]
REFUSED = [
    (
        "a size that shrinks",
        """%1 = input "x" : f32[seq, 1]
        %2 = expand(%1) {shape = [seq, 20 - seq]}""",
        [2],
        "a size of -seq + 20 is not largest where the sizes that are set between runs are",
    ),
    (
        "channels of a convolution",
        """%1 = input "x" : f32[1, seq, 9]
        %2 = input "w" : f32[2, seq, 3]
        %3 = conv(%1, %2)""",
        [3],
        "channels and kernels must have fixed sizes",
    ),
]
