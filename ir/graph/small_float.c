// SPDX-License-Identifier: Apache-2.0
// Conversions of the floating-point formats of at most 16 bits, on the bits of a double. One routine serves
// all formats with a sign: they differ in their sizes, their bias and in what they do with the codes at the
// top.
#include "ir/graph/small_float.h"

#include <math.h>
#include <string.h>

// What the largest exponent means, or which code is NaN.
typedef enum Special {
    SPECIAL_IEEE,     // infinities and NaNs
    SPECIAL_ONE_NAN,  // all ones is NaN, everything else a number
    SPECIAL_NEG_ZERO, // the code of -0 is the only NaN
    SPECIAL_NONE,     // numbers only
} Special;

typedef struct Format {
    int32_t exp, frac, bias;
    Special special;
} Format;

static Format format_of(DType t)
{
    switch (t) {
    case DTYPE_f16:
        return (Format){5, 10, 15, SPECIAL_IEEE};
    case DTYPE_bf16:
        return (Format){8, 7, 127, SPECIAL_IEEE};
    case DTYPE_f8e4m3fn:
        return (Format){4, 3, 7, SPECIAL_ONE_NAN};
    case DTYPE_f8e4m3fnuz:
        return (Format){4, 3, 8, SPECIAL_NEG_ZERO};
    case DTYPE_f8e5m2:
        return (Format){5, 2, 15, SPECIAL_IEEE};
    case DTYPE_f8e5m2fnuz:
        return (Format){5, 2, 16, SPECIAL_NEG_ZERO};
    default:
        rlx_assert(t == DTYPE_f4e2m1);
        return (Format){2, 1, 1, SPECIAL_NONE};
    }
}

// The code of the largest finite number.
static uint32_t max_code(Format f)
{
    const uint32_t all = (1u << (f.exp + f.frac)) - 1;
    return f.special == SPECIAL_IEEE      ? (((1u << f.exp) - 1) << f.frac) - 1
           : f.special == SPECIAL_ONE_NAN ? all - 1
                                          : all;
}

static uint64_t bits_of(double v)
{
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static double of_bits(uint64_t bits)
{
    double v = 0;
    memcpy(&v, &bits, sizeof v);
    return v;
}

// --- widening ---

static double widen_signed(Format f, uint32_t code)
{
    const uint32_t sign_bit = 1u << (f.exp + f.frac), top = (1u << f.exp) - 1;
    const uint32_t e = code >> f.frac & top, fraction = code & ((1u << f.frac) - 1);
    const uint64_t sign = (uint64_t)((code & sign_bit) != 0) << 63;
    if (f.special == SPECIAL_IEEE && e == top)
        return of_bits(sign | (uint64_t)0x7ff << 52 | (uint64_t)fraction << (52 - f.frac));
    if ((f.special == SPECIAL_ONE_NAN && (code & (sign_bit - 1)) == sign_bit - 1) ||
        (f.special == SPECIAL_NEG_ZERO && code == sign_bit))
        return of_bits(sign | (uint64_t)0x7ff8 << 48);
    if (e == 0) {
        const double magnitude = ldexp((double)fraction, 1 - f.bias - f.frac);
        return sign ? -magnitude : magnitude;
    }
    return of_bits(sign | (uint64_t)((int32_t)e - f.bias + 1023) << 52 | (uint64_t)fraction << (52 - f.frac));
}

double small_float_widen(DType t, uint32_t code)
{
    if (t == DTYPE_f8e8m0)
        return code == 255 ? (double)NAN : ldexp(1, (int)code - 127);
    return widen_signed(format_of(t), code);
}

double small_float_max(DType t)
{
    return t == DTYPE_f8e8m0 ? 0x1p127 : widen_signed(format_of(t), max_code(format_of(t)));
}

// --- narrowing ---

// The code of a finite magnitude, as if exponents had no end.
static uint64_t round_magnitude(Format f, uint64_t bits)
{
    const uint64_t fraction = bits & 0xfffffffffffffu;
    int32_t e = (int32_t)(bits >> 52 & 0x7ff) - 1023 + f.bias;
    const uint64_t significand = fraction | (uint64_t)1 << 52;
    uint32_t drop = (uint32_t)(52 - f.frac);
    if (e <= 0) { // below the normal numbers: the exponent stays, the point moves
        drop += (uint32_t)(1 - e);
        e = 1;
        if (drop > 54)
            return 0;
    }
    uint64_t kept = significand >> drop;
    const uint64_t rest = significand & (((uint64_t)1 << drop) - 1), half = (uint64_t)1 << (drop - 1);
    kept += rest > half || (rest == half && (kept & 1));
    // A subnormal has no hidden one to take off; a carry moves into the exponent by itself.
    return ((uint64_t)(e - 1) << f.frac) + kept;
}

static uint32_t nan_code(Format f, uint32_t sign, uint64_t fraction)
{
    if (f.special == SPECIAL_IEEE) // keeps the top of the payload, and stays a NaN
        return sign | (max_code(f) + 1) | 1u << (f.frac - 1) | (uint32_t)(fraction >> (52 - f.frac));
    return f.special == SPECIAL_ONE_NAN ? sign | (max_code(f) + 1) : 1u << (f.exp + f.frac);
}

static uint32_t narrow_signed(Format f, double v)
{
    const uint64_t bits = bits_of(v);
    const uint32_t sign = (uint32_t)(bits >> 63) << (f.exp + f.frac);
    if (isnan(v))
        return nan_code(f, sign, bits & 0xfffffffffffffu);
    const uint64_t code = round_magnitude(f, bits);
    if (isinf(v) || code > max_code(f))
        return f.special == SPECIAL_NONE       ? sign | max_code(f)
               : f.special == SPECIAL_NEG_ZERO ? nan_code(f, sign, 0)
                                               : sign | (max_code(f) + 1);
    return f.special == SPECIAL_NEG_ZERO && code == 0 ? 0 : sign | (uint32_t)code;
}

static uint32_t narrow_power(double v)
{
    int e = 0;
    if (isnan(v) || v < 0 || isinf(v))
        return 255;
    if (v < 0x1p-127)
        return 0;
    const double significand = frexp(v, &e); // in [0.5, 1)
    e += 126 + (significand >= 0.75);
    return e > 255 ? 255 : (uint32_t)e;
}

uint32_t small_float_narrow(DType t, double v)
{
    return t == DTYPE_f8e8m0 ? narrow_power(v) : narrow_signed(format_of(t), v);
}
