// SPDX-License-Identifier: Apache-2.0
// Evaluation of the ops on bytes of strings.
#include "ir/eval/eval_ops.h"

static int64_t clamp_index(int64_t v, int64_t n)
{
    return v < 0 ? 0 : v >= n ? n - 1 : v;
}

bool eval_dfa(EvalCtx *c)
{
    const Tensor *x = &c->in[0], *classes = &c->in[1], *table = &c->in[2];
    rlx_assert(x->rank >= 1 && classes->numel == 256 && table->rank == 2);
    const int64_t length = x->dim[x->rank - 1], rows = eval_count(x, 0, x->rank - 1);
    const bool all = eval_flag(c, A_dfa_all);
    for (int64_t i = 0; i < rows; i++) {
        int64_t state = 0;
        for (int64_t k = 0; k < length; k++) {
            const int64_t byte = tensor_get_i64(x, i * length + k);
            const int64_t class = clamp_index(tensor_get_i64(classes, byte), table->dim[1]);
            state = clamp_index(tensor_get_i64(table, state * table->dim[1] + class), table->dim[0]);
            if (all)
                tensor_set_i64(&c->out[0], i * length + k, state);
        }
        if (!all)
            tensor_set_i64(&c->out[0], i, state);
    }
    return true;
}
