// SPDX-License-Identifier: Apache-2.0
// What the generators of structural ops share, and the tables by kind of op. Private to random_*.c.
#ifndef TESTS_E2E_RANDOM_OPS_H
#define TESTS_E2E_RANDOM_OPS_H

#include "random_graph.h"

extern const GenOp gen_compute_ops[], gen_move_ops[], gen_table_ops[];
extern const uint32_t gen_n_compute_ops, gen_n_move_ops, gen_n_table_ops;

static inline NodeBuild gen_begin(Gen *e, OpId op)
{
    return node_begin(e->g, op, (Span){0}, NULL);
}

#endif
