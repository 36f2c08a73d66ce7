// SPDX-License-Identifier: Apache-2.0
// Log-probabilities of tokens for clients that ask for them. Those of a token wait until its text is out:
// what a stop string takes back has none.
#include "server.h"
#include <math.h>
#include <string.h>

enum { MOST_PIECE = MODEL_PIECE_BYTES };

// The text of a token with U+FFFD in place of what is no character. Returns how many characters it has.
static int text_of(int32_t token, Text *out)
{
    char piece[MOST_PIECE];
    const int64_t n = model_piece(token, RLX_TOKENS_CONTROL, piece, sizeof piece);
    int count = 0;
    for (size_t i = 0, len; n > 0 && i < (size_t)n; i += len, count++) {
        len = character((const unsigned char *)piece + i, (size_t)n - i);
        text_add(out, len == 0 ? "\xef\xbf\xbd" : piece + i, len == 0 ? 3 : len);
        len += len == 0;
    }
    text_add(out, "", 0);
    return count;
}

static void add_text(cJSON *json, const char *name, int32_t token)
{
    Text text = {NULL, 0, 0};
    (void)text_of(token, &text);
    cJSON_AddStringToObject(json, name, text.data);
    text_free(&text);
}

static double logprob_of(rlx_candidate c)
{
    return isinf(c.logit) ? -9999.0 : (double)c.logit; // as the API writes it
}

// {"token", "logprob", "bytes"}
static cJSON *entry_of(rlx_candidate c)
{
    char piece[MOST_PIECE];
    const int64_t n = model_piece(c.token, RLX_TOKENS_CONTROL, piece, sizeof piece);
    cJSON *json = cJSON_CreateObject(), *bytes;
    add_text(json, "token", c.token);
    cJSON_AddNumberToObject(json, "logprob", logprob_of(c));
    bytes = cJSON_AddArrayToObject(json, "bytes");
    for (int64_t i = 0; i < n; i++)
        cJSON_AddItemToArray(bytes, cJSON_CreateNumber((unsigned char)piece[i]));
    return json;
}

static cJSON *chat_entry(const rlx_candidate *list, int64_t n)
{
    cJSON *json = entry_of(list[0]), *best = cJSON_AddArrayToObject(json, "top_logprobs");
    for (int64_t i = 1; i < n; i++)
        cJSON_AddItemToArray(best, entry_of(list[i]));
    return json;
}

// One member of each list that a text completion has.
static cJSON *text_entry(Request *r, const rlx_candidate *list, int64_t n)
{
    cJSON *json = cJSON_CreateObject(), *best;
    Text text = {NULL, 0, 0};
    const int characters = text_of(list[0].token, &text);
    cJSON_AddStringToObject(json, "tokens", text.data);
    text_free(&text);
    cJSON_AddNumberToObject(json, "token_logprobs", logprob_of(list[0]));
    best = cJSON_AddObjectToObject(json, "top_logprobs");
    for (int64_t i = 1; i < n; i++) {
        Text name = {NULL, 0, 0};
        (void)text_of(list[i].token, &name);
        if (cJSON_GetObjectItemCaseSensitive(best, name.data) == NULL)
            cJSON_AddNumberToObject(best, name.data, logprob_of(list[i]));
        text_free(&name);
    }
    cJSON_AddNumberToObject(json, "text_offset", r->n_characters);
    r->n_characters += characters;
    return json;
}

void logprobs_note(Request *r, const rlx_session *s)
{
    rlx_candidate list[MOST_BEST + 1];
    if (!r->has_logprobs)
        return;
    const int64_t n = model_logprobs(s, list, (size_t)r->n_best + 1);
    if (n <= 0)
        return;
    if (r->logprobs == NULL)
        r->logprobs = cJSON_CreateArray();
    cJSON_AddItemToArray(r->logprobs, r->is_chat ? chat_entry(list, n) : text_entry(r, list, n));
}

// How many entries have tokens whose text is out. Tokens of a session: the prompt, those whose entries
// were given out before, and those that wait.
static int count_sure(const Request *r)
{
    const int64_t waiting = cJSON_GetArraySize(r->logprobs), sure = r->n_sure - r->n_tokens - r->n_given;
    return (int)(sure < 0 ? 0 : sure < waiting ? sure : waiting);
}

cJSON *logprobs_take(Request *r)
{
    static const char *const lists[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    cJSON *json, *list[4];
    const int n = r->logprobs == NULL ? 0 : count_sure(r);
    if (!r->has_logprobs)
        return cJSON_CreateNull();
    json = cJSON_CreateObject();
    for (int k = 0; k < (r->is_chat ? 1 : 4); k++)
        list[k] = cJSON_AddArrayToObject(json, r->is_chat ? "content" : lists[k]);
    for (int i = 0; i < n; i++) {
        cJSON *entry = cJSON_DetachItemFromArray(r->logprobs, 0);
        if (r->is_chat) {
            cJSON_AddItemToArray(list[0], entry);
            continue;
        }
        for (int k = 0; k < 4; k++)
            cJSON_AddItemToArray(list[k], cJSON_DetachItemFromObject(entry, lists[k]));
        cJSON_Delete(entry);
    }
    if (r->is_chat)
        cJSON_AddNullToObject(json, "refusal");
    r->n_given += n;
    return json;
}
