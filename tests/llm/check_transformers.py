#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Folders that transformers writes, with random weights, give the logits that transformers computes from them
in doubles. Needs torch and transformers: in this Python, or in the one that RLXC_TRANSFORMERS names; without
them the test is skipped. Usage: check_transformers.py RLXC [NAME...]"""

import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]
os.environ.setdefault("HF_HUB_OFFLINE", "1")
try:
    import numpy
    import torch
    import transformers
except ImportError:
    python = os.environ.get("RLXC_TRANSFORMERS")
    if python is None or python == sys.executable:
        print("1..0 # SKIP torch or transformers is missing: RLXC_TRANSFORMERS names a Python with both")
        sys.exit(0)
    os.execv(python, [python, *sys.argv])
from built import build, difference  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
VOCAB, ALLOWED = 80, 1e-5
TOKENS = [(7 * i * i + 3 * i + 1) % VOCAB for i in range(29)]
CUTS = [[29], [5, 7, 1, 16], [20] + [1] * 9]
BASE = {
    "vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2,
}
YARN = {
    "rope_type": "yarn", "rope_theta": 5000.0, "factor": 4.0, "original_max_position_embeddings": 16,
    "beta_fast": 4.0, "beta_slow": 0.5,
}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 5000.0, "factor": 4.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 32,
}
LONGROPE = {
    "rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 16,
    "long_factor": [1 + i / 3 for i in range(6)], "short_factor": [1 + i / 9 for i in range(6)],
    "partial_rotary_factor": 0.75,
}
EXPERTS = {
    "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 48, "decoder_sparse_step": 1,
}


def rope(**members):
    return {"rope_parameters": members}


# Name of the case: class of the model without its ending, and what the configuration has beyond BASE.
CASES = {
    "llama": ("Llama", {}),
    "llama3": ("Llama", {"rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    "llama_linear": ("Llama", rope(rope_type="linear", rope_theta=9000.0, factor=3.0) | {"head_dim": 24}),
    "llama_yarn": ("Llama", {"rope_parameters": YARN}),
    "llama_bias": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "mistral": ("Mistral", {"sliding_window": 6}),
    "mixtral": ("Mixtral", {"num_local_experts": 4}),
    "qwen2": ("Qwen2", {}),
    "qwen2_windows": ("Qwen2", {"use_sliding_window": True, "max_window_layers": 1, "sliding_window": 5}),
    "qwen2_yarn": ("Qwen2", {"rope_parameters": YARN | {"attention_factor": 1.3, "truncate": False}}),
    "qwen2_moe": ("Qwen2Moe", EXPERTS),
    "qwen3": ("Qwen3", {"head_dim": 24}),
    "qwen3_moe": ("Qwen3Moe", EXPERTS | {"head_dim": 24, "norm_topk_prob": True}),
    "gemma": ("Gemma", {"head_dim": 32}),
    "gemma2": ("Gemma2", {"head_dim": 32, "sliding_window": 5, "num_hidden_layers": 3,
                          "query_pre_attn_scalar": 20, "attn_logit_softcapping": 5.0,
                          "final_logit_softcapping": 3.0}),
    "gemma3": ("Gemma3", {"head_dim": 32, "sliding_window": 5, "num_hidden_layers": 7}),
    "phi3": ("Phi3", {"sliding_window": 6}),
    "phi3_longrope": ("Phi3", {"rope_parameters": LONGROPE, "original_max_position_embeddings": 16}),
    "granite": ("Granite", {"embedding_multiplier": 3.0, "residual_multiplier": 0.4,
                            "attention_multiplier": 0.2, "logits_scaling": 2.5}),
    "olmo2": ("Olmo2", {}),
    "gpt_oss": ("GptOss", {"head_dim": 32, "num_local_experts": 5, "num_experts_per_tok": 2,
                           "num_hidden_layers": 3, "sliding_window": 5,
                           "rope_parameters": YARN | {"truncate": False}}),
    "gpt2": ("GPT2", {}),
    "mamba": ("Mamba", {"state_size": 8, "time_step_rank": 6, "expand": 2}),
    "mamba2": ("Mamba2", {"state_size": 16, "num_heads": 8, "head_dim": 16, "n_groups": 2, "expand": 2,
                          "chunk_size": 8}),
    "bert": ("Bert", {}),
    "whisper": ("Whisper", {}),
}  # fmt: skip


def make(name):
    kind, more = CASES[name]
    members = dict(BASE, **more)
    if kind == "GPT2":
        members = {"vocab_size": VOCAB, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64,
                   "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
    names = [f"{kind}TextConfig", f"{kind}Config"]
    config = next(getattr(transformers, n) for n in names if hasattr(transformers, n))(**members)
    names = [f"{kind}ForCausalLM", f"{kind}LMHeadModel"]
    torch.manual_seed(sum(map(ord, name)))
    config._attn_implementation = config._experts_implementation = "eager"
    model = next(getattr(transformers, n) for n in names if hasattr(transformers, n))(config)
    with torch.no_grad():
        for key, weight in model.named_parameters():
            norm = "norm" in key or ".ln_" in key
            # Large enough for mistakes to show, and norms and biases that are not 1 and 0.
            weight.copy_(weight + 0.1 * torch.randn_like(weight) if norm or "bias" in key
                         else torch.randn_like(weight) * 1.5 / weight.shape[-1] ** 0.5)  # fmt: skip
    return model.eval()


def expected(model):
    # A model with two tables of factors takes the one for its longest text, as rlxc does.
    tokens = torch.tensor([TOKENS])
    with torch.no_grad():
        return model.double()(tokens, use_cache=False).logits[0].numpy()


def check_bert():
    """The mean of the rows; what belongs to other tasks does not count."""
    sizes = {key: BASE[key] for key in BASE if key != "num_key_value_heads"}
    torch.manual_seed(1)
    model = transformers.BertModel(transformers.BertConfig(**sizes)).eval().double()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight + 0.1 * torch.randn_like(weight))
        want = model(torch.tensor([TOKENS])).last_hidden_state[0].mean(0).numpy()
    with tempfile.TemporaryDirectory() as folder:
        model.float().save_pretrained(f"{folder}/model")
        numpy.save(f"{folder}/tokens.npy", numpy.array(TOKENS))
        command = [RLXC, "run", f"{folder}/model", "--dim", f"T={len(TOKENS)}"]
        command += ["--input", f"tokens={folder}/tokens.npy", "--output-dir", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=400)
        got = numpy.load(f"{folder}/embedding.npy")[0]
    apart = numpy.linalg.norm(got - want) / numpy.linalg.norm(want)
    print("#", "bert", f"apart {apart:.1e}")
    return apart <= ALLOWED


def make_whisper():
    torch.manual_seed(7)
    sizes = {"d_model": 64, "num_mel_bins": 20, "encoder_layers": 2, "decoder_layers": 3,
             "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 96,
             "decoder_ffn_dim": 96, "max_source_positions": 50, "max_target_positions": 40,
             "vocab_size": VOCAB, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
             "decoder_start_token_id": 1}  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**sizes)).eval().double()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight + 0.1 * torch.randn_like(weight))
    return model


def run_part(folder, part, output, *given):
    command = [RLXC, "run", f"{folder}/model", "--signature", part, "--output-dir", folder, *given]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=400)
    return numpy.load(f"{folder}/{output}.npy")


def check_whisper():
    """Sound of one second, each part with what transformers gives the one before it."""
    model, sound = make_whisper(), numpy.random.default_rng(1).standard_normal(16000).astype("f4") * 0.1
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        extract = transformers.WhisperFeatureExtractor(feature_size=20, chunk_length=1)
        mel = extract(sound, sampling_rate=16000, return_tensors="np")["input_features"][0]
        encoded = model.model.encoder(torch.tensor(mel[None]).double()).last_hidden_state
        logits = model(encoder_outputs=(encoded,), decoder_input_ids=torch.tensor([TOKENS])).logits[0]
        model.float().save_pretrained(f"{folder}/model")
        extract.save_pretrained(f"{folder}/model")
        for name, values in (("samples", sound), ("mel", mel), ("encoded", encoded[0].float().numpy()),
                             ("tokens", numpy.array(TOKENS))):  # fmt: skip
            numpy.save(f"{folder}/{name}_in.npy", numpy.ascontiguousarray(values))
        got = [run_part(folder, "features", "mel", "--input", f"samples={folder}/samples_in.npy"),
               run_part(folder, "encoder", "encoded", "--input", f"mel={folder}/mel_in.npy"),
               run_part(folder, "decoder", "logits", "--dim", f"T={len(TOKENS)}", "--dim", "P=0",
                        "--outputs", "all", "--input", f"tokens={folder}/tokens_in.npy",
                        "--param", f"encoded={folder}/encoded_in.npy")]  # fmt: skip
    want = [mel, encoded[0].numpy(), logits.numpy()]
    apart = [numpy.linalg.norm(x - y) / numpy.linalg.norm(y) for x, y in zip(got, want)]
    print("#", "whisper", "apart", *(f"{x:.1e}" for x in apart))
    return max(apart) <= ALLOWED


def check(name):
    if name in ("bert", "whisper"):
        return check_bert() if name == "bert" else check_whisper()
    model = make(name)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model")
        model.save_pretrained(path, max_shard_size="60KB" if name == "llama" else "1GB")
        build(RLXC, path, folder, VOCAB, [])
        worst = [difference(folder, TOKENS, cut, expected(model)) for cut in CUTS]
    print("#", name, "apart", *(f"{x:.1e}" for x in worst))
    return max(worst) <= ALLOWED


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    failed = 0
    cases = [name for name in CASES if len(sys.argv) == 2 or name in sys.argv[2:]]
    print(f"1..{len(cases)}", flush=True)
    for number, name in enumerate(cases, 1):
        ok = check(name)
        failed += not ok
        print("ok" if ok else "not ok", number, "-", name, flush=True)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
