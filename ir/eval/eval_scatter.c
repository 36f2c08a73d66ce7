// SPDX-License-Identifier: Apache-2.0
// Meaning of scatter: one update after the other.
#include "ir/eval/eval_ops.h"

// The op that joins what is there with an update; OP_none: the update replaces it.
static OpId reduction_op(const Node *n)
{
    const char *name = node_get_str(n, A_scatter_reduction);
    OpId op = OP_none;
    return op_parse(name, &op) ? op : OP_none;
}

static void join(Tensor *out, int64_t at, const Tensor *update, int64_t from, OpId op)
{
    const DTypeClass cls = dtype_info[out->dtype].cls;
    if (op == OP_none)
        eval_copy_element(out, at, update, from);
    else if (cls == DCLASS_FLOAT)
        tensor_set_f64(out, at, eval_ew_f64(op, tensor_get_f64(out, at), tensor_get_f64(update, from), 0));
    else if (cls == DCLASS_INT)
        tensor_set_i64(out, at, eval_ew_i64(op, tensor_get_i64(out, at), tensor_get_i64(update, from), 0));
    else
        tensor_set_i64(out, at,
                       (int64_t)eval_ew_u64(op, (uint64_t)tensor_get_i64(out, at),
                                            (uint64_t)tensor_get_i64(update, from), 0));
}

bool eval_scatter(EvalCtx *c)
{
    const Tensor *indices = &c->in[1], *updates = &c->in[2];
    Tensor *out = &c->out[0];
    rlx_assert(out->rank >= 1 && updates->dtype == out->dtype);
    const OpId op = reduction_op(c->node);
    const bool is_unsigned = dtype_info[indices->dtype].cls == DCLASS_UINT;
    const int64_t n = out->dim[0], row = eval_count(out, 1, out->rank);
    eval_copy_all(c);
    for (int64_t i = 0; i < indices->numel; i++) {
        int64_t at = tensor_get_i64(indices, i);
        if (at < -n || at >= n || (is_unsigned && at < 0))
            continue;
        at = at < 0 ? at + n : at;
        for (int64_t k = 0; k < row; k++)
            join(out, at * row + k, updates, i * row + k, op);
    }
    return true;
}
