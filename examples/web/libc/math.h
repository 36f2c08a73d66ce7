// SPDX-License-Identifier: Apache-2.0
// What the generated code of this model takes from <math.h>. Another model may need more functions: the
// linker names them, and they go here and into libm.c.
#ifndef MATH_H
#define MATH_H
float expf(float x);
#endif
