# SPDX-License-Identifier: Apache-2.0
"""Writes GGUF files, and packs arrays into blocks: what the tests of language models read is made here."""

import struct

import numpy

F32, F16, Q4_0, Q8_0, Q4_K, Q6_K, BF16, Q8_1, MXFP4 = 0, 1, 2, 8, 12, 14, 30, 9, 39
U32, F32_VALUE, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, value):
    """A key with a value whose type follows from Python's."""
    if isinstance(value, bool):
        return text(key) + struct.pack("<IB", BOOL, value)
    if isinstance(value, int):
        return text(key) + struct.pack("<II", U32, value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", F32_VALUE, value)
    if isinstance(value, str):
        return text(key) + struct.pack("<I", STRING) + text(value)
    if isinstance(value[0], str):
        head = text(key) + struct.pack("<IIQ", ARRAY, STRING, len(value))
        return head + b"".join(map(text, value))
    kinds = {int: (U32, "I"), float: (F32_VALUE, "f")}
    number, code = kinds[type(value[0])]
    head = text(key) + struct.pack("<IIQ", ARRAY, number, len(value))
    return head + struct.pack(f"<{len(value)}{code}", *value)


def halves(values):
    return values.astype("<f2").view("u1").reshape(*values.shape, 2)


def pack_q8_0(x):
    d = numpy.abs(x).max(-1) / 127
    q = numpy.rint(x / numpy.where(d == 0, 1, d)[..., None]).astype("i1")
    return numpy.concatenate([halves(d), q.view("u1")], -1)


def unpack_q8_0(b):
    d = b[..., :2].copy().view("<f2").astype("f4")
    return d * b[..., 2:].view("i1").astype("f4")


def pack_q4_0(x):
    d = numpy.abs(x).max(-1) / 8
    q = numpy.clip(numpy.rint(x / numpy.where(d == 0, 1, d)[..., None]) + 8, 0, 15).astype("u1")
    return numpy.concatenate([halves(d), q[..., :16] | q[..., 16:] << 4], -1)


def unpack_q4_0(b):
    d = b[..., :2].copy().view("<f2").astype("f4")
    q = numpy.concatenate([b[..., 2:] & 15, b[..., 2:] >> 4], -1)
    return d * (q.astype("f4") - 8)


def pack_q6_k(x):
    """256 elements: 16 groups with a scale of 8 bits each; element i of half h lies in the plane i / 32."""
    d = numpy.abs(x).max(-1, keepdims=True) / 32 / 16
    scale = numpy.full((*x.shape[:-1], 16), 16, "i1")
    q = numpy.clip(numpy.rint(x / (d * 16)) + 32, 0, 63).astype("u1").reshape(*x.shape[:-1], 2, 4, 32)
    low = numpy.stack([(q[..., i, :] & 15) | (q[..., i + 2, :] & 15) << 4 for i in (0, 1)], -2)
    high = sum((q[..., i, :] >> 4) << 2 * i for i in range(4))
    shape = x.shape[:-1]
    parts = [low.reshape(*shape, 128), high.reshape(*shape, 64), scale.view("u1"), halves(d[..., 0])]
    return numpy.concatenate(parts, -1)


def unpack_q6_k(b):
    low = b[..., :128].reshape(*b.shape[:-1], 2, 2, 32)
    high = b[..., 128:192].reshape(*b.shape[:-1], 2, 32)
    planes = [(low[..., i & 1, :] >> 4 * (i >> 1) & 15) | (high >> 2 * i & 3) << 4 for i in range(4)]
    q = numpy.stack(planes, -2).astype("f4").reshape(*b.shape[:-1], 256) - 32
    scale = numpy.repeat(b[..., 192:208].view("i1").astype("f4"), 16, -1)
    return b[..., 208:].copy().view("<f2").astype("f4") * scale * q


FP4 = numpy.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def pack_mxfp4(x):
    """A scale that is a power of two, and 32 numbers of 4 bits: element i in byte i, i + 16 above it."""
    largest = numpy.abs(x).max(-1)
    power = numpy.floor(numpy.log2(numpy.where(largest == 0, 1, largest))) - 2
    q = numpy.abs((x / 2.0 ** power[..., None])[..., None] - FP4).argmin(-1).astype("u1")
    scale = (power + 127).astype("u1")[..., None]
    return numpy.concatenate([scale, q[..., :16] | q[..., 16:] << 4], -1)


def unpack_mxfp4(b):
    q = numpy.concatenate([b[..., 1:] & 15, b[..., 1:] >> 4], -1)
    return FP4[q] * 2.0 ** (b[..., :1].astype("f8") - 127)


# elements of a block, packing, unpacking
BLOCKS = {
    Q4_0: (32, pack_q4_0, unpack_q4_0),
    Q8_0: (32, pack_q8_0, unpack_q8_0),
    Q6_K: (256, pack_q6_k, unpack_q6_k),
    MXFP4: (32, pack_mxfp4, unpack_mxfp4),
}


def pack(x, kind):
    """The bytes of an array, and the array that they stand for."""
    if kind in (F32, F16):
        stored = x.astype("<f4" if kind == F32 else "<f2")
        return stored.tobytes(), stored.astype("f4")
    if kind == BF16:
        bits = (x.astype("<f4").view("u4") + 0x8000) >> 16
        return bits.astype("<u2").tobytes(), (bits << 16).astype("<u4").view("f4")
    elements, packs, unpacks = BLOCKS[kind]
    b = packs(x.reshape(*x.shape[:-1], -1, elements))
    return b.tobytes(), unpacks(b).reshape(x.shape)


def describe(tensors):
    """Descriptions of (name, shape, type, bytes), and their data, in which offsets count."""
    head, data = b"", b""
    for name, shape, kind, content in tensors:
        data += bytes(-len(data) % 32)
        sizes = [struct.pack("<Q", size) for size in reversed(shape)]
        head += text(name) + struct.pack("<I", len(shape)) + b"".join(sizes)
        head += struct.pack("<IQ", kind, len(data))
        data += content
    return head, data


def make_parts(entries, tensors, n):
    """The bytes of the files of a model in parts: the first has the entries."""
    parts = []
    for i in range(n):
        own = {"split.no": i, "split.count": n, "split.tensors.count": len(tensors)}
        parts.append(make((entries if i == 0 else {}) | own, tensors[i::n]))
    return parts


def make(entries, tensors):
    """The bytes of a file. entries: {key: value}; tensors: list of (name, shape, type, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries))
    head += b"".join(entry(key, value) for key, value in entries.items())
    described, data = describe(tensors)
    head += described
    return head + bytes(-len(head) % 32) + data
