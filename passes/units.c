// SPDX-License-Identifier: Apache-2.0
// What matrix units of GPUs take.
#include "passes/units.h"
#include "ir/graph/tensor.h"

enum { LEAST_RANK = 3, MOST_RANK = 5, LEAST_COLUMNS = 8 };

bool units_take_bytes(const TargetCaps *caps, const Shape *shape, int64_t group, const int32_t *weights)
{
    rlx_assert(group >= 1);
    if (!caps->has_mma || weights == NULL || shape->rank < LEAST_RANK || shape->rank > MOST_RANK)
        return false;
    const int64_t n = shape_numel(shape);
    return n > 0 && shape->dim[0] / group >= LEAST_COLUMNS && tensor_byte_type(weights, n) != DTYPE_i16;
}
