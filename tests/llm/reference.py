# SPDX-License-Identifier: Apache-2.0
"""What language models compute, in doubles and without caches: logits after every token."""

import math

import numpy


def rms(x, scale, epsilon):
    return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * scale


def layer_norm(x, scale, bias, epsilon):
    centred = x - x.mean(-1, keepdims=True)
    return centred / numpy.sqrt((centred * centred).mean(-1, keepdims=True) + epsilon) * scale + bias


def softmax(x):
    e = numpy.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def silu(x):
    return x / (1 + numpy.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + numpy.tanh(numpy.sqrt(2 / numpy.pi) * (x + 0.044715 * x**3)))


ERF = numpy.vectorize(math.erf)


def limited(gate, up):
    gate, up = numpy.minimum(gate, 7), numpy.clip(up, -7, 7)
    return gate / (1 + numpy.exp(-1.702 * gate)) * (up + 1)


def softplus(x):
    return numpy.log1p(numpy.exp(-abs(x))) + numpy.maximum(x, 0)


class Reference:
    def __init__(self, model, has_pairs=None):
        self.m, self.w, self.s = model, model.weights, model.size
        self.arch = model.arch
        self.has_pairs = self.arch in ("llama", "granite") if has_pairs is None else has_pairs
        self.layer = 0

    def number(self, key, default):
        return self.m.entries.get(f"{self.arch}.{key}", default)

    def ssm(self, x, name):
        """One layer of Mamba or Mamba 2, token by token."""
        n, inner = self.number("ssm.state_size", 0), self.number("ssm.inner_size", 0)
        kernel = self.number("ssm.conv_kernel", 0)
        rank, groups = self.number("ssm.time_step_rank", 0), self.number("ssm.group_count", 1)
        is_2, a, d = self.arch == "mamba2", self.w[name + "ssm_a"], self.w[name + "ssm_d"].reshape(-1)
        both = self.product(x, name + "ssm_in")
        z, y = (both[:, :inner], both[:, inner:]) if is_2 else (both[:, inner:], both[:, :inner])
        width = inner + 2 * groups * n if is_2 else inner
        y, step = y[:, :width], y[:, width:]
        padded = numpy.concatenate([numpy.zeros((kernel - 1, width)), y])
        w, bias = self.w[name + "ssm_conv1d.weight"], self.w[name + "ssm_conv1d.bias"]
        y = silu(sum(padded[k : k + len(x)] * w[:, k] for k in range(kernel)) + bias)
        if is_2:
            heads, size = rank, inner // rank
            step = softplus(step + self.w[name + "ssm_dt.bias"])
            v, b = y[:, :inner].reshape(-1, heads, size), y[:, inner : inner + groups * n]
            c = y[:, inner + groups * n :]
            b, c = (numpy.repeat(q.reshape(-1, groups, n), heads // groups, 1) for q in (b, c))
            h, out = numpy.zeros((heads, size, n)), []
            for t in range(len(x)):
                h = h * numpy.exp(step[t] * a.reshape(-1))[:, None, None]
                h += (step[t][:, None] * v[t])[:, :, None] * b[t][:, None]
                out.append(((h * c[t][:, None]).sum(2) + d[:, None] * v[t]).reshape(-1))
            y = (numpy.array(out) * silu(z)).reshape(len(x), groups, -1)
            y = rms(y, self.w[name + "ssm_norm.weight"], 1e-6).reshape(len(x), -1)
        else:
            low = self.product(y, name + "ssm_x")
            step = softplus(self.product(low[:, :rank], name + "ssm_dt"))
            h, out = numpy.zeros((inner, n)), []
            for t in range(len(x)):
                b, c = low[t, rank : rank + n], low[t, rank + n :]
                h = h * numpy.exp(step[t][:, None] * a) + (step[t] * y[t])[:, None] * b
                out.append(h @ c + d * y[t])
            y = numpy.array(out) * silu(z)
        return self.product(y, name + "ssm_out")

    def norm(self, x, name):
        if self.arch in ("gpt2", "bert", "nomic-bert"):
            return layer_norm(x, self.w[name + ".weight"], self.w[name + ".bias"], 1e-5)
        return rms(x, self.w[name + ".weight"], 1e-6)

    def product(self, x, name):
        y = x @ self.w[name + ".weight"].T
        return y + self.w[name + ".bias"] if name + ".bias" in self.w else y

    def is_window(self):
        period = {"gemma2": 2, "gemma3": 6, "phi3": 1, "gpt-oss": 2}.get(self.arch, 0)
        return period == 1 or (period > 1 and self.layer % period != period - 1)

    # --- positions ---

    def angles(self, n):
        dims = self.number("rope.dimension_count", self.s["head"])
        base, factor = self.number("rope.freq_base", 10000.0), self.number("rope.scaling.factor", 1.0)
        if self.arch == "gemma3" and self.is_window():
            base, factor = 10000.0, 1.0
        frequency = base ** (-numpy.arange(dims // 2) * 2 / dims)
        if self.number("rope.scaling.type", "none") == "yarn":
            return self.yarn(n, frequency, base)
        frequency = frequency / factor
        if "rope_freqs.weight" in self.w:
            frequency = frequency / self.w["rope_freqs.weight"]
        if "rope_factors_long.weight" in self.w:
            frequency = frequency / self.w["rope_factors_long.weight"]
        return numpy.outer(numpy.arange(n), frequency), self.number("rope.scaling.attn_factor", 1.0)

    def yarn(self, n, frequency, base):
        """Frequencies that turn often within the length of the training stay, slow ones are divided."""
        dims, original = 2 * len(frequency), self.number("rope.scaling.original_context_length", 0)
        factor = self.number("rope.scaling.factor", 1.0)
        place = {
            end: dims * numpy.log(original / (2 * numpy.pi * turns)) / (2 * numpy.log(base))
            for end, turns in (
                ("first", self.number("rope.scaling.yarn_beta_fast", 32.0)),
                ("last", self.number("rope.scaling.yarn_beta_slow", 1.0)),
            )
        }
        first, last = max(numpy.floor(place["first"]), 0), min(numpy.ceil(place["last"]), dims - 1)
        divided = numpy.clip((numpy.arange(dims // 2) - first) / max(last - first, 0.001), 0, 1)
        frequency = frequency * (1 - divided) + frequency / factor * divided
        scale = self.number("rope.scaling.attn_factor", 1.0) * (1 + 0.1 * numpy.log(factor))
        return numpy.outer(numpy.arange(n), frequency), scale

    def turn(self, x):
        """x: [heads, T, size]"""
        if self.arch in ("gpt2", "bert"):
            return x
        angle, scale = self.angles(x.shape[1])
        half, cos, sin = angle.shape[1], numpy.cos(angle) * scale, numpy.sin(angle) * scale
        y = x.copy()
        if self.has_pairs:
            first, second = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
        else:
            first, second = slice(0, half), slice(half, 2 * half)
        y[..., first] = x[..., first] * cos - x[..., second] * sin
        y[..., second] = x[..., second] * cos + x[..., first] * sin
        return y

    # --- branches ---

    def heads(self, x, p):
        q, k = self.s["heads"] * self.s["head"], self.s["kv"] * self.s["head"]
        if p + "attn_qkv.weight" in self.w:
            whole = self.product(x, p + "attn_qkv")
            parts = whole[:, :q], whole[:, q : q + k], whole[:, q + k :]
        else:
            parts = [self.product(x, p + name) for name in ("attn_q", "attn_k", "attn_v")]
        out = []
        for part, name in zip(parts, ("attn_q_norm", "attn_k_norm", "none")):
            scale = self.w.get(f"{p}{name}.weight")
            if scale is not None and self.arch == "olmo2":
                part = rms(part, scale, 1e-6)
            part = part.reshape(len(x), -1, self.s["head"])
            if scale is not None and self.arch != "olmo2":
                part = rms(part, scale, 1e-6)
            out.append(part.transpose(1, 0, 2))
        return self.turn(out[0]), self.turn(out[1]), out[2]

    def attention(self, x, p):
        q, k, v = self.heads(x, p)
        group = self.s["heads"] // self.s["kv"]
        k, v = numpy.repeat(k, group, 0), numpy.repeat(v, group, 0)
        scale = self.number("attention.scale", 1 / numpy.sqrt(self.s["head"]))
        scores = q @ k.transpose(0, 2, 1) * scale
        cap = self.number("attn_logit_softcapping", 0)
        if cap:
            scores = cap * numpy.tanh(scores / cap)
        back = numpy.subtract.outer(numpy.arange(len(x)), numpy.arange(len(x)))
        hidden = back < 0
        if self.is_window():
            hidden |= back >= self.number("attention.sliding_window", 0)
        scores = numpy.where(hidden, -numpy.inf, scores)
        if p + "attn_sinks.weight" in self.w:  # one more score, of no key
            sinks = numpy.broadcast_to(self.w[p + "attn_sinks.weight"][:, None, None], (*scores.shape[:2], 1))
            scores = numpy.concatenate([scores, sinks], -1)
        mixed = softmax(scores)[..., : len(x)] @ v
        return self.product(mixed.transpose(1, 0, 2).reshape(len(x), -1), p + "attn_output")

    def gated(self, x, p, suffix=""):
        act = gelu if self.arch.startswith("gemma") else silu
        if self.arch == "phi3":
            whole = self.product(x, p + "ffn_up")
            gate, up = whole[:, : self.s["ffn"]], whole[:, self.s["ffn"] :]
        else:
            gate, up = self.product(x, f"{p}ffn_gate{suffix}"), self.product(x, f"{p}ffn_up{suffix}")
        return self.product(act(gate) * up, f"{p}ffn_down{suffix}")

    def expert(self, x, p, name, e):
        bias = self.w.get(f"{p}ffn_{name}_exps.bias")
        return self.w[f"{p}ffn_{name}_exps.weight"][e] @ x + (0 if bias is None else bias[e])

    def experts(self, x, p):
        shares = softmax(self.product(x, p + "ffn_gate_inp"))
        y = numpy.zeros_like(x)
        for row, share, out in zip(x, shares, y):
            chosen = numpy.argsort(-share, kind="stable")[:2]
            total = share[chosen].sum() if self.arch != "qwen2moe" else 1
            for e in chosen:
                gate, up = self.expert(row, p, "gate", e), self.expert(row, p, "up", e)
                h = limited(gate, up) if self.arch == "gpt-oss" else silu(gate) * up
                out += share[e] / total * self.expert(h, p, "down", e)
        if self.arch == "qwen2moe":
            open_by = x @ self.w[p + "ffn_gate_inp_shexp.weight"]
            y += self.gated(x, p, "_shexp") / (1 + numpy.exp(-open_by))[:, None]
        return y

    def ffn(self, x, p):
        if self.s["experts"]:
            return self.experts(x, p)
        if self.arch == "gpt2":
            return self.product(gelu(self.product(x, p + "ffn_up")), p + "ffn_down")
        return self.gated(x, p)

    def add(self, x, branch, p, before, after):
        y = branch(self.norm(x, p + before) if f"{p}{before}.weight" in self.w else x, p)
        if f"{p}{after}.weight" in self.w:
            y = self.norm(y, p + after)
        return x + y * self.number("residual_scale", 1.0)

    def pooled(self, tokens):
        """The vector of a text, of a model that makes one."""
        x = self.w["token_embd.weight"][tokens] + self.w["token_types.weight"][0]
        if self.arch == "bert":
            x = x + self.w["position_embd.weight"][: len(tokens)]
        x = self.norm(x, "token_embd_norm")
        for layer in range(self.s["layers"]):
            p = f"blk.{layer}."
            q, k, v = self.heads(x, p)
            mixed = softmax(q @ k.transpose(0, 2, 1) / numpy.sqrt(self.s["head"])) @ v
            y = self.product(mixed.transpose(1, 0, 2).reshape(len(x), -1), p + "attn_output")
            x = self.norm(x + y, p + "attn_output_norm")
            up = self.product(x, p + "ffn_up")
            if self.arch == "bert":
                up = 0.5 * up * (1 + ERF(up / numpy.sqrt(2)))
            else:
                up = up * silu(self.product(x, p + "ffn_gate"))
            x = self.norm(x + self.product(up, p + "ffn_down"), p + "layer_output_norm")
        how = self.number("pooling_type", 1)
        return {0: x, 1: x.mean(0, keepdims=True), 2: x[:1], 3: x[-1:]}[how]

    def states(self, tokens):
        """The normed states of all tokens, which embeddings are."""
        x = self.w["token_embd.weight"][tokens]
        if self.arch == "gpt2":
            x = x + self.w["position_embd.weight"][: len(tokens)]
        if self.arch.startswith("gemma"):
            x = x * numpy.sqrt(self.s["width"])
        x = x * self.number("embedding_scale", 1.0)
        for self.layer in range(self.s["layers"]):
            p = f"blk.{self.layer}."
            second = "post_attention_norm" if self.arch == "gpt-oss" else "ffn_norm"
            behind = "none" if self.arch == "gpt-oss" else "post_attention_norm"
            if self.arch.startswith("mamba"):
                x = x + self.ssm(self.norm(x, p + "attn_norm"), p)
                continue
            x = self.add(x, self.attention, p, "attn_norm", behind)
            x = self.add(x, self.ffn, p, second, "post_ffw_norm")
        return self.norm(x, "output_norm")

    def logits(self, tokens):
        x = self.states(tokens)
        head = self.w.get("output.weight", self.w["token_embd.weight"])
        y = x @ head.T / self.number("logit_scale", 1.0)
        cap = self.number("final_logit_softcapping", 0)
        return cap * numpy.tanh(y / cap) if cap else y
