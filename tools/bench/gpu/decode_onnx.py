# SPDX-License-Identifier: Apache-2.0
"""The decode step of decode.py for ONNX Runtime: its fused ops (GroupQueryAttention with rope and caches that
grow in place, norms with their residual), as its own exporters make them."""

import decode
import numpy

FUSED = {"domain": "com.microsoft"}


class Step:
    def __init__(self, graph, c, weights, position):
        import torch

        def bits(array):
            return torch.from_numpy(array.view(numpy.int16)).cuda().view(torch.bfloat16)

        self.graph, self.c, self.position = graph, c, position
        self.held = {name: graph.input(bits(w)) for name, w in weights.items()}
        self.turns = [graph.input(torch.from_numpy(t).cuda().bfloat16()) for t in decode.turns(c)]
        # How many tokens there are, less one; and how many: known to the host, so a constant.
        self.last = graph.input(torch.tensor([position], dtype=torch.int32, device="cuda"))
        self.total = graph.constant(numpy.array(position + 1, numpy.int32))

    def linear(self, x, name):
        return self.graph.node("FusedMatMul", x, self.held[name], transB=1, **FUSED)

    def norm(self, x, residual, name):
        """Of x + residual, and that sum."""
        g = self.graph
        if residual is None:
            args = {"axis": -1, "epsilon": self.c.epsilon}
            return g.node("SimplifiedLayerNormalization", x, self.held[name], **args), x
        y, _, _, added = g.node(
            "SkipSimplifiedLayerNormalization",
            x,
            residual,
            self.held[name],
            results=4,
            epsilon=self.c.epsilon,
            **FUSED,
        )
        return y, added

    def attention(self, h, i):
        import torch

        g, c = self.graph, self.c
        q, k, v = (self.linear(h, f"{i}.{m}") for m in "qkv")
        shape = (1, c.kv_heads, c.capacity, c.head)
        caches = [torch.zeros(shape, dtype=torch.bfloat16, device="cuda") for _ in range(2)]
        y, *grown = g.node(
            "GroupQueryAttention",
            *(q, k, v, *(g.input(t) for t in caches), self.last, self.total, *self.turns),
            results=3,
            num_heads=c.heads,
            kv_num_heads=c.kv_heads,
            do_rotary=1,
            **FUSED,
        )
        for name, cache in zip(grown, caches):
            g.output(name, cache)
        return self.linear(y, f"{i}.o")

    def mlp(self, h, i):
        g = self.graph
        gate = self.linear(h, f"{i}.gate")
        gate = g.node("Mul", gate, g.node("Sigmoid", gate))
        return self.linear(g.node("Mul", gate, self.linear(h, f"{i}.up")), f"{i}.down")


def builder(c, weights, token, position):
    """A function for onnx_peer.peers: the step with a cache of position tokens, of zeros."""

    def build(graph):
        import torch

        step = Step(graph, c, weights, position)
        token_at = graph.input(torch.tensor([[token]], device="cuda"))
        logits = torch.empty((1, 1, c.vocab), dtype=torch.bfloat16, device="cuda")
        x, more = graph.node("Gather", step.held["embedding"], token_at), None
        for i in range(c.layers):
            h, x = step.norm(x, more, f"{i}.norm1")
            h, x = step.norm(x, step.attention(h, i), f"{i}.norm2")
            more = step.mlp(h, i)
        h, _ = step.norm(x, more, "norm")
        graph.output(step.linear(h, "embedding"), logits)

    return build
