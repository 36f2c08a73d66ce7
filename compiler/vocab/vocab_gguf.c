// SPDX-License-Identifier: Apache-2.0
// Vocabularies of GGUF files, and the choice of the reader by what a file begins with.
#include "compiler/import/gguf/gguf.h"
#include "compiler/import/hf/hf.h"
#include "compiler/system/rawfile.h"
#include "compiler/vocab/vocab.h"
#include <string.h>

#define KEY(name) "tokenizer.ggml." name

static bool fail_key(const GgufFile *f, const char *key, const char *expected)
{
    return diag_error(f->diag, f->parts.data[0].span, E0116, "%s: expected %s", key, expected);
}

// An array of strings. Absent: n is 0.
static bool read_texts(const GgufFile *f, const char *key, const VocabText **out, uint64_t *n)
{
    GgufArray array;
    if (gguf_find(f, key) == NULL)
        return true;
    if (!gguf_array(f, key, &array) || (array.text == NULL && array.n != 0))
        return fail_key(f, key, "a list of strings");
    VocabText *texts = ARENA_ARRAY(f->arena, VocabText, array.n + 1);
    for (uint64_t i = 0; i < array.n; i++)
        texts[i] = (VocabText){array.text[i].data, array.text[i].len};
    *out = texts;
    *n = array.n;
    return true;
}

static bool has_numbers(const GgufFile *f, const char *key, GgufArray *array)
{
    return gguf_array(f, key, array) && array->type != GGUF_string && array->type != GGUF_array;
}

static bool read_numbers(const GgufFile *f, VocabSource *s)
{
    GgufArray array = {0};
    if (gguf_find(f, KEY("scores")) != NULL) {
        if (!has_numbers(f, KEY("scores"), &array))
            return fail_key(f, KEY("scores"), "a list of numbers");
        double *scores = ARENA_ARRAY(f->arena, double, array.n + 1);
        for (uint64_t i = 0; i < array.n; i++)
            scores[i] = gguf_array_float(&array, i);
        s->scores = scores;
        s->n_scores = array.n;
    }
    if (gguf_find(f, KEY("token_type")) == NULL)
        return true;
    if (!has_numbers(f, KEY("token_type"), &array))
        return fail_key(f, KEY("token_type"), "a list of numbers");
    int32_t *types = ARENA_ARRAY(f->arena, int32_t, array.n + 1);
    for (uint64_t i = 0; i < array.n; i++) {
        const int64_t type = gguf_array_int(&array, i);
        types[i] = type < 0 || type > INT32_MAX ? 0 : (int32_t)type;
    }
    s->types = types;
    s->n_types = array.n;
    return true;
}

// -1 where the file has none, and `otherwise` is no token either.
static bool read_id(const GgufFile *f, const char *key, int64_t otherwise, int64_t *id)
{
    uint64_t value;
    *id = otherwise;
    if (gguf_find(f, key) == NULL)
        return true;
    if (!gguf_uint(f, key, &value) || value >= VOCAB_MAX_TOKENS)
        return fail_key(f, key, "the number of a token");
    *id = (int64_t)value;
    return true;
}

// The tokens of the file, by the names that it may use; else what files of a kind mean if they do not say it.
static const struct {
    const char *model;
    int64_t unknown, bos, eos;
} usual[] = {{"llama", 0, 1, 2}, {"bert", 100, 101, 102}, {"t5", 2, -1, 1}};

static bool read_ids(const GgufFile *f, VocabSource *s)
{
    int64_t unknown = -1, bos = -1, eos = -1;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (s->model != NULL && str_equal(s->model, usual[i].model) &&
            s->n_tokens > (uint64_t)(usual[i].eos > usual[i].unknown ? usual[i].eos : usual[i].unknown)) {
            unknown = usual[i].unknown;
            bos = usual[i].bos;
            eos = usual[i].eos;
        }
    return read_id(f, KEY("unknown_token_id"), unknown, &s->unknown) &&
           read_id(f, KEY("bos_token_id"), bos, &s->bos) && read_id(f, KEY("eos_token_id"), eos, &s->eos) &&
           read_id(f, KEY("eot_token_id"), -1, &s->eot) &&
           (!str_equal(s->model == NULL ? "" : s->model, "bert") ||
            (read_id(f, KEY("cls_token_id"), s->bos, &s->bos) &&
             read_id(f, KEY("seperator_token_id"), s->eos, &s->eos))); // so it is written
}

static VocabSaid read_said(const GgufFile *f, const char *key)
{
    bool value;
    return !gguf_bool(f, key, &value) ? VOCAB_UNSAID : value ? VOCAB_YES : VOCAB_NO;
}

// What texts become first: the file does not say it of WordPiece, where it is what BERT does.
static bool read_steps(const GgufFile *f, VocabSource *s)
{
    static const uint8_t of_bert[] = {RLX_NORMAL_CLEAN, RLX_NORMAL_CHINESE, RLX_NORMAL_D,
                                      RLX_NORMAL_NONSPACING, RLX_NORMAL_LOWER};
    static const char map[] = KEY("precompiled_charsmap");
    bool removes = true;
    GgufArray array;
    if (s->model == NULL)
        return true;
    if (str_equal(s->model, "bert")) {
        memcpy(s->steps, of_bert, sizeof of_bert);
        s->n_steps = sizeof of_bert;
    }
    if (!str_equal(s->model, "t5"))
        return true;
    if (gguf_find(f, map) != NULL) {
        if (!has_numbers(f, map, &array))
            return fail_key(f, map, "a list of bytes");
        char *bytes = ARENA_ARRAY(f->arena, char, array.n + 1);
        for (uint64_t i = 0; i < array.n; i++)
            bytes[i] = (char)gguf_array_int(&array, i);
        s->map = (VocabText){bytes, array.n};
        s->steps[s->n_steps++] = RLX_NORMAL_MAP;
    }
    (void)gguf_bool(f, KEY("remove_extra_whitespaces"), &removes);
    if (removes) {
        s->steps[s->n_steps++] = RLX_NORMAL_RUNS;
        s->steps[s->n_steps++] = RLX_NORMAL_TRIM;
    }
    return true;
}

static bool vocab_read_gguf(const GgufFile *f, rlx_vocab *out)
{
    VocabSource s = {.model = gguf_string(f, KEY("model")), .pre = gguf_string(f, KEY("pre"))};
    if (!read_texts(f, KEY("tokens"), &s.tokens, &s.n_tokens) ||
        !read_texts(f, KEY("merges"), &s.merges, &s.n_merges) || !read_numbers(f, &s) || !read_ids(f, &s) ||
        !read_steps(f, &s))
        return false;
    s.adds_first = read_said(f, KEY("add_bos_token"));
    s.adds_last = read_said(f, KEY("add_eos_token"));
    s.adds_space = read_said(f, KEY("add_space_prefix"));
    return vocab_build(f->arena, f->diag, f->parts.data[0].span, &s, out);
}

bool vocab_open(Arena *a, Diag *d, const char *path, rlx_vocab *out)
{
    RawFile file;
    GgufFile gguf;
    if (hf_is_folder(path))
        return vocab_read_folder(a, d, path, out);
    if (!rawfile_open(a, d, (Span){0}, path, &file))
        return false;
    if (gguf_is(file.data, file.len))
        return gguf_read(a, d, path, file.data, file.len, &gguf) && vocab_read_gguf(&gguf, out);
    if (file.len != 0 && memchr("{ \t\r\n", file.data[0], 5) != NULL)
        return vocab_read_json(a, d, diag_add_file(d, path, file.data, file.len), file.data, file.len, out);
    return diag_error(d, (Span){diag_add_file(d, path, NULL, 0), 0, 0, NULL}, E0108,
                      "expected a GGUF file or a tokenizer.json");
}
