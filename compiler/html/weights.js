// SPDX-License-Identifier: Apache-2.0
// Constants by size, as they are packed for the kernels that read them.
"use strict";

const MOST_WEIGHTS = 200;

function weightUsers(buf) {
  return STEPS.map((_, s) => s).filter((s) => STEPS[s].args.some((arg) => arg[0] === buf));
}

function buildWeights(section) {
  const isConstant = (b) => b.region === "weights" || b.region === "experts";
  const list = DATA.plan.memory.filter((b) => isConstant(b) && weightUsers(b.buf).length > 0); // others are packed
  list.sort((a, b) => b.bytes - a.bytes || a.buf - b.buf);
  const sum = list.reduce((bytes, b) => bytes + b.bytes, 0),
    most = list.length ? list[0].bytes : 1;
  section.append(
    make("p", {
      class: "hint",
      text:
        list.length === 0
          ? "The model has no constants of its own."
          : `${exact(list.length)} constants with ${bytesText(sum)}; with gaps between them the weights take ` +
            `${bytesText(FACTS.weight_bytes)}. Names are those of the values that read them or that they come from.`,
    }),
  );
  if (list.length === 0) return;
  const bar = (b) => {
    const td = make("td", { class: "weightbar", "data-weight": b.buf, "data-value": b.bytes });
    td.style.setProperty("--share", ((100 * b.bytes) / most).toFixed(2) + "%");
    return td;
  };
  const shown = list.slice(0, MOST_WEIGHTS),
    rest = list.slice(MOST_WEIGHTS);
  const rows = shown.map((b) =>
    make(
      "tr",
      {},
      make("td", { text: shorten(b.name || "constant", 40), title: b.name }),
      figure("td", b.bytes, bytesText, { class: "number" }),
      make("td", { class: "number", text: percentText(b.bytes / sum) }),
      bar(b),
      make(
        "td",
        {},
        ...weightUsers(b.buf)
          .slice(0, 4)
          .map((s) => link(stepName(s), () => showStep(s))),
      ),
    ),
  );
  if (rest.length) {
    const bytes = rest.reduce((n, b) => n + b.bytes, 0);
    rows.push(
      make(
        "tr",
        {},
        make("td", { text: `${rest.length} others` }),
        figure("td", bytes, bytesText, { class: "number" }),
        make("td", { class: "number", text: percentText(bytes / sum) }),
        make("td", {}),
        make("td", {}),
      ),
    );
  }
  section.append(
    make(
      "div",
      { class: "scroll" },
      make(
        "table",
        { class: "list", id: "weighttable" },
        make(
          "thead",
          {},
          make(
            "tr",
            {},
            ...["constant", "bytes", "share", "", "read by"].map((t) => make("th", { text: t })),
          ),
        ),
        make("tbody", {}, ...rows),
      ),
    ),
  );
}
