// SPDX-License-Identifier: Apache-2.0
// argmax and argmin: a search along the axis for every result. CPUs search floats of up to 32 bits in
// vectors: for neighbouring results at once, or with a part of the axis for each lane where its elements are
// neighbours; the lanes of other types are elements of arrays, in loops of which compilers make vectors. On
// GPUs the threads of a group share an axis (arg_group.c). The first of equal values wins, and the first NaN
// over all.
#include "passes/lower/ops/arg.h"

#include <math.h>
#include <string.h>

enum { CHAINS = 4, LEAST_LANES = 4, MOST_PLACES = 1 << 30 };
// Of the places of all lanes in arrays (compilers make no vectors of loops that are short enough to be
// written out); elements of each lane from which they are worth joining.
enum { ARRAY_BYTES = 128, ARRAY_STEPS = 3 };

KRef search_is_better(Kernel *k, const Search *s, KRef v, KRef best)
{
    const KRef wins = s->finds_largest ? k_lt(k, best, v) : k_lt(k, v, best);
    if (dtype_info[k_inst(k, v)->dtype].cls != DCLASS_FLOAT)
        return wins;
    const KRef v_is_nan = k_ne(k, v, v), best_is_number = k_eq(k, best, best);
    return k_expr(k, "$ & ($ | $)", best_is_number, v_is_nan, wins);
}

KRef search_wins(Kernel *k, const Search *s, SearchBest v, SearchBest best)
{
    KRef is_equal = k_eq(k, v.value, best.value);
    if (dtype_info[k_inst(k, v.value)->dtype].cls == DCLASS_FLOAT)
        is_equal =
            k_or(k, is_equal, k_and(k, k_ne(k, v.value, v.value), k_ne(k, best.value, best.value)));
    const KRef is_first = k_and(k, is_equal, k_lt(k, v.place, best.place));
    return k_or(k, search_is_better(k, s, v.value, best.value), is_first);
}

void search_part(Lower *l, const Search *s, KRef *idx, int64_t step, KRef *best, KRef *place)
{
    Kernel *k = l->k;
    const uint32_t param = lower_param(l, s->x, PARAM_READ);
    const KRef top = k_var(k, k_load(k, param, operand_index(l, s->x, idx), 1, 1), "best");
    const KRef where = k_var(k, idx[s->axis], "place");
    const KRef second = k_expr(k, "$ + #", idx[s->axis], step),
               end = k_index(k, lower_node(l, s->x)->shape->dim[s->axis]);
    idx[s->axis] = k_for(k, second, end, step, KFOR_SERIAL, "r");
    const KRef v = k_load(k, param, operand_index(l, s->x, idx), 1, 1);
    k_if(k, search_is_better(k, s, v, k_get(k, top)));
    k_set(k, top, v);
    k_set(k, where, idx[s->axis]);
    k_ends(k, 2);
    *best = k_get(k, top);
    *place = k_get(k, where);
}

static void place_axes(const Lower *l, const Search *s, const Point *at, KRef *idx)
{
    const uint32_t rank = lower_node(l, s->x)->shape->rank;
    for (uint32_t i = 0, from = 0; i < rank; i++) {
        const bool is_searched = i == s->axis;
        idx[i] = is_searched ? k_index(l->k, 0) : at->idx[from];
        from += is_searched && !s->keeps_axis ? 0 : 1;
    }
}

static KRef search_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Search *s = ctx;
    Kernel *k = l->k;
    KRef idx[SHAPE_MAX_RANK];
    (void)d;
    place_axes(l, s, &at, idx);
    KRef best, place;
    search_part(l, s, idx, 1, &best, &place);
    return k_cast(k, place, DTYPE_i64);
}

// --- vectors -------------------------------------------------------------------------------------

// The best of each lane and where it is, of vectors that lie `step` apart on the axis, from idx on.
typedef struct Lanes {
    KRef best, place; // variables
    uint8_t lanes;
} Lanes;

static KRef load_lanes(Lower *l, const Search *s, const KRef *idx, const Point *at)
{
    return k_cast(l->k, operand_load(l, s->x, operand_index(l, s->x, idx), at, 1), DTYPE_f32);
}

static Lanes begin_lanes(Lower *l, const Search *s, const KRef *idx, Point at)
{
    Kernel *k = l->k;
    return (Lanes){.best = k_var(k, load_lanes(l, s, idx, &at), "best"),
                   .place = k_var(k, k_splat(k, k_integer(k, DTYPE_i32, 0), at.lanes), "place"),
                   .lanes = at.lanes};
}

// The vector at idx; place: of its first lane, or what is added to lanes later.
static void look_at(Lower *l, const Search *s, const KRef *idx, Point at, KRef place, const Lanes *to)
{
    Kernel *k = l->k;
    const KRef v = load_lanes(l, s, idx, &at), best = k_get(k, to->best);
    const KRef better = search_is_better(k, s, v, best);
    const KRef here = k_splat(k, k_cast(k, place, DTYPE_i32), at.lanes);
    k_set(k, to->best, k_select(k, better, v, best));
    k_set(k, to->place, k_select(k, better, here, k_get(k, to->place)));
}

static void search_lanes(Lower *l, const Search *s, KRef *idx, Point at, int64_t step, Lanes *out)
{
    Kernel *k = l->k;
    const int64_t end = lower_node(l, s->x)->shape->dim[s->axis];
    *out = begin_lanes(l, s, idx, at);
    idx[s->axis] = k_for(k, k_index(k, step), k_index(k, end - end % step), step, KFOR_SERIAL, "r");
    look_at(l, s, idx, at, idx[s->axis], out);
    k_end(k);
}

static void store_place(Lower *l, const Domain *d, Point at, KRef place)
{
    pull_store_root(l, d, at, k_cast(l->k, place, DTYPE_i64));
}

// Results that are neighbours: each lane has its own.
static void search_across(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Search *s = ctx;
    Kernel *k = l->k;
    KRef idx[SHAPE_MAX_RANK];
    Lanes found;
    place_axes(l, s, &at, idx);
    search_lanes(l, s, idx, at, 1, &found);
    const KRef places = k_array(k, DTYPE_i32, at.lanes);
    k_astore(k, places, k_index(k, 0), k_get(k, found.place));
    Point one = at;
    one.lanes = one.count = 1;
    const KRef lane = k_loop(k, at.count, KFOR_SERIAL, "lane");
    one.idx[at.vec_axis] = k_add(k, at.idx[at.vec_axis], lane);
    store_place(l, d, one, k_aload(k, places, lane, 1));
    k_end(k);
}

// The numbers of the lanes of a vector, as an array.
static KRef make_ramp(Kernel *k, uint8_t lanes)
{
    const KRef ramp = k_array(k, DTYPE_i32, lanes);
    const KRef i = k_loop(k, lanes, KFOR_SERIAL, "i");
    k_astore(k, ramp, i, k_cast(k, i, DTYPE_i32));
    k_end(k);
    return ramp;
}

// The first place of the best of all lanes. Places of NaN are MOST_PLACES lower than they are, so that the
// least of all is the one that wins.
static KRef join_lanes(Kernel *k, const Search *s, const Lanes *found)
{
    const uint8_t lanes = found->lanes;
    const KRef best = k_get(k, found->best), is_nan = k_ne(k, best, best);
    const KRef place = k_add(k, k_get(k, found->place), k_aload(k, s->ramp, k_index(k, 0), lanes));
    const KRef top = k_hreduce(k, s->finds_largest ? KOP_max : KOP_min, best);
    const KRef none = k_splat(k, k_integer(k, DTYPE_i32, INT32_MAX), lanes);
    const KRef lower = k_add(k, place, k_splat(k, k_integer(k, DTYPE_i32, -MOST_PLACES), lanes));
    const KRef is_top = k_eq(k, best, k_splat(k, top, lanes));
    const KRef first =
        k_hreduce(k, KOP_min, k_select(k, is_nan, lower, k_select(k, is_top, place, none)));
    const KRef back = k_add(k, first, k_integer(k, DTYPE_i32, MOST_PLACES));
    return k_select(k, k_lt(k, first, k_integer(k, DTYPE_i32, 0)), back, first);
}

// The last elements behind whole vectors, as a vector that begins among those that have been seen.
static void look_at_rest(Lower *l, const Search *s, KRef *idx, Point at, const Lanes *to)
{
    const int64_t n = lower_node(l, s->x)->shape->dim[s->axis];
    if (n % at.lanes == 0)
        return;
    idx[s->axis] = k_index(l->k, n - at.lanes);
    look_at(l, s, idx, at, idx[s->axis], to);
}

// Joins what other lanes, `by` elements behind those of `to` on the axis, have found.
static void join_chain(Lower *l, const Search *s, const Lanes *from, int64_t by, const Lanes *to)
{
    Kernel *k = l->k;
    const KRef v = k_get(k, from->best), best = k_get(k, to->best), place = k_get(k, to->place);
    const KRef further = k_splat(k, k_integer(k, DTYPE_i32, by), to->lanes);
    const KRef here = k_add(k, k_get(k, from->place), further);
    const KRef wins = search_wins(k, s, (SearchBest){v, here}, (SearchBest){best, place});
    k_set(k, to->best, k_select(k, wins, v, best));
    k_set(k, to->place, k_select(k, wins, here, place));
}

// A vector waits for the one before it, so that several chains of them are searched side by side: vectors
// that follow each other. Those behind the last whole step belong to the first chain.
static void search_chains(Lower *l, const Search *s, KRef *idx, Point at, Lanes *first)
{
    Kernel *k = l->k;
    const int64_t lanes = at.lanes, end = lower_node(l, s->x)->shape->dim[s->axis], step = CHAINS * lanes,
                  whole = end - end % step, vectors = end - end % lanes;
    KRef of[SHAPE_MAX_RANK];
    Lanes chain[CHAINS];
    memcpy(of, idx, sizeof of);
    for (int64_t c = 0; c < CHAINS; c++) {
        of[s->axis] = k_index(k, c * lanes);
        chain[c] = begin_lanes(l, s, of, at);
    }
    const KRef r = k_for(k, k_index(k, step), k_index(k, whole), step, KFOR_SERIAL, "r");
    for (int64_t c = 0; c < CHAINS; c++) {
        of[s->axis] = k_expr(k, "$ + #", r, c * lanes);
        look_at(l, s, of, at, r, &chain[c]);
    }
    k_end(k);
    for (int64_t c = 1; c < CHAINS; c++)
        join_chain(l, s, &chain[c], c * lanes, &chain[0]);
    *first = chain[0];
    if (whole == vectors)
        return;
    idx[s->axis] = k_for(k, k_index(k, whole), k_index(k, vectors), lanes, KFOR_SERIAL, "r");
    look_at(l, s, idx, at, idx[s->axis], first);
    k_end(k);
}

static void search_along(Lower *l, const Domain *d, const Point *of, const Search *s, uint8_t lanes)
{
    const Point at = *of;
    KRef idx[SHAPE_MAX_RANK];
    Lanes found;
    Point wide = at;
    wide.lanes = wide.count = lanes;
    place_axes(l, s, &at, idx);
    if (lower_node(l, s->x)->shape->dim[s->axis] >= 2 * CHAINS * wide.lanes)
        search_chains(l, s, idx, wide, &found);
    else
        search_lanes(l, s, idx, wide, wide.lanes, &found);
    look_at_rest(l, s, idx, wide, &found);
    store_place(l, d, at, join_lanes(l->k, s, &found));
}

uint32_t search_across_axis(const Lower *l, const Search *s)
{
    const Shape *root = lower_node(l, l->root)->shape, *x = lower_node(l, s->x)->shape;
    for (uint32_t i = 0, to = 0; i < x->rank; i++) {
        if (i != s->axis && x->dim[i] > 1 && lower_loc(l, s->x)->stride[i] == 1)
            return to;
        to += i == s->axis && !s->keeps_axis ? 0 : 1;
    }
    return root->rank;
}

static bool has_vectors(int type)
{
    return type == DTYPE_f32 || k_is_half(type);
}

static bool search_in_vectors(Lower *l, Search *s)
{
    const Shape *x = lower_node(l, s->x)->shape;
    const int64_t n = x->dim[s->axis];
    const uint32_t across = search_across_axis(l, s);
    Domain d = domain_of_root(l);
    const bool is_along = lower_loc(l, s->x)->stride[s->axis] == 1 && n >= LEAST_LANES;
    const uint8_t fit = across < d.rank ? lower_fit_lanes(l, d.extent[across]) : 1;
    if (l->caps->is_gpu || l->caps->f32_lanes == 1 || !has_vectors(lower_node(l, s->x)->dtype) ||
        shape_numel(x) == 0 || n > MOST_PLACES || (!is_along && fit == 1))
        return false;
    uint8_t lanes = l->caps->f32_lanes;
    while (lanes > n)
        lanes /= 2;
    s->ramp = is_along ? make_ramp(l->k, lanes) : 0;
    Point at = {.lanes = 1, .count = 1};
    uint32_t opened = 0;
    for (uint32_t i = 0; i < d.rank; i++)
        if (is_along || i != across)
            opened += lower_open_axis(l, &d, i, KFOR_PARALLEL, &at);
    if (is_along)
        search_along(l, &d, &at, s, lanes);
    else
        lower_along(l, &d, across, fit, at, search_across, s);
    lower_close(l, opened);
    return true;
}

// --- arrays of lanes ---

// The best of each lane and where it is.
typedef struct LaneArrays {
    KRef best, place; // arrays
    int place_type;   // as wide as the elements
    int64_t lanes;
} LaneArrays;

static int64_t array_lanes(const Lower *l, const Search *s)
{
    const int64_t bytes = dtype_info[lower_node(l, s->x)->dtype].bytes;
    return ARRAY_BYTES / (bytes > 4 ? bytes : 4);
}

// Lanes [0, count) look at the elements from idx on.
static void look_with_arrays(Lower *l, const Search *s, KRef *idx, int64_t count, const LaneArrays *to)
{
    Kernel *k = l->k;
    const KRef first = idx[s->axis], lane = k_loop(k, count, KFOR_SERIAL, "lane");
    idx[s->axis] = k_add(k, first, lane);
    const KRef v = k_load(k, lower_param(l, s->x, PARAM_READ), operand_index(l, s->x, idx), 1, 1);
    const KRef best = k_aload(k, to->best, lane, 1), place = k_aload(k, to->place, lane, 1);
    const KRef better = search_is_better(k, s, v, best);
    k_astore(k, to->best, lane, k_select(k, better, v, best));
    k_astore(k, to->place, lane, k_select(k, better, k_cast(k, first, to->place_type), place));
    k_end(k);
    idx[s->axis] = first;
}

static void begin_arrays(Lower *l, const Search *s, KRef *idx, const LaneArrays *to)
{
    Kernel *k = l->k;
    const KRef lane = k_loop(k, to->lanes, KFOR_SERIAL, "lane");
    idx[s->axis] = lane;
    k_astore(k, to->best, lane,
             k_load(k, lower_param(l, s->x, PARAM_READ), operand_index(l, s->x, idx), 1, 1));
    k_astore(k, to->place, lane, k_integer(k, to->place_type, 0));
    k_end(k);
}

// The first place of the best of all lanes.
static KRef join_arrays(Kernel *k, const Search *s, const LaneArrays *from)
{
    const KRef top = k_var(k, k_aload(k, from->best, k_index(k, 0), 1), "best");
    const KRef where = k_var(k, k_cast(k, k_aload(k, from->place, k_index(k, 0), 1), KT_INDEX), "place");
    const KRef lane = k_for(k, k_index(k, 1), k_index(k, from->lanes), 1, KFOR_SERIAL, "lane");
    const KRef v = k_aload(k, from->best, lane, 1), best = k_get(k, top);
    const KRef here = k_add(k, k_cast(k, k_aload(k, from->place, lane, 1), KT_INDEX), lane);
    k_if(k, search_wins(k, s, (SearchBest){v, here}, (SearchBest){best, k_get(k, where)}));
    k_set(k, top, v);
    k_set(k, where, here);
    k_ends(k, 2);
    return k_get(k, where);
}

static KRef search_arrays_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Search *s = ctx;
    Kernel *k = l->k;
    const int type = lower_node(l, s->x)->dtype;
    const int64_t n = lower_node(l, s->x)->shape->dim[s->axis];
    LaneArrays to = {.place_type = dtype_info[type].bytes == 8 ? DTYPE_i64 : DTYPE_i32,
                     .lanes = array_lanes(l, s)};
    KRef idx[SHAPE_MAX_RANK];
    (void)d;
    to.best = k_array(k, type, to.lanes);
    to.place = k_array(k, to.place_type, to.lanes);
    place_axes(l, s, &at, idx);
    begin_arrays(l, s, idx, &to);
    const int64_t whole = n - n % to.lanes;
    if (whole > to.lanes) {
        idx[s->axis] = k_for(k, k_index(k, to.lanes), k_index(k, whole), to.lanes, KFOR_SERIAL, "r");
        look_with_arrays(l, s, idx, to.lanes, &to);
        k_end(k);
    }
    idx[s->axis] = k_index(k, whole);
    if (whole < n)
        look_with_arrays(l, s, idx, n - whole, &to);
    return k_cast(k, join_arrays(k, s, &to), DTYPE_i64);
}

static bool search_in_arrays(Lower *l, Search *s)
{
    const Shape *x = lower_node(l, s->x)->shape;
    const int64_t n = x->dim[s->axis];
    if (l->caps->is_gpu || l->caps->f32_lanes == 1 || lower_loc(l, s->x)->stride[s->axis] != 1 ||
        shape_numel(x) == 0 || n > MOST_PLACES || n < ARRAY_STEPS * array_lanes(l, s))
        return false;
    lower_map(l, search_arrays_point, s, MAP_SCALAR);
    return true;
}

// --- which ---

static void lower_search(Lower *l, AttrId axis, AttrId keepdims, bool finds_largest)
{
    rlx_assert(l->anchor != 0 && lower_node(l, l->anchor)->n_src >= 1);
    const Node *n = lower_node(l, l->anchor);
    Search s = {.x = n->src[0],
                .axis = (uint32_t)node_get_int(n, axis),
                .keeps_axis = node_get_int(n, keepdims) != 0,
                .finds_largest = finds_largest};
    if (!search_in_groups(l, &s) && !search_in_vectors(l, &s) && !search_in_arrays(l, &s))
        lower_map(l, search_point, &s, MAP_SCALAR);
}

void lower_argmax(Lower *l)
{
    lower_search(l, A_argmax_axis, A_argmax_keepdims, true);
}

void lower_argmin(Lower *l)
{
    lower_search(l, A_argmin_axis, A_argmin_keepdims, false);
}
