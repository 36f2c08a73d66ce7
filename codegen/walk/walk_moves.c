// SPDX-License-Identifier: Apache-2.0
// What stores move as it is. Separate from the text of values, in which 16-bit floats are f32: they are
// neither widened nor rounded here, and C compilers make vectors, or a call of memcpy, of loops that move
// them.
#include "codegen/walk/walk.h"
#include "ir/graph/tensor.h"

#include <string.h>

// The bits of a number of 16 bits as C has them in memory; NULL: of another type.
static const char *bits_text(const Walk *w, int type, double v)
{
    if (!k_is_half(type) || w->t->caps.is_gpu)
        return NULL;
    return arena_printf(w->arena, "%u", type == DTYPE_f16 ? f16_from_f64(v) : bf16_from_f64(v));
}

static const char *constant_bits(const Walk *w, const KInst *n)
{
    double v = 0;
    memcpy(&v, &n->imm, sizeof v);
    return bits_text(w, n->dtype, v);
}

// Operands are looked through as far as they have no names: no deeper than the kernel's expressions are.
const char *walk_moved(Walk *w, KRef r)
{
    const KInst *n = k_inst(w->k, r);
    rlx_assert(r != 0 && n->lanes == 1);
    if (w->name[r] || !walk_is_float(n->dtype))
        return NULL;
    if (n->kind == KI_load)
        return arena_printf(w->arena, "%s[%s]", w->param[n->imm], walk_expr(w, n->a));
    if (n->kind == KI_const)
        return constant_bits(w, n);
    const bool is_truth = n->kind == KI_cast && n->imm == 0 && k_inst(w->k, n->a)->dtype == DTYPE_bool,
               is_choice = n->kind == KI_op && n->kop == KOP_select;
    if (!is_truth && !is_choice)
        return NULL;
    const char *yes = is_truth ? bits_text(w, n->dtype, 1) : walk_moved(w, n->b),
               *no = is_truth ? bits_text(w, n->dtype, 0) : walk_moved(w, n->c);
    return yes && no ? arena_printf(w->arena, "%s ? %s : %s", walk_expr(w, n->a), yes, no) : NULL;
}
