// SPDX-License-Identifier: Apache-2.0
// See nvrtc.h.
#include "compiler/images/nvrtc.h"
#include "compiler/cli/cli.h"
#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

enum { KIND_PTX = 0, KIND_EXACT = 0x1000 }; // RLX_CUDA_PTX, RLX_CUDA_EXACT
static const char ptx_arch[] = "compute_80";

typedef struct Api {
    int (*create)(void **program, const char *text, const char *name, int n, const char *const *headers,
                  const char *const *names);
    int (*compile)(void *program, int n, const char *const *options);
    int (*log_size)(void *program, size_t *size);
    int (*log)(void *program, char *text);
    int (*cubin_size)(void *program, size_t *size);
    int (*cubin)(void *program, char *bytes);
    int (*ptx_size)(void *program, size_t *size);
    int (*ptx)(void *program, char *text);
    int (*destroy)(void **program);
    const char *(*error)(int code);
} Api;

static const char *const functions[] = {"nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcGetProgramLogSize",
                                        "nvrtcGetProgramLog", "nvrtcGetCUBINSize",   "nvrtcGetCUBIN",
                                        "nvrtcGetPTXSize",    "nvrtcGetPTX",         "nvrtcDestroyProgram",
                                        "nvrtcGetErrorString"};

// --- the library ---------------------------------------------------------------------------------

// Where the wheel or the toolkit may be; $ words are environment variables, which must be set.
static const char *const places[] = {
    "$RLXC_NVRTC",
    "$RLXC_VENV/lib/python3*/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
    "$VIRTUAL_ENV/lib/python3*/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
    "$CUDA_HOME/lib64/libnvrtc.so",
    "$CUDA_PATH/lib64/libnvrtc.so",
    "/usr/local/cuda/lib64/libnvrtc.so",
    "$HOME/.local/lib/python3*/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
    "/usr/local/lib/python3*/*-packages/nvidia/cu13/lib/libnvrtc.so.13",
    "/usr/lib/python3*/*-packages/nvidia/cu13/lib/libnvrtc.so.13",
};

// The pattern without its variable; NULL where that is not set.
static const char *resolve(Arena *a, const char *place)
{
    const size_t n = place[0] == '$' ? strcspn(place + 1, "/") : 0;
    if (n == 0)
        return place;
    const char *value = getenv(arena_strndup(a, place + 1, n));
    return value != NULL && value[0] != '\0' ? arena_printf(a, "%s%s", value, place + 1 + n) : NULL;
}

// The wheel's library does not say where its other half is: that is loaded first.
static void *open_library(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    glob_t found = {0};
    if (slash != NULL &&
        glob(arena_printf(a, "%.*s/libnvrtc-builtins.so.*", (int)(slash - path), path), 0, NULL, &found) == 0)
        (void)dlopen(found.gl_pathv[0], RTLD_NOW | RTLD_GLOBAL);
    if (slash != NULL)
        globfree(&found);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *find_library(Arena *a)
{
    void *library = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places && library == NULL; i++) {
        const char *pattern = resolve(a, places[i]);
        glob_t found = {0};
        if (pattern == NULL)
            continue;
        if (glob(pattern, 0, NULL, &found) == 0)
            library = open_library(a, found.gl_pathv[found.gl_pathc - 1]);
        globfree(&found);
    }
    if (library == NULL)
        library = dlopen("libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL);
    return library != NULL ? library : dlopen("libnvrtc.so.12", RTLD_NOW | RTLD_LOCAL);
}

// What the loader says of a library that it cannot load.
static const char *why_not(const char *path)
{
    const char *message = dlopen(path, RTLD_NOW | RTLD_LOCAL) == NULL ? dlerror() : NULL;
    return message != NULL ? message : "it is no path of a file";
}

static bool load(const Nvrtc *n, Api *api)
{
    void *library = find_library(n->arena);
    if (library == NULL) {
        const char *named = getenv("RLXC_NVRTC");
        diag_error(n->diag, (Span){0}, E0005, "--target cuda: no NVRTC is installed here");
        if (named != NULL && named[0] != '\0')
            diag_note(n->diag, (Span){0}, "$RLXC_NVRTC names '%s', which cannot be loaded: %s", named,
                      why_not(named));
        diag_note(n->diag, (Span){0},
                  "it is in the CUDA toolkit, and in a wheel that needs no GPU: "
                  "pip install nvidia-cuda-nvrtc==13.0.88 ($RLXC_NVRTC can name libnvrtc.so.13)");
        diag_note(n->diag, (Span){0}, "--gpu text writes the kernels as text only");
        return false;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(library, functions[i]);
        if (found == NULL)
            return diag_error(n->diag, (Span){0}, E0005, "NVRTC is too old: it has no %s", functions[i]);
        memcpy((unsigned char *)api + i * sizeof found, &found, sizeof found);
    }
    return true;
}

// --- compiling -----------------------------------------------------------------------------------

static const char *log_of(const Nvrtc *n, const Api *api, void *program)
{
    size_t size = 0;
    if (api->log_size(program, &size) != 0)
        return "";
    char *text = arena_alloc(n->arena, size + 1);
    return api->log(program, text) == 0 ? text : "";
}

static bool take(const Nvrtc *n, void *program, bool is_ptx, const Api *api, GpuImage *out)
{
    size_t size = 0;
    const int sized = is_ptx ? api->ptx_size(program, &size) : api->cubin_size(program, &size);
    char *bytes = arena_alloc(n->arena, size + 1);
    const int taken = sized != 0 ? sized : is_ptx ? api->ptx(program, bytes) : api->cubin(program, bytes);
    out->data = bytes;
    out->len = size;
    return (taken == 0 && size != 0) ||
           diag_error(n->diag, (Span){0}, E0005, "NVRTC returned no code: %s", api->error(taken));
}

static bool compile_for(const Nvrtc *n, const Api *api, const char *text, const char *arch, GpuImage *out)
{
    void *program = NULL;
    const char *options[] = {arena_printf(n->arena, "--gpu-architecture=%s", arch)};
    int code = api->create(&program, text, "kernels.cu", 0, NULL, NULL);
    if (code == 0)
        code = api->compile(program, 1, options);
    const bool ok = code == 0 ? take(n, program, strncmp(arch, "compute_", 8) == 0, api, out)
                              : diag_error(n->diag, (Span){0}, E0005, "NVRTC for %s: %s\n%s", arch,
                                           api->error(code), program != NULL ? log_of(n, api, program) : "");
    if (program != NULL)
        api->destroy(&program);
    return ok;
}

bool nvrtc_compile(void *ctx, const char *text, const char *const *names, uint32_t n_names, GpuImages *out)
{
    const Nvrtc *n = ctx;
    (void)names, (void)n_names;
    Api api;
    if (n->gpus.n == 0)
        return true;
    if (!load(n, &api))
        return false;
    for (uint32_t i = 0; i < n->gpus.n; i++) {
        cli_progress(arena_printf(n->arena, "compiling kernels for %s (%u of %u)", n->gpus.name[i], i + 1,
                                  n->gpus.n + 1));
        GpuImage image = {.kind = n->gpus.kind[i], .label = n->gpus.name[i]};
        if (!compile_for(n, &api, text, n->gpus.name[i], &image))
            return false;
        vec_push(n->arena, out, image);
    }
    cli_progress("compiling kernels to PTX");
    GpuImage ptx = {.kind = KIND_PTX, .label = "ptx"};
    if (!compile_for(n, &api, text, ptx_arch, &ptx))
        return false;
    vec_push(n->arena, out, ptx);
    return true;
}

// --- --gpu ---------------------------------------------------------------------------------------

// "sm_80", "sm_90a".
static bool read_gpu(Arena *a, const char *text, size_t len, NvrtcGpus *out)
{
    uint32_t arch = 0;
    size_t at = 3;
    if (len < 5 || strncmp(text, "sm_", 3) != 0)
        return false;
    for (; at < len && text[at] >= '0' && text[at] <= '9' && at < 6; at++)
        arch = arch * 10 + (uint32_t)(text[at] - '0');
    const bool is_exact = at + 1 == len && text[at] == 'a';
    if (arch < 50 || (at != len && !is_exact) || out->n == NVRTC_MAX_GPUS)
        return false;
    for (uint32_t i = 0; i < out->n; i++)
        if (strlen(out->name[i]) == len && strncmp(out->name[i], text, len) == 0)
            return false;
    out->name[out->n] = arena_strndup(a, text, len);
    out->kind[out->n++] = arch | (is_exact ? KIND_EXACT : 0);
    return true;
}

bool nvrtc_read_gpus(Arena *a, const char *list, NvrtcGpus *out)
{
    *out = (NvrtcGpus){0};
    if (strcmp(list, "text") == 0)
        return true;
    for (const char *at = list;;) {
        const size_t n = strcspn(at, ",");
        if (!read_gpu(a, at, n, out))
            return false;
        if (at[n] == '\0')
            return true;
        at += n + 1;
    }
}

uint32_t nvrtc_newest(const NvrtcGpus *gpus)
{
    uint32_t newest = 0;
    for (uint32_t i = 0; i < gpus->n; i++) {
        const uint32_t arch = gpus->kind[i] & ~(uint32_t)KIND_EXACT;
        newest = arch > newest ? arch : newest;
    }
    return newest;
}
