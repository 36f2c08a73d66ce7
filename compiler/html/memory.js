// SPDX-License-Identifier: Apache-2.0
// The memory plan: every buffer of the arena as a block, from the first to the last kernel that needs it.
"use strict";

const MAP_H = 420,
  LIVE_H = 90,
  MAP_LEFT = 74,
  MAP_TOP = 18;

const MEMORY_COLOURS = [
  ["shade1", "a buffer (its colour only tells it from its neighbours)"],
  ["peakstep", "the step at which most is in use"],
  ["live", "bytes in use, step by step"],
];
const memoryView = { wide: 1, selected: -1 };
const isLive = (buffer, step) => buffer.first <= step && step <= buffer.last;
const liveBytes = (step) => FACTS.buffers.reduce((sum, b) => sum + (isLive(b, step) ? b.bytes : 0), 0);

// What lies in the same bytes, in place.
const sharers = FACTS.buffers.map(() => []);
for (const buffer of DATA.plan.memory) {
  let owner = buffer;
  while (owner && owner.shares) owner = BUFFERS.get(owner.shares);
  if (buffer.shares && owner && owner.placed >= 0) sharers[owner.placed].push(buffer);
}

function buildMemory(section) {
  if (FACTS.buffers.length === 0) {
    section.append(make("p", { class: "hint", text: "No buffer is in the arena." }));
    return;
  }
  memoryView.map = make("div", { class: "scroll", id: "map", tabindex: 0, "aria-label": "Map of the arena" });
  memoryView.note = make("div", { id: "buffer", "aria-live": "polite" });
  memoryView.live = FACTS.kernels.length
    ? Array.from({ length: FACTS.steps }, (_, step) => liveBytes(step))
    : [];
  const wider = make("input", {
    type: "range",
    min: 1,
    max: 12,
    value: 1,
    "aria-label": "Width of the map",
    on: {
      input: () => {
        memoryView.wide = Number(wider.value);
        drawMap();
      },
    },
  });
  section.append(
    make(
      "div",
      { class: "bar" },
      make("span", {
        text:
          `Arena ${bytesText(FACTS.arena_bytes)}, in use at most ${bytesText(FACTS.peak_bytes)} at step ` +
          `${FACTS.peak_step}: ${FACTS.steps ? stepName(FACTS.peak_step) : ""}`,
      }),
      make("label", {}, make("span", { text: "Width " }), wider),
    ),
    make(
      "div",
      { class: "split" },
      make("div", { class: "maps" }, memoryView.map, legend(MEMORY_COLOURS), holders()),
      memoryView.note,
    ),
  );
  drawMap();
  selectBuffer(-1);
}

// --- the map ---

function mapScales() {
  const steps = Math.max(FACTS.steps, 1),
    room = Math.max(memoryView.map.clientWidth - MAP_LEFT - 12, 500);
  const w = Math.max(room * memoryView.wide, memoryView.wide > 1 ? steps * 2 : 0);
  return {
    w,
    x: (step) => MAP_LEFT + (step * w) / steps,
    y: (offset) => MAP_TOP + MAP_H - (offset / Math.max(FACTS.arena_bytes, 1)) * MAP_H,
  };
}

function axes({ w, x, y }) {
  const parts = [],
    steps = FACTS.steps;
  for (let k = 0; k <= 4; k++) {
    const offset = (FACTS.arena_bytes * k) / 4;
    parts.push(
      draw("line", { class: "grid", x1: MAP_LEFT, x2: MAP_LEFT + w, y1: y(offset), y2: y(offset) }),
      draw("text", {
        class: "tick",
        x: MAP_LEFT - 6,
        y: y(offset) + 4,
        "text-anchor": "end",
        text: bytesText(offset),
      }),
    );
  }
  const least = Math.max(1, steps / (w / 60)),
    ten = 10 ** Math.floor(Math.log10(least));
  const every = [1, 2, 5, 10].map((n) => n * ten).find((n) => n >= least);
  for (let step = 0; step < steps; step += every)
    parts.push(
      draw("text", {
        class: "tick",
        x: x(step + 0.5),
        y: MAP_TOP + MAP_H + 15,
        "text-anchor": "middle",
        text: step,
      }),
    );
  return parts;
}

function block(buffer, index, { x, y }) {
  const left = x(buffer.first),
    w = x(buffer.last + 1) - left,
    top = y(buffer.offset + buffer.bytes);
  const h = Math.max(y(buffer.offset) - top, 1),
    isPeak = isLive(buffer, FACTS.peak_step);
  const group = draw(
    "g",
    {
      class: "buffer shade" + (index % 6) + (isPeak ? " peak" : ""),
      "data-buffer": index,
      on: {
        click: () => selectBuffer(index),
        pointerenter: () => showBuffer(index),
        pointerleave: () => showBuffer(memoryView.selected),
      },
    },
    draw("title", { text: bufferText(buffer) }),
    draw("rect", { x: left, y: top, width: w, height: h }),
  );
  const room = Math.floor((w - 8) / 6.2);
  if (h > 13 && room > 2)
    group.append(draw("text", { x: left + w / 2, y: top + h / 2 + 4, text: shorten(buffer.name, room) }));
  return group;
}

// Bytes in use by step, under the map.
function liveCurve({ w, x }) {
  const top = MAP_TOP + MAP_H + 26,
    most = Math.max(FACTS.peak_bytes, 1),
    at = (n) => top + LIVE_H - (n / most) * LIVE_H;
  let path = `M${x(0)},${top + LIVE_H}`;
  memoryView.live.forEach((n, step) => (path += `L${x(step)},${at(n)}L${x(step + 1)},${at(n)}`));
  return [
    draw("path", { class: "live", d: path + `L${x(FACTS.steps)},${top + LIVE_H}z` }),
    draw("line", { class: "grid", x1: MAP_LEFT, x2: MAP_LEFT + w, y1: top, y2: top }),
    draw("text", {
      class: "tick",
      x: MAP_LEFT - 6,
      y: top + 9,
      "text-anchor": "end",
      text: bytesText(FACTS.peak_bytes),
    }),
    draw("text", { class: "tick", x: MAP_LEFT - 6, y: top + LIVE_H, "text-anchor": "end", text: "in use" }),
  ];
}

function drawMap() {
  const scales = mapScales(),
    { x } = scales,
    height = MAP_TOP + MAP_H + LIVE_H + 34,
    width = scales.w + MAP_LEFT + 12;
  const peak = draw("rect", {
    class: "peakstep",
    x: x(FACTS.peak_step),
    y: MAP_TOP - 14,
    width: Math.max(x(FACTS.peak_step + 1) - x(FACTS.peak_step), 2),
    height: MAP_H + LIVE_H + 42,
  });
  const label = draw("text", {
    class: "peaklabel",
    x: Math.min(x(FACTS.peak_step), width - 60),
    y: 12,
    text: "peak",
  });
  const svg = draw(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Memory by step" },
    ...axes(scales),
    ...FACTS.buffers.map((b, i) => block(b, i, scales)),
    ...liveCurve(scales),
    peak,
    label,
  );
  svg.addEventListener("pointermove", (event) => {
    const step = Math.floor(
      ((event.clientX - svg.getBoundingClientRect().left - MAP_LEFT) / scales.w) * FACTS.steps,
    );
    if (step >= 0 && step < FACTS.steps) hoverStep(step);
  });
  clear(memoryView.map).append(svg);
}

// --- beside it ---

function bufferText(buffer) {
  return `${buffer.name}\n${exact(buffer.bytes)} bytes at ${exact(buffer.offset)}\nsteps ${buffer.first} to ${buffer.last}`;
}

function users(index) {
  const own = DATA.plan.memory
    .filter((b) => b.placed === index)
    .concat(sharers[index])
    .map((b) => b.buf);
  const list = (mask) =>
    STEPS.map((step, s) => s).filter((s) =>
      STEPS[s].args.some(([buf, , , how]) => own.includes(buf) && how & mask),
    );
  return { written: list(2), read: list(1) };
}

function hoverStep(step) {
  memoryView.step.textContent = `step ${step}: ${stepName(step)}, ${bytesText(memoryView.live[step])} in use`;
}

function showBuffer(index) {
  const note = clear(memoryView.note);
  memoryView.step = make("p", {
    class: "muted",
    text: "Point at the map for a step, click a block to keep it.",
  });
  note.append(memoryView.step);
  if (index < 0) return;
  const buffer = FACTS.buffers[index],
    { written, read } = users(index);
  const steps = (list) => list.slice(0, 40).map((s) => [link(stepName(s), () => showStep(s))]);
  note.append(
    make("h2", { text: buffer.name }),
    make(
      "table",
      { class: "facts" },
      make(
        "tbody",
        {},
        row("bytes", figure("td", buffer.bytes, exact)),
        row("offset", figure("td", buffer.offset, exact)),
        row("steps", `${buffer.first} to ${buffer.last}`),
        row("at the peak", isLive(buffer, FACTS.peak_step) ? "yes" : "no"),
      ),
    ),
  );
  const lists = [
    linkList(
      "In the same bytes, in place",
      sharers[index].map((b) => [make("span", { text: b.name })]),
    ),
    linkList("Written by", steps(written)),
    linkList("Read by", steps(read)),
  ];
  for (const list of lists) if (list) note.append(list);
}

function selectBuffer(index) {
  memoryView.selected = memoryView.selected === index ? -1 : index;
  for (const marked of memoryView.map.querySelectorAll(".selected")) marked.classList.remove("selected");
  if (memoryView.selected >= 0)
    memoryView.map.querySelector(`[data-buffer="${index}"]`).classList.add("selected");
  showBuffer(memoryView.selected);
}

// A table of who holds the arena at its peak, largest first.
function holders() {
  const list = FACTS.buffers
    .map((buffer, index) => ({ buffer, index }))
    .filter(({ buffer }) => isLive(buffer, FACTS.peak_step))
    .sort((a, b) => b.buffer.bytes - a.buffer.bytes || a.index - b.index);
  return make(
    "table",
    { class: "list", id: "holders" },
    make("caption", { text: "At the peak" }),
    make(
      "thead",
      {},
      make("tr", {}, ...["buffer", "bytes", "share", "offset", "steps"].map((t) => make("th", { text: t }))),
    ),
    make(
      "tbody",
      {},
      ...list.map(({ buffer, index }) =>
        make(
          "tr",
          {},
          make(
            "td",
            {},
            link(buffer.name, () => selectBuffer(index)),
          ),
          figure("td", buffer.bytes, exact),
          make("td", { text: percentText(buffer.bytes / FACTS.peak_bytes) }),
          figure("td", buffer.offset, exact),
          make("td", { text: `${buffer.first} to ${buffer.last}` }),
        ),
      ),
    ),
  );
}
