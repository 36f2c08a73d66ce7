#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models that make a vector of a text, from GGUF files and folders: what `rlxc run` computes is what numpy
does in doubles, for several lengths of one compile too. Usage: check_embedders.py RLXC"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]
try:
    import numpy
except ImportError:
    import in_venv

    in_venv.enter_or_skip("numpy")
from emitted import flags_of  # noqa: E402
from folder_file import Folder  # noqa: E402
import models  # noqa: E402
from reference import Reference  # noqa: E402
import small_vocab  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
ALLOWED = 1e-5


def difference(path, folder, model, n, *options):
    tokens = numpy.array([(7 * i * i + 3 * i + 1) % models.VOCAB for i in range(n)])
    numpy.save(f"{folder}/tokens.npy", tokens)
    command = [RLXC, "run", path, "--input", f"tokens={folder}/tokens.npy", "--output-dir", f"{folder}/out"]
    subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL, timeout=400)
    got, want = numpy.load(f"{folder}/out/embedding.npy"), Reference(model).pooled(tokens)
    same = got.shape == want.shape and numpy.isfinite(got).all()
    return numpy.linalg.norm(got - want) / numpy.linalg.norm(want) if same else numpy.inf


def check_gguf(name, folder):
    model = models.ENCODERS[name]()
    path = pathlib.Path(folder, "m.gguf")
    path.write_bytes(model.file())
    worst = max(difference(path, folder, model, n, "--dim", "T=1..64") for n in (1, 29))
    worst = max(worst, difference(path, folder, model, models.CONTEXT))
    print("#", name, f"apart {worst:.1e}")
    return worst <= ALLOWED


def check_folder(folder):
    """How rows become a vector is in a file of its own; heads for other tasks do not count."""
    ok = True
    for number, member in ((1, None), (2, "pooling_mode_cls_token"), (3, "pooling_mode_lasttoken")):
        model = models.encoder("bert", pooling=number)
        path, made = pathlib.Path(folder, f"m{number}"), Folder(model)
        made.config["hidden_act"], made.config["layer_norm_eps"] = "gelu", 1e-5
        made.tensors |= {"pooler.dense.weight": numpy.ones((64, 64)), "pooler.dense.bias": numpy.ones(64)}
        made.write(path)
        if member:
            (path / "1_Pooling").mkdir()
            said = {"pooling_mode_mean_tokens": False, member: True}
            (path / "1_Pooling/config.json").write_text(json.dumps(said))
        apart = difference(path, folder, model, 29, "--dim", "T=29")
        print("# folder", number, f"apart {apart:.1e}")
        ok = ok and apart <= ALLOWED
    return ok


TEXT = "The D\u00f6g, thing  \u4e00 theta."
MAIN = """#include "m.h"
#include <stdio.h>
#include <string.h>
static RLX_ALIGNED char arena[M_ARENA_BYTES], state[M_STATE_BYTES + 1];
static char memory[M_EMBED_BYTES(4096)];
int main(int argc, char **argv)
{
    rlx_work work = {memory, sizeof memory};
    rlx_ctx ctx;
    static char text[4096];
    if (argc == 3)
        memset(text, argv[2][0], 4000);
    else
        strcpy(text, argv[1]);
    if (rlx_init(&ctx, &m_model, arena, sizeof arena, state, M_STATE_BYTES, m_model.weights,
                 m_model.weight_bytes) != RLX_OK)
        return 1;
    for (int i = 0; i < 2; i++) { // the second run is as the first
        const int64_t n = m_embed(&ctx, text, strlen(text), work);
        if (n < 0)
            return (int)-n + 10;
    }
    for (int i = 0; i < 64; i++)
        printf("%.9g ", (double)((const float *)rlx_output(&ctx, 0))[i]);
    return 0;
}
"""


def tokens_of_text():
    """By hand: words in small letters without accents, signs alone, the longest parts from the left."""
    names = small_vocab.words()["tokenizer.ggml.tokens"]
    mark = small_vocab.SPACE
    parts = [mark + "the", mark + "d", "o", "g", mark + ",", mark + "t", "h", "ing", None, mark + "the", "t",
             "a", mark + "."]  # fmt: skip
    return numpy.array([1, *(0 if p is None else names.index(p) for p in parts), 2])


def vector_of(path, folder):
    command = [RLXC, "run", path, "--prompt", TEXT, "--output-dir", f"{folder}/text"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=400)
    return numpy.load(f"{folder}/text/embedding.npy")[0]


def check_text(folder):
    """A text in, its vector out: with `run`, and in a program."""
    model = models.ENCODERS["bert"]()
    model.entries |= small_vocab.words()
    path = pathlib.Path(folder, "m.gguf")
    path.write_bytes(model.file())
    want = Reference(model).pooled(tokens_of_text())[0]
    subprocess.run([RLXC, "compile", path, "-o", folder, "--name", "m"], check=True, timeout=400,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    pathlib.Path(folder, "main.c").write_text(MAIN)
    warn = ["-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-O1"]
    flags = [*flags_of(f"{folder}/m.c"), *warn, "-D_POSIX_C_SOURCE=200112L"]
    subprocess.run(["cc", *flags, "main.c", "m.c", "-o", "p", "-lm"], check=True, cwd=folder, timeout=400)
    said = subprocess.run(["./p", TEXT], cwd=folder, check=True, capture_output=True, timeout=100).stdout
    long = subprocess.run(["./p", "", ","], cwd=folder, check=False, timeout=100).returncode
    plain = Folder(models.encoder("bert", pooling=1))
    plain.config["hidden_act"], plain.config["layer_norm_eps"] = "gelu", 1e-5
    plain.write(f"{folder}/hf")
    pathlib.Path(folder, "hf/tokenizer.json").write_text(json.dumps(small_vocab.words_json()))
    others = Reference(models.encoder("bert", pooling=1)).pooled(tokens_of_text())[0]
    got = [vector_of(path, folder) - want, numpy.array(said.split(), "f8") - want,
           vector_of(f"{folder}/hf", folder) - others]  # fmt: skip
    apart = [numpy.linalg.norm(x) / numpy.linalg.norm(want) for x in got]
    print("# text", *(f"apart {x:.1e}" for x in apart), "long", long)
    return max(apart) <= ALLOWED and long == 12  # RLX_TEXT_LENGTH


def main():
    checks = [(name, lambda folder, name=name: check_gguf(name, folder)) for name in models.ENCODERS]
    checks += [("folder", check_folder), ("text", check_text)]
    failed = 0
    print(f"1..{len(checks)}", flush=True)
    for number, (name, act) in enumerate(checks, 1):
        with tempfile.TemporaryDirectory() as folder:
            ok = act(folder)
        failed += not ok
        print("ok" if ok else "not ok", number, "-", name, flush=True)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
