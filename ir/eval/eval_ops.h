// SPDX-License-Identifier: Apache-2.0
// What the files of the evaluator share: the prototypes of eval_NAME, by name from ops.def, and helpers to
// read operands and to walk over tensors. Private to ir/eval*.c.
#ifndef IR_EVAL_EVAL_OPS_H
#define IR_EVAL_EVAL_OPS_H

#include "ir/eval/eval.h"

#define OP(name, ...)    bool eval_##name(EvalCtx *c);
#define SUGAR(name, ...) bool eval_##name(EvalCtx *c);
#include "ir/graph/ops.def"
bool eval_elementwise(EvalCtx *c);

// Limits: a graph must not be able to eat memory or to run for hours.
#define EVAL_MAX_TENSOR (UINT64_C(4) << 30)  // bytes
#define EVAL_MAX_TOTAL  (UINT64_C(16) << 30) // bytes of all tensors of one run
#define EVAL_MAX_STEPS  (UINT64_C(1) << 26)  // nodes of one run, in all iterations of its loops
#define EVAL_MAX_WORK   (INT64_C(1) << 40)   // multiply-adds of one node

static inline bool eval_has(const EvalCtx *c, uint32_t i)
{
    return i < c->node->n_src && c->node->src[i] != 0;
}
static inline bool eval_flag(const EvalCtx *c, AttrId id)
{
    return node_get_int(c->node, id) != 0;
}
// Reports with the op's name in front. Returns false.
bool eval_fail(const EvalCtx *c, DiagCode code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
// All elements of an operand as doubles, in scratch memory; NULL for an absent operand.
double *eval_doubles(EvalCtx *c, uint32_t operand);
// All elements of an operand as 64-bit integers (u64 as its bit pattern).
int64_t *eval_integers(EvalCtx *c, uint32_t operand);
// n doubles in scratch memory, 0.
double *eval_scratch(EvalCtx *c, int64_t n);
// Stores all elements of result i, each rounded once.
void eval_store(EvalCtx *c, uint32_t i, const double *v);
// False, reported, when the product is over EVAL_MAX_WORK.
bool eval_check_work(const EvalCtx *c, int64_t results, int64_t each);
// Entry i of an integer operand as a row of n: negative ones count from the back, others are clamped.
int64_t eval_row(const Tensor *index, int64_t i, int64_t n);
// Product of dim[from .. to).
int64_t eval_count(const Tensor *t, uint32_t from, uint32_t to);
// Row-major strides in elements; 0 where the size is 1, so that they broadcast.
void eval_strides(const Tensor *t, int64_t *stride);
// Strides of t aligned at the last axis to a shape of `rank` axes.
void eval_broadcast_strides(const Tensor *t, uint32_t rank, int64_t *stride);

// A walk over all elements of a box in row-major order, with up to EVAL_WALK_MAX offsets into other tensors
// that move along.
enum { EVAL_WALK_MAX = 3 };
typedef struct EvalWalk {
    uint32_t rank, n;
    const int64_t *dim;
    int64_t at[SHAPE_MAX_RANK];
    int64_t offset[EVAL_WALK_MAX];
    int64_t stride[EVAL_WALK_MAX][SHAPE_MAX_RANK];
} EvalWalk;
// Steps to the next element.
void eval_walk_next(EvalWalk *w);

// Copies elements: out[i0, i1, ...] = src[map[0][i0] + map[1][i1] + ...]; where a map entry is negative, out
// keeps its value.
void eval_copy_mapped(Tensor *out, const Tensor *src, const int64_t *const *map);
// Copies one element between tensors of one type.
void eval_copy_element(Tensor *to, int64_t at, const Tensor *from, int64_t i);
// Copies an operand's bytes to result 0: for ops that only change the shape.
bool eval_copy_all(EvalCtx *c);

#endif
