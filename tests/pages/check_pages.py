#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of rlxc inspect --html in Chromium: it renders without an error or a request, what is drawn is
what inspect --json says, and search, zoom, clicks and keys do what they should. A model of 500 nodes, small
ones, one whose names are an attack. Usage: check_pages.py RLXC; prints TAP; SCREENSHOTS=DIR keeps pictures.
"""

import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
import tap
from tap import result

import browser
import models

RLXC = os.path.abspath(sys.argv[1])
ROOT = os.path.abspath(os.environ.get("RLXC_SOURCE", "."))
PICTURES = os.environ.get("SCREENSHOTS")
DECODER = [os.path.join(ROOT, "models/decoder.json"), "--dim", "T=4", "--dim", "P=8"]

# Boxes of nodes that overlap, and names that are wider than their box.
OVERLAPS = """(() => {
  const { drawing, world } = currentGraph(), boxes = drawing.items.filter((i) => i.node >= 0), bad = [];
  for (const a of boxes) for (const b of boxes)
    if (a.node < b.node && Math.abs(a.x - b.x) < (a.w + b.w) / 2 && a.y < b.y + b.h && b.y < a.y + a.h)
      bad.push([a.node, b.node]);
  for (const text of world.querySelectorAll(".name, .word")) {
    const room = text.parentNode.querySelector("rect").getAttribute("width");
    if (text.getComputedTextLength() > room) bad.push(text.textContent);
  }
  return bad.slice(0, 5);
})()"""
# Every buffer drawn where and when it is.
MAP = """Array.from(document.querySelectorAll("[data-buffer]")).map((g) => {
  const r = g.querySelector("rect"), v = (n) => Number(r.getAttribute(n)), s = mapScales();
  const step = (x) => Math.round((x - s.x(0)) / (s.x(1) - s.x(0)));
  const size = (h) => h * FACTS.arena_bytes / MAP_H, low = s.y(0) - v("y") - v("height");
  return [step(v("x")), step(v("x") + v("width")), size(v("height")), size(low)]; })"""
TABLE = """(() => {
  const all = (from, what, pair) => Object.fromEntries(Array.from(from.querySelectorAll(what)).map(pair));
  const value = (td) => [td.dataset.column, Number(td.dataset.value)];
  return all(document, "#kerneltable tbody tr", (tr) => [tr.dataset.step, all(tr, "[data-column]", value)]);
})()"""


def rlxc(*arguments):
    return subprocess.run([RLXC, *arguments], check=True, capture_output=True, text=True).stdout


class Page:
    """A page of a model, opened; and what --json says about the same."""

    def __init__(self, b, folder, name, model, *options):
        path = os.path.join(folder, name + ".html")
        rlxc("inspect", *model, *options, "--html", path)
        given = [o for i, o in enumerate(options) if "--times" not in options[max(i - 1, 0) : i + 1]]
        self.facts = json.loads(rlxc("inspect", *model, *given, "--json"))
        self.b, self.name, self.address = b, name, "file://" + path
        b.errors.clear()
        b.requests.clear()
        b.open(self.address)

    def show(self, tab):
        self.b.click("#tab-" + tab)
        if PICTURES:
            self.b.screenshot(os.path.join(PICTURES, f"{self.name}-{tab}.png"))

    def count(self, selector):
        return self.b.run(f"document.querySelectorAll({json.dumps(selector)}).length")

    def end(self):
        result(self.b.errors == [], f"{self.name}: no error", self.b.errors)
        result(self.b.requests == [self.address], f"{self.name}: nothing is fetched", self.b.requests)


# --- what is drawn is what --json says --------------------------------------------------------------


def check_figures(page):
    b, facts = page.b, page.facts
    result(b.run("FACTS") == facts, f"{page.name}: carries what --json prints")
    drawn = b.run(
        "Object.fromEntries(Array.from(document.querySelectorAll('[data-figure]')).map("
        "(e) => [e.dataset.figure, Number(e.dataset.value)]))"
    )
    want = {k: len(facts[k]) if k == "kernels" else facts[k] for k in drawn if k in facts}
    same = all(drawn[k] == want[k] for k in want) and len(want) >= 9
    result(same, f"{page.name}: figures of the overview", (drawn, want))


def check_map(page):
    page.show("memory")
    drawn, want = page.b.run(MAP), page.facts["buffers"]
    arena = max(page.facts["arena_bytes"], 1)
    ok = len(drawn) == len(want)
    for (first, end, size, offset), buffer in zip(drawn, want):
        close = abs(size - buffer["bytes"]) <= arena / 400 and abs(offset - buffer["offset"]) <= arena / 400
        ok = ok and first == buffer["first"] and end == buffer["last"] + 1 and close
    result(ok, f"{page.name}: every buffer at its place in the map", (drawn[:5], want[:5]))
    at = page.facts["peak_step"]
    holders = sum(buffer["first"] <= at <= buffer["last"] for buffer in want)
    result(page.count("#holders tbody tr") == holders, f"{page.name}: who holds the peak", holders)


def check_table(page):
    page.show("kernels")
    rows, steps = page.b.run(TABLE), page.b.run("STEPS.map((s) => [s.row, s.rows])")
    ok = len(rows) == page.facts["steps"] == len(steps)
    for step, (row, more) in enumerate(steps):
        mine = page.facts["kernels"][row : row + more + 1]
        for what in "macs", "flops", "bytes":
            ok = ok and rows[str(step)][what] == sum(kernel[what] for kernel in mine)
        ok = ok and rows[str(step)].get("group") == mine[0].get("group")
    result(ok, f"{page.name}: table of kernels", rows)


def check_weights(page):
    page.show("weights")
    sizes = "Array.from(document.querySelectorAll('[data-weight]')).map((e) => Number(e.dataset.value))"
    widths = page.b.run(sizes)
    fits = sum(widths) <= page.facts["weight_bytes"] and widths == sorted(widths, reverse=True)
    result(fits and (widths or not page.facts["weight_bytes"]), f"{page.name}: weights", widths[:9])


def check_graphs(page, n_before, n_after):
    page.show("graph")
    result(page.count(".node") == n_before, f"{page.name}: nodes before fusion", page.count(".node"))
    result(page.b.run(OVERLAPS) == [], f"{page.name}: boxes do not overlap", page.b.run(OVERLAPS))
    size = page.b.run("graphView.box.scale * 12")
    result(size >= 5, f"{page.name}: names can be read at the beginning", size)
    page.b.click("[data-graph=after]")
    result(page.count(".node") == n_after, f"{page.name}: kernels after fusion", page.count(".node"))
    result(page.b.run(OVERLAPS) == [], f"{page.name}: kernels do not overlap", page.b.run(OVERLAPS))
    if PICTURES:
        page.b.screenshot(os.path.join(PICTURES, f"{page.name}-after.png"))
    page.b.click("[data-graph=before]")


def check_page(page, n_before, n_after):
    check_figures(page)
    check_graphs(page, n_before, n_after)
    check_map(page)
    check_table(page)
    check_weights(page)


def check_names(b, folder):
    """Constants have the names of the model, colours their meaning, and tabs a link."""
    page = Page(b, folder, "named", [os.path.join(ROOT, "models/digits/digits.onnx"), "--dim", "batch=1"])
    named = b.run("GRAPHS.before.nodes.flatMap((n) => n.constants.map((c) => c.name))")
    result("dense_w" in named and not any(n[:1] == "%" for n in named), "named: constants", named)
    for tab, colours in (("graph", 6), ("memory", 3), ("kernels", 4)):
        page.show(tab)
        result(page.count(f"#{tab} .legend .swatch") == colours, f"named: colours of {tab} are explained")
        result(b.run("location.hash") == "#" + tab, f"named: {tab} has a link")
    b.open("about:blank")
    b.open(page.address + "#weights")
    result(b.run("document.querySelector('section.open').id") == "weights", "named: a link opens its tab")


# --- what one does with it --------------------------------------------------------------------------


def check_zoom(b):
    scale = lambda: b.run("graphView.box.scale")  # noqa: E731
    before = scale()
    b.mouse("mouseWheel", 400, 400, deltaX=0, deltaY=-240)
    b.run("new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")
    result(scale() > before * 1.2, "the wheel zooms", (before, scale()))
    x = b.run("graphView.box.x")
    b.mouse("mousePressed", 600, 600, button="left", buttons=1, clickCount=1)
    b.mouse("mouseMoved", 700, 640, button="left", buttons=1)
    b.mouse("mouseReleased", 700, 640, button="left", clickCount=1)
    result(abs(b.run("graphView.box.x") - x - 100) < 1, "dragging moves", b.run("graphView.box.x") - x)
    b.run("graphView.canvas.focus()")
    b.key("0")
    inside = b.run(
        "(() => { const w = currentGraph().world.getBoundingClientRect(),"
        "c = graphView.canvas.getBoundingClientRect(); return w.left >= c.left && w.right <= c.right"
        "&& w.top >= c.top && w.bottom <= c.bottom; })()"
    )
    result(inside, "0 fits all of it", scale())
    result(scale() * 24 >= 4.5, "words in 500 nodes at once", scale())
    if PICTURES:
        b.screenshot(os.path.join(PICTURES, "tower-fit.png"))
    b.key("1")
    result(abs(scale() - 1) < 1e-9, "1 is the size of the text", scale())


def check_search(page):
    b = page.b
    b.key("/")
    b.type("block7.conv_c")
    result(b.run("graphView.found.textContent") == "1 of 1", "search", b.run("graphView.found.textContent"))
    title = b.run("document.querySelector('#panel h2').textContent")
    result(title == "block7.conv_c", "what is found is selected", title)
    centred = b.run(
        "(() => { const r = document.querySelector('.selected').getBoundingClientRect(),"
        "c = graphView.canvas.getBoundingClientRect();"
        "return Math.hypot(r.x + r.width / 2 - c.x - c.width / 2,"
        "r.y + r.height / 2 - c.y - c.height / 2); })()"
    )
    result(centred < 3, "and in the middle", centred)
    text = b.run("document.querySelector('#panel').innerText")
    known = (
        "f32[1, 8, 16, 16]",
        "block7.gated",
        "block7.tanh",
        "pads",
        "f32[8, 8, 3, 3]",
        "Kernels that compute it",
    )
    result(all(part in text for part in known), "its type, attributes, inputs, users", text)
    kin = b.run("document.querySelectorAll('.kin').length")
    result(kin >= 1, "others of its kernel are marked", kin)
    if PICTURES:
        b.screenshot(os.path.join(PICTURES, "tower-search.png"))
    b.run("graphView.canvas.focus()")
    b.key("ArrowDown")
    result(b.run("document.querySelector('#panel h2').textContent") == "block7.tanh", "down goes to its user")
    b.click("#panel .link")  # the kernel
    step = b.run("document.querySelector('#panel .facts').innerText")
    result("kernel, step" in step and b.run("graphView.which") == "after", "a link to its kernel", step)
    parts = b.run("document.querySelector('#panel').innerText")
    result("Nodes in it" in parts and "block7.conv_c" in parts, "which lists its nodes", parts)
    b.run("graphView.search.value = 'nothing of that name'; search(0)")
    result(b.run("graphView.found.textContent") == "nothing", "what is not there")


def check_clicks(page):
    b = page.b
    b.click("[data-graph=before]")
    b.click('[data-node="3"]')
    result(b.run("graphView.selected") == 3, "a click selects", b.run("graphView.selected"))
    page.show("memory")
    b.click('[data-buffer="1"]')
    said = b.run("document.querySelector('#buffer').innerText")
    name = page.facts["buffers"][1]["name"]
    result(name in said and "Written by" in said, "a click on a buffer", said)
    page.show("kernels")
    b.click("#kerneltable th:nth-child(1) button")
    first = b.run("document.querySelector('#kerneltable tbody tr').dataset.step")
    result(first == "0", "kernels by step", first)
    b.run("document.getElementById('tab-kernels').focus()")
    b.key("ArrowRight")
    result(b.run("document.getElementById('weights').classList.contains('open')"), "arrows change tabs")
    colour = lambda: b.run("getComputedStyle(document.body).backgroundColor")  # noqa: E731
    light = colour()
    b.key("t")
    result(colour() != light, "t changes the theme", light)
    pdf = b.call("Page.printToPDF")["data"]
    result(len(pdf) > 50000 and b.run("built.size") == 5, "prints all sections", len(pdf))
    after = b.run("[document.documentElement.dataset.theme, currentGraph().svg.hasAttribute('viewBox')]")
    result(after == ["dark", False], "printing leaves the page as before", after)
    b.key("t")
    for scheme in "dark", "light":
        b.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        b.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => 0)")
        result((colour() == light) == (scheme == "light"), f"a system in {scheme} colours is followed")
    b.call("Emulation.setEmulatedMedia", features=[])


def check_hostile(b, folder):
    page = Page(b, folder, "hostile", [models.hostile(os.path.join(folder, "hostile.json"))])
    with open(os.path.join(folder, "hostile.html"), encoding="utf-8") as f:
        text = f.read()
    result("<img" not in text and text.count("</script>") == 2, "hostile names are no markup in the file")
    check_page(page, 4, 4)
    page.show("graph")
    result(page.count("img") == 0, "nor in the page", page.count("img"))
    name = b.run("GRAPHS.before.nodes[1].title")
    result(name == models.HOSTILE, "they are shown as they are", name)
    b.run("select(1, true)")
    result(
        b.run("document.querySelector('#panel h2').textContent") == models.HOSTILE, "also beside the graph"
    )
    page.end()


def check_loop(b, folder):
    page = Page(b, folder, "loop", [models.loop(os.path.join(folder, "turns.rlx"))])
    check_page(page, 3, page.facts["steps"] + 2)
    page.show("graph")
    b.run("showStep(STEPS.findIndex((step) => step.rows > 0))")
    said = b.run("document.querySelector('#panel').innerText")
    result("Kernels of its body" in said and "_matmul" in said, "a loop lists the kernels of its body", said)
    page.end()


def check_bare(b, folder):
    page = Page(b, folder, "bare", [models.bare(os.path.join(folder, "bare.rlx"))])
    check_page(page, 4, page.facts["steps"] + 4)
    page.end()


def check_times(b, folder):
    os.environ["XDG_CACHE_HOME"] = folder
    times = os.path.join(folder, "times.json")
    with open(times, "w") as f:
        f.write(rlxc("bench", *DECODER, "--runs", "3", "--json"))
    with open(times) as f:
        measured = json.load(f)
    page = Page(b, folder, "times", DECODER, "--cpu", "native", "--times", times)
    page.show("kernels")
    rows, want = b.run(TABLE), {k["name"]: k["us"] for k in measured["kernels"]}
    names = [kernel["name"] for kernel in page.facts["kernels"]]
    same = all(abs(rows[str(step)]["us"] - want[name]) < 1e-9 for step, name in enumerate(names))
    result(same, "times are those of bench", rows)
    machine = measured["machine"]
    shares = [
        max(k["gflops"] / machine["peak_gflops"], k["gbs"] / machine["read_gbs"]) for k in rows.values()
    ]
    got = [k["roof"] for k in rows.values()]
    result(all(abs(a - c) < 1e-9 for a, c in zip(shares, got)), "shares of the roofline", got[:5])
    result(page.count("#roofline .roof") == 2, "the roofline is drawn", page.count("#roofline .roof"))
    dots = sum(k["flops"] > 0 and k["bytes"] > 0 and k["us"] > 0 for k in rows.values())
    result(page.count("#roofline .dot") == dots, "with a dot for every kernel that computes", dots)
    page.end()


def main():
    if browser.find() is None:
        print("1..0 # SKIP no Chromium here")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        b = browser.Browser()
        try:
            tower = Page(b, folder, "tower", [models.tower(os.path.join(folder, "tower.json"), 56)])
            check_page(tower, 56 * 9 + 2, tower.facts["steps"] + 2)
            tower.show("graph")
            check_zoom(b)
            check_search(tower)
            check_clicks(tower)
            tower.end()
            digits = Page(
                b, folder, "digits", [os.path.join(ROOT, "models/digits/digits.json")], "--target", "vulkan"
            )
            check_page(digits, 15, digits.facts["steps"] + 3)
            digits.end()
            decoder = Page(b, folder, "decoder", DECODER, "--threads", "2")
            check_page(decoder, 101, decoder.facts["steps"] + 8)
            decoder.end()
            check_names(b, folder)
            check_hostile(b, folder)
            check_loop(b, folder)
            check_bare(b, folder)
            check_times(b, folder)
        finally:
            b.close()
    return tap.end()


sys.exit(main())
