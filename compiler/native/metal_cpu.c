// SPDX-License-Identifier: Apache-2.0
// See metal_cpu.h. The texts are the files in compiler/metal, made into arrays of lines by tools/embed.py.
#include "compiler/native/metal_cpu.h"
#include "compiler/system/children.h"
#include "compiler/system/content_hash.h"
#include "compiler/system/rawfile.h"
#include "compiler/system/libraries.h"
#include "compiler/native/metal_text.h"
#include "compiler/native/native.h"
#include "compiler/system/output.h"
#include "compiler/system/tool.h"
#include "compiler/system/trusted.h"
#include <dlfcn.h>
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
    rlx_assert(i < N_FILES);
    Str s = str_new(a);
    for (const char *const *line = files[i].lines; *line != NULL; line++)
        str_add(&s, *line);
    return str_text(&s);
}

static const char *cxx_command(void)
{
    const char *cxx = getenv("CXX");
    return cxx != NULL && cxx[0] != '\0' ? cxx : "c++";
}

// A key made from all that decides about the library, and about the kernels that it will compile.
static const char *library_key(Arena *a)
{
    ContentHash *h = content_hash_new(a);
    content_hash_add_text(h, RLXC_VERSION);
    content_hash_add_text(h, tool_identity(a, native_compiler()));
    content_hash_add_text(h, tool_identity(a, cxx_command()));
    for (uint32_t i = 0; i < N_FILES; i++)
        content_hash_add_text(h, file_text(a, i));
    return arena_printf(a, "metal-%s", content_hash_text(a, h));
}

static bool check_compiler(Job *j)
{
    Arena *a = j->cli->arena;
    const char *name = tool_of_command(a, cxx_command());
    return tool_find(a, name) != NULL ||
           diag_error(j->cli->diag, (Span){0}, E0005,
                      "there is no Metal here, so that its text is executed on the CPU: this needs a C++ "
                      "compiler, but '%s' ($CXX) is not there",
                      name);
}

// In dir/compiler/metal, so that they include each other as in rlxc's sources. Written where they differ: the
// compiler of the kernels includes some.
static bool write_files(Job *j, const char *dir)
{
    Arena *a = j->cli->arena;
    const char *folder = arena_printf(a, "%s/compiler/metal", dir);
    if (!output_make_dir(j->cli->diag, folder))
        return false;
    for (uint32_t i = 0; i < N_FILES; i++) {
        const char *text = file_text(a, i), *path = output_path(a, folder, files[i].name);
        const FilePart part = {text, strlen(text)};
        RawFile is;
        const bool is_there = trusted_is_file(path) && rawfile_peek(a, path, &is) && is.len == part.len &&
                              memcmp(is.data, text, is.len) == 0;
        if (!is_there && !rawfile_write(j->cli->diag, path, &part, 1))
            return false;
    }
    return true;
}

// NULL: reported.
static const char *build(Job *j, const CacheFolder *f, const char *key, const char *dir)
{
    Arena *a = j->cli->arena;
    Strings argv = {0};
    WorkFolder work;
    if (!work_folder_make(j->cli->diag, f->path, &work))
        return NULL;
    const char *made = output_path(a, work.path, "metal.so");
    tool_add_command(a, native_compiler(), &argv);
    native_add_words(a, "-O2 -std=gnu11 -D_GNU_SOURCE -shared -fPIC -w -I.", &argv);
    vec_push(a, &argv, arena_printf(a, "-DMETAL_SHIM=\"%s/compiler/metal\"", dir));
    vec_push(a, &argv, arena_printf(a, "-DMETAL_CACHE=\"%s\"", f->path));
    vec_push(a, &argv, "-o");
    vec_push(a, &argv, made);
    for (uint32_t i = 0; i < N_FILES; i++)
        if (str_ends_with(files[i].name, ".c"))
            vec_push(a, &argv, arena_printf(a, "compiler/metal/%s", files[i].name));
    cli_progress("compiling what executes Metal text");
    const char *library = native_start(j, dir, &argv, "what executes Metal text")
                              ? libraries_keep(j->cli->diag, f, key, made)
                              : NULL;
    work_folder_remove(&work);
    return library;
}

// It is the library that the model will find under this name. False: reported.
static bool use_children(Job *j, const char *library)
{
    bool (**run)(const char *const *words) = NULL;
    void *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void *found = opened != NULL ? dlsym(opened, "metal_run_program") : NULL;
    if (found == NULL)
        return diag_error(j->cli->diag, (Span){0}, E0005, "cannot load %s: %s", library, dlerror());
    memcpy(&run, &found, sizeof run);
    *run = children_run_program;
    return true;
}

bool metal_cpu_prepare(Job *j)
{
    Arena *a = j->cli->arena;
    CacheFolder f;
    if (access(framework, F_OK) == 0)
        return true;
    if (!check_compiler(j) || !libraries_open(j->cli, &f))
        return false;
    const char *key = library_key(a), *dir = output_path(a, f.path, key), *library = libraries_find(&f, key);
    if (!write_files(j, dir))
        return false;
    if (library == NULL && (library = build(j, &f, key, dir)) == NULL)
        return false;
    if (!use_children(j, library))
        return false;
    j->cc_more = arena_printf(a, "-DRLX_METAL_LIBRARY=\"%s\"", library);
    j->is_on_cpu = true;
    return true;
}
