// SPDX-License-Identifier: Apache-2.0
// Model files to graphs, and graphs back to JSON. The one header that the rest of the compiler needs from the
// importers; each format has files of its own behind it.
#ifndef COMPILER_IMPORT_IMPORT_H
#define COMPILER_IMPORT_IMPORT_H

#include "compiler/import/llm/llm.h"
#include "ir/graph/graph.h"
#include "ir/graph/tensor.h"

// Reads a model. The content decides: JSON starts with '{' after white space, IR text with the word `graph`
// (after comments), .rlxb, .tflite and GGUF with their magic bytes, anything else is ONNX. Spans of JSON and
// IR text point into the file, which stays registered in d. Weights in files are mapped, not copied, and stay
// mapped until the program ends. Sizes that symbols take when the user gives none ("default" in JSON) are in
// Symbol.dflt of the graph's dims.
bool import_model(Arena *a, Diag *d, const char *path, Graph **out);

// JSON has numbers among operands. Is one at operand `at` an index, an i64 whatever else the op reads?
bool json_is_index(OpId op, uint32_t at);

// Sizes that an ONNX model leaves open can be anything up to this, unless the user says more: no size that
// memory could be planned for.
#define IMPORT_OPEN_MAX (INT64_C(1) << 20)

// A number for a symbolic size, or that it is set between runs, within a range, as --dim gives it.
typedef struct ImportSize {
    const char *name; // of a symbol; "input0_dim2": axis 2 of input 0
    int64_t value;    // of a range the largest
    int64_t min;
    bool is_range;  // set between runs
    bool is_open;   // the same, within the range that the symbol has
    bool keeps_min; // of a range: from the smallest size that the symbol has
    const char *is; // an expression over other symbols ("P + T"), which stands for the symbol; NULL: none.
                    // With is_range and is_open
} ImportSize;

// All sizes of an input.
typedef struct ImportShape {
    const char *name;
    uint32_t rank;
    int64_t dim[SHAPE_MAX_RANK];
    const char *origin; // for messages: an option, a file
    bool is_firm;       // contradicting the model is an error; else whoever reads the input finds that out
} ImportShape;

// What an input is in the runs to come. It counts where it decides about the graph (a shape, the branch of an
// If); the graph then has a check that it is so.
typedef struct ImportValue {
    const char *name;
    Tensor value;
    bool is_list;     // numbers (i64 or f64) whose type and shape are the input's
    bool is_optional; // no error when there is no such input, or when it has another size
} ImportValue;

typedef struct ImportOptions {
    const ImportSize *sizes;
    uint32_t n_sizes;
    const ImportShape *shapes;
    uint32_t n_shapes;
    const ImportValue *values;
    uint32_t n_values;
    bool has_all_inputs;              // the shapes are those of all inputs that a run will have
    uint32_t string_bytes;            // room for every string of an input; 0: 64
    const struct CustomDecls *custom; // operators that the user declares; NULL: none
    const char *signature;            // of .tflite and folders: which part to import; NULL: the first
    bool rounds_twice; // of .tflite: quantised products are rounded as TFLite's built-in kernels do it
    LlmOptions llm;    // of language models
    bool has_cpu;      // of ONNX: layers whose loops of products are faster on CPUs stay loops
    bool trusts_data;  // of .rlxb: the checksums of tensors are not compared, so their bytes not read
} ImportOptions;

// Like import_model, with what is known of sizes and inputs: ONNX models that compute with sizes as data need
// it here (see onnx.h). Symbols that are still in the graph have known sizes as their defaults.
bool import_model_with(Arena *a, Diag *d, const char *path, const ImportOptions *options, Graph **out);

// file: id from diag_add_file, whose text is parsed. dir: folder for relative weight files ("" = current).
bool import_json(Arena *a, Diag *d, uint32_t file, const char *dir, Graph **out);

// Reads a file of declarations of custom ops, {"custom": [...]}. False: reported.
bool import_custom(Arena *a, Diag *d, const char *path, const struct CustomDecls **out);

// name: for messages. data must live as long as the graph. dir: folder of external tensor data.
bool import_onnx(Arena *a, Diag *d, const char *name, const void *data, size_t len, const char *dir,
                 Graph **out);

// Writes the graph as JSON: one node a line, constants of up to 16 elements in the text, longer ones in
// NAME.safetensors beside NAME.json. Both files appear complete or not at all.
bool import_export_json(const Graph *g, const char *json_path, Diag *d);

// Writes the graph as .rlxb or .onnx, or as JSON where the path does not end so.
bool import_export(const Graph *g, const char *path, Diag *d);

// The JSON as one text, with all constants in it.
void import_print_json(const Graph *g, Str *out);

#endif
