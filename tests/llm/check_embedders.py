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
from folder_file import Folder  # noqa: E402
import models  # noqa: E402
from reference import Reference  # noqa: E402

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


def main():
    checks = [(name, lambda folder, name=name: check_gguf(name, folder)) for name in models.ENCODERS]
    checks.append(("folder", check_folder))
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
