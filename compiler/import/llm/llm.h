// SPDX-License-Identifier: Apache-2.0
// Language models to graphs: what a reader of files gives, and the graph that it gets. Separate from the
// formats of files, of which several hold the same architectures.
#ifndef COMPILER_IMPORT_LLM_LLM_H
#define COMPILER_IMPORT_LLM_LLM_H

#include "base/map.h"
#include "ir/graph/graph.h"

enum { LLM_MAX_RANK = 4 };

enum {
#define LLM_OPTION(name, text) LLM_AT_##name,
#include "compiler/import/llm/llm_archs.def"
    LLM_AT_RMS_NORM // of keys: LAYER_NORM is not set
};
typedef enum LlmOption {
#define LLM_OPTION(name, text) LLM_##name = 1 << LLM_AT_##name,
#include "compiler/import/llm/llm_archs.def"
    LLM_RMS_NORM = 1 << LLM_AT_RMS_NORM
} LlmOption;

typedef enum LlmKey {
#define LLM_KEY(name, ...) LLM_KEY_##name,
#include "compiler/import/llm/llm_keys.def"
    LLM_KEY_COUNT
} LlmKey;

typedef enum LlmRole {
#define LLM_TENSOR(name, ...) LLM_##name,
#include "compiler/import/llm/llm_tensors.def"
    LLM_ROLE_COUNT
} LlmRole;

// By role, as GGUF files and our nodes have it (llm_tensors.def).
typedef struct LlmRoleInfo {
    const char *name;
    bool is_of_layer;
} LlmRoleInfo;
extern const LlmRoleInfo llm_roles[LLM_ROLE_COUNT];

// A tensor by what it is for.
typedef struct LlmPlace {
    LlmRole role;
    uint32_t layer; // of roles that each layer has
    bool is_bias;   // else the weight
} LlmPlace;

typedef struct LlmTensor {
    const char *fault; // what is wrong with it, behind its name; NULL: nothing
    uint32_t rank;
    int64_t dim[LLM_MAX_RANK]; // outermost first, in elements
    const char *type;          // its name in the file, for messages
    bool is_known;             // rlxc computes with this type
    DType dtype;               // without blocks
    const char *format;        // of blocks (ir/graph/blocks.def); NULL: no blocks
    uint32_t elements, bytes;  // of a block
    const void *data;          // lives as long as the graph
    bool is_turned;            // [k, n] where products take [n, k]
} LlmTensor;

// What a file or folder says.
typedef struct LlmSource {
    void *ctx;
    Span span;        // for messages
    const char *arch; // a name of llm_archs.def; NULL: the file does not say
    // Options (LlmOption) that models of this source have beyond those of the architecture, or lack.
    uint32_t with, without;
    bool has_parts; // one part of a model of several can be asked for, as SPEECH needs it
    // A number; of kind EACH that of the layer. False: there is none.
    bool (*number)(void *ctx, LlmKey key, uint32_t layer, double *out);
    const char *(*text)(void *ctx, LlmKey key); // of kind TEXT; NULL: there is none
    bool (*tensor)(void *ctx, LlmPlace place, LlmTensor *out);
    // What the source calls them, there or not: for messages.
    const char *(*key_name)(void *ctx, LlmKey key);
    const char *(*tensor_name)(void *ctx, LlmPlace place);
    // The name of a tensor for which nobody has asked; NULL: there is none.
    const char *(*unasked)(void *ctx);
} LlmSource;

// Adapters (LoRA): a product x W of the model gets as much of (x A) B added as a parameter says, by which
// programs change the part of an adapter between runs.
typedef struct LlmAdapterTensor {
    const char *name; // in the file
    LlmTensor tensor; // A [rank, in] or B [out, rank]; of experts with one axis more in front
    bool is_asked;
} LlmAdapterTensor;

typedef struct LlmAdapter {
    Span span;         // for messages
    const char *param; // what the parameter is called
    double scale;      // its value until a program sets another one
    const char *arch;  // for which models it is; NULL: the file does not say
    double alpha;      // the parameter is multiplied by alpha / rank
    bool divides_by_root; // by the root of the rank instead
    int64_t rank;         // of all tensors; 0: each has its own
    bool has_halves; // heads of queries and keys turn i and i + half, also where the architecture has PAIRS
    VEC(LlmAdapterTensor) tensors;
    Map index; // by name
    // A, or else B, of the product with a weight; NULL: the adapter does not change it.
    LlmAdapterTensor *(*find)(Arena *a, struct LlmAdapter *adapter, const char *arch, LlmPlace place,
                              bool is_a);
} LlmAdapter;
// Adds a tensor that a file describes. False: there is one of that name.
bool llm_adapter_add(Arena *a, LlmAdapter *adapter, const char *name, const LlmTensor *t);
// The one of that name; NULL: there is none.
LlmAdapterTensor *llm_adapter_tensor(LlmAdapter *adapter, const char *name);

typedef struct LlmOptions {
    // Tokens that the caches have room for; 0: the model's length, at most LLM_DEFAULT_CONTEXT.
    int64_t context;
    bool has_f16_caches; // else f32
    // Products with weights of bf16 or in blocks round what they multiply, and their results, to bf16; over
    // caches of f16 attention takes f16.
    bool has_bf16_rows;
    bool has_rings;      // layers with windows keep the rows that the tokens of a next run see, and no others
    uint32_t outputs;    // LLM_GIVES_*; 0: LLM_GIVES_LAST
    int64_t drafts;      // tokens of each sequence beside the last one whose logits a run can give
    int64_t slots;       // sequences that one run can have tokens of; 0: one, whose rows follow each other
    // Outputs beyond those: for each product with a weight of one matrix, the sums of squares of its columns
    // over the tokens of a run, named by GGUF's name and LLM_SUMS.
    bool measures;
    // Beside the logits of last tokens: `best`, the most likely token by each row, which a device finds
    // faster than the host does; with NaN among the logits it is no token.
    bool gives_best;
    // The program may load other numbers (--weights load): equal tensors stay constants of their own, and
    // copies of bytes are noted. NULL: it does not.
    GraphReads *reads;
    LlmAdapter *adapters; // --lora
    uint32_t n_adapters;
    const char *part; // of a model of several (--signature); NULL: the one that makes text
} LlmOptions;
#define LLM_SUMS ".in_sum2"
#define LLM_BEST "best"
// Logits of the best tokens, the best first; the output behind it has these tokens. And the set of all other
// outputs.
#define LLM_TOP       "top"
#define LLM_PLAIN_SET "without_top"
enum { LLM_TOP_TOKENS = 64 }; // RLX_SAMPLE_FEW of runtime-lite
// What the encoder of a model that hears gives, and the parameter of its decoder.
#define LLM_ENCODED "encoded"

// Rows of a page of the caches, where there are slots.
enum { LLM_PAGE = 64 };
// With slots: the number of inputs (tokens, slot, position, row, pages, wanted), and of `pages` among them.
enum { LLM_SLOTS_INPUTS = 6, LLM_SLOTS_PAGES = 4 };

// What a graph gives, as bits: `logits` of the last token or of all tokens of a run, and `embedding`, the
// normed state before them, of the last token or the mean of all.
enum { LLM_GIVES_LAST = 1, LLM_GIVES_ALL = 2, LLM_GIVES_STATE = 4, LLM_GIVES_MEAN = 8 };

enum { LLM_DEFAULT_CONTEXT = 4096 };
// The size that says behind how many tokens a run gives logits, where there are drafts.
#define LLM_LOGIT_ROWS "L"

// Tokens that one run takes at most.
enum { LLM_SSM_ROWS = 64 }; // of a run, where states have a size that its tokens are combined in
static inline int64_t llm_chunk(int64_t context)
{
    return context < 512 ? context : 512;
}

// Does an architecture of this name make a vector of a text? NULL: no.
bool llm_is_encoder(const char *arch);

// The graph: input `tokens` (i64[T]), states with room for P + T rows, and outputs: `logits` (f32[1,
// vocabulary], of all tokens f32[T, vocabulary]) and `embedding` (f32[1, width]). P tokens are in the states
// already. With slots there is no P, and the graph takes more inputs (llm_slots.c). False: reported.
bool import_llm(Arena *a, Diag *d, const LlmSource *source, const LlmOptions *options, Graph **out);

#endif
