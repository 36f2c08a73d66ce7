// SPDX-License-Identifier: Apache-2.0
// What the generated code takes from <math.h>: instructions of WebAssembly, and functions. Another model
// may need more of these: the linker names them, and they go here and into libm.c.
#ifndef MATH_H
#define MATH_H
#define sqrtf __builtin_sqrtf
#define fabsf __builtin_fabsf
#define floorf __builtin_floorf
#define ceilf __builtin_ceilf
#define truncf __builtin_truncf
#define rintf __builtin_rintf
float expf(float x);
#endif
