// SPDX-License-Identifier: Apache-2.0
// Weights in several .safetensors files, and the index that says which tensor is in which.
#ifndef COMPILER_IMPORT_TENSORS_SHARDS_H
#define COMPILER_IMPORT_TENSORS_SHARDS_H

#include "base/diag.h"
#include "base/map.h"

// True for the name of such an index: NAME.safetensors.index.json.
bool shards_is_index(const char *name);
// The path of the file that holds the tensor. indexes: those that were read so far, by path. NULL: reported.
const char *shards_find(Arena *a, Diag *d, Span where, const char *index, const char *tensor, Map *indexes);

#endif
