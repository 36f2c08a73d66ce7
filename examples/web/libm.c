// SPDX-License-Identifier: Apache-2.0
// The one function of libm that the network needs (for its softmax): a bare WebAssembly module has no C
// library.
#include <math.h>

// 2^k * e^r with |r| <= ln(2) / 2, by the first nine terms of its series in double. One result in 50000 is
// the neighbour of the nearest float.
float expf(float x)
{
    if (!(x > -104.0f))
        return x < 0.0f ? 0.0f : x; // too small, or no number
    if (x > 88.8f)
        return __builtin_inff();
    const double k = __builtin_rint(x * 1.4426950408889634), r = x - k * 0.6931471805599453;
    double sum = 1.0;
    for (int n = 8; n > 0; n--)
        sum = 1.0 + sum * r / n;
    const union {
        unsigned long long bits;
        double value;
    } power = {(unsigned long long)(1023 + (long long)k) << 52};
    return (float)(sum * power.value);
}
