// SPDX-License-Identifier: Apache-2.0
// Adapters (LoRA) in GGUF files, as llama.cpp has them: A is NAME.lora_a and B is NAME.lora_b, where NAME is
// the tensor of the model whose product they change.
#include "compiler/import/gguf/gguf_model.h"

#include <math.h>
#include <string.h>

// Entries that have to be so.
static const struct {
    const char *key, *value, *otherwise;
} texts[] = {
    {"general.type", "adapter", "a file of type 'adapter', as --lora takes it"},
    {"adapter.type", "lora", "'lora': rlxc reads no other adapters"},
};

static LlmAdapterTensor *find(Arena *a, LlmAdapter *adapter, const char *arch, LlmPlace place, bool is_a)
{
    const char *name = llm_roles[place.role].name, *ending = is_a ? "lora_a" : "lora_b";
    (void)arch; // names are the same for all
    return llm_adapter_tensor(adapter, llm_roles[place.role].is_of_layer
                                           ? arena_printf(a, "blk.%u.%s.weight.%s", place.layer, name, ending)
                                           : arena_printf(a, "%s.weight.%s", name, ending));
}

static bool check_entries(const GgufFile *f, Span span, LlmAdapter *out)
{
    static const char alpha[] = "adapter.lora.alpha", tokens[] = "adapter.alora.invocation_tokens";
    for (uint32_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *is = gguf_string(f, texts[i].key);
        if (is == NULL)
            return diag_error(f->diag, span, E0115, "the entry '%s' is missing; expected %s", texts[i].key,
                              texts[i].otherwise);
        if (!str_equal(is, texts[i].value))
            return diag_error(f->diag, span, E0115, "entry '%s' is '%.80s'; expected %s", texts[i].key, is,
                              texts[i].otherwise);
    }
    out->arch = gguf_string(f, "general.architecture");
    if (out->arch == NULL)
        return diag_error(f->diag, span, E0115, "the entry 'general.architecture' is missing");
    if (gguf_find(f, tokens) != NULL)
        return diag_error(f->diag, span, E0115,
                          "entry '%s': rlxc does not support adapters that tokens switch on", tokens);
    if (!gguf_float(f, alpha, &out->alpha))
        return diag_error(f->diag, span, E0115, "the entry '%s' is missing, by which scales are computed",
                          alpha);
    return (isfinite(out->alpha) && out->alpha > 0) ||
           diag_error(f->diag, span, E0115, "entry '%s': expected a number above 0", alpha);
}

bool gguf_adapter(Arena *a, Diag *d, const char *path, LlmAdapter *out)
{
    GgufFile *f = ARENA_NEW(a, GgufFile);
    if (!gguf_open(a, d, path, f))
        return false;
    *out = (LlmAdapter){.span = f->parts.data[0].span, .find = find};
    if (!check_entries(f, out->span, out))
        return false;
    for (uint32_t i = 0; i < f->tensors.len; i++) {
        LlmTensor t;
        gguf_describe(a, &f->tensors.data[i], &t);
        const bool is_new = llm_adapter_add(a, out, f->tensors.data[i].name, &t);
        rlx_assert(is_new); // the reader refuses files with two tensors of one name
        (void)is_new;
    }
    return true;
}
