// SPDX-License-Identifier: Apache-2.0
// The helper functions that the meanings in ops.def and kops.def use. num_div, num_rem, num_mod, num_ipow,
// num_shl and num_shr choose by the type of their first operand, int64_t or uint64_t, so that one text of the
// tables serves both.
#ifndef IR_EVAL_SCALAR_H
#define IR_EVAL_SCALAR_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

// NaN in x passes; a lower bound above the upper one yields the upper one.
static inline double num_clamp(double x, double lo, double hi)
{
    const double t = lo > x ? lo : x;
    return hi < t ? hi : t;
}

static inline double num_softplus(double x)
{
    return (x > 0 ? x : x != x ? x : 0) + log1p(exp(-fabs(x)));
}

// Winitzki's formula is 2 per mille off; each step of Newton doubles the digits. erfc has those of 1 - |x|.
static inline double num_erf_inv(double x)
{
    const double a = fabs(x), rest = 1 - a;
    if (!(a < 1))
        return a == 1 ? x * (double)INFINITY : (double)NAN;
    const double l = log(rest * (1 + a)), t = 4.3307467508 + l / 2;
    double y = sqrt(sqrt(t * t - l / 0.147) - t);
    for (int i = 0; i < 4; i++)
        y -= (a < 0.5 ? erf(y) - a : rest - erfc(y)) * 0.88622692545275801 * exp(y * y);
    return copysign(y, x);
}

// Sign of the divisor, as Python.
static inline double num_fmod(double a, double b)
{
    const double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// Division by 0 gives 0. The smallest value by -1 wraps, which C leaves undefined.
static inline int64_t num_div_i64(int64_t a, int64_t b)
{
    return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static inline uint64_t num_div_u64(uint64_t a, uint64_t b)
{
    return b == 0 ? 0 : a / b;
}

static inline int64_t num_rem_i64(int64_t a, int64_t b)
{
    return b == 0 || b == -1 ? 0 : a % b;
}

static inline uint64_t num_rem_u64(uint64_t a, uint64_t b)
{
    return b == 0 ? 0 : a % b;
}

static inline int64_t num_mod_i64(int64_t a, int64_t b)
{
    const int64_t r = num_rem_i64(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static inline uint64_t num_mod_u64(uint64_t a, uint64_t b)
{
    return num_rem_u64(a, b);
}

static inline uint64_t num_ipow_u64(uint64_t a, uint64_t b)
{
    uint64_t r = 1;
    for (uint64_t x = a, e = b; e != 0; e >>= 1, x *= x)
        r = e & 1 ? r * x : r;
    return r;
}

// A negative exponent gives the truncated fraction: 0, or 1 and -1 for bases of these.
static inline int64_t num_ipow_i64(int64_t a, int64_t b)
{
    if (b >= 0)
        return (int64_t)num_ipow_u64((uint64_t)a, (uint64_t)b);
    return a == 1 ? 1 : a != -1 ? 0 : (uint64_t)b & 1 ? -1 : 1;
}

// Shifts by a negative amount or by more than 63 give 0. Narrower types are shifted as 64-bit numbers, then
// wrapped.
static inline uint64_t num_shl_u64(uint64_t a, uint64_t b)
{
    return b > 63 ? 0 : a << b;
}

static inline int64_t num_shl_i64(int64_t a, int64_t b)
{
    return b < 0 ? 0 : (int64_t)num_shl_u64((uint64_t)a, (uint64_t)b);
}

static inline uint64_t num_shr_u64(uint64_t a, uint64_t b)
{
    return b > 63 ? 0 : a >> b;
}

// Arithmetic: copies of the sign come in.
static inline int64_t num_shr_i64(int64_t a, int64_t b)
{
    if (b < 0 || b > 63)
        return 0;
    return a < 0 ? (int64_t) ~(~(uint64_t)a >> b) : (int64_t)((uint64_t)a >> b);
}

// c + the four products of the lowest bytes of a (unsigned) with those of b (signed).
static inline uint64_t num_dot8(uint64_t a, uint64_t b, uint64_t c)
{
    for (uint32_t shift = 0; shift < 32; shift += 8) {
        const uint64_t y = b >> shift & 255;
        c += (a >> shift & 255) * (y - (y >> 7 << 8));
    }
    return c;
}

static inline uint64_t num_sat16(uint64_t v)
{
    const int64_t x = (int64_t)v;
    return x > INT16_MAX ? (uint64_t)INT16_MAX : x < INT16_MIN ? (uint64_t)INT16_MIN : v;
}

// The halves of c + two such products each, which together saturate.
static inline uint64_t num_pair8(uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t low = num_sat16(num_dot8(a & 0xffff, b, 0));
    const uint64_t high = num_sat16(num_dot8(a >> 16 & 0xffff, b >> 16, 0));
    return ((c + low) & 0xffff) | (((c >> 16) + high) & 0xffff) << 16;
}

// Bits 0 to 15 or 16 to 31 as a signed number, modulo 2^64.
static inline uint64_t num_half(uint64_t a, uint32_t is_upper)
{
    const uint64_t half = a >> 16 * is_upper & 65535;
    return half - (half >> 15 << 16);
}

static inline uint64_t num_dot16(uint64_t a, uint64_t b, uint64_t c)
{
    return c + num_half(a, 0) * num_half(b, 0) + num_half(a, 1) * num_half(b, 1);
}

// The halves of a + bytes 0 and 2 of b as signed numbers.
static inline uint64_t num_add_bytes(uint64_t a, uint64_t b)
{
    const uint64_t low = b & 255, high = b >> 16 & 255;
    return ((a + low - (low >> 7 << 8)) & 65535) | ((((a >> 16) + high - (high >> 7 << 8)) & 65535) << 16);
}

static inline int64_t num_sat8_i64(int64_t a)
{
    return a < -128 ? -128 : a > 127 ? 127 : a;
}

static inline uint64_t num_sat8_u64(uint64_t a)
{
    return a > 127 ? 127 : a;
}

static inline int64_t num_sat16_i64(int64_t a)
{
    return a < -32768 ? -32768 : a > 32767 ? 32767 : a;
}

static inline uint64_t num_sat16_u64(uint64_t a)
{
    return a > 32767 ? 32767 : a;
}

static inline int64_t num_satu8_i64(int64_t a)
{
    return a < 0 ? 0 : a > 255 ? 255 : a;
}

static inline uint64_t num_satu8_u64(uint64_t a)
{
    return a > 255 ? 255 : a;
}

// The upper or the lower one of two bf16 that an f32 holds.
static inline float num_half_of(double pair, bool is_upper)
{
    const float f = (float)pair;
    float half;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits = is_upper ? bits & 0xffff0000u : bits << 16;
    memcpy(&half, &bits, sizeof half);
    return half;
}

static inline double num_dot_bf16(double a, double b, double c)
{
    const float upper = fmaf(num_half_of(a, true), num_half_of(b, true), (float)c);
    return (double)fmaf(num_half_of(a, false), num_half_of(b, false), upper);
}

static inline double num_pair_bf16(double a, double b)
{
    const float f = (float)a, g = (float)b;
    float pair;
    uint32_t lower, upper;
    memcpy(&lower, &f, sizeof lower);
    memcpy(&upper, &g, sizeof upper);
    upper = (upper & 0xffff0000u) | lower >> 16;
    memcpy(&pair, &upper, sizeof pair);
    return (double)pair;
}

#define K_INT(name, a, b) _Generic((a), int64_t : num_##name##_i64, uint64_t : num_##name##_u64)((a), (b))
#define num_div(a, b)     K_INT(div, a, b)
#define num_rem(a, b)     K_INT(rem, a, b)
#define num_mod(a, b)     K_INT(mod, a, b)
#define num_ipow(a, b)    K_INT(ipow, a, b)
#define num_shl(a, b)     K_INT(shl, a, b)
#define num_shr(a, b)     K_INT(shr, a, b)
#define num_sat8(a)       _Generic((a), int64_t : num_sat8_i64, uint64_t : num_sat8_u64)(a)
#define num_sat16(a)      _Generic((a), int64_t : num_sat16_i64, uint64_t : num_sat16_u64)(a)
#define num_satu8(a)      _Generic((a), int64_t : num_satu8_i64, uint64_t : num_satu8_u64)(a)

#endif
