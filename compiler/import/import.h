// SPDX-License-Identifier: Apache-2.0
// Model files to graphs, and graphs back to JSON. The one header that the rest of the compiler needs from the
// importers; each format has files of its own behind it.
#ifndef COMPILER_IMPORT_IMPORT_H
#define COMPILER_IMPORT_IMPORT_H

#include "ir/graph.h"

// Reads a model. The content decides: JSON starts with '{' after white space, IR text with the word `graph`
// (after comments), anything else is ONNX. Spans of JSON and IR text point into the file, which stays
// registered in d. Weights in files are mapped, not copied, and stay mapped until the program ends. Sizes
// that symbols take when the user gives none ("default" in JSON) are in Symbol.dflt of the graph's dims.
bool import_model(Arena *a, Diag *d, const char *path, Graph **out);

// A number for a symbolic size, as --dim gives it.
typedef struct ImportSize {
    const char *name; // of a symbol
    int64_t value;
} ImportSize;

// What the user says about a model beyond the file.
typedef struct ImportOptions {
    const ImportSize *sizes;
    uint32_t n_sizes;
    uint32_t string_bytes; // room for every string of an input; 0: 64
} ImportOptions;

// The same with numbers for sizes: ONNX models that compute with sizes as data need them here (see onnx.h);
// for the others binding the graph later is enough, and the sizes are ignored.
bool import_model_sized(Arena *a, Diag *d, const char *path, const ImportOptions *o, Graph **out);

// file: id from diag_add_file, whose text is parsed. dir: folder for relative weight files ("" = current).
bool import_json(Arena *a, Diag *d, uint32_t file, const char *dir, Graph **out);

// name: for messages. data must live as long as the graph. dir: folder of external tensor data.
bool import_onnx(Arena *a, Diag *d, const char *name, const void *data, size_t len, const char *dir,
                 Graph **out);

// Writes the graph as JSON: one node a line, constants of up to 16 elements in the text, longer ones in
// NAME.safetensors beside NAME.json. Both files appear complete or not at all.
bool import_export_json(const Graph *g, const char *json_path, Diag *d);

// The same as one text, with all constants in it.
void import_print_json(const Graph *g, Str *out);

#endif
