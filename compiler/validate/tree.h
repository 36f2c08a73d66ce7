// SPDX-License-Identifier: Apache-2.0
// The parsed C as the rules see it: declarations, and a small tree of each function's body without
// parentheses and conversions. After it is made, nothing asks libclang.
#ifndef COMPILER_VALIDATE_TREE_H
#define COMPILER_VALIDATE_TREE_H

#include "base/map.h"
#include "base/vec.h"
#include "compiler/validate/clang.h"
#include "compiler/validate/validate.h"

typedef enum DeclKind { DECL_FUNCTION, DECL_VAR, DECL_PARM, DECL_FIELD, DECL_OTHER } DeclKind;
typedef enum Inlining { INLINE_MAYBE, INLINE_ALWAYS, INLINE_NEVER } Inlining;

struct Function;

typedef struct Decl {
    DeclKind kind;
    const char *name;
    const char *owner; // of a field: its struct; of a static variable: its function
    const char *type;  // canonical spelling; of a pointer to a function that of the function
    uint64_t bytes;
    bool is_const, is_integer, is_unsigned, is_pointer, is_enum_constant;
    bool is_static, is_extern; // storage
    bool is_global;            // outside of functions
    bool is_standard;          // from a header of symbols.def
    bool is_builtin;           // the compiler's own
    uint32_t n_refs, n_calls;  // of a function: places that name it, and those among them that call it
    struct Function *function; // that is defined; or NULL
    uint32_t line;
    const char *file;
} Decl;

typedef struct Node {
    int kind;     // CLANG_...
    char op[4];   // of unary, binary and compound assignments; "" where a macro hides it
    bool is_const; // an lvalue that is const
    uint32_t line, begin, end; // byte offsets in its file
    uint32_t file;
    uint32_t call;     // of a call: 1 + index in Function.calls
    int64_t value;     // of an integer that is spelled out; -1: not known
    Decl *decl;        // of a reference, a member, a declaration
    struct Node *parent, *child, *next;
} Node;

typedef struct Call {
    Decl *to; // a function; a field, variable or parameter that points to one; NULL: something else
    Node *node;
    bool is_pointer;
} Call;

typedef struct Function {
    Decl *decl;
    Node *body;
    VEC(Decl *) locals; // parameters too
    VEC(Call) calls;
    VEC(Node *) loops, jumps;
    VEC(Node *) changes; // assignments, ++, --, & of something, asm
    uint32_t n_asm;
    uint64_t vector_bytes; // of the results of expressions that are vectors
    bool is_external, is_in_header;
    Inlining inlining;
    // What rules_check_calls needs:
    int state; // 0: not visited, 1: being visited, 2: done
    uint64_t merged, rest; // bytes of variables, with those of what may be inlined; what else it needs
    struct Function *deepest;     // which of them
    uint32_t mark;                // of searches through calls
} Function;

typedef struct TreeFile {
    void *handle;
    const char *name, *text;
    size_t len;
    bool is_ours; // not of symbols.def
} TreeFile;

typedef struct Tree {
    Arena *arena;
    const Clang *clang;
    const ClangUnsaved *unsaved;
    uint32_t n_unsaved;
    VEC(TreeFile) files;
    VEC(Decl *) globals;
    VEC(Function *) functions; // defined ones
    Map decls;
    Map macros; // what stands behind the name of each, in the texts of unsaved files
    uint32_t n_global_asm;
} Tree;

// Names of the folders in which files are shown to libclang; nothing has to be there.
#define VALIDATE_FOLDER  "/rlxc/"
#define VALIDATE_HEADERS "/rlxc/standard"

void tree_build(Tree *t, void *unit);
// What stands behind the name of the macro at this place of the file; NULL: no macro in capital letters.
const char *tree_macro(const Tree *t, const TreeFile *f, size_t at);
// The node without casts (and what does not exist in the tree: parentheses, implicit conversions).
Node *node_plain(Node *n);
// Is a inside of (or the same as) b?
bool node_is_inside(const Node *a, const Node *b);

#endif
