// SPDX-License-Identifier: Apache-2.0
// Convolutions of bf16 on CPUs that multiply pairs of them: the image is copied as pairs of channels, and
// the tiles take these for elements. Images are f32 that were cast from bf16, so nothing is lost.
// Accumulation: as for f32, but channels two at a time in the order of KOP_dot_bf16.
#include "passes/lower/conv/conv.h"
#include "passes/lower/halves.h"
#include "passes/lower/pairs.h"

// Products that an element of the image is part of, from which the copy takes less time than it saves.
enum { MIN_PRODUCTS = 64 };

bool conv_is_of_bf16(const Graph *g, const Node *n)
{
    if (n->dtype != DTYPE_f32 || g->reads != NULL || !node_is_const(g, n->src[1]) ||
        !halves_come_from(g, n->src[0], DTYPE_bf16))
        return false;
    const Node *w = graph_node(g, n->src[1]);
    return halves_type(DTYPE_f32, node_attr(w, A_const_data)->u.blob, shape_numel(w->shape)) == DTYPE_bf16;
}

bool conv_takes_pairs(const Lower *l, const Conv *c)
{
    const TileShape *s = &c->s;
    const Shape *x = lower_node(l, c->x)->shape;
    const double pixels = (double)(s->n * tile_outer_points(s) * s->h * s->w),
                 products = pixels * (double)(tile_steps(s) * s->oc * c->group),
                 elements = (double)shape_numel(x);
    return pairs_are_fast(l->caps) && l->strip.window == NULL && !lower_goes_by_rows(l) && c->shuffle == 1 &&
           c->stride_c == 1 && s->ic > 1 && s->ic * c->group == x->dim[1] &&
           (c->group == 1 || s->ic % 2 == 0) && lower_fit_lanes(l, s->oc) >= 4 && elements > 0 &&
           products >= MIN_PRODUCTS * elements && conv_is_of_bf16(l->g, lower_node(l, l->anchor));
}

uint32_t conv_pair_image(Lower *l, const Conv *c)
{
    rlx_assert(c->has_pairs && c->s.paired == 0);
    return pairs_copy(l, c->x, 1, true);
}

void conv_read_pairs(const Lower *l, Conv *c)
{
    Loc loc = *lower_loc(l, c->x);
    const uint32_t last = lower_node(l, c->x)->shape->rank - 1;
    rlx_assert(c->stride_c == 1 && last >= 2);
    pairs_place(l, c->x, 1, true, &loc);
    c->stride_n = loc.stride[0];
    c->stride_h = last > 2 ? loc.stride[last - 1] : 0;
    c->stride_w = loc.stride[last];
    for (uint32_t i = 0; i < c->s.n_outer; i++)
        c->stride_outer[i] = loc.stride[i + 2];
    c->s.paired = c->s.ic;
    c->s.ic = ceil_div(c->s.ic, 2);
}
