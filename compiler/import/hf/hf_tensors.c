// SPDX-License-Identifier: Apache-2.0
// Tensors of a folder by their roles: names by hf_tensors.def, lists of config.json that take the place of
// tensors, and experts, of which each is a tensor of its own.
#include "compiler/import/hf/hf_build.h"
#include "ir/graph/reads.h"

#include <string.h>

typedef enum HfForm { PLAIN, TURNED, BARE } HfForm;

static const struct {
    LlmRole role;
    uint32_t names;
    bool is_base;
    HfForm form;
    const char *text;
} rows[] = {
#define BASE                                      true
#define HEAD                                      false
#define HF_TENSOR(role, names, where, form, text) {LLM_##role, names, where, form, text},
#include "compiler/import/hf/hf_tensors.def"
};

static const char *const prefixes[] = {
#define HF_TENSOR(role, names, where, form, text)
#define HF_PREFIX(text) text,
#define HF_IGNORED(names, begin, end)
#include "compiler/import/hf/hf_tensors.def"
};

static const struct {
    uint32_t names;
    const char *begin, *end;
} ignored[] = {
#define HF_TENSOR(role, names, where, form, text)
#define HF_PREFIX(text)
#define HF_IGNORED(names, begin, end) {names, begin, end},
#include "compiler/import/hf/hf_tensors.def"
};

enum { N_ROWS = sizeof rows / sizeof *rows };

// --- names ---

// N_ROWS: the model has no such tensor.
static uint32_t find_row(uint32_t names, LlmRole role)
{
    uint32_t i = 0;
    while (i < N_ROWS && (rows[i].role != role || (rows[i].names & names) == 0))
        i++;
    return i;
}

// The number of an expert stays "%e".
static const char *stem_of(Arena *a, uint32_t row, const char *prefix, LlmPlace place)
{
    Str s = str_new(a);
    str_add(&s, rows[row].is_base ? prefix : "");
    for (const char *c = rows[row].text; *c != '\0'; c++) {
        if (c[0] == '%' && c[1] == 'u') {
            str_printf(&s, "%u", place.layer);
            c++;
        } else {
            str_char(&s, *c);
        }
    }
    return str_text(&s);
}

static const char *name_of(HfFolder *h, uint32_t row, const char *prefix, LlmPlace place)
{
    const bool is_bare = rows[row].form == BARE;
    return arena_printf(h->arena, "%s%s", stem_of(h->arena, row, prefix, place),
                        place.is_bias ? (is_bare ? "_bias" : ".bias") : is_bare ? "" : ".weight");
}

const char *hf_product_name(Arena *a, uint32_t names, LlmPlace place, uint32_t nth)
{
    const uint32_t row = find_row(names, place.role);
    rlx_assert(!place.is_bias);
    if (row == N_ROWS || rows[row].form == BARE || strstr(rows[row].text, "%e") != NULL ||
        nth >= sizeof prefixes / sizeof *prefixes)
        return NULL;
    return stem_of(a, row, prefixes[nth], place);
}

static const char *expert_name(HfFolder *h, const char *name, uint32_t expert)
{
    const char *mark = strstr(name, "%e");
    rlx_assert(mark != NULL);
    return arena_printf(h->arena, "%.*s%u%s", (int)(mark - name), name, expert, mark + 2);
}

void hf_begin_tensors(HfFolder *h)
{
    uint32_t row = find_row(h->model->names, LLM_token_embd);
    if (row == N_ROWS) // an encoder of sound
        row = find_row(h->model->names, LLM_position_embd);
    rlx_assert(row < N_ROWS);
    const LlmPlace first = {rows[row].role, 0, false};
    const bool is_gpt2 = (h->model->names & HF_GPT2) != 0;
    h->prefix = prefixes[is_gpt2 ? 1 : 0];
    for (uint32_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (hf_find(h, name_of(h, row, prefixes[i], first)) != NULL)
            h->prefix = prefixes[i];
    for (uint32_t i = 0; i < h->tensors.len; i++)
        for (uint32_t k = 0; k < sizeof ignored / sizeof *ignored; k++) {
            HfTensor *t = &h->tensors.data[i];
            if ((ignored[k].names & h->model->names) != 0 && str_ends_with(t->name, ignored[k].end) &&
                strncmp(t->name, ignored[k].begin, strlen(ignored[k].begin)) == 0)
                t->is_asked = true;
        }
    HfTensor *output = hf_is_tied(h) ? hf_find(h, hf_tensor_name(h, (LlmPlace){LLM_output, 0, false})) : NULL;
    if (output != NULL)
        output->is_asked = true; // a copy of the embedding
}

const char *hf_tensor_name(HfFolder *h, LlmPlace place)
{
    const uint32_t row = find_row(h->model->names, place.role);
    if (place.role == LLM_factors_long || place.role == LLM_factors_short)
        return place.role == LLM_factors_long ? "long_factor of config.json" : "short_factor of config.json";
    if (row == N_ROWS)
        return "of a kind that such models lack";
    if (strstr(rows[row].text, "%e") != NULL && h->wrong_expert != NULL)
        return h->wrong_expert;
    return name_of(h, row, h->prefix, place);
}

const char *hf_unasked(HfFolder *h)
{
    for (uint32_t i = 0; i < h->tensors.len; i++)
        if (!h->tensors.data[i].is_asked)
            return h->tensors.data[i].name;
    return NULL;
}

// --- tensors ---

void hf_describe(Arena *a, const Tensor *t, LlmTensor *out)
{
    *out = (LlmTensor){.type = dtype_info[t->dtype].name, .is_known = true, .dtype = t->dtype};
    out->data = t->data;
    if (t->rank > LLM_MAX_RANK)
        out->fault = arena_printf(a, "has %u sizes; expected at most %d", t->rank, LLM_MAX_RANK);
    else
        memcpy(out->dim, t->dim, t->rank * sizeof *out->dim);
    out->rank = out->fault != NULL ? 0 : t->rank;
    for (uint32_t i = 0; i < out->rank; i++)
        if (out->dim[i] == 0)
            out->fault = "has a size of 0";
    out->elements = 1;
}

static bool from_list(HfFolder *h, LlmRole role, LlmTensor *out)
{
    uint32_t n = 0;
    const float *list = hf_list(h, role == LLM_factors_long ? "long_factor" : "short_factor", &n);
    if (list == NULL)
        return false;
    *out = (LlmTensor){.rank = 1, .dim = {n}, .type = "f32", .is_known = true, .dtype = DTYPE_f32};
    out->elements = 1;
    out->data = list;
    for (uint32_t i = 0; i < n && out->fault == NULL; i++)
        if (!(list[i] > 0))
            out->fault = arena_printf(h->arena, "has no number above 0 at index %u", i);
    return true;
}

// The tensors of all experts. NULL: one is missing, or is not like the first; wrong_expert is its name.
static const Tensor **find_experts(HfFolder *h, const char *name, uint32_t n)
{
    const Tensor **list = ARENA_ARRAY(h->arena, const Tensor *, n);
    for (uint32_t i = 0; i < n; i++) {
        h->wrong_expert = expert_name(h, name, i);
        HfTensor *t = hf_find(h, h->wrong_expert);
        if (t == NULL)
            return NULL;
        t->is_asked = true;
        list[i] = t->tensor;
    }
    h->wrong_expert = NULL;
    return list;
}

// What another import of the model has copied together; NULL: there is none.
static const void *joined_before(const HfFolder *h, const Tensor **list, uint32_t n, size_t bytes)
{
    const char *all = h->reads != NULL ? reads_copy(h->reads, list[0]->data) : NULL;
    for (uint32_t i = 0; i < n && all != NULL; i++)
        if (reads_source(h->reads, all + i * bytes, bytes) != list[i]->data)
            return NULL;
    return all;
}

// All of them one after the other: where they lie, if they lie so, else a copy.
static const void *join(HfFolder *h, const Tensor **list, uint32_t n, size_t bytes)
{
    bool is_joined = true;
    for (uint32_t i = 1; i < n; i++)
        is_joined = is_joined && (const char *)list[i]->data == (const char *)list[i - 1]->data + bytes;
    if (is_joined)
        return list[0]->data;
    h->assembled += (uint64_t)n * bytes;
    if (h->assembled > h->bytes) // tensors share bytes
        return NULL;
    const void *before = joined_before(h, list, n, bytes);
    if (before != NULL)
        return before;
    char *all = arena_alloc(h->arena, (size_t)n * bytes);
    for (uint32_t i = 0; i < n; i++) {
        memcpy(all + i * bytes, list[i]->data, bytes);
        if (h->reads != NULL)
            reads_note_moved(h->reads, list[i]->data, all + i * bytes, bytes);
    }
    return all;
}

static bool assemble(HfFolder *h, const char *name, LlmTensor *out)
{
    double count = 0;
    if (!hf_number(h, LLM_KEY_experts, 0, &count) || !(count >= 1 && count <= 65536))
        return false;
    const uint32_t n = (uint32_t)count;
    const Tensor **list = find_experts(h, name, n);
    if (list == NULL)
        return false;
    hf_describe(h->arena, list[0], out);
    for (uint32_t i = 1; i < n && out->fault == NULL; i++)
        if (!tensor_is_alike(list[i], list[0])) {
            h->wrong_expert = expert_name(h, name, i);
            out->fault = "has another type or shape than that of expert 0";
        }
    if (out->fault != NULL)
        return true;
    const Shape shape = shape_of(list[0]->rank, list[0]->dim);
    out->data = join(h, list, n, (size_t)type_bytes(list[0]->dtype, &shape));
    if (out->data == NULL)
        out->fault = "lies on bytes of another expert";
    if (out->rank == LLM_MAX_RANK)
        out->fault = "has too many sizes";
    if (out->fault == NULL) {
        memmove(out->dim + 1, out->dim, out->rank * sizeof *out->dim);
        out->dim[0] = n;
        out->rank++;
    }
    return true;
}

// --- blocks of 4 bits ---

enum { FP4_ELEMENTS = 32, FP4_PACKED = FP4_ELEMENTS / 2, FP4_BYTES = FP4_PACKED + 1 };

// A block here has elements 2i and 2i + 1 in byte i, and its scale elsewhere. The format that rlxc has begins
// with the scale, and has elements i and i + 16 in byte i behind it.
static void repack(uint8_t *to, const uint8_t *packed, uint8_t scale)
{
    to[0] = scale;
    for (uint32_t i = 0; i < FP4_PACKED; i++) {
        const uint32_t shift = i % 2 * 4, low = packed[i / 2] >> shift & 15;
        const uint32_t high = packed[(i + FP4_PACKED) / 2] >> shift & 15;
        to[1 + i] = (uint8_t)(low | high << 4);
    }
}

static bool fits(const Tensor *blocks, const Tensor *scales)
{
    return blocks->dtype == DTYPE_u8 && scales->dtype == DTYPE_u8 && scales->rank == 3 && blocks->rank == 4 &&
           blocks->dim[3] == FP4_PACKED && memcmp(blocks->dim, scales->dim, 3 * sizeof *scales->dim) == 0;
}

static bool unite_blocks(HfFolder *h, const char *name, LlmTensor *out)
{
    HfTensor *b = hf_find(h, arena_printf(h->arena, "%s_blocks", name));
    HfTensor *s = hf_find(h, arena_printf(h->arena, "%s_scales", name));
    if (b == NULL || s == NULL)
        return false;
    b->is_asked = s->is_asked = true;
    *out = (LlmTensor){.rank = 3, .type = "mxfp4", .is_known = true, .dtype = DTYPE_u8, .format = "mxfp4"};
    out->elements = FP4_ELEMENTS;
    out->bytes = FP4_BYTES;
    h->assembled += (uint64_t)s->tensor->numel * FP4_BYTES;
    if (!fits(b->tensor, s->tensor) || s->tensor->numel == 0 || h->assembled > h->bytes) {
        out->fault = "has blocks and scales that do not fit each other";
        return true;
    }
    uint8_t *to = arena_alloc(h->arena, (size_t)s->tensor->numel * FP4_BYTES);
    const uint8_t *packed = b->tensor->data, *scale = s->tensor->data;
    for (int64_t i = 0; i < s->tensor->numel; i++)
        repack(to + i * FP4_BYTES, packed + i * FP4_PACKED, scale[i]);
    memcpy(out->dim, s->tensor->dim, 3 * sizeof *out->dim);
    out->dim[2] *= FP4_ELEMENTS;
    out->data = to;
    return true;
}

// --- by role ---

// What has to be put together, once. make: false if there is no such tensor.
static bool find_made(HfFolder *h, const char *name, bool (*make)(HfFolder *, const char *, LlmTensor *),
                      LlmTensor *out)
{
    uint64_t known = 0;
    if (map_get_str(&h->made, name, &known)) {
        *out = *(const LlmTensor *)(uintptr_t)known;
        return true;
    }
    if (!make(h, name, out))
        return false;
    map_put_str(h->arena, &h->made, name, (uint64_t)(uintptr_t)arena_copy(h->arena, out, sizeof *out));
    return true;
}

// Does config.json say that there are no such biases?
static bool is_bias_off(HfFolder *h, LlmRole role)
{
    const bool is_attention = role >= LLM_attn_q && role <= LLM_attn_output;
    const bool is_ffn = role == LLM_ffn_gate || role == LLM_ffn_up || role == LLM_ffn_down;
    return (is_attention && !hf_bool_at(h, "attention_bias", true)) ||
           (is_ffn && !hf_bool_at(h, "mlp_bias", true));
}

bool hf_tensor(HfFolder *h, LlmPlace place, LlmTensor *out)
{
    const uint32_t row = find_row(h->model->names, place.role);
    *out = (LlmTensor){0};
    if (place.role == LLM_factors_long || place.role == LLM_factors_short)
        return from_list(h, place.role, out);
    if (row == N_ROWS || (place.is_bias && is_bias_off(h, place.role)))
        return false;
    const char *name = name_of(h, row, h->prefix, place);
    if (strstr(name, "%e") != NULL)
        return !place.is_bias && find_made(h, name, assemble, out);
    HfTensor *t = hf_find(h, name);
    if (t == NULL)
        return rows[row].form == BARE && !place.is_bias && find_made(h, name, unite_blocks, out);
    t->is_asked = true;
    if (place.role == LLM_output && hf_is_tied(h))
        return false;
    hf_describe(h->arena, t->tensor, out);
    out->is_turned = rows[row].form != PLAIN && !place.is_bias;
    return true;
}
