// SPDX-License-Identifier: Apache-2.0
// What the files of this room share: the model under construction, its numbers and tensors, and how nodes are
// made. After something that is wrong, which is reported once, nothing is added any more.
#ifndef COMPILER_IMPORT_LLM_LLM_BUILD_H
#define COMPILER_IMPORT_LLM_LLM_BUILD_H

#include "compiler/import/llm/llm.h"

typedef enum LlmRope {
#define LLM_ROPE(name, text) LLM_ROPE_##name,
#include "compiler/import/llm/llm_ropes.def"
    LLM_ROPE_COUNT
} LlmRope;

typedef struct LlmArch {
    const char *name;
    OpId activation;
    uint32_t window_period, scaled_layers;
    uint32_t options; // LlmOption
} LlmArch;

// Cosines and sines of the positions of a run, [T, dims / 2].
typedef struct LlmAngles {
    NodeId cos, sin;
} LlmAngles;

// Caches of layers with windows in which the token at position p has row p mod `rows`.
typedef struct LlmRing {
    int64_t rows;  // 0: there are none
    NodeId row;    // i64[T]: those of the tokens of this run
    NodeId is_seen; // bool[T, rows]: by which of these tokens each row is seen
} LlmRing;

// What a weight is multiplied by, and the name of the output that measures it.
typedef struct LlmFactor {
    const char *output;
    NodeId x;
} LlmFactor;

typedef struct LlmBuild {
    Arena *arena;
    Diag *diag;
    const LlmSource *source;
    const LlmArch *arch;
    uint32_t options; // LlmOption: those of the architecture, changed by the source
    Graph *graph;
    double number[LLM_KEY_COUNT]; // of kind EACH: that of the current layer
    LlmRope rope;
    uint32_t layer;               // the current one
    int64_t context;
    uint32_t outputs; // LLM_GIVES_*
    bool gives_best;
    DType cache; // type of keys and values in the states
    bool has_bf16_rows;
    bool has_rings;
    bool measures;
    GraphReads *reads; // LlmOptions
    VEC(LlmFactor) factors; // where `measures` is set
    LlmAdapter *adapters;
    uint32_t n_adapters;
    const NodeId *adapter_scale; // f32, or f32[slots]: the parameter of each adapter
    LlmRing ring;
    NodeId sink_row[2], sink_seen[2]; // of plain caches and of rings (llm_sinks.c)
    bool failed;
    Dim t, p;                // tokens of a run, and those before it
    NodeId positions, start; // i64[T]: their places; i64[3]: where new rows of the caches begin
    NodeId past;             // i64[1]: the value of P
    NodeId final;            // i64[1]: the number of the last of the T rows
    NodeId last;             // rows with logits: the final one; with slots i64[slots]; with drafts i64[L]
    Dim l;                   // of `last`, where there are drafts
    int64_t slots, rows;     // with slots: how many, and rows of the caches
    NodeId slot, row, pages; // i64[T]: the slot of each token and its row; i32[slots, rows / LLM_PAGE]
    NodeId row_slot;         // with slots: that of each row of products now, of all tokens or those of `last`
    NodeId encoded;          // f32[sound_rows, width]: what the encoder of a model of the option SPEECH gave
    NodeId mask, window_mask; // bool[T, rows]: the rows that a token sees
    LlmAngles angles;        // of layers without windows
    LlmAngles window_angles;
} LlmBuild;

// False, and everything that follows fails too.
bool llm_fail(LlmBuild *b, DiagCode code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static inline bool llm_has(const LlmBuild *b, LlmOption option)
{
    return (b->options & option) != 0;
}

// --- numbers (llm_numbers.c) ---

// The architecture and its numbers, those of EACH for layer 0. False: reported.
bool llm_read_numbers(LlmBuild *b);
// What the file calls an entry, for messages.
static inline const char *llm_key_name(const LlmBuild *b, LlmKey key)
{
    return b->source->key_name(b->source->ctx, key);
}
// The numbers of another layer.
bool llm_read_layer(LlmBuild *b, uint32_t layer);
static inline int64_t llm_count(const LlmBuild *b, LlmKey key)
{
    return (int64_t)b->number[key];
}
// Does the current layer see a window of the tokens before?
bool llm_is_window(const LlmBuild *b);

// --- tensors (llm_weights.c) ---

// Is there a tensor ROLE.weight?
bool llm_has_weight(LlmBuild *b, LlmRole role);
// Elements of axis `axis` of a tensor that must be there; 0: reported.
int64_t llm_size(LlmBuild *b, LlmRole role, uint32_t axis);
// The rows of a weight [n, k], by index, as f32.
NodeId llm_rows(LlmBuild *b, LlmRole role, int64_t k, NodeId index);
// The weight of the product with the vocabulary: its own one, or the embedding.
LlmRole llm_vocabulary(LlmBuild *b);
// x [..., k] times the weight [n, k], plus the bias where there is one.
NodeId llm_product(LlmBuild *b, NodeId x, LlmRole role, int64_t n);
// Weights [n, k] of several roles that multiply the same rows, one behind the other.
enum { LLM_MOST_JOINT = 3 };
typedef struct LlmJoint {
    LlmRole role[LLM_MOST_JOINT], all; // all: what names the whole
    int64_t n[LLM_MOST_JOINT];
    uint32_t n_roles;
} LlmJoint;
// x [..., k] times all of them as one product on matrix units, f32[..., sum of n]. 0: they cannot be joined
// (another type, a bias, an adapter), or something has failed.
NodeId llm_joint_product(LlmBuild *b, NodeId x, const LlmJoint *j);
// Each row of x times the weight [experts, n, k] of its experts, which index has: [T] or [T, C].
NodeId llm_expert_product(LlmBuild *b, NodeId x, LlmRole role, int64_t n, NodeId index);
// The numbers of a tensor [n, k], as f32.
NodeId llm_table(LlmBuild *b, LlmRole role, int64_t n, int64_t k);
// The numbers of a filter [n, k, taps], as f32, and the bias [n] of a role, which must be there.
NodeId llm_filter(LlmBuild *b, LlmRole role, const int64_t dim[3]);
NodeId llm_bias(LlmBuild *b, LlmRole role, int64_t n);
// y plus the bias of a role, where there is one.
NodeId llm_add_bias(LlmBuild *b, NodeId y, LlmRole role, int64_t n);
// The root mean square norm of the last axis, without weights.
NodeId llm_plain_norm(LlmBuild *b, NodeId x);
// A tensor with these sizes as a constant: blocks as bytes, with one axis more. name: for messages.
NodeId llm_tensor_const(LlmBuild *b, const char *name, const LlmTensor *t, uint32_t rank, const int64_t *dim);
// A product of the kind that a weight takes: its blocks, or its elements. src: x, the weight, and the experts
// of the rows of x; 0: no experts.
NodeId llm_multiply(LlmBuild *b, const LlmTensor *t, const NodeId src[3], const char *label);
const char *llm_shape_text(LlmBuild *b, uint32_t rank, const int64_t *dim);
// The norm of the last axis.
NodeId llm_norm(LlmBuild *b, NodeId x, LlmRole role);
// The numbers of a tensor of n elements, as f32.
NodeId llm_vector(LlmBuild *b, LlmRole role, int64_t n);
// The graph has no use for a weight that the architecture has.
void llm_leave_out(LlmBuild *b, LlmRole role);
// Reports a tensor that the graph does not use. False: there is one.
bool llm_check_all_used(LlmBuild *b);

// --- adapters (llm_adapters.c) ---

// Checks that they are for such models, and makes their parameters. False: reported.
bool llm_begin_adapters(LlmBuild *b);
// The result y [..., n] of the product of x with the weight of a role, and what adapters add to it. index: as
// in llm_expert_product; 0: no experts.
NodeId llm_adapt(LlmBuild *b, NodeId y, NodeId x, LlmRole role, NodeId index);
// The graph has no product with the weight of a role.
void llm_leave_out_adapters(LlmBuild *b, LlmRole role);
// Reports a tensor of an adapter that the graph does not use. False: there is one.
bool llm_check_adapters_used(LlmBuild *b);

// --- nodes (llm_node.c) ---

NodeBuild llm_begin(LlmBuild *b, OpId op, const char *label);
NodeId llm_end(LlmBuild *b, NodeBuild *n);
NodeId llm_op1(LlmBuild *b, OpId op, NodeId x);
NodeId llm_op2(LlmBuild *b, OpId op, NodeId x, NodeId y);
NodeId llm_op3(LlmBuild *b, OpId op, NodeId x, NodeId y, NodeId z);
NodeId llm_scalar(LlmBuild *b, DType type, double v);
NodeId llm_int(LlmBuild *b, int64_t v);   // i64
NodeId llm_int1(LlmBuild *b, int64_t v);  // i64[1]
NodeId llm_number(LlmBuild *b, double v); // f32
NodeId llm_reduce(LlmBuild *b, OpId op, NodeId x, int64_t axis, bool keeps);
NodeId llm_times(LlmBuild *b, NodeId x, double factor); // x itself for 1
NodeId llm_reshape(LlmBuild *b, NodeId x, uint32_t rank, const Dim *dim);
NodeId llm_gather(LlmBuild *b, NodeId x, NodeId index); // along axis 0
NodeId llm_slice(LlmBuild *b, NodeId x, int64_t axis, int64_t from, int64_t to);
NodeId llm_turn(LlmBuild *b, NodeId x, const int64_t *perm); // axes in another order
NodeId llm_cast(LlmBuild *b, NodeId x, DType type);
NodeId llm_f32(LlmBuild *b, NodeId x);
NodeId llm_input(LlmBuild *b, const char *name, uint32_t rank, const Dim *dim); // i64
NodeId llm_const(LlmBuild *b, DType t, uint32_t rank, const Dim *dim, const void *data);
// The state NAME3 of layer 3 for keys or values, and what it holds next: what `op` makes of it, x and y.
NodeId llm_cache(LlmBuild *b, const char *name, const Shape *s);
NodeId llm_cache_put(LlmBuild *b, OpId op, NodeId cache, NodeId x, NodeId y);
// "blk.3.NAME"
const char *llm_label(LlmBuild *b, const char *name);
Dim llm_dim(const LlmBuild *b, NodeId x, uint32_t axis); // of the last axis: UINT32_MAX

// --- parts of the graph ---

// The whole graph of a model of the option ENCODER (llm_encoder.c). False: reported.
bool llm_make_encoder(LlmBuild *b);
// The same where ENCODER goes with SPEECH (llm_speech.c).
bool llm_make_speech_encoder(LlmBuild *b);
// The parameter `encoded` of a decoder, and the branch of a layer that attends to it, of rows x.
void llm_make_encoded(LlmBuild *b);
NodeId llm_hear(LlmBuild *b, NodeId x);
// i64[rows]: 0, 1 ...
NodeId llm_count_rows(LlmBuild *b, Dim rows);
NodeId llm_expand(LlmBuild *b, NodeId x, uint32_t rank, const Dim *dim);
NodeId llm_concat(LlmBuild *b, NodeId x, NodeId y, int64_t axis);
// Rings, where the options ask for them and windows are shorter than the context (llm_ring.c).
void llm_make_rings(LlmBuild *b);
// A state with the new rows [heads, T, size] in it, as [heads, rows, size].
NodeId llm_ring_append(LlmBuild *b, NodeId rows, const char *name);
// With slots: inputs and masks, and a cache with the new rows [kv heads, T, size] in it (llm_slots.c).
void llm_make_slots(LlmBuild *b);
NodeId llm_slots_append(LlmBuild *b, NodeId rows, const char *name);
// Angles for all layers (llm_rope.c).
void llm_make_angles(LlmBuild *b);
// Where caches have the key that stands for no token, of models of the option SINKS (llm_sinks.c).
void llm_make_sinks(LlmBuild *b);
// Attention with sinks: queries [heads, T, size], keys and values of the new rows, [kv heads, T, size].
NodeId llm_sink_attention(LlmBuild *b, NodeId q, NodeId k, NodeId v, double scale);
NodeId llm_rope(LlmBuild *b, NodeId x); // [heads, T, head size]
NodeId llm_rope_tokens(LlmBuild *b, NodeId x); // [T, heads, head size]
// The branch of attention, before its last product: [T, heads * value size] (llm_attention.c).
NodeId llm_attention(LlmBuild *b, NodeId x);
// The one branch of models of the option SSM, before its last product (llm_ssm.c), and rows of its runs.
NodeId llm_ssm(LlmBuild *b, NodeId x);
static inline int64_t llm_ssm_rows(const LlmBuild *b)
{
    const int64_t most = llm_chunk(b->context);
    return most < LLM_SSM_ROWS ? most : LLM_SSM_ROWS;
}
// The second branch (llm_ffn.c).
NodeId llm_ffn(LlmBuild *b, NodeId x);

#endif
