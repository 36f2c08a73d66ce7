// SPDX-License-Identifier: Apache-2.0
// Hidden values and weights of lstm_tiles.c as 16-bit numbers. Beside 16-bit weights, a hidden value is two
// numbers of their type, the second of which is what the first one lacks. f32 is split into such numbers of
// f16, weights too, where these stay in registers: both are scaled, so that all bits of what is not tiny
// (2^-13 of weights, 2^-16 of hidden values) are kept. What f16 does not hold makes sums NaN, which are then
// made of the exact values.
#include "ir/kernel/device.h"
#include "passes/lower/ops/lstm_tiles.h"

#include <math.h>

static const double hidden_scale = 0x1p11, weight_scale = 0x1p8; // below 32 and 256
static const float most_weight = 0x1p7F;
static const double largest = 65504; // of f16

double rnn_split_factor(void)
{
    return 1 / (hidden_scale * weight_scale);
}

// Weights that f16 holds; of those that are no constants nobody knows.
static bool are_small(const Lower *l, NodeId id)
{
    const Node *n = lower_node(l, id);
    if (!node_is_const(l->g, id))
        return true;
    const float *data = node_attr(n, A_const_data)->u.blob;
    for (int64_t i = 0; i < shape_numel(n->shape); i++)
        if (!(data[i] <= most_weight && data[i] >= -most_weight))
            return false;
    return true;
}

bool rnn_may_split(const Lower *l, const Lstm *m)
{
    return lower_node(l, m->x)->dtype == DTYPE_f32 && m->sums != 0 && !m->is_relu && are_small(l, m->r);
}

// What a single number of f16 does not hold is NaN there. Of two, both are infinite then, with other signs.
static KRef held(const Tiles *n, KRef value)
{
    Kernel *k = n->k;
    if (n->planes > 1)
        return value;
    const KRef fits = k_and(k, k_le(k, k_number(k, DTYPE_f32, -largest), value),
                            k_le(k, value, k_number(k, DTYPE_f32, largest)));
    return k_select(k, fits, value, k_number(k, DTYPE_f32, (double)NAN));
}

void rnn_store_hidden(const Tiles *n, KRef which, KRef entry, KRef unit, KRef value)
{
    Kernel *k = n->k;
    const KRef index = rnn_hidden_index(n, which, entry, unit);
    if (n->s.is_split) {
        k_store(k, n->exact, rnn_exact_index(n, which, entry, unit), value, 1);
        value = held(n, k_mul(k, value, k_number(k, DTYPE_f32, hidden_scale)));
    }
    const KRef first = k_cast(k, value, n->type);
    k_store(k, n->hidden, index, first, 1);
    if (n->planes > 1)
        k_store(k, n->hidden, k_expr(k, "$ + #", index, n->padded),
                k_cast(k, lstm_rest(k, value, first, 1), n->type), 1);
}

// Element `from` of a row of f32 at `base`, scaled; 0 behind its end.
static KRef scaled_weight(const Tiles *n, NodeId id, KRef base, KRef from)
{
    Kernel *k = n->k;
    const Node *node = lower_node(n->l, id);
    const uint32_t last = node->shape->rank - 1;
    const KRef is_in = k_expr(k, "$ < #", from, node->shape->dim[last]);
    const KRef index = k_expr(k, "$ + $ * #", base, k_select(k, is_in, from, k_index(k, 0)),
                              lower_loc(n->l, id)->stride[last]);
    const KRef value = operand_scalar(n->l, id, index, DTYPE_f32), zero = k_number(k, DTYPE_f32, 0);
    return k_select(k, is_in, k_mul(k, value, k_number(k, DTYPE_f32, weight_scale)), zero);
}

void rnn_fetch_split(const Tiles *n, NodeId id, const KRef *place, KRef to, KRef at, int64_t low)
{
    Kernel *k = n->k;
    for (int64_t i = 0; i < TILE_PIECE; i++) {
        KRef first[2], rest[2];
        for (int64_t j = 0; j < 2; j++) {
            const KRef from = k_expr(k, "$ + #", place[1], 2 * i + j);
            const KRef value = held(n, scaled_weight(n, id, place[0], from));
            first[j] = k_cast(k, k_cast(k, value, DTYPE_f16), DTYPE_f32);
            rest[j] = lstm_rest(k, value, first[j], 1);
        }
        k_astore(k, to, k_expr(k, "$ + #", at, i), k_call(k, KDEV_pack_f16, first[0], first[1], 0));
        if (n->planes > 1)
            k_astore(k, to, k_expr(k, "$ + #", at, low + i), k_call(k, KDEV_pack_f16, rest[0], rest[1], 0));
    }
}
