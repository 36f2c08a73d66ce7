#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collects the corpus of tools/bench/sweep: operators of the networks in architectures.py at three batches.

  python3 tools/bench/sweeps/collect.py [--only NAME]... [-o FILE]

Needs torch, torchvision, timm and transformers. Nothing is computed or fetched: the tensors have no elements.
Writes corpus.jsonl beside this file, with the cases in an order of their own, so that a diff shows what has
changed."""

import argparse
import json
import logging
import pathlib
import sys
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
BATCHES = (1, 8, 32)
MAX_ELEMENTS = 64 << 20  # of one tensor: larger cases do not fit beside their peers
MOST = 30  # cases of a network, so that those with a hundred shapes of one kind do not outweigh the others


def elements(shape):
    n = 1
    for size in shape:
        n *= size
    return n


def cases_of(build):
    """The cases of a network by their keys, and how often each stands in it."""
    from sweeps import cases, record

    found, made = {}, record.make(build)
    for batch in BATCHES:
        for family, shapes, steps in cases.of_nodes(record.record(made, batch)):
            if max(map(elements, shapes)) <= MAX_ELEMENTS:
                case = {"family": family, "in": shapes, "steps": steps, "count": 0, "of": []}
                found.setdefault(cases.key_of(case), case)["count"] += 1
    return found


def collect(name, build, corpus):
    """Adds a choice of the cases of a network, the same in every run; how many are new."""
    from sweeps import cases

    found, n = cases_of(build), len(corpus)
    for key in sorted(found, key=cases.spread)[:MOST]:
        case = corpus.setdefault(key, {**found[key], "count": 0})
        case["count"] += found[key]["count"]
        if len(case["of"]) < 3:
            case["of"].append(name)
    return len(corpus) - n


def main():
    from sweeps import architectures, cases

    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", action="append", help="only this network; may be repeated")
    p.add_argument("-o", dest="out", default=str(HERE / "corpus.jsonl"))
    a = p.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    corpus, failed, n = {}, [], 0
    for name, build in architectures.builders().items():
        if a.only and name not in a.only:
            continue
        try:
            added = collect(name, build, corpus)
            n += 1
            print(f"{name}: {added}", file=sys.stderr, flush=True)
        except Exception as e:  # of a hundred networks a few do not trace in every version of their package
            failed.append(name)
            print(f"{name}: left out, {type(e).__name__}: {str(e)[:200]}", file=sys.stderr, flush=True)
    with open(a.out, "w", encoding="utf-8") as f:
        for case in sorted(corpus.values(), key=cases.key_of):
            f.write(json.dumps(case, separators=(",", ":")) + "\n")
    print(f"{len(corpus)} cases of {n} networks; left out: {' '.join(failed) or 'none'}", file=sys.stderr)


if __name__ == "__main__":
    main()
