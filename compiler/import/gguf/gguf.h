// SPDX-License-Identifier: Apache-2.0
// GGUF files of versions 2 and 3: metadata by key, and tensors whose bytes stay where they lie in the file.
// Files in parts (NAME-00001-of-00003.gguf) are read as one. Separate from the models that such files hold.
#ifndef COMPILER_IMPORT_GGUF_GGUF_H
#define COMPILER_IMPORT_GGUF_GGUF_H

#include "base/diag.h"
#include "base/map.h"
#include "ir/graph/graph.h"

// Types of metadata; the rows of gguf_values.def, not the numbers of the file.
typedef enum GgufValue {
#define GGUF_VALUE(name, number, bytes, class) GGUF_##name,
#include "compiler/import/gguf/gguf_values.def"
    GGUF_VALUE_COUNT
} GgufValue;

// The name of a type, as in "u32".
const char *gguf_value_name(GgufValue type);

// Bytes that may be any, zeros among them; nothing ends them.
typedef struct GgufText {
    const char *data;
    size_t len;
} GgufText;

typedef struct GgufArray {
    GgufValue type;
    uint64_t n;
    const uint8_t *data;  // of element 0
    const GgufText *text; // of strings: each of them; else NULL
} GgufArray;

typedef struct GgufEntry {
    const char *key;
    const uint8_t *raw; // key, type and value as they lie in the file
    size_t raw_len;
    GgufValue type;
    const uint8_t *data; // of a scalar
    GgufText text;       // of a string
    GgufArray array;     // of an array
} GgufEntry;

enum { GGUF_MAX_RANK = 4 };

// A row of gguf_types.def.
typedef struct GgufType {
    const char *name;
    uint32_t number;
    uint32_t elements, bytes; // of a block; 1 element: no blocks
    DType dtype;              // of types without blocks
    const char *format;       // of ir/graph/blocks.def; NULL: no blocks, or rlxc lacks the format
} GgufType;

typedef struct GgufTensor {
    const char *name;
    uint32_t rank;
    uint64_t dim[GGUF_MAX_RANK]; // innermost first, as the file has them; 1 beyond the rank
    uint32_t number;             // of the type
    const GgufType *type;        // NULL: no type of this number is known
    uint64_t bytes;              // 0: unknown
    const uint8_t *data;
    uint32_t part; // whose file it is in
} GgufTensor;

typedef struct GgufPart {
    const char *path;
    const uint8_t *data;
    size_t len;
    uint32_t version, alignment;
    Span span; // for messages
} GgufPart;

typedef struct GgufFile {
    Arena *arena;
    Diag *diag;
    VEC(GgufPart) parts;
    VEC(GgufEntry) entries; // of the first part
    VEC(GgufTensor) tensors;
    Map entry_index, tensor_index; // by key and name
} GgufFile;

// Do the bytes begin as a GGUF file does?
bool gguf_is(const void *data, size_t len);
// Maps the file, and those of its other parts, and checks all of their headers. False: reported.
bool gguf_open(Arena *a, Diag *d, const char *path, GgufFile *out);
// Like gguf_open, for bytes in memory, which must live as long as the result; other parts are beside `path`.
bool gguf_read(Arena *a, Diag *d, const char *path, const void *data, size_t len, GgufFile *out);

// --- metadata: false or NULL where there is no such key, or its value is of another kind ---

const GgufEntry *gguf_find(const GgufFile *f, const char *key);
// A copy that ends with a zero byte; NULL also where a zero byte is among its own.
const char *gguf_string(const GgufFile *f, const char *key);
bool gguf_text(const GgufFile *f, const char *key, GgufText *out);
// An integer of any type that is not negative.
bool gguf_uint(const GgufFile *f, const char *key, uint64_t *out);
// A number of any type.
bool gguf_float(const GgufFile *f, const char *key, double *out);
bool gguf_bool(const GgufFile *f, const char *key, bool *out);
// An array of scalars or strings. Arrays of arrays are checked and otherwise passed over.
bool gguf_array(const GgufFile *f, const char *key, GgufArray *out);
// Element i, which must be there. Integers of u64 beyond those of i64 saturate; floats are truncated.
int64_t gguf_array_int(const GgufArray *a, uint64_t i);
double gguf_array_float(const GgufArray *a, uint64_t i);

// --- tensors ---

// NULL: there is none of that name.
const GgufTensor *gguf_tensor(const GgufFile *f, const char *name);
// NULL: no type has this number.
const GgufType *gguf_type(uint32_t number);

#endif
