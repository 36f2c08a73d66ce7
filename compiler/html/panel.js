// SPDX-License-Identifier: Apache-2.0
// Beside the graph: all about the node that is selected.
"use strict";

function row(name, value) {
  return make(
    "tr",
    {},
    make("th", { scope: "row", text: name }),
    value instanceof Node ? value : make("td", { text: value }),
  );
}

function link(text, click, title) {
  return make("button", { type: "button", class: "link", text, title, on: { click } });
}

function linkList(title, items) {
  if (items.length === 0) return null;
  return make(
    "div",
    {},
    make("h3", { text: `${title} (${items.length})` }),
    make("ul", {}, ...items.map((item) => make("li", {}, ...item))),
  );
}

function showPanel(index) {
  const panel = clear(graphView.panel),
    { graph } = currentGraph();
  if (index < 0) {
    panel.append(
      make("p", {
        class: "hint",
        text: `${exact(graph.nodes.length)} nodes, ${exact(graph.edges.length)} edges. Click one to see what it is.`,
      }),
      legend(KINDS),
    );
    return;
  }
  const node = graph.nodes[index];
  const toNode = (i) => [
    link(graph.nodes[i].title, () => select(i, true)),
    make("span", { class: "muted", text: " " + graph.nodes[i].sub }),
  ];
  panel.append(
    make("h2", { text: node.title }),
    make(
      "table",
      { class: "facts" },
      make(
        "tbody",
        {},
        row("op", node.op === "kernel" ? "kernel, step " + node.step : node.op),
        node.type ? row("type", node.type) : null,
        ...node.attrs.map(([name, value]) => row(name, value)),
        node.becomes ? row("state", "becomes " + node.becomes) : null,
        ...(node.step === null ? [] : costRows(node.step)),
      ),
    ),
  );
  const lists = [
    linkList(
      "Kernels that compute it",
      node.step === null ? node.steps.map((s) => [link(stepName(s), () => showStep(s))]) : [],
    ),
    linkList(
      "Nodes in it",
      (node.parts || []).map((part) => [
        link(part.name, () => showNamed(part.name), "Show before fusion"),
        make("span", { class: "muted", text: ` ${part.op} ${part.type}` }),
      ]),
    ),
    linkList("Kernels of its body", node.step === null ? [] : bodyRows(node.step)),
    linkList("Inputs", node.inputs.map(toNode)),
    linkList(
      "Constants",
      node.constants.map((c) => [
        make("span", { text: c.name }),
        make("span", { class: "muted", text: " " + c.type }),
      ]),
    ),
    linkList("Weights", node.step === null ? [] : weightRows(node.step)),
    linkList("Users", node.users.map(toNode)),
  ];
  for (const list of lists) if (list) panel.append(list);
  panel.append(legend(KINDS));
}

function costRows(step) {
  const cost = stepCost(step),
    us = stepTime(step),
    kernel = kernelOf(step);
  const rows = [
    row("multiply-adds", figure("td", cost.macs, countText)),
    row("operations", figure("td", cost.flops, countText)),
    row("bytes moved", figure("td", cost.bytes, bytesText)),
  ];
  if (us !== null) rows.push(row("time", microsText(us)));
  if (kernel.split !== undefined)
    rows.push(
      row(
        "threads",
        (kernel.split ? "all" : "thread " + kernel.thread) + (kernel.waits ? ", after a barrier" : ""),
      ),
    );
  if (kernel.group !== undefined) rows.push(row("group", `${kernel.group}, level ${kernel.level}`));
  return rows;
}

function bodyRows(step) {
  const { row: first, rows } = STEPS[step];
  return FACTS.kernels
    .slice(first + 1, first + 1 + rows)
    .map((kernel) => [
      make("span", { text: kernel.name }),
      make("span", { class: "muted", text: " " + kernel.nodes }),
    ]);
}

function weightRows(step) {
  return STEPS[step].args
    .map(([buf]) => BUFFERS.get(buf))
    .filter((buffer) => buffer && (buffer.region === "weights" || buffer.region === "experts"))
    .map((buffer) => [
      make("span", { text: buffer.name || "constant" }),
      make("span", { class: "muted", text: " " + bytesText(buffer.bytes) }),
    ]);
}

// To a kernel, or to a node by its name, in the graph where it is.
function showStep(step) {
  openTab("graph");
  showGraph("after");
  select(
    GRAPHS.after.nodes.findIndex((node) => node.step === step),
    true,
  );
}

function showNamed(name) {
  const index = GRAPHS.before.nodes.findIndex((node) => node.title === name);
  if (index < 0) return;
  openTab("graph");
  showGraph("before");
  select(index, true);
}

const KINDS = [
  ["product", "convolution, product, attention"],
  ["point", "element by element"],
  ["rows", "reduction, norm, pooling"],
  ["move", "moves elements"],
  ["view", "view, at no cost"],
  ["leaf", "input, output, state"],
];

// What colours mean: class names of swatches, and texts.
function legend(colours) {
  return make(
    "ul",
    { class: "legend" },
    ...colours.map(([name, text]) =>
      make("li", {}, make("i", { class: "swatch " + name }), make("span", { text })),
    ),
  );
}
