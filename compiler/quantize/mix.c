// SPDX-License-Identifier: Apache-2.0
// See mix.h.
#include "compiler/quantize/mix.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const QuantizeMix mixes[] = {
#define QUANTIZE(name, number, plain, better, output) {#name, number, #plain, #better, #output},
#define NARROW(type, instead)
#include "compiler/quantize/quantize.def"
};

static const struct {
    const char *type, *instead;
} narrow[] = {
#define QUANTIZE(...)
#define NARROW(type, instead) {#type, #instead},
#include "compiler/quantize/quantize.def"
};

// Parts of names of matrices that are no weights of large products.
static const char *const kept[] = {"_norm",   "norm.",        "ffn_gate_inp", "position_embd",
                                   "token_types", "ssm_conv1d", "ssm_x",        "ssm_dt"};

const QuantizeMix *quantize_mix(const char *name)
{
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++)
        if (strcasecmp(mixes[i].name, name) == 0) // Q4_K_M is what others call it
            return &mixes[i];
    return NULL;
}

const char *quantize_mix_names(Arena *a)
{
    Str s = str_new(a);
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++)
        str_printf(&s, "%s%s", i != 0 ? ", " : "", mixes[i].name);
    return str_text(&s);
}

static bool is_product(const GgufTensor *t)
{
    bool is = t->rank >= 2 && t->dim[1] > 1 && str_ends_with(t->name, ".weight");
    for (size_t i = 0; is && i < sizeof kept / sizeof *kept; i++)
        is = strstr(t->name, kept[i]) == NULL;
    return is;
}

static bool is_output(const GgufFile *f, const GgufTensor *t)
{
    const char *name = gguf_tensor(f, "output.weight") != NULL ? "output.weight" : "token_embd.weight";
    return strcmp(t->name, name) == 0;
}

static uint64_t layers_of(const GgufFile *f)
{
    const char *arch = gguf_string(f, "general.architecture");
    uint64_t n = 0;
    if (arch != NULL)
        (void)gguf_uint(f, arena_printf(f->arena, "%s.block_count", arch), &n);
    return n;
}

static bool is_better(const GgufFile *f, const GgufTensor *t)
{
    const uint64_t n = layers_of(f);
    if (strncmp(t->name, "blk.", 4) != 0 || (!str_ends_with(t->name, ".attn_v.weight") &&
                                             !str_ends_with(t->name, ".ffn_down.weight") &&
                                             !str_ends_with(t->name, ".ffn_down_exps.weight")))
        return false;
    const uint64_t layer = strtoull(t->name + 4, NULL, 10);
    return layer < n / 8 || layer >= n - n / 8 || (layer - n / 8) % 3 == 2;
}

// The name is one of quantize.def.
static const GgufType *type_of(const char *name)
{
    enum { MOST_TYPES = 256 };
    const GgufType *t = NULL;
    for (uint32_t number = 0; number < MOST_TYPES && (t == NULL || strcmp(t->name, name) != 0); number++)
        t = gguf_type(number);
    rlx_assert(t != NULL && strcmp(t->name, name) == 0);
    return t;
}

const GgufType *quantize_type(const QuantizeMix *mix, const GgufFile *f, const GgufTensor *t)
{
    if (!is_product(t))
        return t->type;
    const char *name = is_output(f, t) ? mix->output : is_better(f, t) ? mix->better : mix->plain;
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow && t->dim[0] % type_of(name)->elements != 0; i++)
        if (strcmp(narrow[i].type, name) == 0)
            name = narrow[i].instead;
    return type_of(t->dim[0] % type_of(name)->elements == 0 ? name : "F16");
}
