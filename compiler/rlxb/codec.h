// SPDX-License-Identifier: Apache-2.0
// What .rlxb files are made of (docs/FORMAT.md): numbers, texts, sizes and tensors, each in one function for
// reading and writing, so that what stands in a file is said once. A function takes the value to write and
// gives it back; where it reads, it gives what it read. After a failure nothing more is read: all is 0.
// Internal to compiler/rlxb.
#ifndef COMPILER_RLXB_CODEC_H
#define COMPILER_RLXB_CODEC_H

#include "ir/graph/tensor.h"

enum { RLXB_HEADER = 64, RLXB_ALIGN = 64, RLXB_VERSION = 1, RLXB_HASHED = 48 };

// Bytes of the file that constants, params and states begin with.
typedef struct RlxbTensor {
    uint64_t offset, bytes, hash;
    const void *data;
} RlxbTensor;

typedef struct Codec {
    Arena *arena;
    Diag *diag;
    bool is_writing, has_failed;
    const DimTable *table; // of the graph, for both
    VEC(const char *) strings;
    VEC(RlxbTensor) tensors;
    VEC(Dim) dims; // that are no constants
    // Writing: where, and what has an index already.
    Str out;
    Map string_index, tensor_index, dim_index;
    // Reading.
    DimTable *dim_table;
    const char *path;
    uint32_t file; // for messages
    const unsigned char *data;
    size_t at, end; // of the graph section; len: of the file
    size_t len;
} Codec;

// Little-endian on every machine.
uint64_t rlxb_get(const unsigned char *p, uint32_t n_bytes);
void rlxb_put(Str *out, uint64_t v, uint32_t n_bytes);

// Reports what is wrong with the file that is read; false.
bool codec_fail(Codec *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

uint32_t codec_u32(Codec *c, uint32_t v);
int64_t codec_i64(Codec *c, int64_t v);
// Less than `limit`.
uint32_t codec_enum(Codec *c, uint32_t v, uint32_t limit, const char *what);
// How many follow, each of at least `least` bytes: never more than the file can hold.
uint32_t codec_count(Codec *c, uint32_t n, uint32_t least);
const char *codec_str(Codec *c, const char *s);      // never NULL, also after a failure
const char *codec_optional(Codec *c, const char *s); // or NULL
Dim codec_dim(Codec *c, Dim d);
DType codec_dtype(Codec *c, DType t);
// The tensor with these bytes; len 0: none.
void codec_tensor(Codec *c, const void **data, uint64_t *len);
// Reading: the tensor that codec_tensor gave.
const RlxbTensor *codec_find_tensor(const Codec *c, const void *data);

// The lists that stand in front of the graph. Writing: when all else was written.
void codec_strings(Codec *c);
void codec_tensors(Codec *c);
void codec_symbols(Codec *c);
void codec_dims(Codec *c);

// The model, in the file's order (graph.c). Reading: the graph, which stays NULL after a failure.
void codec_model(Codec *c, Graph **g);

#endif
