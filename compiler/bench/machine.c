// SPDX-License-Identifier: Apache-2.0
// See machine.h. The text that measures is bench/probe.c.
#include "compiler/bench/machine.h"
#include "base/map.h"
#include "compiler/bench/probe_text.h"
#include "compiler/import/rawfile.h"
#include "compiler/native.h"
#include "compiler/output.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEAST_WORKING = 16 << 10, MOST_MEMORY = 256 << 20 };

static const char *probe_text(Arena *a)
{
    Str s = str_new(a);
    for (const char *const *line = bench_probe_c; *line != NULL; line++)
        str_add(&s, *line);
    return str_text(&s);
}

static const char *probe_name(Job *j, const char *text)
{
    const char *parts[] = {native_compiler(), j->cpu.cc_flags, text};
    uint64_t h = 1;
    for (uint32_t i = 0; i < 3; i++)
        h = hash_bytes64(parts[i], strlen(parts[i]) + 1, h);
    return arena_printf(j->cli->arena, "probe-%016llx", (unsigned long long)h);
}

// Beside the libraries of models. Another process may do the same at the same time: the name is renamed to.
static bool build(Job *j, const char *dir, const char *text, const char *library)
{
    Arena *a = j->cli->arena;
    Strings argv = {0};
    const FilePart part = {text, strlen(text)};
    native_add_words(a, native_compiler(), &argv);
    native_add_words(a, "-O3 -std=gnu99 -shared -fPIC -w -pthread", &argv);
    native_add_words(a, j->cpu.cc_flags, &argv);
    native_add_words(a, "probe.c -o probe.so", &argv);
    const char *source = output_path(a, dir, "probe.c"), *made = output_path(a, dir, "probe.so");
    cli_progress("compiling what measures the machine");
    bool ok = rawfile_write(j->cli->diag, source, &part, 1) && native_start(j, dir, &argv, "probe.c");
    if (ok && rename(made, library) != 0)
        ok = diag_error(j->cli->diag, (Span){0}, E0002, "%s: %s", library, strerror(errno));
    unlink(source);
    unlink(made);
    return ok;
}

static bool build_in_cache(Job *j, const char **library)
{
    Arena *a = j->cli->arena;
    const char *cache = native_cache(j), *text = probe_text(a);
    if (cache == NULL)
        return false;
    *library = arena_printf(a, "%s/%s.so", cache, probe_name(j, text));
    if (access(*library, R_OK) == 0)
        return true;
    char *dir = arena_printf(a, "%s/build-XXXXXX", cache);
    if (mkdtemp(dir) == NULL)
        return diag_error(j->cli->diag, (Span){0}, E0002, "folder %s: %s", dir, strerror(errno));
    const bool ok = build(j, dir, text, *library);
    rmdir(dir);
    return ok;
}

static void find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
}

// An eighth of what the machine has at most: small ones have small caches.
static uint64_t beyond_caches(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const uint64_t all = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : MOST_MEMORY;
    return all / 8 < MOST_MEMORY ? all / 8 : MOST_MEMORY;
}

bool machine_open(Job *j, uint64_t working_bytes, Machine *out)
{
    const char *library = NULL;
    *out = (Machine){.threads = j->caps.threads, .memory_bytes = beyond_caches()};
    const uint64_t least = (uint64_t)LEAST_WORKING * (uint64_t)out->threads;
    out->working_bytes = working_bytes < least ? least : working_bytes;
    if (out->working_bytes > out->memory_bytes)
        out->working_bytes = out->memory_bytes;
    if (!build_in_cache(j, &library))
        return false;
    out->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (out->library == NULL)
        return diag_error(j->cli->diag, (Span){0}, E0005, "cannot load %s: %s", library, dlerror());
    find(out->library, "rlx_probe_peak", &out->peak);
    find(out->library, "rlx_probe_read", &out->read);
    rlx_assert(out->peak != NULL && out->read != NULL);
    return true;
}

static void keep_best(double *best, double value)
{
    *best = value > *best ? value : *best;
}

void machine_measure(Machine *m)
{
    keep_best(&m->peak_gflops, m->peak(m->threads));
    keep_best(&m->read_gbs, m->read((size_t)m->working_bytes, m->threads));
}

void machine_measure_memory(Machine *m)
{
    keep_best(&m->memory_gbs, m->read((size_t)m->memory_bytes, m->threads));
}
