// SPDX-License-Identifier: Apache-2.0
// Tensors of the model as constants of the graph, which read them where they lie, and what is computed with
// them. Separate because blocks and plain elements take different operations, which nothing else knows of.
#include "compiler/import/llm/llm_build.h"
#include "compiler/import/tensors/tensor_bytes.h"
#include "ir/graph/intern.h"
#include "ir/graph/reads.h"
#include "ir/graph/tensor.h"

#include <string.h>

const LlmRoleInfo llm_roles[LLM_ROLE_COUNT] = {
#define MODEL                         false
#define LAYER                         true
#define LLM_TENSOR(name, text, where) {text, where},
#include "compiler/import/llm/llm_tensors.def"
};

static LlmPlace weight_of(const LlmBuild *b, LlmRole role)
{
    return (LlmPlace){role, llm_roles[role].is_of_layer ? b->layer : 0, false};
}

static LlmPlace bias_of(const LlmBuild *b, LlmRole role)
{
    return (LlmPlace){role, llm_roles[role].is_of_layer ? b->layer : 0, true};
}

// What the file calls a tensor.
static const char *tensor_name(LlmBuild *b, LlmPlace place)
{
    return b->source->tensor_name(b->source->ctx, place);
}

// The same for all files.
static const char *node_label(LlmBuild *b, LlmRole role)
{
    return llm_roles[role].is_of_layer ? llm_label(b, llm_roles[role].name) : llm_roles[role].name;
}

static bool find(LlmBuild *b, LlmPlace place, LlmTensor *t)
{
    *t = (LlmTensor){0};
    return !b->failed && b->source->tensor(b->source->ctx, place, t);
}

static bool need(LlmBuild *b, LlmPlace place, LlmTensor *t)
{
    if (b->failed)
        return false;
    if (!find(b, place, t))
        return llm_fail(b, E0115, "tensor '%s' is missing (%s needs it)", tensor_name(b, place),
                        b->arch->name);
    if (t->fault != NULL)
        return llm_fail(b, E0115, "tensor '%s' %s", tensor_name(b, place), t->fault);
    return t->is_known || llm_fail(b, E0115, "tensor '%s' has the type %s, which rlxc does not support",
                                   tensor_name(b, place), t->type);
}

const char *llm_shape_text(LlmBuild *b, uint32_t rank, const int64_t *dim)
{
    Str s = str_new(b->arena);
    for (uint32_t i = 0; i < rank; i++)
        str_printf(&s, "%s%lld", i != 0 ? ", " : "", (long long)dim[i]);
    return str_text(&s);
}

// Sizes of 1 do not count.
static bool check_shape(LlmBuild *b, const char *name, const LlmTensor *t, uint32_t rank, const int64_t *dim)
{
    uint32_t i = 0, k = 0;
    for (;; i++, k++) {
        while (i < t->rank && t->dim[i] == 1)
            i++;
        while (k < rank && dim[k] == 1)
            k++;
        if (i == t->rank || k == rank || t->dim[i] != dim[k])
            break;
    }
    return (i == t->rank && k == rank) || llm_fail(b, E0115, "tensor '%s' has the shape [%s]; expected [%s]",
                            name, llm_shape_text(b, t->rank, t->dim), llm_shape_text(b, rank, dim));
}

NodeId llm_tensor_const(LlmBuild *b, const char *name, const LlmTensor *t, uint32_t rank, const int64_t *dim)
{
    Tensor v = {.dtype = t->format != NULL ? DTYPE_u8 : t->dtype, .rank = rank};
    Shape s = shape_of(rank, dim);
    if (b->failed || !check_shape(b, name, t, rank, dim))
        return 0;
    if (t->format != NULL) {
        rlx_assert(rank >= 1 && dim[rank - 1] % t->elements == 0);
        s.dim[rank - 1] = dim[rank - 1] / t->elements;
        s.dim[s.rank++] = t->bytes;
    } else if (dtype_info[t->dtype].cls != DCLASS_FLOAT) {
        llm_fail(b, E0115, "tensor '%s' has the type %s; expected floats", name, t->type);
        return 0;
    }
    const uint64_t bytes = type_bytes(v.dtype, &s);
    v.numel = shape_numel(&s);
    const void *copy = b->reads != NULL ? reads_copy(b->reads, t->data) : NULL; // of an earlier import
    const bool is_there = copy != NULL && reads_source(b->reads, copy, bytes) == t->data;
    if (!tensor_set_bytes(b->arena, &v, is_there ? copy : t->data)) {
        llm_fail(b, E0115, "tensor '%s' holds %s", name, tensor_dirt(v.dtype));
        return 0;
    }
    if (b->reads != NULL) { // their addresses differ; nobody reads their bytes
        if (v.data != t->data && !is_there)
            reads_note_moved(b->reads, t->data, v.data, bytes);
        intern_known(b->graph, v.data, bytes, (uint64_t)(uintptr_t)v.data);
    }
    const NodeId id = llm_const(b, v.dtype, s.rank, s.dim, v.data);
    if (id != 0)
        graph_label(b->graph, id, name);
    return id;
}

static NodeId make_const(LlmBuild *b, LlmPlace place, const LlmTensor *t, uint32_t rank, const int64_t *dim)
{
    return llm_tensor_const(b, tensor_name(b, place), t, rank, dim);
}

bool llm_has_weight(LlmBuild *b, LlmRole role)
{
    LlmTensor t;
    return find(b, weight_of(b, role), &t);
}

int64_t llm_size(LlmBuild *b, LlmRole role, uint32_t axis)
{
    LlmTensor t;
    const LlmPlace place = weight_of(b, role);
    if (!need(b, place, &t))
        return 0;
    if (axis < t.rank)
        return t.dim[t.is_turned && axis + 2 >= t.rank ? 2 * t.rank - 3 - axis : axis];
    llm_fail(b, E0115, "tensor '%s' has the shape [%s]; expected %u sizes or more", tensor_name(b, place),
             llm_shape_text(b, t.rank, t.dim), axis + 1);
    return 0;
}

// Elements of blocks; others as f32.
static NodeId decode(LlmBuild *b, const LlmTensor *t, NodeId x)
{
    if (t->format == NULL)
        return llm_f32(b, x);
    NodeBuild n = llm_begin(b, OP_block_decode, NULL);
    node_src(&n, x);
    node_str(&n, A_block_decode_format, t->format);
    return llm_end(b, &n);
}

// Do products read it as it is, on matrix units?
static bool is_narrow(const LlmBuild *b, const LlmTensor *t)
{
    return b->has_bf16_rows && (t->format != NULL || t->dtype == DTYPE_bf16);
}

LlmRole llm_vocabulary(LlmBuild *b)
{
    const bool has_own = llm_has(b, LLM_OWN_OUTPUT) || llm_has_weight(b, LLM_output);
    return has_own ? LLM_output : LLM_token_embd;
}

// Are the rows also the columns of the product with the vocabulary?
static bool is_multiplied(LlmBuild *b, LlmRole role)
{
    return role == LLM_token_embd && !llm_has(b, LLM_ENCODER) &&
           (b->outputs & (LLM_GIVES_LAST | LLM_GIVES_ALL)) != 0 && llm_vocabulary(b) == role;
}

NodeId llm_rows(LlmBuild *b, LlmRole role, int64_t k, NodeId index)
{
    LlmTensor t;
    const LlmPlace place = weight_of(b, role);
    const int64_t n = llm_size(b, role, 0);
    if (!need(b, place, &t))
        return 0;
    const NodeId w = make_const(b, place, &t, 2, (const int64_t[]){n, k});
    if (is_multiplied(b, role) && t.format == NULL && !is_narrow(b, &t)) // one constant serves both
        return b->failed ? 0 : llm_gather(b, llm_f32(b, w), index);
    return decode(b, &t, b->failed ? 0 : llm_gather(b, w, index));
}

// A whole tensor, as f32.
static NodeId numbers(LlmBuild *b, LlmPlace place, uint32_t rank, const int64_t *dim)
{
    LlmTensor t;
    if (!need(b, place, &t))
        return 0;
    return decode(b, &t, make_const(b, place, &t, rank, dim));
}

static NodeId vector(LlmBuild *b, LlmPlace place, int64_t n)
{
    return numbers(b, place, 1, &n);
}

NodeId llm_vector(LlmBuild *b, LlmRole role, int64_t n)
{
    return vector(b, weight_of(b, role), n);
}

NodeId llm_table(LlmBuild *b, LlmRole role, int64_t n, int64_t k)
{
    return numbers(b, weight_of(b, role), 2, (const int64_t[]){n, k});
}

NodeId llm_filter(LlmBuild *b, LlmRole role, const int64_t dim[3])
{
    return numbers(b, weight_of(b, role), 3, dim);
}

NodeId llm_bias(LlmBuild *b, LlmRole role, int64_t n)
{
    return vector(b, bias_of(b, role), n);
}

static bool needs_bias(const LlmBuild *b, LlmRole role)
{
    const bool is_qkv = role == LLM_attn_q || role == LLM_attn_k || role == LLM_attn_v;
    const bool is_key = role == LLM_attn_k || role == LLM_cross_k;
    if (is_key && llm_has(b, LLM_SPEECH)) // it would add the same to all scores
        return false;
    return (llm_has(b, LLM_BIAS_ALL) && llm_roles[role].is_of_layer) || (llm_has(b, LLM_BIAS_QKV) && is_qkv);
}

NodeId llm_add_bias(LlmBuild *b, NodeId y, LlmRole role, int64_t n)
{
    LlmTensor t;
    if (!needs_bias(b, role) && !find(b, bias_of(b, role), &t))
        return y;
    const NodeId bias = vector(b, bias_of(b, role), n);
    return llm_op2(b, OP_add, y, bias);
}

NodeId llm_multiply(LlmBuild *b, const LlmTensor *t, const NodeId src[3], const char *label)
{
    const bool is_grouped = src[2] != 0;
    static const OpId ops[2][2] = {{OP_matmul, OP_grouped_matmul},
                                   {OP_block_matmul, OP_block_grouped_matmul}};
    static const AttrId formats[] = {A_block_matmul_format, A_block_grouped_matmul_format};
    static const AttrId turns[] = {A_matmul_transpose_b, A_grouped_matmul_transpose_b};
    const bool has_narrow_rows = is_narrow(b, t);
    const NodeId x = llm_cast(b, src[0], has_narrow_rows ? DTYPE_bf16 : DTYPE_f32);
    const NodeId w = t->format != NULL || has_narrow_rows ? src[1] : llm_f32(b, src[1]);
    NodeBuild n = llm_begin(b, ops[t->format != NULL][is_grouped], label);
    node_src(&n, x);
    node_src(&n, w);
    if (is_grouped)
        node_src(&n, src[2]);
    if (t->format != NULL)
        node_str(&n, formats[is_grouped], t->format);
    else
        node_int(&n, turns[is_grouped], !t->is_turned);
    const NodeId y = llm_end(b, &n);
    return has_narrow_rows ? llm_f32(b, y) : y;
}

NodeId llm_product(LlmBuild *b, NodeId x, LlmRole role, int64_t n)
{
    LlmTensor t;
    const LlmPlace place = weight_of(b, role);
    if (!need(b, place, &t))
        return 0;
    const int64_t k = llm_dim(b, x, UINT32_MAX);
    const int64_t dim[] = {t.is_turned ? k : n, t.is_turned ? n : k};
    const NodeId w = make_const(b, place, &t, 2, dim);
    const NodeId y = llm_multiply(b, &t, (const NodeId[]){x, w, 0}, node_label(b, role));
    if (b->measures && !b->failed) {
        const LlmFactor f = {arena_printf(b->arena, "%s.weight" LLM_SUMS, node_label(b, role)),
                             llm_f32(b, x)};
        vec_push(b->arena, &b->factors, f);
    }
    return llm_add_bias(b, llm_adapt(b, y, x, role, 0), role, n);
}

// --- one product of several weights ---

// Are there weights [n, k] of one type behind all of these roles, and nothing that is added to one of them?
static bool can_join(LlmBuild *b, const LlmJoint *j, LlmTensor *t)
{
    for (uint32_t i = 0; i < j->n_roles; i++) {
        LlmTensor bias;
        if (!find(b, weight_of(b, j->role[i]), &t[i]) || t[i].fault != NULL || !t[i].is_known ||
            t[i].is_turned || !is_narrow(b, &t[i]) || needs_bias(b, j->role[i]) ||
            find(b, bias_of(b, j->role[i]), &bias))
            return false;
        if (t[i].format != t[0].format || t[i].dtype != t[0].dtype)
            return false;
    }
    return true;
}

// The rows of all of them, one behind the other.
static const void *join_rows(LlmBuild *b, const LlmJoint *j, const LlmTensor *t, int64_t k)
{
    const size_t row = (size_t)(t[0].format != NULL ? k / t[0].elements * t[0].bytes
                                                    : k * dtype_info[t[0].dtype].bytes);
    size_t n = 0;
    for (uint32_t i = 0; i < j->n_roles; i++)
        n += (size_t)j->n[i];
    unsigned char *all = arena_alloc(b->arena, n * row), *to = all;
    for (uint32_t i = 0; i < j->n_roles; to += (size_t)j->n[i++] * row)
        memcpy(to, t[i].data, (size_t)j->n[i] * row);
    return all;
}

NodeId llm_joint_product(LlmBuild *b, NodeId x, const LlmJoint *j)
{
    LlmTensor t[LLM_MOST_JOINT];
    int64_t dim[] = {0, llm_dim(b, x, UINT32_MAX)};
    rlx_assert(j->n_roles >= 2 && j->n_roles <= LLM_MOST_JOINT);
    if (b->failed || b->reads != NULL || b->measures || b->n_adapters != 0 || !can_join(b, j, t))
        return 0;
    for (uint32_t i = 0; i < j->n_roles; i++) {
        const int64_t own[] = {j->n[i], dim[1]};
        if (!check_shape(b, tensor_name(b, weight_of(b, j->role[i])), &t[i], 2, own))
            return 0;
        dim[0] += j->n[i];
    }
    LlmTensor all = t[0];
    all.rank = 2;
    memcpy(all.dim, dim, sizeof dim);
    all.data = join_rows(b, j, t, dim[1]);
    const NodeId w = llm_tensor_const(b, node_label(b, j->all), &all, 2, dim);
    return llm_multiply(b, &all, (const NodeId[]){x, w, 0}, node_label(b, j->all));
}

// Where there is one: that of the expert of each row.
static NodeId add_expert_bias(LlmBuild *b, NodeId y, LlmRole role, int64_t n, NodeId index)
{
    LlmTensor t;
    const LlmPlace place = bias_of(b, role);
    if (!find(b, place, &t) || !need(b, place, &t))
        return y;
    const int64_t dim[] = {llm_count(b, LLM_KEY_experts), n};
    const NodeId all = decode(b, &t, make_const(b, place, &t, 2, dim));
    return llm_op2(b, OP_add, y, b->failed ? 0 : llm_gather(b, all, index));
}

NodeId llm_expert_product(LlmBuild *b, NodeId x, LlmRole role, int64_t n, NodeId index)
{
    LlmTensor t;
    const LlmPlace place = weight_of(b, role);
    if (!need(b, place, &t))
        return 0;
    const int64_t k = llm_dim(b, x, UINT32_MAX), experts = llm_count(b, LLM_KEY_experts);
    const int64_t dim[] = {experts, t.is_turned ? k : n, t.is_turned ? n : k};
    const NodeId w = make_const(b, place, &t, 3, dim);
    const NodeId y = llm_multiply(b, &t, (const NodeId[]){x, w, index}, node_label(b, role));
    return add_expert_bias(b, llm_adapt(b, y, x, role, index), role, n, index);
}

NodeId llm_norm(LlmBuild *b, NodeId x, LlmRole role)
{
    const bool is_rms = !llm_has(b, LLM_LAYER_NORM);
    const int64_t n = llm_dim(b, x, UINT32_MAX);
    NodeId w = llm_vector(b, role, n);
    if (llm_has(b, LLM_PLUS_ONE) && !b->failed)
        w = llm_op2(b, OP_add, w, llm_number(b, 1));
    const NodeId bias = is_rms ? 0 : vector(b, bias_of(b, role), n);
    NodeBuild norm = llm_begin(b, is_rms ? OP_rms_norm : OP_layer_norm, node_label(b, role));
    node_src(&norm, x);
    node_src(&norm, w);
    if (!is_rms)
        node_src(&norm, bias);
    node_float(&norm, is_rms ? A_rms_norm_epsilon : A_layer_norm_epsilon,
               b->number[is_rms ? LLM_KEY_rms_epsilon : LLM_KEY_epsilon]);
    return llm_end(b, &norm);
}

NodeId llm_plain_norm(LlmBuild *b, NodeId x)
{
    const Dim n = llm_dim(b, x, UINT32_MAX);
    const NodeId one = llm_number(b, 1);
    NodeBuild norm = llm_begin(b, OP_rms_norm, NULL);
    node_src(&norm, x);
    node_src(&norm, llm_expand(b, one, 1, &n));
    node_float(&norm, A_rms_norm_epsilon, b->number[LLM_KEY_rms_epsilon]);
    return llm_end(b, &norm);
}

void llm_leave_out(LlmBuild *b, LlmRole role)
{
    LlmTensor t;
    (void)find(b, weight_of(b, role), &t);
    (void)find(b, bias_of(b, role), &t);
    llm_leave_out_adapters(b, role);
}

bool llm_check_all_used(LlmBuild *b)
{
    const char *name = b->failed ? NULL : b->source->unasked(b->source->ctx);
    if (name != NULL)
        return llm_fail(b, E0115, "tensor '%s' is not one that the architecture %s has", name, b->arch->name);
    return !b->failed && llm_check_adapters_used(b);
}
