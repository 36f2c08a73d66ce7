// SPDX-License-Identifier: Apache-2.0
// A .tflite model as structures: operator codes, sub-graphs with their tensors, signatures. Field numbers of
// the schema are in tfl_file.c only. Sub-graphs are read when they are needed.
#ifndef COMPILER_IMPORT_TFLITE_TFL_FILE_H
#define COMPILER_IMPORT_TFLITE_TFL_FILE_H

#include "compiler/import/tflite/flat.h"
#include "ir/graph/graph.h"

// Element types as the schema numbers them, where the importer names them.
enum { TFL_STRING = 5, TFL_COMPLEX64 = 8, TFL_I4 = 17, TFL_RESOURCE = 13, TFL_I2 = 19, TFL_U4 = 20 };

typedef struct TflTensor {
    const char *name;
    int32_t type; // as the schema numbers it
    bool has_dtype;
    DType dtype;   // in graphs: bytes where the file packs two in one
    Shape shape;   // numbers
    uint32_t open; // a bit for each axis that the file leaves open
    bool is_variable;
    FlatTable sparse; // how its values lie, where not all are in the file
    const void *data; // NULL: no constant
    uint64_t bytes;
    FlatList scale, zero; // one entry, or one for each of axis `axis`
    uint32_t axis;
} TflTensor;

typedef struct TflGraph {
    FlatTable table;
    const char *name;
    TflTensor *tensors;
    uint32_t n_tensors;
    FlatList inputs, outputs, operators;
} TflGraph;

typedef struct TflName {
    const char *name;
    uint32_t tensor;
} TflName;

// A signature: names for the inputs and outputs of a sub-graph.
typedef struct TflSignature {
    const char *key;
    uint32_t graph, n_inputs, n_outputs;
    TflName *inputs, *outputs;
} TflSignature;

typedef struct TflFile {
    Arena *arena;
    FlatFile flat;
    FlatTable root;
    FlatList codes, graphs, buffers, signatures, metadata;
    TflGraph **read; // by sub-graph, NULL: not yet
} TflFile;

// False: f->flat.broken says why.
bool tfl_file_open(TflFile *f, Arena *a, const void *data, size_t len);
// NULL: there is none, or it is broken (f->flat.broken).
const TflGraph *tfl_file_graph(TflFile *f, int64_t index);
// The number of the operator with this code, and the name of a custom one ("" of others). False: no such
// code.
bool tfl_file_code(TflFile *f, int64_t index, int32_t *code, const char **custom);
TflSignature tfl_file_signature(TflFile *f, uint32_t index);
// "FLOAT32"
const char *tfl_type_name(int32_t type);

#endif
