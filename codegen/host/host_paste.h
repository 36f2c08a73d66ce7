// SPDX-License-Identifier: Apache-2.0
// Pieces of runtime-lite as text.
#ifndef CODEGEN_HOST_HOST_PASTE_H
#define CODEGEN_HOST_HOST_PASTE_H

#include "base/map.h"
#include "base/str.h"
#include "codegen/host/runtime_text.h"

// What is wanted: the public calls of these parts, and whatever the texts name.
typedef struct PasteWish {
    uint32_t has;      // HAS_...: lines for anything else are left out
    const bool *parts; // by part
    const char *const *texts; // C
    uint32_t n_texts;
} PasteWish;

// These pieces and those that they use, in the order of the parts.
void host_paste_pieces(Arena *a, const PasteWish *w, Str *out);
// A whole part with its guard, as it is for any model; without the lines that begin with `skip` (or NULL).
void host_paste_part(uint32_t part, uint32_t has, const char *skip, Str *out);

#endif
