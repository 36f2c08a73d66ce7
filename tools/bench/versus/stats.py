# SPDX-License-Identifier: Apache-2.0
"""Statistics of vs_peers: quantiles, geometric means, errors. Plain Python, so that tests need nothing
installed."""

import math


def quantile(values, q):
    """The q-quantile, interpolated between neighbours (NumPy's default); values need not be sorted."""
    s = sorted(values)
    if not s:
        raise ValueError("no values")
    place = q * (len(s) - 1)
    low = math.floor(place)
    high = min(low + 1, len(s) - 1)
    return s[low] + (s[high] - s[low]) * (place - low)


def summary(seconds):
    """Milliseconds: median, the tenth and ninetieth percentile, and the least."""
    ms = [1e3 * s for s in seconds]
    return {
        "median": quantile(ms, 0.5),
        "p10": quantile(ms, 0.1),
        "p90": quantile(ms, 0.9),
        "best": min(ms),
        "samples": len(ms),
    }


def geometric_mean(values):
    """None for no values; all must be positive."""
    if not values:
        return None
    return math.exp(sum(math.log(v) for v in values) / len(values))


def ratio(ours, peers):
    """(name, best peer / ours): above 1 we are faster. (None, None) without peers. Milliseconds."""
    timed = {name: ms for name, ms in peers.items() if ms is not None}
    if not timed or ours is None:
        return None, None
    best = min(timed, key=timed.get)
    return best, timed[best] / ours


def relative_error(found, wanted):
    """Largest difference over the largest finite magnitude wanted; inf where NaN or infinity is on one side
    only. Both flat sequences of floats."""
    if len(found) != len(wanted):
        return math.inf
    largest = max((abs(w) for w in wanted if math.isfinite(w)), default=0.0)
    worst = 0.0
    for f, w in zip(found, wanted):
        if math.isnan(w) or math.isinf(w):
            same = math.isnan(f) if math.isnan(w) else f == w
            worst = worst if same else math.inf
        elif not math.isfinite(f):
            worst = math.inf
        else:
            worst = max(worst, abs(f - w))
    return worst / largest if largest else worst


def group(rows, keys):
    """Rows in lists by the values of some keys, in the order of their first rows."""
    found = {}
    for row in rows:
        found.setdefault(tuple(row[k] for k in keys), []).append(row)
    return found


def summarise(rows):
    """Of every set and number of threads: geometric means of the ratios and shares, and the worst network."""
    out = []
    for (name, threads), members in group(rows, ("set", "threads")).items():
        timed = [r for r in members if r.get("ratio")]
        line = {"set": name, "threads": threads, "networks": len(members), "timed": len(timed)}
        line["ratio"] = geometric_mean([r["ratio"] for r in timed])
        for key in ("share_of_peak", "share_of_bandwidth"):
            line[key] = geometric_mean([r[key] for r in members if r.get(key)])
        worst = min(timed, key=lambda r: r["ratio"], default=None)
        line["worst"] = worst and worst["name"]
        line["worst_ratio"] = worst and worst["ratio"]
        out.append(line)
    return out
