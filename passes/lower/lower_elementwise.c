// SPDX-License-Identifier: Apache-2.0
// Kernels without an anchor: chains of elementwise nodes, and strided copies.
#include "passes/lower/operand.h"
#include "passes/lower/turn.h"
#include "passes/lower/wide.h"

static void elementwise_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    (void)ctx;
    pull_store_root(l, d, at, 0);
}

static void store_turned(Lower *l, const Domain *d, Point at, NodeId from, KRef value)
{
    pull_store_given(l, d, at, 0, &(Given){from, value});
}

void lower_elementwise(Lower *l)
{
    Domain d = domain_of_root(l);
    domain_simplify(l, &d, l->root, NULL);
    if (wide_map(l, &d, elementwise_point, NULL) || turn_map(l, &d, l->root, store_turned) ||
        wide_flat_map(l, &d, elementwise_point, NULL) || wide_single_map(l, &d, elementwise_point, NULL))
        return;
    lower_walk(l, &d, d.rank == 0 ? 1 : domain_lanes_apart(l, &d, d.rank - 1), elementwise_point, NULL);
}

// Of what a copy writes: bools are bytes.
static uint32_t param_of_copy(Lower *l, NodeId from)
{
    const TensorType t = {operand_moved_type(l, from), *lower_node(l, from)->shape};
    if ((int)t.dtype == (int)lower_node(l, from)->dtype)
        return lower_param_at(l, from, &l->pk->copy.dst, PARAM_WRITE);
    return lower_param_typed(l, &t, &l->pk->copy.dst, "y", PARAM_WRITE);
}

static void store_copied(Lower *l, const Domain *d, Point at, NodeId from, KRef value)
{
    Pull p = pull_at(l, d, at);
    lower_store(l, param_of_copy(l, from), pull_index(&p, 0), value, &at);
}

// Neighbours, or one element for all lanes.
static KRef copied_bytes(Lower *l, const Domain *d, Pull *p, NodeId from)
{
    const Point *at = &p->at;
    const bool is_vector = at->lanes > 1 && domain_access(d, from, SPACE_IN)->stride[at->vec_axis] != 0;
    return operand_load_moved(l, from, pull_index(p, from), is_vector ? at->lanes : 1,
                              is_vector ? at->count : 1);
}

static void copy_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const NodeId from = l->pk->copy.src;
    Pull p = pull_at(l, d, at);
    (void)ctx;
    const bool is_plain = (int)operand_moved_type(l, from) == (int)lower_node(l, from)->dtype;
    store_copied(l, d, at, from, is_plain ? pull_value(&p, from) : copied_bytes(l, d, &p, from));
}

// A state's elements go nearer to the begin of its buffer (shift.h): in the largest units, several at a time.
static void move_state(Lower *l)
{
    enum { MOVED = 8, WORD = 4 };
    static const DType types[WORD + 1] = {[1] = DTYPE_u8, [2] = DTYPE_u16, [WORD] = DTYPE_u32};
    const Node *n = lower_node(l, l->pk->copy.src);
    const int64_t each = (int64_t)dtype_info[n->dtype].bytes, bytes = shape_numel(n->shape) * each,
                  far = (lower_loc(l, l->pk->copy.src)->offset - l->pk->copy.dst.offset) * each;
    int64_t unit = WORD;
    while (bytes % unit != 0 || far % unit != 0)
        unit /= 2;
    const uint32_t param = lower_param_buffer(l, l->pk->copy.dst.buf, types[unit], PARAM_READ_WRITE);
    KRef v[MOVED];
    for (int64_t done = 0, n_units = bytes / unit; done < n_units;) {
        const int64_t left = n_units - done, step = left < MOVED ? left : MOVED, end = n_units - left % step;
        const KRef at = k_for(l->k, k_index(l->k, done), k_index(l->k, end), step, KFOR_SERIAL, "e");
        for (int64_t i = 0; i < step; i++)
            v[i] = k_load(l->k, param, k_expr(l->k, "$ + #", at, far / unit + i), 1, 1);
        for (int64_t i = 0; i < step; i++)
            k_store(l->k, param, k_expr(l->k, "$ + #", at, i), v[i], 1);
        k_end(l->k);
        done = end;
    }
}

void lower_strided_copy(Lower *l)
{
    const NodeId src = l->pk->copy.src;
    if (l->pk->is_first) {
        move_state(l);
        return;
    }
    const Node *n = lower_node(l, src);
    Domain d = domain_of(n->shape);
    Access dst = {.node = 0};
    domain_trim(l, &d, src);
    d.is_exact = l->plan->buffers.data[l->pk->copy.dst.buf].region == REGION_STATE;
    for (uint32_t i = 0; i < d.rank; i++)
        dst.stride[i] = l->pk->copy.dst.stride[i];
    vec_push(l->plan->arena, &d.access, dst);
    domain_add(l, &d, src);
    domain_simplify(l, &d, 0, NULL);
    if (l->caps->is_gpu)
        param_of_copy(l, src);
    if (wide_map(l, &d, copy_point, NULL) || turn_map(l, &d, 0, store_copied) ||
        wide_flat_map(l, &d, copy_point, NULL) || wide_single_map(l, &d, copy_point, NULL))
        return;
    param_of_copy(l, src); // turns may write words
    const uint8_t lanes = d.rank == 0 ? 1 : operand_moved_lanes(l, &d, d.rank - 1, src);
    lower_walk(l, &d, lanes, copy_point, NULL);
}
