// SPDX-License-Identifier: Apache-2.0
// The figures of `rlxc inspect` at a glance.
"use strict";

function card(name, title, n, text, note) {
  return make(
    "div",
    { class: "card" },
    make("h3", { text: title }),
    figure("p", n, text, { class: "big", "data-figure": name }),
    make("p", { class: "muted", text: note || "" }),
  );
}

function cards() {
  const optimal = FACTS.arena_optimal
    ? "no other placement is smaller"
    : `at least ${bytesText(FACTS.arena_lower_bound_bytes)} are needed`;
  const list = [
    card("arena_bytes", "Arena", FACTS.arena_bytes, bytesText, "RAM of a run; " + optimal),
    card("state_bytes", "State", FACTS.state_bytes, bytesText, "RAM that lasts between runs"),
    card("weight_bytes", "Weights", FACTS.weight_bytes, bytesText, "flash, as packed"),
    typeof FACTS.code_bytes === "number"
      ? card("code_bytes", "Code", FACTS.code_bytes, bytesText, `flash: ${FACTS.code_compiler}`)
      : make(
          "div",
          { class: "card" },
          make("h3", { text: "Code" }),
          make("p", { class: "big", text: "unknown" }),
          make("p", { class: "muted", text: `flash: ${FACTS.code_unknown}` }),
        ),
    card("text_bytes", "C text", FACTS.text_bytes, bytesText, `${exact(FACTS.functions)} functions; not in flash`),
    card("macs", "Multiply-adds", FACTS.macs, countText, "of convolutions and products"),
    card("flops", "Operations", FACTS.flops, countText, "of all kinds, estimated"),
    card("bytes", "Moved", FACTS.bytes, bytesText, "read and written by kernels"),
    card("parameters", "Parameters", FACTS.parameters, countText, "numbers in the model"),
    card(
      "kernels",
      "Kernels",
      FACTS.kernels.length,
      exact,
      `${exact(Object.values(FACTS.ops).reduce((a, b) => a + b, 0))} operators after all passes`,
    ),
  ];
  if (FACTS.launches !== undefined)
    list.push(
      card(
        "launches",
        "Launches",
        FACTS.launches,
        exact,
        `${exact(FACTS.groups)} groups, the largest of ${exact(FACTS.largest_group)}`,
      ),
    );
  if (FACTS.barriers > 0)
    list.push(
      card(
        "barriers",
        "Barriers",
        FACTS.barriers,
        exact,
        FACTS.threads > 1 ? `with ${FACTS.threads} threads` : "",
      ),
    );
  if (DATA.times) list.push(card("time", "Time", DATA.times.us, microsText, "median of a run"));
  return make("div", { class: "cards" }, ...list);
}

function tensors() {
  const rows = [];
  for (const kind of ["inputs", "outputs", "params", "states"])
    for (const io of FACTS[kind])
      rows.push(
        make(
          "tr",
          {},
          make("td", { text: kind.slice(0, -1) }),
          make("td", { text: io.name }),
          make("td", { text: `${io.dtype}[${io.shape.join(", ")}]` }),
        ),
      );
  return make("table", { class: "list" }, make("caption", { text: "Tensors" }), make("tbody", {}, ...rows));
}

function operators() {
  const list = Object.entries(FACTS.ops).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)),
    most = list.length ? list[0][1] : 1;
  return make(
    "table",
    { class: "list", id: "optable" },
    make("caption", { text: "Operators" }),
    make(
      "tbody",
      {},
      ...list.map(([op, n]) => {
        const bar = make("td", { class: "weightbar" });
        bar.style.setProperty("--share", ((100 * n) / most).toFixed(2) + "%");
        return make("tr", {}, make("td", { text: op }), figure("td", n, exact, { class: "number" }), bar);
      }),
    ),
  );
}

function settings() {
  return make(
    "table",
    { class: "list" },
    make("caption", { text: "Compiled with" }),
    make(
      "tbody",
      {},
      ...DATA.settings.map(([name, value]) =>
        make("tr", {}, make("td", { text: name }), make("td", { text: value })),
      ),
    ),
  );
}

function bucketTable() {
  if (!FACTS.buckets) return null;
  return make(
    "table",
    { class: "list" },
    make("caption", { text: "Buckets; all else is of the largest" }),
    make(
      "thead",
      {},
      make(
        "tr",
        {},
        ...["sizes", "arena", "kernels", "multiply-adds", "bytes moved"].map((t) => make("th", { text: t })),
      ),
    ),
    make(
      "tbody",
      {},
      ...FACTS.buckets.map((b) =>
        make(
          "tr",
          {},
          make("td", {
            text: Object.entries(b.sizes)
              .map(([name, n]) => `${name}=${n}`)
              .join(" "),
          }),
          figure("td", b.arena_bytes, bytesText),
          figure("td", b.kernels, exact),
          figure("td", b.macs, countText),
          figure("td", b.bytes, bytesText),
        ),
      ),
    ),
  );
}

function buildOverview(section) {
  section.append(
    cards(),
    make("div", { class: "tables" }, tensors(), operators(), settings(), bucketTable()),
  );
}
