// SPDX-License-Identifier: Apache-2.0
// Products of types that have no vectors here (f64, integers of 32 and 64 bits) on CPUs, in a form that C
// compilers turn into vectors.
#ifndef PASSES_LOWER_PRODUCT_PANELS_H
#define PASSES_LOWER_PRODUCT_PANELS_H

#include "passes/lower/product/matmul.h"

// False: it is not of that form.
bool panels_lower(Lower *l, const Matmul *x);

#endif
