// SPDX-License-Identifier: Apache-2.0
// The numbers of a model: which there must be, which have defaults, and that they fit each other. Separate
// because everything behind it may rely on them.
#include "compiler/import/llm/llm_build.h"

#include <math.h>
#include <string.h>

enum { ALWAYS = -1 };
typedef enum KeyKind { KIND_COUNT, KIND_REAL, KIND_EACH, KIND_TEXT } KeyKind;

static const LlmArch archs[] = {
#define LLM_OPTION(name, text)
#define LLM_ARCH(name, activation, period, layers, options)                                                  \
    {#name, OP_##activation, period, layers, (uint32_t)(options)},
#include "compiler/import/llm/llm_archs.def"
};

static const struct {
    KeyKind kind;
    int needed; // by which options; ALWAYS
    double dflt, least, most;
} keys[LLM_KEY_COUNT] = {
#define LLM_KEY(name, key, kind, needed, dflt, least, most) {KIND_##kind, needed, dflt, least, most},
#include "compiler/import/llm/llm_keys.def"
};

static bool find_arch(LlmBuild *b)
{
    const uint32_t n = sizeof archs / sizeof *archs;
    const char *name = b->source->arch, *names[sizeof archs / sizeof *archs];
    if (name == NULL)
        return llm_fail(b, E0115, "entry 'general.architecture' is missing, or is no string");
    for (uint32_t i = 0; i < n; i++) {
        names[i] = archs[i].name;
        if (str_equal(archs[i].name, name))
            b->arch = &archs[i];
    }
    if (b->arch != NULL) {
        b->options = (b->arch->options & ~b->source->without) | b->source->with;
        return true;
    }
    llm_fail(b, E0115, "rlxc does not know the architecture '%.80s'", name);
    Str known = str_new(b->arena);
    for (uint32_t i = 0; i < n; i++)
        str_printf(&known, "%s%s", i != 0 ? ", " : "", names[i]);
    diag_note(b->diag, b->source->span, "it knows %s", str_text(&known));
    return false;
}

bool llm_is_encoder(const char *arch)
{
    for (uint32_t i = 0; arch != NULL && i < sizeof archs / sizeof *archs; i++)
        if (str_equal(archs[i].name, arch))
            return (archs[i].options & LLM_ENCODER) != 0;
    return false;
}

static bool is_needed(const LlmBuild *b, LlmKey key)
{
    const uint32_t options = b->options | (llm_has(b, LLM_LAYER_NORM) ? 0 : LLM_RMS_NORM);
    return keys[key].needed == ALWAYS || (options & (uint32_t)keys[key].needed) != 0;
}

static bool read_one(LlmBuild *b, LlmKey key, uint32_t layer)
{
    double v = keys[key].dflt;
    b->number[key] = v;
    if (keys[key].kind == KIND_TEXT)
        return true;
    if (!b->source->number(b->source->ctx, key, layer, &v))
        return !is_needed(b, key) || llm_fail(b, E0115, "entry '%s' of %s is missing, or is no number",
                                              llm_key_name(b, key), b->arch->name);
    if (!(v >= keys[key].least && v <= keys[key].most) || (keys[key].kind != KIND_REAL && v != floor(v))) {
        Str text = str_new(b->arena);
        str_f64(&text, v);
        str_add(&text, "; expected a number from ");
        str_f64(&text, keys[key].least);
        str_add(&text, " to ");
        str_f64(&text, keys[key].most);
        return llm_fail(b, E0115, "entry '%s' is %s", llm_key_name(b, key), str_text(&text));
    }
    b->number[key] = v;
    return true;
}

static void set_default(LlmBuild *b, LlmKey key, double v)
{
    if (b->number[key] == 0)
        b->number[key] = v;
}

// Those of a layer, whose defaults and limits follow from each other.
bool llm_read_layer(LlmBuild *b, uint32_t layer)
{
    b->layer = layer;
    if (llm_has(b, LLM_SSM)) // no heads of attention; files have 0 there, or nothing
        return true;
    if (!read_one(b, LLM_KEY_heads, layer) || !read_one(b, LLM_KEY_kv_heads, layer) ||
        !read_one(b, LLM_KEY_windowed, layer))
        return false;
    set_default(b, LLM_KEY_kv_heads, b->number[LLM_KEY_heads]);
    if (llm_count(b, LLM_KEY_heads) % llm_count(b, LLM_KEY_kv_heads) != 0)
        return llm_fail(b, E0115, "layer %u: %lld heads are no multiple of the %lld of keys", layer,
                        (long long)llm_count(b, LLM_KEY_heads), (long long)llm_count(b, LLM_KEY_kv_heads));
    return true;
}

// Sizes of heads, and what turns of them.
static bool read_head_sizes(LlmBuild *b)
{
    set_default(b, LLM_KEY_head_size, floor(b->number[LLM_KEY_width] / b->number[LLM_KEY_heads]));
    set_default(b, LLM_KEY_value_size, b->number[LLM_KEY_head_size]);
    const bool is_given = b->number[LLM_KEY_rope_dims] != 0;
    const int64_t size = llm_count(b, LLM_KEY_head_size);
    set_default(b, LLM_KEY_rope_dims, (double)size);
    const int64_t dims = llm_count(b, LLM_KEY_rope_dims);
    if (size < 1)
        return llm_fail(b, E0115, "entry '%s' is smaller than '%s'", llm_key_name(b, LLM_KEY_width),
                        llm_key_name(b, LLM_KEY_heads));
    if (llm_has(b, LLM_LEARNED) || (dims % 2 == 0 && dims <= size))
        return true;
    return llm_fail(b, E0115, "%s is %lld; expected an even number of at most %lld, the size of a head",
                    is_given ? llm_key_name(b, LLM_KEY_rope_dims) : "the size of a head", (long long)dims,
                    (long long)size);
}

static const char *const ropes[] = {
#define LLM_ROPE(name, text) #name,
#include "compiler/import/llm/llm_ropes.def"
};

static bool find_rope(LlmBuild *b)
{
    const char *type = b->source->text(b->source->ctx, LLM_KEY_rope_type);
    b->rope = LLM_ROPE_linear; // by a factor of 1, where there is none
    for (uint32_t i = 0; type != NULL && i < LLM_ROPE_COUNT; i++)
        if (str_equal(type, ropes[i])) {
            b->rope = (LlmRope)i;
            type = NULL;
        }
    if (type == NULL && (b->rope != LLM_ROPE_longrope || llm_has(b, LLM_LONG_FACTORS)))
        return true;
    return llm_fail(b, E0115, "entry '%s' is '%.40s', which rlxc does not support",
                    llm_key_name(b, LLM_KEY_rope_type), type != NULL ? type : ropes[b->rope]);
}

static bool check_rope(LlmBuild *b)
{
    if (!find_rope(b))
        return false;
    if (b->number[LLM_KEY_rope_factor] == 1)
        b->number[LLM_KEY_rope_factor] = b->number[LLM_KEY_rope_linear];
    if (b->rope == LLM_ROPE_none || b->rope == LLM_ROPE_longrope)
        b->number[LLM_KEY_rope_factor] = 1;
    set_default(b, LLM_KEY_rope_original, b->number[LLM_KEY_context]);
    if (b->rope == LLM_ROPE_llama3 && b->number[LLM_KEY_rope_low] >= b->number[LLM_KEY_rope_high])
        return llm_fail(b, E0115, "entry '%s' must be smaller than '%s'", llm_key_name(b, LLM_KEY_rope_low),
                        llm_key_name(b, LLM_KEY_rope_high));
    return true;
}

static bool check_experts(LlmBuild *b)
{
    const int64_t n = llm_count(b, LLM_KEY_experts), used = llm_count(b, LLM_KEY_experts_used);
    if (n == 0 && !llm_has(b, LLM_EXPERTS))
        return true;
    return (n >= 1 && used >= 1 && used <= n) ||
           llm_fail(b, E0115, "entry '%s' is %lld, but '%s' is %lld", llm_key_name(b, LLM_KEY_experts_used),
                    (long long)used, llm_key_name(b, LLM_KEY_experts), (long long)n);
}

static bool is_of_attention(LlmKey key)
{
    return key == LLM_KEY_heads || key == LLM_KEY_kv_heads;
}

bool llm_read_numbers(LlmBuild *b)
{
    if (!find_arch(b))
        return false;
    if (llm_has(b, LLM_SPEECH) && !b->source->has_parts)
        return llm_fail(b, E0115, "the architecture '%s' is read from folders with config.json only",
                        b->arch->name);
    for (uint32_t i = 0; i < LLM_KEY_COUNT; i++)
        if (!(llm_has(b, LLM_SSM) && is_of_attention((LlmKey)i)) && !read_one(b, (LlmKey)i, 0))
            return false;
    if (llm_has(b, LLM_SSM))
        return true;
    return llm_read_layer(b, 0) && read_head_sizes(b) && check_rope(b) && check_experts(b);
}

bool llm_is_window(const LlmBuild *b)
{
    const uint32_t period = b->arch->window_period;
    const double is_said = b->number[LLM_KEY_windowed];
    if (b->number[LLM_KEY_window] == 0 || (period == 0 && is_said < 0))
        return false;
    if (is_said >= 0)
        return is_said != 0;
    return period == 1 || b->layer % period != period - 1;
}
