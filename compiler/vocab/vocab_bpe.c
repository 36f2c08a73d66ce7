// SPDX-License-Identifier: Apache-2.0
// What only a byte-level BPE has: the bytes behind its characters, how it cuts text, and pairs in the order
// of merges.
#include "compiler/vocab/vocab.h"
#include <stdlib.h>
#include <string.h>

typedef struct Pre {
    const char *name;
    uint32_t cut, digits;
    bool begins;
} Pre;

static const Pre pres[] = {
#define PRE(name, cut, digits, begins) {name, cut, digits, begins != 0},
#include "compiler/vocab/vocab_pre.def"
};
enum { N_PRES = sizeof pres / sizeof *pres };

static const struct {
    const char *name, *text;
} regexes[] = {
#define REGEX(name, text) {name, text},
#include "compiler/vocab/vocab_pre.def"
};

const char *vocab_pre_of_regex(const char *text)
{
    for (size_t i = 0; i < sizeof regexes / sizeof *regexes; i++)
        if (str_equal(text, regexes[i].text))
            return regexes[i].name;
    return NULL;
}

// --- bytes ---------------------------------------------------------------------------------------

// The byte that a character stands for: itself where it can be printed, else the next one from U+0100 on.
static int unmap(uint32_t code)
{
    const bool is_plain =
        (code >= 33 && code <= 126) || (code >= 161 && code <= 172) || (code >= 174 && code <= 255);
    if (is_plain)
        return (int)code;
    if (code < 256 || code >= 256 + 68)
        return -1;
    const uint32_t n = code - 256; // bytes 0 to 32, 127 to 160, and 173
    rlx_assert(n < 68);
    return n < 33 ? (int)n : n < 67 ? (int)(n - 33 + 127) : 173;
}

VocabText vocab_unmap(Arena *a, VocabText text)
{
    const char *end = text.data + text.len;
    char *bytes = ARENA_ARRAY(a, char, text.len);
    size_t n = 0;
    for (const char *p = text.data; p < end;) {
        uint32_t code = 0;
        const size_t length = str_utf8(p, end, &code);
        const int byte = length == 0 ? -1 : unmap(code);
        if (byte < 0)
            return text;
        bytes[n++] = (char)byte;
        p += length;
    }
    return (VocabText){bytes, n};
}

// --- pairs ---------------------------------------------------------------------------------------

typedef struct Pair {
    uint32_t left, right, rank, token;
} Pair;

static int compare_pairs(const void *a, const void *b)
{
    const Pair *x = a, *y = b;
    if (x->left != y->left)
        return x->left < y->left ? -1 : 1;
    return x->right < y->right ? -1 : x->right > y->right;
}

static bool fail_merge(VocabBuild *b, uint64_t rank, const char *why)
{
    return diag_error(b->diag, b->where, E0116, "merge %llu, %s: %s", (unsigned long long)rank,
                      vocab_show(b->arena, b->source->merges[rank]), why);
}

static bool find_id(VocabBuild *b, VocabText text, uint32_t *id)
{
    uint64_t found;
    if (!map_get(&b->ids, text.data, text.len, &found))
        return false;
    *id = (uint32_t)found;
    return true;
}

static bool read_merge(VocabBuild *b, uint64_t rank, Pair *pair)
{
    const VocabText text = b->source->merges[rank];
    const char *space = text.len < 3 ? NULL : memchr(text.data + 1, ' ', text.len - 2);
    if (space == NULL)
        return fail_merge(b, rank, "expected two tokens with a space between them");
    const VocabText left = {text.data, (size_t)(space - text.data)};
    const VocabText right = {space + 1, text.len - left.len - 1};
    char *both = ARENA_ARRAY(b->arena, char, text.len);
    memcpy(both, left.data, left.len);
    memcpy(both + left.len, right.data, right.len);
    *pair = (Pair){.rank = (uint32_t)rank};
    if (!find_id(b, left, &pair->left) || !find_id(b, right, &pair->right))
        return fail_merge(b, rank, "one of the two is no token");
    if (!find_id(b, (VocabText){both, text.len - 1}, &pair->token))
        return fail_merge(b, rank, "what it makes is no token");
    return true;
}

static bool read_merges(VocabBuild *b, Pair **out)
{
    const uint64_t n = b->source->n_merges;
    Pair *pairs = ARENA_ARRAY(b->arena, Pair, n + 1);
    for (uint64_t i = 0; i < n; i++)
        if (!read_merge(b, i, &pairs[i]))
            return false;
    qsort(pairs, n, sizeof *pairs, compare_pairs);
    for (uint64_t i = 1; i < n; i++)
        if (compare_pairs(&pairs[i - 1], &pairs[i]) == 0)
            return fail_merge(b, pairs[i].rank, "the list has it twice");
    *out = pairs;
    return true;
}

static bool add_pairs(VocabBuild *b)
{
    rlx_vocab *v = b->out;
    const uint64_t n = b->source->n_merges;
    Pair *pairs = NULL;
    if (!read_merges(b, &pairs))
        return false;
    uint32_t *begin = ARENA_ARRAY(b->arena, uint32_t, v->n_tokens + 1);
    uint32_t *right = ARENA_ARRAY(b->arena, uint32_t, n + 1), *rank = ARENA_ARRAY(b->arena, uint32_t, n + 1);
    uint32_t *token = ARENA_ARRAY(b->arena, uint32_t, n + 1);
    for (uint64_t i = 0; i < n; i++) {
        right[i] = pairs[i].right;
        rank[i] = pairs[i].rank;
        token[i] = pairs[i].token;
        rlx_assert(pairs[i].left < v->n_tokens && right[i] < v->n_tokens && token[i] < v->n_tokens);
        begin[pairs[i].left + 1] = (uint32_t)i + 1;
    }
    for (uint32_t i = 0; i < v->n_tokens; i++) // tokens without pairs end where the one before them does
        begin[i + 1] = begin[i + 1] < begin[i] ? begin[i] : begin[i + 1];
    rlx_assert(begin[v->n_tokens] == n);
    v->pair_begin = begin;
    v->pair_right = right;
    v->pair_rank = rank;
    v->pair_token = token;
    return true;
}

// --- cutting -------------------------------------------------------------------------------------

static const Pre *find_pre(VocabBuild *b)
{
    const char *name = b->source->pre, *names[N_PRES];
    for (uint32_t i = 0; i < N_PRES; i++) {
        names[i] = pres[i].name;
        if (name != NULL && str_equal(name, names[i]))
            return &pres[i];
    }
    if (name == NULL) {
        diag_error(b->diag, b->where, E0116,
                   "the file does not say how its BPE cuts text (tokenizer.ggml.pre)");
    } else {
        diag_error(b->diag, b->where, E0116, "text is cut in a way that rlxc does not know: %s",
                   vocab_show(b->arena, (VocabText){name, strlen(name)}));
        diag_note_names(b->diag, b->where, name, names, NULL, N_PRES);
    }
    return NULL;
}

bool vocab_build_bpe(VocabBuild *b)
{
    const VocabSource *s = b->source;
    if (s->is_characters) {
        b->out->cut = RLX_CUT_CHARACTERS | (s->cuts_spaces ? (uint32_t)RLX_CUT_SPACES : 0);
        b->out->has_space = s->space;
        return add_pairs(b);
    }
    const Pre *pre = find_pre(b);
    if (pre == NULL)
        return false;
    const bool is_whole =
        s->takes_whole == VOCAB_UNSAID ? (pre->cut & RLX_CUT_WHOLE) != 0 : s->takes_whole == VOCAB_YES;
    b->out->cut = (pre->cut & ~(uint32_t)RLX_CUT_WHOLE) | (is_whole ? RLX_CUT_WHOLE : 0);
    b->out->digits = pre->digits;
    if (s->adds_first == VOCAB_UNSAID && pre->begins)
        b->out->first = (int32_t)s->bos;
    return add_pairs(b);
}
