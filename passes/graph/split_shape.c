// SPDX-License-Identifier: Apache-2.0
// Shapes that split the axes of others; see split_shape.h. Norms over groups and attention in windows ask
// for them.
#include "passes/graph/split_shape.h"

#include "passes/graph/fold.h"

bool split_shapes(const Shape *a, const Shape *b, Shape *out, uint32_t *end_a, uint32_t *end_b)
{
    uint32_t i = 0, j = 0;
    Dim left_a = a->rank > 0 ? a->dim[0] : 1, left_b = b->rank > 0 ? b->dim[0] : 1;
    *out = (Shape){0};
    while (i < a->rank && j < b->rank) {
        const Dim d = left_a < left_b ? left_a : left_b;
        if (d < 1 || out->rank == SHAPE_MAX_RANK || left_a % d != 0 || left_b % d != 0)
            return false;
        out->dim[out->rank++] = d;
        left_a /= d;
        left_b /= d;
        if (left_a == 1) {
            end_a[i++] = out->rank;
            left_a = i < a->rank ? a->dim[i] : 1;
        }
        if (left_b == 1) {
            end_b[j++] = out->rank;
            left_b = j < b->rank ? b->dim[j] : 1;
        }
    }
    return i == a->rank && j == b->rank;
}

NodeId split_weight(Graph *g, NodeId id, const Shape *whole, const Shape *fine, const uint32_t *end)
{
    const Shape *s = graph_node(g, id)->shape;
    Shape own = {.rank = fine->rank};
    if (s->rank > whole->rank)
        return 0;
    for (uint32_t i = 0, k = 0; i < whole->rank; i++) {
        const int64_t at = (int64_t)i - (whole->rank - s->rank);
        const bool varies = at >= 0 && s->dim[at] != 1;
        for (; k < end[i]; k++)
            own.dim[k] = varies ? fine->dim[k] : 1;
    }
    return fold_node(g, graph_reshape(g, id, &own));
}
