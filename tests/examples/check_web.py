#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The WebAssembly demo in headless Chromium: all digits that draw_digits.js draws are recognised, nothing is
left of a drawing after Clear, and the module's logits are those of native code, with the vectors of
WebAssembly and without. Screenshots in light, dark and narrow are left in BUILD/tests/examples for people to
look at. Exits with 77 where there is no Chromium or no linker for WebAssembly.
Usage: check_web.py RLXC BUILD"""

import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

RLXC, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:])
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TIME_LIMIT = 120
SCREENS = (("light", 1, "1000,700"), ("dark", 0, "1000,700"), ("narrow", 1, "500,1150"))


def make_page(top, *words):
    web = top / "examples/web"
    subprocess.run(["make", "clean"], cwd=web, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["make", f"RLXC={RLXC}", *words], cwd=web, check=True, stdout=subprocess.DEVNULL,
                   timeout=TIME_LIMIT)
    page = (web / "index.html").read_text()
    assert "http" not in re.sub(r'WASM = "[^"]*"', "", page), "the page needs a network"
    test = top / "test.html"
    script = (HERE / "draw_digits.js").read_text()
    test.write_text(page.replace("</body>", f"<script>{script}</script></body>"))
    return test


def browse(page, *options, size="1000,700"):
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000",
               f"--window-size={size}", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def draw(page):
    found = re.search(r'id="result">(.*?)</script>', browse(page, "--dump-dom"), re.DOTALL)
    assert found, "the page has written no result"
    result = json.loads(found.group(1))
    assert isinstance(result, dict), result
    return result


def check_shown(result):
    assert result["imports"] == "none" and result["size"].endswith(" KB"), result
    assert sorted(d["digit"] for d in result["drawn"]) == list(range(10))
    for d in result["drawn"]:
        assert d["shown"] == str(d["digit"]), (d["digit"], "shown as", d["shown"], d["image"])
        assert d["emptied"] == "–" and d["hint"] == "none", d
        share = f"{100 * d['probs'][d['digit']]:.1f} %"
        assert d["marked"].split("\n") == [d["shown"], share], d["marked"]
        assert re.fullmatch(r"\d+\.\d µs|–", d["time"]), d["time"]
        # Centred in eight rows, in 17 levels, of the weight of the training images.
        rows = [d["image"][8 * y:8 * y + 8] for y in range(8)]
        assert any(rows[0]) and any(rows[7]) and all(16 * v % 1 == 0 for v in d["image"]), rows
        assert 0.28 < sum(d["image"]) / 64 < 0.33, rows


def write_images(path, images):
    """A .npy file of f32 [n, 1, 8, 8]: the base tools have no NumPy."""
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(images)}, 1, 8, 8), }}"
    head = head.ljust(117) + "\n"
    flat = [v for image in images for v in image]
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode()
                     + struct.pack(f"<{len(flat)}f", *flat))


def native_logits(top, images):
    write_images(top / "images.npy", images)
    command = [RLXC, "run", top / "models/digits/digits.json", "--cpu", "generic", "--input",
               f"image={top / 'images.npy'}", "--output-dir", top]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=TIME_LIMIT)
    data = (top / "logits.npy").read_bytes()
    values = struct.unpack(f"<{10 * len(images)}f", data[len(data) - 40 * len(images):])
    return [values[10 * i:10 * i + 10] for i in range(len(images))]


def check_logits(top, drawn):
    native = native_logits(top, [d["image"] for d in drawn])
    for d, expected in zip(drawn, native):
        error = max(abs(a - b) for a, b in zip(d["logits"], expected))
        assert error < 1e-5 * max(map(abs, expected)), (d["digit"], d["logits"], expected)


def main():
    missing = [tool for tool in ("chromium", "clang", "wasm-ld", "make") if shutil.which(tool) is None]
    if missing:
        print("skipped: no", ", ".join(missing))
        sys.exit(77)
    out = BUILD / "tests/examples"
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder)
        # The profile of the browser goes there too.
        os.environ.update(HOME=folder, XDG_CONFIG_HOME=folder, XDG_CACHE_HOME=folder)
        shutil.copytree(ROOT / "examples/web", top / "examples/web")
        shutil.copytree(ROOT / "models/digits", top / "models/digits")
        for cpu in "generic", "wasm-simd128":
            page = make_page(top, f"CPU={cpu}")
            result = draw(page)
            check_shown(result)
            check_logits(top, result["drawn"])
            print(f"{cpu}: {result['size']}, ten digits as native code has them")
        for name, scheme, size in SCREENS:
            shot = out / f"web_{name}.png"
            browse(page, f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={shot}", size=size)
            assert shot.read_bytes().startswith(b"\x89PNG"), shot


main()
