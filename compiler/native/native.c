// SPDX-License-Identifier: Apache-2.0
// See native.h. The compiler is started in the folder of the sources, so that .incbin finds the weights.
#include "compiler/native/native.h"
#include "compiler/system/children.h"
#include "compiler/system/content_hash.h"
#include "compiler/job/custom.h"
#include "compiler/job/feeds.h"
#include "compiler/system/interrupt.h"
#include "compiler/system/libraries.h"
#include "compiler/native/metal_cpu.h"
#include "compiler/system/tool.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *native_compiler(void)
{
    const char *cc = getenv("CC");
    return cc != NULL && cc[0] != '\0' ? cc : "cc";
}

void native_add_words(Arena *a, const char *text, Strings *argv)
{
    for (const char *c = text; *c != '\0';) {
        const size_t len = strcspn(c, " ");
        if (len > 0)
            vec_push(a, argv, arena_strndup(a, c, len));
        c += len + (c[len] == ' ' ? 1 : 0);
    }
}

bool native_start(Job *j, const char *dir, Strings *argv, const char *what)
{
    ChildCommands one = {0};
    vec_push(j->cli->arena, argv, NULL);
    vec_push(j->cli->arena, &one.list, ((ChildCommand){argv->data, what}));
    return children_run(j->cli->diag, dir, &one);
}

bool native_emit(Job *j, const char *keep)
{
    rlx_assert(j->plan != NULL && j->host.parts >= 1);
    enum { KERNELS = 8, MOST_PARTS = 8 }; // fewer kernels are not worth a compiler of their own
    const uint32_t worth = j->plan->kernels.len / KERNELS, here = children_processors();
    const uint32_t most = here < MOST_PARTS ? here : MOST_PARTS;
    if (keep == NULL && !j->target->caps.is_gpu && j->host.parts == 1)
        j->host.parts = worth < 1 ? 1 : worth < most ? worth : most;
    return job_emit(j);
}

// Before anything is written for it.
static bool check_compiler(Job *j)
{
    const char *cc = native_compiler(), *from = getenv("CC");
    const char *program = tool_of_command(j->cli->arena, cc);
    if (tool_find(j->cli->arena, program) != NULL)
        return true;
    diag_error(j->cli->diag, (Span){0}, E0005, "there is no C compiler: '%s'%s was not found",
               program,
               from != NULL && from[0] != '\0' ? ", which CC names," : " (CC is not set)");
    diag_note(j->cli->diag, (Span){0},
              "install one, or set CC to its command; `rlxc compile` writes C without one");
    return false;
}

// The compiler with the options that all of its calls have.
static void add_compiler(Job *j, Strings *argv)
{
    Arena *a = j->cli->arena;
    tool_add_command(a, native_compiler(), argv);
    native_add_words(a, "-O3 -std=gnu99 -shared -fPIC -w", argv);
    native_add_words(a, j->host.cc_flags, argv);
    if (j->cc_more != NULL)
        vec_push(a, argv, j->cc_more);
}

// NAME.c or NAME_2.c ...
static const char *part_name(Job *j, uint32_t part, const char *suffix)
{
    rlx_assert(part >= 1 && part <= j->host.parts);
    Arena *a = j->cli->arena;
    return part == 1 ? arena_printf(a, "%s%s", j->host.name, suffix)
                     : arena_printf(a, "%s_%u%s", j->host.name, part, suffix);
}

// Parts become objects, side by side.
static bool compile_parts(Job *j, const char *dir)
{
    Arena *a = j->cli->arena;
    ChildCommands commands = {0};
    for (uint32_t part = 1; part <= j->host.parts; part++) {
        Strings argv = {0};
        const char *source = part_name(j, part, ".c");
        add_compiler(j, &argv);
        vec_push(a, &argv, "-c");
        vec_push(a, &argv, source);
        vec_push(a, &argv, "-o");
        vec_push(a, &argv, part_name(j, part, ".part.o"));
        vec_push(a, &argv, NULL);
        vec_push(a, &commands.list, ((ChildCommand){argv.data, source}));
    }
    return children_run(j->cli->diag, dir, &commands);
}

static bool compile_library(Job *j, const char *dir, const char *library)
{
    Arena *a = j->cli->arena;
    Strings argv = {0};
    cli_progress("compiling the generated C");
    if (j->host.parts > 1 && !compile_parts(j, dir))
        return false;
    add_compiler(j, &argv);
    for (uint32_t part = 1; part <= j->host.parts; part++)
        vec_push(a, &argv, part_name(j, part, j->host.parts > 1 ? ".part.o" : ".c"));
    for (uint32_t i = 0; i < j->emitted.files.len; i++)
        if (str_ends_with(j->emitted.files.data[i].name, ".o"))
            vec_push(a, &argv, j->emitted.files.data[i].name);
    vec_push(a, &argv, "-o");
    vec_push(a, &argv, library);
    vec_push(a, &argv, "-lm");
    return native_start(j, dir, &argv, part_name(j, 1, ".c"));
}

// --- the cache -----------------------------------------------------------------------------------

static bool add_to_key(void *ctx, const void *bytes, size_t n)
{
    content_hash_add(ctx, bytes, n);
    return true;
}

// A key made from everything that decides about the library's bytes.
static const char *content_key(Job *j)
{
    Arena *a = j->cli->arena;
    ContentHash *h = content_hash_new(a);
    content_hash_add_text(h, tool_identity(a, native_compiler()));
    content_hash_add_text(h, j->host.cc_flags);
    content_hash_add_text(h, j->cc_more != NULL ? j->cc_more : "");
    for (uint32_t i = 0; i < j->emitted.files.len; i++) {
        content_hash_add_text(h, j->emitted.files.data[i].name);
        host_stream(&j->emitted.files.data[i], add_to_key, h);
    }
    return content_hash_text(a, h);
}

// Loaded from where it is made: in the cache another process may remove it, to make room.
static bool make_in_cache(Job *j, const CacheFolder *f, const char *key, Native *out)
{
    Arena *a = j->cli->arena;
    WorkFolder work;
    if (!work_folder_make(j->cli->diag, f->path, &work))
        return false;
    const char *made = arena_printf(a, "%s/model.so", work.path);
    bool ok = job_write(j, work.path) && compile_library(j, work.path, made);
    if (!ok)
        diag_note(j->cli->diag, (Span){0}, "the folder has been removed; `rlxc verify --keep DIR` keeps it");
    ok = ok && native_load(j, made, out) && libraries_keep(j->cli->diag, f, key, made) != NULL;
    work_folder_remove(&work);
    return ok;
}

static bool open_in_cache(Job *j, Native *out)
{
    CacheFolder f;
    if (!libraries_open(j->cli, &f))
        return false;
    rlx_assert(j->emitted.files.len != 0);
    const char *key = content_key(j), *library = libraries_find(&f, key);
    out->library = library != NULL ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : NULL;
    out->was_cached = out->library != NULL;
    return out->was_cached ? native_load(j, library, out) : make_in_cache(j, &f, key, out);
}

bool native_build(Job *j, const char *keep, const char **library)
{
    if (!job_write(j, keep))
        return false;
    char *full = realpath(keep, NULL);
    if (full == NULL)
        return diag_error(j->cli->diag, (Span){0}, E0002, "folder %s: %s", keep, strerror(errno));
    *library = arena_printf(j->cli->arena, "%s/%s.so", full, j->host.name);
    free(full);
    return compile_library(j, keep, *library);
}

// --- loading -------------------------------------------------------------------------------------

static void *aligned_block(Arena *a, size_t n)
{
    char *p = arena_alloc(a, n + RLX_ALIGNMENT);
    return p + (RLX_ALIGNMENT - (uintptr_t)p % RLX_ALIGNMENT) % RLX_ALIGNMENT;
}

typedef struct Filled {
    char *at;
} Filled;

static bool add_weights(void *filled, const void *bytes, size_t n)
{
    Filled *f = filled;
    memcpy(f->at, bytes, n);
    f->at += n;
    return true;
}

// Weights that are not in the library: as the program would map their file. NULL: there are none.
static const void *bring_weights(Job *j, size_t *n)
{
    const bool is_file = j->emitted.weights == WEIGHTS_FILE;
    *n = j->plan->file != NULL ? j->plan->file->len : 0;
    for (uint32_t i = 0; i < j->emitted.files.len && is_file; i++) {
        const EmittedFile *f = &j->emitted.files.data[i];
        if (f->plan == NULL || f->is_experts)
            continue;
        Filled filled = {aligned_block(j->cli->arena, f->len)};
        const void *begin = filled.at;
        *n = f->len;
        host_stream(f, add_weights, &filled);
        rlx_assert(filled.at == (const char *)begin + f->len);
        return begin;
    }
    return j->plan->file != NULL ? j->plan->file->data : NULL;
}

// What feeds_read found, for all runs of the context.
static bool set_params(Job *j, Native *n)
{
    for (uint32_t i = 0; j->params != NULL && i < n->model->n_params; i++) {
        const rlx_tensor *p = &n->model->params[i];
        const Tensor *given = feeds_param(j, p->name);
        const rlx_status status =
            given != NULL ? rlx_set_param_bytes(&n->ctx, p->name, given->data, p->bytes) : RLX_OK;
        if (status != RLX_OK)
            return diag_error(j->cli->diag, (Span){0}, E0402,
                              "the generated code refused the value of parameter '%s': %s", p->name,
                              rlx_status_text(status));
    }
    return true;
}

static bool bind(Job *j, Native *n)
{
    rlx_assert(n->model != NULL);
    Arena *a = j->cli->arena;
    const rlx_model *m = n->model;
    size_t bytes = 0;
    const void *weights = bring_weights(j, &bytes);
    if (j->is_on_cpu) // Metal's replacement makes a folder for what it compiles
        interrupt_hold();
    const rlx_status status = rlx_init(&n->ctx, m, aligned_block(a, m->arena_bytes), m->arena_bytes,
                                       aligned_block(a, m->state_bytes), m->state_bytes, weights, bytes);
    if (j->is_on_cpu)
        interrupt_release();
    if (status != RLX_OK)
        return diag_error(j->cli->diag, (Span){0}, E0005, "the generated library cannot be initialised: %s",
                          rlx_status_text(status));
    return set_params(j, n);
}

// A function of the library, as what it is.
static void find_function(Job *j, const Native *n, const char *suffix, void *function)
{
    void *found = dlsym(n->library, arena_printf(j->cli->arena, "%s_%s", j->host.name, suffix));
    memcpy(function, &found, sizeof found);
}

// As many threads as the model was compiled for, and as there are processors.
static bool start_threads(Job *j, Native *n)
{
    rlx_status (*start)(rlx_ctx * ctx, rlx_pool * pool) = NULL;
    if (j->caps.threads == 1)
        return true;
    n->pool = aligned_block(j->cli->arena, sizeof *n->pool);
    find_function(j, n, "threads_start", &start);
    find_function(j, n, "threads_stop", &n->stop_threads);
    if (start == NULL || n->stop_threads == NULL || start(&n->ctx, n->pool) != RLX_OK)
        return diag_error(j->cli->diag, (Span){0}, E0005,
                          "the threads of the generated library do not start");
    return true;
}

bool native_load(Job *j, const char *library, Native *out)
{
    rlx_assert(out->library != NULL || library != NULL);
    if (!custom_may_run(j))
        return false;
    if (out->library == NULL)
        out->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    const char *symbol = arena_printf(j->cli->arena, "%s_model", j->host.name);
    out->model = out->library != NULL ? dlsym(out->library, symbol) : NULL;
    if (out->model == NULL)
        return diag_error(j->cli->diag, (Span){0}, E0005, "cannot load %s: %s", library, dlerror());
    return bind(j, out) && start_threads(j, out);
}

bool native_check_cpu(const Job *j)
{
    CpuInfo here;
    if (!custom_may_run(j))
        return false;
    if (cpu_runs_here(&j->cpu) || !cpu_find("native", &here))
        return true;
    return diag_error(j->cli->diag, (Span){0}, E0302, "--cpu %s: this machine cannot run it, only up to %s",
                      j->cpu.name, here.name);
}

bool native_open(Job *j, const char *keep, Native *out)
{
    const char *library = NULL;
    *out = (Native){0};
    if (!custom_may_run(j) || !check_compiler(j))
        return false;
    if (j->target->device == DEVICE_METAL && !metal_cpu_prepare(j))
        return false;
    if (keep == NULL)
        return open_in_cache(j, out);
    return native_build(j, keep, &library) && native_load(j, library, out);
}

void native_close(Native *n)
{
    if (n->stop_threads != NULL)
        n->stop_threads(&n->ctx);
    if (n->ctx.model != NULL)
        rlx_close(&n->ctx);
    if (n->library != NULL)
        dlclose(n->library);
}

bool native_set_sizes(Job *j, Native *n, const int64_t *values)
{
    rlx_assert(n->model != NULL);
    const uint32_t count = n->model->symbols != NULL ? n->model->symbols->n : 0;
    const rlx_status status = rlx_set_symbols(&n->ctx, values, count);
    return status == RLX_OK ||
           diag_error(j->cli->diag, (Span){0}, E0402, "the generated code refused the sizes: %s",
                      rlx_status_text(status));
}

bool native_run(Job *j, Native *n, const Tensor *inputs, Tensor *outputs)
{
    const rlx_model *m = n->model;
    rlx_assert(m->n_inputs == j->plan->inputs.len);
    const void **data = ARENA_ARRAY(j->cli->arena, const void *, m->n_inputs + 1);
    for (uint32_t i = 0; i < m->n_inputs; i++)
        data[i] = inputs[i].data;
    const rlx_status status = rlx_run_slots(&n->ctx, data, NULL);
    if (status == RLX_ERR_PARAM)
        return diag_error(j->cli->diag, (Span){0}, E0402, "parameter '%s' has no value",
                          rlx_missing_param(&n->ctx));
    if (rlx_failed_check(&n->ctx) != NULL && (status == RLX_ERR_VALUE || status == RLX_ERR_RANGE))
        return diag_error(j->cli->diag, (Span){0}, E0403, "%s", rlx_failed_check(&n->ctx));
    if (status != RLX_OK)
        return diag_error(j->cli->diag, (Span){0}, E0402, "the generated code refused to run: %s",
                          rlx_status_text(status));
    for (uint32_t i = 0; i < m->n_outputs; i++) {
        const PlanIo *io = &j->plan->outputs.data[i];
        int64_t shape[RLX_MAX_RANK];
        rlx_assert(i < j->plan->outputs.len && io->rank <= RLX_MAX_RANK);
        outputs[i] = (Tensor){.dtype = io->dtype, .rank = io->rank, .numel = 1};
        rlx_output_shape(&n->ctx, i, shape);
        for (uint32_t k = 0; k < io->rank; k++) {
            outputs[i].dim[k] = shape[k];
            outputs[i].numel *= shape[k];
        }
        outputs[i].data = n->ctx.arena + n->ctx.model->outputs[i].offset;
    }
    return true;
}
