// SPDX-License-Identifier: Apache-2.0
// Random valid graphs with values for their inputs, for test_random. random_graph.c has leaves, operands and
// the elementwise ops, random_compute.c, random_move.c and random_table.c the structural ops. A seed decides
// about everything.
#ifndef TESTS_E2E_RANDOM_GRAPH_H
#define TESTS_E2E_RANDOM_GRAPH_H

#include "ir/eval/eval.h"

enum { SAMPLE_RUNS = 3 };    // with states carried over
#define SAMPLE_ACCURACY 1e-5 // of convolutions

// A graph and what it is run on.
typedef struct Sample {
    Arena *arena;
    Graph *g;
    uint64_t seed;
    bool is_special; // NaN, infinities, denormals among the values
    Map values;      // input name -> const Tensor * with SAMPLE_RUNS entries
} Sample;

typedef struct Gen {
    Arena *arena;
    Graph *g;
    uint64_t rng;
    uint64_t seed;
    bool is_special, is_dyadic; // dyadic: floats have few bits, so that sums and products are exact
    VEC(Tensor) value;          // result 0 by NodeId, of the first run
    VEC(Tensor *) results;      // by NodeId: all results
    VEC(NodeId) live;           // what may be an operand
    uint32_t n_leaves;
    Map values;
} Gen;

enum {
    GEN_FLOAT = 1 << DCLASS_FLOAT,
    GEN_INT = 1 << DCLASS_INT | 1 << DCLASS_UINT,
    GEN_BOOL = 1 << DCLASS_BOOL
};
enum { GEN_NUMBER = GEN_FLOAT | GEN_INT, GEN_ALL = GEN_NUMBER | GEN_BOOL, GEN_MAX_NUMEL = 3000 };

uint64_t rng_u64(uint64_t *state);
uint32_t gen_below(Gen *e, uint32_t n);               // in [0, n)
int64_t gen_range(Gen *e, int64_t low, int64_t high); // both included
bool gen_chance(Gen *e, uint32_t percent);
int64_t gen_size(Gen *e); // of a dim
// A new input, constant or parameter.
NodeId gen_leaf(Gen *e, DType t, uint32_t rank, const int64_t *dim);
NodeId gen_const(Gen *e, DType t, uint32_t rank, const int64_t *dim);
// Constants of the elements given, and of random whole numbers, both ends included.
NodeId gen_given(Gen *e, Tensor v);
NodeId gen_table(Gen *e, DType t, uint32_t rank, const int64_t *dim, int64_t low, int64_t high);
// A new leaf without NaN and infinities, whatever the graph has.
NodeId gen_plain_leaf(Gen *e, DType t, uint32_t rank, const int64_t *dim);
// A value of exactly this type: one that exists, seen in this shape, or a new leaf.
NodeId gen_value(Gen *e, DType t, uint32_t rank, const int64_t *dim);
// A value whose type is of one of the classes and whose rank is in the range: one that exists, or a new leaf.
NodeId gen_pick(Gen *e, unsigned classes, uint32_t min_rank, uint32_t max_rank);
DType gen_dtype(Gen *e, unsigned classes);
DType gen_type_of(const Gen *e, NodeId id);
const Shape *gen_shape_of(const Gen *e, NodeId id);

// The structural ops that are generated: make adds nodes and returns one, 0 when what it tried is not valid.
typedef struct GenOp {
    OpId op;
    uint32_t weight;
    NodeId (*make)(Gen *e);
} GenOp;
Sample *sample_make(Arena *a, uint64_t seed);
// Its graph for the passes, which change what they get: the reference evaluates the sample's own.
Graph *sample_copy(const Sample *s);

// Evaluates node `id`, all operands given, into results[id] and value[id]. False: reported.
bool node_evaluate(Arena *a, const Graph *g, NodeId id, Tensor *value, Tensor **results);

#endif
