# SPDX-License-Identifier: Apache-2.0
"""What vs_peers prints: tables as text or Markdown, the machine and the versions."""

import os
import platform
import subprocess

from versus import stats


def number(ms):
    if ms is None:
        return "-"
    return (
        f"{ms:.0f}" if ms >= 1000 else f"{ms:.1f}" if ms >= 100 else f"{ms:.2f}" if ms >= 1 else f"{ms:.4f}"
    )


def percent(share):
    return "-" if share is None else f"{100 * share:.0f} %"


def times(x):
    return "-" if x is None else f"{x:.2f}"


def machine():
    """Name of the CPU, caches and compiler."""
    found = {"system": platform.platform(), "cores": os.cpu_count()}
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            lines = [line.split(":", 1) for line in f if ":" in line]
        found["cpu"] = next((v.strip() for k, v in lines if k.strip() == "model name"), platform.machine())
        family = {k.strip(): v.strip() for k, v in lines}
        found["cpu"] += f", family {family.get('cpu family', '?')} model {family.get('model', '?')}"
    except OSError:
        found["cpu"] = platform.machine()
    cc = subprocess.run([os.environ.get("CC", "cc"), "--version"], capture_output=True, text=True)
    found["compiler"] = cc.stdout.split("\n")[0]
    return found


def cells(row, peers):
    """The columns of a row of the table, as texts."""
    name = f"{row['name']}"
    if "ours_ms" not in row:
        return [name, row.get("skipped") or row.get("failed") or "?"]
    s = row["ours"]
    spread = f"{number(s['p10'])}-{number(s['p90'])}"
    out = [name, number(row["ours_ms"]), spread]
    out += [number(row["peers"].get(p)) for p in peers]
    out += [
        times(row["ratio"]),
        times(row["ratio_of_best"]),
        percent(row.get("share_of_peak")),
        percent(row.get("share_of_bandwidth")),
    ]
    error = max(row.get("errors", {}).values(), default=None)
    return [*out, "-" if error is None else f"{error:.0e}"]


def header(peers):
    return [
        "network",
        "ours ms",
        "p10-p90",
        *(f"{p} ms" for p in peers),
        "ratio",
        "of best",
        "peak",
        "bandwidth",
        "error",
    ]


def startup_cells(row, peers):
    if "ours_ms" not in row:
        return [row["name"], row.get("skipped") or row.get("failed") or "?"]
    mb = lambda b: "-" if b is None else f"{b / 1e6:.2f}"  # noqa: E731
    resident, disk = row["resident_bytes"], row["peer_bytes"]
    out = [row["name"], number(row["ours_ms"]), number(row["empty_ms"])]
    out += [number(row["peers"].get(p)) for p in peers] + [times(row["ratio"])]
    out += [mb(resident["ours"])] + [mb(resident.get(p)) for p in peers]
    out += [mb(row["arena_bytes"]), mb(row["weight_bytes"]), times(row["memory_over_arena"])]
    return out + [mb(row["program_bytes"])] + [mb(disk.get(p)) for p in peers]


def startup_header(peers):
    start = ["network", "ours ms", "empty ms", *(f"{p} ms" for p in peers), "ratio"]
    resident = ["ours MB", *(f"{p} MB" for p in peers), "arena MB", "weights MB", "beyond / arena"]
    return [*start, *resident, "program MB", *(f"{p} on disk MB" for p in peers)]


def table_of(set_name, rows, peers):
    special = set_name == "startup"
    make, head = (startup_cells, startup_header) if special else (cells, header)
    return head(peers), [make(r, peers) for r in rows]


def text_table(head, body):
    full = [r for r in body if len(r) == len(head)]
    widths = [max(len(r[i]) for r in [head, *full]) for i in range(len(head))]
    widths[0] = max(len(r[0]) for r in [head, *body])
    lines = []
    for r in [head, *body]:
        short = len(r) < len(head)
        parts = [r[0].ljust(widths[0])]
        parts += r[1:] if short else [c.rjust(w) for c, w in zip(r[1:], widths[1:])]
        lines.append("  ".join(parts))
    return "\n".join(lines)


def markdown_table(head, body):
    rows = [head, ["---"] + ["---:"] * (len(head) - 1)]
    rows += [r + [""] * (len(head) - len(r)) for r in body]
    return "\n".join("| " + " | ".join(r) + " |" for r in rows)


def summary_table(rows):
    head = ["set", "threads", "networks", "ratio (geometric mean)", "worst", "peak", "bandwidth"]
    body = []
    for s in stats.summarise(rows):
        worst = f"{s['worst']} {times(s['worst_ratio'])}" if s["worst"] else "-"
        shares = [percent(s["share_of_peak"]), percent(s["share_of_bandwidth"])]
        count = f"{s['timed']}/{s['networks']}"
        body.append([s["set"], str(s["threads"]), count, times(s["ratio"]), worst, *shares])
    return head, body


def document(rows, info, peers, markdown):
    """Everything as one text."""
    table = markdown_table if markdown else text_table
    title = (lambda t: f"\n### {t}\n") if markdown else (lambda t: f"\n{t}")
    bullet = "* " if markdown else "  "
    out = [title("Machine and versions")]
    out += [f"{bullet}{k}: {v}" for k, v in info.items()]
    peak = [r["peak_gflops"] / r["threads"] for r in rows if r.get("peak_gflops")]
    if peak:
        out.append(f"{bullet}FMA peak per core: median {stats.quantile(peak, 0.5):.0f} GFLOP/s")
    for (name, threads), members in stats.group(rows, ("set", "threads")).items():
        plural = "thread" if threads == 1 else "threads"
        out += [title(f"{name}, {threads} {plural}"), table(*table_of(name, members, peers))]
    return "\n".join([*out, title("Summary"), table(*summary_table(rows))])
