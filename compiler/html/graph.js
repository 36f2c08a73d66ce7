// SPDX-License-Identifier: Apache-2.0
// The drawing of a graph: zoomed with the wheel and keys, moved with the pointer, searched by name.
"use strict";

const NODE_H = 40,
  CHARACTER = 7.4,
  READABLE = 0.45;

const graphView = {
  which: "before",
  drawn: {}, // by graph: what is on the screen
  selected: -1,
  box: { x: 0, y: 0, scale: 1 },
};

function nodeWidth(node) {
  const longest = Math.max(Math.min(node.title.length, 26), Math.min(node.sub.length, 28) * 0.9, 8);
  return Math.round(longest * CHARACTER + 22);
}

function buildGraph(section) {
  const choose = (which, label) =>
    make("button", {
      type: "button",
      "data-graph": which,
      text: label,
      on: { click: () => showGraph(which) },
    });
  const tool = (label, title, click) => make("button", { type: "button", text: label, title, on: { click } });
  graphView.search = make("input", {
    type: "search",
    id: "search",
    placeholder: "Find by name or op  ( / )",
    "aria-label": "Find a node",
    on: { input: () => search(0), keydown: searchKey },
  });
  graphView.found = make("span", { id: "found", "aria-live": "polite" });
  graphView.canvas = make("div", {
    class: "canvas",
    id: "canvas",
    tabindex: 0,
    role: "application",
    "aria-label": "Graph: arrows go along edges or move the view, + and - zoom, 0 fits, / searches",
  });
  graphView.panel = make("aside", { id: "panel", "aria-live": "polite" });
  section.append(
    make(
      "div",
      { class: "bar" },
      make(
        "span",
        { class: "choice", role: "group", "aria-label": "Which graph" },
        choose("before", "Before fusion"),
        choose("after", "After fusion"),
      ),
      graphView.search,
      graphView.found,
      make(
        "span",
        { class: "choice" },
        tool("Fit", "All of it (0)", fitGraph),
        tool("1:1", "Readable size (1)", () => zoomTo(1)),
        tool("+", "Larger (+)", () => zoomBy(1.25)),
        tool("\u2212", "Smaller (-)", () => zoomBy(0.8)),
      ),
    ),
    make("div", { class: "split" }, graphView.canvas, graphView.panel),
  );
  listen(graphView.canvas);
}

// --- drawing ---

function drawNode(node, item, index) {
  const left = item.x - item.w / 2;
  return draw(
    "g",
    { class: "node " + node.family, "data-node": index, transform: `translate(${left},${item.y})` },
    draw("title", { text: node.title + "\n" + node.sub + "\n" + node.note }),
    draw("rect", { width: item.w, height: item.h, rx: node.family === "leaf" ? item.h / 2 : 5 }),
    draw("text", { class: "name", x: item.w / 2, y: 17, text: shorten(node.title, 26) }),
    draw("text", { class: "sub", x: item.w / 2, y: 31, text: shorten(node.sub, 28) }),
    farLabel(node, item),
  );
}

// One word, as large as fits, for when the others are too small.
function farLabel(node, item) {
  const word = shorten(node.step === null ? node.op : node.title.replace(/^k\d+_/, ""), 12);
  const text = draw("text", { class: "word", x: item.w / 2, y: item.h / 2, text: word });
  text.style.fontSize = Math.min(26, (item.w - 4) / (0.58 * word.length)).toFixed(1) + "px";
  return text;
}

function drawGraph(which) {
  const graph = GRAPHS[which];
  const drawing = layout(
    graph.nodes.map((node) => ({ w: nodeWidth(node), h: NODE_H })),
    graph.edges,
  );
  const canvas = graphView.canvas,
    size = arrange(drawing, canvas.clientWidth || 1000, canvas.clientHeight || 700);
  const wires = draw("g", { class: "wires" }),
    boxes = draw("g", {});
  drawing.segments.forEach((segment, s) => {
    const end = drawing.items[segment.to].node >= 0;
    wires.append(draw("path", { d: segment.path, "data-segment": s, class: end ? "end" : null }));
  });
  drawing.items.forEach((item) => {
    if (item.node >= 0) boxes.append(drawNode(graph.nodes[item.node], item, item.node));
  });
  const world = draw("g", { id: "world" }, wires, boxes);
  const svg = draw(
    "svg",
    { role: "img", "aria-label": which + " fusion" },
    draw(
      "defs",
      {},
      draw(
        "marker",
        {
          id: "arrow-" + which,
          viewBox: "0 0 8 8",
          refX: 7,
          refY: 4,
          markerWidth: 7,
          markerHeight: 7,
          orient: "auto",
          markerUnits: "userSpaceOnUse",
        },
        draw("path", { d: "M0,0L8,4L0,8z", class: "arrow" }),
      ),
    ),
    world,
  );
  svg.style.setProperty("--arrow", `url(#arrow-${which})`);
  const made = { which, graph, drawing, size, svg, world };
  made.minimap = buildMinimap(made);
  return made;
}

function showGraph(which) {
  graphView.which = which;
  graphView.selected = -1;
  for (const button of document.querySelectorAll("[data-graph]"))
    button.setAttribute("aria-pressed", button.dataset.graph === which);
  if (!graphView.drawn[which]) graphView.drawn[which] = drawGraph(which);
  clear(graphView.canvas).append(currentGraph().svg, currentGraph().minimap.svg);
  fitGraph();
  if (graphView.box.scale < READABLE) showBeginning();
  showPanel(-1);
  search(0);
}

const currentGraph = () => graphView.drawn[graphView.which];

// --- where one looks ---

function applyBox() {
  const { x, y, scale } = graphView.box,
    { svg, world } = currentGraph();
  world.setAttribute("transform", `translate(${x.toFixed(2)},${y.toFixed(2)}) scale(${scale.toFixed(5)})`);
  svg.classList.toggle("far", scale < READABLE);
  updateMinimap(currentGraph());
}

// On paper the size of the window says nothing: the drawing has its own.
function frameGraph(isPrinted) {
  const { size, svg, world, minimap } = currentGraph();
  if (isPrinted) {
    svg.setAttribute("viewBox", `0 0 ${size.w} ${size.h}`);
    world.removeAttribute("transform");
    minimap.svg.classList.add("hidden");
  } else {
    svg.removeAttribute("viewBox");
    applyBox();
  }
}

// What is too small to be read begins with its first nodes; Fit shows all of it.
function showBeginning() {
  const { items } = currentGraph().drawing,
    first = items.reduce((a, b) => (b.node >= 0 && b.y < a.y ? b : a));
  const column = items.filter((item) => item.node >= 0 && item.column === 0),
    canvas = graphView.canvas,
    scale = 0.85;
  const left = Math.min(...column.map((item) => item.x - item.w / 2)),
    right = Math.max(...column.map((item) => item.x + item.w / 2));
  const isNarrow = (right - left) * scale < canvas.clientWidth * 0.9;
  graphView.box = {
    scale,
    x: isNarrow ? 40 - left * scale : canvas.clientWidth / 2 - first.x * scale,
    y: 24 - first.y * scale,
  };
  applyBox();
}

function fitGraph() {
  const { size, svg } = currentGraph(),
    canvas = graphView.canvas;
  const w = canvas.clientWidth,
    h = canvas.clientHeight,
    scale = Math.min(w / size.w, h / size.h, 1.6) * 0.98;
  graphView.box = { scale, x: (w - size.w * scale) / 2, y: (h - size.h * scale) / 2 };
  svg.setAttribute("data-scale", scale.toFixed(4));
  applyBox();
}

function zoomBy(factor, at) {
  const canvas = graphView.canvas,
    box = graphView.box;
  const point = at || { x: canvas.clientWidth / 2, y: canvas.clientHeight / 2 };
  const scale = Math.min(Math.max(box.scale * factor, 0.01), 6),
    grown = scale / box.scale;
  graphView.box = { scale, x: point.x - (point.x - box.x) * grown, y: point.y - (point.y - box.y) * grown };
  applyBox();
}

function zoomTo(scale) {
  zoomBy(scale / graphView.box.scale);
  if (graphView.selected >= 0) centre(graphView.selected);
}

function centreOn(x, y) {
  const canvas = graphView.canvas,
    box = graphView.box;
  box.x = canvas.clientWidth / 2 - x * box.scale;
  box.y = canvas.clientHeight / 2 - y * box.scale;
  applyBox();
}

function centre(index) {
  const item = currentGraph().drawing.items[index];
  graphView.box.scale = Math.max(graphView.box.scale, 0.9);
  centreOn(item.x, item.y + item.h / 2);
}

function move(dx, dy) {
  graphView.box.x += dx;
  graphView.box.y += dy;
  applyBox();
}

// --- pointer and keys ---

function listen(canvas) {
  let from = null,
    moved = 0;
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const area = canvas.getBoundingClientRect();
      zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), {
        x: event.clientX - area.left,
        y: event.clientY - area.top,
      });
    },
    { passive: false },
  );
  canvas.addEventListener("pointerdown", (event) => {
    from = { x: event.clientX, y: event.clientY };
    moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!from || event.buttons === 0) return;
    moved += Math.abs(event.clientX - from.x) + Math.abs(event.clientY - from.y);
    move(event.clientX - from.x, event.clientY - from.y);
    from = { x: event.clientX, y: event.clientY };
  });
  canvas.addEventListener("click", (event) => {
    const node = event.target.closest("[data-node]");
    if (moved > 5) return;
    select(node ? Number(node.dataset.node) : -1);
  });
  canvas.addEventListener("keydown", canvasKey);
}

function nextOf(key) {
  const { graph, drawing } = currentGraph(),
    at = graphView.selected,
    node = graph.nodes[at];
  if (key === "ArrowUp") return node.inputs[0];
  if (key === "ArrowDown") return node.users[0];
  const beside = drawing.layers[drawing.items[at].layer].filter((i) => drawing.items[i].node >= 0);
  return beside[beside.indexOf(at) + (key === "ArrowLeft" ? -1 : 1)];
}

function canvasKey(event) {
  const steps = { ArrowUp: [0, 60], ArrowDown: [0, -60], ArrowLeft: [60, 0], ArrowRight: [-60, 0] }[
    event.key
  ];
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (steps && (graphView.selected < 0 || event.shiftKey)) move(steps[0], steps[1]);
  else if (steps) {
    const next = nextOf(event.key);
    if (next !== undefined) select(next, true);
  } else if (event.key === "+" || event.key === "=") zoomBy(1.25);
  else if (event.key === "-") zoomBy(0.8);
  else if (event.key === "0") fitGraph();
  else if (event.key === "1") zoomTo(1);
  else if (event.key === "Escape") select(-1);
  else return;
  event.preventDefault();
}

// --- selecting and finding ---

function nodeElement(index) {
  return currentGraph().world.querySelector(`[data-node="${index}"]`);
}

// All of the same kernels are marked with it, and its edges.
function select(index, isCentred) {
  const { graph, drawing, world } = currentGraph();
  for (const marked of world.querySelectorAll(".selected, .kin, .on"))
    marked.classList.remove("selected", "kin", "on");
  graphView.selected = index;
  showPanel(index);
  if (index < 0) return;
  const node = graph.nodes[index];
  nodeElement(index).classList.add("selected");
  graph.nodes.forEach((other, i) => {
    if (i !== index && other.steps.some((s) => node.steps.includes(s))) nodeElement(i).classList.add("kin");
  });
  drawing.segments.forEach((segment, s) => {
    if (segment.edges.some((e) => graph.edges[e].includes(index)))
      world.querySelector(`[data-segment="${s}"]`).classList.add("on");
  });
  if (isCentred) centre(index);
}

function searchKey(event) {
  if (event.key === "Enter") search(event.shiftKey ? -1 : 1);
  if (event.key === "Escape") {
    graphView.search.value = "";
    search(0);
    graphView.canvas.focus();
  }
}

// step: to the next or previous of what is found; 0: the text has changed.
function search(step) {
  const text = graphView.search.value.trim().toLowerCase(),
    { graph, world } = currentGraph();
  for (const hit of world.querySelectorAll(".hit")) hit.classList.remove("hit");
  graphView.found.textContent = "";
  if (!text) return;
  const matches = (node) =>
    [node.title, node.sub, ...(node.parts || []).map((part) => part.name)].some((t) =>
      t.toLowerCase().includes(text),
    );
  const hits = graph.nodes.map((node, i) => (matches(node) ? i : -1)).filter((i) => i >= 0);
  for (const hit of hits) nodeElement(hit).classList.add("hit");
  graphView.at = step === 0 ? 0 : (graphView.at + step + hits.length) % Math.max(hits.length, 1);
  graphView.found.textContent = hits.length ? `${graphView.at + 1} of ${hits.length}` : "nothing";
  if (hits.length) select(hits[graphView.at], true);
}
