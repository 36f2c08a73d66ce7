// SPDX-License-Identifier: Apache-2.0
// Kernels by operations a byte (across) and, where times were measured, operations a second (up), under what
// the machine can do; else by bytes and operations. Both axes are logarithmic.
"use strict";

const PLOT = { w: 760, h: 420, left: 70, right: 20, top: 20, bottom: 46 };

function decades(values, least, most) {
  const positive = values.filter((v) => v > 0);
  const low = positive.length ? Math.min(...positive) : least,
    high = positive.length ? Math.max(...positive) : most;
  return [
    Math.floor(Math.log10(low) - 0.05),
    Math.max(Math.ceil(Math.log10(high) + 0.05), Math.floor(Math.log10(low)) + 1),
  ];
}

function plotScales(xs, ys) {
  const [x0, x1] = decades(xs, 0.1, 10),
    [y0, y1] = decades(ys, 0.1, 10);
  const w = PLOT.w - PLOT.left - PLOT.right,
    h = PLOT.h - PLOT.top - PLOT.bottom;
  return {
    x0,
    x1,
    y0,
    y1,
    x: (v) => PLOT.left + ((Math.log10(v) - x0) / (x1 - x0)) * w,
    y: (v) => PLOT.top + h - ((Math.log10(v) - y0) / (y1 - y0)) * h,
  };
}

function plotGrid({ x0, x1, y0, y1, x, y }, xLabel, yLabel) {
  const parts = [],
    bottom = PLOT.h - PLOT.bottom,
    right = PLOT.w - PLOT.right;
  for (let k = x0; k <= x1; k++)
    parts.push(
      draw("line", { class: "grid", x1: x(10 ** k), x2: x(10 ** k), y1: PLOT.top, y2: bottom }),
      draw("text", {
        class: "tick",
        x: x(10 ** k),
        y: bottom + 16,
        "text-anchor": "middle",
        text: powerText(k),
      }),
    );
  for (let k = y0; k <= y1; k++)
    parts.push(
      draw("line", { class: "grid", x1: PLOT.left, x2: right, y1: y(10 ** k), y2: y(10 ** k) }),
      draw("text", {
        class: "tick",
        x: PLOT.left - 8,
        y: y(10 ** k) + 4,
        "text-anchor": "end",
        text: powerText(k),
      }),
    );
  parts.push(
    draw("text", {
      class: "axis",
      x: (PLOT.left + right) / 2,
      y: PLOT.h - 8,
      "text-anchor": "middle",
      text: xLabel,
    }),
    draw("text", {
      class: "axis",
      transform: `translate(16,${(PLOT.top + bottom) / 2}) rotate(-90)`,
      "text-anchor": "middle",
      text: yLabel,
    }),
  );
  return parts;
}

const powerText = (k) =>
  k < 0 ? (10 ** k).toFixed(-k) : 10 ** (k % 3) + ["", " k", " M", " G", " T", " P"][Math.floor(k / 3)];

// peak in GFLOP/s, bandwidths in GB/s: flat above the ridge, a slope below it.
function roofs(scales) {
  const { peak_gflops: peak, read_gbs: near, memory_gbs: far } = DATA.times,
    low = 10 ** scales.x0,
    high = 10 ** scales.x1;
  const roof = (gbs, name, text) => {
    const at = (intensity) => scales.y(Math.max(Math.min(intensity * gbs, peak), 10 ** scales.y0));
    const ends = [low, 10 ** scales.y0 / gbs, peak / gbs, high].filter((v) => v >= low && v <= high);
    return [
      draw("path", { class: "roof " + name, d: "M" + ends.map((v) => `${scales.x(v)},${at(v)}`).join("L") }),
      draw("text", { class: "rooflabel", x: PLOT.left + 8, y: PLOT.top + (name === "near" ? 16 : 31), text }),
    ];
  };
  return [
    ...roof(
      near,
      "near",
      `solid: ${near.toFixed(1)} GB/s of what the model has; peak ${peak.toFixed(1)} GFLOP/s`,
    ),
    ...roof(far, "far", `dashed: ${far.toFixed(1)} GB/s of memory`),
  ];
}

function dot(point, most) {
  return draw(
    "circle",
    {
      class: "dot " + point.family,
      "data-dot": point.step,
      cx: point.px,
      cy: point.py,
      r: 4 + 10 * Math.sqrt(most > 0 ? point.weight / most : 0),
      tabindex: 0,
      on: { click: () => showStep(point.step), keydown: (e) => e.key === "Enter" && showStep(point.step) },
    },
    draw("title", { text: point.text }),
  );
}

// With times: [FLOP/byte, GFLOP/s]; else [bytes, FLOP].
function plotPoints() {
  const points = [];
  STEPS.forEach((_, step) => {
    const { flops, bytes } = stepCost(step),
      us = stepTime(step),
      name = stepName(step);
    const hasTime = us > 0 && DATA.times.peak_gflops > 0;
    if (!(flops > 0) || !(bytes > 0) || (hasRoof() && !hasTime)) return;
    points.push({
      step,
      family: family(name, "point"),
      weight: hasTime ? us : flops,
      vx: hasRoof() ? flops / bytes : bytes,
      vy: hasRoof() ? (flops * 1e-3) / us : flops,
      text:
        `${name}\n${countText(flops)} operations, ${bytesText(bytes)}` +
        (hasTime ? `\n${microsText(us)}, ${((flops * 1e-3) / us).toFixed(2)} GFLOP/s` : ""),
    });
  });
  return points;
}

// Of the largest, where there is room.
function plotLabels(points) {
  const placed = [];
  for (const p of points.slice(0, 40)) {
    const text = shorten(stepName(p.step), 26),
      w = text.length * 6.2,
      x = p.px + 16 + w > PLOT.w - 6 ? p.px - 16 - w : p.px + 16;
    const isTaken = placed.some((o) => Math.abs(o.y - p.py) < 14 && x < o.x + o.w && o.x < x + w);
    if (!isTaken && placed.length < 7) placed.push({ x, y: p.py, w, text });
  }
  return placed.map((o) => draw("text", { class: "dotlabel", x: o.x, y: o.y + 4, text: o.text }));
}

const hasRoof = () => Boolean(DATA.times && DATA.times.peak_gflops > 0);

function buildPlot() {
  const points = plotPoints(),
    isRoof = hasRoof();
  const xs = points.map((p) => p.vx),
    ys = points.map((p) => p.vy);
  if (isRoof) {
    const ridge = DATA.times.peak_gflops / DATA.times.read_gbs;
    xs.push(ridge / 4, ridge * 4);
    ys.push(DATA.times.peak_gflops);
  }
  const scales = plotScales(xs, ys);
  for (const point of points) {
    point.px = scales.x(point.vx);
    point.py = scales.y(point.vy);
  }
  const most = Math.max(...points.map((p) => p.weight), 0);
  points.sort((a, b) => b.weight - a.weight || a.step - b.step); // small ones on top
  return draw(
    "svg",
    {
      class: "plot",
      id: "roofline",
      viewBox: `0 0 ${PLOT.w} ${PLOT.h}`,
      role: "img",
      "aria-label": "Kernels by operations and bytes",
    },
    ...plotGrid(scales, isRoof ? "operations a byte" : "bytes moved", isRoof ? "GFLOP/s" : "operations"),
    ...(isRoof ? roofs(scales) : []),
    ...points.map((p) => dot(p, most)),
    ...plotLabels(points),
  );
}
