// SPDX-License-Identifier: Apache-2.0
// Maps of GPUs over axes that are taken as one, because the last axis alone has no vectors (7 x 7 pixels,
// rows of 19): a thread has neighbouring elements of the result, wherever rows end in them. What lies as the
// result does comes by vectors; everything else (a factor for each channel) is read at each element's place.
// Of long results that are one axis as a whole, the last elements, which are no vector, are another thread's.
#include "passes/lower/wide.h"

typedef struct Flat {
    const Domain *d;
    uint32_t order[SHAPE_MAX_RANK]; // axes by falling stride of the root
    uint32_t first;      // the axes from this place on are one
    uint32_t axes;       // these, as bits
    int64_t extent;      // of them together
    int64_t n;           // elements of a thread
    NodeId root;         // 0: the destination of a copy
    DType root_type;
    uint32_t root_piece; // elements of one access
    uint32_t n_values;   // what comes by vectors
    RegisterValue value[WIDE_MAX_VALUES];
    uint32_t piece[WIDE_MAX_VALUES];
} Flat;

// Are the access's elements neighbours on the axes taken as one?
static bool is_flat(const Flat *f, const Access *a)
{
    const Domain *d = f->d;
    int64_t dense = 1;
    for (uint32_t i = d->rank; i-- > f->first; dense *= d->extent[f->order[i]])
        if (d->extent[f->order[i]] != 1 && a->stride[f->order[i]] != dense)
            return false;
    return true;
}

static void sort_axes(Flat *f, const Access *root)
{
    for (uint32_t i = 0; i < f->d->rank; i++) {
        uint32_t at = i;
        for (; at > 0 && root->stride[f->order[at - 1]] < root->stride[i]; at--)
            f->order[at] = f->order[at - 1];
        f->order[at] = i;
    }
}

static void add_flat(const Lower *l, Flat *f, const Access *a)
{
    const bool is_root = a->node == f->root;
    const uint32_t piece = is_flat(f, a) ? wide_flat_piece(l, f->d, a, f->axes) : 0;
    if (is_root)
        f->root_piece = piece;
    if (is_root || piece == 0 || f->n_values == WIDE_MAX_VALUES)
        return;
    f->piece[f->n_values] = piece;
    f->value[f->n_values++] = (RegisterValue){.node = a->node, .space = a->space};
}

static bool may_have_rest(const Flat *f)
{
    enum { LONG = 1 << 14 };
    return f->first == 0 && f->extent >= LONG;
}

static Flat flat_from(const Lower *l, const Domain *d, uint32_t first)
{
    const NodeId copied = l->pk->copy.src;
    Flat f = {.d = d, .first = first, .extent = 1, .root = copied != 0 ? 0 : l->root};
    f.root_type = (DType)lower_node(l, copied != 0 ? copied : l->root)->dtype;
    sort_axes(&f, domain_access(d, f.root, SPACE_IN));
    for (uint32_t i = first; i < d->rank; i++) {
        f.axes |= 1u << f.order[i];
        f.extent *= d->extent[f.order[i]];
    }
    for (uint32_t i = 0; i < d->access.len; i++)
        add_flat(l, &f, &d->access.data[i]);
    f.n = f.root_piece;
    while (f.n > 1 && f.extent % f.n != 0 && !may_have_rest(&f))
        f.n /= 2;
    return f;
}

static bool is_open_ended(const Domain *d)
{
    for (uint32_t i = 0; i < d->rank; i++)
        if (d->live[i].size != 0 || d->extent[i] == 0)
            return true;
    return false;
}

// The axes with which most comes by vectors; of these, those with the longest ones.
static bool choose_flat(const Lower *l, const Domain *d, Flat *best)
{
    bool any = false;
    if (!l->caps->is_gpu || l->caps->shared_bytes == 0 || d->rank == 0 || d->has_out_space ||
        is_open_ended(d))
        return false;
    for (uint32_t first = 0; first < d->rank; first++) {
        const Flat f = flat_from(l, d, first);
        const bool is_better = !any || f.n_values > best->n_values ||
                               (f.n_values == best->n_values && f.n > best->n);
        if (f.n <= 1 || !is_better)
            continue;
        *best = f;
        any = true;
    }
    return any;
}

// Coordinates on the axes taken as one.
static void place_flat(Lower *l, const Flat *f, KRef place, Point *at)
{
    Kernel *k = l->k;
    for (uint32_t i = f->d->rank; i-- > f->first;) {
        const bool is_last = i == f->first;
        const uint32_t axis = f->order[i];
        at->idx[axis] = is_last ? place : k_expr(k, "$ % #", place, f->d->extent[axis]);
        place = is_last ? place : k_expr(k, "$ / #", place, f->d->extent[axis]);
    }
}

static void place_outer(Lower *l, const Flat *f, KRef rest, Point *at)
{
    Kernel *k = l->k;
    for (uint32_t i = f->first; i-- > 0;) {
        const uint32_t axis = f->order[i];
        at->idx[axis] = i == 0 ? rest : k_expr(k, "$ % #", rest, f->d->extent[axis]);
        rest = i == 0 ? rest : k_expr(k, "$ / #", rest, f->d->extent[axis]);
    }
}

static void fetch_flat(Lower *l, Flat *f, Point at)
{
    Pull p = pull_at(l, f->d, at);
    for (uint32_t i = 0; i < f->n_values; i++) {
        const NodeId id = f->value[i].node;
        f->value[i].array = k_array(l->k, lower_node(l, id)->dtype, f->n);
        wide_load(l, lower_param(l, id, PARAM_READ), pull_index(&p, id), f->value[i].array, 0,
                  (WideSpan){.n = (uint32_t)f->n, .piece = f->piece[i]});
    }
    l->wide.registers = f->value;
    l->wide.n_registers = f->n_values;
}

static void each_flat(Lower *l, const Flat *f, Point at, KRef place, PointFn fn, void *ctx)
{
    Kernel *k = l->k;
    const KRef j = k_loop(k, f->n, KFOR_UNROLL, "j");
    place_flat(l, f, k_add(k, place, j), &at);
    at.slot = at.lane = j;
    fn(l, f->d, at, ctx);
    k_end(k);
}

// The elements behind the last vector.
static void each_of_rest(Lower *l, const Flat *f, PointFn fn, void *ctx)
{
    Kernel *k = l->k;
    Point at = {.lanes = 1, .count = 1};
    const int64_t rest = f->extent % f->n;
    const KRef j = k_loop(k, rest, KFOR_SERIAL, "j");
    place_flat(l, f, k_expr(k, "$ + #", j, f->extent - rest), &at);
    fn(l, f->d, at, ctx);
    k_end(k);
}

static void each_vector(Lower *l, Flat *f, KRef number, PointFn fn, void *ctx)
{
    Kernel *k = l->k;
    Point at = {.lanes = 1, .count = 1};
    const int64_t vectors = f->extent / f->n;
    const KRef own = f->first == 0 ? number : k_expr(k, "$ % #", number, vectors);
    const KRef place = k_expr(k, "$ * #", own, f->n);
    if (f->first > 0)
        place_outer(l, f, k_expr(k, "$ / #", number, vectors), &at);
    place_flat(l, f, place, &at);
    fetch_flat(l, f, at);
    const KRef collected = k_array(k, (int)f->root_type, f->n);
    l->wide.collected = collected;
    each_flat(l, f, at, place, fn, ctx);
    wide_end(l);
    Pull p = pull_at(l, f->d, at);
    wide_store(l, wide_param_written(l, f->root), pull_index(&p, f->root), collected, 0,
               (WideSpan){.n = (uint32_t)f->n, .piece = f->root_piece});
}

bool wide_flat_map(Lower *l, const Domain *d, PointFn fn, void *ctx)
{
    Kernel *k = l->k;
    Flat f;
    if (!choose_flat(l, d, &f))
        return false;
    int64_t vectors = f.extent / f.n;
    for (uint32_t i = 0; i < f.first; i++)
        vectors *= d->extent[f.order[i]];
    const bool has_rest = f.extent % f.n != 0, may_end = has_rest || vectors % WIDE_GROUP != 0;
    k_set_group(k, WIDE_GROUP);
    const KRef part = k_for_group(k, ceil_div(vectors + has_rest, WIDE_GROUP), "part");
    const KRef number = k_expr(k, "$ * # + $", part, WIDE_GROUP, k_thread(k));
    if (may_end)
        k_if(k, k_expr(k, "$ < #", number, vectors));
    each_vector(l, &f, number, fn, ctx);
    if (has_rest) {
        k_end(k);
        k_if(k, k_expr(k, "$ == #", number, vectors));
        each_of_rest(l, &f, fn, ctx);
    }
    lower_close(l, may_end ? 2 : 1);
    return true;
}
