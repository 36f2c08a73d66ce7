#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the polynomials of codegen/prelude/c_math.inc and prints them as constants (needs mpmath).

Minimax by reweighted least squares (Lawson) in 50 digits, then the coefficients are rounded from the lowest
degree up, and the rest is fitted again after each rounding, so that later coefficients absorb what the
earlier ones lost.
"""
import struct

from mpmath import asin, atan, atanh, cos, erf, erfc, exp, expm1, fabs, log, log1p, lu_solve, matrix, mp
from mpmath import mpf, pi, sin, sinh, sqrt, tan, tanh

mp.dps = 50
POINTS, ROUNDS = 120, 12
TABLE_POINTS = 32  # of a piece


def f32(x):
    return mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def f64(x):
    return mpf(float(x))


def chebyshev(lo, hi, count):
    return [(lo + hi) / 2 + (hi - lo) / 2 * cos(pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def lawson(target, weight, powers, points):
    """Coefficients c that minimise the largest weight(t) * |target(t) - sum c_k t^k|, and that error."""
    values = [target(t) for t in points]
    weights = [weight(t) for t in points]
    basis = [[t**k for k in powers] for t in points]
    share = [mpf(1) / len(points)] * len(points)
    best = None
    for _ in range(ROUNDS):
        m = len(powers)
        a, r = matrix(m, m), matrix(m, 1)
        for s, w, v, b in zip(share, weights, values, basis):
            q = s * w * w
            for j in range(m):
                r[j] += q * b[j] * v
                for k in range(m):
                    a[j, k] += q * b[j] * b[k]
        c = lu_solve(a, r)
        error = [fabs(w * (v - sum(c[j] * b[j] for j in range(m))))
                 for w, v, b in zip(weights, values, basis)]
        if best is None or max(error) < best[0]:
            best = (max(error), list(c))
        share = [s * e for s, e in zip(share, error)]
        total = sum(share)
        share = [s / total for s in share]
    return best


def rounded_fit(target, weight, points, degree, first=0, number=f32):
    """({power: coefficient}, largest weighted error); `number` rounds to the type of coefficients."""
    fixed = {}

    def rest(t):
        return target(t) - sum(c * t**k for k, c in fixed.items())

    for k in range(first, degree + 1):
        error, c = lawson(rest, weight, list(range(k, degree + 1)), points)
        fixed[k] = number(c[0])
    return fixed, max(fabs(weight(t) * rest(t)) for t in points)


def fit(name, target, weight, lo, hi, degree, first=0):
    fixed, last = rounded_fit(target, weight, chebyshev(lo, hi, POINTS), degree, first)
    print(f"{name}: largest error 2^{mp.nstr(log(last, 2), 4)}")
    for k, c in fixed.items():
        print(f"    t^{k - first}: {float(c).hex()}  {float(c):.9g}f")


def fit_wide(name, target, weight, lo, hi, degree):
    """A polynomial with coefficients of double."""
    fixed, last = rounded_fit(target, weight, chebyshev(lo, hi, POINTS), degree, number=f64)
    print(f"{name}: largest error 2^{mp.nstr(log(last, 2), 4)}")
    for k, c in fixed.items():
        print(f"    t^{k}: {float(c)!r}")


def fit_table(name, target, weight, pieces, degree):
    """A polynomial in x - centre for each piece (lo, hi, centre), as rows of coefficients: what permutes
    pick. A piece whose centre is 0 has no constant term if the function has none."""
    rows, worst = [], mpf(0)
    for lo, hi, centre in pieces:
        points = [x - centre for x in chebyshev(lo, hi, TABLE_POINTS)]
        found, last = rounded_fit(lambda d: target(d + centre), lambda d: weight(d + centre), points, degree,
                                  first=1 if target(centre) == 0 else 0)
        rows.append([centre] + [found.get(k, mpf(0)) for k in range(degree + 1)])
        worst = max(worst, last)
    print(f"{name}: largest error 2^{mp.nstr(log(worst, 2), 4)}")
    for k, column in enumerate(zip(*rows)):
        numbers = ", ".join(f"{float(c):.9g}f" for c in column)
        print(f"    {f'd^{k - 1}' if k else 'centre'}: {numbers}")


def octaves(first, last, end):
    """Quarters of octaves from 2^first to `end` below 2^last, behind the piece from 0 to 2^first, which
    stands where the quarter below it would. (c_math.inc has its entries from 11 on, modulo 32.)"""
    pieces = [(mpf("1e-9"), mpf(2) ** first, mpf(0))]
    for i in range(4 * first, 4 * last):
        lo, hi = (mpf(2) ** (j // 4) * (1 + mpf(j % 4) / 4) for j in (i, i + 1))
        if lo < mpf(end):
            pieces.append((lo, min(hi, mpf(end)), f32((lo + hi) / 2)))
    return pieces


def normal_tail():
    """Pieces around the multiples of 3/16; at the last one the tail is 0 for f32."""
    step = mpf(3) / 16
    return [(max(step * (i - mpf(1) / 2), 0), step * (i + mpf(1) / 2), step * i) for i in range(31)]


def odd(name, f, end, degree):
    """(f(x) / x - 1) / x^2 as a polynomial in t = x^2, for x up to `end`."""
    fit(f"{name}: ({name}(x) / x - 1) / x^2, t = x^2", lambda t: (f(sqrt(t)) / sqrt(t) - 1) / t,
        lambda t: t * sqrt(t) / f(sqrt(t)), mpf("1e-9"), mpf(end) ** 2, degree)


def circle():
    """Sines and their like, with pi / 2 in parts whose products by whole numbers up to 2^13 are exact."""
    odd("sin", sin, "0.7860", 3)
    fit("cos: (cos(x) - 1 + x^2 / 2) / x^4, t = x^2", lambda t: (cos(sqrt(t)) - 1 + t / 2) / t**2,
        lambda t: t**2 / cos(sqrt(t)), mpf("1e-9"), mpf("0.618"), 2)
    odd("tan", tan, "0.7860", 6)
    odd("asin", asin, "0.5", 4)
    odd("atan", atan, "0.4143", 4)
    odd("sinh", sinh, "2", 4)
    rest, parts = pi / 2, []
    for bits in (10, 21, 32):
        parts.append(mpf(int(rest * 2**bits)) / 2**bits)
        rest -= parts[-1]
    print("pi / 2 in parts: " + ", ".join(f"{float(v):.9g}f" for v in [*parts, f32(rest)]))


def main():
    h = log(mpf(2)) / 2 * mpf("1.001")
    root = sqrt(mpf(2))
    fit("exp: (e^r - 1 - r) / r^2", lambda r: exp(r) - 1 - r, lambda r: 1 / exp(r), -h, h, 6, 2)
    fit("expm1: (expm1(r) - r) / r^2", lambda r: expm1(r) - r,
        lambda r: 1 / (fabs(expm1(r)) + mpf("1e-9")), -h, h, 7, 2)
    fit("tanh: (tanh(x) / x - 1) / x^2, t = x^2", lambda t: (tanh(sqrt(t)) / sqrt(t) - 1) / t,
        lambda t: t * sqrt(t) / tanh(sqrt(t)), mpf("1e-9"), mpf("0.5625"), 4)
    fit("tanh of GPUs, below 0.545", lambda t: (tanh(sqrt(t)) / sqrt(t) - 1) / t, lambda t: t,
        mpf("1e-9"), mpf("0.30"), 4)
    fit("tanh: expm1(2 r) / r", lambda r: expm1(2 * r), lambda r: 1 / exp(2 * r), -h / 2, h / 2, 5, 1)
    fit("erf: erf(x) / x - 1, t = x^2", lambda t: erf(sqrt(t)) / sqrt(t) - 1,
        lambda t: sqrt(t) / erf(sqrt(t)),
        mpf("1e-12"), mpf("0.8464"), 6)
    fit("erf: -log(erfc(t))", lambda t: -log(erfc(t)), lambda t: erfc(t) / erf(t), mpf("0.92"),
        mpf("3.95"), 8)
    fit("log: (log1p(f) - f + f^2 / 2) / f^3", lambda f: (log1p(f) - f + f * f / 2) / f**3,
        lambda f: fabs(f**3 / log1p(f)), 1 / root - 1, root - 1, 8)
    fit_table("tanh, 32 pieces", tanh, lambda x: 1 / tanh(x), octaves(-4, 4, "9.02"), 5)
    fit_table("erf, 32 pieces", erf, lambda x: 1 / erf(x), octaves(-4, 2, "3.93"), 5)
    # gelu's sum takes a as negative: the odd coefficients change their signs there.
    circle()
    tail = lambda a: erfc(a / root) / 2  # noqa: E731
    fit_table("erfc(a / sqrt(2)) / 2, 32 pieces", tail, lambda a: max(a, mpf("0.6")), normal_tail(), 4)
    fit("gelu: (erfc(a / sqrt(2)) / 2)^(-1/4)", lambda a: tail(a) ** mpf("-0.25"),
        lambda a: 4 * (a + mpf("0.02")) * tail(a) ** mpf("1.25"), mpf("1e-6"), mpf("5.6"), 11)
    ratio = (root - 1) / (root + 1)
    fit_wide("pow: log2((1 + s) / (1 - s)) / s, t = s^2",
             lambda t: 2 * atanh(sqrt(t)) / sqrt(t) / log(mpf(2)),
             lambda t: sqrt(t) / atanh(sqrt(t)), mpf("1e-9"), ratio**2, 5)
    fit_wide("pow: 2^r", lambda r: mpf(2) ** r, lambda r: 1 / mpf(2) ** r, mpf(-0.5), mpf(0.5), 7)


if __name__ == "__main__":
    main()
