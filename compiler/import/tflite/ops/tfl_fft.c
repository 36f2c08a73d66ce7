// SPDX-License-Identifier: Apache-2.0
// RFFT2D and what reads its result. A tensor of complex numbers is one of f32 with one axis more, the real
// and the imaginary part of each number.
#include "compiler/import/dft.h"
#include "compiler/import/tflite/tfl_import.h"

static bool spend(void *node, uint64_t elements)
{
    return tfl_spend(node, elements);
}

static void refuse(void *node, const char *reason)
{
    tfl_fail(node, E0206, "%s", reason);
}

static NodeId along(TflNode *n, NodeId x, uint32_t axis, int64_t points, bool is_onesided)
{
    if (n->failed)
        return 0;
    const DftReader reader = {n->graph, n->span, n->label, n, spend, refuse};
    const NodeId y = dft_along(&reader, x, axis, points, (DftKind){false, is_onesided});
    n->failed = y == 0;
    return y;
}

// The last two axes, cut or filled with zeros to the lengths: rows of reals, then columns.
void tfl_import_rfft2d(TflNode *n)
{
    int64_t length[TFL_MAX_LIST];
    uint32_t count = 0;
    const NodeId x = tfl_src(n, 0);
    Shape s = *tfl_shape(n, x);
    if (!tfl_src_ints(n, 1, length, &count))
        return;
    if (count != 2 || length[0] < 1 || length[1] < 1)
        tfl_fail(n, E0203, "the lengths must be two positive numbers");
    if (!n->failed && (s.rank < 2 || s.rank >= SHAPE_MAX_RANK || tfl_type(n, x) != DTYPE_f32))
        tfl_fail(n, E0204, "the operand must be f32 with 2 to %d axes", SHAPE_MAX_RANK - 1);
    if (n->failed)
        return;
    s.dim[s.rank++] = 1;
    NodeId y = along(n, tfl_reshape_like(n, x, &s), s.rank - 2, length[1], true);
    if (!n->failed && (length[0] != 1 || s.dim[s.rank - 3] != 1))
        y = along(n, y, s.rank - 3, length[0], false);
    tfl_out_complex(n, 0, y);
}

// One part of each number, without its axis.
static NodeId part(TflNode *n, uint32_t index)
{
    const NodeId x = tfl_src_complex(n, 0);
    Shape s = *tfl_shape(n, x);
    if (n->failed)
        return 0;
    s.rank--;
    return tfl_reshape_like(n, tfl_slice(n, x, s.rank, index, (int64_t)index + 1, 1), &s);
}

void tfl_import_real(TflNode *n)
{
    tfl_out(n, 0, part(n, 0));
}

void tfl_import_imag(TflNode *n)
{
    tfl_out(n, 0, part(n, 1));
}

void tfl_import_complex_abs(TflNode *n)
{
    const NodeId x = tfl_src_complex(n, 0);
    const int64_t last = (int64_t)tfl_rank(n, x) - 1;
    const NodeId sum = tfl_reduce(n, OP_reduce_sum, tfl_op2(n, OP_mul, x, x), &last, 1, false);
    tfl_out(n, 0, tfl_op1(n, OP_sqrt, sum));
}
