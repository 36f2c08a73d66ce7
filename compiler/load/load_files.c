// SPDX-License-Identifier: Apache-2.0
// What the files of a model say: tensors, and sums over what a program compares. Separate for the two kinds
// of files that models come in.
#include "compiler/import/gguf/gguf.h"
#include "compiler/import/hf/hf.h"
#include "compiler/load/load.h"
#include "compiler/system/rawfile.h"
#include "runtime-lite/load/rlx_load_folder.h"

#include <stdlib.h>
#include <string.h>

// --- GGUF ----------------------------------------------------------------------------------------

static bool sum_gguf(const Job *j, const GgufFile *file, Load *l)
{
    for (uint32_t i = 0; i < file->parts.len; i++) {
        const GgufPart *part = &file->parts.data[i];
        rlx_load_reader r = {part->data, part->len, 0, 0};
        rlx_load_head h;
        if (!rlx_load_head_of(&r, l->arch, &h) || r.failed)
            return load_refuse(j, "expected no arrays of arrays among the entries of the file");
        l->settings += h.settings;
        l->vocabulary += h.vocabulary;
    }
    return true;
}

static bool read_gguf(Job *j, Load *l)
{
    GgufFile file;
    if (!gguf_open(j->cli->arena, j->cli->diag, j->model, &file))
        return false;
    for (uint32_t i = 0; i < file.tensors.len; i++) {
        const GgufTensor *from = &file.tensors.data[i];
        LoadTensor t = {.name = from->name, .type = from->number, .bytes = from->bytes, .data = from->data};
        memcpy(t.dim, from->dim, sizeof t.dim);
        vec_push(j->cli->arena, &l->tensors, t);
    }
    l->arch = gguf_string(&file, "general.architecture");
    return sum_gguf(j, &file, l);
}

// --- folders -------------------------------------------------------------------------------------

static LoadTensor stored(const HfStored *s)
{
    const Tensor *from = s->tensor;
    const Shape shape = shape_of(from->rank, from->dim);
    const char *type = dtype_info[from->dtype].safetensors;
    LoadTensor t = {.name = s->name,
                    .dim = {1, 1, 1, 1},
                    .bytes = type_bytes(from->dtype, &shape),
                    .data = from->data,
                    .is_unused = s->is_unused};
    t.type = rlx_load_type_number((const unsigned char *)type, strlen(type));
    for (uint32_t i = 0; i < from->rank; i++)
        rlx_load_add_size(t.dim, i, (uint64_t)from->dim[i]);
    return t;
}

static bool read_folder(Job *j, Load *l)
{
    HfStoredList list = {0};
    RawFile config;
    Arena *a = j->cli->arena;
    if (!hf_stored(a, j->cli->diag, j->model, j->cli->options.signature, &list) ||
        !rawfile_open(a, j->cli->diag, (Span){0}, arena_printf(a, "%s/config.json", j->model), &config))
        return false;
    for (uint32_t i = 0; i < list.len; i++)
        vec_push(a, &l->tensors, stored(&list.data[i]));
    rlx_load_reader r = {(const unsigned char *)config.data, config.len, 0, 0};
    l->settings = rlx_load_config_sum(&r);
    return !r.failed || load_refuse(j, "expected an object in config.json");
}

// --- both ----------------------------------------------------------------------------------------

static int by_name(const void *a, const void *b)
{
    const LoadTensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

bool load_read_files(Job *j, Load *l)
{
    RawFile file;
    if (!hf_is_folder(j->model) &&
        (!rawfile_peek(j->cli->arena, j->model, &file) || !gguf_is(file.data, file.len)))
        return load_refuse(j, "expected a language model in a GGUF file or a folder");
    if (!(hf_is_folder(j->model) ? read_folder(j, l) : read_gguf(j, l)))
        return false;
    if (l->tensors.len == 0 || l->tensors.len >= LOAD_NONE)
        return load_refuse(j, "expected 1 to 65534 tensors");
    qsort(l->tensors.data, l->tensors.len, sizeof *l->tensors.data, by_name);
    return true;
}
