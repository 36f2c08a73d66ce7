// SPDX-License-Identifier: Apache-2.0
// Kernels of GPUs that read one value across the order in which they write, where one of the two axes is
// short (the 3 channels of an image, the 8 heads of an attention): a thread has all of it, for a few elements
// of the other axis, in registers. What is long both ways goes through tiles (turn_tiles.c).
#include "passes/lower/turn_gpu.h"
#include "passes/lower/wide.h"

enum { THIN_EXTENT = 16, THIN_REGISTERS = 64, THIN_SHARE = 8 };

// How one side has the elements of a thread. Along the short axis: all in one run, or a run for each element
// of the long axis; along the long axis: a run for each element of the short one.
typedef struct ThinSide {
    NodeId node; // 0: the destination of a copy
    uint32_t param;
    bool is_short, is_dense;
    uint32_t piece;
} ThinSide;

typedef struct Thin {
    const Turned *t;
    uint32_t across, along; // the short axis, and the long one
    int64_t count, n;       // elements of a thread along each
    ThinSide from, to;
} Thin;

static uint32_t halve_to_fit(uint32_t piece, int64_t n)
{
    while (piece > 1 && n % piece != 0)
        piece /= 2;
    return piece;
}

static const Access *access_of(const Domain *d, NodeId id)
{
    const Access *a = domain_access(d, id, SPACE_IN);
    rlx_assert(a != NULL);
    return a;
}

// The domain in steps of n along the long axis.
static Domain stepped(Lower *l, const Thin *s)
{
    Domain d = *s->t->d;
    d.access.len = d.access.cap = 0;
    d.access.data = NULL;
    d.extent[s->along] /= s->n;
    for (uint32_t i = 0; i < s->t->d->access.len; i++) {
        Access a = s->t->d->access.data[i];
        a.stride[s->along] *= s->n;
        vec_push(l->pass->scratch, &d.access, a);
    }
    return d;
}

static void describe_side(Lower *l, const Thin *s, ThinSide *side)
{
    const Domain *d = s->t->d;
    const Domain steps = stepped(l, s);
    side->is_dense = side->is_short && access_of(d, side->node)->stride[s->along] == s->count;
    const int64_t run = side->is_dense ? s->count * s->n : side->is_short ? s->count : s->n;
    const uint32_t piece = wide_piece(l, side->is_dense ? &steps : d, side->node,
                                      side->is_short ? s->across : s->along);
    side->piece = halve_to_fit(piece, run);
}

static int64_t count_threads(const Thin *s)
{
    int64_t threads = 1;
    for (uint32_t i = 0; i < s->t->d->rank; i++)
        threads *= i == s->across ? 1 : s->t->d->extent[i];
    return threads / s->n;
}

// As many elements as one access has along the long axis, while there are threads enough for the device.
static bool choose_thin(Lower *l, Thin *s)
{
    const Domain *d = s->t->d;
    const bool is_from = d->extent[s->t->from_axis] < d->extent[s->t->to_axis];
    s->across = is_from ? s->t->from_axis : s->t->to_axis;
    s->along = is_from ? s->t->to_axis : s->t->from_axis;
    s->count = d->extent[s->across];
    s->from = (ThinSide){.node = s->t->from, .is_short = is_from};
    s->to = (ThinSide){.node = s->t->to, .is_short = !is_from};
    const uint32_t piece = wide_piece(l, d, is_from ? s->t->to : s->t->from, s->along);
    if (s->count >= THIN_EXTENT || piece == 0 ||
        wide_piece(l, d, is_from ? s->t->from : s->t->to, s->across) == 0)
        return false;
    s->n = halve_to_fit(piece, d->extent[s->along]);
    while (s->n > 1 && (s->count * s->n > THIN_REGISTERS ||
                        count_threads(s) < (int64_t)gpu_about_threads(l->caps->gpu) / THIN_SHARE))
        s->n /= 2;
    describe_side(l, s, &s->from);
    describe_side(l, s, &s->to);
    return true;
}

typedef void (*RunFn)(Lower *l, uint32_t param, KRef index, KRef array, int64_t slot, WideSpan s);

static void each_run(Lower *l, const Thin *s, const ThinSide *side, Point at, KRef array, RunFn fn)
{
    const int64_t runs = side->is_dense ? 1 : side->is_short ? s->n : s->count;
    const int64_t length = s->count * s->n / runs;
    const uint32_t axis = side->is_short ? s->along : s->across;
    for (int64_t i = 0; i < runs; i++) {
        Pull p = pull_at(l, s->t->d, at);
        p.at.idx[axis] = k_expr(l->k, "$ + #", at.idx[axis], i);
        fn(l, side->param, pull_index(&p, side->node), array, i * length,
           (WideSpan){.n = (uint32_t)length, .piece = side->piece});
    }
}

// The place in a side's array of an element that is i-th along the long axis and j-th along the short one.
static KRef slot_of(Lower *l, const Thin *s, const ThinSide *side, KRef i, KRef j)
{
    return side->is_short ? k_expr(l->k, "$ * # + $", i, s->count, j)
                          : k_expr(l->k, "$ * # + $", j, s->n, i);
}

static void store_elements(Lower *l, const Thin *s, Point at, KRef in, KRef out)
{
    Kernel *k = l->k;
    uint32_t opened = 0;
    const KRef i = lower_open_count(k, s->n, KFOR_UNROLL, "i", &opened);
    const KRef j = lower_open_count(k, s->count, KFOR_UNROLL, "j", &opened);
    at.idx[s->along] = k_add(k, at.idx[s->along], i);
    at.idx[s->across] = j;
    at.slot = at.lane = slot_of(l, s, &s->to, i, j);
    l->wide.collected = out;
    s->t->store(l, s->t->d, at, s->t->from, k_aload(k, in, slot_of(l, s, &s->from, i, j), 1));
    l->wide.collected = 0;
    lower_close(l, opened);
}

static bool turn_thin(Lower *l, const Turned *t)
{
    Kernel *k = l->k;
    Thin s = {.t = t};
    Point at = {.lanes = 1, .count = 1};
    if (!choose_thin(l, &s))
        return false;
    const int from_type = lower_node(l, t->from)->dtype;
    const int to_type = lower_node(l, t->to != 0 ? t->to : t->from)->dtype;
    Domain d = *t->d;
    d.extent[s.across] = 1;
    s.from.param = lower_param(l, t->from, PARAM_READ);
    s.to.param = wide_param_written(l, t->to);
    const uint32_t opened = wide_open(l, &d, s.along, (uint32_t)s.n, WIDE_GROUP, &at);
    at.idx[s.across] = k_index(k, 0);
    const KRef in = k_array(k, from_type, s.count * s.n);
    each_run(l, &s, &s.from, at, in, wide_load);
    const KRef out = k_array(k, to_type, s.count * s.n);
    store_elements(l, &s, at, in, out);
    each_run(l, &s, &s.to, at, out, wide_store);
    lower_close(l, opened);
    return true;
}

bool turn_on_gpu(Lower *l, const Turned *t)
{
    rlx_assert(t->from != 0 && t->from_axis < t->d->rank && t->to_axis < t->d->rank);
    if (l->caps->shared_bytes == 0 || t->from_axis == t->to_axis)
        return false;
    for (uint32_t i = 0; i < t->d->rank; i++)
        if (t->d->live[i].size != 0 || t->d->extent[i] == 0)
            return false;
    return turn_tiles(l, t) || turn_thin(l, t);
}
