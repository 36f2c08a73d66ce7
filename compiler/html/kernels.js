// SPDX-License-Identifier: Apache-2.0
// Kernels as a plot and a table that can be sorted: by time where it was measured, else by operations.
"use strict";

const kernelView = { by: null, isDown: true };

// [name, title, value of a row, text of a value]
function kernelColumns() {
  const columns = [
    ["step", "step", (r) => r.step, String],
    ["name", "kernel", (r) => r.name, String],
    ["nodes", "nodes", (r) => r.nodes, String],
    ["group", "group", (r) => r.group, String],
    ["us", "time", (r) => r.us, microsText],
    ["share", "share", (r) => r.share, percentText],
    ["macs", "multiply-adds", (r) => r.macs, countText],
    ["flops", "operations", (r) => r.flops, countText],
    ["bytes", "bytes moved", (r) => r.bytes, bytesText],
    ["intensity", "per byte", (r) => r.intensity, (v) => v.toFixed(2)],
    ["gflops", "GFLOP/s", (r) => r.gflops, (v) => v.toFixed(2)],
    ["gbs", "GB/s", (r) => r.gbs, (v) => v.toFixed(2)],
    ["roof", "of roofline", (r) => r.roof, percentText],
  ];
  const hidden = DATA.times ? (hasRoof() ? [] : ["roof"]) : ["us", "gflops", "gbs", "roof"];
  if (FACTS.groups === undefined) hidden.push("group"); // of launches that run side by side on a GPU
  return columns.filter(([name]) => !hidden.includes(name));
}

function kernelRows() {
  const rows = STEPS.map((_, step) => {
    const cost = stepCost(step),
      us = stepTime(step),
      { name, nodes, group } = kernelOf(step);
    const r = {
      step,
      name,
      nodes,
      group,
      us,
      ...cost,
      intensity: cost.bytes > 0 ? cost.flops / cost.bytes : 0,
    };
    r.gflops = us > 0 ? (cost.flops * 1e-3) / us : 0;
    r.gbs = us > 0 ? (cost.bytes * 1e-3) / us : 0;
    if (hasRoof()) r.roof = Math.max(r.gflops / DATA.times.peak_gflops, r.gbs / DATA.times.read_gbs);
    return r;
  });
  const weight = (r) => (DATA.times ? r.us || 0 : r.flops),
    all = rows.reduce((sum, r) => sum + weight(r), 0);
  for (const r of rows) r.share = all > 0 ? weight(r) / all : 0;
  return rows;
}

function buildKernels(section) {
  const said = DATA.times
    ? `Times are medians, measured by rlxc bench: ${microsText(DATA.times.us)} for a whole run.`
    : "No times were measured: shares are of the operations that are estimated. rlxc bench --json measures, --times takes its output.";
  kernelView.columns = kernelColumns();
  kernelView.rows = kernelRows();
  kernelView.by = DATA.times ? "us" : "flops";
  kernelView.table = make("table", { class: "list", id: "kerneltable" });
  section.append(
    make("p", { class: "hint", id: "timesnote", text: said }),
    make("div", { class: "plotbox" }, buildPlot(), legend(KINDS.slice(0, 4))),
    make("div", { class: "scroll" }, kernelView.table),
  );
  fillKernels();
}

function sortBy(name) {
  kernelView.isDown = kernelView.by === name ? !kernelView.isDown : !["step", "name", "nodes"].includes(name);
  kernelView.by = name;
  fillKernels();
}

function header([name, title]) {
  const isBy = kernelView.by === name;
  return make(
    "th",
    { scope: "col", "aria-sort": isBy ? (kernelView.isDown ? "descending" : "ascending") : null },
    link(title + (isBy ? (kernelView.isDown ? " \u25be" : " \u25b4") : ""), () => sortBy(name)),
  );
}

function cell(r, [name, , value, text]) {
  const v = value(r);
  if (name === "name")
    return make(
      "td",
      {},
      link(r.name, () => showStep(r.step)),
    );
  if (name === "nodes") return make("td", { class: "wide", title: r.nodes, text: shorten(r.nodes, 70) });
  if (v === null || v === undefined) return make("td", { text: "" });
  const td = make("td", { class: "number", "data-column": name, "data-value": v, text: text(v) });
  if (name === "share") td.style.setProperty("--share", (100 * v).toFixed(2) + "%");
  return td;
}

function fillKernels() {
  const [, , value] = kernelView.columns.find(([name]) => name === kernelView.by),
    sign = kernelView.isDown ? -1 : 1;
  const compare = (a, b) => {
    const x = value(a),
      y = value(b);
    return sign * (typeof x === "string" ? (x < y ? -1 : x > y ? 1 : 0) : x - y) || a.step - b.step;
  };
  clear(kernelView.table).append(
    make("thead", {}, make("tr", {}, ...kernelView.columns.map(header))),
    make(
      "tbody",
      {},
      ...kernelView.rows
        .slice()
        .sort(compare)
        .map((r) =>
          make("tr", { "data-step": r.step }, ...kernelView.columns.map((column) => cell(r, column))),
        ),
    ),
  );
}
