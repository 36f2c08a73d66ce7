// SPDX-License-Identifier: Apache-2.0
// Deep graphs are far taller than a screen: their layers stand in several columns, like lines in a newspaper.
// Where an edge goes on in a later column, it runs through the space between the columns.
"use strict";

const COLUMN_GAP = 84,
  GUTTER = 26;

// Gives every item a place (x: centre, y: top) and every segment a path, for a window of that size. As few
// columns as can be read in it, else those that make most of it.
function arrange(drawing, w, h) {
  const heights = drawing.layers.map(
    (list) => Math.max(...list.map((i) => drawing.items[i].h), 8) + LAYER_GAP,
  );
  const cuts = countCuts(drawing);
  let best = null;
  for (let n = 1; n <= 16 && n <= heights.length; n++) {
    const starts = breakLayers(heights, cuts, n);
    const size = measure(drawing, heights, starts);
    const scale = Math.min(w / size.w, h / (size.h + 4 * GUTTER));
    if (best === null || scale > best.scale * 1.1) best = { scale, starts, size };
    if (scale > 0.75) break;
  }
  place(drawing, heights, best.starts, best.size);
  const top = GUTTER * 2,
    bottom = best.size.h + GUTTER;
  for (const segment of drawing.segments) segment.path = route(drawing, segment, best.size, top, bottom);
  return { w: best.size.w, h: best.size.h + 3 * GUTTER, columns: best.starts.length };
}

// By layer: segments that come from the layer above.
function countCuts({ items, layers, segments }) {
  const cuts = layers.map(() => 0);
  for (const segment of segments) cuts[items[segment.to].layer]++;
  return cuts;
}

// First layers of n columns of about the same height, where few edges are cut.
function breakLayers(heights, cuts, n) {
  const above = [0],
    starts = [0];
  for (const h of heights) above.push(above[above.length - 1] + h);
  const total = above[heights.length],
    slack = (total / n) * 0.2;
  for (let column = 1; column < n; column++) {
    const wanted = (total * column) / n,
      distance = (k) => Math.abs(above[k] - wanted);
    let best = -1;
    for (let k = starts[starts.length - 1] + 1; k < heights.length; k++) {
      if (distance(k) > slack) continue;
      const isFewer = best >= 0 && cuts[k] < cuts[best],
        isNearer = best >= 0 && distance(k) < distance(best);
      if (best < 0 || isFewer || (cuts[k] === cuts[best] && isNearer)) best = k;
    }
    if (best > 0) starts.push(best);
  }
  return starts;
}

function measure({ items, layers }, heights, starts) {
  const columns = [];
  let w = COLUMN_GAP / 2,
    h = 0;
  starts.forEach((first, c) => {
    const end = c + 1 < starts.length ? starts[c + 1] : layers.length;
    const all = layers
      .slice(first, end)
      .flat()
      .map((i) => items[i]);
    const left = Math.min(...all.map((item) => item.x - item.w / 2));
    const right = Math.max(...all.map((item) => item.x + item.w / 2));
    columns.push({ first, end, shift: w - left, right: w + right - left });
    w += right - left + COLUMN_GAP;
    h = Math.max(
      h,
      heights.slice(first, end).reduce((sum, height) => sum + height, 0),
    );
  });
  return { columns, w: w - COLUMN_GAP / 2, h };
}

function place({ items, layers }, heights, starts, { columns }) {
  columns.forEach((column, c) => {
    let y = 2 * GUTTER;
    for (let k = column.first; k < column.end; k++) {
      for (const i of layers[k]) {
        const item = items[i];
        item.column = c;
        item.x += column.shift;
        item.y = y + (heights[k] - LAYER_GAP - item.h) / 2;
      }
      y += heights[k];
    }
  });
}

function route({ items }, segment, { columns }, top, bottom) {
  const from = items[segment.from],
    to = items[segment.to];
  const x1 = from.x,
    y1 = from.y + from.h,
    x2 = to.x,
    y2 = to.y;
  if (from.column === to.column) {
    const bend = (y2 - y1) / 2;
    return `M${x1},${y1}C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2}`;
  }
  const lane = columns[from.column].right + 12 + ((segment.from * 7) % 60);
  const low = bottom + ((segment.from * 5) % 20),
    high = top - 6 - ((segment.from * 5) % 20);
  return `M${x1},${y1}L${x1},${low}L${lane},${low}L${lane},${high}L${x2},${high}L${x2},${y2}`;
}
