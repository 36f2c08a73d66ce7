#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The WebAssembly demo in headless Chromium, with a mouse: all digits that are drawn are recognised, nothing
is left of a drawing after Clear, and the module's logits are those of native code, with the vectors of
WebAssembly and without. Screenshots in light, dark and narrow are left in BUILD/tests/examples to look at.
Exits with 77 where there is no Chromium or no linker for WebAssembly.
Usage: check_web.py RLXC BUILD"""

import math
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "pages"))
import browser

RLXC, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:])
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TIME_LIMIT = 120
SCREENS = (("light", "light", 1000, 700), ("dark", "dark", 1000, 700), ("narrow", "light", 400, 1000))


def arc(x, y, rx, ry, begin, end):
    """Points of a part of an ellipse, by degrees, clockwise from the right."""
    turns = [math.radians(begin + (end - begin) * i / 10) for i in range(11)]
    return [(x + rx * math.cos(t), y + ry * math.sin(t)) for t in turns]


# Strokes in a square of 100: points that are joined by lines.
DRAWINGS = (
    (0, [arc(50, 50, 20, 32, -90, 270)]),
    (1, [[(38, 30), (52, 16), (52, 84)]]),
    (2, [[*arc(50, 34, 20, 18, -160, 40), (32, 80), (72, 80)]]),
    (3, [[*arc(48, 33, 18, 16, -150, 90), *arc(48, 66, 21, 17, -90, 150)]]),
    (4, [[(56, 15), (28, 58), (74, 58)], [(58, 36), (58, 86)]]),
    (5, [[(70, 16), (38, 16), (36, 46), *arc(50, 60, 20, 20, -120, 140)]]),
    (6, [[(60, 14), *arc(48, 64, 20, 20, -160, 200)]]),
    (8, [[*arc(50, 33, 16, 16, 90, 450), *arc(50, 67, 19, 18, -90, 270)]]),
    (9, [[*arc(50, 36, 19, 19, 0, -360), (69, 36), (62, 86)]]),
    (7, [[(28, 18), (70, 18), (44, 86)]]),
)
LOADED = """(async () => {
  while (network === null && find('trouble').hidden) await new Promise(done => setTimeout(done, 10));
  return find('trouble').textContent;
})()"""
SHOWN = """({
  hint: getComputedStyle(find('hint')).display, shown: find('best').textContent,
  marked: document.querySelector('#bars .best').innerText, time: find('time').textContent,
  image: [...network.image], logits: [...network.logits], probs: [...network.probs],
})"""


def make_page(top, *words):
    web = top / "examples/web"
    subprocess.run(["make", "clean"], cwd=web, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["make", f"RLXC={RLXC}", *words], cwd=web, check=True, stdout=subprocess.DEVNULL,
                   timeout=TIME_LIMIT)
    return web / "index.html"


def draw(page, digit, strokes):
    page.click("#clear")
    emptied = page.run("find('best').textContent")
    x, y, size = page.run("(r => [r.x, r.y, r.width])(canvas.getBoundingClientRect())")
    for points in strokes:
        places = [(x + size * px / 100, y + size * py / 100) for px, py in points]
        page.mouse("mousePressed", *places[0], button="left", buttons=1, clickCount=1)
        for place in places[1:]:
            page.mouse("mouseMoved", *place, button="left", buttons=1)
        page.mouse("mouseReleased", *places[-1], button="left", clickCount=1)
    # What follows the last stroke is not drawn.
    page.mouse("mouseMoved", x + 1, y + 1)
    return {"digit": digit, "emptied": emptied, **page.run(SHOWN)}


def draw_all(page, address, drawings):
    page.open(address)
    trouble = page.run(LOADED)
    assert trouble == "", trouble
    module = page.run("({size: find('module').textContent, imports: find('imports').textContent})")
    drawn = [draw(page, digit, strokes) for digit, strokes in drawings]
    assert not page.errors and set(page.requests) == {address}, (page.errors, page.requests)
    return {**module, "drawn": drawn}


def check_shown(result, digits):
    assert result["imports"] == "none" and result["size"].endswith(" KB"), result
    assert [d["digit"] for d in result["drawn"]] == digits
    for d in result["drawn"]:
        assert d["shown"] == str(d["digit"]), (d["digit"], "shown as", d["shown"], d["image"])
        assert d["emptied"] == "–" and d["hint"] == "none", d
        share = f"{100 * d['probs'][d['digit']]:.1f} %"
        assert d["marked"].split("\n") == [d["shown"], share], d["marked"]
        assert re.fullmatch(r"\d+\.\d µs", d["time"]), d["time"]
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


def take_screenshots(page):
    out = BUILD / "tests/examples"
    out.mkdir(parents=True, exist_ok=True)
    for name, scheme, width, height in SCREENS:
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=False)
        assert page.run("document.documentElement.scrollWidth <= innerWidth"), name
        page.screenshot(out / f"web_{name}.png")


def check_all(top):
    for name in "examples/web", "models/digits":
        shutil.copytree(ROOT / name, top / name)
    page = browser.Browser(1000, 700)
    try:
        for cpu, drawings in ("generic", DRAWINGS[:3]), ("wasm-simd128", DRAWINGS):
            page.requests.clear()
            result = draw_all(page, make_page(top, f"CPU={cpu}").as_uri(), drawings)
            check_shown(result, [digit for digit, _ in drawings])
            check_logits(top, result["drawn"])
            print(f"{cpu}: {result['size']}, a run in {result['drawn'][-1]['time']}, as native code")
        take_screenshots(page)
    finally:
        page.close()


def main():
    missing = [tool for tool in ("clang", "wasm-ld", "make") if shutil.which(tool) is None]
    if missing or browser.find() is None:
        print("skipped: no", ", ".join(missing or ["Chromium"]))
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        check_all(pathlib.Path(folder))


main()
