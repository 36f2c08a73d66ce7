// SPDX-License-Identifier: Apache-2.0
// Adapters (LoRA): what they add to the products of a model. Separate because the graph is the same without
// them, and because their files are read by others.
#include "compiler/import/llm/llm_build.h"

#include <math.h>
#include <string.h>

// The two tensors that change one product.
typedef struct Pair {
    const LlmAdapter *adapter;
    const LlmAdapterTensor *a, *b;
} Pair;

bool llm_adapter_add(Arena *a, LlmAdapter *adapter, const char *name, const LlmTensor *t)
{
    rlx_assert(t->rank <= LLM_MAX_RANK);
    if (!map_put_str(a, &adapter->index, name, adapter->tensors.len))
        return false;
    vec_push(a, &adapter->tensors, ((LlmAdapterTensor){.name = arena_strdup(a, name), .tensor = *t}));
    return true;
}

LlmAdapterTensor *llm_adapter_tensor(LlmAdapter *adapter, const char *name)
{
    uint64_t at = 0;
    return map_get_str(&adapter->index, name, &at) ? &adapter->tensors.data[at] : NULL;
}

static bool fail(LlmBuild *b, const LlmAdapter *adapter, const char *why)
{
    if (b->failed)
        return false;
    b->failed = true;
    return diag_error(b->diag, adapter->span, E0115, "%s", why);
}

bool llm_begin_adapters(LlmBuild *b)
{
    const Dim slots = b->slots;
    const Shape shape = shape_of(slots != 0 ? 1 : 0, &slots);
    const uint32_t n = slots != 0 ? (uint32_t)slots : 1;
    NodeId *scale = ARENA_ARRAY(b->arena, NodeId, b->n_adapters + 1);
    for (uint32_t i = 0; i < b->n_adapters && !b->failed; i++) {
        LlmAdapter *one = &b->adapters[i];
        rlx_assert(one->find != NULL && one->param != NULL && one->alpha > 0);
        if (one->arch != NULL && !str_equal(one->arch, b->arch->name))
            return fail(b, one,
                        arena_printf(b->arena,
                                     "this adapter is for models of the architecture '%.80s'; the model is "
                                     "of '%s'",
                                     one->arch, b->arch->name));
        if (one->tensors.len == 0)
            return fail(b, one, "this adapter has no tensors");
        for (uint32_t k = 0; k < one->tensors.len; k++)
            one->tensors.data[k].is_asked = false;
        float *value = ARENA_ARRAY(b->arena, float, n);
        for (uint32_t k = 0; k < n; k++)
            value[k] = (float)one->scale;
        scale[i] =
            graph_param(b->graph, one->param, DTYPE_f32, &shape, value, n * sizeof *value, one->span);
        b->failed = scale[i] == 0;
    }
    b->adapter_scale = scale;
    return !b->failed;
}

// --- tensors ---

static LlmAdapterTensor *find(LlmBuild *b, LlmAdapter *adapter, LlmRole role, bool is_a)
{
    // The adapter of the last product changes it alone, also where its weight is that of the embedding.
    const LlmRole of = role == LLM_token_embd ? LLM_output : role;
    const LlmPlace place = {of, llm_roles[of].is_of_layer ? b->layer : 0, false};
    LlmAdapterTensor *t = adapter->find(b->arena, adapter, b->arch->name, place, is_a);
    if (t != NULL)
        t->is_asked = true;
    return t;
}

// Is a tensor one that products take, with `rank` axes? Leading sizes of 1 may be missing in the file.
static bool fits(LlmBuild *b, const LlmAdapter *adapter, const LlmAdapterTensor *t, LlmTensor *out,
                 uint32_t rank)
{
    rlx_assert(rank >= 2 && rank <= LLM_MAX_RANK);
    *out = t->tensor;
    if (out->fault != NULL)
        return fail(b, adapter, arena_printf(b->arena, "tensor '%s' %s", t->name, out->fault));
    if (!out->is_known)
        return fail(b, adapter,
                    arena_printf(b->arena, "tensor '%s' has the type %s, which rlxc does not support",
                                 t->name, out->type));
    if (out->format == NULL && dtype_info[out->dtype].cls != DCLASS_FLOAT)
        return fail(b, adapter,
                    arena_printf(b->arena, "tensor '%s' has the type %s; expected floats", t->name,
                                 out->type));
    while (out->rank < rank) {
        memmove(out->dim + 1, out->dim, out->rank * sizeof *out->dim);
        out->dim[0] = 1;
        out->rank++;
    }
    return true;
}

static bool check_sizes(LlmBuild *b, const Pair *p, const LlmAdapterTensor *t, const LlmTensor *is,
                        uint32_t rank, const int64_t *dim)
{
    if (is->rank == rank && memcmp(is->dim, dim, rank * sizeof *dim) == 0)
        return true;
    return fail(b, p->adapter,
                arena_printf(b->arena, "tensor '%s' has the shape [%s]; expected [%s]", t->name,
                             llm_shape_text(b, is->rank, is->dim), llm_shape_text(b, rank, dim)));
}

// --- heads of queries and keys ---

// The row of a head of the other order that row i of a head takes. Of pairs: the elements 2i and 2i + 1 turn
// together, else i and i + half.
static int64_t other_row(int64_t i, int64_t half, bool to_pairs)
{
    rlx_assert(i >= 0 && i < 2 * half);
    return to_pairs ? i % 2 * half + i / 2 : i % half * 2 + i / half;
}

// B with its rows in the order of the heads of the model, where the adapter has the other one. False:
// reported.
static bool order_rows(LlmBuild *b, const Pair *p, LlmRole role, LlmTensor *t)
{
    const bool has_pairs = llm_has(b, LLM_PAIRS), is_q = role == LLM_attn_q;
    const bool had_pairs = (b->arch->options & LLM_PAIRS) != 0 && !p->adapter->has_halves;
    if ((!is_q && role != LLM_attn_k) || has_pairs == had_pairs)
        return true;
    const int64_t heads = llm_count(b, is_q ? LLM_KEY_heads : LLM_KEY_kv_heads), rows = t->dim[0];
    const int64_t size = rows / heads, half = size / 2;
    if (rows % heads != 0 || size % 2 != 0)
        return fail(b, p->adapter,
                    arena_printf(b->arena, "tensor '%s' has no heads of an even size", p->b->name));
    const size_t bytes = t->format != NULL ? (size_t)(t->dim[1] / t->elements) * t->bytes
                                           : (size_t)t->dim[1] * dtype_info[t->dtype].bytes;
    char *to = arena_alloc(b->arena, (size_t)rows * bytes);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t from = i / size * size + other_row(i % size, half, has_pairs);
        memcpy(to + (size_t)i * bytes, (const char *)t->data + (size_t)from * bytes, bytes);
    }
    t->data = to;
    return true;
}

// --- products ---

// What the rows of h are multiplied by: a number, or of each that of its slot.
static NodeId scale_of(LlmBuild *b, const LlmAdapter *adapter, NodeId h, double by)
{
    const NodeId scale = llm_times(b, b->adapter_scale[adapter - b->adapters], adapter->alpha / by);
    if (b->slots == 0 || b->failed)
        return scale;
    const Shape *s = graph_node(b->graph, h)->shape;
    Dim column[SHAPE_MAX_RANK] = {s->dim[0]};
    for (uint32_t i = 1; i < s->rank; i++)
        column[i] = 1;
    return llm_reshape(b, llm_gather(b, scale, b->row_slot), s->rank, column);
}

// (x A) B, times the parameter and alpha / rank.
static NodeId add_pair(LlmBuild *b, const Pair *p, NodeId y, NodeId x, LlmRole role, NodeId index)
{
    const uint32_t axes = index != 0 ? 3 : 2, at = 3 - axes; // of sizes with the number of experts in front
    const int64_t experts = index != 0 ? llm_count(b, LLM_KEY_experts) : 1;
    const int64_t k = llm_dim(b, x, UINT32_MAX), n = llm_dim(b, y, UINT32_MAX);
    LlmTensor a, v;
    if (b->failed || !fits(b, p->adapter, p->a, &a, axes) || !fits(b, p->adapter, p->b, &v, axes))
        return 0;
    const int64_t rank = a.rank == axes ? a.dim[axes - 2] : 1;
    const int64_t down[] = {experts, p->adapter->rank != 0 ? p->adapter->rank : rank, k};
    const int64_t up[] = {experts, n, down[1]};
    if (!check_sizes(b, p, p->a, &a, axes, down + at) || !check_sizes(b, p, p->b, &v, axes, up + at) ||
        (index == 0 && !order_rows(b, p, role, &v)))
        return 0;
    rlx_assert(rank >= 1);
    const double by = p->adapter->divides_by_root ? sqrt((double)rank) : (double)rank;
    NodeId h = llm_multiply(
        b, &a, (const NodeId[]){x, llm_tensor_const(b, p->a->name, &a, axes, down + at), index}, p->a->name);
    h = llm_op2(b, OP_mul, h, scale_of(b, p->adapter, h, by));
    h = llm_multiply(
        b, &v, (const NodeId[]){h, llm_tensor_const(b, p->b->name, &v, axes, up + at), index}, p->b->name);
    return llm_op2(b, OP_add, y, h);
}

NodeId llm_adapt(LlmBuild *b, NodeId y, NodeId x, LlmRole role, NodeId index)
{
    rlx_assert(b->n_adapters == 0 || b->adapter_scale != NULL);
    for (uint32_t i = 0; i < b->n_adapters && !b->failed; i++) {
        LlmAdapter *one = &b->adapters[i];
        const Pair p = {.adapter = one, .a = find(b, one, role, true), .b = find(b, one, role, false)};
        if (p.a == NULL && p.b == NULL)
            continue;
        if (p.a == NULL || p.b == NULL) {
            fail(b, one,
                 arena_printf(b->arena,
                              "tensor '%s' has no other one beside it: expected A and B of a weight",
                              p.a != NULL ? p.a->name : p.b->name));
            return 0;
        }
        y = add_pair(b, &p, y, x, role, index);
    }
    return b->failed ? 0 : y;
}

// --- what is left ---

void llm_leave_out_adapters(LlmBuild *b, LlmRole role)
{
    for (uint32_t i = 0; i < b->n_adapters; i++)
        for (uint32_t is_a = 0; is_a < 2; is_a++)
            (void)find(b, &b->adapters[i], role, is_a != 0);
}

bool llm_check_adapters_used(LlmBuild *b)
{
    for (uint32_t i = 0; i < b->n_adapters; i++)
        for (uint32_t k = 0; k < b->adapters[i].tensors.len; k++) {
            const LlmAdapterTensor *t = &b->adapters[i].tensors.data[k];
            if (!t->is_asked)
                return fail(b, &b->adapters[i],
                            arena_printf(b->arena,
                                         "tensor '%s' is not one of A and B of a product of the model (%s)",
                                         t->name, b->arch->name));
        }
    return true;
}
