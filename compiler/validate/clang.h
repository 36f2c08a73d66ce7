// SPDX-License-Identifier: Apache-2.0
// libclang's C interface, as far as validation uses it, and the library, which is loaded when it is needed.
// Declared here instead of included, so that building rlxc needs no headers of LLVM: this part of the
// interface has not changed for years.
#ifndef COMPILER_VALIDATE_CLANG_H
#define COMPILER_VALIDATE_CLANG_H

#include "base/arena.h"
#include <stdbool.h>

typedef struct ClangString {
    const void *data;
    unsigned flags;
} ClangString;

typedef struct ClangCursor {
    int kind, xdata;
    const void *data[3];
} ClangCursor;

typedef struct ClangType {
    int kind;
    void *data[2];
} ClangType;

typedef struct ClangLocation {
    const void *ptr[2];
    unsigned offset;
} ClangLocation;

typedef struct ClangRange {
    const void *ptr[2];
    unsigned begin, end;
} ClangRange;

typedef struct ClangUnsaved {
    const char *name, *text;
    unsigned long len;
} ClangUnsaved;

// Kinds of cursors.
enum {
    CLANG_FIELD = 6,
    CLANG_ENUM_CONSTANT = 7,
    CLANG_FUNCTION = 8,
    CLANG_VAR = 9,
    CLANG_PARM = 10,
    CLANG_TYPE_REF = 43,
    CLANG_UNEXPOSED_EXPR = 100,
    CLANG_REF = 101,
    CLANG_MEMBER = 102,
    CLANG_CALL = 103,
    CLANG_INTEGER = 106,
    CLANG_CHARACTER = 110,
    CLANG_PAREN = 111,
    CLANG_UNARY = 112,
    CLANG_INDEX = 113,
    CLANG_BINARY = 114,
    CLANG_COMPOUND_ASSIGN = 115,
    CLANG_CONDITIONAL = 116,
    CLANG_CAST = 117,
    CLANG_SIZEOF = 136,
    CLANG_LABEL = 201,
    CLANG_COMPOUND = 202,
    CLANG_SWITCH = 206,
    CLANG_WHILE = 207,
    CLANG_DO = 208,
    CLANG_FOR = 209,
    CLANG_GOTO = 210,
    CLANG_INDIRECT_GOTO = 211,
    CLANG_CONTINUE = 212,
    CLANG_ASM = 215,
    CLANG_FIRST_ATTRIBUTE = 400,
    CLANG_LAST_ATTRIBUTE = 499,
};
// Kinds of types, storage classes, what a visitor says.
enum {
    CLANG_TYPE_BOOL = 3, // the first integer; those without a sign end at UINT128
    CLANG_TYPE_UINT128 = 12,
    CLANG_TYPE_INT128 = 20,
    CLANG_TYPE_POINTER = 101,
    CLANG_TYPE_ENUM = 106,
    CLANG_TYPE_CONSTANT_ARRAY = 112,
    CLANG_TYPE_VECTOR = 113,
};
enum { CLANG_STORAGE_NONE = 1, CLANG_STORAGE_EXTERN = 2, CLANG_STORAGE_STATIC = 3 };
enum { CLANG_VISIT_CONTINUE = 1 };

typedef int (*ClangVisitor)(ClangCursor cursor, ClangCursor parent, void *data);

// The functions of libclang, in the order of `names` in clang.c.
typedef struct Clang {
    void *(*create_index)(int exclude, int display);
    void (*dispose_index)(void *index);
    int (*parse)(void *index, const char *file, const char *const *args, int n_args, ClangUnsaved *unsaved,
                 unsigned n_unsaved, unsigned options, void **unit);
    void (*dispose_unit)(void *unit);
    unsigned (*count_diagnostics)(void *unit);
    void *(*diagnostic)(void *unit, unsigned i);
    ClangString (*format_diagnostic)(void *diagnostic, unsigned options);
    ClangString (*version)(void);
    const char *(*text)(ClangString s);
    void (*dispose_string)(ClangString s);
    ClangCursor (*unit_cursor)(void *unit);
    unsigned (*visit)(ClangCursor parent, ClangVisitor fn, void *data);
    ClangString (*spelling)(ClangCursor c);
    ClangCursor (*referenced)(ClangCursor c);
    ClangCursor (*canonical)(ClangCursor c);
    ClangCursor (*parent)(ClangCursor c);
    ClangType (*type)(ClangCursor c);
    ClangType (*canonical_type)(ClangType t);
    ClangType (*element_type)(ClangType t);
    ClangType (*pointee)(ClangType t);
    ClangString (*type_spelling)(ClangType t);
    unsigned (*is_const)(ClangType t);
    long long (*size_of)(ClangType t);
    int (*storage)(ClangCursor c);
    unsigned (*is_definition)(ClangCursor c);
    unsigned (*is_inlined)(ClangCursor c);
    ClangRange (*extent)(ClangCursor c);
    ClangLocation (*range_start)(ClangRange r);
    ClangLocation (*range_end)(ClangRange r);
    void (*file_location)(ClangLocation l, void **file, unsigned *line, unsigned *column, unsigned *offset);
    ClangString (*file_name)(void *file);
} Clang;

// The library: that of $RLXC_LIBCLANG alone where it is set, else the system's. NULL: there is none, or it
// lacks a function.
const Clang *clang_load(Arena *a);
// A copy; the string is disposed of.
const char *clang_take(const Clang *c, Arena *a, ClangString s);

#endif
