# SPDX-License-Identifier: Apache-2.0
"""Writes models of models.py as folders of Hugging Face: config.json, .safetensors in one or several files,
and names as that library has them."""

import json
import pathlib
import re
import struct

import gguf_file
import numpy

KEYS = {
    "block_count": "num_hidden_layers", "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size", "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads", "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps", "rope.freq_base": "rope_theta",
    "attention.sliding_window": "sliding_window", "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping", "expert_used_count": "num_experts_per_tok",
    "embedding_scale": "embedding_multiplier", "residual_scale": "residual_multiplier",
    "attention.scale": "attention_multiplier", "logit_scale": "logits_scaling",
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
    "ssm.conv_kernel": "conv_kernel", "ssm.inner_size": "intermediate_size", "ssm.state_size": "state_size",
    "ssm.time_step_rank": "time_step_rank", "ssm.group_count": "n_groups",
}  # fmt: skip
TYPES = {"gpt-oss": "gpt_oss", "qwen2moe": "qwen2_moe", "qwen3moe": "qwen3_moe", "gemma3": "gemma3_text"}
NAMES = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "attn_qkv": "self_attn.qkv_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate", "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    "ffn_gate_exps": "mlp.experts.%d.gate_proj", "ffn_up_exps": "mlp.experts.%d.up_proj",
    "ffn_down_exps": "mlp.experts.%d.down_proj", "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
    "ffn_up_shexp": "mlp.shared_expert.up_proj", "ffn_down_shexp": "mlp.shared_expert.down_proj",
    "post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm",
}  # fmt: skip
GPT2 = {
    "token_embd": "wte", "position_embd": "wpe", "output_norm": "ln_f", "attn_norm": "ln_1",
    "ffn_norm": "ln_2", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}  # fmt: skip
BERT = {
    "token_embd": "embeddings.word_embeddings", "position_embd": "embeddings.position_embeddings",
    "token_types": "embeddings.token_type_embeddings", "token_embd_norm": "embeddings.LayerNorm",
    "attn_q": "attention.self.query", "attn_k": "attention.self.key", "attn_v": "attention.self.value",
    "attn_output": "attention.output.dense", "attn_output_norm": "attention.output.LayerNorm",
    "ffn_up": "intermediate.dense", "ffn_down": "output.dense", "layer_output_norm": "output.LayerNorm",
}  # fmt: skip
OSS = {
    "attn_sinks": "self_attn.sinks", "post_attention_norm": "post_attention_layernorm",
    "ffn_gate_inp": "mlp.router", "ffn_both_exps": "mlp.experts.gate_up_proj",
    "ffn_down_exps": "mlp.experts.down_proj",
}  # fmt: skip
MAMBA = {
    "token_embd": "backbone.embeddings", "output_norm": "backbone.norm_f", "attn_norm": "norm",
    "ssm_in": "mixer.in_proj", "ssm_conv1d": "mixer.conv1d", "ssm_x": "mixer.x_proj",
    "ssm_dt": "mixer.dt_proj", "ssm_norm": "mixer.norm", "ssm_out": "mixer.out_proj",
}  # fmt: skip
MIXTRAL = {
    "ffn_gate_inp": "block_sparse_moe.gate", "ffn_gate_exps": "block_sparse_moe.experts.%d.w1",
    "ffn_up_exps": "block_sparse_moe.experts.%d.w3", "ffn_down_exps": "block_sparse_moe.experts.%d.w2",
}  # fmt: skip


def united(weights):
    """Gates and values of experts in turns, as one tensor."""
    out = dict(weights)
    for name in weights:
        if "ffn_gate_exps" in name:
            pair = out.pop(name), out.pop(name.replace("gate", "up"))
            both = numpy.stack(pair, 2)
            shape = (both.shape[0], both.shape[1] * 2, *both.shape[3:])
            out[name.replace("gate", "both")] = both.reshape(shape)
    return out


class Folder:
    """config: the members of config.json; tensors: {name: (array, dtype)}, in any order."""

    def __init__(self, model, dtype="F32"):
        self.model, self.dtype, self.tensors = model, dtype, {}
        arch = model.arch
        is_mixtral = arch == "llama" and model.size["experts"]
        self.before = {"gpt2": "h.", "bert": "encoder.layer.", "mamba": "backbone.layers.",
                       "mamba2": "backbone.layers."}.get(arch, "model.layers.")  # fmt: skip
        others = {"bert": BERT, "mamba": MAMBA, "mamba2": MAMBA, "gpt2": GPT2, "gpt-oss": OSS}.get(arch, {})
        self.names = NAMES | others | (MIXTRAL if is_mixtral else {})
        if arch.startswith("gemma") and arch != "gemma":
            self.names["ffn_norm"] = "pre_feedforward_layernorm"
        if arch == "phi3":
            self.names["ffn_up"] = "mlp.gate_up_proj"
        self.config = self.make_config("mixtral" if is_mixtral else TYPES.get(arch, arch))
        weights = united(model.weights) if arch == "gpt-oss" else model.weights
        for name, values in weights.items():
            self.add(name, values)

    def make_config(self, kind):
        m, config = self.model, {"model_type": kind}
        for key, value in m.entries.items():
            known = KEYS.get(key.split(".", 1)[1])
            if known:
                config[known] = value
        if m.arch.startswith("mamba"):
            return self.make_mamba(config)
        if m.arch != "gpt2":
            config["head_dim"] = m.size["head"]
        config["tie_word_embeddings"] = "output.weight" not in m.weights
        if m.size["experts"]:
            is_local = kind in ("mixtral", "gpt_oss")
            config["num_local_experts" if is_local else "num_experts"] = m.size["experts"]
            config["norm_topk_prob"] = m.arch == "qwen3moe"
        if m.arch in ("gemma2", "gemma3"):
            config["query_pre_attn_scalar"] = m.size["head"]
        kind = m.entries.get(f"{m.arch}.rope.scaling.type")
        if kind:
            factor = m.entries[f"{m.arch}.rope.scaling.factor"]
            config["rope_scaling"] = {"rope_type": kind, "factor": factor}
            original = m.entries.get(f"{m.arch}.rope.scaling.original_context_length")
            config["rope_scaling"] |= {"original_max_position_embeddings": original} if original else {}
        if m.kind == gguf_file.MXFP4:
            config["quantization_config"] = {"quant_method": "mxfp4"}
        return config

    def make_mamba(self, config):
        size, is_2 = self.model.size, self.model.arch == "mamba2"
        config["layer_norm_epsilon"] = config.pop("rms_norm_eps")
        config["tie_word_embeddings"], config["hidden_act"] = True, "silu"
        config.pop("num_attention_heads"), config.pop("max_position_embeddings")
        if is_2:
            config.pop("intermediate_size")
            config["num_heads"] = config.pop("time_step_rank")
            config["head_dim"] = size["inner"] // size["rank"]
        return config

    def add_mamba(self, name, values):
        """Rates as logarithms, and filters with an axis more."""
        layer, stem = re.fullmatch(r"blk\.(\d+)\.(ssm_\w+(?:\.\w+)?)", name).groups()
        to, is_2 = f"{self.before}{layer}.mixer.", self.model.arch == "mamba2"
        if stem == "ssm_a":
            self.tensors[to + "A_log"] = numpy.log(-values).reshape(-1) if is_2 else numpy.log(-values)
        elif stem == "ssm_d":
            self.tensors[to + "D"] = values.reshape(-1)
        elif stem == "ssm_conv1d.weight":
            self.tensors[to + "conv1d.weight"] = values[:, None]
        elif stem == "ssm_dt.bias" and is_2:
            self.tensors[to + "dt_bias"] = values
        elif stem == "ssm_norm.weight":
            self.tensors[to + "norm.weight"] = values.reshape(-1)
        else:
            return False
        return True

    def add(self, name, values):
        if "ssm_" in name and self.add_mamba(name, values):
            return
        layer, stem, end = re.fullmatch(r"(?:blk\.(\d+)\.)?(.*)\.(weight|bias)", name).groups()
        to, is_gpt2 = self.names[stem], self.model.arch == "gpt2"
        if layer is not None:
            to = f"{self.before}{layer}.{to}"
        if self.model.arch.startswith("gemma") and "norm" in stem:
            values = values - 1
        if is_gpt2 and values.ndim == 2 and layer is not None:
            values = values.T
        if self.model.arch == "gpt-oss" and ("exps" in stem or "sinks" in stem):
            self.add_bare(to, values, end)
        elif "%d" in to:
            for expert, part in enumerate(values):
                self.tensors[f"{to % expert}.{end}"] = part
        else:
            self.tensors[f"{to}.{end}"] = values

    def add_bare(self, to, values, end):
        """Names without endings; experts are turned, or blocks of 4 bits."""
        if end == "bias" or values.ndim == 1:
            self.tensors[to + ("_bias" if end == "bias" else "")] = values
        elif self.model.kind != gguf_file.MXFP4:
            self.tensors[to] = values.transpose(0, 2, 1)
        else:
            packed = gguf_file.pack_mxfp4(values.reshape(*values.shape[:-1], -1, 32))
            q = numpy.concatenate([packed[..., 1:] & 15, packed[..., 1:] >> 4], -1)
            self.tensors[to + "_scales"] = packed[..., 0]
            self.tensors[to + "_blocks"] = q[..., ::2] | q[..., 1::2] << 4

    def type_of(self, name):
        return "U8" if self.tensors[name].dtype == numpy.uint8 else self.dtype

    def content(self, values):
        if values.dtype == numpy.uint8:
            return numpy.ascontiguousarray(values).tobytes()
        if self.dtype == "BF16":
            bits = numpy.ascontiguousarray(values).astype("<f4").view("u4") + 0x8000 >> 16
            return bits.astype("<u2").tobytes()
        return numpy.ascontiguousarray(values).astype("<f2" if self.dtype == "F16" else "<f4").tobytes()

    def weights_file(self, names):
        head, data = {"__metadata__": {"format": "pt"}}, b""
        for name in names:
            content = self.content(self.tensors[name])
            end = len(data) + len(content)
            head[name] = {
                "dtype": self.type_of(name), "shape": list(self.tensors[name].shape),
                "data_offsets": [len(data), end],
            }  # fmt: skip
            data += content
        text = json.dumps(head).encode()
        text += b" " * (-len(text) % 8)
        return struct.pack("<Q", len(text)) + text + data

    def write(self, path, parts=1):
        path = pathlib.Path(path)
        path.mkdir()
        (path / "config.json").write_text(json.dumps(self.config, indent=2))
        if parts == 1:
            (path / "model.safetensors").write_bytes(self.weights_file(sorted(self.tensors)))
            return
        names, placed = sorted(self.tensors), {}
        for part in range(parts):
            file = f"model-{part + 1:05}-of-{parts:05}.safetensors"
            (path / file).write_bytes(self.weights_file(names[part::parts]))
            placed |= {name: file for name in names[part::parts]}
        (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": placed}))
