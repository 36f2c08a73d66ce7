// SPDX-License-Identifier: Apache-2.0
// The lower pass: makes the kernel IR of every planned kernel by calling the lower_NAME of its anchor.
#include "passes/graph/cost.h"
#include "passes/lower/border.h"
#include "passes/lower/packer.h"
#include "passes/lower/strip.h"

typedef void (*LowerFn)(Lower *l);

static const LowerFn lower_fns[OP_COUNT] = {
#define OP(name, ...) [OP_##name] = lower_##name,
#define NO_KERNEL(name, ...)
#include "ir/graph/ops.def"
};

NodeId lower_find_result(const Lower *l, int64_t index)
{
    rlx_assert(l->anchor != 0 && index >= 0);
    for (NodeId id = l->anchor + 1; id < l->g->nodes.len; id++) {
        const Node *n = lower_node(l, id);
        if (index != 0 && node_result(n) == index && n->src[0] == l->anchor)
            return id;
    }
    return 0;
}

bool lower_is_in_body(const Lower *l, NodeId id)
{
    rlx_assert(id != 0);
    for (uint32_t i = 0; i < l->pk->body.len; i++)
        if (l->pk->body.data[i] == id)
            return true;
    return false;
}

uint32_t lower_epilogue_cost(const Lower *l)
{
    uint32_t cost = 0;
    for (uint32_t i = 0; i < l->pk->body.len; i++)
        if (l->pk->body.data[i] > l->anchor)
            cost += op_info[lower_node(l, l->pk->body.data[i])->op].cost;
    return cost;
}

const Loc *lower_loc(const Lower *l, NodeId id)
{
    rlx_assert(id < l->plan->locs.len);
    rlx_assert(id != 0);
    return &l->plan->locs.data[id];
}

uint32_t lower_alignment(const Lower *l, const Loc *loc, DType t)
{
    rlx_assert(loc->buf != 0 && loc->buf < l->plan->buffers.len);
    const PlanBuffer *b = &l->plan->buffers.data[loc->buf];
    const uint32_t bytes = dtype_info[t].bytes;
    if (b->region == REGION_OUTER || l->strip.n_held != 0)
        return bytes;
    const uint64_t at = b->align | ((uint64_t)loc->offset * bytes);
    rlx_assert(at != 0 && (at & (0 - at)) % bytes == 0);
    return (uint32_t)(at & (0 - at));
}

static uint32_t add_param(Lower *l, PlanArg arg, const char *name, DType t)
{
    const uint32_t param = kernel_param(l->k, name, t, arg.is_written, arg.is_read);
    vec_push(l->plan->arena, &l->pk->args, arg);
    l->k->params.data[param].first = (int64_t)(arg.below / dtype_info[t].bytes);
    return param;
}

// Byte range that the elements of a value take in its buffer. Where indices are never negative, kernels
// count from its begin.
static void loc_range(const Lower *l, const Shape *s, const Loc *loc, uint32_t elem_bytes, PlanArg *arg)
{
    int64_t low = loc->offset, high = loc->offset;
    for (uint32_t i = 0; i < s->rank; i++) {
        const int64_t span = (s->dim[i] - 1) * loc->stride[i];
        low += span < 0 ? span : 0;
        high += span > 0 ? span : 0;
    }
    if (shape_numel(s) == 0) { // an empty range at the offset
        low = loc->offset;
        high = loc->offset - 1;
    }
    arg->buf = loc->buf;
    arg->byte_offset = (uint64_t)loc->offset * elem_bytes;
    arg->below = l->caps->counts_up ? (uint64_t)(loc->offset - low) * elem_bytes : 0;
    arg->begin = (uint64_t)low * elem_bytes;
    arg->end = (uint64_t)(high + 1) * elem_bytes;
}

static const char *param_name(Lower *l, NodeId id)
{
    const char *prefix = id == l->root ? "y" : "x";
    return arena_printf(l->plan->arena, "%s%u", prefix, l->k->params.len);
}

uint32_t lower_param_typed(Lower *l, const TensorType *t, const Loc *loc, const char *name, ParamUse use)
{
    rlx_assert((use & PARAM_READ_WRITE) != 0 && loc->buf != 0 && shape_is_const(&t->shape));
    PlanArg arg = {.is_read = (use & PARAM_READ) != 0, .is_written = (use & PARAM_WRITE) != 0};
    loc_range(l, &t->shape, loc, dtype_info[t->dtype].bytes, &arg);
    rlx_assert(arg.begin <= arg.end);
    for (uint32_t i = 0; i < l->pk->args.len; i++) {
        PlanArg *a = &l->pk->args.data[i];
        if (a->buf == arg.buf && a->byte_offset == arg.byte_offset && a->below == arg.below &&
            l->k->params.data[i].dtype == t->dtype) {
            a->is_read |= arg.is_read;
            a->is_written |= arg.is_written;
            a->begin = a->begin < arg.begin ? a->begin : arg.begin;
            a->end = a->end > arg.end ? a->end : arg.end;
            l->k->params.data[i].is_read = a->is_read;
            l->k->params.data[i].is_written = a->is_written;
            return i;
        }
    }
    return add_param(l, arg, name, t->dtype);
}

uint32_t lower_param_at(Lower *l, NodeId id, const Loc *loc, ParamUse use)
{
    const Node *n = lower_node(l, id);
    const TensorType t = {(DType)n->dtype, *n->shape};
    return lower_param_typed(l, &t, loc, param_name(l, id), use);
}

uint32_t lower_param_words_at(Lower *l, NodeId id, const Loc *loc, DType t, ParamUse use)
{
    const Node *n = lower_node(l, id);
    rlx_assert(loc->buf != 0 && dtype_info[t].bytes % dtype_info[n->dtype].bytes == 0);
    PlanArg arg = {.is_read = (use & PARAM_READ) != 0, .is_written = (use & PARAM_WRITE) != 0};
    loc_range(l, n->shape, loc, dtype_info[n->dtype].bytes, &arg);
    for (uint32_t i = 0; i < l->pk->args.len; i++) {
        const PlanArg *a = &l->pk->args.data[i];
        if (a->buf == arg.buf && a->byte_offset == arg.byte_offset && a->below == arg.below &&
            l->k->params.data[i].dtype == t && a->is_written == arg.is_written)
            return i;
    }
    return add_param(l, arg, param_name(l, id), t);
}

uint32_t lower_param_words(Lower *l, NodeId id, DType t)
{
    return lower_param_words_at(l, id, lower_loc(l, id), t, PARAM_READ);
}

static const HeldRows *held_rows(const Lower *l, NodeId id)
{
    for (uint32_t i = 0; i < l->strip.n_held; i++)
        if (l->strip.held[i].id == id)
            return &l->strip.held[i];
    return NULL;
}

KRef lower_base(const Lower *l, NodeId id)
{
    const HeldRows *held = held_rows(l, id);
    return held != NULL ? held->base : k_index(l->k, 0);
}

uint32_t lower_param(Lower *l, NodeId id, ParamUse use)
{
    rlx_assert(id != 0 && (use & PARAM_READ_WRITE) != 0);
    if (held_rows(l, id) != NULL)
        return held_rows(l, id)->param;
    rlx_assert(lower_loc(l, id)->buf != 0);
    return lower_param_at(l, id, lower_loc(l, id), use);
}

uint32_t lower_param_buffer(Lower *l, BufId b, DType t, ParamUse use)
{
    rlx_assert(b != 0 && b < l->plan->buffers.len);
    rlx_assert((use & PARAM_READ_WRITE) != 0);
    const bool is_written = (use & PARAM_WRITE) != 0;
    const PlanArg arg = {.buf = b,
                         .begin = 0,
                         .end = l->plan->buffers.data[b].bytes,
                         .is_read = (use & PARAM_READ) != 0,
                         .is_written = is_written};
    return add_param(l, arg, arena_printf(l->plan->arena, "%s%u", is_written ? "t" : "w", l->k->params.len),
                     t);
}

static uint32_t param_of_buffer(Lower *l, PlanBuffer b, DType t, bool is_written)
{
    rlx_assert(b.name != NULL && b.align >= dtype_info[t].bytes);
    vec_push(l->plan->arena, &l->plan->buffers, b);
    return lower_param_buffer(l, l->plan->buffers.len - 1, t, is_written ? PARAM_READ_WRITE : PARAM_READ);
}

bool lower_is_in_file(const Lower *l, NodeId id)
{
    if (!node_is_const(l->g, id))
        return false;
    const AttrVal *v = node_attr(lower_node(l, id), A_const_data);
    return plan_file_has(l->pass->options->file, v->u.blob, v->len);
}

uint32_t lower_param_data(Lower *l, const char *name, DType t, const void *data, uint64_t bytes)
{
    rlx_assert(data != NULL || bytes == 0);
    return param_of_buffer(
        l, (PlanBuffer){.region = REGION_WEIGHTS, .bytes = bytes, .align = 64, .data = data, .name = name}, t,
        false);
}

uint32_t lower_param_filled(Lower *l, const char *name, DType t, PlanFill fill, const void *ctx,
                            uint64_t bytes)
{
    rlx_assert(fill != NULL);
    return param_of_buffer(l,
                           (PlanBuffer){.region = REGION_WEIGHTS,
                                        .bytes = bytes,
                                        .align = 64,
                                        .fill = fill,
                                        .fill_ctx = ctx,
                                        .name = name},
                           t, false);
}

static void fill_narrow(const void *ctx, void *out)
{
    const AttrVal *v = ctx;
    const int64_t *from = v->u.blob;
    int32_t *to = out;
    for (uint64_t i = 0; i < v->len / 8; i++)
        to[i] = (int32_t)from[i];
}

uint32_t lower_param_narrow(Lower *l, NodeId id)
{
    if (!l->caps->prefers_ints || !node_is_const(l->g, id) || lower_node(l, id)->dtype != DTYPE_i64)
        return 0;
    const AttrVal *v = node_attr(lower_node(l, id), A_const_data);
    const int64_t *values = v->u.blob;
    for (uint64_t i = 0; i < v->len / 8; i++)
        if (values[i] < INT32_MIN || values[i] > INT32_MAX)
            return 0;
    for (uint32_t i = 0; i < l->pk->args.len; i++) {
        const PlanBuffer *b = &l->plan->buffers.data[l->pk->args.data[i].buf];
        if (b->fill == fill_narrow && b->fill_ctx == v)
            return i + 1;
    }
    return 1 + lower_param_filled(l, node_name(l->g, id), DTYPE_i32, fill_narrow, v, v->len / 2);
}

uint32_t lower_param_experts(Lower *l, const char *name, DType t, PlanFill fill, const void *ctx,
                             uint64_t bytes)
{
    const uint32_t param = lower_param_filled(l, name, t, fill, ctx, bytes);
    rlx_assert(param < l->pk->args.len);
    l->plan->buffers.data[l->pk->args.data[param].buf].region = REGION_EXPERTS;
    return param;
}

uint32_t lower_param_table(Lower *l, const char *name, uint64_t n)
{
    rlx_assert(n > 0);
    return param_of_buffer(l, (PlanBuffer){.region = REGION_STATE, .bytes = n * 8, .align = 64, .name = name},
                           DTYPE_u64, false);
}

uint32_t lower_param_counter(Lower *l, const char *name, uint64_t n)
{
    rlx_assert(n > 0);
    return param_of_buffer(l, (PlanBuffer){.region = REGION_STATE, .bytes = n * 4, .align = 64, .name = name},
                           DTYPE_u32, true);
}

bool lower_take(Lower *l)
{
    l->has_taken = l->refused == 0;
    l->refused -= l->refused != 0;
    return l->has_taken;
}

uint32_t lower_param_scratch(Lower *l, const char *name, DType t, uint64_t elements)
{
    rlx_assert(elements <= UINT64_MAX / dtype_info[t].bytes);
    const uint64_t bytes = elements * dtype_info[t].bytes;
    return param_of_buffer(l, (PlanBuffer){.region = REGION_ARENA, .bytes = bytes, .align = 64, .name = name},
                           t, true);
}

uint32_t lower_param_view(Lower *l, uint32_t param, DType t)
{
    rlx_assert(param < l->pk->args.len);
    const PlanArg arg = l->pk->args.data[param];
    l->k->may_alias = true;
    vec_push(l->plan->arena, &l->pk->args, arg);
    const uint32_t view = kernel_param(l->k, "b", t, true, true);
    l->k->params.data[view].first = (int64_t)(arg.below / dtype_info[t].bytes);
    return view;
}

uint32_t lower_param_thread_scratch(Lower *l, const char *name, DType t, uint64_t elements, KRef *base)
{
    rlx_assert(base != NULL && elements < UINT64_MAX / 2);
    const uint64_t line = pass_is_serial(l->pass) ? 1 : 64 / dtype_info[t].bytes;
    const uint64_t own = (elements + line - 1) / line * line;
    const uint32_t threads = l->caps->threads > 1 ? l->caps->threads : 1;
    *base = threads == 1 ? k_index(l->k, 0) : k_expr(l->k, "$ * #", k_part(l->k), (int64_t)own);
    const uint32_t param = lower_param_scratch(l, name, t, own * threads);
    l->k->params.data[param].is_own = true;
    return param;
}

bool lower_can_map(const Lower *l, BufId b)
{
    rlx_assert(b != 0 && b < l->plan->buffers.len);
    return l->pass->frame == NULL && l->plan->buffers.data[b].region != REGION_OUTER;
}

uint32_t lower_param_map(Lower *l, const PlanTensorMap *map)
{
    PlanTensorMap *own = ARENA_NEW(l->plan->arena, PlanTensorMap);
    const PlanBuffer b = {
        .region = REGION_MAPS, .bytes = PLAN_MAP_BYTES, .align = PLAN_MAP_BYTES, .map = own, .name = "map"};
    rlx_assert(lower_can_map(l, map->buf) && map->rank >= 1 && map->rank <= PLAN_MAP_MAX_RANK);
    *own = *map;
    return param_of_buffer(l, b, DTYPE_u64, false);
}

uint8_t lower_fit_lanes(const Lower *l, int64_t n)
{
    rlx_assert(n >= 0 && l->caps->f32_lanes >= 1);
    uint8_t lanes = l->caps->f32_lanes;
    while (lanes > 1 && lanes / 2 >= n)
        lanes /= 2;
    return lanes < 4 ? 1 : lanes;
}

// Name, comment and cost of a kernel, from the nodes in it.
static void describe(Lower *l, uint32_t index)
{
    Arena *a = l->plan->arena;
    Str name = str_new(a), comment = str_new(a);
    str_printf(&name, "%s%u", l->plan->prefix, index);
    if (l->pk->copy.src != 0) {
        str_add(&name, "_copy");
        str_printf(&comment, "%s: copy of %s", node_name(l->g, l->pk->root),
                   node_name(l->g, l->pk->copy.src));
    }
    for (uint32_t i = 0; i < l->pk->body.len; i++) {
        const NodeId id = l->pk->body.data[i];
        if (i < 4)
            str_printf(&name, "_%s", op_info[lower_node(l, id)->op].name);
        str_printf(&comment, "%s%s = %s", i == 0 ? "" : ", ", node_name(l->g, id),
                   op_info[lower_node(l, id)->op].name);
    }
    l->k->name = str_text(&name);
    l->k->comment = str_text(&comment);
}

void lower_anchor(Lower *l)
{
    rlx_assert(lower_fns[lower_node(l, l->anchor)->op] != NULL);
    rlx_assert(l->anchor != 0);
    lower_fns[lower_node(l, l->anchor)->op](l);
}

// Two for a multiply-add, and for all else what it costs in additions (cost.h).
static uint64_t count_flops(const PlanKernel *pk, const Graph *g)
{
    double flops = 2 * (double)pk->macs;
    for (uint32_t i = 0; i < pk->body.len; i++)
        if (pk->body.data[i] != pk->anchor || pk->macs == 0)
            flops += cost_node(g, pk->body.data[i]);
    return flops < 1e18 ? (uint64_t)flops : UINT64_C(1000000000000000000);
}

// What all kernels are lowered with.
typedef struct Facts {
    Pass *pass;
    uint64_t constant_bytes;
    const bool *whole, *lasting;
} Facts;

static void lower_body(Lower *l)
{
    const PlanKernel *pk = l->pk;
    if (pk->copy.src != 0)
        lower_strided_copy(l);
    else if (pk->anchor == 0)
        lower_elementwise(l);
    else if (pk->stages.len > 0)
        strip_lower(l);
    else if (l->anchor != l->root && (op_info[lower_node(l, l->root)->op].flags & OPFLAG_UPDATES) != 0)
        lower_patch(l);
    else
        lower_anchor(l);
    if (pk->copy.src == 0)
        border_fill(l);
}

// A way to lower a kernel.
typedef struct Way {
    uint32_t refused;        // Lower.refused
    const PlanKernel *maker; // Lower.maker
} Way;

// False: none of the ways that need scratch memory was taken, or none that could be merged with the maker.
static bool lower_kernel(const Facts *f, PlanKernel *pk, uint32_t index, Way way)
{
    Pass *p = f->pass;
    rlx_assert(pk->kernel == NULL && pk->root != 0);
    rlx_assert(pk->copy.src != 0 || pk->body.data[pk->body.len - 1] == pk->root);
    Lower l = {.pass = p,
               .plan = p->plan,
               .g = p->plan->graph,
               .pk = pk,
               .caps = p->plan->caps,
               .anchor = pk->anchor,
               .root = pk->root,
               .index = index,
               .constant_bytes = f->constant_bytes,
               .whole = f->whole,
               .lasting = f->lasting,
               .refused = way.refused,
               .maker = way.maker};
    l.k = kernel_new(p->perm, "");
    l.k->has_sat = l.caps->has_sat;
    l.k->has_dsp = l.caps->has_dsp;
    l.k->is_narrow = l.caps->is_narrow;
    describe(&l, index);
    lower_begin_sizes(&l);
    lower_body(&l);
    rlx_assert(pk->args.len == l.k->params.len);
    pk->kernel = l.k;
    pk->flops = pk->copy.src != 0 ? 0 : count_flops(pk, l.g);
    const char *wrong = kernel_verify(l.k);
    if (wrong != NULL)
        diag_bug(l.k->name, (int)index, wrong);
    return l.has_taken && (way.maker == NULL || l.is_merged);
}

// May the kernel make, piece by piece, what the one before it makes? It reads that as the operand of its
// anchor only.
static const PlanKernel *maker_of(const Pass *p, uint32_t index)
{
    const PlanKernel *k = &p->plan->kernels.data[index], *maker = k - 1;
    if (!pass_is_serial(p) || index == 0 || k->anchor == 0 || maker->anchor == 0 || k->stages.len != 0 ||
        maker->stages.len != 0 || k->copy.src != 0 || maker->copy.src != 0)
        return NULL;
    for (uint32_t i = 0; i < k->body.len; i++) {
        const Node *n = graph_node(p->plan->graph, k->body.data[i]);
        for (uint32_t j = 0; j < n->n_src; j++)
            if (n->src[j] == maker->root && (k->body.data[i] != k->anchor || j != 0))
                return NULL;
    }
    const Node *anchor = graph_node(p->plan->graph, k->anchor);
    const bool is_like = anchor->op == graph_node(p->plan->graph, maker->anchor)->op;
    return is_like && p->plan->caps->has_dsp && anchor->src[0] == maker->root ? maker : NULL;
}

// The ways in which the kernel, as it was before it was lowered, also makes what its maker does.
static PlanKernel *lower_merged(const Facts *f, const PlanKernel *bare, uint32_t index)
{
    Plan *plan = f->pass->plan;
    PlanKernel *first = NULL, **to = &first;
    const PlanKernel *maker = maker_of(f->pass, index);
    for (uint32_t refused = 0; maker != NULL; refused++) {
        PlanKernel *k = ARENA_NEW(plan->arena, PlanKernel);
        *k = *bare;
        if (!lower_kernel(f, k, index, (Way){refused, maker}))
            break;
        k->body.data = NULL;
        k->body.len = k->body.cap = 0;
        for (uint32_t i = 0; i < maker->body.len; i++)
            vec_push(plan->arena, &k->body, maker->body.data[i]);
        for (uint32_t i = 0; i < bare->body.len; i++)
            vec_push(plan->arena, &k->body, bare->body.data[i]);
        *to = k;
        to = &k->other;
    }
    return first;
}

// The kernel, and where the memory plan chooses, it in all other ways.
static void lower_ways(const Facts *f, uint32_t index)
{
    Plan *plan = f->pass->plan;
    const PlanKernel bare = plan->kernels.data[index];
    PlanKernel *last = &plan->kernels.data[index];
    const uint32_t n_packings = plan->prepare.packings.len;
    bool has_more = lower_kernel(f, last, index, (Way){0}) && pass_is_serial(f->pass);
    for (uint32_t refused = 1; has_more && plan->prepare.packings.len == n_packings; refused++) {
        PlanKernel *other = ARENA_NEW(plan->arena, PlanKernel);
        *other = bare;
        has_more = lower_kernel(f, other, index, (Way){refused, NULL});
        last = last->other = other;
    }
    plan->kernels.data[index].merged = lower_merged(f, &bare, index);
}

static uint64_t count_constant_bytes(const Graph *g)
{
    uint64_t bytes = 0;
    for (NodeId id = 1; id < g->nodes.len; id++)
        if (node_is_const(g, id) || graph_node(g, id)->op == OP_param)
            bytes +=
                (uint64_t)shape_numel(graph_node(g, id)->shape) * dtype_info[graph_node(g, id)->dtype].bytes;
    return bytes;
}

// Floats of which some reader takes the integer part, such as sums of bytes in f32 (passes/graph/bytes.c).
static const bool *find_whole(const Graph *g, Arena *a)
{
    bool *whole = ARENA_ARRAY(a, bool, g->nodes.len);
    for (NodeId id = 1; id < g->nodes.len; id++) {
        const Node *n = graph_node(g, id);
        if (op_is_pointwise((OpId)n->op) && dtype_info[n->dtype].cls != DCLASS_FLOAT)
            for (uint32_t i = 0; i < n->n_src; i++)
                whole[n->src[i]] = true;
    }
    return whole;
}

// Where the prepare pass does not.
static void add_packings(Pass *p)
{
    Plan *plan = p->plan;
    const bool prepares = plan->params.len != 0 && p->options->opt_level >= 1;
    if (prepares || plan->prepare.packings.len == 0)
        return;
    const uint32_t *place = packer_add_kernels(plan, p->scratch);
    for (uint32_t i = 0; i < plan->choices.len; i++)
        plan->choices.data[i].kernel = place[plan->choices.data[i].kernel];
}

// The buffer to which a kernel copies rows of the input.
static BufId copied_rows(const Plan *p)
{
    for (uint32_t i = 0; i < p->kernels.len; i++)
        if (p->kernels.data[i].anchor == p->rows.copy)
            return p->locs.data[p->kernels.data[i].root].buf;
    return 0;
}

bool lower_goes_by_rows(const Lower *l)
{
    const BufId rows = l->plan->rows.input != 0 ? copied_rows(l->plan) : 0;
    for (uint32_t i = 0; rows != 0 && i < l->pk->body.len; i++) {
        const Node *n = lower_node(l, l->pk->body.data[i]);
        for (uint32_t j = 0; j < n->n_src; j++)
            if (lower_loc(l, n->src[j])->buf == rows)
                return true;
    }
    return false;
}

bool pass_lower(Pass *p)
{
    rlx_assert(p->plan->buffers.len > 0 && p->plan->locs.len == p->plan->graph->nodes.len);
    rlx_assert(p->plan->graph == p->graph && p->plan->prepare.packings.len == 0);
    const uint64_t constant_bytes = count_constant_bytes(p->plan->graph);
    const bool *lasting = p->options->opt_level >= 1 && p->frame == NULL && !p->plan->caps->is_gpu
                              ? packer_find_lasting(p->plan->graph, p->scratch)
                              : NULL;
    const Facts facts = {p, constant_bytes, find_whole(p->plan->graph, p->scratch), lasting};
    for (uint32_t i = 0; i < p->plan->kernels.len; i++)
        lower_ways(&facts, i);
    add_packings(p);
    return true;
}
