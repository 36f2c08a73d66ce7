// SPDX-License-Identifier: Apache-2.0
// Reads what clients send: JSON as the API of OpenAI has it. What would change the answer in a way that this
// server lacks is refused, and so is all that is not as it should be; other members do not count.
#include "server.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_TOKENS = 512 };

// --- texts ---------------------------------------------------------------------------------------

size_t character(const unsigned char *p, size_t n)
{
    const size_t more = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4, len = p[0] < 0x80 ? 1 : more;
    if (p[0] == 0 || (p[0] >= 0x80 && p[0] < 0xc2) || p[0] > 0xf4 || len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
        (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return len;
}

// cJSON's texts end at a zero, so that none may be in them.
static int is_text(const char *body, size_t n)
{
    for (size_t i = 0, len; i < n; i += len) {
        len = character((const unsigned char *)body + i, n - i);
        if (len == 0 || (n - i >= 6 && memcmp(body + i, "\\u0000", 6) == 0))
            return 0;
    }
    return 1;
}

// --- conversations -------------------------------------------------------------------------------

static const char *text_of(const cJSON *of, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(of, name));
}

// The text of a message: a string, or a list of parts. NULL: it is something else.
static cJSON *read_content(const cJSON *content, int may_be_none)
{
    Text all = {NULL, 0, 0};
    const cJSON *part;
    int ok = cJSON_IsArray(content);
    text_add(&all, "", 0);
    if (cJSON_IsString(content)) {
        text_add(&all, content->valuestring, strlen(content->valuestring));
        ok = 1;
    } else if (may_be_none && (content == NULL || cJSON_IsNull(content))) {
        ok = 1;
    }
    if (cJSON_IsArray(content))
        cJSON_ArrayForEach(part, content) {
            const char *text = text_of(part, "text");
            ok = ok && text != NULL;
            text_add(&all, text == NULL ? "" : text, text == NULL ? 0 : strlen(text));
        }
    cJSON *made = ok ? cJSON_CreateString(all.data) : NULL;
    text_free(&all);
    return made;
}

// Earlier calls of tools, as templates take them. NULL: there is one that is none.
static cJSON *read_calls(const cJSON *calls)
{
    cJSON *list = cJSON_Duplicate(calls, 1), *call;
    int ok = cJSON_IsArray(list);
    if (ok)
        cJSON_ArrayForEach(call, list) {
            cJSON *function = cJSON_GetObjectItemCaseSensitive(call, "function");
            const char *arguments = text_of(function, "arguments");
            cJSON *object = arguments == NULL ? NULL : cJSON_Parse(arguments);
            ok = ok && cJSON_IsObject(object) && text_of(function, "name") != NULL;
            if (ok && !form.takes_texts)
                cJSON_ReplaceItemInObjectCaseSensitive(function, "arguments", object);
            else
                cJSON_Delete(object);
        }
    if (ok)
        return list;
    cJSON_Delete(list);
    return NULL;
}

// A message as templates take it. NULL: why.
static cJSON *read_message(const cJSON *message, const char **why)
{
    static const char *const names[] = {"system", "user", "assistant", "tool", "developer"};
    enum { ROLES = 5, ASSISTANT = 2 };
    const char *role = text_of(message, "role"), *id = text_of(message, "tool_call_id");
    const char *name = text_of(message, "name");
    const cJSON *calls = cJSON_GetObjectItemCaseSensitive(message, "tool_calls");
    const int has_calls = cJSON_IsArray(calls) && calls->child != NULL;
    int known = 0;
    while (role != NULL && known < ROLES && strcmp(role, names[known]) != 0)
        known++;
    *why = "expected a 'role' of system, user, assistant or tool in each message";
    if (role == NULL || known == ROLES)
        return NULL;
    cJSON *content = read_content(cJSON_GetObjectItemCaseSensitive(message, "content"), has_calls);
    *why = "expected a 'content' that is a text, or a list of texts, in each message";
    if (content == NULL)
        return NULL;
    cJSON *made = cJSON_CreateObject();
    cJSON_AddStringToObject(made, "role", known == ROLES - 1 ? "system" : role);
    cJSON_AddItemToObject(made, "content", content);
    if (id != NULL)
        cJSON_AddStringToObject(made, "tool_call_id", id);
    if (name != NULL)
        cJSON_AddStringToObject(made, "name", name);
    if (!has_calls || known != ASSISTANT)
        return made;
    cJSON *read = read_calls(calls);
    *why = "expected 'tool_calls' of functions, with 'arguments' that are the text of an object in JSON";
    if (read == NULL) {
        cJSON_Delete(made);
        return NULL;
    }
    cJSON_AddItemToObject(made, "tool_calls", read);
    return made;
}

static const char *read_messages(Request *r)
{
    static char why[WHY_BYTES];
    const cJSON *messages = cJSON_GetObjectItemCaseSensitive(r->json, "messages"), *message;
    const char *wrong = NULL;
    if (!cJSON_IsArray(messages) || cJSON_GetArraySize(messages) == 0)
        return "expected 'messages', a list of messages";
    cJSON *list = cJSON_CreateArray();
    cJSON_ArrayForEach(message, messages) {
        cJSON *read = read_message(message, &wrong);
        if (read == NULL) {
            cJSON_Delete(list);
            return wrong;
        }
        cJSON_AddItemToArray(list, read);
    }
    char *text = prompt_text(list, r->tools, 1, why, sizeof why);
    if (text == NULL)
        return why;
    const int ok = prompt_cut(r, text) && tools_add_opening(r);
    free(text);
    return ok ? NULL : "the messages are longer than the context";
}

static const char *read_prompt(Request *r)
{
    const cJSON *prompt = cJSON_GetObjectItemCaseSensitive(r->json, "prompt");
    if (r->is_chat)
        return read_messages(r);
    if (cJSON_IsArray(prompt) && cJSON_GetArraySize(prompt) == 1)
        prompt = prompt->child;
    if (!cJSON_IsString(prompt))
        return "expected 'prompt', one text";
    return prompt_add(r, prompt->valuestring, strlen(prompt->valuestring), RLX_TOKENS_FRAME)
               ? NULL
               : "the prompt is longer than the context";
}

// --- settings ------------------------------------------------------------------------------------

// A number within bounds, where it is given. 0: it is something else.
static int number(const Request *r, const char *name, double least, double most, double *out)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(r->json, name);
    if (v == NULL || cJSON_IsNull(v))
        return 1;
    if (!cJSON_IsNumber(v) || !(v->valuedouble >= least) || !(v->valuedouble <= most))
        return 0;
    *out = v->valuedouble;
    return 1;
}

static const char *read_sampling(Request *r)
{
    static unsigned n_requests;
    double temperature = 1, top_p = 1, frequency = 0, presence = 0, most = DEFAULT_TOKENS, one = 1;
    double seed = (double)time(NULL) * 1e3 + n_requests++ % 1000;
    if (!number(r, "temperature", 0, 2, &temperature) || !number(r, "top_p", 0, 1, &top_p) ||
        !number(r, "seed", -9e15, 9e15, &seed))
        return "expected a 'temperature' from 0 to 2, a 'top_p' from 0 to 1, and a whole 'seed'";
    if (!number(r, "frequency_penalty", -2, 2, &frequency) ||
        !number(r, "presence_penalty", -2, 2, &presence))
        return "expected penalties from -2 to 2";
    if (!number(r, "max_tokens", 1, 1e9, &most) || !number(r, "max_completion_tokens", 1, 1e9, &most))
        return "expected 'max_tokens', a number of at least 1";
    if (!number(r, "n", 1, 1, &one) || !number(r, "best_of", 1, 1, &one))
        return "expected an 'n' of 1: a request gets one answer";
    r->sampling = rlx_sampling_start((uint64_t)(int64_t)seed);
    r->sampling.temperature = (float)temperature;
    r->sampling.top_p = (float)top_p;
    r->sampling.top_k = 0;
    r->sampling.min_p = 0;
    r->sampling.frequency_penalty = (float)frequency;
    r->sampling.presence_penalty = (float)presence;
    r->most = (int64_t)most;
    return NULL;
}

static const char *read_stops(Request *r)
{
    const cJSON *stop = cJSON_GetObjectItemCaseSensitive(r->json, "stop");
    size_t bytes = 0;
    if (stop == NULL || cJSON_IsNull(stop))
        return NULL;
    for (const cJSON *s = cJSON_IsArray(stop) ? stop->child : stop; s != NULL; s = s->next) {
        const size_t n = cJSON_IsString(s) ? strlen(s->valuestring) : 0;
        bytes += n;
        if (n == 0 || r->n_stops == MOST_STOPS || bytes > RLX_SESSION_STOP_BYTES)
            return "expected a 'stop' of at most 16 texts and 512 bytes, none of them empty";
        r->stops[r->n_stops++] = s->valuestring;
        if (s == stop)
            break;
    }
    return NULL;
}

// Chats have two members for it, and texts one.
static const char *read_logprobs(Request *r)
{
    const cJSON *asked = cJSON_GetObjectItemCaseSensitive(r->json, "logprobs");
    double n = 0;
    r->has_logprobs = asked != NULL && !cJSON_IsNull(asked) && !cJSON_IsFalse(asked);
    if (r->is_chat && r->has_logprobs && !cJSON_IsTrue(asked))
        return "expected a 'logprobs' that is true or false";
    if (!number(r, r->is_chat ? "top_logprobs" : "logprobs", 0, MOST_BEST, &n) &&
        (r->is_chat || !cJSON_IsFalse(asked)))
        return "expected a number of 'logprobs' ('top_logprobs' in chats) from 0 to 20";
    if (n != 0 && !r->has_logprobs)
        return "'top_logprobs' goes with 'logprobs', which is true";
    r->n_best = (int)n;
    return n == r->n_best ? NULL : "expected a whole number of logprobs";
}

// Is a member there, and not one of the values that change nothing?
static int asks_for(const Request *r, const char *name)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(r->json, name);
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(v, "type");
    const int is_plain = cJSON_IsString(type) && strcmp(type->valuestring, "text") == 0;
    const int is_none =
        cJSON_IsString(v) && (strcmp(v->valuestring, "none") == 0 || strcmp(v->valuestring, "auto") == 0);
    return v != NULL && !cJSON_IsNull(v) && !cJSON_IsFalse(v) && !is_plain && !is_none &&
           !((cJSON_IsArray(v) || cJSON_IsObject(v)) && v->child == NULL) &&
           !(cJSON_IsNumber(v) && v->valuedouble == 0);
}

// Any object, or one that keeps to a schema.
static const char *read_format(Request *r)
{
    static const char any[] = "{\"type\":\"object\"}";
    static char why[WHY_BYTES];
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(r->json, "response_format");
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(format, "type");
    const cJSON *schema = cJSON_GetObjectItemCaseSensitive(format, "json_schema");
    const char *word = cJSON_IsString(type) ? type->valuestring : "", root[] = "root ::= Answer";
    if (format == NULL || cJSON_IsNull(format) || strcmp(word, "text") == 0)
        return NULL;
    if (strcmp(word, "json_object") != 0 && strcmp(word, "json_schema") != 0)
        return "expected a 'response_format' of the type text, json_object or json_schema";
    schema = cJSON_GetObjectItemCaseSensitive(schema, "schema");
    if (strcmp(word, "json_schema") == 0 && schema == NULL)
        return "expected a 'schema' in 'json_schema'";
    char *text = schema == NULL ? NULL : cJSON_PrintUnformatted(schema);
    const char *given = text == NULL ? any : text;
    const rlxc_schema answer = {"Answer", given, strlen(given)};
    r->own_grammar = rlxc_grammar_read(root, strlen(root), &answer, 1, why, sizeof why);
    cJSON_free(text);
    if (r->own_grammar == NULL)
        return why;
    r->grammar = rlxc_grammar_tables(r->own_grammar);
    return NULL;
}

static const char *read_rest(Request *r)
{
    static const char *const lacks[] = {"functions", "logit_bias", "suffix", "echo", "audio"};
    const cJSON *stream = cJSON_GetObjectItemCaseSensitive(r->json, "stream");
    const cJSON *options = cJSON_GetObjectItemCaseSensitive(r->json, "stream_options");
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++)
        if (asks_for(r, lacks[i]))
            return "this server has tools, but no functions, logit_bias, suffix, echo and audio";
    if (!r->is_chat && (asks_for(r, "tools") || asks_for(r, "tool_choice")))
        return "tools go with chats";
    if (stream != NULL && !cJSON_IsBool(stream) && !cJSON_IsNull(stream))
        return "expected a 'stream' that is true or false";
    r->is_stream = cJSON_IsTrue(stream);
    r->has_usage = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(options, "include_usage"));
    return NULL;
}

int request_read(Request *r, const char *body, size_t n, const char **why)
{
    const char *end = NULL;
    if (!is_text(body, n)) {
        *why = "expected UTF-8 without zeros";
        return 400;
    }
    r->json = cJSON_ParseWithLengthOpts(body, n, &end, 0);
    while (r->json != NULL && end < body + n && strchr(" \t\r\n", *end) != NULL)
        end++;
    *why = cJSON_IsObject(r->json) && end == body + n ? NULL : "expected an object in JSON";
    if (*why == NULL)
        *why = read_rest(r);
    if (*why == NULL)
        *why = read_sampling(r);
    if (*why == NULL)
        *why = read_stops(r);
    if (*why == NULL)
        *why = read_format(r);
    if (*why == NULL && r->is_chat)
        *why = tools_read(r);
    if (*why == NULL)
        *why = read_logprobs(r);
    if (*why == NULL)
        *why = read_prompt(r);
    if (*why == NULL && r->n_tokens == 0)
        *why = "expected a prompt that is not empty";
    return *why == NULL ? 200 : 400;
}
