// SPDX-License-Identifier: Apache-2.0
// The files of weights of a folder: one, or those that an index names. All headers are checked before
// anything is taken from them.
#include "compiler/import/hf/hf_build.h"
#include "compiler/import/tensors/safetensors.h"
#include "compiler/system/rawfile.h"

#include <string.h>
#include <sys/stat.h>

static const char index_name[] = "model.safetensors.index.json", one_name[] = "model.safetensors";

static bool exists(HfFolder *h, const char *name)
{
    struct stat st;
    return stat(arena_printf(h->arena, "%s/%s", h->path, name), &st) == 0;
}

bool hf_is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

HfTensor *hf_find(HfFolder *h, const char *name)
{
    uint64_t i = 0;
    return map_get_str(&h->index, name, &i) ? &h->tensors.data[i] : NULL;
}

static bool add_file(HfFolder *h, Span where, const char *path, SafeTensors **out)
{
    SafeTensors *s = ARENA_NEW(h->arena, SafeTensors);
    *out = s;
    if (!safetensors_open(h->arena, h->diag, where, path, s))
        return false;
    for (uint32_t i = 0; i < s->tensors.len; i++) {
        const SafeTensor *t = &s->tensors.data[i];
        const Shape shape = shape_of(t->tensor.rank, t->tensor.dim);
        if (!map_put_str(h->arena, &h->index, t->name, h->tensors.len))
            return diag_error(h->diag, where, E0105, "'%s': another file has the tensor '%s' too", path,
                              t->name);
        vec_push(h->arena, &h->tensors, ((HfTensor){t->name, &t->tensor, false}));
        h->bytes += type_bytes(t->tensor.dtype, &shape);
    }
    return true;
}

bool hf_read_json(HfFolder *h, const char *name, JsonReader *r, JsonPlace *root)
{
    RawFile f;
    size_t at = 0;
    const char *why = "this is not JSON", *path = arena_printf(h->arena, "%s/%s", h->path, name);
    if (!rawfile_open(h->arena, h->diag, (Span){0}, path, &f))
        return false;
    const uint32_t file = diag_add_file(h->diag, path, f.data, f.len);
    *r = (JsonReader){.arena = h->arena, .diag = h->diag, .file = file, .text = f.data, .len = f.len};
    r->path = str_new(h->arena);
    *root = (JsonPlace){0};
    if (json_check(f.data, f.len, &at, &why) == JSON_FINE)
        root->item = json_parse(h->arena, f.data, f.len, &at);
    return root->item != NULL ||
           diag_error(h->diag, (Span){file, (uint32_t)at, (uint32_t)at, NULL}, E0101, "%s", why);
}

// --- the index ---

// "weight_map": each tensor is in the file that it names.
static bool read_map(HfFolder *h, JsonReader *r, const JsonPlace *map)
{
    Map opened = {0};
    JsonPlace entry = {0};
    if (!cJSON_IsObject(map->item))
        return json_wrong(r, map, "an object of tensors and their files");
    while (json_next(map, &entry)) {
        const char *file = NULL;
        uint64_t known = 0;
        if (!json_string(r, &entry, "the name of a .safetensors file", &file))
            return false;
        const char *path = rawfile_resolve(h->arena, h->path, file);
        if (path == NULL || !str_ends_with(file, ".safetensors"))
            return json_wrong(r, &entry, "a .safetensors file in the folder");
        if (!map_get_str(&opened, path, &known)) {
            SafeTensors *s = NULL;
            if (!add_file(h, json_span(r, &entry), path, &s))
                return false;
            known = (uint64_t)(uintptr_t)s;
            map_put_str(h->arena, &opened, path, known);
        }
        if (safetensors_find((const SafeTensors *)(uintptr_t)known, entry.item->string) == NULL)
            return json_error(r, &entry, E0105, "'%s' has no tensor '%s', or one of a type that rlxc lacks",
                              file, entry.item->string);
    }
    return true;
}

static bool read_index(HfFolder *h)
{
    JsonReader r;
    JsonPlace root = {0}, child = {0};
    if (!hf_read_json(h, index_name, &r, &root))
        return false;
    while (cJSON_IsObject(root.item) && json_next(&root, &child))
        if (strcmp(child.item->string, "weight_map") == 0)
            return read_map(h, &r, &child);
    return json_error(&r, &root, E0102, "expected an object with the member 'weight_map'");
}

bool hf_read_files(HfFolder *h)
{
    SafeTensors *s = NULL;
    const Span span = {.file = h->json.file};
    if (exists(h, index_name))
        return read_index(h);
    if (exists(h, one_name))
        return add_file(h, span, arena_printf(h->arena, "%s/%s", h->path, one_name), &s);
    diag_error(h->diag, (Span){0}, E0001, "'%s' has no weights: expected %s, or several files and %s",
               h->path, one_name, index_name);
    if (exists(h, "pytorch_model.bin") || exists(h, "pytorch_model.bin.index.json"))
        diag_note(h->diag, (Span){0},
                  "pytorch_model.bin holds pickled objects: write the weights anew with "
                  "save_pretrained(..., safe_serialization=True)");
    return false;
}
