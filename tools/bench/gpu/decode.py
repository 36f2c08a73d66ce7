# SPDX-License-Identifier: Apache-2.0
"""One decode step of a decoder-only transformer (Llama's layers) as a graph description, and the same in
float32 with torch. Weights are params, the caches are states that grow in place, the token and its
position are states that keep their values, so that a step copies nothing."""

import dataclasses
import math

import numpy
from ours import kept, to_bf16


@dataclasses.dataclass
class Config:
    dim: int = 2048
    layers: int = 16
    heads: int = 32
    kv_heads: int = 8
    head: int = 64
    hidden: int = 8192
    vocab: int = 128256
    capacity: int = 1024  # of the caches, in tokens
    theta: float = 500000.0
    epsilon: float = 1e-5
    dtype: str = "bf16"


LLAMA_1B = Config()
TINY = Config(dim=256, layers=2, heads=4, kv_heads=2, hidden=512, vocab=1000, capacity=64)


def matrices(c):
    """{name: (rows, columns)} of all weights; y = W x. The embedding is the output matrix as well."""
    found = {"embedding": (c.vocab, c.dim)}
    for i in range(c.layers):
        found[f"{i}.q"] = (c.heads * c.head, c.dim)
        found[f"{i}.k"] = found[f"{i}.v"] = (c.kv_heads * c.head, c.dim)
        found[f"{i}.o"] = (c.dim, c.heads * c.head)
        found[f"{i}.gate"] = found[f"{i}.up"] = (c.hidden, c.dim)
        found[f"{i}.down"] = (c.dim, c.hidden)
    return found


def norms(c):
    return [f"{i}.norm{j}" for i in range(c.layers) for j in (1, 2)] + ["norm"]


class Nodes:
    def __init__(self):
        self.list = []

    def __call__(self, op, *inputs, **attrs):
        self.list.append({"name": f"v{len(self.list)}", "op": op, "inputs": list(inputs)} | attrs)
        return self.list[-1]["name"]


def turns(c):
    """cos and sin of all positions, [capacity, head / 2]."""
    rates = 1 / c.theta ** (numpy.arange(0, c.head, 2) / c.head)
    angles = numpy.arange(c.capacity)[:, None] * rates
    return numpy.cos(angles).astype(numpy.float32), numpy.sin(angles).astype(numpy.float32)


def layer(g, c, states, i, x, turn, start, keys):
    """Appends layer i to the nodes g: the value behind it."""

    def heads(matrix, n, h):
        return g("reshape", g("matmul", h, matrix, transpose_b=True), shape=[n, 1, c.head])

    def cache(name, value):
        grown = g("update_slice", name, value, start)
        states[name] = {"dtype": c.dtype, "shape": [c.kv_heads, c.capacity, c.head], "next": grown}
        return grown

    h = g("rms_norm", x, f"{i}.norm1", epsilon=c.epsilon)
    q = g("rope", heads(f"{i}.q", c.heads, h), *turn)
    k = cache(f"{i}.keys", g("rope", heads(f"{i}.k", c.kv_heads, h), *turn))
    v = cache(f"{i}.values", heads(f"{i}.v", c.kv_heads, h))
    y = g("reshape", g("attention", q, k, v, None, keys), shape=[1, c.heads * c.head])
    x = g("add", x, g("matmul", y, f"{i}.o", transpose_b=True))
    h = g("rms_norm", x, f"{i}.norm2", epsilon=c.epsilon)
    gate = g("silu", g("matmul", h, f"{i}.gate", transpose_b=True))
    up = g("matmul", h, f"{i}.up", transpose_b=True)
    return g("add", x, g("matmul", g("mul", gate, up), f"{i}.down", transpose_b=True))


def graph(c):
    """(members of a graph description, the name of the logits, f32 [1, vocab])."""
    g, states = Nodes(), kept(token=("i64", [1]), position=("i64", [1]))
    params = {name: {"dtype": c.dtype, "shape": list(shape)} for name, shape in matrices(c).items()}
    params |= {name: {"dtype": c.dtype, "shape": [c.dim]} for name in norms(c)}
    cosine, sine = turns(c)
    weights = {
        "cos": {"dtype": "f32", "data": cosine.tolist()},
        "sin": {"dtype": "f32", "data": sine.tolist()},
        "one": {"dtype": "i64", "data": [1]},
        "zero": {"dtype": "i64", "data": [0]},
    }
    turn = [g("cast", g("gather", table, "position", axis=0), to=c.dtype) for table in ("cos", "sin")]
    start = g("concat", "zero", "position", "zero", axis=0)
    keys = g("add", "position", "one")
    x = g("gather", "embedding", "token", axis=0)
    for i in range(c.layers):
        x = layer(g, c, states, i, x, turn, start, keys)
    x = g("rms_norm", x, "norm", epsilon=c.epsilon)
    logits = g("cast", g("matmul", x, "embedding", transpose_b=True), to="f32")
    return {"params": params, "weights": weights, "states": states, "nodes": g.list}, logits


def draw(c, seed=1):
    """{name: bits of bf16} for all weights; with torch, if it is there, because there are many."""
    shapes = {name: (shape, 1 / math.sqrt(shape[1]), 0.0) for name, shape in matrices(c).items()}
    shapes |= {name: ((c.dim,), 0.1, 1.0) for name in norms(c)}
    try:
        import torch
    except ImportError:
        rng = numpy.random.default_rng(seed)
        return {n: to_bf16(m + f * rng.standard_normal(s, numpy.float32)) for n, (s, f, m) in shapes.items()}
    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    drawn = {n: m + f * torch.randn(s, device=device) for n, (s, f, m) in shapes.items()}
    return {n: t.bfloat16().view(torch.int16).cpu().numpy().view(numpy.uint16) for n, t in drawn.items()}


def reference(c, weights, tokens):
    """Logits behind the last token in float32, all tokens at once; None without torch."""
    try:
        import torch
    except ImportError:
        print("reference: skipped, torch is not installed")
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def get(name):
        return torch.from_numpy(weights[name].view(numpy.int16)).to(device).view(torch.bfloat16).float()

    def norm(x, name):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + c.epsilon) * get(name)

    def turned(x):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cosine - b * sine, b * cosine + a * sine), -1)

    def heads(x, name):
        return (x @ get(name).T).view(len(tokens), -1, c.head).transpose(0, 1)

    cosine, sine = (torch.from_numpy(t[: len(tokens)]).to(device) for t in turns(c))
    embedding = get("embedding")
    x = embedding[torch.from_numpy(tokens).to(device)]
    for i in range(c.layers):
        h = norm(x, f"{i}.norm1")
        q, k, v = turned(heads(h, f"{i}.q")), turned(heads(h, f"{i}.k")), heads(h, f"{i}.v")
        k, v = (t.repeat_interleave(c.heads // c.kv_heads, 0) for t in (k, v))
        y = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
        x = x + y.transpose(0, 1).reshape(len(tokens), -1) @ get(f"{i}.o").T
        h = norm(x, f"{i}.norm2")
        gate = torch.nn.functional.silu(h @ get(f"{i}.gate").T)
        x = x + (gate * (h @ get(f"{i}.up").T)) @ get(f"{i}.down").T
    return (norm(x[-1], "norm") @ embedding.T).cpu().numpy()


def torch_step(c, weights, token, position):
    """The step as calls of torch in bf16, with a cache of position tokens (of zeros): a function without
    arguments, or None without torch."""
    try:
        import torch
    except ImportError:
        print("torch: skipped, not installed")
        return None
    functional = torch.nn.functional
    held = {n: torch.from_numpy(w.view(numpy.int16)).cuda().view(torch.bfloat16) for n, w in weights.items()}
    cosine, sine = (torch.from_numpy(t[position]).cuda().bfloat16() for t in turns(c))
    cache = torch.zeros(c.layers, 2, c.kv_heads, c.capacity, c.head, dtype=torch.bfloat16, device="cuda")
    token = torch.tensor([token], device="cuda")

    def turned(x):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cosine - b * sine, b * cosine + a * sine), -1)

    def step():
        x = held["embedding"][token]
        for i in range(c.layers):
            h = functional.rms_norm(x, (c.dim,), held[f"{i}.norm1"], c.epsilon)
            q, k, v = (functional.linear(h, held[f"{i}.{m}"]).view(-1, 1, c.head) for m in "qkv")
            cache[i, 0, :, position] = turned(k)[:, 0]
            cache[i, 1, :, position] = v[:, 0]
            keys, values = cache[i, :, None, :, : position + 1]
            y = functional.scaled_dot_product_attention(turned(q)[None], keys, values, enable_gqa=True)
            x = x + functional.linear(y.view(1, -1), held[f"{i}.o"])
            h = functional.rms_norm(x, (c.dim,), held[f"{i}.norm2"], c.epsilon)
            gate = functional.silu(functional.linear(h, held[f"{i}.gate"]))
            x = x + functional.linear(gate * functional.linear(h, held[f"{i}.up"]), held[f"{i}.down"])
        return functional.linear(functional.rms_norm(x, (c.dim,), held["norm"], c.epsilon), held["embedding"])

    return step
