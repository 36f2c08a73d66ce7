// SPDX-License-Identifier: Apache-2.0
// update_slice: writes a patch into a copy of operand 0, or, where the result lives in operand 0's own bytes
// (a state that is updated in place), only the patch. Where the patch begins is read at run time and clamped.
#include "passes/lower/operand.h"
#include "passes/lower/wide.h"

typedef struct Update {
    NodeId x, patch, start;
    const Shape *whole, *part;
    NodeId sizes;        // 0: the whole patch counts
    const AttrVal *axes; // those that sizes has entries for
} Update;

// Elements of the patch that count along an axis: a constant, or read at run time.
static bool is_cut(const Update *u, uint32_t axis, uint32_t *entry)
{
    for (*entry = 0; *entry < u->axes->len; ++*entry)
        if (u->axes->u.ints[*entry] == axis)
            return true;
    return false;
}

static KRef patch_size(Lower *l, const Update *u, uint32_t axis)
{
    uint32_t entry = 0;
    if (!is_cut(u, axis, &entry))
        return k_index(l->k, u->part->dim[axis]);
    const KRef at = k_index(l->k, entry);
    return operand_clamped(l, u->sizes, operand_index(l, u->sizes, &at), 0, u->part->dim[axis]);
}

// Patch coordinates begin at `first` on every axis.
static void load_starts(Lower *l, const Update *u, KRef *first)
{
    const Shape *s = lower_node(l, u->start)->shape;
    for (uint32_t i = 0; i < u->whole->rank; i++) {
        uint32_t cut = 0;
        const bool is_part = is_cut(u, i, &cut);
        const int64_t room = u->whole->dim[i] - (is_part ? 0 : u->part->dim[i]);
        const KRef entry = k_index(l->k, i);
        first[i] = k_index(l->k, 0);
        if (room <= 0 || (s->rank == 0 && i != 0))
            continue;
        first[i] =
            operand_clamped(l, u->start, s->rank == 1 ? operand_index(l, u->start, &entry) : entry, 0, room);
        if (is_part)
            first[i] = k_expr(l->k, "min($, # - $)", first[i], room, patch_size(l, u, i));
    }
}

static void patch_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Update *u = ctx;
    KRef first[SHAPE_MAX_RANK], idx[SHAPE_MAX_RANK];
    load_starts(l, u, first);
    for (uint32_t i = 0; i < d->rank; i++)
        idx[i] = k_add(l->k, at.idx[i], first[i]);
    const KRef value = operand_load(l, u->patch, operand_index(l, u->patch, at.idx), &at, 1);
    operand_store(l, lower_param(l, l->root, PARAM_WRITE), operand_index(l, l->root, idx), value, &at);
}

// Loops over the axes [0, n) of the patch, which end where it does.
static uint32_t open_axes(Lower *l, const Update *u, const Domain *d, uint32_t n, Point *at)
{
    uint32_t opened = 0, entry = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!is_cut(u, i, &entry)) {
            opened += lower_open_axis(l, d, i, KFOR_PARALLEL, at);
            continue;
        }
        at->idx[i] = k_for(l->k, k_index(l->k, 0), patch_size(l, u, i), 1, KFOR_SERIAL, "i");
        opened++;
    }
    return opened;
}

// Updates where the last axis is cut as well, or other axes: element by element along the last one.
static void update_part(Lower *l, Update *u, const Domain *d, uint8_t lanes)
{
    const uint32_t last = d->rank - 1;
    uint32_t entry = 0;
    Point at = {.lanes = 1, .count = 1};
    const bool is_last_cut = is_cut(u, last, &entry);
    const uint32_t opened = open_axes(l, u, d, is_last_cut ? d->rank : last, &at);
    if (is_last_cut)
        patch_point(l, d, at, u);
    else
        lower_along(l, d, last, lanes, at, patch_point, u);
    lower_close(l, opened);
}

// On a grid, whose sizes are constant: goes on only for elements of the patch that count. Returns how much it
// has opened.
static uint32_t open_counted(Lower *l, const Update *u, const Domain *d, const Point *at)
{
    uint32_t opened = 0, entry = 0;
    for (uint32_t i = 0; i < d->rank; i++) {
        if (!is_cut(u, i, &entry))
            continue;
        k_if(l->k, k_lt(l->k, at->idx[i], patch_size(l, u, i)));
        opened++;
    }
    return opened;
}

// Rows of the patch that are whole rows of the result, in vectors.
static bool update_wide(Lower *l, const Update *u, const Domain *d)
{
    Kernel *k = l->k;
    const uint32_t last = d->rank - 1;
    uint32_t entry = 0;
    Domain of = *d;
    of.access.len = of.access.cap = 0;
    domain_add(l, &of, u->patch);
    domain_add(l, &of, l->root);
    const uint32_t from = wide_piece(l, &of, u->patch, last), to = wide_piece(l, &of, l->root, last);
    uint32_t n = from < to ? from : to;
    while (n > 1 && d->extent[last] % n != 0)
        n /= 2;
    if (!l->caps->is_gpu || l->caps->shared_bytes == 0 || n < 2 || d->live[last].size != 0 ||
        u->part->dim[last] != u->whole->dim[last] || is_cut(u, last, &entry))
        return false;
    Point at = {.lanes = 1, .count = 1};
    KRef first[SHAPE_MAX_RANK], idx[SHAPE_MAX_RANK];
    const uint32_t opened = wide_open(l, d, last, n, WIDE_GROUP, &at) + open_counted(l, u, d, &at);
    load_starts(l, u, first);
    for (uint32_t i = 0; i < d->rank; i++)
        idx[i] = k_add(k, at.idx[i], first[i]);
    const KRef array = k_array(k, lower_node(l, u->patch)->dtype, n);
    const WideSpan span = {.n = n, .piece = n};
    wide_load(l, lower_param(l, u->patch, PARAM_READ), operand_index(l, u->patch, at.idx), array, 0, span);
    wide_store(l, lower_param(l, l->root, PARAM_WRITE), operand_index(l, l->root, idx), array, 0, span);
    lower_close(l, opened);
    return true;
}

static void update_in_place(Lower *l, Update *u)
{
    const uint32_t last = u->part->rank - 1;
    Domain d = domain_of(u->part);
    domain_trim(l, &d, u->patch);
    d.is_exact = true; // the elements behind the patch are not its own
    if (shape_numel(u->part) == 0)
        return;
    const bool has_vectors =
        !l->caps->is_gpu && operand_has_vectors(l, u->patch, last) && operand_has_vectors(l, l->root, last);
    const uint8_t lanes = has_vectors ? lower_fit_lanes(l, d.extent[last]) : 1;
    Point at = {.lanes = 1, .count = 1};
    if (update_wide(l, u, &d))
        return;
    if (l->caps->is_gpu) {
        const uint32_t opened = lower_open(l, &d, d.rank, &at) + open_counted(l, u, &d, &at);
        patch_point(l, &d, at, u);
        lower_close(l, opened);
        return;
    }
    if (u->sizes != 0) {
        update_part(l, u, &d, lanes);
        return;
    }
    const uint32_t opened = lower_open(l, &d, last, &at);
    lower_along(l, &d, last, lanes, at, patch_point, u);
    lower_close(l, opened);
}

static KRef update_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Update *u = ctx;
    Kernel *k = l->k;
    KRef first[SHAPE_MAX_RANK], idx[SHAPE_MAX_RANK], inside = k_integer(k, DTYPE_bool, 1);
    const KRef old = operand_load(l, u->x, operand_index(l, u->x, at.idx), &at, 1);
    if (shape_numel(u->part) == 0)
        return old;
    load_starts(l, u, first);
    for (uint32_t i = 0; i < d->rank; i++) {
        idx[i] = k_sub(k, at.idx[i], first[i]);
        uint32_t entry = 0;
        if (u->part->dim[i] == u->whole->dim[i] && !is_cut(u, i, &entry))
            continue;
        const KRef above = k_expr(k, "0 <= $", idx[i]), below = k_lt(k, idx[i], patch_size(l, u, i));
        inside = k_expr(k, "$ & ($ & $)", inside, above, below);
    }
    const KRef value = k_var(k, old, "value");
    k_if(k, inside);
    k_set(k, value, operand_load(l, u->patch, operand_index(l, u->patch, idx), &at, 1));
    k_end(k);
    return k_get(k, value);
}

static Update update_of(const Lower *l, NodeId id)
{
    const Node *n = lower_node(l, id);
    return (Update){.x = n->src[0],
                    .patch = n->src[1],
                    .start = n->src[2],
                    .whole = lower_node(l, n->src[0])->shape,
                    .part = lower_node(l, n->src[1])->shape,
                    .sizes = n->n_src > 3 ? n->src[3] : 0,
                    .axes = node_attr(n, A_update_slice_axes)};
}

void lower_patch(Lower *l)
{
    const Update u = update_of(l, l->root);
    rlx_assert(l->strip.n_held == 0 && u.patch != 0 && u.patch >= l->anchor);
    KRef first[SHAPE_MAX_RANK];
    HeldRows held = {.id = u.patch, .param = lower_param(l, l->root, PARAM_WRITE), .base = k_index(l->k, 0)};
    load_starts(l, &u, first);
    for (uint32_t i = 0; i < u.whole->rank; i++)
        held.base = k_expr(l->k, "$ * # + $", first[i], lower_loc(l, l->root)->stride[i], held.base);
    l->root = u.patch;
    l->strip.held = &held;
    l->strip.n_held = 1;
    lower_anchor(l);
}

void lower_update_slice(Lower *l)
{
    Update u = update_of(l, l->anchor);
    rlx_assert(u.part->rank == u.whole->rank);
    uint32_t entry = 0;
    const Loc *from = lower_loc(l, u.x), *to = lower_loc(l, l->root);
    if (from->buf == to->buf && from->offset == to->offset) {
        update_in_place(l, &u);
        return;
    }
    const uint32_t inner = operand_map_axis(l);
    const bool is_whole = u.part->dim[inner] == u.whole->dim[inner] && !is_cut(&u, inner, &entry);
    const bool has_vectors =
        is_whole && operand_has_vectors(l, u.x, inner) && operand_has_vectors(l, u.patch, inner);
    lower_map(l, update_point, &u, has_vectors ? MAP_VECTOR : MAP_SCALAR);
}
