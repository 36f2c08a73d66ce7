// SPDX-License-Identifier: Apache-2.0
// Which type each tensor of a file gets. Separate from writing them: these are choices, rows of quantize.def.
#ifndef COMPILER_QUANTIZE_MIX_H
#define COMPILER_QUANTIZE_MIX_H

#include "compiler/import/gguf/gguf.h"

typedef struct QuantizeMix {
    const char *name;
    uint32_t file_type;                  // of general.file_type
    const char *plain, *better, *output; // types of gguf_types.def
} QuantizeMix;

// NULL: there is none of that name.
const QuantizeMix *quantize_mix(const char *name);
// All names, for messages.
const char *quantize_mix_names(Arena *a);
// The type that a tensor gets; its own where it stays as it is: vectors, norms, routers and whatever is no
// weight of a product.
const GgufType *quantize_type(const QuantizeMix *mix, const GgufFile *f, const GgufTensor *t);

#endif
