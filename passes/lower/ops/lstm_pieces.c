// SPDX-License-Identifier: Apache-2.0
// Pieces of inputs and weights for lstm_group.c.
#include "passes/lower/ops/lstm_group.h"

KRef net_unit_of(const Net *n, KRef block)
{
    return k_expr(n->k, "($ * # + $) * # + $", n->rank, n->s.blocks, block, n->s.teams, n->team);
}

KRef net_real_unit(const Net *n, KRef unit)
{
    return units_of(&n->s) == n->m->hidden ? unit : k_expr(n->k, "min($, #)", unit, n->m->hidden - 1);
}

// Can PIECE elements of the last axis be read at once, wherever they begin?
static bool has_pieces(const Net *n, NodeId id)
{
    const Node *node = lower_node(n->l, id);
    const Loc *loc = lower_loc(n->l, id);
    const uint32_t last = node->shape->rank - 1, bytes = dtype_info[node->dtype].bytes;
    bool is_even = loc->stride[last] == 1 && node->shape->dim[last] % PIECE == 0 &&
                   k_fetch_width(node->dtype) >= PIECE &&
                   lower_alignment(n->l, loc, (DType)node->dtype) >= PIECE * bytes;
    for (uint32_t i = 0; i < last; i++)
        is_even = is_even && (node->shape->dim[i] == 1 || loc->stride[i] % PIECE == 0);
    return is_even;
}

// PIECE elements of a row that begins at `base`, from `from` on, to[at ...] in the type of sums; zeros behind
// the last one.
void net_fetch_piece(const Net *n, NodeId id, KRef base, KRef from, KRef to, KRef at)
{
    Kernel *k = n->k;
    Lower *l = n->l;
    const Node *node = lower_node(l, id);
    const int64_t size = node->shape->dim[node->shape->rank - 1];
    const int64_t step = lower_loc(l, id)->stride[node->shape->rank - 1];
    const uint32_t param = lower_param(l, id, PARAM_READ);
    const bool is_whole = has_pieces(n, id), may_end = size % (PIECE * n->s.lanes) != 0;
    const KRef values = is_whole ? k_array(k, (int)k->params.data[param].dtype, PIECE) : 0;
    const KRef zero = k_number(k, n->m->type, 0);
    if (is_whole) {
        const KRef first = may_end ? k_select(k, k_expr(k, "$ < #", from, size), from, k_index(k, 0)) : from;
        k_fetch(k, param, k_add(k, base, first), values, k_index(k, 0), PIECE);
    }
    for (int64_t i = 0; i < PIECE; i++) {
        const KRef place = k_expr(k, "$ + #", from, i), is_in = k_expr(k, "$ < #", place, size);
        const KRef real = may_end ? k_select(k, is_in, place, k_index(k, 0)) : place;
        const KRef v = is_whole ? k_cast(k, k_aload(k, values, k_index(k, i), 1), n->m->type)
                                : operand_scalar(l, id, k_expr(k, "$ * # + $", real, step, base), n->m->type);
        k_astore(k, to, k_expr(k, "$ + #", at, i), may_end ? k_select(k, is_in, v, zero) : v);
    }
}

// Where a piece of the thread begins.
KRef net_piece_place(const Net *n, KRef piece)
{
    return k_expr(n->k, "($ * # + $) * #", piece, n->s.lanes, n->lane, PIECE);
}

// Of hidden values: has a sum of the phase the gate?
static bool is_gate_of(const Net *n, int64_t gate, bool is_hidden)
{
    for (int64_t s = 0; s < n->m->cell->sums && is_hidden; s++)
        if (lstm_gate(n->m, s, true) == gate)
            return lstm_in_phase(n->m, s, n->at.phase) || n->at.phase == NO_PHASE;
    return true;
}

// Weights of a unit for a piece of the thread: by gate.
void net_fetch_weights(const Net *n, NodeId id, KRef unit, KRef piece, KRef to, KRef at)
{
    Kernel *k = n->k;
    for (int64_t g = 0; g < lstm_gates(n->m); g++) {
        if (!is_gate_of(n, g, id == n->m->r))
            continue;
        const KRef row = k_expr(k, "# + $", g * n->m->hidden, net_real_unit(n, unit));
        const KRef idx[3] = {n->at.dir, row, k_index(k, 0)};
        net_fetch_piece(n, id, operand_index(n->l, id, idx), net_piece_place(n, piece), to,
                    k_expr(k, "$ + #", at, g * PIECE));
    }
}
