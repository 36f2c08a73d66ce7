// SPDX-License-Identifier: Apache-2.0
// A layered drawing of a graph without cycles (Sugiyama): layers by the longest path, order within layers by
// barycentres, places by least squares. Nothing is random: the same graph gives the same drawing.
"use strict";

const LAYER_GAP = 28,
  NODE_GAP = 18,
  WIRE = 6;

// nodes: [{w, h}], edges: [[from, to]], both by index, from < to in a topological order. Gives items (nodes,
// and points of edges on the layers between their ends) with layer, x (centre), w, h; layers of items; and
// segments between items of neighbouring layers, each with the edges that run through it.
function layout(nodes, edges) {
  const layer = assignLayers(nodes.length, edges);
  const drawing = makeItems(nodes, edges, layer);
  orderLayers(drawing);
  placeItems(drawing);
  return drawing;
}

function assignLayers(n, edges) {
  const layer = new Array(n).fill(0),
    users = Array.from({ length: n }, () => []),
    sources = new Array(n).fill(0);
  for (const [from, to] of edges) {
    users[from].push(to);
    sources[to]++;
  }
  const ready = [];
  for (let i = 0; i < n; i++) if (sources[i] === 0) ready.push(i);
  const isSource = sources.map((count) => count === 0);
  for (let at = 0; at < ready.length; at++)
    for (const to of users[ready[at]]) {
      layer[to] = Math.max(layer[to], layer[ready[at]] + 1);
      if (--sources[to] === 0) ready.push(to);
    }
  // What nothing leads to stands just above its first user.
  for (let i = 0; i < n; i++)
    if (isSource[i] && users[i].length > 0) layer[i] = Math.min(...users[i].map((to) => layer[to])) - 1;
  return layer;
}

// One wire for all edges that leave a node: it passes every layer down to its last user.
function makeItems(nodes, edges, layer) {
  const items = nodes.map((node, i) => ({
    node: i,
    layer: layer[i],
    w: node.w,
    h: node.h,
    up: [],
    down: [],
  }));
  const targets = nodes.map(() => []),
    segments = new Map();
  edges.forEach(([from, to], edge) => targets[from].push([to, edge]));
  const join = (a, b, edge) => {
    const key = a * 1e7 + b;
    if (!segments.has(key)) {
      segments.set(key, { from: a, to: b, edges: [] });
      items[a].down.push(b);
      items[b].up.push(a);
    }
    segments.get(key).edges.push(edge);
  };
  targets.forEach((list, from) => {
    const wire = [from];
    for (const [to, edge] of list) {
      while (wire.length < layer[to] - layer[from]) {
        items.push({ node: -1, layer: layer[from] + wire.length, w: WIRE, h: 0, up: [], down: [] });
        wire.push(items.length - 1);
      }
      for (let k = 1; k < layer[to] - layer[from]; k++) join(wire[k - 1], wire[k], edge);
      join(wire[layer[to] - layer[from] - 1], to, edge);
    }
  });
  const layers = [];
  items.forEach((item, i) => {
    while (layers.length <= item.layer) layers.push([]);
    layers[item.layer].push(i);
  });
  return { items, layers, segments: Array.from(segments.values()) };
}

// --- order within layers ---

function countCrossings({ items, layers }) {
  let crossings = 0;
  for (const list of layers.slice(0, -1)) {
    const ends = [];
    for (const i of list) {
      const down = items[i].down.map((to) => items[to].at).sort((a, b) => a - b);
      for (const end of down) ends.push(end);
    }
    // Inversions, by a tree of counts.
    const size = ends.length ? Math.max(...ends) + 2 : 1,
      tree = new Array(size + 1).fill(0);
    for (let k = ends.length - 1; k >= 0; k--) {
      for (let at = ends[k]; at > 0; at -= at & -at) crossings += tree[at];
      for (let at = ends[k] + 1; at <= size; at += at & -at) tree[at]++;
    }
  }
  return crossings;
}

function number(items, layers) {
  for (const list of layers) list.forEach((i, at) => (items[i].at = at));
}

function orderLayers(drawing) {
  const { items, layers } = drawing;
  number(items, layers);
  let best = countCrossings(drawing),
    kept = layers.map((list) => list.slice());
  for (let sweep = 0; sweep < 16 && best > 0; sweep++) {
    const isDown = sweep % 2 === 0;
    for (let k = 0; k < layers.length; k++) {
      const list = layers[isDown ? k : layers.length - 1 - k];
      for (const i of list) {
        const others = isDown ? items[i].up : items[i].down;
        items[i].key = others.length
          ? others.reduce((sum, o) => sum + items[o].at, 0) / others.length
          : items[i].at;
      }
      list.sort((a, b) => items[a].key - items[b].key || items[a].at - items[b].at);
      list.forEach((i, at) => (items[i].at = at));
    }
    const now = countCrossings(drawing);
    if (now < best) {
      best = now;
      kept = layers.map((list) => list.slice());
    }
  }
  drawing.layers = kept;
  number(items, kept);
}

// --- places ---

// The places closest to `wanted` (least squares with weights) that keep the order and the gaps: pools of
// neighbours that would overlap move together.
function settle(items, list) {
  const pools = [];
  let offset = 0;
  list.forEach((i, at) => {
    const item = items[i];
    if (at > 0) offset += (items[list[at - 1]].w + item.w) / 2 + NODE_GAP;
    item.offset = offset;
    let pool = { first: at, weight: item.weight, sum: item.weight * (item.wanted - offset) };
    while (
      pools.length &&
      pools[pools.length - 1].sum / pools[pools.length - 1].weight >= pool.sum / pool.weight
    ) {
      const before = pools.pop();
      pool = { first: before.first, weight: before.weight + pool.weight, sum: before.sum + pool.sum };
    }
    pools.push(pool);
  });
  pools.forEach((pool, p) => {
    const end = p + 1 < pools.length ? pools[p + 1].first : list.length;
    for (let at = pool.first; at < end; at++)
      items[list[at]].x = pool.sum / pool.weight + items[list[at]].offset;
  });
}

// Nodes stand under nodes, whatever wires end at them, and wires go straight on: in a deep graph any small
// pull would add up. What has no edges gives way.
function want(item, others) {
  const isWire = item.node < 0,
    alike = others.filter((other) => other.node < 0 === isWire);
  const list = alike.length ? alike : others;
  item.wanted = list.length ? list.reduce((sum, other) => sum + other.x, 0) / list.length : item.x;
  item.weight = isWire ? (alike.length ? 1 : 0.05) : list.length ? 1 : 0.001;
  if (item.up.length + item.down.length === 0) item.wanted = 0;
}

function placeItems({ items, layers }) {
  for (const list of layers) {
    let x = 0;
    for (const i of list) {
      items[i].x = x + items[i].w / 2;
      x += items[i].w + NODE_GAP;
    }
    for (const i of list) items[i].x -= x / 2;
  }
  for (let sweep = 0; sweep < 12; sweep++) {
    const isDown = sweep % 2 === 0,
      isLast = sweep >= 10;
    for (let k = 0; k < layers.length; k++) {
      const list = layers[isDown ? k : layers.length - 1 - k];
      for (const i of list) {
        const item = items[i];
        const others = isLast ? item.up.concat(item.down) : isDown ? item.up : item.down;
        want(
          item,
          others.map((o) => items[o]),
        );
      }
      settle(items, list);
    }
  }
}
