// SPDX-License-Identifier: Apache-2.0
// A checked reader of flatbuffers, the form of .tflite files: tables with numbered fields, lists and texts,
// all found through offsets that nobody has checked. Reading needs no error paths: what does not fit marks
// the file as broken (the first reason is kept) and reads as if it were not there.
#ifndef COMPILER_IMPORT_TFLITE_FLAT_H
#define COMPILER_IMPORT_TFLITE_FLAT_H

#include "base/arena.h"

#include <stdbool.h>

typedef struct FlatFile {
    const uint8_t *data;
    size_t len;
    const char *broken; // what does not fit; NULL: nothing so far
    size_t broken_at;
    uint64_t entries; // of lists that were opened: many lists may share the same bytes, but not without limit
} FlatFile;

typedef struct FlatTable {
    FlatFile *file;
    size_t at;      // 0: there is no such table
    size_t fields;  // where the list of its fields stands
    uint32_t count; // of fields in that list
    uint32_t bytes; // of the table
} FlatTable;

typedef struct FlatList {
    FlatFile *file;
    size_t at; // of entry 0
    uint32_t n, size;
} FlatList;

// Integers, by their size and sign.
typedef enum FlatInt { FLAT_I8, FLAT_U8, FLAT_I16, FLAT_U16, FLAT_I32, FLAT_U32, FLAT_I64, FLAT_U64 } FlatInt;

FlatTable flat_root(FlatFile *f);
static inline bool flat_is(FlatTable t)
{
    return t.at != 0;
}
bool flat_has(FlatTable t, uint32_t field);
int64_t flat_int(FlatTable t, uint32_t field, FlatInt type, int64_t dflt);
double flat_f32(FlatTable t, uint32_t field, double dflt);
FlatTable flat_table(FlatTable t, uint32_t field);
// "" where there is none. Up to the first zero byte.
const char *flat_text(Arena *a, FlatTable t, uint32_t field);
// A list of entries of `size` bytes. No entries where there is none.
FlatList flat_list(FlatTable t, uint32_t field, uint32_t size);
int64_t flat_list_int(FlatList l, uint32_t i, FlatInt type);
double flat_list_f32(FlatList l, uint32_t i);
FlatTable flat_list_table(FlatList l, uint32_t i);
// The bytes of a list.
const void *flat_list_bytes(FlatList l);

#endif
