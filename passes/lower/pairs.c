// SPDX-License-Identifier: Apache-2.0
// Copies of values as f32 or in pairs of bf16; see pairs.h.
#include "passes/lower/pairs.h"

bool pairs_are_fast(const TargetCaps *caps)
{
    return caps->has_dot_bf16 && 2 * caps->cpu.pairs_per_cycle > caps->cpu.fma_per_cycle;
}

// unit: elements of a pair.
static int64_t place(const Lower *l, NodeId id, uint32_t axis, bool in_pairs, int64_t unit, Loc *loc)
{
    const Shape *s = lower_node(l, id)->shape;
    int64_t stride = in_pairs ? ceil_div(s->dim[axis], 2) * unit : s->dim[axis];
    rlx_assert(axis < s->rank);
    loc->stride[axis] = 1;
    for (uint32_t i = s->rank; i-- > 0;)
        if (i != axis) {
            loc->stride[i] = stride;
            stride *= s->dim[i];
        }
    return stride;
}

int64_t pairs_place(const Lower *l, NodeId id, uint32_t axis, bool in_pairs, Loc *loc)
{
    rlx_assert(id != 0 && loc != NULL);
    return place(l, id, axis, in_pairs, 1, loc);
}

typedef struct Copying {
    NodeId id;
    uint32_t to;
    Loc loc; // of the copy
} Copying;

static void copy_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Copying *c = ctx;
    Kernel *k = l->k;
    KRef from = k_index(k, 0), to = k_index(k, 0);
    for (uint32_t i = 0; i < d->rank; i++) {
        from = k_expr(k, "$ * # + $", at.idx[i], lower_loc(l, c->id)->stride[i], from);
        to = k_expr(k, "$ * # + $", at.idx[i], c->loc.stride[i], to);
    }
    const KRef value = k_load(k, lower_param(l, c->id, PARAM_READ), from, at.lanes, at.count);
    k_store(k, c->to, to, k_cast(k, value, k->params.data[c->to].dtype), at.count);
}

// Zeros behind the last element of each row, which has no other of its pair.
static void clear_rests(Lower *l, const Copying *c, int64_t rows, int64_t pitch)
{
    Kernel *k = l->k;
    const KRef i = k_loop(k, rows, KFOR_PARALLEL, "r");
    k_store(k, c->to, k_expr(k, "$ * # + #", i, pitch, pitch - 1), k_number(k, DTYPE_bf16, 0), 1);
    k_end(k);
}

uint32_t pairs_copy(Lower *l, NodeId id, uint32_t axis, bool in_pairs)
{
    const Shape *s = lower_node(l, id)->shape;
    rlx_assert(axis < s->rank);
    Copying c = {.id = id};
    const int64_t n = place(l, id, axis, in_pairs, 2, &c.loc), all = in_pairs ? n / 2 : n;
    const uint32_t copy = lower_param_scratch(l, "rows", DTYPE_f32, (uint64_t)(all > 0 ? all : 1));
    const uint32_t along = lower_loc(l, id)->stride[axis] == 1 ? axis : s->rank - 1;
    const bool is_vector = lower_loc(l, id)->stride[along] == 1 && c.loc.stride[along] == 1;
    c.to = in_pairs ? lower_param_view(l, copy, DTYPE_bf16) : copy;
    Domain d = domain_of(s);
    domain_trim(l, &d, id);
    Point at = {.lanes = 1, .count = 1};
    uint32_t opened = 0;
    for (uint32_t i = 0; i < d.rank; i++)
        opened += i == along ? 0 : lower_open_axis(l, &d, i, KFOR_PARALLEL, &at);
    lower_along(l, &d, along, is_vector ? lower_fit_lanes(l, s->dim[along]) : 1, at, copy_point, &c);
    lower_close(l, opened);
    if (in_pairs && s->dim[axis] % 2 != 0 && n > 0)
        clear_rests(l, &c, n / (s->dim[axis] + 1), s->dim[axis] + 1);
    k_barrier(l->k);
    return copy;
}
