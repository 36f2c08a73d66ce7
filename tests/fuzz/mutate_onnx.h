// SPDX-License-Identifier: Apache-2.0
// What the files of the mutator of ONNX models share. All that is made lies in the arena of the edit.
#ifndef TESTS_FUZZ_MUTATE_ONNX_H
#define TESTS_FUZZ_MUTATE_ONNX_H

#include "onnx.pb-c.h"
#include "tests/fuzz/fuzz.h"

typedef struct Edit {
    Arena *arena;
    Onnx__ModelProto *model;
    Onnx__GraphProto *graph; // what is changed: the model's, or one inside of it
    const Bytes *seeds;
    size_t n_seeds;
    VEC(Onnx__GraphProto *) graphs; // all of the model
    VEC(const char *) names;        // of all values in them
} Edit;

// The model that the bytes hold, or NULL.
Onnx__ModelProto *edit_read(Arena *a, const Bytes *in);

ProtobufCAllocator edit_allocator(Arena *a);

// --- lists of protobuf-c: a copy with a gap of one item at `at`, and one without the item there ---

void *list_open(Arena *a, const void *list, size_t n, size_t size, size_t at);
void list_cut(void *list, size_t *n, size_t size, size_t at);
#define LIST_PUT(e, list, n, item)                                                                           \
    ((list) = list_open((e)->arena, (list), (n), sizeof *(list), (n)), (list)[(n)++] = (item))
#define LIST_CUT(list, n, at) list_cut((list), &(n), sizeof *(list), (at))

// --- picks; NULL where there is nothing to pick ---

Onnx__NodeProto *edit_node(Edit *e);
// A name of a value, at times one that there is none of.
char *edit_name(Edit *e);
char *edit_new_name(Edit *e, const char *kind);
int64_t edit_number(void);

// --- changes ---

typedef void (*EditStep)(Edit *e);

// Attributes, types, shapes and values (mutate_onnx_parts.c).
void edit_attribute(Edit *e);
void edit_add_attribute(Edit *e);
void edit_cut_attribute(Edit *e);
void edit_rename_attribute(Edit *e);
void edit_value_type(Edit *e);
void edit_value_shape(Edit *e);
void edit_tensor(Edit *e);
void edit_initializer_to_input(Edit *e);
Onnx__AttributeProto *edit_make_attribute(Edit *e, const char *name);
// A declaration of a tensor without a shape.
Onnx__ValueInfoProto *edit_make_value(Edit *e, char *name, int32_t type);
Onnx__TensorProto *edit_make_tensor(Edit *e, int32_t type, size_t n_dims, const int64_t *dims);

// Sub-graphs and functions (mutate_onnx_nest.c).
void edit_wrap_if(Edit *e);
void edit_wrap_loop(Edit *e);
void edit_wrap_function(Edit *e);
void edit_inline(Edit *e);

#endif
