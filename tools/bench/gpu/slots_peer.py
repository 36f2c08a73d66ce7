# SPDX-License-Identifier: Apache-2.0
"""The same in PyTorch: a decode step of sequences of unequal lengths whose keys and values lie in pages of 64
rows, compiled by torch.compile and replayed as a CUDA graph. Attention is that of flex_attention over the
pages (torch.nn.attention's PagedAttention) or, if that fails, of gathered pages. Milliseconds of a step."""

import statistics
import time

import torch
import torch.nn.functional as F

PAGE, ROUNDS, WARM = 64, 24, 4


class Step(torch.nn.Module):
    def __init__(self, s, lengths):
        super().__init__()
        self.s, n = s, len(lengths)
        room = max(lengths) + ROUNDS + 2 * WARM + 8
        self.most = -(-room // PAGE)
        pages = n * self.most
        d = dict(device="cuda", dtype=torch.bfloat16)
        q, k, w, f = s["heads"] * s["head"], s["kv"] * s["head"], s["width"], s["ffn"]
        draw = lambda *shape: torch.randn(*shape, **d) * shape[-1] ** -0.5  # noqa: E731
        self.layers = [
            dict(qkv=draw(q + 2 * k, w), o=draw(w, q), gate_up=draw(2 * f, w), down=draw(w, f),
                 k=torch.zeros(pages, PAGE, s["kv"], s["head"], **d),
                 v=torch.zeros(pages, PAGE, s["kv"], s["head"], **d))
            for _ in range(s["layers"])
        ]  # fmt: skip
        self.embedding = draw(s["vocab"], w)
        self.table = torch.randperm(pages, device="cuda").view(n, self.most)
        half = torch.arange(0, s["head"], 2, device="cuda") / s["head"]
        self.frequency = 500000.0**-half
        self.n = n

    def rope(self, x, position):
        angle = position[:, None, None].float() * self.frequency
        a, b = x.float().unflatten(-1, (2, -1)).unbind(-2)
        c, d = angle.cos(), angle.sin()
        return torch.cat((a * c - b * d, a * d + b * c), -1).to(x.dtype)

    def attend(self, layer, q, position):
        s = self.s
        k, v = layer["k"][self.table], layer["v"][self.table]  # [n, most, PAGE, kv, head]
        k, v = k.flatten(1, 2).transpose(1, 2), v.flatten(1, 2).transpose(1, 2)
        mask = torch.arange(self.most * PAGE, device="cuda")[None] <= position[:, None]
        return F.scaled_dot_product_attention(q[:, :, None], k, v, attn_mask=mask[:, None, None],
                                              enable_gqa=s["heads"] != s["kv"])[:, :, 0]  # fmt: skip

    def forward(self, tokens, position):
        s, n = self.s, self.n
        x = self.embedding[tokens]
        page = self.table[torch.arange(n, device="cuda"), position // PAGE]
        for layer in self.layers:
            h = F.rms_norm(x, x.shape[-1:])
            qkv = (h @ layer["qkv"].T).view(n, -1, s["head"])
            q, k, v = qkv.split((s["heads"], s["kv"], s["kv"]), 1)
            q, k = self.rope(q, position), self.rope(k, position)
            layer["k"][page, position % PAGE] = k
            layer["v"][page, position % PAGE] = v
            x = x + self.attend(layer, q, position).reshape(n, -1) @ layer["o"].T
            gate, up = (F.rms_norm(x, x.shape[-1:]) @ layer["gate_up"].T).chunk(2, -1)
            x = x + (F.silu(gate) * up) @ layer["down"].T
        return (F.rms_norm(x, x.shape[-1:]) @ self.embedding.T).argmax(-1)


class FlexStep(Step):
    def __init__(self, s, lengths):
        super().__init__(s, lengths)
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        self.flex, n, most, kv = flex_attention, self.n, self.most, self.most * PAGE
        self.where = torch.zeros(n, dtype=torch.long, device="cuda")
        owner = torch.full((n * most,), -1, device="cuda")
        logical = torch.zeros(n * most, dtype=torch.long, device="cuda")
        for i in range(n):
            owner[self.table[i]] = i
            logical[self.table[i]] = torch.arange(most, device="cuda")
        where = self.where

        def seen(b, h, q, row):
            page = row // PAGE
            return (owner[page] == b) & (logical[page] * PAGE + row % PAGE <= where[b])

        where.copy_(torch.tensor(lengths, device="cuda") + ROUNDS + 2 * WARM)  # blocks that will be needed
        self.mask = create_block_mask(seen, n, None, 1, n * kv, device="cuda", BLOCK_SIZE=(128, PAGE),
                                      _compile=True)  # fmt: skip

    def attend(self, layer, q, position):
        n, s = self.n, self.s
        self.where.copy_(position)
        k = layer["k"].flatten(0, 1).transpose(0, 1)[None].expand(n, -1, -1, -1)
        v = layer["v"].flatten(0, 1).transpose(0, 1)[None].expand(n, -1, -1, -1)
        return self.flex(q[:, :, None], k, v, block_mask=self.mask, enable_gqa=s["heads"] != s["kv"])[:, :, 0]


def measure(kind, s, lengths):
    torch._dynamo.reset()
    step = torch.compile(kind(s, lengths), dynamic=False)
    tokens = torch.full((len(lengths),), 300, device="cuda")
    position = torch.tensor(lengths, device="cuda")
    with torch.no_grad():
        for _ in range(WARM):
            step(tokens, position)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            tokens.copy_(step(tokens, position))
            position.add_(1)
        times = []
        for i in range(-WARM, ROUNDS):
            begin = time.monotonic()
            graph.replay()
            tokens.cpu()
            if i >= 0:
                times.append((time.monotonic() - begin) * 1e3)
    return statistics.median(times), min(times)


def run(s, lengths):
    """Prints the times of both kinds of attention."""
    for kind in (Step, FlexStep):
        try:
            median, best = measure(kind, s, lengths)
            print(f"  torch {kind.__name__:8} round {median:9.4f} ms  best {best:.4f}", flush=True)
        except Exception as error:  # noqa: BLE001
            print(f"  torch {kind.__name__}: {str(error)[:300]}", flush=True)
        torch.cuda.empty_cache()
