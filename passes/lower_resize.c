// SPDX-License-Identifier: Apache-2.0
// resize: where each result element reads is a table per axis that changes, made at compile time from the
// rules that the evaluator uses too. Linear blends the 2 ^ n neighbours along n such axes, pair by pair.
// Vectors run along an axis that keeps its elements (channels).
#include "ir/resize.h"
#include "passes/operand.h"

typedef struct AxisTable {
    bool is_identity;
    uint32_t lower, upper, weight; // parameters; upper and weight for linear only
} AxisTable;

typedef struct Resize {
    NodeId x;
    bool is_linear;
    uint32_t rank;
    AxisTable axis[SHAPE_MAX_RANK];
    int type; // of sums and weights
} Resize;

// One step of a blend: position and weights of the neighbours along the axes that change.
typedef struct Blend {
    KRef lower[SHAPE_MAX_RANK], upper[SHAPE_MAX_RANK], weight[SHAPE_MAX_RANK], rest[SHAPE_MAX_RANK];
} Blend;

static uint32_t add_index_table(Lower *l, const char *name, const int32_t *v, int64_t n)
{
    return lower_param_data(l, name, DTYPE_i32, v, (uint64_t)n * sizeof *v);
}

static void add_linear_tables(Lower *l, const ResizeAxis *a, AxisTable *t, int type)
{
    Arena *perm = l->pass->perm;
    int32_t *lower = ARENA_ARRAY(perm, int32_t, a->out), *upper = ARENA_ARRAY(perm, int32_t, a->out);
    float *weight = ARENA_ARRAY(perm, float, a->out);
    double *wide = ARENA_ARRAY(perm, double, a->out);
    for (int64_t i = 0; i < a->out; i++) {
        const ResizeLinear r = resize_linear(a, i);
        lower[i] = (int32_t)r.lower;
        upper[i] = (int32_t)r.upper;
        weight[i] = (float)r.weight;
        wide[i] = r.weight;
    }
    t->lower = add_index_table(l, "lower", lower, a->out);
    t->upper = add_index_table(l, "upper", upper, a->out);
    const bool is_wide = type == DTYPE_f64;
    const uint64_t each = is_wide ? sizeof *wide : sizeof *weight;
    t->weight = lower_param_data(l, "weight", (DType)type, is_wide ? (const void *)wide : weight,
                                 (uint64_t)a->out * each);
}

static void add_nearest_table(Lower *l, const Node *n, const ResizeAxis *a, AxisTable *t)
{
    int32_t *from = ARENA_ARRAY(l->pass->perm, int32_t, a->out);
    for (int64_t i = 0; i < a->out; i++)
        from[i] = (int32_t)resize_nearest(n, a, i);
    t->lower = add_index_table(l, "from", from, a->out);
}

// Nearest: does every element stay? Linear: as the evaluator decides.
static bool keeps_elements(const Node *n, const ResizeAxis *a, bool is_linear)
{
    if (a->in != a->out)
        return false;
    if (is_linear)
        return a->scale == 0 || a->scale == 1;
    for (int64_t i = 0; i < a->out; i++)
        if (resize_nearest(n, a, i) != i)
            return false;
    return true;
}

static KRef table_index(Lower *l, uint32_t param, KRef i)
{
    return k_cast(l->k, k_load(l->k, param, i, 1, 1), KT_INDEX);
}

// The blend along axes [axis, rank), the axes before it being fixed in idx. Depth: at most the rank.
static KRef blend(Lower *l, const Resize *r, const Blend *b, uint32_t axis, KRef *idx, const Point *at)
{
    Kernel *k = l->k;
    while (axis < r->rank && r->axis[axis].is_identity)
        axis++;
    if (axis == r->rank)
        return k_cast(k, operand_load(l, r->x, operand_index(l, r->x, idx), at, 1), r->type);
    idx[axis] = b->lower[axis];
    const KRef low = blend(l, r, b, axis + 1, idx, at);
    idx[axis] = b->upper[axis];
    const KRef high = blend(l, r, b, axis + 1, idx, at);
    const KRef high_part = k_mul(k, high, b->weight[axis]);
    return k_add(k, k_mul(k, low, b->rest[axis]), high_part);
}

static KRef resize_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Resize *r = ctx;
    Kernel *k = l->k;
    Blend b;
    KRef idx[SHAPE_MAX_RANK];
    (void)d;
    for (uint32_t i = 0; i < r->rank; i++) {
        const AxisTable *t = &r->axis[i];
        idx[i] = t->is_identity ? at.idx[i] : table_index(l, t->lower, at.idx[i]);
        if (t->is_identity || !r->is_linear)
            continue;
        b.lower[i] = idx[i];
        b.upper[i] = table_index(l, t->upper, at.idx[i]);
        b.weight[i] = k_load(k, t->weight, at.idx[i], 1, 1);
        b.rest[i] = k_op(k, KOP_sub, k_number(k, r->type, 1), b.weight[i], 0);
    }
    if (r->is_linear)
        return k_cast(k, blend(l, r, &b, 0, idx, &at), lower_node(l, r->x)->dtype);
    return operand_load(l, r->x, operand_index(l, r->x, idx), &at, 1);
}

void lower_resize(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    const Shape *s = lower_node(l, n->src[0])->shape;
    Resize r = {.x = n->src[0],
                .is_linear = str_equal(node_get_str(n, A_resize_mode), "linear"),
                .rank = s->rank,
                .type = operand_sum_type(n->dtype)};
    for (uint32_t i = 0; i < s->rank; i++) {
        const ResizeAxis a = resize_axis(n, i, s->dim[i], n->shape->dim[i]);
        r.axis[i].is_identity = keeps_elements(n, &a, r.is_linear);
        if (r.axis[i].is_identity)
            continue;
        if (r.is_linear)
            add_linear_tables(l, &a, &r.axis[i], r.type);
        else
            add_nearest_table(l, n, &a, &r.axis[i]);
    }
    const uint32_t inner = operand_map_axis(l);
    const bool has_vectors = s->rank > 0 && r.axis[inner].is_identity && operand_has_vectors(l, r.x, inner);
    lower_map(l, resize_point, &r, has_vectors ? MAP_VECTOR : MAP_SCALAR);
}
