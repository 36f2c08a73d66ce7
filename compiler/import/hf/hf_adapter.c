// SPDX-License-Identifier: Apache-2.0
// Adapters (LoRA) in folders, as PEFT writes them: adapter_config.json and adapter_model.safetensors. A is
// base_model.model.NAME.lora_A.weight and B is base_model.model.NAME.lora_B.weight, where NAME is the module
// of the model whose product they change.
#include "compiler/import/hf/hf_build.h"
#include "compiler/import/tensors/safetensors.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

static const char config_name[] = "adapter_config.json", weights_name[] = "adapter_model.safetensors";

static LlmAdapterTensor *find(Arena *a, LlmAdapter *adapter, const char *arch, LlmPlace place, bool is_a)
{
    const uint32_t names = hf_names_of(arch);
    const char *name = NULL;
    for (uint32_t i = 0; (name = hf_product_name(a, names, place, i)) != NULL; i++) {
        LlmAdapterTensor *t = llm_adapter_tensor(
            adapter, arena_printf(a, "base_model.model.%s.lora_%s.weight", name, is_a ? "A" : "B"));
        if (t != NULL)
            return t;
    }
    return NULL;
}

// --- adapter_config.json ---

// Some ways to begin training change the weights of the model too.
static bool check_start(HfFolder *h)
{
    static const char *const harmless[] = {"gaussian", "eva", "orthogonal"};
    const JsonPlace *p = hf_member(h, "init_lora_weights");
    if (p == NULL || !cJSON_IsString(p->item))
        return true;
    for (uint32_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strcmp(p->item->valuestring, harmless[i]) == 0)
            return true;
    return json_wrong(&h->json, p,
                      "a way that leaves the weights of the model as they are: true, false, \"gaussian\", "
                      "\"eva\" or \"orthogonal\"");
}

static bool need_number(HfFolder *h, const char *name, double *out)
{
    const JsonPlace *p = hf_member(h, name);
    if (p == NULL)
        return json_error(&h->json, h->root, E0115, "the member '%s' is missing", name);
    rlx_assert(p->item != NULL);
    *out = cJSON_IsNumber(p->item) ? p->item->valuedouble : 0;
    return (isfinite(*out) && *out > 0) || json_wrong(&h->json, p, "a number above 0");
}

static bool read_config(HfFolder *h, LlmAdapter *out)
{
    const JsonPlace *p = NULL;
    double rank = 0;
    if (!cJSON_IsObject(h->root->item))
        return json_wrong(&h->json, h->root, "an object");
    if ((p = hf_member(h, "peft_type")) == NULL)
        return json_error(&h->json, h->root, E0115, "the member 'peft_type' is missing");
    if (!cJSON_IsString(p->item) || strcmp(p->item->valuestring, "LORA") != 0)
        return json_wrong(&h->json, p, "\"LORA\": rlxc reads no other adapters");
    if (!need_number(h, "r", &rank) || !need_number(h, "lora_alpha", &out->alpha) || !check_start(h))
        return false;
    if (rank != floor(rank) || rank > 65536)
        return json_error(&h->json, h->root, E0115, "expected a whole number from 1 to 65536 at '/r'");
    if (!hf_check_only(h, HF_PEFT))
        return false;
    out->divides_by_root = hf_bool_at(h, "use_rslora", false);
    p = hf_member(h, "rank_pattern");
    out->rank = p != NULL && p->item->child != NULL ? 0 : (int64_t)rank;
    return true;
}

// --- adapter_model.safetensors ---

static bool read_weights(HfFolder *h, LlmAdapter *out)
{
    struct stat st;
    SafeTensors s = {0};
    const char *path = arena_printf(h->arena, "%s/%s", h->path, weights_name);
    if (stat(path, &st) != 0)
        return diag_error(h->diag, (Span){0}, E0001, "'%s' has no weights: expected %s beside %s", h->path,
                          weights_name, config_name);
    out->span = (Span){.file = diag_add_file(h->diag, path, NULL, 0)};
    if (!safetensors_open(h->arena, h->diag, out->span, path, &s))
        return false;
    for (uint32_t i = 0; i < s.tensors.len; i++) {
        LlmTensor t;
        hf_describe(h->arena, &s.tensors.data[i].tensor, &t);
        if (!llm_adapter_add(h->arena, out, s.tensors.data[i].name, &t))
            return diag_error(h->diag, out->span, E0105, "two tensors are called '%s'",
                              s.tensors.data[i].name);
    }
    return true;
}

bool hf_adapter(Arena *a, Diag *d, const char *folder, LlmAdapter *out)
{
    HfFolder h = {.arena = a, .diag = d, .path = folder};
    JsonPlace root = {0};
    rlx_assert(hf_is_folder(folder));
    *out = (LlmAdapter){.has_halves = true, .find = find};
    h.root = &root;
    return hf_read_json(&h, config_name, &h.json, &root) && read_config(&h, out) && read_weights(&h, out);
}
