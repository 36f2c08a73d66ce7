// SPDX-License-Identifier: Apache-2.0
// See shards.h: {"metadata": {...}, "weight_map": {"tensor": "file.safetensors", ...}}. Files are relative to
// the index and stay in its folder.
#include "compiler/import/tensors/shards.h"
#include "compiler/system/json_scan.h"
#include "compiler/system/rawfile.h"

#include <string.h>

bool shards_is_index(const char *name)
{
    return str_ends_with(name, ".safetensors.index.json");
}

static bool fail(Diag *d, Span where, const char *index, const char *why)
{
    return diag_error(d, where, E0105, "'%s' is not a good index of .safetensors files: %s", index, why);
}

static const cJSON *weight_map(const cJSON *tree)
{
    for (const cJSON *m = cJSON_IsObject(tree) ? tree->child : NULL; m; m = m->next)
        if (strcmp(m->string, "weight_map") == 0 && cJSON_IsObject(m))
            return m;
    return NULL;
}

static bool read_index(Arena *a, Diag *d, Span where, const char *path, Map *files)
{
    RawFile f;
    size_t at = 0;
    const char *why = NULL;
    if (!rawfile_open(a, d, where, path, &f))
        return false;
    if (json_check(f.data, f.len, &at, &why) != JSON_FINE)
        return fail(d, where, path, arena_printf(a, "it is not JSON: byte %zu: %s", at, why));
    const cJSON *map = weight_map(json_parse(a, f.data, f.len, &at));
    if (!map)
        return fail(d, where, path, "expected the member 'weight_map', an object of tensor to file");
    for (const cJSON *m = map->child; m; m = m->next) {
        if (!cJSON_IsString(m))
            return fail(d, where, path, arena_printf(a, "the file of '%s' is not a string", m->string));
        map_put_str(a, files, m->string, (uint64_t)(uintptr_t)m->valuestring);
    }
    return true;
}

const char *shards_find(Arena *a, Diag *d, Span where, const char *index, const char *tensor, Map *indexes)
{
    uint64_t known = 0, name = 0;
    if (!map_get_str(indexes, index, &known)) { // each is read, and complained about, once
        Map *files = ARENA_NEW(a, Map);
        if (read_index(a, d, where, index, files))
            known = (uint64_t)(uintptr_t)files;
        map_put_str(a, indexes, index, known);
    }
    const Map *files = (const Map *)(uintptr_t)known;
    if (!files)
        return NULL;
    if (!map_get_str(files, tensor, &name)) {
        diag_error(d, where, E0105, "the index '%s' names no file for the tensor '%s'", index, tensor);
        return NULL;
    }
    const char *file = (const char *)(uintptr_t)name;
    const char *path = rawfile_resolve(a, rawfile_folder(a, index), file);
    if (!path || !str_ends_with(file, ".safetensors")) {
        fail(d, where, index, arena_printf(a, "'%s' is no .safetensors file in its folder", file));
        return NULL;
    }
    return path;
}
