// SPDX-License-Identifier: Apache-2.0
// See clang.h.
#include "compiler/validate/clang.h"
#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
    "clang_createIndex",
    "clang_disposeIndex",
    "clang_parseTranslationUnit2",
    "clang_disposeTranslationUnit",
    "clang_getNumDiagnostics",
    "clang_getDiagnostic",
    "clang_formatDiagnostic",
    "clang_getClangVersion",
    "clang_getCString",
    "clang_disposeString",
    "clang_getTranslationUnitCursor",
    "clang_visitChildren",
    "clang_getCursorSpelling",
    "clang_getCursorReferenced",
    "clang_getCanonicalCursor",
    "clang_getCursorSemanticParent",
    "clang_getCursorType",
    "clang_getCanonicalType",
    "clang_getArrayElementType",
    "clang_getPointeeType",
    "clang_getTypeSpelling",
    "clang_isConstQualifiedType",
    "clang_Type_getSizeOf",
    "clang_Cursor_getStorageClass",
    "clang_isCursorDefinition",
    "clang_Cursor_isFunctionInlined",
    "clang_getCursorExtent",
    "clang_getRangeStart",
    "clang_getRangeEnd",
    "clang_getFileLocation",
    "clang_getFileName",
};
enum { N_NAMES = sizeof names / sizeof *names };
_Static_assert(sizeof(Clang) == N_NAMES * sizeof(void *), "one name a member");

// The oldest that the tests run with comes first: another one may warn about other things.
static const char *const places[] = {
    "libclang-14.so.1",
    "libclang.so.1",
    "libclang-15.so.1",
    "libclang-16.so.1",
    "libclang-17.so.1",
    "libclang-18.so.1",
    "libclang-19.so.1",
    "libclang-20.so.1",
    "/usr/lib/llvm-*/lib/libclang.so.1",
    "/usr/lib64/llvm*/lib*/libclang.so.*",
    "libclang.so",
};

static void *open_place(const char *place)
{
    void *library = NULL;
    glob_t found = {0};
    if (strchr(place, '*') == NULL)
        return dlopen(place, RTLD_NOW | RTLD_LOCAL);
    if (glob(place, 0, NULL, &found) == 0)
        library = dlopen(found.gl_pathv[found.gl_pathc - 1], RTLD_NOW | RTLD_LOCAL);
    globfree(&found);
    return library;
}

static void *open_library(void)
{
    const char *given = getenv("RLXC_LIBCLANG");
    void *library = NULL;
    if (given != NULL && given[0] != '\0')
        return dlopen(given, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof places / sizeof *places && library == NULL; i++)
        library = open_place(places[i]);
    return library;
}

const Clang *clang_load(Arena *a)
{
    void *library = open_library();
    if (library == NULL)
        return NULL;
    Clang *c = ARENA_NEW(a, Clang);
    for (size_t i = 0; i < N_NAMES; i++) {
        void *found = dlsym(library, names[i]);
        if (found == NULL)
            return NULL;
        memcpy((unsigned char *)c + i * sizeof found, &found, sizeof found);
    }
    return c;
}

const char *clang_take(const Clang *c, Arena *a, ClangString s)
{
    const char *text = c->text(s);
    const char *copy = arena_strdup(a, text != NULL ? text : "");
    c->dispose_string(s);
    return copy;
}
