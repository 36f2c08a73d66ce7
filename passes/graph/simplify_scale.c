// SPDX-License-Identifier: Apache-2.0
// See simplify_scale.h.
#include "passes/graph/simplify_scale.h"

#include <math.h>

NodeId scaled_value(const Graph *g, NodeId id, double *factor)
{
    const double least = 1.0 / 65536, most = 1; // by more, a 16-bit operand may become infinite
    const Node *n = graph_node(g, id);
    for (uint32_t i = 0; n->op == OP_mul && i < 2; i++) {
        const Node *of = graph_node(g, n->src[1 - i]);
        if (node_is_scalar_const(g, n->src[i], factor) && of->shape == n->shape && of->dtype == n->dtype &&
            fabs(*factor) >= least && fabs(*factor) <= most)
            return n->src[1 - i];
    }
    return 0;
}
