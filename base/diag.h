// SPDX-License-Identifier: Apache-2.0
// Diagnostics: what is wrong, where, what was expected and what was found.
// A function that can fail on wrong input returns bool and has reported exactly why.
#ifndef BASE_DIAG_H
#define BASE_DIAG_H

#include "base/arena.h"
#include "base/vec.h"
#include <stdbool.h>
#include <stdio.h>

// One row per code in errors.def: id, title, explanation.
typedef enum DiagCode {
#define ERROR(id, title, text) id,
#include "base/errors.def"
#undef ERROR
    DIAG_CODE_COUNT
} DiagCode;

// Where something came from. All parts are optional; line and column are computed from the byte offset.
typedef struct Span {
    uint32_t file;       // index + 1 into Diag.files; 0 = unknown
    uint32_t begin, end; // byte range in that file's text
    const char *path;    // JSON pointer ("/nodes/3/inputs/0") or node name; NULL = none
} Span;

typedef struct DiagFile {
    const char *name;
    const char *text; // NULL for binary files: then only name and path are printed
    size_t len;
} DiagFile;

typedef enum DiagLevel { DIAG_ERROR, DIAG_WARNING, DIAG_NOTE } DiagLevel;

typedef struct DiagItem {
    DiagCode code;
    DiagLevel level;
    Span span;
    const char *message;
} DiagItem;

typedef struct Diag {
    Arena *arena;
    VEC(DiagFile) files;
    VEC(DiagItem) items;
    uint32_t n_errors; // stops growing items after DIAG_MAX_ERRORS
    bool is_muted;     // the last error or warning was dropped, so its notes are dropped too
} Diag;

enum { DIAG_MAX_ERRORS = 20, DIAG_MAX_ITEMS = 200 };

Diag diag_new(Arena *a);
// Registers a source text (not copied) and returns the id for spans.
uint32_t diag_add_file(Diag *d, const char *name, const char *text, size_t len);
// Records an error. Returns false, so that `return diag_error(...)` reads well.
bool diag_error(Diag *d, Span span, DiagCode code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void diag_warning(Diag *d, Span span, DiagCode code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// Adds a remark to the last error.
void diag_note(Diag *d, Span span, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
// Prints all items: "file:line:col: error[E0102]: message", "  at /nodes/3", the source line and a caret. As
// JSON one object a line (docs/JSON.md), with the notes of a message inside it.
typedef enum DiagStyle { DIAG_PLAIN, DIAG_COLOUR, DIAG_JSON } DiagStyle;
void diag_print(const Diag *d, FILE *out, DiagStyle style);
// A note with the names that there are in place of `wanted`: "it has: x, y and 7 more", the one most like it
// first, at most three. shown: the names as they are printed; NULL: names.
void diag_note_names(Diag *d, Span span, const char *wanted, const char *const *names,
                     const char *const *shown, uint32_t n);
// "E0102" for a code; the reverse returns false for an unknown text (case-insensitive).
const char *diag_code_text(DiagCode code);
bool diag_code_parse(const char *text, DiagCode *out);
const char *diag_code_title(DiagCode code);
const char *diag_code_explanation(DiagCode code);

// A bug in rlxc, not in the input: prints the place and aborts. Never compiled out.
#define rlx_assert(cond) ((cond) ? (void)0 : diag_bug(__FILE__, __LINE__, #cond))
_Noreturn void diag_bug(const char *file, int line, const char *what);

#endif
