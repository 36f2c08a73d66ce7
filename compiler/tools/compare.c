// SPDX-License-Identifier: Apache-2.0
// See compare.h.
#include "compiler/tools/compare.h"
#include "base/diag.h"
#include "base/str.h"
#include <math.h>
#include <string.h>

Difference compare_tensors(const Tensor *got, const Tensor *want)
{
    rlx_assert(compare_shapes(got, want));
    Difference d = {.at = -1};
    for (int64_t i = 0; i < want->numel; i++) {
        const double a = tensor_get_f64(got, i), b = tensor_get_f64(want, i);
        if (isfinite(b) && fabs(b) > d.largest)
            d.largest = fabs(b);
        if ((isnan(a) && isnan(b)) || a == b)
            continue;
        const double error = fabs(a - b);
        if (!isfinite(a) || !isfinite(b)) {
            d.is_special = true;
            d.at = i;
        } else if (error > d.error) {
            d.error = error;
            d.at = d.is_special ? d.at : i;
        }
    }
    d.relative = d.error == 0 ? 0 : d.largest > 0 ? d.error / d.largest : HUGE_VAL;
    return d;
}

bool compare_shapes(const Tensor *got, const Tensor *want)
{
    return got->rank == want->rank && memcmp(got->dim, want->dim, want->rank * sizeof *want->dim) == 0;
}

// Two roundings of a 16-bit type are more than the tolerance of f32.
double compare_tolerance(DType t)
{
    return t == DTYPE_f16 ? 2e-3 : t == DTYPE_bf16 ? 2e-2 : 1e-4;
}

bool compare_read_tolerance(Diag *d, const char *given, double *unset)
{
    *unset = -1;
    if (given == NULL || (str_parse_f64(given, strlen(given), unset) && *unset >= 0))
        return true;
    return diag_error(d, (Span){0}, E0003, "--tolerance %s: expected a number that is not negative", given);
}
