// SPDX-License-Identifier: Apache-2.0
// See machine.h. The text that measures is bench/probe.c.
#include "compiler/bench/machine.h"
#include "compiler/bench/probe_text.h"
#include "compiler/system/content_hash.h"
#include "compiler/system/rawfile.h"
#include "compiler/system/libraries.h"
#include "compiler/native/native.h"
#include "compiler/system/output.h"
#include "compiler/system/tool.h"
#include <dlfcn.h>
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

static const char *probe_key(Job *j, const char *text)
{
    ContentHash *h = content_hash_new(j->cli->arena);
    content_hash_add_text(h, tool_identity(j->cli->arena, native_compiler()));
    content_hash_add_text(h, j->cpu.cc_flags);
    content_hash_add_text(h, text);
    return arena_printf(j->cli->arena, "probe-%s", content_hash_text(j->cli->arena, h));
}

static bool build(Job *j, const char *dir, const char *text)
{
    Arena *a = j->cli->arena;
    Strings argv = {0};
    tool_add_command(a, native_compiler(), &argv);
    native_add_words(a, "-O3 -std=gnu99 -shared -fPIC -w -pthread", &argv);
    native_add_words(a, j->cpu.cc_flags, &argv);
    native_add_words(a, "probe.c -o probe.so", &argv);
    cli_progress("compiling what measures the machine");
    return rawfile_write_text(j->cli->diag, output_path(a, dir, "probe.c"), text) &&
           native_start(j, dir, &argv, "probe.c");
}

// Beside the libraries of models. NULL: reported.
static void *load(Job *j)
{
    Arena *a = j->cli->arena;
    CacheFolder f;
    WorkFolder work;
    const char *text = probe_text(a), *key = probe_key(j, text);
    if (!libraries_open(j->cli, &f))
        return NULL;
    const char *found = libraries_find(&f, key);
    void *library = found != NULL ? dlopen(found, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library != NULL || !work_folder_make(j->cli->diag, f.path, &work))
        return library;
    const char *made = output_path(a, work.path, "probe.so");
    if (build(j, work.path, text)) {
        library = dlopen(made, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL)
            diag_error(j->cli->diag, (Span){0}, E0005, "cannot load %s: %s", made, dlerror());
        else if (libraries_keep(j->cli->diag, &f, key, made) == NULL)
            library = NULL;
    }
    work_folder_remove(&work);
    return library;
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
    *out = (Machine){.threads = j->caps.threads, .memory_bytes = beyond_caches()};
    const uint64_t least = (uint64_t)LEAST_WORKING * (uint64_t)out->threads;
    out->working_bytes = working_bytes < least ? least : working_bytes;
    if (out->working_bytes > out->memory_bytes)
        out->working_bytes = out->memory_bytes;
    out->library = load(j);
    if (out->library == NULL)
        return false;
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
    rlx_assert(m->peak != NULL && m->threads >= 1);
    keep_best(&m->peak_gflops, m->peak(m->threads));
    keep_best(&m->read_gbs, m->read((size_t)m->working_bytes, m->threads));
}

void machine_measure_memory(Machine *m)
{
    rlx_assert(m->read != NULL && m->memory_bytes != 0);
    keep_best(&m->memory_gbs, m->read((size_t)m->memory_bytes, m->threads));
}
