# SPDX-License-Identifier: Apache-2.0
"""What the sweep prints: figures of the distribution by family and element type, and the worst cases."""

from versus import stats

LOW = 0.8
N_WORST = 20


def line(row):
    """One row as it comes."""
    head = f"{row['family']} {row['dtype']} {row['name']}: "
    if "ours_ms" not in row:
        return head + "FAILED: " + row.get("failed", "?")
    theirs = "  ".join(f"{n} {ms:.4f}" for n, ms in row["peers"].items())
    ratio = f"{row['ratio']:.2f}" if row["ratio"] else "-"
    shortest = f" ({row['of_best']:.2f} by the shortest times)" if row.get("of_best") else ""
    return head + f"ours {row['ours_ms']:.4f} ms  {theirs}  ratio {ratio}{shortest}"


def figures(rows, key="ratio"):
    """(cases, geometric mean, fifth percentile, share below LOW, least) of rows that have a ratio."""
    ratios = [r[key] for r in rows if r.get(key)]
    if not ratios:
        return 0, None, None, None, None
    below = sum(r < LOW for r in ratios) / len(ratios)
    return len(ratios), stats.geometric_mean(ratios), stats.quantile(ratios, 0.05), below, min(ratios)


def text(values):
    n, mean, low, below, least = values
    if not n:
        return f"{n:6}"
    return f"{n:6} {mean:8.2f} {low:8.2f} {100 * below:8.1f} % {least:8.2f}"


def document(rows):
    """Everything as one text."""
    low = f"below {LOW}"
    out = [f"{'family':12} {'type':5} {'cases':>6} {'mean':>8} {'5th pct':>8} {low:>10} {'least':>8}"]
    for (family, dtype), members in sorted(stats.group(rows, ("family", "dtype")).items()):
        out.append(f"{family:12} {dtype:5} {text(figures(members))}")
    for (dtype,), members in sorted(stats.group(rows, ("dtype",)).items()):
        out.append(f"{'all':12} {dtype:5} {text(figures(members))}")
        if any(r.get("of_best") for r in members):
            out.append(f"{'  shortest':12} {dtype:5} {text(figures(members, 'of_best'))}")
    timed = sorted((r for r in rows if r.get("ratio")), key=lambda r: r["ratio"])
    out += ["", f"The worst {min(N_WORST, len(timed))}:"]
    for row in timed[:N_WORST]:
        out.append("  " + line(row))
        if row.get("reason"):
            out.append("      " + row["reason"])
    failed = [r for r in rows if r.get("failed")]
    out += ["", f"{len(failed)} failed"] + ["  " + line(r) for r in failed]
    return "\n".join(out)
