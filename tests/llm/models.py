# SPDX-License-Identifier: Apache-2.0
"""Language models of every architecture with random weights, small enough to be computed by numpy."""

import numpy

import gguf_file

VOCAB, CONTEXT = 80, 64


class Model:
    """Entries and weights by GGUF's names. kind: type of the weights of products that it fits."""

    def __init__(self, arch, kind=gguf_file.F32, **sizes):
        self.arch, self.kind = arch, kind
        self.size = dict(width=64, heads=4, kv=2, head=16, ffn=96, layers=2, experts=0) | sizes
        self.entries, self.weights, self.tensors = {"general.architecture": arch}, {}, []
        self.rng = numpy.random.default_rng(sum(map(ord, arch)) + kind)

    def number(self, key, value):
        self.entries[f"{self.arch}.{key}"] = value

    def add(self, name, values, kind=gguf_file.F32):
        content, stored = gguf_file.pack(values, kind)
        self.weights[name] = stored.astype("f8")
        self.tensors.append((name, values.shape, kind, content))

    def product(self, name, *shape):
        elements = gguf_file.BLOCKS[self.kind][0] if self.kind in gguf_file.BLOCKS else 1
        fits = shape[-1] % elements == 0 and len(shape) > 1
        values = self.rng.standard_normal(shape) * 1.5 / numpy.sqrt(shape[-1])
        self.add(f"{name}.weight", values, self.kind if fits else gguf_file.F32)

    def norm(self, name, n):
        self.add(f"{name}.weight", 1 + 0.1 * self.rng.standard_normal(n))

    def bias(self, name, n):
        self.add(f"{name}.bias", 0.2 * self.rng.standard_normal(n))

    def file(self):
        return gguf_file.make(self.entries, self.tensors)


def add_entries(m):
    s = m.size
    m.number("block_count", s["layers"])
    m.number("context_length", CONTEXT)
    m.number("embedding_length", s["width"])
    m.number("feed_forward_length", s["ffn"])
    m.number("attention.head_count", s["heads"])
    m.number("attention.head_count_kv", s["kv"])
    if s["head"] * s["heads"] != s["width"]:
        m.number("attention.key_length", s["head"])
        m.number("attention.value_length", s["head"])
    if m.arch == "gpt2":
        m.number("attention.layer_norm_epsilon", 1e-5)
    else:
        m.number("attention.layer_norm_rms_epsilon", 1e-6)
        m.number("rope.freq_base", 5000.0)


def add_attention(m, p, qkv_bias=False):
    s = m.size
    q, k, width = s["heads"] * s["head"], s["kv"] * s["head"], s["width"]
    for name, n in (("attn_q", q), ("attn_k", k), ("attn_v", k)):
        m.product(p + name, n, width)
        if qkv_bias:
            m.bias(p + name, n)
    m.product(p + "attn_output", width, q)


def add_ffn(m, p, suffix="", ffn=None):
    ffn, width = ffn or m.size["ffn"], m.size["width"]
    m.product(f"{p}ffn_gate{suffix}", ffn, width)
    m.product(f"{p}ffn_up{suffix}", ffn, width)
    m.product(f"{p}ffn_down{suffix}", width, ffn)


def add_experts(m, p):
    s = m.size
    m.product(p + "ffn_gate_exps", s["experts"], s["ffn"], s["width"])
    m.product(p + "ffn_up_exps", s["experts"], s["ffn"], s["width"])
    m.product(p + "ffn_down_exps", s["experts"], s["width"], s["ffn"])
    m.add(p + "ffn_gate_inp.weight", m.rng.standard_normal((s["experts"], s["width"])))


def add_ends(m, tied=False):
    m.product("token_embd", VOCAB, m.size["width"])
    m.norm("output_norm", m.size["width"])
    if not tied:
        m.product("output", VOCAB, m.size["width"])


def norms(m, p, *names):
    for name in names:
        m.norm(p + name, m.size["width"])


def yarn():
    m = qwen("qwen2")
    m.number("rope.scaling.type", "yarn")
    m.number("rope.scaling.factor", 4.0)
    m.number("rope.scaling.original_context_length", 16)
    m.number("rope.scaling.yarn_beta_fast", 4.0)
    m.number("rope.scaling.yarn_beta_slow", 0.5)
    m.number("rope.scaling.attn_factor", 1.1)
    return m


def llama(kind=gguf_file.F32, freqs=False, **sizes):
    m = Model("llama", kind, **sizes)
    add_entries(m)
    add_ends(m)
    if freqs:
        m.add("rope_freqs.weight", numpy.linspace(1, 8, m.size["head"] // 2))
    if m.size["experts"]:
        m.number("expert_count", m.size["experts"])
        m.number("expert_used_count", 2)
    for i in range(m.size["layers"]):
        p = f"blk.{i}."
        norms(m, p, "attn_norm", "ffn_norm")
        add_attention(m, p)
        add_experts(m, p) if m.size["experts"] else add_ffn(m, p)
    return m


def qwen(arch, kind=gguf_file.F32, **sizes):
    m = Model(arch, kind, **sizes)
    is_moe = arch.endswith("moe")
    add_entries(m)
    add_ends(m, tied=not is_moe)
    if is_moe:
        m.number("expert_count", m.size["experts"])
        m.number("expert_used_count", 2)
    for i in range(m.size["layers"]):
        p = f"blk.{i}."
        norms(m, p, "attn_norm", "ffn_norm")
        add_attention(m, p, qkv_bias=arch.startswith("qwen2"))
        if arch.startswith("qwen3"):
            m.norm(p + "attn_q_norm", m.size["head"])
            m.norm(p + "attn_k_norm", m.size["head"])
        add_experts(m, p) if is_moe else add_ffn(m, p)
        if arch == "qwen2moe":
            add_ffn(m, p, "_shexp", ffn=32)
            m.add(p + "ffn_gate_inp_shexp.weight", m.rng.standard_normal(m.size["width"]))
    return m


def gemma(arch, **sizes):
    m = Model(arch, **sizes)
    add_entries(m)
    add_ends(m, tied=True)
    if arch != "gemma":
        m.number("attention.sliding_window", 5)
    if arch == "gemma2":
        m.number("attn_logit_softcapping", 5.0)
        m.number("final_logit_softcapping", 3.0)
    if arch == "gemma3":
        m.number("rope.scaling.type", "linear")
        m.number("rope.scaling.factor", 4.0)
    for i in range(m.size["layers"]):
        p = f"blk.{i}."
        norms(m, p, "attn_norm", "ffn_norm")
        if arch != "gemma":
            norms(m, p, "post_attention_norm", "post_ffw_norm")
        add_attention(m, p)
        if arch == "gemma3":
            m.norm(p + "attn_q_norm", m.size["head"])
            m.norm(p + "attn_k_norm", m.size["head"])
        add_ffn(m, p)
    return m


def phi3(longrope=False):
    m = Model("phi3")
    s = m.size
    add_entries(m)
    add_ends(m)
    m.number("attention.sliding_window", 6)
    m.number("rope.dimension_count", 12)
    if longrope:
        m.number("rope.scaling.original_context_length", 32)
        m.number("rope.scaling.attn_factor", 1.25)
        m.add("rope_factors_long.weight", numpy.linspace(1, 5, 6))
        m.add("rope_factors_short.weight", numpy.linspace(1, 1.5, 6))
    for i in range(s["layers"]):
        p = f"blk.{i}."
        norms(m, p, "attn_norm", "ffn_norm")
        m.product(p + "attn_qkv", (s["heads"] + 2 * s["kv"]) * s["head"], s["width"])
        m.product(p + "attn_output", s["width"], s["heads"] * s["head"])
        m.product(p + "ffn_up", 2 * s["ffn"], s["width"])
        m.product(p + "ffn_down", s["width"], s["ffn"])
    return m


def granite():
    m = llama()
    m.arch, m.entries["general.architecture"] = "granite", "granite"
    m.entries = {key.replace("llama.", "granite."): value for key, value in m.entries.items()}
    m.number("embedding_scale", 3.0)
    m.number("residual_scale", 0.4)
    m.number("attention.scale", 0.2)
    m.number("logit_scale", 2.5)
    return m


def olmo2():
    m = Model("olmo2")
    add_entries(m)
    add_ends(m)
    for i in range(m.size["layers"]):
        p = f"blk.{i}."
        norms(m, p, "post_attention_norm", "post_ffw_norm")
        add_attention(m, p)
        m.norm(p + "attn_q_norm", m.size["heads"] * m.size["head"])
        m.norm(p + "attn_k_norm", m.size["kv"] * m.size["head"])
        add_ffn(m, p)
    return m


def gpt_oss(kind=gguf_file.F32, **sizes):
    m = Model("gpt-oss", kind, **dict(head=32, experts=4, layers=3) | sizes)
    s = m.size
    add_entries(m)
    m.kind = gguf_file.F32
    add_ends(m)
    m.number("attention.key_length", s["head"])
    m.number("attention.value_length", s["head"])
    m.number("attention.sliding_window", 5)
    m.number("rope.scaling.type", "yarn")
    m.number("rope.scaling.factor", 4.0)
    m.number("rope.scaling.original_context_length", 16)
    m.number("expert_count", s["experts"])
    m.number("expert_used_count", 2)
    for i in range(s["layers"]):
        p = f"blk.{i}."
        m.kind = gguf_file.F32
        norms(m, p, "attn_norm", "post_attention_norm")
        add_attention(m, p, qkv_bias=True)
        m.bias(p + "attn_output", s["width"])
        m.add(p + "attn_sinks.weight", m.rng.standard_normal(s["heads"]) + 1)
        m.bias(p + "ffn_gate_inp", s["experts"])
        m.kind = kind
        add_experts(m, p)
        for name, n in (("gate", s["ffn"]), ("up", s["ffn"]), ("down", s["width"])):
            m.add(f"{p}ffn_{name}_exps.bias", 3.0 * m.rng.standard_normal((s["experts"], n)))
    return m


def gpt2():
    m = Model("gpt2", kv=4)
    width, ffn = m.size["width"], m.size["ffn"]
    add_entries(m)
    add_ends(m, tied=True)
    m.bias("output_norm", width)
    m.add("position_embd.weight", 0.3 * m.rng.standard_normal((CONTEXT, width)))
    for i in range(m.size["layers"]):
        p = f"blk.{i}."
        for name in ("attn_norm", "ffn_norm"):
            m.norm(p + name, width)
            m.bias(p + name, width)
        for name, n, k in (
            ("attn_qkv", 3 * width, width),
            ("attn_output", width, width),
            ("ffn_up", ffn, width),
            ("ffn_down", width, ffn),
        ):
            m.product(p + name, n, k)
            m.bias(p + name, n)
    return m


def encoder(arch, pooling=1, **sizes):
    """A model that makes one vector of a text."""
    m = Model(arch, **dict(kv=4) | sizes)
    width, ffn, is_bert = m.size["width"], m.size["ffn"], arch == "bert"
    add_entries(m)
    m.entries.pop(f"{arch}.attention.layer_norm_rms_epsilon")
    m.number("attention.layer_norm_epsilon", 1e-5)
    m.number("pooling_type", pooling)
    m.number("attention.causal", False)
    m.product("token_embd", VOCAB, width)
    m.add("token_types.weight", 0.3 * m.rng.standard_normal((2, width)))
    if is_bert:
        m.entries.pop(f"{arch}.rope.freq_base")
        m.add("position_embd.weight", 0.3 * m.rng.standard_normal((CONTEXT, width)))
    products = [("attn_output", width, width), ("ffn_up", ffn, width), ("ffn_down", width, ffn)]
    products += [(f"attn_{name}", width, width) for name in "qkv"] if is_bert else [
        ("attn_qkv", 3 * width, width), ("ffn_gate", ffn, width)]  # fmt: skip
    norms = ["token_embd_norm"]
    for i in range(m.size["layers"]):
        norms += [f"blk.{i}.attn_output_norm", f"blk.{i}.layer_output_norm"]
        for name, n, k in products:
            m.product(f"blk.{i}.{name}", n, k)
            if is_bert:
                m.bias(f"blk.{i}.{name}", n)
    for name in norms:
        m.norm(name, width)
        m.bias(name, width)
    return m


def mamba(arch, **sizes):
    """One branch in each layer. heads: of mamba2; sizes that no file can mean in another way."""
    m = Model(arch, **dict(inner=96, state=8, kernel=4, rank=6, groups=2 if arch == "mamba2" else 1) | sizes)
    s, is_2 = m.size, arch == "mamba2"
    for key, value in {"block_count": s["layers"], "context_length": CONTEXT, "embedding_length": s["width"],
                       "attention.head_count": 0, "feed_forward_length": 0, "ssm.conv_kernel": s["kernel"],
                       "ssm.inner_size": s["inner"], "ssm.state_size": s["state"],
                       "ssm.time_step_rank": s["rank"], "attention.layer_norm_rms_epsilon": 1e-6}.items():
        m.number(key, value)
    if is_2:
        m.number("ssm.group_count", s["groups"])
    m.product("token_embd", VOCAB, s["width"])
    m.norm("output_norm", s["width"])
    mixed = s["inner"] + 2 * s["groups"] * s["state"] if is_2 else s["inner"]
    for i in range(s["layers"]):
        name = f"blk.{i}."
        m.norm(name + "attn_norm", s["width"])
        m.product(name + "ssm_in", s["inner"] + mixed + (s["rank"] if is_2 else 0), s["width"])
        m.add(name + "ssm_conv1d.weight", 0.5 * m.rng.standard_normal((mixed, s["kernel"])))
        m.bias(name + "ssm_conv1d", mixed)
        if is_2:
            shape = (s["groups"], s["inner"] // s["groups"])
            m.add(name + "ssm_norm.weight", 1 + 0.1 * m.rng.standard_normal(shape))
        else:
            m.product(name + "ssm_x", s["rank"] + 2 * s["state"], s["inner"])
            m.product(name + "ssm_dt", s["inner"], s["rank"])
        m.bias(name + "ssm_dt", s["rank"] if is_2 else s["inner"])
        rates = -numpy.exp(0.5 * m.rng.standard_normal((s["rank"], 1) if is_2 else (s["inner"], s["state"])))
        m.add(name + "ssm_a", rates)
        m.add(name + "ssm_d", m.rng.standard_normal((s["rank"], 1) if is_2 else s["inner"]))
        m.product(name + "ssm_out", s["width"], s["inner"])
    return m


ENCODERS = {
    "bert": lambda: encoder("bert"),
    "bert_first": lambda: encoder("bert", pooling=2),
    "bert_last": lambda: encoder("bert", pooling=3),
    "bert_rows": lambda: encoder("bert", pooling=0),
    "nomic": lambda: encoder("nomic-bert"),
}

# One of each architecture, and of each form that it can have.
MODELS = {
    "mamba": lambda: mamba("mamba"),
    "mamba2": lambda: mamba("mamba2"),
    "llama": llama,
    "llama_freqs": lambda: llama(freqs=True),
    "llama_f16": lambda: llama(gguf_file.F16),
    "llama_bf16": lambda: llama(gguf_file.BF16),
    "llama_q4_0": lambda: llama(gguf_file.Q4_0),
    "llama_q8_0": lambda: llama(gguf_file.Q8_0),
    "llama_q6_k": lambda: llama(gguf_file.Q6_K, width=256, heads=8, head=32, ffn=256),
    "mixtral": lambda: llama(experts=4),
    "mixtral_q8_0": lambda: llama(gguf_file.Q8_0, experts=4),
    "qwen2": lambda: qwen("qwen2"),
    "qwen2_q8_0": lambda: qwen("qwen2", gguf_file.Q8_0),
    "qwen2_yarn": yarn,
    "qwen3": lambda: qwen("qwen3", head=24),
    "qwen2moe": lambda: qwen("qwen2moe", experts=5),
    "qwen3moe": lambda: qwen("qwen3moe", experts=6, head=24),
    "gemma": lambda: gemma("gemma", head=32, kv=1),
    "gemma2": lambda: gemma("gemma2", layers=3),
    "gemma3": lambda: gemma("gemma3", layers=7, head=32),
    "phi3": phi3,
    "phi3_longrope": lambda: phi3(longrope=True),
    "granite": granite,
    "olmo2": olmo2,
    "gpt_oss": gpt_oss,
    "gpt_oss_mxfp4": lambda: gpt_oss(gguf_file.MXFP4),
    "gpt2": gpt2,
}
