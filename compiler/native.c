// SPDX-License-Identifier: Apache-2.0
// See native.h. The compiler is started directly (no shell), in the folder of the sources, so that .incbin
// finds the weights.
#include "compiler/native.h"
#include "base/map.h"
#include "compiler/import/rawfile.h"
#include "compiler/metal_cpu.h"
#include "compiler/output.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
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
    vec_push(j->cli->arena, argv, NULL);
    const char *program = argv->data[0];
    const pid_t child = fork();
    if (child == 0) {
        if (chdir(dir) == 0)
            execvp(program, (char *const *)(uintptr_t)argv->data);
        fprintf(stderr, "cannot start %s: %s\n", program, strerror(errno));
        _exit(127);
    }
    int status = 0;
    pid_t ended = child;
    do
        ended = child < 0 ? child : waitpid(child, &status, 0);
    while (ended < 0 && child >= 0 && errno == EINTR);
    if (ended < 0)
        return diag_error(j->cli->diag, (Span){0}, E0005, "cannot start %s: %s", program, strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return diag_error(j->cli->diag, (Span){0}, E0005, "%s failed on %s in %s", program, what, dir);
    return true;
}

static bool compile_library(Job *j, const char *dir, const char *library)
{
    Arena *a = j->cli->arena;
    Strings argv = {0};
    native_add_words(a, native_compiler(), &argv);
    native_add_words(a, "-O3 -std=gnu99 -shared -fPIC -w", &argv);
    native_add_words(a, j->host.cc_flags, &argv);
    const char *source = arena_printf(a, "%s.c", j->host.name);
    if (j->cc_more != NULL)
        vec_push(a, &argv, j->cc_more);
    vec_push(a, &argv, source);
    vec_push(a, &argv, "-o");
    vec_push(a, &argv, library);
    vec_push(a, &argv, "-lm");
    cli_progress("compiling the generated C");
    return native_start(j, dir, &argv, source);
}

// --- the cache -----------------------------------------------------------------------------------

static const char *cache_dir(Arena *a)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (xdg != NULL && xdg[0] == '/')
        return arena_printf(a, "%s/rlxc", xdg);
    if (home != NULL && home[0] == '/')
        return arena_printf(a, "%s/.cache/rlxc", home);
    return arena_printf(a, "/tmp/rlxc-cache-%u", (unsigned)geteuid());
}

// Libraries are loaded from the cache: nobody else may be able to put one there.
const char *native_cache(Job *j)
{
    const char *cache = cache_dir(j->cli->arena);
    struct stat st;
    if (!output_make_dir(j->cli->diag, cache))
        return NULL;
    if (stat(cache, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & S_IWOTH) == 0)
        return cache;
    diag_error(j->cli->diag, (Span){0}, E0002,
               "folder %s: it belongs to another user, or others can write to it", cache);
    return NULL;
}

typedef struct Key {
    uint64_t h, h2;
} Key;

static bool add_to_key(void *ctx, const void *bytes, size_t n)
{
    Key *k = ctx;
    k->h = hash_bytes64(bytes, n, k->h);
    k->h2 = hash_bytes64(bytes, n, k->h2 + n);
    return true;
}

// Key of everything that decides about the library's bytes.
static const char *content_key(Job *j)
{
    Key k = {hash_bytes64(native_compiler(), strlen(native_compiler()), 1), 2};
    k.h = hash_bytes64(j->host.cc_flags, strlen(j->host.cc_flags), k.h);
    if (j->cc_more != NULL)
        k.h = hash_bytes64(j->cc_more, strlen(j->cc_more), k.h);
    for (uint32_t i = 0; i < j->emitted.files.len; i++)
        host_stream(&j->emitted.files.data[i], add_to_key, &k);
    return arena_printf(j->cli->arena, "%016llx%016llx", (unsigned long long)k.h, (unsigned long long)k.h2);
}

static bool build_in_cache(Job *j, const char **library, bool *was_cached)
{
    Arena *a = j->cli->arena;
    const char *cache = native_cache(j);
    if (cache == NULL)
        return false;
    *library = arena_printf(a, "%s/%s.so", cache, content_key(j));
    *was_cached = access(*library, R_OK) == 0;
    if (*was_cached)
        return true;
    char *dir = arena_printf(a, "%s/build-XXXXXX", cache);
    if (mkdtemp(dir) == NULL)
        return diag_error(j->cli->diag, (Span){0}, E0002, "folder %s: %s", dir, strerror(errno));
    const char *made = arena_printf(a, "%s/model.so", dir);
    bool ok = job_write(j, dir) && compile_library(j, dir, made);
    if (ok && rename(made, *library) != 0)
        ok = diag_error(j->cli->diag, (Span){0}, E0002, "%s: %s", *library, strerror(errno));
    for (uint32_t i = 0; i < j->emitted.files.len; i++)
        unlink(output_path(a, dir, j->emitted.files.data[i].name));
    unlink(made);
    if (rmdir(dir) == 0 && !ok)
        diag_note(j->cli->diag, (Span){0}, "the folder is gone; `rlxc verify --keep DIR` leaves its own");
    return ok;
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

static bool bind(Job *j, Native *n)
{
    Arena *a = j->cli->arena;
    const rlx_model *m = n->model;
    const rlx_status status = rlx_init(&n->ctx, m, aligned_block(a, m->arena_bytes), m->arena_bytes,
                                       aligned_block(a, m->state_bytes), m->state_bytes, NULL, 0);
    if (status != RLX_OK)
        return diag_error(j->cli->diag, (Span){0}, E0005, "the generated library cannot be initialised: %s",
                          rlx_status_text(status));
    return true;
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
    if (cpu_runs_here(&j->cpu) || !cpu_find("native", &here))
        return true;
    return diag_error(j->cli->diag, (Span){0}, E0302, "--cpu %s: this machine cannot run it, only up to %s",
                      j->cpu.name, here.name);
}

bool native_open(Job *j, const char *keep, Native *out)
{
    const char *library = NULL;
    *out = (Native){0};
    if (j->target == &target_metal && !metal_cpu_prepare(j))
        return false;
    if (keep != NULL ? !native_build(j, keep, &library) : !build_in_cache(j, &library, &out->was_cached))
        return false;
    return native_load(j, library, out);
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
    const uint32_t count = n->model->symbols != NULL ? n->model->symbols->n : 0;
    const rlx_status status = rlx_set_symbols(&n->ctx, values, count);
    return status == RLX_OK ||
           diag_error(j->cli->diag, (Span){0}, E0402, "the generated code refused the sizes: %s",
                      rlx_status_text(status));
}

bool native_run(Job *j, Native *n, const Tensor *inputs, Tensor *outputs)
{
    const rlx_model *m = n->model;
    const void **data = ARENA_ARRAY(j->cli->arena, const void *, m->n_inputs + 1);
    for (uint32_t i = 0; i < m->n_inputs; i++)
        data[i] = inputs[i].data;
    const rlx_status status = rlx_run_slots(&n->ctx, data, NULL);
    if (status == RLX_ERR_PARAM)
        return diag_error(j->cli->diag, (Span){0}, E0402, "parameter '%s' has no value",
                          rlx_missing_param(&n->ctx));
    if (status == RLX_ERR_VALUE)
        return diag_error(j->cli->diag, (Span){0}, E0403, "%s", rlx_failed_check(&n->ctx));
    if (status != RLX_OK)
        return diag_error(j->cli->diag, (Span){0}, E0402, "the generated code refused to run: %s",
                          rlx_status_text(status));
    for (uint32_t i = 0; i < m->n_outputs; i++) {
        const PlanIo *io = &j->plan->outputs.data[i];
        int64_t shape[RLX_MAX_RANK];
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
