// SPDX-License-Identifier: Apache-2.0
// See metal_cpu.h. The texts are the files in compiler/metal, made into arrays of lines by tools/embed.py.
#include "compiler/metal_cpu.h"
#include "base/map.h"
#include "compiler/import/rawfile.h"
#include "compiler/metal_text.h"
#include "compiler/native.h"
#include "compiler/output.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char framework[] = "/System/Library/Frameworks/Metal.framework";

static const struct {
    const char *name;
    const char *const *lines;
} files[] = {{"cpu_objc.h", metal_cpu_objc_h},       {"cpu_objc.c", metal_cpu_objc_c},
             {"device.h", metal_device_h},           {"device.c", metal_device_c},
             {"cpu_kernels.h", metal_cpu_kernels_h}, {"cpu_kernels.c", metal_cpu_kernels_c},
             {"cpu_metal.h", metal_cpu_metal_h},     {"cpu_metal.c", metal_cpu_metal_c},
             {"cpu_commands.c", metal_cpu_commands_c}, {"metal_stdlib", metal_stdlib_text}};
enum { N_FILES = sizeof files / sizeof *files };

static const char *file_text(Arena *a, uint32_t i)
{
    Str s = str_new(a);
    for (const char *const *line = files[i].lines; *line != NULL; line++)
        str_add(&s, *line);
    return str_text(&s);
}

// Of all that decides about the library.
static const char *library_key(Arena *a)
{
    uint64_t h = hash_bytes64(RLXC_VERSION, strlen(RLXC_VERSION), 1);
    for (uint32_t i = 0; i < N_FILES; i++) {
        const char *text = file_text(a, i);
        h = hash_bytes64(text, strlen(text), h);
    }
    return arena_printf(a, "%016llx", (unsigned long long)h);
}

static bool is_program(Arena *a, const char *name)
{
    const char *path = getenv("PATH");
    if (strchr(name, '/') != NULL)
        return access(name, X_OK) == 0;
    for (size_t n; path != NULL && *path != '\0'; path += n + (path[n] == ':')) {
        n = strcspn(path, ":");
        if (access(output_path(a, arena_strndup(a, path, n), name), X_OK) == 0)
            return true;
    }
    return false;
}

static bool check_compiler(Job *j)
{
    Arena *a = j->cli->arena;
    const char *cxx = getenv("CXX");
    const char *name = cxx != NULL && cxx[0] != '\0' ? arena_strndup(a, cxx, strcspn(cxx, " ")) : "c++";
    return is_program(a, name) ||
           diag_error(j->cli->diag, (Span){0}, E0005,
                      "there is no Metal here, so that its text is executed on the CPU: this needs a C++ "
                      "compiler, but '%s' ($CXX) is not there",
                      name);
}

// In dir/compiler/metal, so that they include each other as in rlxc's sources.
static bool write_files(Job *j, const char *dir)
{
    Arena *a = j->cli->arena;
    const char *folder = arena_printf(a, "%s/compiler/metal", dir);
    if (!output_make_dir(j->cli->diag, folder))
        return false;
    for (uint32_t i = 0; i < N_FILES; i++) {
        const char *text = file_text(a, i);
        const FilePart part = {text, strlen(text)};
        if (!rawfile_write(j->cli->diag, output_path(a, folder, files[i].name), &part, 1))
            return false;
    }
    return true;
}

static bool build(Job *j, const char *cache, const char *dir, const char *library)
{
    Arena *a = j->cli->arena;
    Strings argv = {0};
    const char *made = arena_printf(a, "%s.%u", library, (unsigned)getpid());
    if (!write_files(j, dir))
        return false;
    native_add_words(a, native_compiler(), &argv);
    native_add_words(a, "-O2 -std=gnu11 -D_GNU_SOURCE -shared -fPIC -w -I.", &argv);
    vec_push(a, &argv, arena_printf(a, "-DMETAL_SHIM=\"%s/compiler/metal\"", dir));
    vec_push(a, &argv, arena_printf(a, "-DMETAL_CACHE=\"%s\"", cache));
    vec_push(a, &argv, "-o");
    vec_push(a, &argv, made);
    for (uint32_t i = 0; i < N_FILES; i++)
        if (str_ends_with(files[i].name, ".c"))
            vec_push(a, &argv, arena_printf(a, "compiler/metal/%s", files[i].name));
    cli_progress("compiling what executes Metal text");
    bool ok = native_start(j, dir, &argv, "what executes Metal text");
    if (ok && rename(made, library) != 0)
        ok = diag_error(j->cli->diag, (Span){0}, E0002, "%s: %s", library, strerror(errno));
    unlink(made);
    return ok;
}

bool metal_cpu_prepare(Job *j)
{
    Arena *a = j->cli->arena;
    if (access(framework, F_OK) == 0)
        return true;
    const char *cache = check_compiler(j) ? native_cache(j) : NULL;
    if (cache == NULL)
        return false;
    const char *dir = arena_printf(a, "%s/metal-%s", cache, library_key(a));
    const char *library = arena_printf(a, "%s/metal.so", dir);
    if (access(library, R_OK) != 0 && !build(j, cache, dir, library))
        return false;
    j->cc_more = arena_printf(a, "-DRLX_METAL_LIBRARY=\"%s\"", library);
    j->is_on_cpu = true;
    return true;
}
