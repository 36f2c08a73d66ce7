// SPDX-License-Identifier: Apache-2.0
// Domains, pulling and loops: the part of the lowering frame that every schedule shares. See lower.h.
#include "ir/graph/tensor.h"
#include "passes/lower/lower.h"

// --- domains -------------------------------------------------------------------------------------

Domain domain_of(const Shape *s)
{
    rlx_assert(shape_is_const(s));
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

static const Access *find_access(const Domain *d, NodeId id, Space space)
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
    if (find_access(d, id, space) != NULL)
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

// True when pulling the node computes it in place rather than loading it.
static bool is_computed_here(const Lower *l, NodeId id)
{
    const Node *n = lower_node(l, id);
    return id != l->anchor && op_is_pointwise((OpId)n->op) && lower_is_in_body(l, id);
}

static bool is_immediate(const Lower *l, NodeId id)
{
    return node_is_scalar_const(l->g, id, NULL);
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
        if (!is_new || at == l->anchor || is_immediate(l, at))
            continue;
        vec_push(l->pass->scratch, &seen, at);
        if (!is_computed_here(l, at)) {
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

void domain_add_root(Lower *l, Domain *d, const AxisMap *map)
{
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
    const Access *by = find_access(d, id, SPACE_IN);
    by = by != NULL ? by : find_access(d, id, SPACE_OUT);
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

static bool has_vector_memory(int type)
{
    return type == DTYPE_f32 || type == DTYPE_i32 || k_is_half(type) || k_is_byte(type);
}

// Types that vectors compute with.
static bool is_vector_type(int type)
{
    return type == DTYPE_f32 || type == DTYPE_i32 || type == DTYPE_bool || k_is_half(type);
}

// Can a node of the body be computed in vectors? Bytes are only cast.
static bool is_vector_node(const Lower *l, NodeId id)
{
    const Node *n = lower_node(l, id);
    if (n->op == OP_cast)
        return k_casts_vectors(lower_node(l, n->src[0])->dtype, n->dtype);
    if (op_info[n->op].kind != OPKIND_EW)
        return (op_info[n->op].steps == OPSTEPS_FILTER && n->dtype == DTYPE_i32) ||
               (n->op != OP_bitcast && (n->dtype == DTYPE_f32 || k_is_half(n->dtype)));
    bool is_wide = is_vector_type(n->dtype);
    for (uint32_t i = 0; i < n->n_src; i++)
        is_wide = is_wide && is_vector_type(lower_node(l, n->src[i])->dtype);
    return is_wide;
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

uint8_t domain_lanes(const Lower *l, const Domain *d, uint32_t axis)
{
    for (uint32_t k = 0; k < d->access.len; k++) {
        const Access *a = &d->access.data[k];
        if ((a->stride[axis] != 0 && a->stride[axis] != 1) ||
            (a->node != 0 && !has_vector_memory(lower_node(l, a->node)->dtype)))
            return 1;
    }
    for (uint32_t i = 0; i < l->pk->body.len; i++)
        if (!is_vector_node(l, l->pk->body.data[i]) && !is_mask_only(l, l->pk->body.data[i]))
            return 1;
    return lower_fit_lanes(l, d->extent[axis]);
}

// --- pulling -------------------------------------------------------------------------------------

Pull pull_at(Lower *l, const Domain *d, Point at)
{
    Pull p = {.l = l, .d = d, .at = at};
    for (uint32_t i = 0; i < l->pk->body.len; i++)
        vec_push(l->pass->scratch, &p.memo, (KRef)0);
    return p;
}

KRef pull_index(Pull *p, NodeId id)
{
    const Access *a = find_access(p->d, id, p->space);
    rlx_assert(a != NULL);
    KRef index = lower_base(p->l, id);
    for (uint32_t i = 0; i < p->d->rank; i++)
        if (a->stride[i] != 0)
            index = k_expr(p->l->k, "$ * # + $", p->at.idx[i], a->stride[i], index);
    return index;
}

static KRef pull_register(const Pull *p, NodeId id)
{
    const Lower *l = p->l;
    for (uint32_t i = 0; p->at.slot != 0 && i < l->wide.n_registers; i++)
        if (l->wide.registers[i].node == id && l->wide.registers[i].space == p->space)
            return k_aload(l->k, l->wide.registers[i].array, p->at.slot, 1);
    return 0;
}

static KRef pull_load(Pull *p, NodeId id)
{
    const KRef held = pull_register(p, id);
    if (held != 0)
        return held;
    const Access *a = find_access(p->d, id, p->space);
    rlx_assert(a != NULL);
    const KRef index = pull_index(p, id);
    const bool is_vector = p->at.lanes > 1 && a->stride[p->at.vec_axis] != 0;
    return k_load(p->l->k, lower_param(p->l, id, PARAM_READ), index, is_vector ? p->at.lanes : 1,
                  is_vector ? p->at.count : 1);
}

static KRef *memo_of(Pull *p, NodeId id)
{
    for (uint32_t i = 0; i < p->l->pk->body.len; i++)
        if (p->l->pk->body.data[i] == id)
            return &p->memo.data[i];
    return NULL;
}

static KRef immediate(Lower *l, NodeId id)
{
    const Node *n = lower_node(l, id);
    double v = 0;
    if (dtype_info[n->dtype].cls == DCLASS_FLOAT) {
        node_is_scalar_const(l->g, id, &v);
        return k_number(l->k, n->dtype, v);
    }
    const Tensor t = tensor_of_const(l->g, id);
    return k_integer(l->k, n->dtype, tensor_get_i64(&t, 0));
}

// Depth is bounded by the size of a group.
KRef pull_value(Pull *p, NodeId id)
{
    rlx_assert(id != 0);
    Lower *l = p->l;
    if (id == p->given && id != 0)
        return p->given_value;
    if (id == p->other.id && id != 0)
        return p->other.value;
    if (is_immediate(l, id))
        return immediate(l, id);
    if (!is_computed_here(l, id))
        return pull_load(p, id);
    if (lower_is_unmasked(l, id))
        return pull_value(p, lower_node(l, id)->src[1]);
    KRef *memo = memo_of(p, id);
    if (*memo != 0)
        return *memo;
    const Node *n = lower_node(l, id);
    KRef src[3] = {0};
    for (uint32_t i = 0; i < n->n_src; i++)
        src[i] = pull_value(p, n->src[i]);
    const int type = lower_node(l, n->src[n->n_src - 1])->dtype;
    *memo = n->op == OP_cast      ? k_cast(l->k, src[0], n->dtype)
            : n->op == OP_bitcast ? k_bitcast(l->k, src[0], n->dtype)
                                  : k_form(l->k, op_info[n->op].kernel, src, type);
    return *memo;
}

void lower_store(Lower *l, uint32_t param, KRef index, KRef value, const Point *at)
{
    rlx_assert(value != 0 && at->count >= 1 && at->count <= at->lanes);
    if (at->slot != 0 && l->wide.collected != 0) {
        k_astore(l->k, l->wide.collected, at->lane, value);
        return;
    }
    if (at->lanes > 1 && k_inst(l->k, value)->lanes == 1)
        value = k_splat(l->k, value, at->lanes);
    k_store(l->k, param, index, value, at->count);
}

// Sums of 16-bit floats are f32: what the epilogue reads is rounded, as it would be behind a store.
static KRef rounded_anchor(Lower *l, KRef value)
{
    const int type = l->anchor != 0 ? lower_node(l, l->anchor)->dtype : (int)DTYPE_f32;
    const bool is_cast = value != 0 && k_inst(l->k, value)->kind == KI_cast;
    if (value == 0 || l->root == l->anchor || is_cast || (type != DTYPE_f16 && type != DTYPE_bf16))
        return value;
    return k_cast(l->k, k_cast(l->k, value, DTYPE_f32), type);
}

static Pull pull_of_root(Lower *l, const Domain *d, Point at, KRef anchor_value)
{
    Pull p = pull_at(l, d, at);
    p.space = d->has_out_space ? SPACE_OUT : SPACE_IN;
    p.given = l->anchor;
    p.given_value = rounded_anchor(l, anchor_value);
    return p;
}

KRef pull_root(Lower *l, const Domain *d, Point at, KRef anchor_value)
{
    Pull p = pull_of_root(l, d, at, anchor_value);
    return pull_value(&p, l->root);
}

void pull_store_root(Lower *l, const Domain *d, Point at, KRef anchor_value)
{
    pull_store_given(l, d, at, anchor_value, &(Given){0});
}

void pull_store_given(Lower *l, const Domain *d, Point at, KRef anchor_value, const Given *other)
{
    Pull p = pull_of_root(l, d, at, anchor_value);
    p.other = (Given){other->id, rounded_anchor(l, other->value)};
    const KRef value = pull_value(&p, l->root);
    lower_store(l, lower_param(l, l->root, PARAM_WRITE), pull_index(&p, l->root), value, &at);
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
    uint32_t opened = 1;
    for (uint32_t i = 0; i < n; i++)
        opened += open_live(l, d, i, at);
    return opened;
}

uint32_t lower_open_axis(Lower *l, const Domain *d, uint32_t axis, uint8_t flags, Point *at)
{
    rlx_assert(axis < d->rank);
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
    return is_grid ? 1 + open_live(l, d, axis, at) : 1;
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
        opened += lower_open_axis(l, d, i, KFOR_PARALLEL, at);
    return opened;
}

void lower_close(Lower *l, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        k_end(l->k);
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

static bool has_live(const Domain *d)
{
    for (uint32_t i = 0; i < d->rank; i++)
        if (d->live[i].size != 0)
            return true;
    return false;
}

void lower_map(Lower *l, MapFn fn, void *ctx, MapLanes lanes)
{
    rlx_assert(fn != NULL);
    MapBody m = {fn, ctx};
    Domain d = domain_of(lower_node(l, l->root)->shape);
    domain_trim(l, &d, l->root);
    domain_add(l, &d, l->root);
    domain_add_operands(l, &d, l->root);
    const Access *out = find_access(&d, l->root, SPACE_IN);
    uint32_t inner = d.rank == 0 ? 0 : d.rank - 1;
    for (uint32_t i = 0; i < d.rank; i++)
        if (out->stride[i] == 1 && d.extent[i] > 1)
            inner = i;
    const uint8_t width = d.rank > 0 && lanes == MAP_VECTOR ? domain_lanes(l, &d, inner) : 1;
    Point at = {.lanes = 1, .count = 1};
    if (l->caps->is_gpu && d.rank > 0 && inner != d.rank - 1 && !has_live(&d)) {
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
