// SPDX-License-Identifier: Apache-2.0
// Language models in folders as Hugging Face has them: config.json and .safetensors files.
#ifndef COMPILER_IMPORT_HF_HF_H
#define COMPILER_IMPORT_HF_HF_H

#include "compiler/import/llm/llm.h"
#include "ir/graph/tensor.h"

bool hf_is_folder(const char *path);
// Reads a folder that hf_is_folder knows. False: reported; what a folder lacks is named.
bool import_hf(Arena *a, Diag *d, const char *folder, const LlmOptions *options, Graph **out);

// A tensor of a folder that was read, and its bytes at the same address.
typedef struct HfStored {
    const char *name;
    const Tensor *tensor;
    bool is_unused; // the part of the model has no need of it
} HfStored;
typedef VEC(HfStored) HfStoredList;
// part: as in LlmOptions. False: reported.
bool hf_stored(Arena *a, Diag *d, const char *folder, const char *part, HfStoredList *out);

// An adapter in a folder, as PEFT writes it, for compiler/job/adapters.c: all but its parameter. False:
// reported.
bool hf_adapter(Arena *a, Diag *d, const char *folder, LlmAdapter *out);

// What a folder that was read says of its model.
typedef struct HfAbout {
    const char *arch; // "llama"
    int64_t layers, width, context;
} HfAbout;
bool hf_about(Arena *a, const char *folder, HfAbout *out);

// Tokens that begin and end texts, by generation_config.json, else config.json; -1: none.
typedef struct HfEnds {
    int64_t bos, eos[2];
} HfEnds;
void hf_ends(Arena *a, const char *folder, HfEnds *out);

#endif
