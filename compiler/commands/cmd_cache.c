// SPDX-License-Identifier: Apache-2.0
// rlxc cache: what the folders of compiles and of libraries hold, and how to empty them.
#include "compiler/system/cache_folder.h"
#include "compiler/system/json_text.h"
#include <string.h>

// What is printed of each kind; the members of the JSON document are those of the compiles.
static const char *const nouns[] = {[CACHE_COMPILES] = "compiles", [CACHE_LIBRARIES] = "libraries"};

static ExitCode wrong(Cli *c, const char *message)
{
    diag_error(c->diag, (Span){0}, E0003, "%s", message);
    return cli_fail(c);
}

typedef struct Shown {
    CacheFolder folder;
    CacheUse use;
} Shown;

// With --cache only that folder. False: reported.
static bool look(Cli *c, bool clears, Shown *out)
{
    bool ok = true;
    for (int kind = CACHE_COMPILES; kind <= CACHE_LIBRARIES && ok; kind++) {
        CacheFolder *f = &out[kind].folder;
        ok = cache_folder_find(c, (CacheKind)kind, f);
        if (kind == CACHE_LIBRARIES && c->options.cache != NULL)
            f->path = NULL;
        const char *name = f->path;
        ok = ok && cache_folder_check(c, f);
        if (ok && f->path != NULL)
            out[kind].use = clears ? cache_folder_clear(f) : cache_folder_use(f);
        f->path = name; // also of one that is not there yet
    }
    return ok;
}

static void print_json(Cli *c, const Shown *s, bool clears, Str *out)
{
    for (int kind = CACHE_COMPILES; kind <= CACHE_LIBRARIES; kind++)
        if (s[kind].folder.path != NULL)
            str_printf(out,
                       "%s\"%s\": {\"folder\": \"%s\", \"%s\": %llu, \"bytes\": %llu, "
                       "\"limit_bytes\": %llu}",
                       out->len == 0 ? "" : ", ", nouns[kind], json_text(c->arena, s[kind].folder.path),
                       clears ? "removed" : "entries", (unsigned long long)s[kind].use.entries,
                       (unsigned long long)s[kind].use.bytes, (unsigned long long)s[kind].folder.limit);
}

static void print_text(const Shown *s, bool clears)
{
    for (int kind = CACHE_COMPILES; kind <= CACHE_LIBRARIES; kind++) {
        const unsigned long long n = s[kind].use.entries, bytes = s[kind].use.bytes;
        if (s[kind].folder.path == NULL)
            continue;
        if (clears)
            printf("removed %llu %s, %llu bytes, from %s\n", n, nouns[kind], bytes, s[kind].folder.path);
        else
            printf("%s: %llu %s, %llu bytes of at most %llu\n", s[kind].folder.path, n, nouns[kind], bytes,
                   (unsigned long long)s[kind].folder.limit);
    }
}

ExitCode cmd_cache(Cli *c)
{
    Shown shown[2] = {0};
    Str json = str_new(c->arena);
    const Strings *args = &c->options.args;
    const char *what = args->len == 1 ? args->data[0] : "show";
    const bool clears = strcmp(what, "clear") == 0;
    if (args->len > 1 || (!clears && strcmp(what, "show") != 0))
        return wrong(c, "expected show or clear");
    if (!look(c, clears, shown))
        return cli_fail(c);
    if (c->options.cache != NULL && shown[CACHE_COMPILES].folder.path == NULL)
        return wrong(c, "--cache none: expected the folder of a cache");
    print_json(c, shown, clears, &json);
    if (c->options.json != NULL)
        printf("{%s}\n", str_text(&json));
    else
        print_text(shown, clears);
    return EXIT_OK;
}
