// SPDX-License-Identifier: Apache-2.0
// Vocabularies of tokenizer.json, as the `tokenizers` library writes it: byte-level BPE, and BPE of
// characters in which U+2581 is a space. Settings that would change tokens and that the tables do not have
// are refused.
#include "compiler/system/json_scan.h"
#include "compiler/vocab/vocab.h"
#include <math.h>
#include <string.h>

typedef struct JsonVocab {
    Arena *arena;
    Diag *diag;
    Span where;
    const cJSON *root, *model;
    VocabText *tokens;
    int32_t *types;
    VocabSource source;
} JsonVocab;

static bool fail(const JsonVocab *j, const char *why)
{
    return diag_error(j->diag, j->where, E0116, "%s", why);
}

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, name) : NULL;
}

static bool is_off(const cJSON *item)
{
    return item == NULL || cJSON_IsNull(item) || cJSON_IsFalse(item) ||
           (cJSON_IsString(item) && item->valuestring[0] == '\0');
}

static bool has_type(const cJSON *object, const char *type)
{
    const cJSON *item = member(object, "type");
    return cJSON_IsString(item) && str_equal(item->valuestring, type);
}

// --- tokens --------------------------------------------------------------------------------------

static bool read_id(const JsonVocab *j, const cJSON *item, int64_t *id)
{
    if (!cJSON_IsNumber(item) || item->valuedouble < 0 || item->valuedouble >= VOCAB_MAX_TOKENS ||
        floor(item->valuedouble) != item->valuedouble)
        return fail(j, "a token's number is missing, or is none from 0 to 4194303");
    *id = (int64_t)item->valuedouble;
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
        if (!read_id(j, member(item, "id"), &id))
            return false;
        most = id > most ? id : most;
    }
    j->source.n_tokens = (uint64_t)(most + 1);
    j->source.n_types = (uint64_t)(most + 1);
    j->tokens = ARENA_ARRAY(j->arena, VocabText, most + 1);
    j->types = ARENA_ARRAY(j->arena, int32_t, most + 1);
    return true;
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
    const cJSON *content = member(item, "content");
    int64_t id;
    if (!read_id(j, member(item, "id"), &id))
        return false;
    if (!cJSON_IsString(content))
        return fail(j, "an added token has no content");
    if (!is_off(member(item, "single_word")) || !is_off(member(item, "lstrip")) ||
        !is_off(member(item, "rstrip")))
        diag_warning(j->diag, j->where, E0116,
                     "token %lld takes white space beside it or stands as a word; rlxc takes its text alone",
                     (long long)id);
    return put_token(j, id, content->valuestring,
                     is_off(member(item, "special")) ? RLX_TOKEN_USER : RLX_TOKEN_CONTROL);
}

static bool read_tokens(JsonVocab *j)
{
    const cJSON *vocab = member(j->model, "vocab"), *added = member(j->root, "added_tokens"), *item;
    if (!cJSON_IsObject(vocab) || !(added == NULL || cJSON_IsArray(added)))
        return fail(j, "expected the object model.vocab, and added_tokens as a list");
    if (!count_tokens(j, vocab, added))
        return false;
    cJSON_ArrayForEach(item, vocab) if (!put_token(j, (int64_t)item->valuedouble, item->string,
                                                   RLX_TOKEN_NORMAL)) return false;
    cJSON_ArrayForEach(item, added) if (!put_added(j, item)) return false;
    for (uint64_t i = 0; i < j->source.n_tokens; i++)
        if (j->tokens[i].data == NULL)
            return diag_error(j->diag, j->where, E0116, "no token has the number %llu",
                              (unsigned long long)i);
    j->source.tokens = j->tokens;
    j->source.types = j->types;
    return true;
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
        return fail(j, "expected each of model.merges as two texts");
    *out = (VocabText){text, strlen(text)};
    return true;
}

static bool read_merges(JsonVocab *j)
{
    const cJSON *merges = member(j->model, "merges"), *item;
    if (!cJSON_IsArray(merges))
        return fail(j, "expected the list model.merges");
    VocabText *texts = ARENA_ARRAY(j->arena, VocabText, (size_t)cJSON_GetArraySize(merges) + 1);
    cJSON_ArrayForEach(item, merges) if (!read_merge(j, item, &texts[j->source.n_merges++])) return false;
    rlx_assert(j->source.n_merges == (uint64_t)cJSON_GetArraySize(merges));
    j->source.merges = texts;
    return true;
}

// --- settings ------------------------------------------------------------------------------------

// The steps of a sequence, or the one step that there is.
static const cJSON *first_step(const cJSON *item, const char *list)
{
    return has_type(item, "Sequence") ? (cJSON_IsArray(member(item, list)) ? member(item, list)->child : NULL)
                                      : item;
}

static const cJSON *next_step(const cJSON *whole, const cJSON *step)
{
    return step == whole ? NULL : step->next;
}

static const char *pre_of_split(const cJSON *step)
{
    const cJSON *regex = member(member(step, "pattern"), "Regex"), *behavior = member(step, "behavior");
    const bool is_plain = cJSON_IsString(regex) && cJSON_IsString(behavior) &&
                          is_off(member(step, "invert")) && str_equal(behavior->valuestring, "Isolated");
    return is_plain ? vocab_pre_of_regex(regex->valuestring) : NULL;
}

static bool read_cut(JsonVocab *j)
{
    const cJSON *whole = member(j->root, "pre_tokenizer");
    if (j->source.is_characters)
        return true; // read_spaces has read it
    bool has_digits = false, has_bytes = false, is_known = true;
    const cJSON *s = first_step(whole, "pretokenizers");
    for (; s != NULL && is_known; s = next_step(whole, s)) {
        if (has_type(s, "Digits") && !is_off(member(s, "individual_digits")) && j->source.pre == NULL) {
            has_digits = true;
        } else if (has_type(s, "Split") && j->source.pre == NULL) {
            j->source.pre = pre_of_split(s);
            is_known = j->source.pre != NULL;
        } else if (has_type(s, "ByteLevel") && is_off(member(s, "add_prefix_space")) && !has_bytes) {
            const bool has_regex = member(s, "use_regex") == NULL || !is_off(member(s, "use_regex"));
            is_known = has_regex == (j->source.pre == NULL);
            j->source.pre = has_regex ? (has_digits ? "starcoder" : "gpt-2") : j->source.pre;
            has_digits = false;
            has_bytes = true;
        } else {
            is_known = false;
        }
    }
    return (is_known && has_bytes && !has_digits) ||
           fail(j, "pre_tokenizer cuts text in a way that rlxc does not know; docs/TOKENIZERS.md lists those "
                   "that it knows");
}

// --- spaces --------------------------------------------------------------------------------------

static bool is_text(const cJSON *item, const char *text)
{
    return cJSON_IsString(item) && str_equal(item->valuestring, text);
}

#define MARK "\xe2\x96\x81" // U+2581

// A step of the normalizer that puts U+2581 in place of spaces, or before a text. False: it is another one.
static bool read_space_step(JsonVocab *j, const cJSON *step)
{
    if (has_type(step, "Prepend") && is_text(member(step, "prepend"), MARK) && !j->source.is_characters) {
        j->source.space = RLX_SPACE_ANY;
        return true;
    }
    const bool is_mark = has_type(step, "Replace") &&
                         is_text(member(member(step, "pattern"), "String"), " ") &&
                         is_text(member(step, "content"), MARK);
    j->source.is_characters = j->source.is_characters || is_mark;
    return is_mark;
}

static bool read_metaspace(JsonVocab *j, const cJSON *step)
{
    const cJSON *scheme = member(step, "prepend_scheme"), *split = member(step, "split");
    const bool is_first = is_text(scheme, "first"), is_always = is_text(scheme, "always");
    if (!is_text(member(step, "replacement"), MARK) || split == NULL || !is_off(split) ||
        !(is_first || is_always || is_text(scheme, "never")))
        return false;
    if (is_first || is_always)
        j->source.space = (uint32_t)(RLX_SPACE_ANY | RLX_SPACE_ONE | (is_first ? RLX_SPACE_FIRST : 0));
    j->source.is_characters = true;
    return true;
}

// A split at spaces does nothing where the normalizer has left none.
static bool is_idle_split(const JsonVocab *j, const cJSON *step)
{
    return j->source.is_characters && has_type(step, "Split") &&
           is_text(member(member(step, "pattern"), "String"), " ");
}

// What becomes of spaces, which says whether the BPE is one of characters.
static bool read_spaces(JsonVocab *j)
{
    const cJSON *normalizer = member(j->root, "normalizer"), *cut = member(j->root, "pre_tokenizer");
    if (!is_off(normalizer) && !has_type(normalizer, "NFC"))
        for (const cJSON *s = first_step(normalizer, "normalizers"); s != NULL; s = next_step(normalizer, s))
            if (!read_space_step(j, s))
                return fail(j, "the normalizer changes texts in a way that rlxc does not know");
    const bool is_characters = j->source.is_characters, is_meta = has_type(cut, "Metaspace");
    if (is_meta && (!is_off(normalizer) || !read_metaspace(j, cut)))
        return fail(j, "the pre_tokenizer Metaspace has settings that rlxc does not know");
    if (is_characters && !is_off(cut) && !is_idle_split(j, cut))
        return fail(j, "pre_tokenizer cuts text in which U+2581 stands for spaces; rlxc does not read that");
    return j->source.space == 0 || j->source.is_characters ||
           fail(j, "the normalizer puts U+2581 before a text, but not in place of spaces");
}

// Tokens <0x00> to <0xFF>: with byte_fallback they are there for all bytes.
static bool mark_bytes(JsonVocab *j)
{
    uint32_t n = 0;
    if (is_off(member(j->model, "byte_fallback")))
        return true;
    for (uint64_t i = 0; i < j->source.n_tokens; i++)
        if (j->types[i] == RLX_TOKEN_NORMAL && vocab_byte_of(j->tokens[i]) >= 0) {
            j->types[i] = RLX_TOKEN_BYTE;
            n++;
        }
    return n == 256 || fail(j, "model.byte_fallback is set, but not every byte has a token <0x00> to <0xFF>");
}

// What stands for characters without a token.
static bool read_unknown(JsonVocab *j)
{
    const cJSON *unknown = member(j->model, "unk_token");
    if (is_off(unknown))
        return true;
    for (uint64_t i = 0; cJSON_IsString(unknown) && i < j->source.n_tokens; i++)
        if (str_equal(j->tokens[i].data, unknown->valuestring)) {
            j->source.unknown = (int64_t)i;
            return !is_off(member(j->model, "fuse_unk")) || !is_off(member(j->model, "byte_fallback")) ||
                   fail(j, "model.fuse_unk is off, which rlxc reads only with byte_fallback");
        }
    return fail(j, "model.unk_token is no token");
}

static bool check_unread(const JsonVocab *j, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!is_off(member(j->model, names[i])))
            return diag_error(j->diag, j->where, E0116, "model.%s is set, which rlxc does not read",
                              names[i]);
    return true;
}

static bool read_model(JsonVocab *j)
{
    static const char *const unread[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix"};
    static const char *const unread_of_bytes[] = {"byte_fallback", "unk_token"};
    static const char *const unread_of_characters[] = {"ignore_merges"};
    if (!has_type(j->model, "BPE"))
        return fail(j,
                    "expected the model BPE: of tokenizer.json, rlxc reads BPE, of bytes or of characters");
    if (!read_spaces(j) || !check_unread(j, unread, 3) ||
        !(j->source.is_characters ? check_unread(j, unread_of_characters, 1)
                                  : check_unread(j, unread_of_bytes, 2)))
        return false;
    j->source.takes_whole = is_off(member(j->model, "ignore_merges")) ? VOCAB_NO : VOCAB_YES;
    return true;
}

static bool find_special(const JsonVocab *j, const cJSON *part, int64_t *id)
{
    const cJSON *name = member(member(part, "SpecialToken"), "id");
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
    const cJSON *part = member(step, "single");
    part = part == NULL ? NULL : part->child;
    if (find_special(j, part, &j->source.bos)) {
        j->source.adds_first = VOCAB_YES;
        part = part->next;
    }
    if (member(part, "Sequence") == NULL)
        return fail(j, "the template of post_processor is not one text between two tokens at most");
    part = part->next;
    if (find_special(j, part, &j->source.eos)) {
        j->source.adds_last = VOCAB_YES;
        part = part->next;
    }
    return part == NULL ||
           fail(j, "the template of post_processor is not one text between two tokens at most");
}

static bool read_frame(JsonVocab *j)
{
    const cJSON *whole = member(j->root, "post_processor");
    if (is_off(whole))
        return true;
    for (const cJSON *s = first_step(whole, "processors"); s != NULL; s = next_step(whole, s)) {
        const bool is_template = has_type(s, "TemplateProcessing");
        if (is_template && !read_template(j, s))
            return false;
        if (!is_template && !has_type(s, "ByteLevel"))
            return fail(j, "post_processor does something that rlxc does not know");
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
    j.model = member(j.root, "model");
    return read_model(&j) && read_tokens(&j) && mark_bytes(&j) && read_unknown(&j) && read_merges(&j) &&
           read_cut(&j) && read_frame(&j) && vocab_build(a, d, j.where, &j.source, out);
}
