// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json while it is read. Separate because what texts become and how they are cut are read apart
// from tokens and merges.
#ifndef COMPILER_VOCAB_VOCAB_JSON_H
#define COMPILER_VOCAB_VOCAB_JSON_H

#include "compiler/system/json_scan.h"
#include "compiler/vocab/vocab.h"

typedef struct JsonVocab {
    Arena *arena;
    Diag *diag;
    Span where;
    const cJSON *root, *model;
    VocabText *tokens;
    int32_t *types;
    VocabSource source;
} JsonVocab;

// Reports what is wrong; false.
bool vj_fail(const JsonVocab *j, const char *why);
// NULL: there is none, or it is no object.
const cJSON *vj_member(const cJSON *object, const char *name);
// Is it absent, null, false or an empty text?
bool vj_is_off(const cJSON *item);
bool vj_has_type(const cJSON *object, const char *type);
// The steps of a sequence, or the one step that there is.
const cJSON *vj_first(const cJSON *item, const char *list);
const cJSON *vj_next(const cJSON *whole, const cJSON *step);
// The members normalizer and pre_tokenizer (vocab_json_text.c).
bool vj_texts(JsonVocab *j);

#endif
