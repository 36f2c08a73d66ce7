// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: floats in fewer bits, for calls that convert.
#ifndef RLX_NUMBERS_H
#define RLX_NUMBERS_H

#include "rlx.h"

#ifdef __cplusplus
extern "C" {
#endif

// The bits of a float of `exponent` bits of exponent and `mantissa` bits of fraction (IEEE 754 layout) that
// is nearest to v.
static inline uint32_t rlx_narrow(double v, int exponent, int mantissa)
{
    const uint64_t inf = ((UINT64_C(1) << exponent) - 1u) << mantissa;
    uint64_t bits, m, r;
    uint32_t sign;
    int e, shift = 52 - mantissa;
    memcpy(&bits, &v, sizeof bits);
    sign = (uint32_t)(bits >> 63) << (exponent + mantissa);
    bits &= UINT64_C(0x7fffffffffffffff);
    if (bits > UINT64_C(0x7ff0000000000000))
        return sign | (uint32_t)inf | UINT32_C(1) << (mantissa - 1);
    e = (int)(bits >> 52) - 1023 + (1 << (exponent - 1)) - 1; // the exponent field of the result
    m = (bits & UINT64_C(0xfffffffffffff)) | UINT64_C(1) << 52;
    if (e < 1) { // subnormal: the fraction moves down instead
        shift += 1 - e;
        e = 1;
    }
    if (shift > 53 || bits >> 52 == 0) // less than half of the smallest
        return sign;
    m = (m + (UINT64_C(1) << (shift - 1)) - 1u + (m >> shift & 1u)) >> shift;
    r = ((uint64_t)(e - 1) << mantissa) + m; // the leading one of m adds 1 to the exponent
    return sign | (uint32_t)(r < inf ? r : inf);
}

static inline int rlx_is_float(rlx_dtype t)
{
    return t == RLX_F32 || t == RLX_F16 || t == RLX_BF16 || t == RLX_F64;
}

#ifdef __cplusplus
}
#endif

#endif
