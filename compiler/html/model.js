// SPDX-License-Identifier: Apache-2.0
// The facts in the page, and the two graphs that are drawn of them.
"use strict";

const DATA = JSON.parse(document.getElementById("data").textContent);
const FACTS = DATA.inspect; // what `rlxc inspect --json` prints
const STEPS = DATA.plan.steps;
const BUFFERS = new Map(DATA.plan.memory.map((buffer) => [buffer.buf, buffer]));

const kernelOf = (step) => FACTS.kernels[STEPS[step].row];
const stepName = (step) => kernelOf(step).name;

// The cost of a step: of a loop with all that its body runs.
function stepCost(step) {
  const { row, rows } = STEPS[step],
    sum = { macs: 0, flops: 0, bytes: 0 };
  for (const kernel of FACTS.kernels.slice(row, row + rows + 1))
    for (const what of Object.keys(sum)) sum[what] += kernel[what];
  return sum;
}

// Median of a step in microseconds, or null: not measured. On GPUs the kernels of a loop have times of their own.
function stepTime(step) {
  if (!DATA.times) return null;
  const { row, rows } = STEPS[step];
  const found = DATA.times.kernels.filter((k) => k.row >= row && k.row <= row + rows);
  const own = found.find((k) => k.row === row);
  return own ? own.us : found.length ? found.reduce((sum, k) => sum + k.us, 0) : null;
}

// Steps that compute a node of that name.
const STEPS_BY_NODE = new Map();
STEPS.forEach((step, s) => {
  for (const node of step.nodes) {
    if (!STEPS_BY_NODE.has(node.name)) STEPS_BY_NODE.set(node.name, []);
    if (!STEPS_BY_NODE.get(node.name).includes(s)) STEPS_BY_NODE.get(node.name).push(s);
  }
});

// --- graphs: {nodes: [{title, sub, family, ...}], edges: [[from, to]]}, operands before users ---

function finish(nodes, edges) {
  const seen = new Set(),
    unique = [];
  for (const [from, to] of edges) {
    const key = from * 1e7 + to;
    if (from === undefined || seen.has(key)) continue;
    seen.add(key);
    unique.push([from, to]);
  }
  nodes.forEach((node) => ((node.inputs = []), (node.users = [])));
  for (const [from, to] of unique) {
    nodes[to].inputs.push(from);
    nodes[from].users.push(to);
  }
  return { nodes, edges: unique };
}

function graphBefore() {
  const nodes = [],
    edges = [],
    index = new Map();
  for (const node of DATA.before.nodes) {
    index.set(node.id, nodes.length);
    const isNode = (operand) => typeof operand === "number";
    for (const operand of node.in.filter(isNode)) edges.push([index.get(operand), nodes.length]);
    nodes.push({
      title: node.name,
      sub: node.op,
      note: node.type,
      family: family(node.op, node.kind),
      op: node.op,
      type: node.type,
      attrs: node.attrs,
      constants: node.in.filter((o) => !isNode(o)),
      steps: STEPS_BY_NODE.get(node.name) || [],
      step: null,
    });
  }
  for (const output of DATA.before.outputs) {
    edges.push([index.get(output.node), nodes.length]);
    const type = output.type; // a constant is no node of the drawing
    nodes.push({
      title: output.name,
      sub: "output",
      note: type,
      family: "leaf",
      op: "output",
      type,
      attrs: [],
      constants: [],
      steps: [],
      step: null,
    });
  }
  for (const state of DATA.before.states) {
    const next = nodes[index.get(state.next)];
    if (next) next.becomes = nodes[index.get(state.node)].title;
  }
  return finish(nodes, edges);
}

const overlaps = (a, b) => a.begin < b.end && b.begin < a.end;

function stepNode(step, s) {
  const kernel = kernelOf(s),
    last = step.nodes[step.nodes.length - 1];
  const others = step.nodes.map((node) => node.op);
  return {
    title: kernel.name,
    sub: others.join(" + ") || "copy",
    note: last ? last.type : "",
    family: family(kernel.name, others.length === 1 ? "other" : "point"),
    op: "kernel",
    type: last ? last.type : "",
    attrs: [],
    constants: [],
    steps: [s],
    step: s,
    parts: step.nodes,
  };
}

// Kernels, and what goes in and out. Who wrote a buffer is known by the bytes.
function graphAfter() {
  const nodes = [],
    edges = [],
    leaves = [],
    writers = new Map();
  for (const kind of ["inputs", "params", "states"])
    for (const io of DATA.plan[kind]) {
      leaves.push({ ...io, kind, index: nodes.length });
      nodes.push({
        title: io.name,
        sub: kind.slice(0, -1),
        note: bytesText(io.end - io.begin),
        family: "leaf",
        op: kind.slice(0, -1),
        type: "",
        attrs: [],
        constants: [],
        steps: [],
        step: null,
      });
    }
  const sources = (buf, range) => {
    const found = (writers.get(buf) || []).filter((w) => overlaps(w, range));
    const from = leaves.filter((leaf) => leaf.buf === buf && overlaps(leaf, range));
    return found.length ? found.concat(from.filter((leaf) => leaf.kind === "states")) : from;
  };
  STEPS.forEach((step, s) => {
    const args = step.args.map(([buf, begin, end, how]) => ({ buf, begin, end, how }));
    for (const arg of args.filter((a) => a.how & 1))
      for (const from of sources(arg.buf, arg)) edges.push([from.index, nodes.length]);
    for (const arg of args.filter((a) => a.how & 2)) {
      if (!writers.has(arg.buf)) writers.set(arg.buf, []);
      writers.get(arg.buf).push({ ...arg, index: nodes.length });
    }
    nodes.push(stepNode(step, s));
  });
  for (const io of DATA.plan.outputs) {
    for (const from of sources(io.buf, io)) edges.push([from.index, nodes.length]);
    nodes.push({
      title: io.name,
      sub: "output",
      note: bytesText(io.end - io.begin),
      family: "leaf",
      op: "output",
      type: "",
      attrs: [],
      constants: [],
      steps: [],
      step: null,
    });
  }
  return finish(nodes, edges);
}

// A kernel may read what it writes itself, of an earlier run: an edge to itself is none.
const GRAPHS = { before: graphBefore(), after: graphAfter() };
