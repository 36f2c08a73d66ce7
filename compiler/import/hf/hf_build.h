// SPDX-License-Identifier: Apache-2.0
// What the files of this room share: a folder that is being read.
#ifndef COMPILER_IMPORT_HF_HF_BUILD_H
#define COMPILER_IMPORT_HF_HF_BUILD_H

#include "compiler/import/hf/hf.h"
#include "compiler/import/json/json_reader.h"
#include "compiler/import/llm/llm.h"

// Groups of models by the names that their tensors have.
typedef enum HfNames {
    HF_BLOCK = 1 << 0, // a norm before each branch
    HF_POST = 1 << 1,  // norms behind the branches
    HF_GEMMA = 1 << 2, // with HF_POST: before them too
    HF_GPT2 = 1 << 3,
    HF_MIXTRAL = 1 << 4, // experts by these names
    HF_QWEN = 1 << 5,
    HF_PHI3 = 1 << 6,
    HF_BERT = 1 << 7,
    HF_OSS = 1 << 8,
    HF_MAMBA = 1 << 9, // one branch
    HF_COLUMNS = 1 << 10, // with HF_MAMBA: a product gives the time steps
    HF_HEADS = 1 << 11,   // with HF_MAMBA: they come from the first product
    HF_SPEECH = 1 << 12,  // a decoder that attends to an encoder of sound
    HF_SOUND = 1 << 13,   // that encoder
    HF_ALL = (1 << 14) - 1,
    HF_PEFT = 1 << 14     // no model: adapter_config.json
} HfNames;

typedef struct HfModel {
    const char *type, *arch; // arch: NULL: a part without weights
    uint32_t names;          // HfNames
    const char *activations; // with spaces between them
    uint32_t windows;
    bool is_tied;
    uint32_t with, without; // LlmOption
} HfModel;

typedef struct HfTensor {
    const char *name;
    const Tensor *tensor;
    bool is_asked; // somebody takes it, or it is known to be of no use
} HfTensor;

typedef struct HfFolder {
    Arena *arena;
    Diag *diag;
    const char *path;
    const char *part; // that was asked for; NULL: none
    GraphReads *reads; // that are told of copies; NULL: nobody asks
    JsonReader json;  // of config.json
    JsonPlace whole;  // its root
    const JsonPlace *root; // the members of the language model: the whole, or its text_config
    const HfModel *model;
    VEC(HfTensor) tensors;
    Map index;          // of tensors by name
    uint64_t bytes;     // of all files of weights
    uint64_t assembled; // bytes of these that were copied
    Map made;           // LlmTensor that were put together, by the name with "%e", or that of their blocks
    const char *prefix;
    const char *wrong_expert; // the tensor that is missing or does not fit; NULL: none
} HfFolder;

// --- config.json (hf_config.c) ---

// Reads the file and checks the members that tables name. False: reported.
bool hf_read_config(HfFolder *h);
// A member by its path, "rope_scaling/factor"; NULL: absent or null.
const JsonPlace *hf_member(HfFolder *h, const char *path);
// What it says; false where it is not there or of another type.
bool hf_number_at(HfFolder *h, const char *path, double *out);
bool hf_bool_at(HfFolder *h, const char *path, bool dflt);
// Are the members of hf_only.def that such files may have as they must be? False: reported.
bool hf_check_only(HfFolder *h, uint32_t names);
// A number of the model, from a member, computed from several, or by default.
bool hf_number(HfFolder *h, LlmKey key, uint32_t layer, double *out);
// As a JSON pointer.
const char *hf_key_name(HfFolder *h, LlmKey key);
// "none", "llama3" ...; NULL: none is said.
const char *hf_rope_type(HfFolder *h);
// Numbers of a list as f32; NULL: there is none.
const float *hf_list(HfFolder *h, const char *member, uint32_t *n);
// Is the last product with the embedding?
bool hf_is_tied(HfFolder *h);
// Options that follow from members.
void hf_options(HfFolder *h, uint32_t *with, uint32_t *without);

// Is preprocessor_config.json, if there is one, that of the spectrograms that rlxc makes? False: reported.
bool hf_check_sound(HfFolder *h);
// How rows become one vector, as GGUF numbers it; false: nothing says it (hf_beside.c).
bool hf_pooling(const HfFolder *h, double *out);

// --- files (hf_files.c) ---

// Opens the files of weights. False: reported.
bool hf_read_files(HfFolder *h);
// Reads a JSON file of the folder and checks it; `root` is its whole. False: reported.
bool hf_read_json(HfFolder *h, const char *name, JsonReader *r, JsonPlace *root);
HfTensor *hf_find(HfFolder *h, const char *name); // NULL: there is none

// --- tensors by role (hf_tensors.c) ---

// Finds what stands before names, and marks tensors of no use.
void hf_begin_tensors(HfFolder *h);
bool hf_tensor(HfFolder *h, LlmPlace place, LlmTensor *out);
// As products take it.
void hf_describe(Arena *a, const Tensor *t, LlmTensor *out);
// Groups of names that models of an architecture have (HfNames).
uint32_t hf_names_of(const char *arch);
// What such models may call the weight of a product, without its ending: number `nth`. NULL: there are no
// more.
const char *hf_product_name(Arena *a, uint32_t names, LlmPlace place, uint32_t nth);
const char *hf_tensor_name(HfFolder *h, LlmPlace place);
const char *hf_unasked(HfFolder *h);

#endif
