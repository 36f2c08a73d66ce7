// SPDX-License-Identifier: Apache-2.0
// What the files of the JSON importer share: the document, places in it, and how a wrong place is reported.
// Internal to compiler/import/json*.c.
#ifndef COMPILER_IMPORT_JSON_JSON_READER_H
#define COMPILER_IMPORT_JSON_JSON_READER_H

#include "compiler/system/json_scan.h"
#include "compiler/import/tensors/safetensors.h"
#include "ir/graph/tensor.h"

typedef struct JsonReader {
    Arena *arena;
    Diag *diag;
    uint32_t file; // in diag
    const char *text;
    size_t len;
    const char *dir; // of weight files
    DimTable *dims;
    DimParse symbols;          // DIM_KNOWN_ONLY when the model lists its symbols
    Map weight_files;          // path to index in opened
    Map indexes; // of .safetensors files (shards.h)
    VEC(SafeTensors *) opened; // NULL: could not be read
    Str path;                  // for one path at a time
    struct CustomDecls *custom; // declared so far
} JsonReader;

// One value and the way to it. Places stand on the C stack, each pointing to that of the object or list
// around it.
typedef struct JsonPlace {
    const struct JsonPlace *up; // NULL: the whole document
    const cJSON *item;          // NULL: an absent member
    uint32_t index;             // of the item among the children of up
    JsonRange range;            // {0, 0} until known
} JsonPlace;

Span json_span(JsonReader *r, const JsonPlace *p);
// Reports at p. False.
bool json_error(JsonReader *r, const JsonPlace *p, DiagCode code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// "expected WHAT, found the string "x"". False.
bool json_wrong(JsonReader *r, const JsonPlace *p, const char *expected);
// True when so many errors were reported that more would not be printed.
bool json_is_hopeless(JsonReader *r);
// "; did you mean 'x'?" or "".
const char *json_hint(JsonReader *r, const char *name, const char *const *candidates, uint32_t n);

// Iterates over the children of p, which is an object or list: first with child->item NULL, then with the
// last one. False at the end.
bool json_next(const JsonPlace *p, JsonPlace *child);
// The places of all children of p at once, where each will need its own; NULL when it has none.
const JsonRange *json_ranges(JsonReader *r, const JsonPlace *p);

typedef struct JsonMember {
    const char *name;
    bool is_required;
    JsonPlace place; // out; item NULL when absent
} JsonMember;

// Finds the members of the object p. Others, missing ones and repeated ones are errors with the code; owner
// ("a weight") says in them whose members these are.
bool json_members(JsonReader *r, const JsonPlace *p, const char *owner, DiagCode code, JsonMember *m,
                  uint32_t n);

// --- values (json_values.c) --------------------------------------------------

bool json_list(JsonReader *r, const JsonPlace *p, const char *expected, uint32_t *len);
// Checks that the text can name something: not empty, not too long, no control characters.
bool json_name(JsonReader *r, const JsonPlace *p, const char *name);
bool json_string(JsonReader *r, const JsonPlace *p, const char *expected, const char **out);
bool json_bool(JsonReader *r, const JsonPlace *p, bool *out);
bool json_float(JsonReader *r, const JsonPlace *p, double *out);
bool json_int(JsonReader *r, const JsonPlace *p, const char *expected, int64_t *out);
bool json_dtype(JsonReader *r, const JsonPlace *p, DType *out);
bool json_ints(JsonReader *r, const JsonPlace *p, int64_t **out, uint32_t *n);
// Sizes for an attribute: numbers (any, also negative), and expressions over known symbols.
bool json_dims(JsonReader *r, const JsonPlace *p, Dim **out, uint32_t *n);
// The shape of a leaf: sizes from 0; new symbols as r->symbols says.
bool json_shape(JsonReader *r, const JsonPlace *p, Shape *out);
// One element for a tensor of t->dtype, stored at index i.
bool json_element(JsonReader *r, const JsonPlace *p, Tensor *t, int64_t i);

// --- tensors (json_data.c) --------------------------------------------------

typedef struct JsonTensor {
    DType dtype;
    Shape shape;
    bool has_values;
    const void *data; // when has_values
    uint64_t bytes;
} JsonTensor;

// An entry of weights, params or states. next is set for states (which need it) and may be NULL.
typedef enum JsonRole { JSON_INPUT, JSON_WEIGHT, JSON_PARAM, JSON_STATE } JsonRole;
bool json_tensor(JsonReader *r, const JsonPlace *p, JsonRole role, JsonTensor *out, JsonPlace *next);

// --- graphs (json_graph.c, json_node.c) --------------------------------------------------

typedef struct JsonValue {
    const char *name; // in the tree
    NodeId id;        // 0: wrong, which was reported
    JsonRange range;
} JsonValue;

typedef struct JsonPending { // the next of a state
    NodeId state;
    JsonPlace owner, next; // next.up is to be owner
} JsonPending;

// One graph under construction, with its own names.
typedef struct JsonScope {
    JsonReader *r;
    Graph *g;
    uint32_t depth; // 0: the model
    Map names;      // to indices in values
    VEC(JsonValue)
    values;
    VEC(JsonPending)
    pending;
} JsonScope;

// Gives a value its name. p: where the name stands or the thing that it names.
void json_define(JsonScope *s, const JsonPlace *p, const char *name, NodeId id);
// The value that p names; 0 for one that is wrong, which was reported (then *out is 0 and the result true).
// later: the list of nodes that are still to come, for a better message; may be NULL.
bool json_value(JsonScope *s, const JsonPlace *p, const cJSON *later, NodeId *out);
// The sections of a graph, each of which may be absent (item NULL) but the outputs. They report on their own.
void json_leaves(JsonScope *s, const JsonPlace *section, JsonRole role);
void json_nodes(JsonScope *s, const JsonPlace *section);
void json_next_values(JsonScope *s); // of the states; after the nodes
void json_outputs(JsonScope *s, const JsonPlace *section);
void json_checks(JsonScope *s, const JsonPlace *section);
void json_extents(JsonScope *s, const JsonPlace *section);
bool json_subgraph(JsonScope *parent, const JsonPlace *p, Graph **out);

#endif
