# SPDX-License-Identifier: Apache-2.0
"""Cases of the sweep: what they are in the file, and how they are made of recorded networks.

A case is an operator as it stands in its network: with the elementwise operators behind it that nobody else
reads. It is a dictionary:
  family  conv, product, attention, ...: by which results are summed up
  in      shapes of its inputs (weights are no inputs)
  steps   lists [operator, facts], each applied to the result of the one before; "with" in the facts is the
          number of a further input
  count   how often it stands in all the networks, of which `of` names up to three

The facts are sizes alone, so that a case can be made in every element type."""

import hashlib
import json
import math

VIEWS = {"view", "_unsafe_view", "unsqueeze", "squeeze", "reshape", "alias", "detach"}
UNARY = {
    "relu": "relu", "silu": "silu", "sigmoid": "sigmoid", "tanh": "tanh", "hardswish": "hardswish",
    "hardsigmoid": "hardsigmoid", "exp": "exp", "rsqrt": "rsqrt", "sqrt": "sqrt", "neg": "neg", "abs": "abs",
    "erf": "erf", "softplus": "softplus", "mish": "mish", "log": "log", "sin": "sin", "cos": "cos",
}  # fmt: skip
BINARY = {"add": "add", "sub": "sub", "mul": "mul", "div": "div"}
MAX_STEPS = 8


def plain(name):
    """Name of an operator, without the underscore of those that write in place."""
    return name[:-1] if name.endswith("_") and not name.startswith("__") else name


def operand(node, name):
    """Node that is the argument `name` of a node, or None."""
    where = node.args.get(name)
    return node.inputs[where[1]] if isinstance(where, tuple) and where[0] == "tensor" else None


def through_views(node):
    while node.op in VIEWS and node.inputs:
        node = node.inputs[0]
    return node


# What begins a case: functions of a node that give (family, shapes of inputs, step) or None.


def convolution(node):
    x, w = operand(node, "input"), operand(node, "weight")
    a = node.args
    facts = {
        "w": w.shape,
        "stride": a["stride"],
        "pad": a["padding"],
        "dil": a["dilation"],
        "groups": a["groups"],
    }
    facts["bias"] = operand(node, "bias") is not None
    if a["transposed"]:
        return "deconv", [x.shape], ["deconv", {**facts, "more": a["output_padding"]}]
    rank = len(w.shape) - 2
    if a["groups"] > 1:
        family = "depthwise" if a["groups"] == w.shape[0] and w.shape[1] == 1 else "grouped"
    else:
        family = f"conv{rank}d"
    return family, [x.shape], ["conv", facts]


def addmm(node):
    x, w = operand(node, "mat1"), operand(node, "mat2")
    return "product", [x.shape], ["linear", {"w": w.shape, "bias": True}]


def mm(node):
    x, w = operand(node, "self"), operand(node, "mat2")
    return "product", [x.shape], ["linear", {"w": w.shape, "bias": False}]


def bmm(node):
    x, y = operand(node, "self"), operand(node, "mat2")
    if y.strides and y.strides[0] == 0:  # one matrix of weights for the whole batch
        return (
            "product",
            [[x.shape[0] * x.shape[1], x.shape[2]]],
            ["linear", {"w": y.shape[1:], "bias": False}],
        )
    is_turned = y.strides is not None and len(y.strides) == 3 and y.strides[1] == 1 and y.shape[2] > 1
    shape = [y.shape[0], y.shape[2], y.shape[1]] if is_turned else y.shape
    return "batched", [x.shape, shape], ["matmul", {"with": 1, "turned": is_turned}]


def attention(node):
    q, k, v = (operand(node, n) for n in ("query", "key", "value"))
    mask = operand(node, "attn_mask") or operand(node, "attn_bias")
    facts = {"causal": bool(node.args.get("is_causal", False))}
    shapes = [q.shape, k.shape, v.shape]
    if mask is not None:
        shapes, facts["mask"] = [*shapes, mask.shape], 3
    return "attention", shapes, ["attention", facts]


def softmax(node):
    return "softmax", [node.shape], ["softmax", {"axis": node.args["dim"] % len(node.shape)}]


def layer_norm(node):
    n = len(node.args["normalized_shape"])
    return "norm", [node.shape], ["layer_norm", {"axes": n, "eps": node.args["eps"]}]


def group_norm(node):
    return "norm", [node.shape], ["group_norm", {"groups": node.args["group"], "eps": node.args["eps"]}]


def batch_norm(node):
    return "norm", [node.shape], ["batch_norm", {}]


def pool(kind):
    def make(node):
        x, a = operand(node, "self"), node.args
        rank = len(a["kernel_size"])
        facts = {"k": a["kernel_size"], "stride": a.get("stride") or a["kernel_size"]}
        facts["pad"] = a.get("padding") or [0] * rank
        facts["ceil"] = bool(a.get("ceil_mode", False))
        if kind == "avg_pool":
            facts["counts"] = bool(a.get("count_include_pad", True))
        sizes = [n * rank if len(n) == 1 else list(n) for n in (facts["k"], facts["stride"], facts["pad"])]
        facts["k"], facts["stride"], facts["pad"] = sizes
        return "pool", [x.shape], [kind, facts]

    return make


def mean(node):
    x, axes = operand(node, "self"), node.args.get("dim")
    if axes is None or x.integer:
        return None
    axes = sorted(a % len(x.shape) for a in axes)
    return "reduce", [x.shape], ["mean", {"axes": axes}]


def total(node):
    found = mean(node)
    return found and (found[0], found[1], ["sum", found[2][1]])


def global_pool(node):
    x = operand(node, "self")
    if any(n != 1 for n in node.args["output_size"]):
        return None
    return "reduce", [x.shape], ["mean", {"axes": list(range(2, len(x.shape)))}]


def concat(node):
    shapes = [v.shape for v in node.inputs]
    if node.integer or len(shapes) < 2:
        return None
    return "copy", shapes, ["cat", {"axis": node.args.get("dim", 0) % len(node.shape)}]


def copy(node):
    """A copy that changes the order of the axes."""
    x = node.inputs[0]
    if x.strides is None or len(x.shape) < 2 or 0 in x.strides or node.integer:
        return None
    order = sorted(range(len(x.shape)), key=lambda i: (-x.strides[i], i))
    if order == sorted(order):
        return None
    perm = [order.index(i) for i in range(len(order))]
    return "copy", [[x.shape[i] for i in order]], ["transpose", {"perm": perm}]


def resize(mode):
    def make(node):
        x = operand(node, "self") or operand(node, "input")
        facts = {"mode": mode, "size": node.shape[2:], "corners": bool(node.args.get("align_corners", False))}
        return "resize", [x.shape], ["resize", facts]

    return make


def gather(node):
    table, rows = operand(node, "weight"), operand(node, "indices")
    return "gather", [rows.shape], ["embedding", {"w": table.shape}]


def recurrent(node):
    x, a = node.inputs[0], node.args
    if a["layers"] != 1:
        return None
    n, t = (0, 1) if a["first"] else (1, 0)
    facts = {"hidden": a["hidden"], "both": a["both"]}
    return "recurrent", [[x.shape[t], x.shape[n], x.shape[2]]], [node.op, facts]


def top(node):
    x = operand(node, "self")
    return (
        "choose",
        [x.shape],
        ["topk", {"k": node.args["k"], "axis": node.args.get("dim", -1) % len(x.shape)}],
    )


def argmax(node):
    x, axis = operand(node, "self"), node.args.get("dim")
    return None if axis is None else ("choose", [x.shape], ["argmax", {"axis": axis % len(x.shape)}])


def cumsum(node):
    x = operand(node, "self")
    return None if x.integer else ("scan", [x.shape], ["cumsum", {"axis": node.args["dim"] % len(x.shape)}])


def shuffle(node):
    x = operand(node, "self")
    return "copy", [x.shape], ["pixel_shuffle", {"by": node.args["upscale_factor"]}]


def pad(node):
    x, pads = operand(node, "self"), node.args["pad"] if "pad" in node.args else node.args["padding"]
    mode = "reflect" if node.op.startswith("reflection") else "constant"
    if x.integer or any(n < 0 for n in pads):
        return None
    return "copy", [x.shape], ["pad", {"pads": list(pads), "mode": mode}]


HEADS = {
    "convolution": convolution, "addmm": addmm, "mm": mm, "bmm": bmm,
    "_scaled_dot_product_flash_attention_for_cpu": attention, "scaled_dot_product_attention": attention,
    "_scaled_dot_product_attention_math": attention, "_softmax": softmax, "native_layer_norm": layer_norm,
    "native_group_norm": group_norm, "native_batch_norm": batch_norm, "_batch_norm_with_update": batch_norm,
    "_native_batch_norm_legit_no_training": batch_norm, "max_pool2d_with_indices": pool("max_pool"),
    "max_pool3d_with_indices": pool("max_pool"), "avg_pool2d": pool("avg_pool"),
    "avg_pool3d": pool("avg_pool"),
    "mean": mean, "sum": total, "_adaptive_avg_pool2d": global_pool, "_adaptive_avg_pool3d": global_pool,
    "cat": concat, "clone": copy, "upsample_nearest2d": resize("nearest"),
    "upsample_bilinear2d": resize("linear"), "embedding": gather, "lstm": recurrent, "gru": recurrent,
    "topk": top, "argmax": argmax, "cumsum": cumsum, "pixel_shuffle": shuffle, "constant_pad_nd": pad,
    "reflection_pad1d": pad, "reflection_pad2d": pad,
}  # fmt: skip


def elementwise(node, before, shapes):
    """The step that a node is behind the node `before`, or None; may add a shape to `shapes`."""
    op = plain(node.op)
    if op in UNARY:
        return [UNARY[op], {}]
    if op == "gelu":
        return ["gelu", {"form": node.args.get("approximate", "none")}]
    if op in ("hardtanh", "clamp", "clamp_min"):
        low, high = ("min_val", "max_val") if op == "hardtanh" else ("min", "max")
        bounds = node.args.get(low), node.args.get(high)
        return (
            None
            if any(isinstance(b, tuple) for b in bounds)
            else ["clip", {"low": bounds[0], "high": bounds[1]}]
        )
    if op in ("leaky_relu", "elu"):
        return [op, {"alpha": node.args.get("negative_slope", node.args.get("alpha", 0.01))}]
    if op == "pow" and isinstance(node.args.get("exponent"), (int, float)):
        return ["pow", {"by": node.args["exponent"]}]
    if op in BINARY and node.args.get("alpha", 1) == 1 and node.args.get("rounding_mode") is None:
        return with_operand(node, before, shapes, BINARY[op])
    return None


def with_operand(node, before, shapes, op):
    first, second = operand(node, "self"), operand(node, "other")
    if second is None:
        by = node.args.get("other")
        return [op, {"by": by}] if isinstance(by, (int, float)) else None
    if first is None or first.integer or second.integer:
        return None
    if first is before and second is before:
        return ["square", {}] if op == "mul" else None
    other, is_right = (second, False) if first is before else (first, True)
    shapes.append(other.shape)
    facts = {"with": len(shapes) - 1}
    if is_right and op in ("sub", "div"):
        facts["right"] = True
    return [op, facts]


def is_norm_of(node, before):
    return HEADS.get(node.op) is batch_norm and node.inputs[0] is before


def chain_of(head, shapes, steps, taken):
    """Appends the elementwise operators that follow a node, as long as one alone reads what there is."""
    here, shape = head, head.shape
    while len(steps) < MAX_STEPS:
        users = here.users
        if len(users) != 1 or users[0] in taken:
            return
        user = users[0]
        if is_norm_of(user, here):
            steps[-1][1]["bias"] = True  # it becomes a part of the weights
            if steps[-1][0] not in ("conv", "deconv", "linear"):
                return
        elif user.op in VIEWS and user.shape[-1] == shape[-1] and steps[0][0] == "linear":
            pass  # rows of a product get their batch back
        else:
            before = len(shapes)
            step = elementwise(user, here, shapes)
            if step is None or user.shape != here.shape or not same_rank(shapes[before:], user.shape):
                del shapes[before:]
                return
            steps.append(step)
        taken.add(user)
        here = user


def same_rank(shapes, result):
    """Operands whose sizes are the result's or 1."""
    for shape in shapes:
        full = [1] * (len(result) - len(shape)) + shape
        if len(shape) > len(result) or any(s not in (1, r) for s, r in zip(full, result)):
            return False
    return True


def of_nodes(nodes):
    """(family, inputs, steps) of all nodes that make a case."""
    taken, found = set(), []
    for node in nodes:
        if node in taken:
            continue
        make = HEADS.get(plain(node.op))
        made = make(node) if make else alone(node)
        if made is None:
            continue
        family, shapes, step = made
        shapes, steps = [list(s) for s in shapes], [step]
        taken.add(node)
        chain_of(node, shapes, steps, taken)
        settle_rows(shapes, steps)
        found.append((family, shapes, steps))
    return found


def settle_rows(shapes, steps):
    """Operands of a product's epilogue as rows: [batch, tokens, n] is [batch * tokens, n] there. The epilogue
    ends before an operand that repeats in another way than every row does."""
    if steps[0][0] != "linear":
        return
    rows, n = shapes[0][0], steps[0][1]["w"][1]
    for i in range(1, len(shapes)):
        size = math.prod(shapes[i])
        shapes[i] = [rows, n] if size == rows * n else shapes[i][-1:] if size == shapes[i][-1] else shapes[i]
        if len(shapes[i]) > 1 and shapes[i] != [rows, n]:
            first = next(at for at, (_, facts) in enumerate(steps) if facts.get("with") == i)
            del shapes[i:], steps[first:]
            return


def alone(node):
    """An elementwise operator that no other one took along."""
    if node.integer or not node.inputs or node.inputs[0].integer or len(node.shape) < 2:
        return None
    first = node.inputs[0]
    if first.shape != node.shape:
        return None
    shapes = [first.shape]
    step = elementwise(node, first, shapes)
    return None if step is None or not same_rank(shapes[1:], node.shape) else ("eltwise", shapes, step)


def key_of(case):
    return json.dumps([case["family"], case["in"], case["steps"]], separators=(",", ":"))


def spread(key):
    """A place in an order that has nothing to do with sizes, and is always the same."""
    return hashlib.sha256(key.encode()).hexdigest()


def read(path):
    """The cases of a file, one a line."""
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.strip()]


def name_of(case):
    """A short name: sizes of the first input and of the weights, and the operators."""
    sizes = "x".join(map(str, case["in"][0]))
    first = case["steps"][0]
    facts = first[1]
    words = [first[0], sizes]
    if "w" in facts:
        words.append("x".join(map(str, facts["w"])))
    if facts.get("stride") and max(facts["stride"]) > 1:
        words.append("s" + "x".join(map(str, facts["stride"])))
    if facts.get("groups", 1) > 1:
        words.append(f"g{facts['groups']}")
    words += ["+".join(s[0] for s in case["steps"][1:])] if len(case["steps"]) > 1 else []
    return " ".join(words)
