// SPDX-License-Identifier: Apache-2.0
// What a tokenizer.json says about texts: what its normalizer makes of them, and how its pre_tokenizer cuts
// them. Separate from its tokens (vocab_json.c).
#include "compiler/vocab/vocab_json.h"
#include <string.h>

#define MARK "\xe2\x96\x81" // U+2581

static bool is_text(const cJSON *item, const char *text)
{
    return cJSON_IsString(item) && str_equal(item->valuestring, text);
}

// --- what becomes of texts -----------------------------------------------------------------------

static bool add_step(JsonVocab *j, uint32_t step)
{
    if (j->source.n_steps == VOCAB_MAX_STEPS)
        return vj_fail(j, "the normalizer has more than 16 steps");
    j->source.steps[j->source.n_steps++] = (uint8_t)step;
    return true;
}

// The members of BertNormalizer, in the order in which they act. Small letters mean no accents too, if the
// file does not say it.
static bool read_bert(JsonVocab *j, const cJSON *step)
{
    const bool is_lower = !vj_is_off(vj_member(step, "lowercase"));
    const cJSON *strip = vj_member(step, "strip_accents");
    const bool has_accents = strip == NULL || cJSON_IsNull(strip) ? !is_lower : vj_is_off(strip);
    return (vj_is_off(vj_member(step, "clean_text")) || add_step(j, RLX_NORMAL_CLEAN)) &&
           (vj_is_off(vj_member(step, "handle_chinese_chars")) || add_step(j, RLX_NORMAL_CHINESE)) &&
           (has_accents || (add_step(j, RLX_NORMAL_D) && add_step(j, RLX_NORMAL_NONSPACING))) &&
           (!is_lower || add_step(j, RLX_NORMAL_LOWER));
}

static bool read_strip(JsonVocab *j, const cJSON *step)
{
    return (vj_is_off(vj_member(step, "strip_left")) || add_step(j, RLX_NORMAL_TRIM_LEFT)) &&
           (vj_is_off(vj_member(step, "strip_right")) || add_step(j, RLX_NORMAL_TRIM_RIGHT));
}

// Base64, as far as it goes.
static bool read_map(JsonVocab *j, const cJSON *step)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const cJSON *text = vj_member(step, "precompiled_charsmap");
    Str out = str_new(j->arena);
    uint32_t bits = 0, n = 0;
    if (vj_is_off(text)) // nothing is mapped
        return true;
    for (const char *p = cJSON_IsString(text) ? text->valuestring : ""; *p != '\0' && *p != '='; p++) {
        const char *digit = strchr(digits, *p);
        if (digit == NULL)
            return vj_fail(j, "precompiled_charsmap is no base64");
        bits = (bits << 6 | (uint32_t)(digit - digits)) & 0xffff;
        n += 6;
        if (n >= 8)
            str_char(&out, (char)(bits >> (n -= 8)));
    }
    j->source.map = (VocabText){str_text(&out), out.len};
    return add_step(j, RLX_NORMAL_MAP);
}

static const struct {
    const char *type;
    uint32_t step; // RLX_NORMAL_*; 0: `read` finds it
    bool (*read)(JsonVocab *j, const cJSON *step);
} normalizers[] = {
    {"NFC", RLX_NORMAL_C, NULL},
    {"NFD", RLX_NORMAL_D, NULL},
    {"NFKC", RLX_NORMAL_KC, NULL},
    {"NFKD", RLX_NORMAL_KD, NULL},
    {"StripAccents", RLX_NORMAL_MARKS, NULL},
    {"Lowercase", RLX_NORMAL_LOWER, NULL},
    {"BertNormalizer", 0, read_bert},
    {"Strip", 0, read_strip},
    {"Precompiled", 0, read_map},
};

// A step of the normalizer that puts U+2581 in place of spaces, or before a text. False: it is another one.
static bool read_space_step(JsonVocab *j, const cJSON *step)
{
    const cJSON *pattern = vj_member(step, "pattern"), *content = vj_member(step, "content");
    if (vj_has_type(step, "Prepend") && is_text(vj_member(step, "prepend"), MARK) &&
        !j->source.is_characters) {
        j->source.space = RLX_SPACE_ANY;
        return true;
    }
    if (!vj_has_type(step, "Replace"))
        return false;
    if (is_text(vj_member(pattern, "Regex"), " {2,}") && (is_text(content, MARK) || is_text(content, " ")))
        return add_step(j, RLX_NORMAL_RUNS);
    const bool is_mark = is_text(vj_member(pattern, "String"), " ") && is_text(content, MARK);
    j->source.is_characters = j->source.is_characters || is_mark;
    return is_mark;
}

static bool read_step(JsonVocab *j, const cJSON *step)
{
    const bool has_marks = j->source.is_characters || j->source.space != 0;
    for (size_t i = 0; i < sizeof normalizers / sizeof *normalizers; i++)
        if (vj_has_type(step, normalizers[i].type)) {
            if (has_marks)
                return vj_fail(j, "the normalizer changes texts in which U+2581 stands for spaces");
            return normalizers[i].step != 0 ? add_step(j, normalizers[i].step) : normalizers[i].read(j, step);
        }
    return read_space_step(j, step) ||
           vj_fail(j, "the normalizer changes texts in a way that rlxc does not know");
}

static bool read_normalizer(JsonVocab *j)
{
    const cJSON *normalizer = vj_member(j->root, "normalizer");
    if (!vj_is_off(normalizer))
        for (const cJSON *s = vj_first(normalizer, "normalizers"); s != NULL; s = vj_next(normalizer, s))
            if (!read_step(j, s))
                return false;
    return true;
}

// --- how they are cut ----------------------------------------------------------------------------

static const char *pre_of_split(const cJSON *step)
{
    const cJSON *regex = vj_member(vj_member(step, "pattern"), "Regex");
    const cJSON *behavior = vj_member(step, "behavior");
    const bool is_plain = cJSON_IsString(regex) && cJSON_IsString(behavior) &&
                          vj_is_off(vj_member(step, "invert")) &&
                          str_equal(behavior->valuestring, "Isolated");
    return is_plain ? vocab_pre_of_regex(regex->valuestring) : NULL;
}

// The pieces of a BPE of bytes.
static bool read_cut(JsonVocab *j)
{
    const cJSON *whole = vj_member(j->root, "pre_tokenizer");
    bool has_digits = false, has_bytes = false, is_known = true;
    const cJSON *s = vj_first(whole, "pretokenizers");
    for (; s != NULL && is_known; s = vj_next(whole, s)) {
        if (vj_has_type(s, "Digits") && !vj_is_off(vj_member(s, "individual_digits")) &&
            j->source.pre == NULL) {
            has_digits = true;
        } else if (vj_has_type(s, "Split") && j->source.pre == NULL) {
            j->source.pre = pre_of_split(s);
            is_known = j->source.pre != NULL;
        } else if (vj_has_type(s, "ByteLevel") && vj_is_off(vj_member(s, "add_prefix_space")) &&
                   !has_bytes) {
            const bool has_regex =
                vj_member(s, "use_regex") == NULL || !vj_is_off(vj_member(s, "use_regex"));
            is_known = has_regex == (j->source.pre == NULL);
            j->source.pre = has_regex ? (has_digits ? "starcoder" : "gpt-2") : j->source.pre;
            has_digits = false;
            has_bytes = true;
        } else {
            is_known = false;
        }
    }
    return (is_known && has_bytes && !has_digits) ||
           vj_fail(j, "pre_tokenizer cuts text in a way that rlxc does not know; docs/TOKENIZERS.md lists "
                      "those that it knows");
}

// U+2581 before a text and for its spaces, each of which begins a piece (`split`). Older files have
// add_prefix_space in place of prepend_scheme.
static bool read_metaspace(JsonVocab *j, const cJSON *step)
{
    const cJSON *scheme = vj_member(step, "prepend_scheme"), *split = vj_member(step, "split");
    const cJSON *prefix = vj_member(step, "add_prefix_space");
    const bool is_old = scheme == NULL;
    const bool is_always = is_old ? prefix == NULL || !vj_is_off(prefix) : is_text(scheme, "always");
    const bool is_first = !is_old && is_text(scheme, "first");
    if (!is_text(vj_member(step, "replacement"), MARK) ||
        !(is_old || is_first || is_always || is_text(scheme, "never")))
        return vj_fail(j, "the pre_tokenizer Metaspace has settings that rlxc does not know");
    if (is_first || is_always)
        j->source.space = (uint32_t)(RLX_SPACE_ANY | RLX_SPACE_ONE | (is_first ? RLX_SPACE_FIRST : 0));
    j->source.cuts_spaces = split == NULL || !vj_is_off(split);
    j->source.is_characters = true;
    return true;
}

// Words that are cut at white space, each with U+2581 before it, are a text with one space between.
static bool read_words(JsonVocab *j, const cJSON *whole)
{
    const cJSON *first = vj_first(whole, "pretokenizers"), *second = first == NULL ? NULL : first->next;
    return second != NULL && second->next == NULL && vj_has_type(first, "WhitespaceSplit") &&
           vj_has_type(second, "Metaspace") && read_metaspace(j, second) &&
           (j->source.space & (RLX_SPACE_ANY | RLX_SPACE_FIRST)) == RLX_SPACE_ANY &&
           add_step(j, RLX_NORMAL_WORDS);
}

// A split at spaces does nothing where the normalizer has left none.
static bool is_idle_split(const JsonVocab *j, const cJSON *step)
{
    return j->source.is_characters && vj_has_type(step, "Split") &&
           is_text(vj_member(vj_member(step, "pattern"), "String"), " ");
}

// Of BPE of characters, and of unigram: only at spaces.
static bool read_space_cut(JsonVocab *j, const cJSON *cut)
{
    if (vj_is_off(cut) || is_idle_split(j, cut))
        return true;
    if (j->source.is_characters)
        return vj_fail(j, "pre_tokenizer cuts text in which U+2581 stands for spaces; rlxc does not read "
                          "that");
    if (vj_has_type(cut, "Metaspace"))
        return read_metaspace(j, cut);
    return (vj_has_type(cut, "Sequence") && read_words(j, cut)) ||
           vj_fail(j, "pre_tokenizer cuts text in a way that rlxc does not know; docs/TOKENIZERS.md lists "
                      "those that it knows");
}

bool vj_texts(JsonVocab *j)
{
    const cJSON *cut = vj_member(j->root, "pre_tokenizer");
    rlx_assert(j->model != NULL && j->source.n_steps == 0); // this is the first that is read of texts
    const bool is_bpe = vj_has_type(j->model, "BPE"), is_words = vj_has_type(j->model, "WordPiece");
    if (!read_normalizer(j))
        return false;
    if (is_words && (j->source.is_characters || j->source.space != 0 ||
                     !vj_has_type(cut, "BertPreTokenizer")))
        return vj_fail(j, "of WordPiece, rlxc reads the pre_tokenizer BertPreTokenizer");
    if (is_words)
        return true;
    const bool is_old = vj_has_type(cut, "Sequence") &&
                        vj_has_type(vj_first(cut, "pretokenizers"), "WhitespaceSplit");
    if (is_bpe && !j->source.is_characters && !vj_has_type(cut, "Metaspace") && !is_old)
        return (j->source.space == 0 ||
                vj_fail(j, "the normalizer puts U+2581 before a text, but not in place of spaces")) &&
               read_cut(j);
    if (!read_space_cut(j, cut))
        return false;
    // What says nothing of spaces keeps them: U+2581 is then a sign like any other.
    return is_bpe || j->source.is_characters ||
           vj_fail(j, "nothing puts U+2581 in place of spaces, which rlxc wants of a unigram model");
}
