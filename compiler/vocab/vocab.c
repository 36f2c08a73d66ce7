// SPDX-License-Identifier: Apache-2.0
// Checks what a file says about its vocabulary, and makes the tables that all vocabularies have.
#include "compiler/vocab/vocab.h"
#include "base/quote.h"
#include "runtime-lite/text/rlx_find.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *vocab_show(Arena *a, VocabText text)
{
    enum { MOST = 40 };
    Str s = str_new(a);
    const size_t n = text.len < MOST ? text.len : MOST;
    quote_print(&s, arena_strndup(a, text.data, n));
    str_add(&s, n < text.len ? "..." : "");
    return str_text(&s);
}

static bool fail_token(VocabBuild *b, uint32_t id, const char *why)
{
    return diag_error(b->diag, b->where, E0116, "token %u, %s: %s", id,
                      vocab_show(b->arena, b->source->tokens[id]), why);
}

static bool build_spm(VocabBuild *b);

// What the kinds of vocabularies have, by the names of GGUF.
static const struct VocabKind {
    const char *name;
    bool has_scores, has_marks; // U+2581 in place of spaces
    bool adds_first, adds_last; // where the file does not say it
    bool (*build)(VocabBuild *b);
} kinds[] = {
    {"llama", true, true, true, false, build_spm},
    {"gpt2", false, false, false, false, vocab_build_bpe},
    {"bert", false, true, true, true, vocab_build_wordpiece},
    {"t5", true, true, false, true, vocab_build_unigram},
};

static const struct VocabKind *kind_of(const VocabBuild *b)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (str_equal(b->source->model, kinds[i].name))
            return &kinds[i];
    return NULL;
}

// Do tokens have U+2581 in place of a space?
static bool has_marks(const VocabBuild *b)
{
    return kind_of(b)->has_marks || b->source->is_characters;
}

// --- what the file says --------------------------------------------------------------------------

static bool check_id(VocabBuild *b, const char *what, int64_t id)
{
    if (id >= -1 && id < (int64_t)b->source->n_tokens)
        return true;
    return diag_error(b->diag, b->where, E0116, "the %s token is number %lld, expected a number below %llu",
                      what, (long long)id, (unsigned long long)b->source->n_tokens);
}

static bool check_counts(VocabBuild *b)
{
    const VocabSource *s = b->source;
    if (s->n_tokens == 0)
        return diag_error(b->diag, b->where, E0116, "the vocabulary has no tokens");
    if (s->n_tokens > VOCAB_MAX_TOKENS || s->n_merges > VOCAB_MAX_MERGES)
        return diag_error(b->diag, b->where, E0004, "%llu tokens and %llu merges; rlxc accepts %d and %d",
                          (unsigned long long)s->n_tokens, (unsigned long long)s->n_merges, VOCAB_MAX_TOKENS,
                          VOCAB_MAX_MERGES);
    if (s->n_types != 0 && s->n_types != s->n_tokens)
        return diag_error(b->diag, b->where, E0116, "%llu tokens have %llu types",
                          (unsigned long long)s->n_tokens, (unsigned long long)s->n_types);
    if (kind_of(b)->has_scores && s->n_scores != s->n_tokens)
        return diag_error(b->diag, b->where, E0116, "%llu tokens have %llu scores, which `%s` needs",
                          (unsigned long long)s->n_tokens, (unsigned long long)s->n_scores, s->model);
    return check_id(b, "first", s->bos) && check_id(b, "last", s->eos) &&
           check_id(b, "unknown", s->unknown) && check_id(b, "turn's last", s->eot);
}

static bool check_token(VocabBuild *b, uint32_t id)
{
    const VocabSource *s = b->source;
    const VocabText text = s->tokens[id];
    const int32_t type = s->n_types == 0 ? RLX_TOKEN_NORMAL : s->types[id];
    if (text.len == 0)
        return fail_token(b, id, "it is empty");
    if (text.len > VOCAB_MAX_BYTES)
        return fail_token(b, id, "it has more than 1024 bytes");
    if (type < RLX_TOKEN_NORMAL || type > RLX_TOKEN_BYTE)
        return fail_token(b, id, "its type is none of 1 to 6");
    if (kind_of(b)->has_scores && isnan(s->scores[id]))
        return fail_token(b, id, "its score is not a number");
    uint64_t other;
    if (map_get(&b->ids, text.data, text.len, &other))
        return fail_token(b, id, arena_printf(b->arena, "it is token %u too", (uint32_t)other));
    map_put(b->arena, &b->ids, text.data, text.len, id);
    return true;
}

// --- bytes ---------------------------------------------------------------------------------------

int vocab_byte_of(VocabText t)
{
    static const char digits[] = "0123456789ABCDEFabcdef";
    if (t.len != 6 || memcmp(t.data, "<0x", 3) != 0 || t.data[5] != '>')
        return -1;
    int value = 0;
    for (int i = 3; i < 5; i++) {
        const char *p = t.data[i] == '\0' ? NULL : strchr(digits, t.data[i]);
        if (p == NULL)
            return -1;
        const int digit = (int)(p - digits);
        value = value * 16 + (digit < 16 ? digit : digit - 6);
    }
    return value;
}

// U+2581 is a space in vocabularies of SentencePiece.
static VocabText unmark(Arena *a, VocabText t)
{
    char *bytes = ARENA_ARRAY(a, char, t.len);
    size_t n = 0;
    for (size_t i = 0; i < t.len; i++) {
        const bool is_mark = t.len - i >= 3 && memcmp(t.data + i, "\xe2\x96\x81", 3) == 0;
        bytes[n++] = is_mark ? ' ' : t.data[i];
        i += is_mark ? 2 : 0;
    }
    return (VocabText){bytes, n};
}

static bool find_bytes(VocabBuild *b, uint32_t id, int32_t *byte_token, VocabText *out)
{
    const VocabText text = b->source->tokens[id];
    const uint8_t type = b->out->type[id];
    *out = has_marks(b)               ? unmark(b->arena, text)
           : type == RLX_TOKEN_NORMAL ? vocab_unmap(b->arena, text)
                                      : text;
    if (type == RLX_TOKEN_BYTE) {
        const int value = vocab_byte_of(text);
        if (value < 0)
            return fail_token(b, id, "expected the form <0x0A>, because it is of the type of bytes");
        if (byte_token[value] >= 0)
            return fail_token(b, id, "another token stands for this byte too");
        byte_token[value] = (int32_t)id;
        char *byte = ARENA_ARRAY(b->arena, char, 1);
        *byte = (char)value;
        *out = (VocabText){byte, 1};
    } else if (!has_marks(b) && type == RLX_TOKEN_NORMAL && out->len == 1) {
        byte_token[(uint8_t)*out->data] = (int32_t)id;
    }
    return true;
}

static bool add_bytes(VocabBuild *b)
{
    const uint32_t n = b->out->n_tokens;
    int32_t *byte_token = ARENA_ARRAY(b->arena, int32_t, 256);
    uint32_t *begin = ARENA_ARRAY(b->arena, uint32_t, n + 1);
    uint8_t *type = ARENA_ARRAY(b->arena, uint8_t, n);
    Str bytes = str_new(b->arena);
    memset(byte_token, 0xff, 256 * sizeof *byte_token);
    b->out->type = type;
    for (uint32_t id = 0; id < n; id++) {
        VocabText text;
        type[id] = b->source->n_types == 0 ? RLX_TOKEN_NORMAL : (uint8_t)b->source->types[id];
        if (!find_bytes(b, id, byte_token, &text))
            return false;
        rlx_assert(text.len != 0 && text.len <= VOCAB_MAX_BYTES);
        str_add_n(&bytes, text.data, text.len);
        begin[id + 1] = (uint32_t)bytes.len;
        b->out->longest = text.len > b->out->longest ? (uint32_t)text.len : b->out->longest;
    }
    b->out->bytes = (const uint8_t *)str_text(&bytes);
    b->out->begin = begin;
    b->out->byte_token = byte_token;
    return true;
}

// --- tables --------------------------------------------------------------------------------------

typedef struct Entry { // of a table that is sorted
    const uint8_t *data;
    size_t len;
    double score;
    uint32_t id, bucket;
} Entry;

static int compare_texts(const void *a, const void *b)
{
    const Entry *x = a, *y = b;
    const int order = memcmp(x->data, y->data, x->len < y->len ? x->len : y->len);
    if (order != 0 || x->len != y->len)
        return order != 0 ? order : x->len < y->len ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int compare_buckets(const void *a, const void *b)
{
    const Entry *x = a, *y = b;
    return x->bucket != y->bucket ? (x->bucket < y->bucket ? -1 : 1) : x->id < y->id ? -1 : x->id > y->id;
}

static int compare_scores(const void *a, const void *b)
{
    const Entry *x = a, *y = b;
    return x->score != y->score ? (x->score > y->score ? -1 : 1) : x->id < y->id ? -1 : x->id > y->id;
}

// The tokens whose type is one of the bits.
static Entry *list_tokens(const VocabBuild *b, uint32_t types, uint32_t *n)
{
    const rlx_vocab *v = b->out;
    Entry *e = ARENA_ARRAY(b->arena, Entry, v->n_tokens);
    *n = 0;
    for (uint32_t id = 0; id < v->n_tokens; id++)
        if ((types >> v->type[id] & 1) != 0)
            e[(*n)++] = (Entry){.data = v->bytes + v->begin[id], .len = rlx_token_length(v, id), .id = id};
    return e;
}

uint32_t *vocab_order(const VocabBuild *b, uint32_t types, uint32_t *n)
{
    Entry *e = list_tokens(b, types, n);
    uint32_t *order = ARENA_ARRAY(b->arena, uint32_t, *n + 1);
    qsort(e, *n, sizeof *e, compare_texts);
    for (uint32_t i = 0; i < *n; i++)
        order[i] = e[i].id;
    return order;
}

static bool add_specials(VocabBuild *b)
{
    uint32_t n;
    Entry *e = list_tokens(b, 1u << RLX_TOKEN_CONTROL | 1u << RLX_TOKEN_USER | 1u << RLX_TOKEN_UNKNOWN, &n);
    uint32_t *special = ARENA_ARRAY(b->arena, uint32_t, n + 1), *first = ARENA_ARRAY(b->arena, uint32_t, 8);
    qsort(e, n, sizeof *e, compare_texts);
    for (uint32_t i = 0; i < n; i++) {
        if (i != 0 && e[i - 1].len == e[i].len && memcmp(e[i - 1].data, e[i].data, e[i].len) == 0)
            return fail_token(b, e[i].id, arena_printf(b->arena, "it has the text of token %u", e[i - 1].id));
        rlx_assert(e[i].len != 0); // check_token refuses empty ones
        special[i] = e[i].id;
        first[e[i].data[0] >> 5] |= 1u << (e[i].data[0] & 31);
    }
    b->out->n_special = n;
    b->out->special = special;
    b->out->special_first = first;
    return true;
}

static void add_hash(VocabBuild *b)
{
    rlx_vocab *v = b->out;
    uint32_t n;
    Entry *e = list_tokens(b, 1u << RLX_TOKEN_NORMAL | 1u << RLX_TOKEN_USER, &n);
    while (v->bucket_bits < 24 && (1u << v->bucket_bits) < n)
        v->bucket_bits++;
    uint32_t *bucket = ARENA_ARRAY(b->arena, uint32_t, (1u << v->bucket_bits) + 1);
    uint32_t *by_hash = ARENA_ARRAY(b->arena, uint32_t, n + 1);
    for (uint32_t i = 0; i < n; i++)
        e[i].bucket = rlx_text_bucket(rlx_text_hash(e[i].data, e[i].len), v->bucket_bits);
    qsort(e, n, sizeof *e, compare_buckets);
    for (uint32_t i = 0; i < n; i++) {
        rlx_assert(e[i].bucket < 1u << v->bucket_bits);
        by_hash[i] = e[i].id;
        bucket[e[i].bucket + 1] = i + 1;
    }
    for (uint32_t i = 0; i < 1u << v->bucket_bits; i++) // empty buckets end where the one before them does
        bucket[i + 1] = bucket[i + 1] < bucket[i] ? bucket[i] : bucket[i + 1];
    rlx_assert(bucket[1u << v->bucket_bits] == n);
    v->bucket = bucket;
    v->by_hash = by_hash;
}

// Equal scores are equal ranks, so that the leftmost pair is merged first.
static bool build_spm(VocabBuild *b)
{
    uint32_t n, rank = 0;
    Entry *e = list_tokens(b, ~0u, &n);
    rlx_assert(n == b->out->n_tokens && b->source->n_scores == n);
    uint32_t *ranks = ARENA_ARRAY(b->arena, uint32_t, n);
    for (uint32_t i = 0; i < n; i++)
        e[i].score = b->source->scores[i];
    qsort(e, n, sizeof *e, compare_scores);
    for (uint32_t i = 0; i < n; i++) {
        rank += i != 0 && e[i].score != e[i - 1].score;
        ranks[e[i].id] = rank;
    }
    b->out->rank = ranks;
    b->out->has_space = b->source->adds_space != VOCAB_NO ? RLX_SPACE_ANY : 0;
    return true;
}

// --- all -----------------------------------------------------------------------------------------

static int32_t id_if(VocabSaid said, bool otherwise, int64_t id)
{
    return said == VOCAB_YES || (said == VOCAB_UNSAID && otherwise) ? (int32_t)id : -1;
}

static bool check_model(VocabBuild *b)
{
    const char *model = b->source->model;
    if (model == NULL)
        return diag_error(b->diag, b->where, E0116, "the file does not say of what kind its vocabulary is");
    if (kind_of(b) != NULL)
        return true;
    diag_error(b->diag, b->where, E0116, "vocabularies of the kind %s cannot be read",
               vocab_show(b->arena, (VocabText){model, strlen(model)}));
    diag_note(b->diag, b->where,
              "rlxc reads `llama` (SentencePiece), `gpt2` (byte-level BPE), `bert` (WordPiece) and `t5` "
              "(unigram)");
    return false;
}

bool vocab_build(Arena *a, Diag *d, Span where, const VocabSource *s, rlx_vocab *out)
{
    VocabBuild b = {.arena = a, .diag = d, .where = where, .source = s, .out = out};
    *out = (rlx_vocab){.n_tokens = (uint32_t)s->n_tokens};
    if (!check_model(&b) || !check_counts(&b))
        return false;
    out->bos = (int32_t)s->bos;
    out->eos = (int32_t)s->eos;
    out->eot = (int32_t)s->eot;
    out->unknown = (int32_t)s->unknown;
    for (uint32_t id = 0; id < out->n_tokens; id++)
        if (!check_token(&b, id))
            return false;
    if (!add_bytes(&b) || !add_specials(&b))
        return false;
    add_hash(&b);
    out->first = id_if(s->adds_first, kind_of(&b)->adds_first, s->bos);
    out->last = id_if(s->adds_last, kind_of(&b)->adds_last, s->eos);
    return vocab_build_normal(&b, kind_of(&b)->build == vocab_build_wordpiece) && kind_of(&b)->build(&b);
}
