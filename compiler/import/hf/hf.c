// SPDX-License-Identifier: Apache-2.0
// A folder as the source of a language model.
#include "compiler/import/hf/hf_build.h"
#include "compiler/import/llm/mel.h"

#include <math.h>
#include <sys/stat.h>

static bool get_number(void *ctx, LlmKey key, uint32_t layer, double *out)
{
    return hf_number(ctx, key, layer, out);
}

static const char *get_text(void *ctx, LlmKey key)
{
    rlx_assert(key == LLM_KEY_rope_type);
    return hf_rope_type(ctx);
}

static bool get_tensor(void *ctx, LlmPlace place, LlmTensor *out)
{
    return hf_tensor(ctx, place, out);
}

static const char *key_name(void *ctx, LlmKey key)
{
    return hf_key_name(ctx, key);
}

static const char *tensor_name(void *ctx, LlmPlace place)
{
    return hf_tensor_name(ctx, place);
}

static const char *unasked(void *ctx)
{
    return hf_unasked(ctx);
}

static bool has_config(const HfFolder *h)
{
    struct stat st;
    return stat(arena_printf(h->arena, "%s/config.json", h->path), &st) == 0;
}

// The part of a model that hears which has no weights.
static bool make_mel(HfFolder *h, Graph **out)
{
    double bins = 0, rows = 0;
    const Span span = {.file = diag_add_file(h->diag, h->path, NULL, 0)};
    if (!hf_number(h, LLM_KEY_mel_bins, 0, &bins) || !hf_number(h, LLM_KEY_sound_rows, 0, &rows) ||
        !(bins >= 1 && bins <= 4096 && rows >= 1 && rows <= 65536) || bins != floor(bins) ||
        rows != floor(rows))
        return diag_error(h->diag, span, E0115,
                          "expected numbers at '%s' (from 1 to 4096) and '%s' (from 1 to 65536)",
                          hf_key_name(h, LLM_KEY_mel_bins), hf_key_name(h, LLM_KEY_sound_rows));
    if (!hf_check_sound(h))
        return false;
    *out = mel_graph(h->arena, h->diag, span, (int64_t)bins, 2 * (int64_t)rows);
    return *out != NULL;
}

bool import_hf(Arena *a, Diag *d, const char *folder, const LlmOptions *options, Graph **out)
{
    HfFolder *h = ARENA_NEW(a, HfFolder);
    *h = (HfFolder){
        .arena = a, .diag = d, .path = folder, .part = options->part, .reads = options->reads};
    *out = NULL;
    if (!has_config(h))
        return diag_error(d, (Span){0}, E0108,
                          "'%s' is a folder without config.json; expected a model file, or a folder with "
                          "config.json and .safetensors files",
                          folder);
    if (!hf_read_config(h))
        return false;
    if (h->model->arch == NULL)
        return options->n_adapters == 0
                   ? make_mel(h, out)
                   : diag_error(d, (Span){0}, E0003, "--lora: this part of the model has no weights");
    if (!hf_read_files(h))
        return false;
    hf_begin_tensors(h);
    LlmSource model = {.ctx = h,
                       .span = {.file = diag_add_file(d, folder, NULL, 0)},
                       .arch = h->model->arch,
                       .has_parts = true,
                       .number = get_number,
                       .text = get_text,
                       .tensor = get_tensor,
                       .key_name = key_name,
                       .tensor_name = tensor_name,
                       .unasked = unasked};
    hf_options(h, &model.with, &model.without);
    return import_llm(a, d, &model, options, out);
}

bool hf_stored(Arena *a, Diag *d, const char *folder, const char *part, HfStoredList *out)
{
    HfFolder *h = ARENA_NEW(a, HfFolder);
    *h = (HfFolder){.arena = a, .diag = d, .path = folder, .part = part};
    if (!hf_read_config(h))
        return false;
    if (h->model->arch == NULL)
        return diag_error(d, (Span){0}, E0003, "--weights load: this part of the model has no weights");
    if (!hf_read_files(h))
        return false;
    hf_begin_tensors(h);
    for (uint32_t i = 0; i < h->tensors.len; i++) {
        const HfTensor *t = &h->tensors.data[i];
        vec_push(a, out, ((HfStored){t->name, t->tensor, t->is_asked}));
    }
    return true;
}

static int64_t count_of(HfFolder *h, LlmKey key)
{
    double v = 0;
    return hf_number(h, key, 0, &v) ? (int64_t)v : 0;
}

bool hf_about(Arena *a, const char *folder, HfAbout *out)
{
    Diag quiet = diag_new(a); // it was read before
    HfFolder *h = ARENA_NEW(a, HfFolder);
    *h = (HfFolder){.arena = a, .diag = &quiet, .path = folder};
    if (!hf_is_folder(folder) || !has_config(h) || !hf_read_config(h))
        return false;
    *out = (HfAbout){h->model->arch, count_of(h, LLM_KEY_layers), count_of(h, LLM_KEY_width),
                     count_of(h, LLM_KEY_context)};
    return true;
}
