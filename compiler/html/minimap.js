// SPDX-License-Identifier: Apache-2.0
// The whole graph small in a corner, with a frame around what is on the screen; a click goes there.
"use strict";

const MINI = { w: 190, h: 140 };

function buildMinimap({ drawing, graph, size, which }) {
  const scale = Math.min(MINI.w / size.w, MINI.h / size.h),
    frame = draw("rect", { class: "frame" });
  const boxes = drawing.items
    .filter((item) => item.node >= 0)
    .map((item) =>
      draw("rect", {
        class: "box",
        x: (item.x - item.w / 2) * scale,
        y: item.y * scale,
        width: item.w * scale,
        height: Math.max(item.h * scale, 1),
        fill: `var(--${graph.nodes[item.node].family}-line)`,
      }),
    );
  const svg = draw(
    "svg",
    {
      class: "minimap",
      width: Math.ceil(size.w * scale),
      height: Math.ceil(size.h * scale),
      "aria-hidden": true,
      "data-of": which,
    },
    ...boxes,
    frame,
  );
  const go = (event) => {
    if (event.buttons !== 1) return;
    const area = svg.getBoundingClientRect();
    event.stopPropagation();
    centreOn((event.clientX - area.left) / scale, (event.clientY - area.top) / scale);
  };
  svg.addEventListener("pointerdown", go);
  svg.addEventListener("pointermove", go);
  svg.addEventListener("click", (event) => event.stopPropagation());
  return { svg, frame, scale };
}

// Hidden while all of the graph is on the screen.
function updateMinimap({ minimap, size }) {
  const { x, y, scale } = graphView.box,
    canvas = graphView.canvas,
    mini = minimap.scale;
  const left = Math.max(-x / scale, 0),
    top = Math.max(-y / scale, 0);
  const right = Math.min((canvas.clientWidth - x) / scale, size.w),
    bottom = Math.min((canvas.clientHeight - y) / scale, size.h);
  minimap.svg.classList.toggle("hidden", right - left > size.w * 0.98 && bottom - top > size.h * 0.98);
  for (const [name, value] of Object.entries({ x: left, y: top, width: right - left, height: bottom - top }))
    minimap.frame.setAttribute(name, Math.max(value * mini, 0).toFixed(2));
}
