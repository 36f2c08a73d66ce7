// SPDX-License-Identifier: Apache-2.0
// What kernels of GPUs take of convolutions of bytes.
#include "passes/units.h"
#include "ir/graph/tensor.h"

enum { LEAST_RANK = 3, MOST_RANK = 5, LEAST_COLUMNS = 8 };

static bool are_bytes(const Shape *shape, const int32_t *weights)
{
    const int64_t n = weights != NULL ? shape_numel(shape) : 0;
    return n > 0 && tensor_byte_type(weights, n) != DTYPE_i16;
}

bool units_take_bytes(const TargetCaps *caps, const Shape *shape, int64_t group, const int32_t *weights)
{
    rlx_assert(group >= 1);
    return caps->has_mma && shape->rank >= LEAST_RANK && shape->rank <= MOST_RANK &&
           shape->dim[0] / group >= (group > 1 ? LEAST_COLUMNS : 2) && are_bytes(shape, weights);
}

bool units_take_depthwise(const TargetCaps *caps, const Shape *shape, int64_t group, const int32_t *weights)
{
    rlx_assert(group >= 1);
    return caps->is_gpu && caps->shared_bytes != 0 && group > 1 && shape->rank >= LEAST_RANK &&
           shape->rank < MOST_RANK && group * UNITS_MOST_OUTPUTS % shape->dim[0] == 0 && shape->dim[1] == 1 &&
           shape_numel(shape) <= shape->dim[0] * UNITS_MOST_TAPS && are_bytes(shape, weights);
}
