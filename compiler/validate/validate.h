// SPDX-License-Identifier: Apache-2.0
// Proves rules about emitted C, from its text alone: what docs/VALIDATION.md lists. libclang parses it; the
// rules are in files of their own.
#ifndef COMPILER_VALIDATE_VALIDATE_H
#define COMPILER_VALIDATE_VALIDATE_H

#include "base/diag.h"
#include "base/str.h"

// What a program may use beside the C library's memory and math functions; columns of symbols.def.
typedef enum ValidateUse {
    USE_ALWAYS = 0,
    USE_THREADS = 1, // POSIX threads
    USE_DRIVER = 2,  // a GPU's driver, which is loaded at run time
    USE_SYSTEM = 4,  // asks the system whether the CPU's registers may be used
} ValidateUse;

typedef struct ValidateFile {
    const char *name;
    const char *text;
    size_t len;
} ValidateFile;

typedef struct ValidateInput {
    const ValidateFile *files; // the first is the C file, the others are what it includes
    uint32_t n;
    const char *cc_flags;     // "-march=..."; those that name no machine are left out
    const char *define;       // "-DNAME_WHOLE" of a file in parts, which is parsed as a whole; or NULL
    const char *triple;       // "x86_64-linux-gnu"
    uint32_t uses;            // ValidateUse
    bool has_static_arena;    // its storage is the one variable that may be there
    bool is_quick;            // C only, not C++
} ValidateInput;

#define VALIDATE_RULES(X)                                                                                    \
    X(C99, "parses as C99 without a diagnostic")                                                             \
    X(CXX, "parses as C++11 without a diagnostic")                                                           \
    X(SYMBOLS, "uses no symbols but those of the list")                                                      \
    X(STATE, "has no variable that lasts beyond a call")                                                     \
    X(RECURSION, "no function can reach itself")                                                             \
    X(LOOPS, "every loop ends")                                                                              \
    X(POINTERS, "calls no pointer but those of the list")                                                    \
    X(JUMPS, "has no goto")

typedef enum ValidateRule {
#define X(name, text) RULE_##name,
    VALIDATE_RULES(X)
#undef X
    RULE_COUNT
} ValidateRule;

typedef struct ValidateFinding {
    ValidateRule rule;
    const char *file; // or ""
    uint32_t line;
    const char *function; // or ""
    const char *text;
} ValidateFinding;

// How a loop was found to end.
typedef enum LoopProof { LOOP_NONE, LOOP_CONSTANT, LOOP_VALUE, LOOP_WAIT, LOOP_PROOFS } LoopProof;

typedef struct ValidateNote {
    const char *name, *text;
} ValidateNote;

typedef struct ValidateEntry {
    const char *name;
    uint64_t stack;
    const char *path; // the calls that need most: "a > b > c"
} ValidateEntry;

typedef struct ValidateReport {
    const char *validator; // libclang's version
    bool has_cxx;
    VEC(ValidateFinding) findings;
    VEC(const char *) externals; // functions of others that are called, sorted
    VEC(ValidateNote) pointers;  // pointers that are called, and what they are
    VEC(ValidateNote) waits;     // loops that wait for others, and exceptions from recursion
    VEC(ValidateEntry) entries;  // functions with external linkage and those that threads begin with
    uint64_t helper_stack;       // the largest need of other functions in the header
    const char *helper;          // whose it is
    uint32_t n_functions, n_loops[LOOP_PROOFS], n_asm, max_depth;
} ValidateReport;

const char *validate_rule_name(ValidateRule r);
const char *validate_rule_text(ValidateRule r);
// Is libclang here?
bool validate_is_here(Arena *a);
// False: libclang is not here, or it failed; not reported. What is wrong with the text is in the report.
bool validate_run(Arena *a, const ValidateInput *in, ValidateReport *out);

#endif
