// SPDX-License-Identifier: Apache-2.0
// scatter: copies data (not where the result lives in data's own bytes), then applies the updates one after
// the other. On GPUs, where only one thread keeps an order, a row that is replaced in data's own bytes gets
// the last of its updates from a team of threads, which sees that no later one has the same row. Of many
// updates, groups of threads list those of their rows (scatter_group.c). Maxima of i32 are found in memory,
// in any order, where the device does that. In all other cases a thread goes over all updates: for an element
// of the result, or, where these are too many, for all elements of a column.
#include "ir/graph/tensor.h"
#include "ir/kernel/device.h"
#include "ir/machine/machine.h"
#include "passes/lower/ops/scatter.h"

enum {
    TEAM = 32,           // threads of an update
    AHEAD = 8,           // later updates that a thread of it reads at once
    GROUP = 128,
    MOST_UPDATES = 32768 // each is compared with all behind it
};

static void copy_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Scatter *s = ctx;
    Pull p = pull_at(l, d, at);
    const KRef value = pull_value(&p, s->data);
    operand_store(l, lower_param(l, l->root, PARAM_READ_WRITE), pull_index(&p, l->root), value, &at);
}

static void copy_data(Lower *l, Scatter *s)
{
    Domain d = domain_of(s->shape);
    Point at = {.lanes = 1, .count = 1};
    domain_add(l, &d, l->root);
    domain_add(l, &d, s->data);
    domain_simplify(l, &d, l->root, NULL);
    if (d.rank == 0) {
        copy_point(l, &d, at, s);
        return;
    }
    const uint32_t opened = lower_open(l, &d, d.rank - 1, &at);
    lower_along(l, &d, d.rank - 1, domain_lanes(l, &d, d.rank - 1), at, copy_point, s);
    lower_close(l, opened);
}

// 64-bit indices are compared in their own type: an index may be narrower on the target.
KRef scatter_row(Lower *l, const Scatter *s, KRef update, KRef *inside)
{
    Kernel *k = l->k;
    const int dtype = lower_node(l, s->indices)->dtype;
    const int type = dtype == DTYPE_i64 || dtype == DTYPE_u64 ? dtype : (int)KT_INDEX;
    const KRef v = operand_scalar(l, s->indices, operand_index(l, s->indices, &update), type);
    const KRef n = k_integer(k, type, s->shape->dim[0]), below = k_lt(k, v, n);
    if (dtype_info[dtype].cls == DCLASS_UINT) {
        *inside = below;
        return k_cast(k, v, KT_INDEX);
    }
    const KRef above = k_le(k, k_integer(k, type, -s->shape->dim[0]), v);
    const KRef from_end = k_lt(k, v, k_integer(k, type, 0));
    *inside = k_and(k, above, below);
    return k_cast(k, k_select(k, from_end, k_add(k, v, n), v), KT_INDEX);
}

static void update_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Scatter *s = ctx;
    Kernel *k = l->k;
    KRef to[SHAPE_MAX_RANK] = {s->row}, from[SHAPE_MAX_RANK] = {s->update};
    for (uint32_t i = 0; i < d->rank; i++)
        to[i + 1] = from[i + 1] = at.idx[i];
    const uint32_t param = lower_param(l, l->root, PARAM_READ_WRITE);
    const KRef place = operand_index(l, l->root, to);
    KRef value = operand_load(l, s->updates, operand_index(l, s->updates, from), &at, 1);
    if (s->join != OP_none) {
        const int dtype = lower_node(l, l->root)->dtype, type = scatter_type(l);
        const KRef old = k_cast(k, k_load(k, param, place, at.lanes, at.count), type);
        const KRef operand[3] = {old, k_cast(k, value, type), 0};
        value = k_cast(k, k_form(k, op_info[s->join].kernel, operand, type), dtype);
    }
    operand_store(l, param, place, value, &at);
}

static bool has_vectors(const Lower *l, const Scatter *s)
{
    const uint32_t last = s->shape->rank - 1;
    return last > 0 && !l->caps->is_gpu && operand_has_vectors(l, s->updates, last) &&
           operand_has_vectors(l, l->root, last);
}

// Update i for all elements of its row, or for the one at `at`.
static void apply_update(Lower *l, Scatter *s, Point at, bool is_one)
{
    KRef inside = 0;
    Domain row = {.rank = s->shape->rank - 1};
    for (uint32_t i = 0; i < row.rank; i++)
        row.extent[i] = s->shape->dim[i + 1];
    s->row = scatter_row(l, s, s->update, &inside);
    k_if(l->k, inside);
    if (is_one || row.rank == 0) {
        update_point(l, &row, at, s);
    } else {
        const uint32_t last = row.rank - 1, opened = lower_open(l, &row, last, &at);
        const uint8_t lanes = has_vectors(l, s) ? lower_fit_lanes(l, row.extent[last]) : 1;
        lower_along(l, &row, last, lanes, at, update_point, s);
        lower_close(l, opened);
    }
    k_end(l->k);
}

static void apply_updates(Lower *l, Scatter *s, Point at, bool is_one)
{
    Kernel *k = l->k;
    const int64_t count = lower_node(l, s->indices)->shape->dim[0];
    if (shape_numel(lower_node(l, s->updates)->shape) == 0)
        return;
    s->update = k_loop(k, count, KFOR_SERIAL, "u");
    apply_update(l, s, at, is_one);
    k_end(k);
}

// One element of every row, in its own thread.
static void scatter_column(Lower *l, Scatter *s, Point at)
{
    Kernel *k = l->k;
    KRef idx[SHAPE_MAX_RANK];
    for (uint32_t i = 1; i < s->shape->rank; i++)
        idx[i] = at.idx[i - 1];
    if (!s->is_in_place) {
        idx[0] = k_loop(k, s->shape->dim[0], KFOR_SERIAL, "n");
        const KRef value = operand_load(l, s->data, operand_index(l, s->data, idx), &at, 1);
        operand_store(l, lower_param(l, l->root, PARAM_READ_WRITE), operand_index(l, l->root, idx), value,
                      &at);
        k_end(k);
    }
    apply_updates(l, s, at, true);
}

// Does a later update replace the row again? The threads of a team look at different ones; behind the end,
// at the last one again.
static KRef is_replaced(Lower *l, const Scatter *s, KRef lane, int64_t count)
{
    Kernel *k = l->k;
    const KRef none = k_integer(k, DTYPE_i32, 0), found = k_var(k, none, "found");
    const KRef first = k_expr(k, "$ + $ + 1", s->update, lane);
    const KRef later = k_for(k, first, k_index(k, count), TEAM * AHEAD, KFOR_SERIAL, "v");
    KRef is_any = 0;
    for (int64_t i = 0; i < AHEAD; i++) {
        KRef inside = 0;
        const KRef at = i == 0 ? later : k_expr(k, "min($ + #, #)", later, i * TEAM, count - 1);
        const KRef row = scatter_row(l, s, at, &inside);
        const KRef is_same = k_and(k, inside, k_eq(k, row, s->row));
        is_any = i == 0 ? is_same : k_op(k, KOP_or, is_any, is_same, 0);
    }
    k_set(k, found, k_select(k, is_any, k_integer(k, DTYPE_i32, 1), k_get(k, found)));
    k_end(k);
    return k_ne(k, k_team(k, KOP_max, k_get(k, found), TEAM), none);
}

// A group has some updates, each with a team of its own.
static void scatter_teams(Lower *l, Scatter *s, int64_t count)
{
    Kernel *k = l->k;
    Domain row = {.rank = s->shape->rank - 1};
    KRef inside = 0;
    Point at = {.lanes = 1, .count = 1};
    k_set_group(k, GROUP);
    const KRef group = k_for_group(k, ceil_div(count, GROUP / TEAM), "u"), thread = k_thread(k);
    const KRef number = k_expr(k, "$ * # + $ / #", group, GROUP / TEAM, thread, TEAM);
    const KRef lane = k_expr(k, "$ % #", thread, TEAM);
    s->update = k_expr(k, "min($, #)", number, count - 1);
    s->row = scatter_row(l, s, s->update, &inside);
    const KRef hidden = is_replaced(l, s, lane, count);
    int64_t n = 1;
    for (uint32_t i = 0; i < row.rank; i++)
        n *= row.extent[i] = s->shape->dim[i + 1];
    k_if(k, k_and(k, k_and(k, inside, k_not(k, hidden)), k_expr(k, "$ < #", number, count)));
    KRef rest = k_for(k, lane, k_index(k, n), TEAM, KFOR_SERIAL, "c");
    for (uint32_t i = row.rank; i-- > 0;) {
        at.idx[i] = i == 0 ? rest : k_expr(k, "$ % #", rest, row.extent[i]);
        rest = i == 0 ? rest : k_expr(k, "$ / #", rest, row.extent[i]);
    }
    update_point(l, &row, at, s);
    k_ends(k, 2);
    k_end(k); // of the groups
}

// --- maxima --------------------------------------------------------------------------------------

// Are updates 0, 1, 2 ...?
static bool are_numbers(const Lower *l, NodeId id)
{
    const Node *n = lower_node(l, id);
    if (!node_is_const(l->g, id) || n->dtype != DTYPE_i32 || n->shape->rank != 1)
        return false;
    const Tensor t = tensor_of_const(l->g, id);
    for (int64_t i = 0; i < t.numel; i++)
        if (tensor_get_i64(&t, i) != i)
            return false;
    return true;
}

// Maxima of whole numbers are the same in any order: a thread has an element of an update, and the device
// finds the largest.
bool scatter_finds_maxima(const TargetCaps *caps, const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    return n->op == OP_scatter && caps->has_mma && n->dtype == DTYPE_i32 &&
           str_equal(node_get_str(n, A_scatter_reduction), "max") && shape_numel(n->shape) > 0 &&
           shape_numel(graph_node(g, n->src[2])->shape) > 0;
}

static void scatter_maxima(Lower *l, const Scatter *s)
{
    enum { GROUP_OF_MAXIMA = 256 };
    Kernel *k = l->k;
    const int64_t n = shape_numel(lower_node(l, s->updates)->shape);
    KRef from[SHAPE_MAX_RANK], to[SHAPE_MAX_RANK], inside = 0;
    k_set_group(k, GROUP_OF_MAXIMA);
    const KRef group = k_for_group(k, ceil_div(n, GROUP_OF_MAXIMA), "u");
    KRef rest = k_expr(k, "$ * # + $", group, GROUP_OF_MAXIMA, k_thread(k));
    k_if(k, k_expr(k, "$ < #", rest, n));
    for (uint32_t i = s->shape->rank; i-- > 0;) {
        from[i] = to[i] = i == 0 ? rest : k_expr(k, "$ % #", rest, s->shape->dim[i]);
        rest = i == 0 ? rest : k_expr(k, "$ / #", rest, s->shape->dim[i]);
    }
    to[0] = scatter_row(l, s, from[0], &inside);
    k_if(k, inside);
    const KRef value = are_numbers(l, s->updates)
                           ? from[0]
                           : operand_scalar(l, s->updates, operand_index(l, s->updates, from), KT_INDEX);
    const uint32_t param = lower_param(l, l->root, PARAM_READ_WRITE);
    k_device(k, KDEV_max_number, k_address(k, param, operand_index(l, l->root, to)), value);
    k_ends(k, 3);
}

typedef struct Element {
    const Point *at;
    KRef place;                // in the result
    KRef from[SHAPE_MAX_RANK]; // of the updates: the place in each row
} Element;

static Element element_at(Lower *l, const Scatter *s, const Point *at)
{
    Element e = {.at = at, .place = operand_index(l, l->root, at->idx)};
    for (uint32_t i = 1; i < s->shape->rank; i++)
        e.from[i] = at->idx[i];
    return e;
}

int scatter_type(const Lower *l)
{
    return operand_sum_type((int)dtype_wide((DType)lower_node(l, l->root)->dtype));
}

KRef scatter_old(Lower *l, const Scatter *s, const KRef *idx, KRef place)
{
    const int dtype = lower_node(l, l->root)->dtype;
    return s->is_in_place ? k_load(l->k, lower_param(l, l->root, PARAM_READ_WRITE), place, 1, 1)
                          : operand_scalar(l, s->data, operand_index(l, s->data, idx), dtype);
}

KRef scatter_join(Lower *l, const Scatter *s, KRef value, KRef update)
{
    Kernel *k = l->k;
    const int dtype = lower_node(l, l->root)->dtype, type = scatter_type(l);
    const KRef operand[3] = {value, update, 0};
    return k_cast(k, k_cast(k, k_form(k, op_info[s->join].kernel, operand, type), dtype), type);
}

// Opens the loop over updates.
static KRef open_updates(Lower *l, const Scatter *s, const Element *e, int64_t count, KRef *is_own)
{
    Kernel *k = l->k;
    KRef inside = 0;
    const KRef update = k_loop(k, count, KFOR_SERIAL, "u"), row = scatter_row(l, s, update, &inside);
    *is_own = k_and(k, inside, k_eq(k, row, e->at->idx[0]));
    return update;
}

// What is there, changed by each update of its row.
static void join_element(Lower *l, const Scatter *s, Element e, int64_t count)
{
    Kernel *k = l->k;
    const int dtype = lower_node(l, l->root)->dtype;
    const KRef old = scatter_old(l, s, e.at->idx, e.place);
    const KRef value = k_var(k, k_cast(k, old, scatter_type(l)), "value");
    KRef is_own = 0;
    e.from[0] = open_updates(l, s, &e, count, &is_own);
    k_if(k, is_own);
    const KRef update = operand_scalar(l, s->updates, operand_index(l, s->updates, e.from), scatter_type(l));
    k_set(k, value, scatter_join(l, s, k_get(k, value), update));
    k_ends(k, 2);
    operand_store(l, lower_param(l, l->root, PARAM_READ_WRITE), e.place, k_cast(k, k_get(k, value), dtype),
                  e.at);
}

// The last update of its row, or what is there.
static void replace_element(Lower *l, const Scatter *s, Element e, int64_t count)
{
    Kernel *k = l->k;
    const uint32_t param = lower_param(l, l->root, PARAM_READ_WRITE);
    const KRef last = k_var(k, k_index(k, -1), "last");
    KRef is_own = 0;
    const KRef update = open_updates(l, s, &e, count, &is_own);
    k_set(k, last, k_select(k, is_own, update, k_get(k, last)));
    k_end(k);
    e.from[0] = k_get(k, last);
    k_if(k, k_expr(k, "0 <= $", e.from[0]));
    const KRef from = operand_index(l, s->updates, e.from);
    operand_store(l, param, e.place, operand_load(l, s->updates, from, e.at, 1), e.at);
    if (!s->is_in_place) {
        k_else(k);
        operand_store(l, param, e.place, scatter_old(l, s, e.at->idx, e.place), e.at);
    }
    k_end(k);
}

// In what a processor does meanwhile: a thread of a column waits for each element and each update, and those
// of elements go over all updates in turns, as many at a time as the device holds.
static bool has_elements(const Lower *l, const Scatter *s, int64_t count)
{
    enum { WAIT = 8, FEWER = 8 };
    const int64_t rows = s->shape->dim[0], held = (int64_t)gpu_about_threads(l->caps->gpu) / FEWER;
    const int64_t elements = shape_numel(s->shape), columns = rows > 0 ? elements / rows : 0;
    const int64_t steps = count + (s->is_in_place ? 0 : rows);
    return elements > 0 && count > 0 && (double)count * (1 + (double)elements / (double)held) <
                               (double)steps * WAIT * (1 + (double)columns / (double)held);
}

static void scatter_elements(Lower *l, const Scatter *s, int64_t count)
{
    Point at = {.lanes = 1, .count = 1};
    const Domain all = domain_of(s->shape);
    const uint32_t opened = lower_open(l, &all, all.rank, &at);
    const Element e = element_at(l, s, &at);
    if (s->join != OP_none)
        join_element(l, s, e, count);
    else
        replace_element(l, s, e, count);
    lower_close(l, opened);
}

static bool has_teams(const Lower *l, const Scatter *s, int64_t count)
{
    return l->caps->is_gpu && l->caps->shared_bytes != 0 && s->is_in_place && s->join == OP_none &&
           count > 0 && count <= MOST_UPDATES && shape_numel(s->shape) > 0;
}

void lower_scatter(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    const char *reduction = node_get_str(n, A_scatter_reduction);
    rlx_assert(n->n_src >= 3 && n->shape->rank >= 1);
    Scatter s = {.data = n->src[0], .indices = n->src[1], .updates = n->src[2], .shape = n->shape};
    const Loc *copied = l->pk->operands, *to = lower_loc(l, l->root);
    const Loc *from = copied != NULL ? copied : lower_loc(l, s.data);
    s.is_in_place = from->buf == to->buf && from->offset == to->offset;
    if (!op_parse(reduction, &s.join))
        s.join = OP_none;
    Point at = {.lanes = 1, .count = 1};
    const int64_t count = lower_node(l, s.indices)->shape->dim[0];
    if (has_teams(l, &s, count)) {
        scatter_teams(l, &s, count);
        return;
    }
    if (scatter_finds_maxima(l->caps, l->g, l->anchor)) {
        rlx_assert(s.is_in_place);
        scatter_maxima(l, &s);
        return;
    }
    if (scatter_by_groups(l, &s, count))
        return;
    if (l->caps->is_gpu && has_elements(l, &s, count)) {
        scatter_elements(l, &s, count);
        return;
    }
    if (l->caps->is_gpu) {
        Domain columns = {.rank = s.shape->rank - 1};
        for (uint32_t i = 0; i < columns.rank; i++)
            columns.extent[i] = s.shape->dim[i + 1];
        const uint32_t opened = lower_open(l, &columns, columns.rank, &at);
        scatter_column(l, &s, at);
        lower_close(l, opened);
        return;
    }
    if (!s.is_in_place) {
        copy_data(l, &s);
        k_barrier(l->k); // updates replace what was copied
    }
    apply_updates(l, &s, at, false);
}
