// SPDX-License-Identifier: Apache-2.0
// See cache.h. The model is read in any case, so that its errors and warnings are the same with and without
// the cache, and all files that it names are known; what is saved is all that comes after.
#include "compiler/cache/cache.h"
#include "compiler/cache/cache_entry.h"
#include "compiler/cli/cli_tables.h"
#include "compiler/system/content_hash.h"
#include "compiler/system/rawfile.h"
#include "compiler/system/output.h"
#include "compiler/system/output_files.h"
#include "compiler/system/trusted.h"
#include "compiler/system/work_folder.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

// --- the key -------------------------------------------------------------------------------------

// Options that say where files go or how messages look, or whose meaning counts by what they name.
static bool is_no_matter(const char *option)
{
    static const char *const names[] = {"-o", "--depfile", "--cc-flags", "--cache", "--no-color", "--help"};
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(option, names[i]) == 0)
            return true;
    return false;
}

static void add_options(ContentHash *h, const Options *o)
{
    for (uint32_t i = 0; i < option_count; i++) {
        uint32_t n = 0;
        const char *const *values = option_values(&option_info[i], o, &n);
        for (uint32_t k = 0; k < n && !is_no_matter(option_info[i].name); k++) {
            content_hash_add_text(h, option_info[i].name);
            content_hash_add_text(h, values[k]);
        }
    }
}

// "native" stands for this machine, whose caches count too.
static void add_cpu(ContentHash *h, Arena *a, const CpuInfo *cpu)
{
    const CpuMachine *m = &cpu->machine;
    content_hash_add_text(h, arena_printf(a, "%s %s %u %u %s %u %u %u %u %u", cpu->name, cpu->cc_flags,
                                          cpu->f32_lanes, cpu->vector_regs, m->name, m->fma_per_cycle,
                                          m->l1_bytes, m->l2_bytes, m->l3_bytes, cpu->features));
}

// All files that were read. Where weights stay in one of them, its path is in the results. False: one was
// written meanwhile, so that nobody knows what was compiled.
static bool add_inputs(ContentHash *h, const Cli *c)
{
    Arena *a = c->arena;
    const bool are_named = c->options.weights != NULL && strcmp(c->options.weights, "inplace") == 0;
    uint32_t n = 0;
    const ReadFile *read = rawfile_list_read(&n);
    for (uint32_t i = 0; i < n; i++) {
        const char *content = content_hash_file(a, read[i].path), *id = rawfile_id(a, read[i].path);
        if (content == NULL || id == NULL || strcmp(id, read[i].id) != 0)
            return false;
        content_hash_add_text(h, content);
        content_hash_add_text(h, are_named ? read[i].path : "");
    }
    return true;
}

// What other programs and libraries make of kernels depends on them too, and a dump is wanted for itself.
static bool is_cacheable(const Job *j)
{
    const Options *o = &j->cli->options;
    if (o->dump != NULL || o->stop_after != NULL || o->time_passes != NULL || o->metallib != NULL)
        return false;
    return j->target->device != DEVICE_CUDA || (o->gpu != NULL && strcmp(o->gpu, "text") == 0);
}

static const char *make_key(Job *j)
{
    Arena *a = j->cli->arena;
    ContentHash *h = content_hash_new(a);
    const char *program = content_hash_file(a, "/proc/self/exe");
    if (program == NULL) // which compiler this is cannot be told
        return NULL;
    content_hash_add_text(h, program);
    content_hash_add_text(h, j->host.name);
    content_hash_add_text(h, output_stem(a, j->model));
    add_options(h, &j->cli->options);
    add_cpu(h, a, &j->cpu);
    return add_inputs(h, j->cli) ? content_hash_text(a, h) : NULL;
}

bool cache_open(Job *j, Cache *out)
{
    *out = (Cache){.job = j, .n_items = j->cli->diag->items.len};
    if (!cache_folder_find(j->cli, CACHE_COMPILES, &out->folder))
        return false;
    if (out->folder.path == NULL || !is_cacheable(j))
        return true;
    if (!cache_folder_make(j->cli, &out->folder))
        return false;
    out->key = make_key(j);
    return true;
}

// --- entries -------------------------------------------------------------------------------------

// All of them or none, as job_write does.
static bool write_parts(Cli *cli, const char *dir, const CacheParts *parts)
{
    rlx_assert(parts->data.len == parts->report.files.len);
    OutputFiles files;
    bool ok = output_begin(&files, cli->diag, dir, parts->data.len);
    for (uint32_t i = 0; i < parts->data.len && ok; i++) {
        const FilePart part = {parts->data.data[i], parts->report.files.data[i].len};
        ok = output_add_parts(&files, parts->report.files.data[i].name, &part, 1);
    }
    return output_end(&files, ok);
}

CacheResult cache_fetch(const Cache *c, const char *dir, CompileReport *out)
{
    CacheParts parts;
    if (c->key == NULL)
        return CACHE_MISS;
    Cli *cli = c->job->cli;
    const char *path = cache_folder_entry(&c->folder, c->key);
    EntryState state = cache_entry_read(cli->arena, path, &parts);
    if (state == ENTRY_WHOLE && !trusted_is_file(path)) // others could have written it
        state = ENTRY_DAMAGED;
    if (state == ENTRY_DAMAGED)
        diag_warning(cli->diag, (Span){0}, E0007, "%s is damaged, so the model is compiled again", path);
    if (state != ENTRY_WHOLE)
        return CACHE_MISS;
    cache_folder_touch(path);
    if (!write_parts(cli, dir, &parts))
        return CACHE_FAILED;
    *out = parts.report;
    return CACHE_HIT;
}

// The bytes of the files that were written: texts are in memory, weights are read again.
static bool collect(const Cache *c, const char *dir, CacheParts *parts)
{
    rlx_assert(parts->data.len == 0);
    const Job *j = c->job;
    Arena *a = j->cli->arena;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < j->emitted.files.len; i++) {
        const EmittedFile *f = &j->emitted.files.data[i];
        RawFile written = {f->data, f->len};
        if (f->data == NULL && (!rawfile_peek(a, output_path(a, dir, f->name), &written) ||
                                written.len != f->len))
            return false;
        vec_push(a, &parts->data, written.data);
        bytes += f->len;
    }
    return bytes <= c->folder.limit;
}

// A compile that warned after the model was read is not kept: the warnings would be missing later.
static bool has_new_warnings(const Cache *c)
{
    const Diag *d = c->job->cli->diag;
    for (uint32_t i = c->n_items; i < d->items.len; i++)
        if (d->items.data[i].level != DIAG_NOTE && d->items.data[i].code != E0007)
            return true;
    return false;
}

// Made in a folder that a killed process does not leave for long.
static bool keep_entry(const Cache *c, Diag *d, const CacheParts *parts)
{
    rlx_assert(c->key != NULL && c->folder.path != NULL);
    WorkFolder work;
    Arena *a = c->job->cli->arena;
    const char *entry = cache_folder_entry(&c->folder, c->key);
    if (!work_folder_make(d, c->folder.path, &work))
        return false;
    const char *made = output_path(a, work.path, "entry");
    bool ok = cache_entry_write(a, d, made, parts);
    if (ok && (chmod(made, 0600) != 0 || rename(made, entry) != 0))
        ok = diag_error(d, (Span){0}, E0002, "%s: %s", entry, strerror(errno));
    work_folder_remove(&work);
    return ok;
}

void cache_store(const Cache *c, const char *dir, const CompileReport *r)
{
    CacheParts parts = {.report = *r};
    Cli *cli = c->job->cli;
    Diag quiet = diag_new(cli->arena);
    if (c->key == NULL || has_new_warnings(c) || !collect(c, dir, &parts))
        return;
    if (!keep_entry(c, &quiet, &parts))
        diag_warning(cli->diag, (Span){0}, E0007, "the result is not kept in %s: %s", c->folder.path,
                     quiet.items.len != 0 ? quiet.items.data[0].message : "");
    cache_folder_trim(&c->folder, NULL);
}
