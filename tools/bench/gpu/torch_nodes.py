# SPDX-License-Identifier: Apache-2.0
"""Nodes of ONNX as functions of torch: peers of tools/bench/gpu_odd. A function gets the operands (tensors on
the device; constants of the model as arrays; None where one is left out) and the attributes of its node."""

import numpy as np
import torch
from torch.nn import functional as F

CONVS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
DECONVS = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
MAX_POOLS = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}


def tensor_of(array):
    """An array as a tensor; bits of bf16 (uint16) as bf16."""
    array = np.ascontiguousarray(array)
    if array.dtype == np.uint16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def halves(a, rank):
    """Pads of torch: the same before and behind each axis."""
    pads = a.get("pads", [0] * 2 * rank)
    assert pads[:rank] == pads[rank:], "torch has no such pads"
    return pads[:rank]


def conv(v, a):
    rank, bias = v[0].dim() - 2, v[2] if len(v) > 2 else None
    one = [1] * rank
    facts = a.get("strides", one), halves(a, rank), a.get("dilations", one), a.get("group", 1)
    return CONVS[rank](v[0], v[1], bias, *facts)


def deconv(v, a):
    rank = v[0].dim() - 2
    facts = a["strides"], halves(a, rank), a.get("output_padding", [0] * rank), a.get("group", 1)
    return DECONVS[rank](v[0], v[1], None, *facts)


def axes_of(v):
    return [int(x) for x in v[1]]


def product_along(v, a):
    found = v[0]
    for axis in sorted(axes_of(v), reverse=True):
        found = found.prod(axis, keepdim=True)
    return found


def layer_norm(v, a):
    return F.layer_norm(v[0], v[0].shape[-1:], v[1], v[2])


def group_norm(v, a):
    return F.group_norm(v[0], a["num_groups"], v[1], v[2])


def pad(v, a):
    rank, pads = v[0].dim(), [int(x) for x in v[1]]
    order = [p for axis in reversed(range(rank)) for p in (pads[axis], pads[axis + rank])]
    while order[-2:] == [0, 0]:
        del order[-2:]
    modes = {"reflect": "reflect", "edge": "replicate", "constant": "constant"}
    return F.pad(v[0], order, modes[a.get("mode", "constant")])


def cut(v, a):
    x, starts, ends = v[0], *([int(n) for n in w] for w in v[1:3])
    axes = [int(n) for n in v[3]]
    steps = [int(n) for n in v[4]] if len(v) > 4 else [1] * len(axes)
    for axis, start, end, step in zip(axes, starts, ends, steps):
        if step < 0:
            x = x.flip(axis)
        else:
            x = x[(slice(None),) * axis + (slice(start, end, step),)]
    return x.clone(memory_format=torch.contiguous_format)  # also of rows that lie together


def resize(v, a):
    size = [int(n) for n in v[3][2:]]
    corners = a.get("coordinate_transformation_mode") == "align_corners"
    names = {"linear": {1: "linear", 2: "bilinear", 3: "trilinear"}[len(size)], "cubic": "bicubic"}
    mode = names.get(a["mode"], "nearest")
    more = {} if mode == "nearest" else {"align_corners": corners}
    return F.interpolate(v[0], size, mode=mode, **more)


def depth_to_space(v, a):
    n, c, h, w = v[0].shape
    b = a["blocksize"]
    split = v[0].view(n, b, b, c // (b * b), h, w).permute(0, 3, 4, 1, 5, 2)
    return split.reshape(n, c // (b * b), h * b, w * b)


def space_to_depth(v, a):
    n, c, h, w = v[0].shape
    b = a["blocksize"]
    split = v[0].view(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4)
    return split.reshape(n, c * b * b, h // b, w // b)


def gather_nd(v, a):
    return v[0][tuple(v[1].unbind(-1))]


def scatter_elements(v, a):
    if a.get("reduction") == "add":
        return v[0].scatter_add(a["axis"], v[1], v[2])
    return v[0].scatter(a["axis"], v[1], v[2])


def scatter_nd(v, a):
    if a.get("reduction") == "add":
        return v[0].index_add(0, v[1][:, 0], v[2])
    return v[0].index_copy(0, v[1][:, 0], v[2])


def one_hot(v, a):
    classes = torch.arange(int(v[1]), device=v[0].device)
    axis = a.get("axis", -1)
    found = v[0].unsqueeze(axis) == (classes if axis == -1 else classes[:, None])
    return found.to(tensor_of(v[2]).dtype)


def max_pool(v, a):
    k, rank = a["kernel_shape"], v[0].dim() - 2
    return MAX_POOLS[rank](v[0], k, a.get("strides", [1] * rank), halves(a, rank))


def average_pool(v, a):
    k = a["kernel_shape"]
    return F.avg_pool2d(v[0], k, a.get("strides", [1, 1]), halves(a, 2))


def grid_sample(v, a):
    return F.grid_sample(v[0], v[1], align_corners=False)


def whole_div(v, a):
    return torch.div(v[0], int(v[1][0]), rounding_mode="trunc")


NODES = {
    "Conv": conv, "ConvTranspose": deconv, "LayerNormalization": layer_norm, "GroupNormalization": group_norm,
    "Pad": pad, "Slice": cut, "Resize": resize, "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth, "GatherND": gather_nd, "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd, "OneHot": one_hot, "MaxPool": max_pool, "AveragePool": average_pool,
    "GridSample": grid_sample, "ReduceProd": product_along, "Div": whole_div,
    "ReduceSum": lambda v, a: v[0].sum(axes_of(v), keepdim=True),
    "ReduceMax": lambda v, a: v[0].amax(axes_of(v), keepdim=True),
    "ReduceMean": lambda v, a: v[0].mean(axes_of(v), keepdim=True),
    "ReduceL2": lambda v, a: torch.linalg.vector_norm(v[0], dim=axes_of(v), keepdim=True),
    "ReduceLogSumExp": lambda v, a: v[0].logsumexp(axes_of(v), keepdim=True),
    "ArgMax": lambda v, a: v[0].argmax(a["axis"]),
    "TopK": lambda v, a: v[0].topk(int(v[1][0]), a["axis"])[0],
    "CumSum": lambda v, a: v[0].cumsum(int(v[1])),
    "Softmax": lambda v, a: v[0].softmax(a["axis"]), "LogSoftmax": lambda v, a: v[0].log_softmax(a["axis"]),
    "RMSNormalization": lambda v, a: F.rms_norm(v[0], v[0].shape[-1:], v[1], a["epsilon"]),
    "InstanceNormalization": lambda v, a: F.instance_norm(v[0], weight=v[1], bias=v[2]),
    "LRN": lambda v, a: F.local_response_norm(v[0], a["size"]),
    "MatMul": lambda v, a: torch.matmul(v[0], v[1]), "Einsum": lambda v, a: torch.einsum(a["equation"], *v),
    "Attention": lambda v, a: F.scaled_dot_product_attention(*v),
    "Transpose": lambda v, a: v[0].permute(a["perm"]).contiguous(),
    "Concat": lambda v, a: torch.cat(v, a["axis"]), "Tile": lambda v, a: v[0].repeat(*map(int, v[1])),
    "Expand": lambda v, a: v[0].expand(*map(int, v[1])).contiguous(),
    "Trilu": lambda v, a: v[0].tril(),
    "Gather": lambda v, a: v[0].index_select(a.get("axis", 0), v[1]),
    "GatherElements": lambda v, a: v[0].gather(a["axis"], v[1]),
    "Where": lambda v, a: torch.where(*v), "Add": lambda v, a: v[0] + v[1],
    "Erf": lambda v, a: v[0].erf(), "Sin": lambda v, a: v[0].sin(), "Tanh": lambda v, a: v[0].tanh(),
    "Exp": lambda v, a: v[0].exp(), "Gelu": lambda v, a: F.gelu(v[0]),
    "Mod": lambda v, a: v[0].remainder(int(v[1][0])),
    "GlobalAveragePool": lambda v, a: v[0].mean((2, 3), keepdim=True),
    "GlobalMaxPool": lambda v, a: v[0].amax((2, 3), keepdim=True),
    "Col2Im": lambda v, a: F.fold(v[0], [int(n) for n in v[1]], [int(n) for n in v[2]]),
}  # fmt: skip
