// SPDX-License-Identifier: Apache-2.0
// A GGUF file of version 3 as it is written: entries, descriptions of tensors, and their data in the same
// order. Separate from what is written.
#ifndef COMPILER_QUANTIZE_GGUF_OUT_H
#define COMPILER_QUANTIZE_GGUF_OUT_H

#include "base/str.h"
#include "compiler/import/gguf/gguf.h"
#include "compiler/system/rawfile.h"

typedef struct GgufOut {
    Str entries, tensors;
    uint64_t n_entries, n_tensors;
    uint64_t end;       // of the data so far, from their begin on
    uint32_t alignment; // GGUF_OUT_ALIGNMENT unless an entry says otherwise
    RawWriter file;
} GgufOut;

enum { GGUF_OUT_ALIGNMENT = 32 };

GgufOut gguf_out_new(Arena *a);
// An entry as another file has it.
void gguf_out_copy(GgufOut *o, const GgufEntry *e);
void gguf_out_u32(GgufOut *o, const char *key, uint32_t v);
void gguf_out_text(GgufOut *o, const char *key, const char *text);
void gguf_out_texts(GgufOut *o, const char *key, const char *const *text, uint32_t n);
// A tensor; dim: innermost first.
void gguf_out_tensor(GgufOut *o, const char *name, uint32_t rank, const uint64_t *dim, const GgufType *type);
uint64_t gguf_type_bytes(const GgufType *type, const uint64_t *dim, uint32_t rank);

// After all of these: the file up to the data. False: reported, and there is no file; else gguf_out_end
// follows, which reports what has failed since. gguf_out_data is for bytes of a tensor, in as many calls as
// one likes, gguf_out_align for what goes behind a tensor of n bytes.
bool gguf_out_begin(GgufOut *o, Diag *d, const char *path);
bool gguf_out_data(GgufOut *o, const void *bytes, size_t n);
bool gguf_out_align(GgufOut *o, uint64_t n);
bool gguf_out_end(GgufOut *o, bool is_complete);

#endif
