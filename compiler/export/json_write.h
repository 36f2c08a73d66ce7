// SPDX-License-Identifier: Apache-2.0
// Values of a graph as JSON text: what the writer of whole models (json.c) puts together. Internal to
// compiler/export.
#ifndef COMPILER_EXPORT_JSON_WRITE_H
#define COMPILER_EXPORT_JSON_WRITE_H

#include "ir/graph/tensor.h"

// Element i of t; a number, true, false, or a string where JSON has no such number.
void json_write_element(Str *out, const Tensor *t, int64_t i);
// True when the elements read back from json_write_element have the same bits: NaNs lose theirs.
bool json_keeps_bits(const Tensor *t);
void json_write_float(Str *out, double v);
// ["batch", 8]
void json_write_dims(Str *out, const DimTable *dims, const Dim *d, uint64_t n);
void json_write_ints(Str *out, const int64_t *v, uint64_t n);

// A name that docs/FORMAT.md allows, from any text: no control characters, not too long, not empty.
const char *json_clean_name(Arena *a, const char *name);
// The name, or it with a number behind, so that it is in `used` for the first time.
const char *json_unique_name(Arena *a, Map *used, const char *name);

#endif
