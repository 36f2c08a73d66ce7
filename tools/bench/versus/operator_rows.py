# SPDX-License-Identifier: Apache-2.0
"""What tools/bench/operators prints. Plain Python, so that tests need nothing installed."""

from versus import stats


def kinds(rows):
    """kind -> the lower of `ratio` and of its other cases; None for one that failed."""
    found = {}
    for row in rows:
        ratio = row.get("ratio")
        if row["kind"] in found and (found[row["kind"]] is None or ratio is not None):
            ratio = found[row["kind"]] and min(ratio, found[row["kind"]])
        found[row["kind"]] = ratio
    return found


def summary(rows):
    ratios = kinds(rows)
    timed = [r for r in ratios.values() if r is not None]
    if not timed:
        return f"{len(ratios)} kinds of operators, none was timed"
    counts = ", ".join(f"{sum(r >= least for r in timed)} at {least} or better" for least in (0.9, 1.0, 1.2))
    mean = stats.geometric_mean(timed)
    return f"{len(ratios)} kinds of operators, {len(timed)} timed: {counts}; geometric mean {mean:.2f}"


def line(row):
    if "failed" in row:
        return f"{row['name']:28} FAILED: {row['failed']}"
    times = f"{row['ours_ms']:10.4f} {row['peer_ms']:12.4f}"
    return f"{row['name']:28} {times} {row['ratio']:8.2f} {row['ratio_of_best']:8.2f} {row['error']:8.1g}"


def table(rows):
    """The slowest first, then what failed."""
    titles = f"{'operator':28} {'ours ms':>10} {'onnxruntime':>12} {'ratio':>8} {'of best':>8} {'error':>8}"
    timed = sorted((r for r in rows if "failed" not in r), key=lambda r: r["ratio"])
    failed = [r for r in rows if "failed" in r]
    return "\n".join([titles, *map(line, [*timed, *failed]), summary(rows)])
