# SPDX-License-Identifier: Apache-2.0
"""The cases of microsoft.py: operands, attributes and how near the results must be."""

from dataclasses import dataclass, field

import numpy as np

RNG = np.random.default_rng(7)


@dataclass
class Case:
    name: str
    op: str
    operands: list
    attributes: dict = field(default_factory=dict)
    constants: tuple = ()  # operands that are initializers
    results: tuple = (0,)
    tolerance: float = 1e-5  # relative to the largest magnitude
    steps: int = 1  # of integers: sums of floats may be ordered in another way
    domain: str = "com.microsoft"
    counts: np.ndarray = None  # which elements of results of rank 4 do
    own_attributes: dict = field(default_factory=dict)  # that ONNX Runtime is not given
    dequantise: dict = None  # attributes: operands from 1 on are dequantised to one
    like: list = None  # operands of the same meaning, for what ONNX Runtime has no kernel for


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def bytes_of(*shape, dtype=np.uint8):
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def peer_saturates():
    """On x86-64 without VNNI, ONNX Runtime adds pairs of products of u8 and i8 in 16 bits, which saturate."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
            text = f.read()
    except OSError:
        return False
    return "avx2" in text and "vnni" not in text


def weights(*shape):
    """Of i8; of 7 bits where the peer would be wrong with more (2 * 255 * 64 is below 2^15)."""
    most = 64 if peer_saturates() else 128
    return RNG.integers(-most, most, shape).astype(np.int8)


def scalar(v, dtype=np.float32):
    return np.array(v, dtype)


def scale_zero(scale, zero, dtype=np.uint8):
    return [scalar(scale), scalar(zero, dtype)]


# --- fused floats ---


def fused():
    x = floats(2, 3, 8)
    yield Case("bias_add", "BiasGelu", [floats(2, 3, 8), floats(8)])
    yield Case("fast_gelu", "FastGelu", [x, floats(8)])
    yield Case("gelu", "Gelu", [x])
    yield Case("quick_gelu", "QuickGelu", [x], {"alpha": 1.5})
    yield Case("skip_layer_norm", "SkipLayerNormalization", [x, floats(2, 3, 8), floats(8), floats(8),
            floats(8)],
               {"epsilon": 1e-5}, results=(0, 3))
    yield Case("skip_rms_norm", "SkipSimplifiedLayerNormalization", [x, floats(2, 3, 8), floats(8)],
               {"epsilon": 1e-5}, results=(0, 3))
    yield Case("simplified_layer_norm", "SimplifiedLayerNormalization", [x, floats(8)], {"epsilon": 1e-5},
            domain="")
    yield Case("fused_matmul", "FusedMatMul", [floats(2, 5, 3), floats(2, 4, 5)],
               {"transA": 1, "transB": 1, "alpha": 0.5})
    yield Case("fused_matmul_batch", "FusedMatMul", [floats(3, 2, 5), floats(2, 5, 4)], {"transBatchA": 1})
    for name, params in (("Relu", None), ("LeakyRelu", [0.1]), ("Clip", [-0.5, 0.75]),
            ("HardSigmoid", [0.3, 0.4])):
        attributes = {"activation": name, "pads": [1, 1, 1, 1]}
        if params:
            attributes["activation_params"] = params
        yield Case(f"fused_conv_{name}", "FusedConv", [floats(1, 3, 5, 5), floats(4, 3, 3, 3), floats(4)],
                attributes)
    yield Case("fused_conv_sum", "FusedConv",
               [floats(1, 3, 5, 5), floats(4, 3, 3, 3), floats(4), floats(1, 4, 3, 3)],
                       {"activation": "Relu"})
    yield Case("fused_gemm", "FusedGemm", [floats(3, 5), floats(5, 4), floats(4)],
               {"activation": "LeakyRelu", "activation_alpha": 0.2, "alpha": 0.5, "beta": 2.0})
    yield Case("expand_dims", "ExpandDims", [floats(2, 3), scalar(-2, np.int32)], constants=(1,))
    yield Case("trilu", "Trilu", [floats(2, 4, 4), scalar(1, np.int64)], {"upper": 0}, constants=(1,))
    yield Case("pad", "Pad", [floats(2, 3), np.array([0, 1, 1, 2], np.int64), scalar(2.5)], constants=(1, 2))
    yield Case("gather_nd", "GatherND", [floats(3, 4), np.array([[0, 1], [2, 3]], np.int64)])


# --- quantised ---


def quantised():
    for dtype in (np.uint8, np.int8):
        n, zero = np.dtype(dtype).name, 3 if dtype == np.int8 else 120
        a, b = bytes_of(2, 3, 5, dtype=dtype), bytes_of(3, 5, dtype=dtype)
        out = scale_zero(0.05, zero, dtype)
        for op in ("Add", "Mul"):
            yield Case(f"qlinear_{op}_{n}", f"QLinear{op}",
                       [a, *scale_zero(0.02, zero, dtype), b, *scale_zero(0.03, 5, dtype), *out])
        yield Case(f"qlinear_sigmoid_{n}", "QLinearSigmoid",
                   [a, *scale_zero(0.02, zero, dtype), *scale_zero(0.004, 0, dtype)], constants=(1, 2, 3, 4))
        yield Case(f"qlinear_leaky_relu_{n}", "QLinearLeakyRelu", [a, *scale_zero(0.02, zero, dtype), *out],
                   {"alpha": 0.2}, constants=(1, 2, 3, 4))
        image = bytes_of(1, 3, 6, 6, dtype=dtype)
        yield Case(f"qlinear_average_pool_{n}", "QLinearAveragePool", [image, *scale_zero(0.02, zero,
                dtype), *out],
                   {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]})
        yield Case(f"qlinear_global_average_pool_{n}", "QLinearGlobalAveragePool",
                   [image, *scale_zero(0.02, zero, dtype), *scale_zero(0.01, zero, dtype)])
        yield Case(f"qlinear_softmax_{n}", "QLinearSoftmax",
                   [a, *scale_zero(0.02, zero, dtype), *scale_zero(0.004, 0, dtype)], {"axis": -1,
                           "opset": 13},
                   constants=(1, 2, 3, 4))
        yield Case(f"qlinear_concat_{n}", "QLinearConcat",
                   [*out, a, *scale_zero(0.02, zero, dtype), a, *scale_zero(0.07, 5, dtype)], {"axis": 1},
                   constants=(0, 1, 3, 4, 6, 7))
    image = bytes_of(1, 6, 6, 3)
    yield Case("qlinear_average_pool_last", "QLinearAveragePool",
               [image, *scale_zero(0.02, 9), *scale_zero(0.03, 7)],
               {"kernel_shape": [3, 3], "channels_last": 1, "count_include_pad": 1, "pads": [1, 1, 1, 1]})
    yield Case("qlinear_where", "QLinearWhere",
               [RNG.random((3, 4)) < 0.5, bytes_of(3, 4), *scale_zero(0.02, 3), bytes_of(3, 4),
                       *scale_zero(0.05, 9),
                *scale_zero(0.04, 100)], constants=(2, 3, 5, 6, 7, 8))
    yield Case("matmul_integer_to_float", "MatMulIntegerToFloat",
               [bytes_of(2, 4, 8), weights(8, 5), scalar(0.02), floats(5), scalar(100,
                       np.uint8),
                bytes_of(5, dtype=np.int8), floats(5)], constants=(1, 3, 5, 6))
    yield Case("matmul_integer_to_float_plain", "MatMulIntegerToFloat",
               [bytes_of(4, 8), bytes_of(8, 5), scalar(0.02), scalar(0.1)])
    yield Case("dynamic_quantize_matmul", "DynamicQuantizeMatMul",
               [floats(2, 4, 8), weights(8, 5), scalar(0.03), scalar(3, np.int8), floats(5)])
    rounded = {"tolerance": 3e-2, "constants": (1, 2, 3, 8, 9, 10, 11), "results": (0, 1, 2)}
    for dirs, dtype, columns in ((1, np.int8, False), (2, np.uint8, False), (1, np.int8, True)):
        scales = [np.full((dirs, 24) if columns else dirs, v, np.float32) for v in (0.004, 0.005)]
        zeros = [np.full(scales[0].shape, v, dtype) for v in ((0, 0) if columns else (3, 100))]
        matrix = weights if dtype == np.int8 else bytes_of
        name = f"dynamic_quantize_lstm_{dirs}_{np.dtype(dtype)}{'_columns' * columns}"
        yield Case(name, "DynamicQuantizeLSTM",
                   [floats(5, 2, 8), matrix(dirs, 8, 24), matrix(dirs, 6, 24),
                    floats(dirs, 48), None, None, None, None, scales[0], zeros[0], scales[1], zeros[1]],
                   {"hidden_size": 6, "direction": "bidirectional" if dirs == 2 else "forward"}, **rounded)
    yield Case("qgemm", "QGemm",
               [bytes_of(4, 8), scalar(0.02), scalar(100, np.uint8), weights(5, 8),
                       scalar(0.03),
                scalar(2, np.int8), RNG.integers(-999, 999, 5).astype(np.int32), scalar(0.5), scalar(90,
                        np.uint8)],
               {"transB": 1, "alpha": 0.5})
    yield Case("qgemm_float", "QGemm",
               [bytes_of(4, 8), scalar(0.02), scalar(100, np.uint8), bytes_of(8, 5), np.abs(floats(5)) * 0.1,
                bytes_of(5)], {}, constants=(4, 5))
    yield Case("quantize", "QuantizeLinear", [floats(3, 4), scalar(0.02), scalar(7, np.uint16)])
    yield Case("dequantize", "DequantizeLinear", [bytes_of(3, 4), np.abs(floats(4)), bytes_of(4)],
            {"axis": 1})


# --- attention ---


def ints(*values):
    return np.array(values, np.int32)


def projections():
    x, w, b = floats(2, 4, 8), floats(8, 24), floats(24)
    mask = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], np.int32)
    yield Case("attention", "Attention", [x, w, b], {"num_heads": 2})
    yield Case("attention_mask", "Attention", [x, w, b, mask], {"num_heads": 2})
    yield Case("attention_ends", "Attention", [x, w, b, ints(3, 4)], {"num_heads": 2})
    yield Case("attention_begins", "Attention", [x, w, b, ints(3, 4, 1, 0)], {"num_heads": 2})
    yield Case("attention_mask_3d", "Attention", [x, w, b, np.tril(np.ones((2, 4, 4), np.int32))],
            {"num_heads": 2})
    yield Case("attention_past", "Attention", [x, w, b, None, floats(2, 2, 2, 3, 4)],
               {"num_heads": 2, "unidirectional": 1}, results=(0, 1))
    yield Case("attention_bias", "Attention", [x, w, b, None, None, floats(2, 2, 4, 4)], {"num_heads": 2})
    yield Case("attention_sizes", "Attention", [x, floats(8, 20), floats(20)],
               {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 4]})
    yield Case("qattention", "QAttention",
               [bytes_of(2, 4, 8), weights(8, 24), b, scalar(0.02), scalar(0.01), mask,
                scalar(120, np.uint8), scalar(3, np.int8)], {"num_heads": 2})


def heads():
    q, k, v = floats(2, 4, 8), floats(2, 6, 8), floats(2, 6, 8)
    attributes = {"num_heads": 2}
    op = "MultiHeadAttention"
    yield Case("mha", op, [q, k, v], attributes)
    yield Case("mha_bias", op, [q, k, v, floats(24)], attributes)
    yield Case("mha_causal", op, [q, floats(2, 4, 8), floats(2, 4, 8)], {**attributes, "unidirectional": 1})
    yield Case("mha_mask", op, [q, k, v, None, ints(5, 6)], attributes)
    yield Case("mha_mask_2d", op, [q, k, v, None, (RNG.random((2, 6)) < 0.7).astype(np.int32)], attributes)
    yield Case("mha_mask_3d", op, [q, k, v, None, (RNG.random((2, 4, 6)) < 0.7).astype(np.int32)], attributes)
    yield Case("mha_added", op, [q, k, v, None, None, floats(1, 2, 4, 6)], {**attributes, "scale": 0.3})
    yield Case("mha_past", op,
               [q, floats(2, 4, 8), floats(2, 4, 8), None, None, None, floats(2, 2, 3, 4), floats(2, 2, 3,
                       4)],
               attributes, results=(0, 1, 2))
    yield Case("mha_cross", op, [q, floats(2, 2, 6, 4), floats(2, 2, 6, 4)], attributes)
    packed = floats(2, 4, 2, 3, 4)
    parts = [packed[:, :, :, i].reshape(2, 4, 8) for i in range(3)]
    yield Case("mha_packed_kv", op, [parts[0], packed[:, :, :, 1:]], attributes, like=parts)
    yield Case("mha_packed_qkv", op, [packed], attributes, like=parts)


def rotary():
    cache = [np.cos(a := RNG.random((16, 4)).astype(np.float32)), np.sin(a)]
    x = floats(2, 3, 16)
    position = np.array([2], np.int64)
    yield Case("rotary", "RotaryEmbedding", [x, position, *cache])
    yield Case("rotary_positions", "RotaryEmbedding", [x, np.array([[3, 1, 0], [4, 5, 6]], np.int64), *cache],
               {"interleaved": 1})
    yield Case("rotary_rank_4", "RotaryEmbedding", [floats(2, 2, 3, 8), position, *cache])
    yield Case("rotary_part", "RotaryEmbedding", [floats(2, 3, 24), position, *cache],
               {"num_heads": 2, "rotary_embedding_dim": 8})


def groups():
    cache = [np.cos(a := RNG.random((16, 8)).astype(np.float32)), np.sin(a)]
    op, attributes, results = "GroupQueryAttention", {"num_heads": 4, "kv_num_heads": 2}, (0, 1, 2)

    def case(name, batch, news, past, lengths, total, more=(), operands=None, **more_attributes):
        new = operands or [floats(batch, news, 64), floats(batch, news, 32), floats(batch, news, 32)]
        before = [None, None] if past is None else [floats(batch, 2, past, 16), floats(batch, 2, past, 16)]
        return Case(f"gqa_{name}", op, [*new, *before, ints(*lengths), scalar(total, np.int32), *more],
                    {**attributes, **more_attributes}, (6,), results)

    yield case("prompt", 2, 5, None, [4, 4], 5)
    yield case("prompt_rotary", 2, 5, None, [4, 4], 5, cache, do_rotary=1)
    yield case("packed", 1, 5, None, [4], 5, cache, [floats(1, 5, 128), None, None], do_rotary=1)
    yield case("token", 1, 1, 6, [6], 7, cache, do_rotary=1, rotary_interleaved=1)
    yield case("tokens", 1, 3, 6, [8], 9, cache, do_rotary=1)
    ragged = case("batch", 2, 1, 6, [6, 3], 7, cache, do_rotary=1)
    ragged.counts = np.arange(7)[None, None, :, None] <= np.array([6, 3])[:, None, None, None]
    yield ragged
    yield case("window", 1, 6, None, [5], 6, local_window_size=2)
    yield case("window_token", 1, 1, 6, [6], 7, local_window_size=3)
    yield case("softcap", 1, 5, None, [4], 5, softcap=2.0, scale=0.5)
    yield case("smooth", 1, 5, None, [4], 5, smooth_softmax=1)
    yield case("sink", 1, 5, None, [4], 5, [None, None, None, None, floats(4)])

    def normed(x, weight):
        rows = x.reshape(*x.shape[:2], -1, 16)
        return (rows / np.sqrt((rows**2).mean(-1, keepdims=True) + 1e-5) * weight).reshape(x.shape)

    # ONNX Runtime has no kernel for it: the rows that it is given are normed before.
    norm = case("norm", 1, 3, 6, [8], 9, [*cache, *[None] * 5, floats(16), floats(16)], do_rotary=1)
    q, k = (normed(norm.operands[i], norm.operands[14 + i]).astype(np.float32) for i in range(2))
    norm.like = [q, k, *norm.operands[2:9]]
    norm.own_attributes = {"qk_norm_epsilon": 1e-5}
    yield norm
    yield case("added", 1, 3, 4, [6], 7, [None, None, None, floats(1, 4, 3, 7)])


# --- weights of few bits ---


def few_bits():
    for bits, block, inner, columns, rows in ((4, 32, 64, 20, 5), (8, 16, 40, 7, 1), (4, 16, 36, 16, 3)):
        blocks = -(-inner // block)
        w = bytes_of(columns, blocks, block * bits // 8)
        scales = np.abs(floats(columns, blocks)) * 0.1
        attributes = {"bits": bits, "block_size": block, "K": inner, "N": columns}
        name = f"matmul_{bits}_bits_{inner}"
        constants = (1, 2, 3, 5)
        x = floats(2, rows, inner)
        yield Case(name, "MatMulNBits", [x, w, scales], attributes, constants, tolerance=1e-4)
        zeros = bytes_of(columns, -(-blocks * bits // 8))
        yield Case(f"{name}_zeros", "MatMulNBits", [x, w, scales, zeros, None, floats(columns)], attributes,
                   constants, tolerance=1e-4)
        yield Case(f"{name}_inputs", "MatMulNBits", [x, w, scales], attributes, tolerance=1e-4)
    rows = np.array([[3, 0], [1, 4]], np.int64)
    scales = np.abs(floats(5, 2))
    for bits in (4, 8):
        data, attributes = bytes_of(5, 32 * bits // 8), {"bits": bits, "block_size": 16}
        yield Case(f"gather_{bits}_bits", "GatherBlockQuantized", [data, rows, scales], attributes, (0, 2))
        zeros = bytes_of(5, 2 * bits // 8)
        yield Case(f"gather_{bits}_bits_zeros", "GatherBlockQuantized", [data, rows, scales, zeros],
                attributes,
                   (0, 2, 3))


# Constants between DequantizeLinear and MatMul, large enough to stay packed.
def packed_matrices():
    import ml_dtypes

    x, inner, columns = floats(3, 112), 112, 48
    for dtype, low, high in ((ml_dtypes.int4, -8, 8), (ml_dtypes.uint4, 0, 16)):
        def numbers(*shape):
            return RNG.integers(low, high, shape).astype(dtype)

        name = f"packed_{np.dtype(dtype).name}"
        shapes = {"blocks": ((4, columns), {"axis": 0, "block_size": 32}), "columns": ((columns,),
                {"axis": 1}),
                  "whole": ((), {})}
        for kind, (shape, attributes) in shapes.items():
            scale = np.abs(RNG.standard_normal(shape).astype(np.float32)) * np.float32(0.1)
            operands = [x, numbers(inner, columns), scale]
            for zeros in ([], [numbers(*shape)]):
                yield Case(f"{name}_{kind}{'_zeros' if zeros else ''}", "MatMul", operands + zeros, {}, (1,
                        2, 3),
                           tolerance=1e-4, domain="", dequantise=attributes)


# --- half precision ---


def halves():
    def half(*shape):
        return floats(*shape).astype(np.float16)

    tolerance = {"tolerance": 4e-3}
    x = half(2, 3, 8)
    yield Case("half_bias_gelu", "BiasGelu", [x, half(8)], **tolerance)
    yield Case("half_skip_rms_norm", "SkipSimplifiedLayerNormalization", [x, half(2, 3, 8), half(8)],
               {"epsilon": 1e-5}, **tolerance)
    yield Case("half_fused_matmul", "FusedMatMul", [half(3, 5), half(5, 4)], {"alpha": 0.5}, **tolerance)
    cache = [half(16, 8), half(16, 8)]
    yield Case("half_gqa", "GroupQueryAttention",
               [half(1, 3, 64), half(1, 3, 32), half(1, 3, 32), half(1, 2, 6, 16), half(1, 2, 6, 16), ints(8),
                scalar(9, np.int32), *cache], {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}, (6,), (0,
                        1, 2),
               **tolerance)
    yield Case("half_mha", "MultiHeadAttention", [half(2, 4, 8), half(2, 6, 8), half(2, 6, 8), half(24)],
               {"num_heads": 2}, **tolerance)
    yield Case("half_rotary", "RotaryEmbedding", [half(2, 3, 32), np.array([2], np.int64), *cache],
            **tolerance)
    yield Case("half_matmul_bits", "MatMulNBits",
               [half(3, 32), bytes_of(5, 2, 8), np.abs(half(5, 2)) / 16], {"bits": 4, "block_size": 16,
                       "K": 32, "N": 5},
               (1, 2), **tolerance)


# --- experts ---


def experts():
    x, e, d, h = floats(2, 5, 32), 4, 32, 48
    router, fc2, bias2 = floats(10, e), floats(e, d, h), floats(e, d)
    for name in ("relu", "gelu", "silu", "identity"):
        operands = [x, router, floats(e, h, d), floats(e, h), fc2, bias2]
        attributes = {"k": 2, "activation_type": name, "normalize_routing_weights": int(name != "relu")}
        yield Case("moe_" + name, "MoE", operands, attributes, (2, 3, 4, 5))
    attributes = {"k": 3, "activation_type": "swiglu", "swiglu_fusion": 1}
    fc1 = [floats(e, 2 * h, d), floats(e, 2 * h)]
    yield Case("moe_swiglu", "MoE", [x[0], router[:5], *fc1, fc2, bias2], attributes, (2, 3, 4, 5))
    limits = {"activation_alpha": 1.5, "activation_beta": 1.0, "swiglu_limit": 2.0}
    yield Case("moe_swiglu_limit", "MoE", [x, router, *fc1, fc2], {**attributes, **limits}, (2, 3, 4))
    for bits in (4, 8):
        weights = bytes_of(e, h, d * bits // 8), bytes_of(e, d, h * bits // 8)
        scales = np.abs(floats(e, h)) / 64, np.abs(floats(e, d)) / 64
        operands = [x, router, weights[0], scales[0], floats(e, h), weights[1], scales[1], bias2]
        attributes = {"k": 2, "expert_weight_bits": bits, "activation_type": "silu"}
        yield Case(f"qmoe_{bits}", "QMoE", operands, attributes, (2, 3, 4, 5, 6, 7), tolerance=1e-4)
        operands = list(operands)
        operands[3], operands[6] = np.abs(floats(e, h, 2)) / 64, np.abs(floats(e, d, 3)) / 64
        zeros = [None] * 3 + [bytes_of(e, h, 2 * bits // 8), bytes_of(e, d, (3 * bits + 7) // 8)]
        yield Case(f"qmoe_{bits}_blocks", "QMoE", operands + zeros, {**attributes, "block_size": 16},
                   (2, 3, 4, 5, 6, 7, 11, 12), tolerance=2e-2)  # ONNX Runtime takes rows of 8 bits
        shares = [None, np.abs(floats(10, e))]
        yield Case(f"qmoe_{bits}_router_weights", "QMoE", operands + zeros + shares,
                   {**attributes, "block_size": 16, "normalize_routing_weights": 1},
                   (2, 3, 4, 5, 6, 7, 11, 12), tolerance=2e-2)


def all_cases():
    for group in (experts, fused, quantised, projections, heads, rotary, groups, few_bits, packed_matrices,
                  halves):
        yield from group()
