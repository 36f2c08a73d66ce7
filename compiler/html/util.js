// SPDX-License-Identifier: Apache-2.0
// What all parts of the page use. Names in a model are anyone's: they become text nodes, never markup.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

// make("td", {class: "number", text: "4"}, child ...): an element. on: handlers by event.
function make(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function draw(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name === "on")
      for (const event of Object.keys(value)) element.addEventListener(event, value[event]);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

function clear(element) {
  element.replaceChildren();
  return element;
}

// --- numbers as text ---

function exact(n) {
  return Number.isInteger(n) ? String(n).replace(/\B(?=(\d{3})+(?!\d))/g, " ") : String(n);
}

function scaled(n, units, step) {
  let unit = 0;
  while (Math.abs(n) >= step && unit + 1 < units.length) {
    n /= step;
    unit++;
  }
  const digits = unit === 0 && Number.isInteger(n) ? 0 : Math.abs(n) < 10 ? 2 : Math.abs(n) < 100 ? 1 : 0;
  return n.toFixed(digits) + units[unit];
}

const bytesText = (n) => scaled(n, [" B", " KB", " MB", " GB", " TB"], 1000);
const countText = (n) => scaled(n, ["", " k", " M", " G", " T"], 1000);
const percentText = (share) => (100 * share).toFixed(share < 0.1 ? 1 : 0) + " %";

function microsText(us) {
  return us >= 1e6
    ? (us / 1e6).toFixed(2) + " s"
    : us >= 1e3
      ? (us / 1e3).toFixed(2) + " ms"
      : us.toFixed(2) + " us";
}

// A figure with its exact value beside it, for readers and for tests.
function figure(tag, n, text, attributes) {
  return make(tag, { "data-value": n, title: exact(n), text: text(n), ...attributes });
}

function shorten(text, most) {
  const characters = Array.from(text);
  return characters.length <= most ? text : characters.slice(0, most - 1).join("") + "\u2026";
}

// Colours by what a node does; the style sheet has them for both themes.
function family(op, kind) {
  if (kind === "leaf") return "leaf";
  if (/conv|matmul|matvec|gemm|attention|lstm|experts|moe/.test(op)) return "product";
  if (kind === "point") return "point";
  if (/softmax|norm|reduce|pool|sum|mean|arg|cumsum|top_k/.test(op)) return "rows";
  return kind === "view" ? "view" : "move";
}
