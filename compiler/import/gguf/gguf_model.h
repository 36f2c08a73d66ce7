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

bool import_gguf(Arena *a, Diag *d, const GgufSource *source, Graph **out);

#endif
