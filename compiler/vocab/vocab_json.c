// SPDX-License-Identifier: Apache-2.0
// Vocabularies of tokenizer.json, as the `tokenizers` library writes it: BPE of bytes, BPE of characters in
// which U+2581 is a space, WordPiece and unigram. Settings that would change tokens and that the tables do
// not have are refused.
#include "compiler/vocab/vocab_json.h"
#include <math.h>
#include <string.h>

bool vj_fail(const JsonVocab *j, const char *why)
{
    return diag_error(j->diag, j->where, E0116, "%s", why);
}

const cJSON *vj_member(const cJSON *object, const char *name)
{
    return cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, name) : NULL;
}

bool vj_is_off(const cJSON *item)
{
    return item == NULL || cJSON_IsNull(item) || cJSON_IsFalse(item) ||
           (cJSON_IsString(item) && item->valuestring[0] == '\0');
}

bool vj_has_type(const cJSON *object, const char *type)
{
    const cJSON *item = vj_member(object, "type");
    return cJSON_IsString(item) && str_equal(item->valuestring, type);
}

// The steps of a sequence, or the one step that there is.
const cJSON *vj_first(const cJSON *item, const char *list)
{
    const cJSON *steps = vj_member(item, list);
    if (!vj_has_type(item, "Sequence"))
        return item;
    return cJSON_IsArray(steps) ? steps->child : NULL;
}

const cJSON *vj_next(const cJSON *whole, const cJSON *step)
{
    return step == whole ? NULL : step->next;
}

// --- tokens --------------------------------------------------------------------------------------

static bool read_id(const JsonVocab *j, const cJSON *item, int64_t *id)
{
    if (!cJSON_IsNumber(item) || item->valuedouble < 0 || item->valuedouble >= VOCAB_MAX_TOKENS ||
        floor(item->valuedouble) != item->valuedouble)
        return vj_fail(j, "a token's number is missing, or is none from 0 to 4194303");
    *id = (int64_t)item->valuedouble;
    return true;
}

static bool make_tokens(JsonVocab *j, int64_t n)
{
    j->source.n_tokens = j->source.n_types = (uint64_t)n;
    j->source.tokens = j->tokens = ARENA_ARRAY(j->arena, VocabText, n);
    j->source.types = j->types = ARENA_ARRAY(j->arena, int32_t, n);
    return true;
}

// The number of tokens: the largest id of either list, plus one.
static bool count_tokens(JsonVocab *j, const cJSON *vocab, const cJSON *added)
{
    const cJSON *item;
    int64_t id = 0, most = -1;
    cJSON_ArrayForEach(item, vocab)
    {
        if (!read_id(j, item, &id))
            return false;
        most = id > most ? id : most;
    }
    cJSON_ArrayForEach(item, added)
    {
        if (!read_id(j, vj_member(item, "id"), &id))
            return false;
        most = id > most ? id : most;
    }
    return make_tokens(j, most + 1);
}

static bool put_token(JsonVocab *j, int64_t id, const char *text, int32_t type)
{
    rlx_assert(id >= 0 && (uint64_t)id < j->source.n_tokens); // count_tokens has seen it
    VocabText *t = &j->tokens[id];
    if (t->data != NULL && (t->len != strlen(text) || memcmp(t->data, text, t->len) != 0))
        return diag_error(j->diag, j->where, E0116, "token %lld has two texts", (long long)id);
    *t = (VocabText){text, strlen(text)};
    j->types[id] = type;
    return true;
}

static bool put_added(JsonVocab *j, const cJSON *item)
{
    const cJSON *content = vj_member(item, "content");
    int64_t id;
    if (!read_id(j, vj_member(item, "id"), &id))
        return false;
    if (!cJSON_IsString(content))
        return vj_fail(j, "an added token has no content");
    if (!vj_is_off(vj_member(item, "single_word")) || !vj_is_off(vj_member(item, "lstrip")) ||
        !vj_is_off(vj_member(item, "rstrip")))
        diag_warning(j->diag, j->where, E0116,
                     "token %lld takes white space beside it or stands as a word; rlxc takes its text alone",
                     (long long)id);
    return put_token(j, id, content->valuestring,
                     vj_is_off(vj_member(item, "special")) ? RLX_TOKEN_USER : RLX_TOKEN_CONTROL);
}

static bool check_holes(const JsonVocab *j)
{
    for (uint64_t i = 0; i < j->source.n_tokens; i++)
        if (j->tokens[i].data == NULL)
            return diag_error(j->diag, j->where, E0116, "no token has the number %llu",
                              (unsigned long long)i);
    return true;
}

static bool read_tokens(JsonVocab *j)
{
    const cJSON *vocab = vj_member(j->model, "vocab"), *added = vj_member(j->root, "added_tokens"), *item;
    if (!cJSON_IsObject(vocab) || !(added == NULL || cJSON_IsArray(added)))
        return vj_fail(j, "expected the object model.vocab, and added_tokens as a list");
    if (!count_tokens(j, vocab, added))
        return false;
    cJSON_ArrayForEach(item, vocab) if (!put_token(j, (int64_t)item->valuedouble, item->string,
                                                   RLX_TOKEN_NORMAL)) return false;
    cJSON_ArrayForEach(item, added) if (!put_added(j, item)) return false;
    return check_holes(j);
}

// A list of tokens with their scores, in the order of their numbers.
static bool read_scored(JsonVocab *j)
{
    const cJSON *vocab = vj_member(j->model, "vocab"), *added = vj_member(j->root, "added_tokens"), *item;
    if (!cJSON_IsArray(vocab) || !(added == NULL || cJSON_IsArray(added)) ||
        cJSON_GetArraySize(vocab) > VOCAB_MAX_TOKENS)
        return vj_fail(j, "expected the list model.vocab, and added_tokens as a list");
    const int64_t n = cJSON_GetArraySize(vocab);
    if (!count_tokens(j, NULL, added) ||
        !make_tokens(j, n > (int64_t)j->source.n_tokens ? n : (int64_t)j->source.n_tokens))
        return false;
    double *scores = ARENA_ARRAY(j->arena, double, j->source.n_tokens);
    int64_t id = 0;
    cJSON_ArrayForEach(item, vocab)
    {
        const cJSON *text = item->child, *score = text == NULL ? NULL : text->next;
        if (!cJSON_IsArray(item) || !cJSON_IsString(text) || !cJSON_IsNumber(score) || score->next != NULL)
            return vj_fail(j, "expected each token of model.vocab as a text and its score");
        scores[id] = score->valuedouble;
        if (!put_token(j, id++, text->valuestring, RLX_TOKEN_NORMAL))
            return false;
    }
    cJSON_ArrayForEach(item, added) if (!put_added(j, item)) return false;
    j->source.scores = scores;
    j->source.n_scores = j->source.n_tokens;
    return check_holes(j);
}

// "a b" of older files, ["a", "b"] of newer ones.
static bool read_merge(JsonVocab *j, const cJSON *item, VocabText *out)
{
    const cJSON *left = cJSON_IsArray(item) ? item->child : NULL, *right = left == NULL ? NULL : left->next;
    const char *text = NULL;
    if (cJSON_IsString(item))
        text = item->valuestring;
    else if (cJSON_IsString(left) && cJSON_IsString(right) && right->next == NULL)
        text = arena_printf(j->arena, "%s %s", left->valuestring, right->valuestring);
    if (text == NULL)
        return vj_fail(j, "expected each of model.merges as two texts");
    *out = (VocabText){text, strlen(text)};
    return true;
}

static bool read_merges(JsonVocab *j)
{
    const cJSON *merges = vj_member(j->model, "merges"), *item;
    if (!cJSON_IsArray(merges))
        return vj_fail(j, "expected the list model.merges");
    VocabText *texts = ARENA_ARRAY(j->arena, VocabText, (size_t)cJSON_GetArraySize(merges) + 1);
    cJSON_ArrayForEach(item, merges) if (!read_merge(j, item, &texts[j->source.n_merges++])) return false;
    rlx_assert(j->source.n_merges == (uint64_t)cJSON_GetArraySize(merges));
    j->source.merges = texts;
    return true;
}

// --- settings ------------------------------------------------------------------------------------

// Tokens <0x00> to <0xFF>: with byte_fallback they are there for all bytes.
static bool mark_bytes(JsonVocab *j)
{
    uint32_t n = 0;
    if (vj_is_off(vj_member(j->model, "byte_fallback")))
        return true;
    for (uint64_t i = 0; i < j->source.n_tokens; i++)
        if (j->types[i] == RLX_TOKEN_NORMAL && vocab_byte_of(j->tokens[i]) >= 0) {
            j->types[i] = RLX_TOKEN_BYTE;
            n++;
        }
    return n == 256 ||
           vj_fail(j, "model.byte_fallback is set, but not every byte has a token <0x00> to <0xFF>");
}

// What stands for characters without a token.
static bool read_unknown(JsonVocab *j)
{
    const cJSON *unknown = vj_member(j->model, "unk_token");
    if (vj_is_off(unknown))
        return true;
    for (uint64_t i = 0; cJSON_IsString(unknown) && i < j->source.n_tokens; i++)
        if (str_equal(j->tokens[i].data, unknown->valuestring)) {
            j->source.unknown = (int64_t)i;
            return vj_has_type(j->model, "WordPiece") || !vj_is_off(vj_member(j->model, "fuse_unk")) ||
                   !vj_is_off(vj_member(j->model, "byte_fallback")) ||
                   vj_fail(j, "model.fuse_unk is off, which rlxc reads only with byte_fallback");
        }
    return vj_fail(j, "model.unk_token is no token");
}

static bool check_unread(const JsonVocab *j, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!vj_is_off(vj_member(j->model, names[i])))
            return diag_error(j->diag, j->where, E0116, "model.%s is set, which rlxc does not read",
                              names[i]);
    return true;
}

static bool read_bpe(JsonVocab *j)
{
    static const char *const unread[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix"};
    static const char *const unread_of_bytes[] = {"byte_fallback", "unk_token"};
    static const char *const unread_of_characters[] = {"ignore_merges"};
    if (!check_unread(j, unread, 3) ||
        !(j->source.is_characters ? check_unread(j, unread_of_characters, 1)
                                  : check_unread(j, unread_of_bytes, 2)))
        return false;
    j->source.takes_whole = vj_is_off(vj_member(j->model, "ignore_merges")) ? VOCAB_NO : VOCAB_YES;
    return read_tokens(j) && mark_bytes(j) && read_unknown(j) && read_merges(j);
}

// Tokens that go on with a word lose the sign before them, those that begin one get U+2581: so they stand in
// GGUF files too.
static void mark_words(JsonVocab *j)
{
    for (uint64_t i = 0; i < j->source.n_tokens; i++) {
        VocabText *t = &j->tokens[i];
        if (j->types[i] != RLX_TOKEN_NORMAL)
            continue;
        const bool goes_on = t->len > 2 && memcmp(t->data, "##", 2) == 0;
        const char *text = goes_on ? t->data + 2 : arena_printf(j->arena, "\xe2\x96\x81%s", t->data);
        *t = (VocabText){text, strlen(text)};
    }
}

static bool read_wordpiece(JsonVocab *j)
{
    const cJSON *prefix = vj_member(j->model, "continuing_subword_prefix");
    const cJSON *most = vj_member(j->model, "max_input_chars_per_word");
    if (!cJSON_IsString(prefix) || !str_equal(prefix->valuestring, "##"))
        return vj_fail(j, "expected model.continuing_subword_prefix to be ##");
    if (most != NULL && !(cJSON_IsNumber(most) && most->valuedouble >= 1 && most->valuedouble <= 1e6))
        return vj_fail(j, "expected model.max_input_chars_per_word from 1 to 1000000");
    j->source.model = "bert";
    j->source.longest_word = most == NULL ? 0 : (uint32_t)most->valuedouble;
    if (!read_tokens(j) || !read_unknown(j))
        return false;
    mark_words(j);
    return true;
}

static bool read_unigram(JsonVocab *j)
{
    const cJSON *unknown = vj_member(j->model, "unk_id");
    j->source.model = "t5";
    if (j->source.space == 0)
        j->source.adds_space = VOCAB_NO;
    return read_scored(j) && mark_bytes(j) && (vj_is_off(unknown) || read_id(j, unknown, &j->source.unknown));
}

static const struct {
    const char *type;
    bool (*read)(JsonVocab *j);
} models[] = {{"BPE", read_bpe}, {"WordPiece", read_wordpiece}, {"Unigram", read_unigram}};

static bool read_model(JsonVocab *j)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (vj_has_type(j->model, models[i].type))
            return vj_texts(j) && models[i].read(j);
    return vj_fail(j, "of tokenizer.json, rlxc reads BPE of bytes or of characters, WordPiece and Unigram");
}

static bool find_special(const JsonVocab *j, const cJSON *part, int64_t *id)
{
    const cJSON *name = vj_member(vj_member(part, "SpecialToken"), "id");
    for (uint64_t i = 0; cJSON_IsString(name) && i < j->source.n_tokens; i++)
        if (j->types[i] == RLX_TOKEN_CONTROL && str_equal(j->tokens[i].data, name->valuestring)) {
            *id = (int64_t)i;
            return true;
        }
    return false;
}

// A template of one special token before the text, one behind it, both or neither.
static bool read_template(JsonVocab *j, const cJSON *step)
{
    const cJSON *part = vj_member(step, "single");
    part = part == NULL ? NULL : part->child;
    if (find_special(j, part, &j->source.bos)) {
        j->source.adds_first = VOCAB_YES;
        part = part->next;
    }
    if (vj_member(part, "Sequence") == NULL)
        return vj_fail(j, "the template of post_processor is not one text between two tokens at most");
    part = part->next;
    if (find_special(j, part, &j->source.eos)) {
        j->source.adds_last = VOCAB_YES;
        part = part->next;
    }
    return part == NULL ||
           vj_fail(j, "the template of post_processor is not one text between two tokens at most");
}

// BERT's own form: a token before the text and one behind it, each with its number.
static bool read_pair(JsonVocab *j, const cJSON *step)
{
    const cJSON *first = vj_member(step, "cls"), *last = vj_member(step, "sep");
    if (!cJSON_IsArray(first) || !cJSON_IsArray(last) || cJSON_GetArraySize(first) != 2 ||
        cJSON_GetArraySize(last) != 2 || !read_id(j, first->child->next, &j->source.bos) ||
        !read_id(j, last->child->next, &j->source.eos))
        return vj_fail(j, "expected the members cls and sep of post_processor as tokens and their numbers");
    j->source.adds_first = j->source.adds_last = VOCAB_YES;
    return true;
}

static bool read_frame(JsonVocab *j)
{
    const cJSON *whole = vj_member(j->root, "post_processor");
    if (vj_is_off(whole))
        return true;
    for (const cJSON *s = vj_first(whole, "processors"); s != NULL; s = vj_next(whole, s)) {
        const bool is_template = vj_has_type(s, "TemplateProcessing");
        const bool is_pair = vj_has_type(s, "BertProcessing") || vj_has_type(s, "RobertaProcessing");
        if ((is_template && !read_template(j, s)) || (is_pair && !read_pair(j, s)))
            return false;
        if (!is_template && !is_pair && !vj_has_type(s, "ByteLevel"))
            return vj_fail(j, "post_processor does something that rlxc does not know");
    }
    return true;
}

bool vocab_read_json(Arena *a, Diag *d, uint32_t file, const char *text, size_t len, rlx_vocab *out)
{
    JsonVocab j = {.arena = a, .diag = d, .where = {.file = file}};
    const char *why = "it is no JSON";
    size_t at = 0;
    j.source = (VocabSource){.model = "gpt2", .bos = -1, .eos = -1, .eot = -1, .unknown = -1};
    j.source.adds_first = j.source.adds_last = j.source.adds_space = VOCAB_NO;
    if (json_check(text, len, &at, &why) != JSON_FINE || (j.root = json_parse(a, text, len, &at)) == NULL)
        return diag_error(d, (Span){.file = file, .begin = (uint32_t)at, .end = (uint32_t)at}, E0101, "%s",
                          why);
    j.model = vj_member(j.root, "model");
    return read_model(&j) && read_frame(&j) && vocab_build(a, d, j.where, &j.source, out);
}
