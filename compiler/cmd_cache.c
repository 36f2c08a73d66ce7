// SPDX-License-Identifier: Apache-2.0
// rlxc cache: what the folder of compiles holds, and how to empty it.
#include "compiler/cache_folder.h"
#include "compiler/json_text.h"
#include <string.h>

static ExitCode wrong(Cli *c, const char *message)
{
    diag_error(c->diag, (Span){0}, E0003, "%s", message);
    return cli_fail(c);
}

ExitCode cmd_cache(Cli *c)
{
    CacheFolder f;
    const Strings *args = &c->options.args;
    const char *what = args->len == 1 ? args->data[0] : "show";
    const bool clears = strcmp(what, "clear") == 0;
    if (args->len > 1 || (!clears && strcmp(what, "show") != 0))
        return wrong(c, "expected show or clear");
    if (!cache_folder_find(c, &f))
        return cli_fail(c);
    if (f.path == NULL)
        return wrong(c, "there is no compile cache: give --cache DIR, or set RLXC_CACHE");
    const CacheUse use = clears ? cache_folder_clear(&f) : cache_folder_use(&f);
    const unsigned long long n = use.entries, bytes = use.bytes, limit = f.limit;
    if (c->options.json != NULL)
        printf("{\"folder\": \"%s\", \"%s\": %llu, \"bytes\": %llu, \"limit_bytes\": %llu}\n",
               json_text(c->arena, f.path), clears ? "removed" : "compiles", n, bytes, limit);
    else if (clears)
        printf("removed %llu compiles, %llu bytes, from %s\n", n, bytes, f.path);
    else
        printf("%s: %llu compiles, %llu bytes of at most %llu\n", f.path, n, bytes, limit);
    return EXIT_OK;
}
