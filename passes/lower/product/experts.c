// SPDX-License-Identifier: Apache-2.0
// Rows of experts in the order of the experts: see experts.h. One thread sorts; that takes a few nanoseconds
// a row, where a product with a row takes microseconds.
#include "passes/lower/product/experts.h"
#include "passes/lower/operand.h"
#include <string.h>

void experts_row(Lower *l, const Experts *x, KRef row, KRef *idx)
{
    rlx_assert(x->d.rank >= 1);
    Kernel *k = l->k;
    KRef rest = row;
    for (uint32_t i = x->d.rank - 1; i-- > 0;) {
        const int64_t n = x->d.extent[i];
        const KRef next = i == 0 ? k_index(k, 0) : n == 1 ? rest : k_expr(k, "$ / #", rest, n);
        idx[i] = i == 0 ? rest : n == 1 ? k_index(k, 0) : k_expr(k, "$ - $ * #", rest, next, n);
        rest = next;
    }
}

KRef experts_entry(Lower *l, uint32_t param, KRef i)
{
    return k_cast(l->k, k_load(l->k, param, i, 1, 1), KT_INDEX);
}

static void set_entry(Lower *l, uint32_t param, KRef i, KRef v)
{
    k_store(l->k, param, i, k_cast(l->k, v, DTYPE_i32), 1);
}

// Opens the loops over the rows that count in this run, and sets their coordinates. Returns how many.
static uint32_t begin_rows(Lower *l, const Experts *x, KRef *row, KRef *idx)
{
    Kernel *k = l->k;
    uint32_t n = 0;
    *row = k_index(k, 0);
    for (uint32_t i = 0; i + 1 < x->d.rank; i++) {
        const int64_t extent = x->d.extent[i];
        idx[i] = k_index(k, 0);
        if (extent == 1 && x->d.live[i].size == 0)
            continue;
        idx[i] = k_for(k, k_index(k, 0), lower_live(l, &x->d.live[i], extent), 1, KFOR_SERIAL, "r");
        *row = k_expr(k, "$ * # + $", *row, extent, idx[i]);
        n++;
    }
    return n;
}

// What is not counted in this run went to no expert.
static void clear_choice(Lower *l, const Experts *x)
{
    Kernel *k = l->k;
    bool is_live = false;
    for (uint32_t i = 0; i + 1 < x->d.rank; i++)
        is_live = is_live || x->d.live[i].size != 0;
    if (!is_live)
        return;
    const KRef r = k_loop(k, x->rows, KFOR_SERIAL, "r");
    set_entry(l, x->choice, r, k_index(k, -1));
    k_end(k);
}

// choice, and bounds[e + 1]: how many rows expert e has, the one behind the last being those without.
static void count_rows(Lower *l, const Experts *x)
{
    Kernel *k = l->k;
    KRef idx[SHAPE_MAX_RANK] = {0}, r = 0;
    const KRef zero = k_index(k, 0), n = k_index(k, x->n_experts), one = k_index(k, 1);
    const KRef i = k_for(k, zero, k_index(k, x->n_experts + 2), 1, KFOR_SERIAL, "e");
    set_entry(l, x->bounds, i, zero);
    k_end(k);
    clear_choice(l, x);
    const uint32_t loops = begin_rows(l, x, &r, idx);
    const KRef e = operand_clamped(l, x->index, operand_index(l, x->index, idx), -1, x->n_experts);
    const KRef is_none = k_lt(k, e, zero);
    const KRef group = k_select(k, is_none, n, e);
    const KRef is_some = k_lt(k, group, n);
    set_entry(l, x->choice, r, k_select(k, is_some, group, k_index(k, -1)));
    const KRef at = k_add(k, group, one);
    set_entry(l, x->bounds, at, k_add(k, experts_entry(l, x->bounds, at), one));
    k_ends(k, loops);
}

// Counts become places of the first rows; experts with rows are listed.
static void sum_up(Lower *l, const Experts *x)
{
    Kernel *k = l->k;
    const KRef zero = k_index(k, 0), n = k_index(k, x->n_experts);
    const KRef place = k_var(k, zero, "place"), listed = k_var(k, zero, "listed");
    const KRef e = k_for(k, zero, k_index(k, x->n_experts + 1), 1, KFOR_SERIAL, "e");
    const KRef at = k_expr(k, "$ + 1", e), count = k_var(k, experts_entry(l, x->bounds, at), "count");
    set_entry(l, x->bounds, at, k_get(k, place));
    k_set(k, place, k_add(k, k_get(k, place), k_get(k, count)));
    k_if(k, k_expr(k, "$ < $ & $ < $", zero, k_get(k, count), e, n));
    set_entry(l, x->groups, k_get(k, listed), e);
    k_set(k, listed, k_expr(k, "$ + 1", k_get(k, listed)));
    k_ends(k, 2);
    set_entry(l, x->groups, n, k_get(k, listed));
}

// Rows go to their places, after which bounds[e + 1] is where those of expert e end.
static void order_rows(Lower *l, const Experts *x)
{
    Kernel *k = l->k;
    KRef idx[SHAPE_MAX_RANK] = {0}, r = 0;
    const uint32_t loops = begin_rows(l, x, &r, idx);
    const KRef e = experts_entry(l, x->choice, r), is_none = k_expr(k, "$ < 0", e);
    const KRef at = k_expr(k, "$ + 1", k_select(k, is_none, k_index(k, x->n_experts), e));
    const KRef place = k_var(k, experts_entry(l, x->bounds, at), "place");
    set_entry(l, x->bounds, at, k_expr(k, "$ + 1", k_get(k, place)));
    set_entry(l, x->order, k_get(k, place), r);
    k_ends(k, loops);
}

void experts_sort(Lower *l, Experts *x)
{
    rlx_assert(x->rows >= 1 && x->n_experts >= 1);
    x->choice = lower_param_scratch(l, "choice", DTYPE_i32, (uint64_t)x->rows);
    x->bounds = lower_param_scratch(l, "bounds", DTYPE_i32, (uint64_t)x->n_experts + 2);
    x->order = lower_param_scratch(l, "order", DTYPE_i32, (uint64_t)x->rows);
    x->groups = lower_param_scratch(l, "groups", DTYPE_i32, (uint64_t)x->n_experts + 1);
    count_rows(l, x);
    sum_up(l, x);
    order_rows(l, x);
}

// --- layers --------------------------------------------------------------------------------------

// Memory that the runtime keeps across runs.
static BufId add_state(Lower *l, const char *name, uint64_t bytes)
{
    vec_push(l->plan->arena, &l->plan->buffers,
             ((PlanBuffer){.region = REGION_STATE, .bytes = bytes, .align = 64, .name = name}));
    return l->plan->buffers.len - 1;
}

static PlanMoe *find_layer(const Lower *l, const Experts *x)
{
    Plan *p = l->plan;
    for (uint32_t i = 0; i < p->experts.layers.len; i++)
        if (p->experts.layers.data[i].index == x->index &&
            p->experts.layers.data[i].n_experts == x->n_experts)
            return &p->experts.layers.data[i];
    return NULL;
}

// The layer of an index: the products that read it share the choice of experts.
static PlanMoe *layer_of(Lower *l, const Experts *x, BufId choice)
{
    Plan *p = l->plan;
    PlanMoe *found = find_layer(l, x);
    if (found != NULL)
        return found;
    const int64_t last = x->d.rank > 1 ? x->d.extent[x->d.rank - 2] : 1;
    const PlanMoe layer = {.index = x->index,
                           .name = node_name(l->g, l->anchor),
                           .n_experts = x->n_experts,
                           .rows = x->rows,
                           .per_row = x->is_shared ? last : 1,
                           .choice = choice,
                           .page = add_state(l, "moe", plan_moe_page_bytes(x->n_experts, x->rows))};
    if (p->experts.head == 0)
        p->experts.head = add_state(l, "moe", PLAN_MOE_HEAD_BYTES);
    vec_push(p->arena, &p->experts.layers, layer);
    return &p->experts.layers.data[p->experts.layers.len - 1];
}

// Constants of a loop's body are the loop's.
static bool can_be_layer(const Lower *l)
{
    return l->pass->frame == NULL;
}

static BufId choice_of(const Lower *l, const Experts *x)
{
    return l->pk->args.data[x->choice].buf;
}

void experts_note(Lower *l, const Experts *x)
{
    if (can_be_layer(l))
        layer_of(l, x, choice_of(l, x));
}

static void add_part(Lower *l, PlanMoe *layer, uint32_t param, uint32_t table, uint64_t stride)
{
    const DType type = (DType)l->k->params.data[param].dtype;
    vec_push(l->plan->arena, &layer->parts,
             ((PlanMoePart){.weights = l->pk->args.data[param].buf,
                            .table = table != 0 ? l->pk->args.data[table].buf : 0,
                            .stride = stride,
                            .width = dtype_info[type].bytes}));
}

// The host's tables have addresses.
static uint32_t add_addresses(Lower *l, const Experts *x, uint32_t param)
{
    const uint32_t table = lower_param_table(l, node_name(l->g, x->w), (uint64_t)x->n_experts);
    l->k->params.data[param].table = table + 1;
    return table;
}

uint32_t experts_place(Lower *l, const Experts *x, DType type, const GemmPack *pack)
{
    rlx_assert(pack->fill != NULL && pack->bytes > 0);
    rlx_assert(x->n_experts >= 1);
    const char *name = node_name(l->g, x->w);
    if (!can_be_layer(l))
        return lower_param_filled(l, name, type, pack->fill, pack->ctx, pack->bytes);
    PlanMoe *found = find_layer(l, x), *layer = found != NULL ? found : layer_of(l, x, choice_of(l, x));
    const uint32_t param = lower_param_experts(l, name, type, pack->fill, pack->ctx, pack->bytes);
    add_part(l, layer, param, add_addresses(l, x, param), pack->stride);
    return param;
}

// --- layers whose choices a kernel of their own keeps ---------------------------------------------

// Stores the expert of every row, or -1, each by a thread of its own.
static void store_choices(Lower *l, const Experts *x, uint32_t to)
{
    Kernel *k = l->k;
    KRef idx[SHAPE_MAX_RANK] = {0}, row = k_index(k, 0), is_live = 0;
    uint32_t loops = 0;
    for (uint32_t i = 0; i + 1 < x->d.rank; i++) {
        const int64_t extent = x->d.extent[i];
        idx[i] = k_index(k, 0);
        if (extent != 1) {
            idx[i] = k_loop(k, extent, KFOR_PARALLEL, "r");
            loops++;
        }
        row = k_expr(k, "$ * # + $", row, extent, idx[i]);
    }
    const KRef e = operand_clamped(l, x->index, operand_index(l, x->index, idx), -1, x->n_experts);
    is_live = k_expr(k, "$ < #", e, x->n_experts);
    for (uint32_t i = 0; i + 1 < x->d.rank; i++)
        if (x->d.live[i].size != 0)
            is_live = k_expr(k, "$ & $ < $", is_live, idx[i], lower_live(l, &x->d.live[i], x->d.extent[i]));
    set_entry(l, to, row, k_select(k, is_live, e, k_index(k, -1)));
    k_ends(k, loops);
}

// A launch before that of l, as a choice is read by the host and by all products of its layer.
static BufId add_router(Lower *l, const Experts *x)
{
    Plan *p = l->plan;
    Lower own = *l;
    PlanKernel *pk = ARENA_NEW(p->arena, PlanKernel);
    *pk = *l->pk; // live sizes are those of the product
    memset(&pk->args, 0, sizeof pk->args);
    memset(&own.sizes, 0, sizeof own.sizes);
    own.pk = pk;
    own.k = kernel_new(l->pass->perm, arena_printf(p->arena, "%s%u_experts", p->prefix, l->index));
    own.k->comment = arena_printf(p->arena, "%s: experts of rows", node_name(l->g, x->index));
    vec_push(p->arena, &p->buffers,
             ((PlanBuffer){
                 .region = REGION_ARENA, .bytes = (uint64_t)x->rows * 4, .align = 64, .name = "choice"}));
    const BufId choice = p->buffers.len - 1;
    lower_begin_sizes(&own);
    store_choices(&own, x, lower_param_buffer(&own, choice, DTYPE_i32, PARAM_WRITE));
    *pk = (PlanKernel){.kernel = own.k, .root = x->index, .args = pk->args};
    const char *wrong = kernel_verify(own.k);
    if (wrong != NULL)
        diag_bug(own.k->name, (int)l->index, wrong);
    vec_push(p->arena, &p->prepare.packings, ((PlanPacking){.kernel = *pk, .reader = l->index}));
    return choice;
}

void experts_note_rows(Lower *l, Experts *x)
{
    if (!can_be_layer(l) || x->rows < 1 || x->n_experts < 1 || x->rows > INT32_MAX / 2 ||
        x->n_experts > INT32_MAX / 2)
        return;
    PlanMoe *layer = find_layer(l, x);
    if (layer == NULL)
        layer = layer_of(l, x, add_router(l, x));
    x->is_layer = true;
    if (l->caps->is_gpu)
        x->choice = lower_param_buffer(l, layer->choice, DTYPE_i32, PARAM_READ);
}

void experts_place_given(Lower *l, Experts *x, DType type)
{
    rlx_assert(node_is_const(l->g, x->w) && !x->is_placed);
    rlx_assert(x->k >= 0 && x->n >= 0 && x->n_experts >= 0);
    const Node *w = lower_node(l, x->w);
    const char *name = node_name(l->g, x->w);
    const uint64_t bytes = (uint64_t)x->k * (uint64_t)x->n * dtype_info[w->dtype].bytes;
    x->is_placed = true;
    x->has_table = !l->caps->is_gpu || l->pass->options->moe_slots > 0;
    x->stride = bytes / dtype_info[type].bytes;
    x->weights = lower_param_data(l, name, type, node_attr(w, A_const_data)->u.blob,
                                  bytes * (uint64_t)x->n_experts);
    l->plan->buffers.data[l->pk->args.data[x->weights].buf].region = REGION_EXPERTS;
    if (!l->caps->is_gpu)
        x->table = add_addresses(l, x, x->weights);
    else if (x->has_table)
        x->table = lower_param_table(l, name, (uint64_t)x->n_experts);
    add_part(l, find_layer(l, x), x->weights, x->table, bytes);
}

KRef experts_begin(Lower *l, const Experts *x, KRef e)
{
    rlx_assert(x->is_placed);
    return x->has_table ? experts_entry(l, x->table, e) : k_expr(l->k, "$ * #", e, (int64_t)x->stride);
}
