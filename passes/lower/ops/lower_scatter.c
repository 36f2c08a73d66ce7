// SPDX-License-Identifier: Apache-2.0
// scatter: copies data (not where the result lives in data's own bytes), then applies the updates one after
// the other. On GPUs, where only one thread keeps an order, the elements of a row are the grid.
#include "passes/lower/operand.h"

typedef struct Scatter {
    NodeId data, indices, updates;
    OpId join; // of what is there with an update; OP_none: the update replaces it
    const Shape *shape;
    bool is_in_place;
    KRef row;    // of data, while its elements are visited
    KRef update; // index of the update
} Scatter;

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

// The row that update i goes to, with `inside` = it is one of data's. 64-bit indices are compared in their
// own type: an index may be narrower on the target.
static KRef find_row(Lower *l, const Scatter *s, KRef *inside)
{
    Kernel *k = l->k;
    const int dtype = lower_node(l, s->indices)->dtype;
    const int type = dtype == DTYPE_i64 || dtype == DTYPE_u64 ? dtype : (int)KT_INDEX;
    const KRef v = operand_scalar(l, s->indices, operand_index(l, s->indices, &s->update), type);
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
        const int dtype = lower_node(l, l->root)->dtype;
        const int type = operand_sum_type((int)dtype_wide((DType)dtype));
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
    s->row = find_row(l, s, &inside);
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

void lower_scatter(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    const char *reduction = node_get_str(n, A_scatter_reduction);
    rlx_assert(n->n_src >= 3 && n->shape->rank >= 1);
    Scatter s = {.data = n->src[0], .indices = n->src[1], .updates = n->src[2], .shape = n->shape};
    const Loc *from = lower_loc(l, s.data), *to = lower_loc(l, l->root);
    s.is_in_place = from->buf == to->buf && from->offset == to->offset;
    if (!op_parse(reduction, &s.join))
        s.join = OP_none;
    Point at = {.lanes = 1, .count = 1};
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
