// SPDX-License-Identifier: Apache-2.0
// See tree.h.
#include "compiler/validate/tree.h"
#include <stdlib.h>
#include <string.h>

typedef struct Build {
    Tree *tree;
    Function *function; // NULL: outside of functions
    Node *parent, *last;
} Build;

// --- places --------------------------------------------------------------------------------------

static uint32_t find_file(Tree *t, void *handle)
{
    for (uint32_t i = 0; i < t->files.len; i++)
        if (t->files.data[i].handle == handle)
            return i;
    TreeFile f = {.handle = handle, .name = "", .text = ""};
    if (handle != NULL)
        f.name = clang_take(t->clang, t->arena, t->clang->file_name(handle));
    f.is_ours = handle != NULL && strncmp(f.name, VALIDATE_HEADERS, sizeof VALIDATE_HEADERS - 1) != 0;
    for (uint32_t i = 0; i < t->n_unsaved; i++)
        if (strcmp(t->unsaved[i].name, f.name) == 0) {
            f.text = t->unsaved[i].text;
            f.len = t->unsaved[i].len;
        }
    const char *slash = strrchr(f.name, '/');
    f.name = slash != NULL ? slash + 1 : f.name;
    vec_push(t->arena, &t->files, f);
    return t->files.len - 1;
}

// The place of a node; that of what a macro expands to is where the macro is used.
static void place_node(Tree *t, Node *n, ClangCursor c)
{
    const ClangRange r = t->clang->extent(c);
    void *file = NULL;
    unsigned line = 0, column = 0, offset = 0;
    t->clang->file_location(t->clang->range_start(r), &file, &line, &column, &offset);
    n->file = find_file(t, file);
    n->line = line;
    n->begin = offset;
    t->clang->file_location(t->clang->range_end(r), &file, &line, &column, &offset);
    n->end = offset;
}

// The text of an operator, without spaces; "" where it is too long to be one.
static void take_op(const Tree *t, uint32_t file, uint32_t begin, uint32_t end, char *op)
{
    rlx_assert(file < t->files.len);
    const TreeFile *f = &t->files.data[file];
    uint32_t n = 0;
    for (uint32_t i = begin; i < end && i < f->len; i++) {
        if (f->text[i] == ' ' || f->text[i] == '\n')
            continue;
        if (n == 3) {
            n = 0;
            break;
        }
        op[n++] = f->text[i];
    }
    op[n] = '\0';
    if (n != 0 && strspn(op, "+-*/%<>=!&|^~,") != n)
        op[0] = '\0';
}

// --- declarations --------------------------------------------------------------------------------

static void describe_type(Tree *t, Decl *d, ClangCursor cursor)
{
    const Clang *c = t->clang;
    ClangType type = c->canonical_type(c->type(cursor));
    const long long bytes = c->size_of(type);
    d->bytes = bytes > 0 ? (uint64_t)bytes : 0;
    d->is_const = c->is_const(type) != 0;
    while (type.kind == CLANG_TYPE_CONSTANT_ARRAY) {
        type = c->canonical_type(c->element_type(type));
        d->is_const = d->is_const || c->is_const(type) != 0;
    }
    d->is_integer = (type.kind >= CLANG_TYPE_BOOL && type.kind <= CLANG_TYPE_INT128) ||
                    type.kind == CLANG_TYPE_ENUM;
    d->is_unsigned = type.kind >= CLANG_TYPE_BOOL && type.kind <= CLANG_TYPE_UINT128;
    d->is_pointer = type.kind == CLANG_TYPE_POINTER;
    const bool is_callable = d->kind == DECL_FUNCTION || d->is_pointer;
    const ClangType shown = d->is_pointer ? c->canonical_type(c->pointee(type)) : type;
    d->type = is_callable ? clang_take(c, t->arena, c->type_spelling(shown)) : "";
}

static DeclKind kind_of(int kind)
{
    return kind == CLANG_FUNCTION ? DECL_FUNCTION
           : kind == CLANG_VAR    ? DECL_VAR
           : kind == CLANG_PARM   ? DECL_PARM
           : kind == CLANG_FIELD  ? DECL_FIELD
                                  : DECL_OTHER;
}

static Decl *find_decl(Tree *t, ClangCursor cursor)
{
    const Clang *c = t->clang;
    const ClangCursor canonical = c->canonical(cursor);
    uint64_t found = 0;
    Node place = {0};
    if (canonical.data[0] == NULL)
        return NULL;
    if (map_get(&t->decls, &canonical.data[0], sizeof canonical.data[0], &found))
        return (Decl *)(uintptr_t)found;
    Decl *d = ARENA_NEW(t->arena, Decl);
    *d = (Decl){.kind = kind_of(canonical.kind), .owner = ""};
    d->name = clang_take(c, t->arena, c->spelling(canonical));
    if (d->kind == DECL_FIELD)
        d->owner = clang_take(c, t->arena, c->spelling(c->parent(canonical)));
    d->is_enum_constant = canonical.kind == CLANG_ENUM_CONSTANT;
    describe_type(t, d, canonical);
    place_node(t, &place, canonical);
    d->line = place.line;
    d->file = t->files.data[place.file].name;
    d->is_builtin = t->files.data[place.file].handle == NULL || strncmp(d->name, "__", 2) == 0;
    d->is_standard = !t->files.data[place.file].is_ours;
    const int storage = d->kind == DECL_FUNCTION || d->kind == DECL_VAR ? c->storage(canonical) : 0;
    d->is_static = storage == CLANG_STORAGE_STATIC;
    d->is_extern = storage == CLANG_STORAGE_EXTERN;
    const void *key = canonical.data[0];
    map_put(t->arena, &t->decls, arena_copy(t->arena, &key, sizeof key), sizeof key, (uintptr_t)d);
    return d;
}

// --- bodies --------------------------------------------------------------------------------------

Node *node_plain(Node *n)
{
    while (n != NULL && n->kind == CLANG_CAST && n->child != NULL) {
        n = n->child;
        while (n->next != NULL) // what the type says stands before the operand
            n = n->next;
    }
    return n;
}

bool node_is_inside(const Node *a, const Node *b)
{
    while (a != NULL && a != b)
        a = a->parent;
    return a != NULL;
}

static void finish_call(Build *b, Node *n)
{
    rlx_assert(n->call == 0);
    Node *callee = node_plain(n->child);
    while (callee != NULL && callee->kind == CLANG_UNARY && callee->op[0] == '*') // (*f)()
        callee = node_plain(callee->child);
    Call call = {.node = n, .to = callee != NULL ? callee->decl : NULL};
    call.is_pointer = call.to == NULL || call.to->kind != DECL_FUNCTION;
    if (!call.is_pointer)
        call.to->n_calls++;
    if (b->function == NULL)
        return;
    vec_push(b->tree->arena, &b->function->calls, call);
    n->call = b->function->calls.len;
}

static void finish_operator(Build *b, Node *n)
{
    const Node *first = n->child, *second = first != NULL ? first->next : NULL;
    if (first == NULL)
        return;
    if (n->kind != CLANG_UNARY && second != NULL)
        take_op(b->tree, n->file, first->end, second->begin, n->op);
    if (n->kind == CLANG_UNARY) {
        take_op(b->tree, n->file, n->begin, first->begin, n->op);
        if (n->op[0] == '\0')
            take_op(b->tree, n->file, first->end, n->end, n->op);
    }
    const bool is_step = n->op[0] == n->op[1] && (n->op[0] == '+' || n->op[0] == '-');
    const bool is_address = n->op[0] == '&' && n->op[1] == '\0';
    const bool is_change = n->kind == CLANG_UNARY    ? is_step || is_address || n->op[0] == '\0'
                           : n->kind == CLANG_BINARY ? strcmp(n->op, "=") == 0 || n->op[0] == '\0'
                                                     : true;
    if (is_change && b->function != NULL)
        vec_push(b->tree->arena, &b->function->changes, n);
}

static const char *const macro_letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

// The first definition of each macro in capital letters.
static void find_macros(Tree *t, const char *text)
{
    static const char define[] = "#define ";
    for (const char *at = strstr(text, define); at != NULL; at = strstr(at, define)) {
        at += strlen(define);
        const size_t n = strspn(at, macro_letters);
        if (n != 0 && !map_get(&t->macros, at, n, NULL))
            map_put(t->arena, &t->macros, at, n, (uintptr_t)(at + n));
    }
}

const char *tree_macro(const Tree *t, const TreeFile *f, size_t at)
{
    uint64_t definition = 0;
    if (at < f->len)
        map_get(&t->macros, f->text + at, strspn(f->text + at, macro_letters), &definition);
    return (const char *)(uintptr_t)definition;
}

// The number that a macro stands for: "#define NAME 4194304u".
static const char *find_number(const Tree *t, const TreeFile *f, size_t at)
{
    const char *definition = tree_macro(t, f, at);
    return definition != NULL && *definition == ' ' ? definition + 1 : NULL;
}

static void finish_integer(const Tree *t, Node *n)
{
    const TreeFile *f = &t->files.data[n->file];
    const bool is_digit = n->begin < f->len && f->text[n->begin] >= '0' && f->text[n->begin] <= '9';
    const char *text = is_digit ? f->text + n->begin : find_number(t, f, n->begin);
    n->value = -1;
    if (text != NULL && text[0] >= '0' && text[0] <= '9') {
        const unsigned long long value = strtoull(text, NULL, 0);
        n->value = value <= INT64_MAX ? (int64_t)value : -1;
    }
}

static void add_local(Build *b, Node *n)
{
    Decl *d = n->decl;
    if (d == NULL)
        return;
    if (b->function == NULL || d->is_static || d->is_extern) {
        d->owner = b->function != NULL ? b->function->decl->name : "";
        vec_push(b->tree->arena, &b->tree->globals, d);
        return;
    }
    vec_push(b->tree->arena, &b->function->locals, d);
}

static void finish(Build *b, Node *n)
{
    Function *f = b->function;
    Arena *a = b->tree->arena;
    if (n->kind == CLANG_CALL)
        finish_call(b, n);
    else if (n->kind == CLANG_UNARY || n->kind == CLANG_BINARY || n->kind == CLANG_COMPOUND_ASSIGN)
        finish_operator(b, n);
    else if (n->kind == CLANG_INTEGER)
        finish_integer(b->tree, n);
    else if (n->kind == CLANG_VAR)
        add_local(b, n);
    if (f == NULL)
        return;
    if (n->kind == CLANG_FOR || n->kind == CLANG_WHILE || n->kind == CLANG_DO)
        vec_push(a, &f->loops, n);
    if (n->kind == CLANG_GOTO || n->kind == CLANG_INDIRECT_GOTO || n->kind == CLANG_LABEL)
        vec_push(a, &f->jumps, n);
    if (n->kind == CLANG_ASM) {
        f->n_asm++;
        vec_push(a, &f->changes, n);
    }
}

// The bytes of an expression's result, if it is a vector: compilers that do not optimise keep it in memory.
static uint64_t vector_bytes(const Clang *c, ClangCursor cursor)
{
    const ClangType type = c->canonical_type(c->type(cursor));
    const long long bytes = type.kind == CLANG_TYPE_VECTOR ? c->size_of(type) : 0;
    return bytes > 0 ? (uint64_t)bytes : 0;
}

static bool is_hidden(int kind)
{
    return kind == CLANG_TYPE_REF || (kind >= CLANG_FIRST_ATTRIBUTE && kind <= CLANG_LAST_ATTRIBUTE);
}

static int visit(ClangCursor cursor, ClangCursor above, void *data)
{
    Build *b = data;
    Tree *t = b->tree;
    (void)above;
    if (is_hidden(cursor.kind))
        return CLANG_VISIT_CONTINUE;
    Node *n = ARENA_NEW(t->arena, Node);
    *n = (Node){.kind = cursor.kind, .parent = b->parent};
    place_node(t, n, cursor);
    if (cursor.kind == CLANG_REF || cursor.kind == CLANG_MEMBER)
        n->decl = find_decl(t, t->clang->referenced(cursor));
    else if (cursor.kind == CLANG_VAR)
        n->decl = find_decl(t, cursor);
    if (n->kind == CLANG_REF && n->decl != NULL)
        n->decl->n_refs++;
    if (n->kind == CLANG_MEMBER || n->kind == CLANG_INDEX || n->kind == CLANG_UNARY)
        n->is_const = t->clang->is_const(t->clang->canonical_type(t->clang->type(cursor))) != 0;
    if (b->function != NULL && (n->kind == CLANG_BINARY || n->kind == CLANG_CONDITIONAL))
        b->function->vector_bytes += vector_bytes(t->clang, cursor);
    Build inner = {.tree = t, .function = b->function, .parent = n};
    t->clang->visit(cursor, visit, &inner);
    if ((n->kind == CLANG_UNEXPOSED_EXPR || n->kind == CLANG_PAREN) && n->child != NULL &&
        n->child->next == NULL) {
        n->child->begin = n->begin;
        n->child->end = n->end;
        n->child->parent = b->parent;
        n = n->child;
    } else {
        finish(b, n);
    }
    if (b->last != NULL)
        b->last->next = n;
    else if (b->parent != NULL)
        b->parent->child = n;
    b->last = n;
    return CLANG_VISIT_CONTINUE;
}

// --- what is outside -----------------------------------------------------------------------------

// Attributes come from macros, which the text names.
static Inlining inlining_of(const Tree *t, const Node *place)
{
    static const struct {
        const char *word;
        Inlining is;
    } words[] = {{"RLX_KERNEL", INLINE_NEVER}, {"RLX_INLINE", INLINE_ALWAYS}};
    const TreeFile *f = &t->files.data[place->file];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (place->begin + strlen(words[i].word) < f->len &&
            strncmp(f->text + place->begin, words[i].word, strlen(words[i].word)) == 0)
            return words[i].is;
    return INLINE_MAYBE;
}

static int visit_function(ClangCursor cursor, ClangCursor above, void *data)
{
    Build *b = data;
    (void)above;
    if (cursor.kind == CLANG_PARM) {
        Decl *d = find_decl(b->tree, cursor);
        if (d != NULL)
            vec_push(b->tree->arena, &b->function->locals, d);
        return CLANG_VISIT_CONTINUE;
    }
    if (cursor.kind == CLANG_COMPOUND) {
        Build body = {.tree = b->tree, .function = b->function};
        visit(cursor, cursor, &body);
        rlx_assert(body.last != NULL && body.last->kind == CLANG_COMPOUND);
        b->function->body = body.last;
    }
    return CLANG_VISIT_CONTINUE;
}

static void add_function(Tree *t, ClangCursor cursor)
{
    Decl *d = find_decl(t, cursor);
    if (d == NULL || t->clang->is_definition(cursor) == 0)
        return;
    Node place = {0};
    rlx_assert(d->kind == DECL_FUNCTION);
    Function *f = ARENA_NEW(t->arena, Function);
    *f = (Function){.decl = d};
    place_node(t, &place, cursor);
    d->function = f;
    d->line = place.line;
    f->inlining = inlining_of(t, &place);
    f->is_external = !d->is_static;
    f->is_in_header = t->clang->is_inlined(cursor) != 0;
    vec_push(t->arena, &t->functions, f);
    Build b = {.tree = t, .function = f};
    t->clang->visit(cursor, visit_function, &b);
}

static int visit_top(ClangCursor cursor, ClangCursor above, void *data)
{
    Tree *t = data;
    (void)above;
    if (cursor.kind == CLANG_FUNCTION) {
        add_function(t, cursor);
    } else if (cursor.kind == CLANG_VAR) {
        Node place = {0};
        Build b = {.tree = t, .parent = &place};
        Decl *d = find_decl(t, cursor);
        if (d == NULL || d->is_standard)
            return CLANG_VISIT_CONTINUE;
        if (!d->is_global)
            vec_push(t->arena, &t->globals, d);
        d->is_global = true;
        t->clang->visit(cursor, visit, &b);
    } else if (cursor.kind == 1) { // not exposed: assembler text, or an empty declaration
        Node place = {0};
        place_node(t, &place, cursor);
        const TreeFile *f = &t->files.data[place.file];
        t->n_global_asm += place.begin < f->len && strncmp(f->text + place.begin, "__asm", 5) == 0;
    }
    return CLANG_VISIT_CONTINUE;
}

void tree_build(Tree *t, void *unit)
{
    rlx_assert(t->functions.len == 0 && t->globals.len == 0);
    for (uint32_t i = 0; i < t->n_unsaved; i++)
        find_macros(t, t->unsaved[i].text);
    t->clang->visit(t->clang->unit_cursor(unit), visit_top, t);
}
