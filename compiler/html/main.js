// SPDX-License-Identifier: Apache-2.0
// Sections, theme and keys of the whole page. A section is built when it is first shown, or printed.
"use strict";

const SECTIONS = {
  overview: buildOverview,
  graph: buildGraph,
  memory: buildMemory,
  kernels: buildKernels,
  weights: buildWeights,
};
const built = new Set();
const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
const page = { theme: undefined }; // before printing

function build(name) {
  if (built.has(name)) return;
  built.add(name);
  SECTIONS[name](document.getElementById(name));
  if (name === "graph") showGraph("before");
}

function openTab(name) {
  for (const other of Object.keys(SECTIONS)) {
    const isOpen = other === name,
      tab = document.getElementById("tab-" + other);
    document.getElementById(other).classList.toggle("open", isOpen);
    tab.setAttribute("aria-selected", isOpen);
    tab.tabIndex = isOpen ? 0 : -1;
  }
  build(name);
  history.replaceState(null, "", "#" + name);
}

// A link to a tab ends with its name: page.html#memory.
function openLinked() {
  const name = location.hash.slice(1);
  openTab(name in SECTIONS ? name : "overview");
}

function tabKey(event) {
  const names = Object.keys(SECTIONS),
    at = names.findIndex((name) => event.target.id === "tab-" + name);
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (at < 0 || !step) return;
  const next = names[(at + step + names.length) % names.length];
  openTab(next);
  document.getElementById("tab-" + next).focus();
}

// The style sheet has colours for both; which ones count is said here alone.
function followSystem() {
  document.documentElement.dataset.theme = systemIsDark.matches ? "dark" : "light";
}

function toggleTheme() {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
}

function pageKey(event) {
  const isTyping = event.target instanceof HTMLInputElement;
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "t") toggleTheme();
  else if (event.key === "/") {
    openTab("graph");
    graphView.search.focus();
  } else return;
  event.preventDefault();
}

// On paper all sections are there, in light colours, and all of the graph.
function beginPrint() {
  const root = document.documentElement;
  page.theme = root.dataset.theme;
  root.dataset.theme = "light";
  Object.keys(SECTIONS).forEach(build);
  frameGraph(true);
}

function endPrint() {
  document.documentElement.dataset.theme = page.theme;
  frameGraph(false);
}

function begin() {
  document.title = FACTS.name + " - rlxc inspect";
  document.getElementById("title").textContent = FACTS.name;
  document.getElementById("subtitle").textContent =
    `arena ${bytesText(FACTS.arena_bytes)}, weights ${bytesText(FACTS.weight_bytes)}, ${countText(FACTS.macs)} multiply-adds, ` +
    `${exact(FACTS.kernels.length)} kernels, ${FACTS.cpu}`;
  followSystem();
  systemIsDark.addEventListener("change", followSystem);
  document.getElementById("theme").addEventListener("click", toggleTheme);
  document.getElementById("tabs").addEventListener("keydown", tabKey);
  for (const name of Object.keys(SECTIONS))
    document.getElementById("tab-" + name).addEventListener("click", () => openTab(name));
  document.addEventListener("keydown", pageKey);
  addEventListener("beforeprint", beginPrint);
  addEventListener("afterprint", endPrint);
  addEventListener("resize", () => {
    if (document.getElementById("memory").classList.contains("open") && memoryView.map) drawMap();
  });
  addEventListener("hashchange", openLinked);
  openLinked();
}

begin();
