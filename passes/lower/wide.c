// SPDX-License-Identifier: Apache-2.0
// See wide.h.
#include "passes/lower/wide.h"

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

typedef struct Place {
    const Loc *loc;
    DType type;
} Place;

// id 0: the destination of a copy.
static Place place_of(const Lower *l, NodeId id)
{
    const Node *n = lower_node(l, id != 0 ? id : l->pk->copy.src);
    return (Place){id != 0 ? lower_loc(l, id) : &l->pk->copy.dst, (DType)n->dtype};
}

uint32_t wide_flat_piece(const Lower *l, const Domain *d, const Access *a, uint32_t axes)
{
    const Place p = place_of(l, a->node);
    uint64_t steps = lower_alignment(l, p.loc, p.type) / dtype_info[p.type].bytes;
    for (uint32_t i = 0; i < d->rank; i++)
        if ((axes >> i & 1) == 0 && d->extent[i] > 1)
            steps |= (uint64_t)(a->stride[i] < 0 ? -a->stride[i] : a->stride[i]);
    const uint64_t piece = steps & (0 - steps);
    return piece < k_fetch_width((int)p.type) ? (uint32_t)piece : k_fetch_width((int)p.type);
}

static uint32_t piece_of(const Lower *l, const Domain *d, const Access *a, uint32_t axis)
{
    return wide_flat_piece(l, d, a, 1u << axis);
}

uint32_t wide_operand_piece(const Lower *l, NodeId id, uint32_t axis)
{
    const Domain d = domain_of(lower_node(l, id)->shape);
    Access a = {.node = id};
    for (uint32_t i = 0; i < d.rank; i++)
        a.stride[i] = lower_loc(l, id)->stride[i];
    return a.stride[axis] == 1 ? piece_of(l, &d, &a, axis) : 0;
}

uint32_t wide_piece(const Lower *l, const Domain *d, NodeId id, uint32_t axis)
{
    for (uint32_t i = 0; i < d->access.len; i++) {
        const Access *a = &d->access.data[i];
        if (a->node == id && a->space == SPACE_IN)
            return a->stride[axis] == 1 && k_fetch_width((int)place_of(l, id).type) != 0
                       ? piece_of(l, d, a, axis)
                       : 0;
    }
    return 0;
}

static bool add_value(const Lower *l, Wide *w, const Access *a, uint32_t *most)
{
    const bool is_root = a->node == w->root && (!w->d->has_out_space || a->space == SPACE_OUT);
    if (k_fetch_width((int)place_of(l, a->node).type) == 0 || (a->stride[w->axis] & ~(int64_t)1) != 0)
        return false;
    if (a->stride[w->axis] == 0)
        return true;
    const uint32_t piece = piece_of(l, w->d, a, w->axis);
    *most = piece > *most ? piece : *most;
    if (is_root) {
        w->is_root_wide = true;
        w->root_piece = (uint8_t)piece;
        return true;
    }
    if (w->n_values == WIDE_MAX_VALUES)
        return false;
    w->piece[w->n_values] = (uint8_t)piece;
    w->value[w->n_values++] = (RegisterValue){.node = a->node, .space = a->space};
    return true;
}

bool wide_new(const Lower *l, const Domain *d, uint32_t axis, Wide *w)
{
    rlx_assert(axis < d->rank);
    uint32_t most = 1;
    *w = (Wide){.d = d, .axis = axis, .root = l->pk->copy.src != 0 ? 0 : l->root};
    w->root_type = place_of(l, w->root).type;
    if (!l->caps->is_gpu || l->caps->shared_bytes == 0)
        return false;
    for (uint32_t i = 0; i < d->access.len; i++)
        if (!add_value(l, w, &d->access.data[i], &most))
            return false;
    while (d->extent[axis] % most != 0)
        most /= 2;
    rlx_assert(most >= 1 && most <= WIDE_MAX_ELEMENTS);
    w->n = (uint8_t)most;
    w->root_piece = (uint8_t)least(w->root_piece, most);
    for (uint32_t i = 0; i < w->n_values; i++)
        w->piece[i] = (uint8_t)least(w->piece[i], most);
    return true;
}

static bool varies_from(const Domain *d, const Access *a, uint32_t row)
{
    for (uint32_t i = row; i < d->rank; i++)
        if (d->extent[i] > 1 && a->stride[i] != 0)
            return true;
    return false;
}

bool wide_new_single(const Lower *l, const Domain *d, uint32_t axis, uint32_t row, Wide *w)
{
    rlx_assert(axis <= row && row < d->rank);
    *w = (Wide){.d = d, .axis = axis, .n = 1, .root = l->pk->copy.src != 0 ? 0 : l->root};
    w->root_type = place_of(l, w->root).type;
    for (uint32_t i = 0; i < d->access.len; i++) {
        const Access *a = &d->access.data[i];
        const bool is_root = a->node == w->root && (!d->has_out_space || a->space == SPACE_OUT);
        if (k_fetch_width((int)place_of(l, a->node).type) == 0)
            return false;
        if (is_root || !varies_from(d, a, row))
            continue;
        if (w->n_values == WIDE_MAX_VALUES)
            return false;
        w->piece[w->n_values] = 1;
        w->value[w->n_values++] = (RegisterValue){.node = a->node, .space = a->space};
    }
    return true;
}

void wide_narrow(Wide *w)
{
    w->n = w->root_piece = 1;
    for (uint32_t i = 0; i < w->n_values; i++)
        w->piece[i] = 1;
}

void wide_declare(Lower *l, Wide *w, int64_t turns)
{
    rlx_assert(turns >= 1 && l->wide.n_registers == 0);
    for (uint32_t i = 0; i < w->n_values; i++)
        w->value[i].array = k_array(l->k, lower_node(l, w->value[i].node)->dtype, turns * w->n);
    l->wide.registers = w->value;
    l->wide.n_registers = w->n_values;
}

void wide_end(Lower *l)
{
    l->wide.n_registers = 0;
    l->wide.collected = 0;
}

void wide_fetch(Lower *l, const Wide *w, Point at, KRef slot)
{
    rlx_assert(slot != 0 && w->axis < w->d->rank);
    Kernel *k = l->k;
    const KRef first = at.idx[w->axis];
    for (uint32_t i = 0; i < w->n_values; i++)
        for (uint32_t j = 0; j < w->n; j += w->piece[i]) {
            Pull p = pull_at(l, w->d, at);
            p.space = w->value[i].space;
            p.at.idx[w->axis] = k_expr(k, "$ + #", first, j);
            const KRef index = pull_index(&p, w->value[i].node);
            k_fetch(k, lower_param(l, w->value[i].node, PARAM_READ), index, w->value[i].array,
                    k_expr(k, "$ + #", slot, j), w->piece[i]);
        }
}

uint32_t wide_param_written(Lower *l, NodeId root)
{
    return root != 0 ? lower_param(l, root, PARAM_WRITE)
                     : lower_param_at(l, l->pk->copy.src, &l->pk->copy.dst, PARAM_WRITE);
}

static void put_root(Lower *l, const Wide *w, Point at)
{
    Kernel *k = l->k;
    const KRef first = at.idx[w->axis];
    for (uint32_t j = 0; j < w->n; j += w->root_piece) {
        Pull p = pull_at(l, w->d, at);
        p.space = w->d->has_out_space ? SPACE_OUT : SPACE_IN;
        p.at.idx[w->axis] = k_expr(k, "$ + #", first, j);
        const KRef index = pull_index(&p, w->root);
        k_put(k, wide_param_written(l, w->root), index, l->wide.collected, k_index(k, j), w->root_piece);
    }
}

void wide_each(Lower *l, const Wide *w, Point at, KRef slot, bool stores, PointFn fn, void *ctx)
{
    rlx_assert(fn != NULL && l->wide.collected == 0);
    Kernel *k = l->k;
    Point one = at;
    l->wide.collected = stores && w->is_root_wide ? k_array(k, (int)w->root_type, w->n) : 0;
    if (w->n == 1) {
        one.lane = k_index(k, 0);
        one.slot = slot;
    } else {
        one.lane = k_loop(k, w->n, KFOR_UNROLL, "j");
        one.slot = k_add(k, slot, one.lane);
        one.idx[w->axis] = k_add(k, at.idx[w->axis], one.lane);
    }
    fn(l, w->d, one, ctx);
    lower_close(l, w->n == 1 ? 0 : 1);
    if (l->wide.collected != 0)
        put_root(l, w, at);
    l->wide.collected = 0;
}

// --- maps ----------------------------------------------------------------------------------------

enum { MAP_TURNS = 4, MAP_REGISTERS = 64, MAP_FULL_TURNS = 2 };

typedef struct WideMap {
    Wide w;
    int64_t vectors, turns; // of all; of a thread
    PointFn fn;
    void *ctx;
} WideMap;

static int64_t count_vectors(const Domain *d, uint32_t axis, int64_t n)
{
    int64_t vectors = 1;
    for (uint32_t i = 0; i < d->rank; i++)
        vectors *= i == axis ? d->extent[i] / n : d->extent[i];
    return vectors;
}

// More vectors a thread while all processors have threads enough: twice those that they hold.
static int64_t choose_turns(const Lower *l, const WideMap *m)
{
    const int64_t enough = MAP_FULL_TURNS * (int64_t)gpu_about_threads(l->caps->gpu);
    int64_t turns = 1;
    while (turns < MAP_TURNS && 2 * turns * m->w.n * (m->w.n_values + 1) <= MAP_REGISTERS &&
           m->vectors >= 2 * turns * enough)
        turns *= 2;
    return turns;
}

// Neighbouring threads have neighbouring vectors, then the elements of the other axes, from the last one on.
static void place_vector(Lower *l, const Domain *d, uint32_t axis, int64_t n, KRef number, Point *at)
{
    Kernel *k = l->k;
    for (uint32_t turn = 0; turn < d->rank; turn++) {
        const uint32_t i = turn == 0 ? axis : d->rank - turn - (d->rank - turn <= axis ? 1 : 0);
        const bool is_last = turn + 1 == d->rank;
        const KRef extent = k_index(k, i == axis ? d->extent[i] / n : d->extent[i]);
        const KRef own = is_last ? number : k_rem(k, number, extent);
        number = is_last ? number : k_div(k, number, extent);
        at->idx[i] = i == axis ? k_expr(k, "$ * #", own, n) : own;
    }
}

// Vectors that do not exist, or whose elements nobody reads, are left out.
static uint32_t open_vector(Lower *l, const WideMap *m, KRef number, Point *at)
{
    Kernel *k = l->k;
    const bool may_end = m->vectors % (m->turns * WIDE_GROUP) != 0;
    place_vector(l, m->w.d, m->w.axis, m->w.n, number, at);
    if (may_end)
        k_if(k, k_expr(k, "$ < #", number, m->vectors));
    return (may_end ? 1 : 0) + lower_open_live(l, m->w.d, m->w.d->rank, at);
}

uint32_t wide_open(Lower *l, const Domain *d, uint32_t axis, uint32_t n, uint32_t group,
                   Point *at)
{
    rlx_assert(n >= 1 && group >= 1 && axis < d->rank);
    Kernel *k = l->k;
    const int64_t vectors = count_vectors(d, axis, n);
    const bool may_end = vectors % group != 0;
    k_set_group(k, group);
    const KRef part = k_for_group(k, ceil_div(vectors, group), "part");
    const KRef number = k_expr(k, "$ * # + $", part, group, k_thread(k));
    place_vector(l, d, axis, n, number, at);
    if (may_end)
        k_if(k, k_expr(k, "$ < #", number, vectors));
    return (may_end ? 2 : 1) + lower_open_live(l, d, d->rank, at);
}

void wide_load(Lower *l, uint32_t param, KRef index, KRef array, int64_t slot, WideSpan s)
{
    rlx_assert(s.n >= 1 && s.piece >= 1 && s.n % least(s.n, s.piece) == 0);
    Kernel *k = l->k;
    const uint32_t piece = least(s.n, s.piece);
    for (uint32_t j = 0; j < s.n; j += piece)
        (s.is_once ? k_fetch_once : k_fetch)(k, param, k_expr(k, "$ + #", index, j), array,
                                             k_index(k, slot + j), (uint8_t)piece);
}

void wide_store(Lower *l, uint32_t param, KRef index, KRef array, int64_t slot, WideSpan s)
{
    rlx_assert(s.n >= 1 && s.piece >= 1 && s.n % least(s.n, s.piece) == 0);
    Kernel *k = l->k;
    const uint32_t piece = least(s.n, s.piece);
    for (uint32_t j = 0; j < s.n; j += piece)
        (s.is_once ? k_put_once : k_put)(k, param, k_expr(k, "$ + #", index, j), array, k_index(k, slot + j),
                                         (uint8_t)piece);
}

bool wide_fits(const Lower *l, const Domain *d, uint32_t axis, Wide *w)
{
    return d->live[axis].size == 0 && wide_new(l, d, axis, w) && w->is_root_wide &&
           count_vectors(d, axis, w->n) != 0;
}

bool wide_begin(Lower *l, const Domain *d, uint32_t axis, Wide *w, Point *at, uint32_t *opened)
{
    if (!wide_fits(l, d, axis, w) || w->n == 1)
        return false;
    *opened = wide_open(l, d, axis, w->n, WIDE_GROUP, at);
    wide_declare(l, w, 1);
    wide_fetch(l, w, *at, k_index(l->k, 0));
    return true;
}

void wide_finish(Lower *l, const Wide *w, Point at, uint32_t opened, PointFn fn, void *ctx)
{
    rlx_assert(w->is_root_wide && w->n > 1);
    wide_each(l, w, at, k_index(l->k, 0), true, fn, ctx);
    wide_end(l);
    lower_close(l, opened);
}

bool wide_axis_map(Lower *l, uint32_t axis, PointFn fn, void *ctx)
{
    const Domain d = domain_of_root(l);
    Point at = {.lanes = 1, .count = 1};
    uint32_t opened = 0;
    Wide w;
    if (!l->caps->is_gpu || d.rank == 0 || !wide_begin(l, &d, axis, &w, &at, &opened))
        return false;
    wide_finish(l, &w, at, opened, fn, ctx);
    return true;
}

static void store_held(Lower *l, const Domain *d, Point at, void *ctx)
{
    const KRef *array = ctx;
    pull_store_root(l, d, at, k_aload(l->k, *array, at.slot, 1));
}

void wide_finish_held(Lower *l, const Wide *w, Point at, uint32_t opened, KRef array)
{
    wide_finish(l, w, at, opened, store_held, &array);
}

// A turn of a thread is one vector of the widest elements: if it were more, neighbouring threads would not
// read or write neighbouring bytes. The thread has as many elements as before. Vectors and turns are known.
static void limit_vector(const Lower *l, WideMap *m)
{
    Wide *w = &m->w;
    uint32_t n = least(w->n, k_fetch_width((int)w->root_type));
    for (uint32_t i = 0; i < w->n_values; i++)
        n = least(n, k_fetch_width((int)lower_node(l, w->value[i].node)->dtype));
    rlx_assert(n >= 1 && w->n % n == 0);
    m->turns *= w->n / n;
    m->vectors *= w->n / n;
    w->n = (uint8_t)n;
    w->root_piece = (uint8_t)least(w->root_piece, w->n);
    for (uint32_t i = 0; i < w->n_values; i++)
        w->piece[i] = (uint8_t)least(w->piece[i], w->n);
}

// All of a thread's loads come before its stores.
static void emit_map(Lower *l, WideMap *m)
{
    Kernel *k = l->k;
    k_set_group(k, WIDE_GROUP);
    const KRef part = k_for_group(k, ceil_div(m->vectors, m->turns * WIDE_GROUP), "part");
    const KRef first = k_expr(k, "$ * # + $", part, m->turns * WIDE_GROUP, k_thread(k));
    wide_declare(l, &m->w, m->turns);
    for (uint32_t is_store = 0; is_store < 2; is_store++) {
        Point at = {.lanes = 1, .count = 1};
        const KRef turn = m->turns > 1 ? k_loop(k, m->turns, KFOR_UNROLL, "v") : 0;
        const KRef number = turn != 0 ? k_expr(k, "$ * # + $", turn, WIDE_GROUP, first) : first,
                   slot = turn != 0 ? k_expr(k, "$ * #", turn, m->w.n) : k_index(k, 0);
        const uint32_t opened = open_vector(l, m, number, &at) + (turn != 0);
        if (is_store != 0)
            wide_each(l, &m->w, at, slot, true, m->fn, m->ctx);
        else
            wide_fetch(l, &m->w, at, slot);
        lower_close(l, opened);
    }
    wide_end(l);
    k_end(k);
}

bool wide_map(Lower *l, const Domain *d, PointFn fn, void *ctx)
{
    WideMap m = {.fn = fn, .ctx = ctx};
    if (d->rank == 0 || !wide_new(l, d, d->rank - 1, &m.w) || !m.w.is_root_wide || m.w.n == 1 ||
        (d->is_exact && d->live[d->rank - 1].size != 0))
        return false;
    m.vectors = count_vectors(d, d->rank - 1, m.w.n);
    if (m.vectors == 0)
        return false;
    m.turns = choose_turns(l, &m);
    limit_vector(l, &m);
    emit_map(l, &m);
    return true;
}

// So many elements at once that the bytes under way are about those of a vector, while half of the threads
// that the device holds have some.
bool wide_single_map(Lower *l, const Domain *d, PointFn fn, void *ctx)
{
    enum { BYTES = 16, MOST_TURNS = 8 };
    WideMap m = {.fn = fn, .ctx = ctx, .turns = 1};
    if (!l->caps->is_gpu || l->caps->shared_bytes == 0 || d->rank == 0 || d->has_out_space ||
        !wide_new_single(l, d, 0, 0, &m.w))
        return false;
    m.w.axis = d->rank - 1;
    m.vectors = count_vectors(d, m.w.axis, 1);
    const int64_t bytes = dtype_info[m.w.root_type].bytes, threads = (int64_t)gpu_about_threads(l->caps->gpu);
    while (m.turns < MOST_TURNS && 2 * m.turns * bytes <= BYTES && m.vectors >= m.turns * threads &&
           2 * m.turns * (m.w.n_values + 1) <= MAP_REGISTERS)
        m.turns *= 2;
    if (m.turns == 1)
        return false;
    emit_map(l, &m);
    return true;
}
