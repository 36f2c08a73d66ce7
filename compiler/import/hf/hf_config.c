// SPDX-License-Identifier: Apache-2.0
// config.json: which model it is, its numbers under the names that models have had over the years, and
// members that change what is computed. Separate from the weights, which need none of this.
#include "compiler/import/hf/hf_build.h"

#include <math.h>
#include <string.h>

static const HfModel models[] = {
#define HF_MODEL(type, arch, names, activations, windows, tied, with, without)                               \
    {type, arch, names, activations, windows, tied, (uint32_t)(with), (uint32_t)(without)},
#include "compiler/import/hf/hf_models.def"
};

static const struct {
    LlmKey key;
    const char *path;
    uint32_t names;
} keys[] = {
#define HF_KEY(key, path, names) {LLM_KEY_##key, path, names},
#include "compiler/import/hf/hf_keys.def"
};

static const struct {
    LlmKey key;
    const char *type;
    double value;
} defaults[] = {
#define HF_KEY(key, path, names)
#define HF_DEFAULT(key, type, value) {LLM_KEY_##key, type, value},
#include "compiler/import/hf/hf_keys.def"
};

typedef enum HfMust {
    MUST_ABSENT,
    MUST_TRUE,
    MUST_FALSE,
    MUST_ONE,
    MUST_EMPTY,
    MUST_OFF,
    MUST_EMPTY_OBJECT
} HfMust;
static const struct {
    const char *path;
    HfMust must;
    uint32_t names;
} only[] = {
#define HF_ONLY(path, must, names) {path, MUST_##must, names},
#include "compiler/import/hf/hf_only.def"
};

// Where the kind of scaling is said.
static const char *const rope_paths[] = {"rope_parameters/full_attention/rope_type",
                                         "rope_parameters/rope_type", "rope_scaling/rope_type",
                                         "rope_scaling/type"};

enum {
    N_KEYS = sizeof keys / sizeof *keys,
    N_MODELS = sizeof models / sizeof *models,
    N_ROPE_PATHS = sizeof rope_paths / sizeof *rope_paths
};

// --- members ---

static const JsonPlace *child_of(HfFolder *h, const JsonPlace *p, const char *name, size_t len)
{
    JsonPlace child = {0};
    if (p == NULL || !cJSON_IsObject(p->item))
        return NULL;
    while (json_next(p, &child))
        if (strlen(child.item->string) == len && memcmp(child.item->string, name, len) == 0)
            return cJSON_IsNull(child.item) ? NULL : arena_copy(h->arena, &child, sizeof child);
    return NULL;
}

const JsonPlace *hf_member(HfFolder *h, const char *path)
{
    const JsonPlace *p = h->root;
    for (const char *at = path; p != NULL && *at != '\0';) {
        const size_t n = strcspn(at, "/");
        p = child_of(h, p, at, n);
        at += n + (at[n] == '/');
    }
    return p;
}

bool hf_number_at(HfFolder *h, const char *path, double *out)
{
    const JsonPlace *p = hf_member(h, path);
    if (p == NULL || !cJSON_IsNumber(p->item))
        return false;
    *out = p->item->valuedouble;
    return true;
}

bool hf_bool_at(HfFolder *h, const char *path, bool dflt)
{
    const JsonPlace *p = hf_member(h, path);
    return p != NULL && cJSON_IsBool(p->item) ? cJSON_IsTrue(p->item) : dflt;
}

static const char *hf_text_at(HfFolder *h, const char *path)
{
    const JsonPlace *p = hf_member(h, path);
    return p != NULL && cJSON_IsString(p->item) ? p->item->valuestring : NULL;
}

const float *hf_list(HfFolder *h, const char *member, uint32_t *n)
{
    static const char *const owners[] = {"rope_parameters", "rope_scaling"};
    const JsonPlace *p = NULL;
    JsonPlace child = {0};
    for (uint32_t i = 0; i < 2 && p == NULL; i++)
        p = hf_member(h, arena_printf(h->arena, "%s/%s", owners[i], member));
    if (p == NULL || !cJSON_IsArray(p->item))
        return NULL;
    *n = (uint32_t)cJSON_GetArraySize(p->item);
    float *list = ARENA_ARRAY(h->arena, float, *n + 1);
    while (json_next(p, &child))
        list[child.index] = cJSON_IsNumber(child.item) ? (float)child.item->valuedouble : NAN;
    return list;
}

// --- checks ---

static bool check_only(HfFolder *h, const char *path, HfMust must)
{
    static const char *const wanted[] = {"no such member: rlxc does not support it",
                                         "true",
                                         "false",
                                         "1",
                                         "an empty list",
                                         "false: rlxc does not support it",
                                         "an empty object: rlxc does not support it"};
    const JsonPlace *p = hf_member(h, path);
    if (p == NULL)
        return true;
    const cJSON *item = p->item;
    const bool is_right = (must == MUST_TRUE && cJSON_IsTrue(item)) ||
                          ((must == MUST_FALSE || must == MUST_OFF) && cJSON_IsFalse(item)) ||
                          (must == MUST_ONE && cJSON_IsNumber(item) && item->valuedouble == 1) ||
                          (must == MUST_EMPTY && cJSON_IsArray(item) && item->child == NULL) ||
                          (must == MUST_EMPTY_OBJECT && cJSON_IsObject(item) && item->child == NULL);
    return is_right || json_wrong(&h->json, p, wanted[must]);
}

bool hf_check_only(HfFolder *h, uint32_t names)
{
    for (uint32_t i = 0; i < sizeof only / sizeof *only; i++)
        if ((only[i].names & names) != 0 && !check_only(h, only[i].path, only[i].must))
            return false;
    return true;
}

static bool has_word(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = words; *at != '\0';) {
        const size_t len = strcspn(at, " ");
        if (len == n && memcmp(at, word, n) == 0)
            return true;
        at += len + (at[len] == ' ');
    }
    return false;
}

static bool check_activation(HfFolder *h)
{
    static const char *const paths[] = {"hidden_activation", "hidden_act", "activation_function"};
    const JsonPlace *p = NULL;
    for (uint32_t i = 0; i < 3 && p == NULL; i++)
        p = hf_member(h, paths[i]);
    if (p == NULL || (cJSON_IsString(p->item) && has_word(h->model->activations, p->item->valuestring)))
        return true;
    const size_t n = strcspn(h->model->activations, " ");
    return json_wrong(&h->json, p,
                      arena_printf(h->arena, "\"%.*s\", as models of this type have it", (int)n,
                                   h->model->activations));
}

// Do models of this kind have the member of row i?
static bool is_of(const HfFolder *h, uint32_t i)
{
    return (keys[i].names & h->model->names) != 0;
}

// Numbers are numbers. What they may be is checked where they are taken.
static bool check_numbers(HfFolder *h)
{
    for (uint32_t i = 0; i < N_KEYS; i++) {
        const JsonPlace *p = is_of(h, i) ? hf_member(h, keys[i].path) : NULL;
        if (p != NULL && !cJSON_IsNumber(p->item))
            return json_wrong(&h->json, p, "a number");
    }
    return true;
}

// layer_types: one for each layer, and of two kinds.
static bool check_layer_types(HfFolder *h)
{
    const JsonPlace *p = hf_member(h, "layer_types");
    double layers = 0;
    JsonPlace child = {0};
    uint32_t n = 0;
    if (p == NULL)
        return true;
    hf_number(h, LLM_KEY_layers, 0, &layers);
    if (!json_list(&h->json, p, "a list with the type of each layer", &n))
        return false;
    if (n != layers)
        return json_error(&h->json, p, E0115, "expected %.0f types, one for each layer, found %u", layers, n);
    while (json_next(p, &child)) {
        const char *type = cJSON_IsString(child.item) ? child.item->valuestring : "";
        if (!str_equal(type, "full_attention") && !str_equal(type, "sliding_attention"))
            return json_wrong(&h->json, &child, "\"full_attention\" or \"sliding_attention\"");
    }
    return true;
}

// Layers with windows have no scaling of their own.
static bool check_window_rope(HfFolder *h)
{
    const JsonPlace *p = hf_member(h, "rope_parameters/sliding_attention/rope_type");
    return p == NULL || (cJSON_IsString(p->item) && str_equal(p->item->valuestring, "default")) ||
           json_wrong(&h->json, p, "\"default\"");
}

// One way of quantising is read, of one model.
static bool check_quantised(HfFolder *h)
{
    const JsonPlace *p = hf_member(h, "quantization_config");
    const char *how = hf_text_at(h, "quantization_config/quant_method");
    const bool is_read = (h->model->names & HF_OSS) != 0 && how != NULL && str_equal(how, "mxfp4");
    return p == NULL || is_read ||
           json_error(&h->json, p, E0115,
                      "rlxc does not read the weights of '%.40s' that are quantised by %.40s", h->model->type,
                      how != NULL ? how : "something");
}

static bool check_members(HfFolder *h)
{
    return hf_check_only(h, h->model->names) && check_quantised(h) && check_activation(h) &&
           check_numbers(h) && check_layer_types(h) && check_window_rope(h);
}

// --- the model ---

static const HfModel *model_of(const char *type)
{
    for (uint32_t i = 0; i < N_MODELS; i++)
        if (str_equal(models[i].type, type))
            return &models[i];
    return NULL;
}

// Of a model of several parts. False: reported.
static bool choose_part(HfFolder *h)
{
    const char *type = h->model->type;
    const size_t n = strlen(type);
    Str known = str_new(h->arena);
    const HfModel *part = model_of(arena_printf(h->arena, "%s/%s", type, h->part));
    if (part != NULL) {
        h->model = part;
        return true;
    }
    for (uint32_t i = 0; i < N_MODELS; i++)
        if (strncmp(models[i].type, type, n) == 0 && models[i].type[n] == '/')
            str_printf(&known, "%s%s", known.len != 0 ? ", " : "", models[i].type + n + 1);
    if (known.len == 0)
        return diag_error(h->diag, (Span){0}, E0003, "--signature %s: models of the type '%s' have no parts",
                          h->part, type);
    return diag_error(h->diag, (Span){0}, E0003, "--signature %s: models of the type '%s' have %s", h->part,
                      type, str_text(&known));
}

static bool find_model(HfFolder *h)
{
    const JsonPlace *p = hf_member(h, "model_type");
    if (p == NULL)
        return json_error(&h->json, h->root, E0115, "the member 'model_type' is missing");
    if (!cJSON_IsString(p->item))
        return json_wrong(&h->json, p, "a string");
    h->model = model_of(p->item->valuestring);
    if (h->model != NULL)
        return h->part == NULL || choose_part(h);
    json_error(&h->json, p, E0115, "rlxc does not know models of the type '%.80s'", p->item->valuestring);
    Str known = str_new(h->arena);
    for (uint32_t i = 0; i < N_MODELS; i++)
        if (strchr(models[i].type, '/') == NULL)
            str_printf(&known, "%s%s", i != 0 ? ", " : "", models[i].type);
    diag_note(h->diag, (Span){.file = h->json.file}, "it knows %s", str_text(&known));
    return false;
}

uint32_t hf_names_of(const char *arch)
{
    uint32_t names = 0;
    for (uint32_t i = 0; i < N_MODELS; i++)
        if (models[i].arch != NULL && str_equal(models[i].arch, arch))
            names |= models[i].names;
    return names;
}

bool hf_read_config(HfFolder *h)
{
    if (!hf_read_json(h, "config.json", &h->json, &h->whole))
        return false;
    h->root = &h->whole;
    if (!cJSON_IsObject(h->whole.item))
        return json_wrong(&h->json, h->root, "an object");
    if (hf_member(h, "text_config") != NULL)
        h->root = hf_member(h, "text_config");
    return find_model(h) && check_members(h);
}

// --- numbers ---

const char *hf_key_name(HfFolder *h, LlmKey key)
{
    const char *first = NULL, *within = h->root == &h->whole ? "" : "/text_config";
    for (uint32_t i = 0; i < N_KEYS; i++) {
        if (keys[i].key != key || !is_of(h, i))
            continue;
        first = first != NULL ? first : keys[i].path;
        if (hf_member(h, keys[i].path) != NULL)
            return arena_printf(h->arena, "%s/%s", within, keys[i].path);
    }
    for (uint32_t i = 0; key == LLM_KEY_rope_type && i < N_ROPE_PATHS && first == NULL; i++)
        first = hf_text_at(h, rope_paths[i]) != NULL ? rope_paths[i] : NULL;
    return arena_printf(h->arena, "%s/%s", within, first != NULL ? first : "layer_types");
}

static bool find_number(HfFolder *h, LlmKey key, double *out)
{
    for (uint32_t i = 0; i < N_KEYS; i++)
        if (keys[i].key == key && is_of(h, i) && hf_number_at(h, keys[i].path, out))
            return true;
    for (uint32_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        if (defaults[i].key == key && str_equal(defaults[i].type, h->model->type)) {
            *out = defaults[i].value;
            return true;
        }
    return false;
}

static bool scaling_number(HfFolder *h, const char *member, double *out)
{
    return hf_number_at(h, arena_printf(h->arena, "rope_parameters/%s", member), out) ||
           hf_number_at(h, arena_printf(h->arena, "rope_scaling/%s", member), out);
}

// Part of a head turns.
static bool rope_dims(HfFolder *h, double *out)
{
    double share = 1, size = 0, width = 0, heads = 1;
    if (!scaling_number(h, "partial_rotary_factor", &share) &&
        !hf_number_at(h, "partial_rotary_factor", &share))
        return false;
    find_number(h, LLM_KEY_width, &width);
    find_number(h, LLM_KEY_heads, &heads);
    if (!find_number(h, LLM_KEY_head_size, &size))
        size = floor(width / fmax(heads, 1));
    *out = floor(size * share);
    return true;
}

// 1: the layer sees a window; 0: all; false: as the architecture says.
static bool windowed(HfFolder *h, uint32_t layer, double *out)
{
    const JsonPlace *types = hf_member(h, "layer_types");
    double period = 0, from = 0;
    *out = 0;
    if (types != NULL) {
        const cJSON *type = cJSON_GetArrayItem(types->item, (int)layer);
        *out = type != NULL && str_equal(type->valuestring, "sliding_attention");
        return true;
    }
    if (hf_member(h, "use_sliding_window") != NULL) {
        hf_number_at(h, "max_window_layers", &from);
        *out = hf_bool_at(h, "use_sliding_window", false) && layer >= from;
        return true;
    }
    if (hf_number_at(h, "sliding_window_pattern", &period) && period >= 1) {
        *out = fmod(layer + 1, period) != 0;
        return true;
    }
    *out = 1;
    return h->model->windows == 1;
}

static bool has_rope(HfFolder *h, const char *type)
{
    const char *own = hf_rope_type(h);
    return own != NULL && str_equal(own, type);
}

// Where it is not said, how many times the length is that of the training.
static bool rope_factor(HfFolder *h, double *out)
{
    double original = 0, context = 0;
    if (find_number(h, LLM_KEY_rope_factor, out))
        return true;
    if ((!has_rope(h, "yarn") && !has_rope(h, "longrope")) ||
        !find_number(h, LLM_KEY_rope_original, &original) || !find_number(h, LLM_KEY_context, &context) ||
        !(original > 1))
        return false;
    *out = context / original;
    return true;
}

// By which cosines and sines are multiplied. False: by what the kind of scaling has.
static bool attention_factor(HfFolder *h, double *out)
{
    double mscale = 0, all = 0, factor = 1, original = 0;
    if (find_number(h, LLM_KEY_rope_attention, out))
        return true;
    rope_factor(h, &factor);
    if (has_rope(h, "yarn") && factor > 1 && scaling_number(h, "mscale", &mscale) && mscale != 0 &&
        scaling_number(h, "mscale_all_dim", &all) && all != 0) {
        *out = (0.1 * mscale * log(factor) + 1) / (0.1 * all * log(factor) + 1);
        return true;
    }
    if (!has_rope(h, "longrope") || !find_number(h, LLM_KEY_rope_original, &original) || !(original > 1))
        return false;
    *out = factor > 1 ? sqrt(1 + log(factor) / log(original)) : 1;
    return true;
}

bool hf_number(HfFolder *h, LlmKey key, uint32_t layer, double *out)
{
    double v = 0;
    if (key == LLM_KEY_rope_dims)
        return rope_dims(h, out);
    if (key == LLM_KEY_windowed)
        return windowed(h, layer, out);
    if (key == LLM_KEY_rope_factor)
        return rope_factor(h, out);
    if (key == LLM_KEY_rope_attention)
        return attention_factor(h, out);
    if (key == LLM_KEY_yarn_growth) { // what is said is all of it
        *out = !attention_factor(h, &v);
        return true;
    }
    if (key == LLM_KEY_yarn_whole) {
        *out = hf_bool_at(h, "rope_parameters/truncate", hf_bool_at(h, "rope_scaling/truncate", true));
        return true;
    }
    if (key == LLM_KEY_score_scale && hf_number_at(h, "query_pre_attn_scalar", &v) && v > 0) {
        *out = 1 / sqrt(v);
        return true;
    }
    if (key == LLM_KEY_pooling)
        return hf_pooling(h, out);
    return find_number(h, key, out);
}

const char *hf_rope_type(HfFolder *h)
{
    const char *type = NULL;
    for (uint32_t i = 0; i < N_ROPE_PATHS && type == NULL; i++)
        type = hf_text_at(h, rope_paths[i]);
    if (type == NULL)
        return NULL;
    return str_equal(type, "default") ? "none" : str_equal(type, "su") ? "longrope" : type;
}

bool hf_is_tied(HfFolder *h)
{
    return hf_bool_at(h, "tie_word_embeddings", h->model->is_tied);
}

void hf_options(HfFolder *h, uint32_t *with, uint32_t *without)
{
    *with = h->model->with;
    *without = h->model->without;
    if (!hf_is_tied(h))
        *with |= LLM_OWN_OUTPUT;
    if (hf_bool_at(h, "attention_bias", false))
        *with |= LLM_BIAS_QKV;
    if ((h->model->names & HF_QWEN) != 0 && hf_bool_at(h, "norm_topk_prob", false))
        *with |= LLM_RENORMALISED;
    if (has_rope(h, "longrope"))
        *with |= LLM_LONG_FACTORS;
}
