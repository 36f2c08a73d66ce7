// SPDX-License-Identifier: Apache-2.0
// A GGUF file as the source of a language model. Separate from the reader, which knows nothing of models.
#include "compiler/import/gguf/gguf_model.h"

#include "compiler/import/gguf/gguf_recode.h"
#include <string.h>

static const char *const keys[LLM_KEY_COUNT] = {
#define LLM_KEY(name, key, ...) key,
#include "compiler/import/llm/llm_keys.def"
};

typedef struct GgufModel {
    GgufFile file;
    const char *arch;
    Map asked;   // names of tensors that were given
    Map recoded; // where the other blocks of a tensor are
} GgufModel;

static const char *key_name(void *ctx, LlmKey key)
{
    GgufModel *m = ctx;
    return arena_printf(m->file.arena, "%s.%s", m->arch, keys[key]);
}

static bool get_number(void *ctx, LlmKey key, uint32_t layer, double *out)
{
    const GgufModel *m = ctx;
    GgufArray a;
    if (keys[key][0] == '\0')
        return false;
    const char *name = key_name(ctx, key);
    bool is_set = false;
    if (gguf_float(&m->file, name, out))
        return true;
    if (gguf_bool(&m->file, name, &is_set)) {
        *out = is_set;
        return true;
    }
    if (!gguf_array(&m->file, name, &a) || a.type == GGUF_string || a.type == GGUF_bool || layer >= a.n)
        return false;
    *out = gguf_array_float(&a, layer);
    return true;
}

static const char *get_text(void *ctx, LlmKey key)
{
    const GgufModel *m = ctx;
    return gguf_string(&m->file, key_name(ctx, key));
}

static const char *tensor_name(void *ctx, LlmPlace place)
{
    GgufModel *m = ctx;
    const char *name = llm_roles[place.role].name, *ending = place.is_bias ? "bias" : "weight";
    return llm_roles[place.role].is_of_layer
               ? arena_printf(m->file.arena, "blk.%u.%s.%s", place.layer, name, ending)
               : arena_printf(m->file.arena, "%s.%s", name, ending);
}

static const char *unasked(void *ctx)
{
    const GgufModel *m = ctx;
    uint64_t v = 0;
    for (uint32_t i = 0; i < m->file.tensors.len; i++)
        if (!map_get_str(&m->asked, m->file.tensors.data[i].name, &v))
            return m->file.tensors.data[i].name;
    return NULL;
}

// In other blocks, which are made once.
static void set_recoded(GgufModel *m, const GgufTensor *t, const GgufRecode *r, LlmTensor *out)
{
    uint64_t at = 0;
    if (!map_get_str(&m->recoded, t->name, &at)) {
        at = (uintptr_t)gguf_recode_blocks(m->file.arena, r, t->data, t->bytes / t->type->bytes);
        map_put_str(m->file.arena, &m->recoded, t->name, at);
    }
    out->is_known = true;
    out->data = (const void *)(uintptr_t)at;
    out->format = r->format;
    out->elements = r->elements;
    out->bytes = r->bytes;
}

void gguf_describe(Arena *a, const GgufTensor *t, LlmTensor *out)
{
    *out = (LlmTensor){.rank = t->rank, .data = t->data};
    for (uint32_t i = 0; i < t->rank; i++)
        out->dim[i] = (int64_t)t->dim[t->rank - 1 - i];
    if (t->type == NULL) {
        out->type = arena_printf(a, "number %u", t->number);
        return;
    }
    out->type = t->type->name;
    out->is_known = t->type->elements == 1 || t->type->format != NULL;
    out->dtype = t->type->dtype;
    out->format = t->type->format;
    out->elements = t->type->elements;
    out->bytes = t->type->bytes;
}

static bool get_tensor(void *ctx, LlmPlace place, LlmTensor *out)
{
    GgufModel *m = ctx;
    const GgufFile *f = &m->file;
    const char *name = tensor_name(ctx, place);
    const GgufTensor *t = gguf_tensor(f, name);
    if (t == NULL && str_ends_with(name, ".weight")) // some have no ending
        t = gguf_tensor(f, arena_strndup(f->arena, name, strlen(name) - strlen(".weight")));
    if (t == NULL)
        return false;
    map_put_str(f->arena, &m->asked, t->name, 1);
    gguf_describe(f->arena, t, out);
    const GgufRecode *recode = t->type != NULL ? gguf_recode(t->type->name) : NULL;
    if (recode != NULL)
        set_recoded(m, t, recode, out);
    return true;
}

bool import_gguf(Arena *a, Diag *d, const GgufSource *source, Graph **out)
{
    GgufModel *m = ARENA_NEW(a, GgufModel);
    *out = NULL;
    if (!gguf_read(a, d, source->name, source->data, source->len, &m->file))
        return false;
    m->arch = gguf_string(&m->file, "general.architecture");
    const LlmSource model = {.ctx = m,
                             .span = m->file.parts.data[0].span,
                             .arch = m->arch,
                             .number = get_number,
                             .text = get_text,
                             .tensor = get_tensor,
                             .key_name = key_name,
                             .tensor_name = tensor_name,
                             .unasked = unasked};
    return import_llm(a, d, &model, &source->options, out);
}
