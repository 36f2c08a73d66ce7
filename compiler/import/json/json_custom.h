// SPDX-License-Identifier: Apache-2.0
// Declarations of custom ops in JSON (docs/CUSTOM.md), for the readers of models. Internal to the importers.
#ifndef COMPILER_IMPORT_JSON_JSON_CUSTOM_H
#define COMPILER_IMPORT_JSON_JSON_CUSTOM_H

#include "compiler/import/json/json_reader.h"
#include "ir/graph/custom.h"

// A declared constant, which a node may set.
typedef struct CustomAttr {
    const char *name;
    bool is_float, is_required;
    double number;
    int64_t whole;
} CustomAttr;

typedef struct CustomDecl {
    const char *name;
    uint32_t n_operands;
    AttrVal text[ATTR_COUNT]; // STR attributes of OP_custom by their id; of others id is ATTR_COUNT
    VEC(CustomAttr) attrs;
} CustomDecl;

typedef struct CustomDecls {
    VEC(CustomDecl *) list;
} CustomDecls;

// Reads the list `custom` of a document, and reports what is wrong with it.
void json_custom(JsonReader *r, const JsonPlace *section, CustomDecls *out);
// NULL: there is none of that name.
const CustomDecl *custom_decl_find(const CustomDecls *decls, const char *name);
// Gives a node under construction the attributes of the declaration; values: its constants, in the order of
// attrs.
void custom_decl_set(Arena *a, const CustomDecl *d, const CustomAttr *values, NodeBuild *b);

#endif
