// SPDX-License-Identifier: Apache-2.0
// Domains and loops over them: a part of the lowering frame that every schedule shares. See lower.h.
#include "passes/lower/lower.h"

// --- domains -------------------------------------------------------------------------------------

Domain domain_of(const Shape *s)
{
    rlx_assert(shape_is_const(s));
    rlx_assert(s->rank <= SHAPE_MAX_RANK);
    Domain d = {.rank = s->rank};
    for (uint32_t i = 0; i < s->rank; i++)
        d.extent[i] = s->dim[i];
    return d;
}

void domain_trim(const Lower *l, Domain *d, NodeId id)
{
    rlx_assert(d->rank == lower_node(l, id)->shape->rank);
    for (uint32_t i = 0; i < d->rank; i++) {
        const LiveRef r = live_bound(l->plan, id, i);
        d->live[i] = lower_knows(l, &r) ? r : (LiveRef){0};
    }
}

const Access *domain_access(const Domain *d, NodeId id, Space space)
{
    for (uint32_t i = 0; i < d->access.len; i++)
        if (d->access.data[i].node == id && d->access.data[i].space == space)
            return &d->access.data[i];
    return NULL;
}

// map NULL: the shape's axes are the domain's last ones.
static void add_access(Lower *l, Domain *d, NodeId id, const AxisMap *map)
{
    const Space space = map != NULL ? SPACE_OUT : SPACE_IN;
    const Shape *s = lower_node(l, id)->shape, *root = lower_node(l, l->root)->shape;
    const uint32_t rank = map != NULL ? root->rank : d->rank, lead = rank - s->rank;
    Access a = {.node = id, .space = space};
    if (domain_access(d, id, space) != NULL)
        return;
    rlx_assert(rank >= s->rank);
    for (uint32_t i = 0; i < s->rank; i++)
        a.stride[map != NULL ? map->to[lead + i] : lead + i] =
            s->dim[i] == 1 ? 0 : lower_loc(l, id)->stride[i];
    vec_push(l->plan->arena, &d->access, a);
}

void domain_add(Lower *l, Domain *d, NodeId id)
{
    add_access(l, d, id, NULL);
}

static void add_operands(Lower *l, Domain *d, NodeId id, const AxisMap *map)
{
    NodeId stack[512];
    uint32_t n = 0;
    VEC(NodeId) seen = {0};
    stack[n++] = id;
    while (n > 0) {
        const NodeId at = stack[--n];
        bool is_new = true;
        for (uint32_t i = 0; i < seen.len; i++)
            is_new = is_new && seen.data[i] != at;
        if (!is_new || at == l->anchor || pull_is_immediate(l, at))
            continue;
        vec_push(l->pass->scratch, &seen, at);
        if (!pull_is_computed(l, at)) {
            add_access(l, d, at, map);
            continue;
        }
        const Node *node = lower_node(l, at);
        const bool is_unmasked = lower_is_unmasked(l, at);
        for (uint32_t i = is_unmasked ? 1 : 0; i < (is_unmasked ? 2 : node->n_src); i++) {
            rlx_assert(n < 512);
            stack[n++] = node->src[i];
        }
    }
}

void domain_add_operands(Lower *l, Domain *d, NodeId id)
{
    add_operands(l, d, id, NULL);
}

Point domain_point(Kernel *k, const Domain *d, KRef number)
{
    Point at = {.lanes = 1, .count = 1};
    KRef rest = number;
    for (uint32_t i = d->rank; i-- > 0; rest = k_expr(k, "$ / #", rest, d->extent[i]))
        at.idx[i] = i == 0 ? rest : k_expr(k, "$ % #", rest, d->extent[i]);
    return at;
}

Domain domain_of_root(Lower *l)
{
    Domain d = domain_of(lower_node(l, l->root)->shape);
    domain_trim(l, &d, l->root);
    domain_add(l, &d, l->root);
    domain_add_operands(l, &d, l->root);
    return d;
}

void domain_add_root(Lower *l, Domain *d, const AxisMap *map)
{
    rlx_assert(!d->has_out_space && map != NULL);
    d->has_out_space = true;
    add_access(l, d, l->root, map);
    add_operands(l, d, l->root, map);
}

static void swap_axes(Domain *d, uint32_t i, uint32_t j)
{
    const int64_t extent = d->extent[i];
    const LiveRef live = d->live[i];
    d->extent[i] = d->extent[j];
    d->extent[j] = extent;
    d->live[i] = d->live[j];
    d->live[j] = live;
    for (uint32_t k = 0; k < d->access.len; k++) {
        int64_t *stride = d->access.data[k].stride, t = stride[i];
        stride[i] = stride[j];
        stride[j] = t;
    }
}

void domain_move_class(Domain *d, uint8_t *class)
{
    rlx_assert(class != NULL && d->rank <= SHAPE_MAX_RANK);
    for (uint32_t i = 1; i < d->rank; i++)
        for (uint32_t j = i; j > 0 && class[j - 1] > class[j]; j--) {
            const uint8_t t = class[j];
            class[j] = class[j - 1];
            class[j - 1] = t;
            swap_axes(d, j - 1, j);
        }
}

static void remove_axis(Domain *d, uint32_t axis, uint8_t *class)
{
    for (uint32_t i = axis; i + 1 < d->rank; i++) {
        swap_axes(d, i, i + 1);
        if (class != NULL)
            class[i] = class[i + 1];
    }
    d->rank--;
}

// Only the outer axis may end early: then what counts is at the beginning of the joined one.
static bool can_join(const Domain *d, uint32_t outer)
{
    if (d->live[outer + 1].size != 0 ||
        (d->live[outer].size != 0 && live_times(d->live[outer], d->extent[outer + 1]).size == 0))
        return false;
    for (uint32_t k = 0; k < d->access.len; k++) {
        const int64_t *s = d->access.data[k].stride;
        if (s[outer] != s[outer + 1] * d->extent[outer + 1])
            return false;
    }
    return true;
}

static void sort_axes(Domain *d, const Access *by, const uint8_t *class)
{
    for (uint32_t i = 1; i < d->rank; i++)
        for (uint32_t j = i; j > 0; j--) {
            const int64_t a = by->stride[j - 1], b = by->stride[j];
            if ((a < 0 ? -a : a) >= (b < 0 ? -b : b) || (class != NULL && class[j - 1] != class[j]))
                break;
            swap_axes(d, j - 1, j);
        }
}

void domain_simplify(Lower *l, Domain *d, NodeId id, uint8_t *class)
{
    (void)l;
    for (uint32_t i = d->rank; i-- > 0;)
        if (d->extent[i] == 1)
            remove_axis(d, i, class);
    const Access *by = domain_access(d, id, SPACE_IN);
    by = by != NULL ? by : domain_access(d, id, SPACE_OUT);
    rlx_assert(by != NULL);
    sort_axes(d, by, class);
    for (uint32_t i = d->rank; i-- > 1;) {
        if ((class != NULL && class[i - 1] != class[i]) || !can_join(d, i - 1))
            continue;
        d->live[i - 1] = live_times(d->live[i - 1], d->extent[i]);
        d->extent[i - 1] *= d->extent[i];
        for (uint32_t k = 0; k < d->access.len; k++)
            d->access.data[k].stride[i - 1] = d->access.data[k].stride[i];
        remove_axis(d, i, class);
    }
}

// Could the kernel store bools that it computes? A copy moves them as bytes.
static bool writes_bools(const Lower *l)
{
    return l->pk->copy.src == 0 && (lower_node(l, l->root)->dtype == DTYPE_bool ||
                                    lower_node(l, l->anchor)->dtype == DTYPE_bool);
}

typedef bool (*AccessTest)(const Lower *l, const Access *a, uint32_t axis);

// Masks of lanes are read (operand_lanes), but not written.
static bool has_vector_memory(const Lower *l, NodeId id)
{
    const int type = lower_node(l, id)->dtype;
    return type == DTYPE_f32 || type == DTYPE_i32 || k_is_half(type) || k_is_byte(type) ||
           (type == DTYPE_bool && !writes_bools(l) && !lower_is_in_body(l, id));
}

// An elementwise kernel that makes truths of 16-bit floats, which compilers do not convert in vectors: the
// masks are stored as bytes (pull_store_given).
static bool stores_masks(const Lower *l, const Domain *d)
{
    bool any = false;
    if (l->caps->is_gpu || l->pk->copy.src != 0 || l->anchor != 0 || l->strip.window != NULL ||
        lower_node(l, l->root)->dtype != DTYPE_bool || d->has_out_space)
        return false;
    for (uint32_t i = 0; i < d->access.len; i++) {
        const NodeId id = d->access.data[i].node;
        const int type = lower_node(l, id)->dtype;
        if (id != l->root && type == DTYPE_bool)
            return false;
        any = any || k_is_half(type);
    }
    return any;
}

// Does only a mask need it that is not computed?
static bool is_mask_only(const Lower *l, NodeId id)
{
    bool any = false;
    for (uint32_t i = 0; i < l->pk->body.len; i++) {
        const NodeId user = l->pk->body.data[i];
        const Node *n = lower_node(l, user);
        for (uint32_t k = 0; k < n->n_src; k++) {
            if (n->src[k] != id)
                continue;
            if (k != 0 || !lower_is_unmasked(l, user))
                return false;
            any = true;
        }
    }
    return any;
}

// Can vectors take every other element of what is read? Zips move f32 and i32.
static bool is_read_apart(const Lower *l, const Access *a, uint32_t axis)
{
    const int type = a->node == 0 ? (int)DTYPE_bool : (int)lower_node(l, a->node)->dtype;
    return a->stride[axis] == 2 && a->node != l->root && (type == DTYPE_f32 || type == DTYPE_i32);
}

static uint8_t lanes_along(const Lower *l, const Domain *d, uint32_t axis, AccessTest may_be_apart)
{
    rlx_assert(axis < d->rank);
    const bool may_mask = stores_masks(l, d);
    for (uint32_t k = 0; k < d->access.len; k++) {
        const Access *a = &d->access.data[k];
        const bool is_stored = may_mask && a->node == l->root && a->stride[axis] == 1;
        const bool is_near = a->stride[axis] == 0 || a->stride[axis] == 1;
        if ((!is_near && (may_be_apart == NULL || !may_be_apart(l, a, axis))) ||
            (a->node != 0 && !is_stored && !has_vector_memory(l, a->node)))
            return 1;
    }
    for (uint32_t i = 0; i < l->pk->body.len; i++)
        if (!pull_is_vector(l, l->pk->body.data[i]) && !is_mask_only(l, l->pk->body.data[i]))
            return 1;
    return lower_fit_lanes(l, d->extent[axis]);
}

uint8_t domain_lanes(const Lower *l, const Domain *d, uint32_t axis)
{
    return lanes_along(l, d, axis, NULL);
}

uint8_t domain_lanes_apart(const Lower *l, const Domain *d, uint32_t axis)
{
    return lanes_along(l, d, axis, is_read_apart);
}

// --- loops ---------------------------------------------------------------------------------------

static const char *const axis_names[SHAPE_MAX_RANK] = {"i0", "i1", "i2", "i3", "i4", "i5", "i6", "i7"};

// The grid of a GPU has constant sizes: what is beyond the live elements is left out.
static uint32_t open_live(Lower *l, const Domain *d, uint32_t axis, const Point *at)
{
    if (d->live[axis].size == 0)
        return 0;
    k_if(l->k, k_lt(l->k, at->idx[axis], lower_live(l, &d->live[axis], d->extent[axis])));
    return 1;
}

// GPUs have three grid axes: the leading axes share one loop there.
static uint32_t open_joined(Lower *l, const Domain *d, uint32_t n, Point *at)
{
    int64_t total = 1;
    for (uint32_t i = 0; i < n; i++)
        total *= d->extent[i];
    KRef rest = k_loop(l->k, total, KFOR_PARALLEL, "g");
    for (uint32_t i = n; i-- > 0;) {
        const KRef extent = k_index(l->k, d->extent[i]);
        at->idx[i] = i == 0 ? rest : k_rem(l->k, rest, extent);
        rest = i == 0 ? rest : k_div(l->k, rest, extent);
    }
    return 1;
}

// Without what is beyond the live elements.
static uint32_t open_loop(Lower *l, const Domain *d, uint32_t axis, uint8_t flags, Point *at)
{
    rlx_assert(l->strip.window == NULL || flags != KFOR_GROUP);
    const KRef zero = k_index(l->k, 0);
    if (l->strip.window != NULL && axis == WINDOW_IMAGE) {
        at->idx[axis] = l->strip.window->image;
        return 0;
    }
    if (l->strip.window != NULL && axis == WINDOW_ROW) {
        at->idx[axis] =
            k_for(l->k, l->strip.window->lo, l->strip.window->hi, 1, KFOR_SERIAL, axis_names[axis]);
        return 1;
    }
    if (d->extent[axis] == 1 && (!l->caps->is_gpu || flags != KFOR_PARALLEL)) {
        at->idx[axis] = zero;
        return 0;
    }
    const bool is_grid = l->caps->is_gpu && flags == KFOR_PARALLEL;
    const KRef end =
        is_grid ? k_index(l->k, d->extent[axis]) : lower_live(l, &d->live[axis], d->extent[axis]);
    at->idx[axis] = k_for(l->k, zero, end, 1, flags, axis_names[axis]);
    return 1;
}

uint32_t lower_open_axis(Lower *l, const Domain *d, uint32_t axis, uint8_t flags, Point *at)
{
    rlx_assert(axis < d->rank);
    const uint32_t opened = open_loop(l, d, axis, flags, at);
    return l->caps->is_gpu && flags == KFOR_PARALLEL ? opened + open_live(l, d, axis, at) : opened;
}

uint32_t lower_open(Lower *l, const Domain *d, uint32_t n, Point *at)
{
    rlx_assert(n <= d->rank);
    uint32_t first = 0, opened = 0;
    if (l->caps->is_gpu && n > 2) {
        opened += open_joined(l, d, n - 1, at);
        first = n - 1;
    }
    for (uint32_t i = first; i < n; i++)
        opened += open_loop(l, d, i, KFOR_PARALLEL, at);
    if (l->caps->is_gpu)
        opened += lower_open_live(l, d, n, at); // behind all loops, which are the grid
    return opened;
}

uint32_t lower_open_live(Lower *l, const Domain *d, uint32_t axes, const Point *at)
{
    uint32_t opened = 0;
    for (uint32_t i = 0; i < axes; i++)
        opened += open_live(l, d, i, at);
    return opened;
}

void lower_close(Lower *l, uint32_t n)
{
    k_ends(l->k, n);
}

// Vectors up to where the last one ends before the live elements do, then the others one by one.
static void along_exactly(Lower *l, const Domain *d, uint8_t lanes, Point at, PointFn fn, void *ctx)
{
    const uint32_t axis = at.vec_axis;
    const KRef end = lower_live(l, &d->live[axis], d->extent[axis]);
    const KRef rest = k_expr(l->k, "$ % #", end, lanes);
    const KRef last = k_sub(l->k, end, rest);
    at.idx[axis] = k_for(l->k, k_index(l->k, 0), last, lanes, KFOR_PARALLEL, axis_names[axis]);
    fn(l, d, at, ctx);
    k_end(l->k);
    at.lanes = at.count = 1;
    at.idx[axis] = k_for(l->k, last, end, 1, KFOR_PARALLEL, axis_names[axis]);
    fn(l, d, at, ctx);
    k_end(l->k);
}

void lower_along(Lower *l, const Domain *d, uint32_t axis, uint8_t lanes, Point at, PointFn fn, void *ctx)
{
    rlx_assert(axis < d->rank && lanes >= 1 && (lanes & (lanes - 1)) == 0);
    rlx_assert(fn != NULL);
    const int64_t n = d->extent[axis], whole = n - n % lanes;
    const bool is_live = d->live[axis].size != 0;
    const KRef end = lower_live(l, &d->live[axis], n), last = k_index(l->k, whole);
    at.vec_axis = axis;
    at.lanes = at.count = lanes;
    if (is_live && d->is_exact && lanes > 1) {
        along_exactly(l, d, lanes, at, fn, ctx);
        return;
    }
    if (whole > 0) {
        const KRef stop = !is_live ? last : whole < n ? k_min(l->k, end, last) : end;
        at.idx[axis] = k_for(l->k, k_index(l->k, 0), stop, lanes, KFOR_PARALLEL, axis_names[axis]);
        fn(l, d, at, ctx);
        k_end(l->k);
    }
    if (whole < n) {
        if (is_live)
            k_if(l->k, k_lt(l->k, last, end));
        at.idx[axis] = last;
        at.count = (uint8_t)(n - whole);
        fn(l, d, at, ctx);
        if (is_live)
            k_end(l->k);
    }
}

void lower_walk(Lower *l, const Domain *d, uint8_t lanes, PointFn fn, void *ctx)
{
    rlx_assert(fn != NULL && lanes >= 1 && (lanes & (lanes - 1)) == 0);
    Point at = {.lanes = 1, .count = 1};
    if (d->rank == 0) {
        const uint32_t n = l->caps->is_gpu ? 1 : 0;
        if (n != 0)
            k_loop(l->k, 1, KFOR_PARALLEL, "g");
        fn(l, d, at, ctx);
        lower_close(l, n);
        return;
    }
    if (l->caps->is_gpu) {
        const uint32_t n = lower_open(l, d, d->rank, &at);
        fn(l, d, at, ctx);
        lower_close(l, n);
        return;
    }
    const uint32_t n = lower_open(l, d, d->rank - 1, &at);
    lower_along(l, d, d->rank - 1, lanes, at, fn, ctx);
    lower_close(l, n);
}

// --- maps ----------------------------------------------------------------------------------------

typedef struct MapBody {
    MapFn fn;
    void *ctx;
} MapBody;

static void map_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const MapBody *m = ctx;
    pull_store_root(l, d, at, m->fn(l, d, at, m->ctx));
}

// Opens loops over all axes such that threads next to each other write elements next to each other.
static uint32_t open_by_stride(Lower *l, const Domain *d, const Access *out, Point *at)
{
    bool is_open[SHAPE_MAX_RANK] = {0};
    uint32_t opened = 0;
    for (uint32_t n = 0; n < d->rank; n++) {
        uint32_t next = d->rank;
        for (uint32_t i = 0; i < d->rank; i++)
            if (!is_open[i] && (next == d->rank || out->stride[i] > out->stride[next]))
                next = i;
        is_open[next] = true;
        at->idx[next] = k_index(l->k, 0);
        if (d->extent[next] > 1)
            opened += lower_open_axis(l, d, next, KFOR_PARALLEL, at);
    }
    return opened;
}

bool domain_has_live(const Domain *d)
{
    for (uint32_t i = 0; i < d->rank; i++)
        if (d->live[i].size != 0)
            return true;
    return false;
}

// What the indices of the anchor's operand are made of, where its kernel computes them.
static void add_index(Lower *l, Domain *d)
{
    const Node *n = lower_node(l, l->anchor);
    if (op_info[n->op].joins == OPJOINS_INDEX && pull_is_computed(l, n->src[1]))
        domain_add_operands(l, d, n->src[1]);
}

void lower_map(Lower *l, MapFn fn, void *ctx, MapLanes lanes)
{
    rlx_assert(fn != NULL);
    MapBody m = {fn, ctx};
    Domain d = domain_of_root(l);
    add_index(l, &d);
    const Access *out = domain_access(&d, l->root, SPACE_IN);
    rlx_assert(out != NULL);
    uint32_t inner = d.rank == 0 ? 0 : d.rank - 1;
    for (uint32_t i = 0; i < d.rank; i++)
        if (out->stride[i] == 1 && d.extent[i] > 1)
            inner = i;
    const uint8_t width = d.rank > 0 && lanes == MAP_VECTOR ? domain_lanes(l, &d, inner) : 1;
    Point at = {.lanes = 1, .count = 1};
    if (l->caps->is_gpu && d.rank > 0 && inner != d.rank - 1 && !domain_has_live(&d)) {
        const uint32_t n = open_by_stride(l, &d, out, &at);
        map_point(l, &d, at, &m);
        lower_close(l, n);
        return;
    }
    if (l->caps->is_gpu || d.rank == 0) {
        lower_walk(l, &d, 1, map_point, &m);
        return;
    }
    uint32_t opened = 0;
    for (uint32_t i = 0; i < d.rank; i++)
        if (i != inner)
            opened += lower_open_axis(l, &d, i, KFOR_PARALLEL, &at);
    lower_along(l, &d, inner, width, at, map_point, &m);
    lower_close(l, opened);
}
