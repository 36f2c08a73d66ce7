// SPDX-License-Identifier: Apache-2.0
// The importer of GGUF files, for compiler/job/file.c.
#ifndef COMPILER_IMPORT_GGUF_GGUF_MODEL_H
#define COMPILER_IMPORT_GGUF_GGUF_MODEL_H

#include "compiler/import/gguf/gguf.h"
#include "compiler/import/llm/llm.h"

typedef struct GgufSource {
    const char *name; // for messages, and where other parts of the file are
    const void *data; // must live as long as the graph
    size_t len;
    LlmOptions options;
} GgufSource;

// A tensor as products take it; of unknown types is_known is false.
void gguf_describe(Arena *a, const GgufTensor *t, LlmTensor *out);
// An adapter in a GGUF file, for compiler/job/adapters.c: all but its parameter. False: reported.
bool gguf_adapter(Arena *a, Diag *d, const char *path, LlmAdapter *out);

bool import_gguf(Arena *a, Diag *d, const GgufSource *source, Graph **out);

#endif
