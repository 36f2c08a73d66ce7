// SPDX-License-Identifier: Apache-2.0
// Reads what clients send: JSON as the API of OpenAI has it. What would change the answer in a way that this
// server lacks is refused, and so is all that is not as it should be; other members do not count.
#include "server.h"
#include "grammars.h"
#include "turns.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { START, SYSTEM, USER, ASSISTANT, ANSWER = 3, ROLES = 4, DEFAULT_TOKENS = 512 };

static char work_memory[MODEL_WORK_BYTES(MOST_BODY)];
static const rlx_work work = {work_memory, sizeof work_memory};

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

// Adds the tokens of a text. 0: the context is full.
static int add_tokens(Request *r, const char *text, size_t n, unsigned flags)
{
    const size_t room = MODEL_CONTEXT - (size_t)r->n_tokens;
    const int64_t got = n == 0 ? 0 : model_tokenize(text, n, flags, work, r->tokens + r->n_tokens, room);
    if (got < 0 || (size_t)got > room)
        return 0;
    r->n_tokens += got;
    return 1;
}

// --- conversations -------------------------------------------------------------------------------

// What is no control token is collected and cut into tokens together, as it is when the model is trained.
typedef struct Prompt {
    Request *r;
    Text plain;
} Prompt;

static int flush(Prompt *p)
{
    const int ok = add_tokens(p->r, p->plain.data, p->plain.n, 0);
    p->plain.n = 0;
    return ok;
}

// The bytes of a control token. 0: it is none.
static size_t control_text(int32_t token, char *text, size_t room)
{
    const int64_t n = model_piece(token, RLX_TOKENS_CONTROL, text, room);
    return n > 0 && (size_t)n <= room && model_piece(token, 0, text, 0) == 0 ? (size_t)n : 0;
}

// A part of the template, which is short and not from users.
static int add_template(Prompt *p, const char *text)
{
    int32_t tokens[1024];
    char piece[MODEL_PIECE_BYTES];
    const int64_t n = model_tokenize(text, strlen(text), RLX_TOKENS_CONTROL, work, tokens, 1024);
    for (int64_t i = 0; i < n && i < 1024; i++) {
        const size_t len = control_text(tokens[i], piece, sizeof piece);
        const char *at = text;
        while (len != 0 && strncmp(at, piece, len) != 0)
            at++;
        if (len == 0)
            continue;
        text_add(&p->plain, text, (size_t)(at - text));
        if (!flush(p) || p->r->n_tokens == MODEL_CONTEXT)
            return 0;
        p->r->tokens[p->r->n_tokens++] = tokens[i];
        text = at + len;
    }
    text_add(&p->plain, text, strlen(text));
    return 1;
}

// The text of a message: a string, or a list of parts. 0: it is something else.
static int add_content(Prompt *p, const cJSON *content)
{
    const cJSON *part;
    if (cJSON_IsString(content))
        text_add(&p->plain, content->valuestring, strlen(content->valuestring));
    if (!cJSON_IsArray(content))
        return cJSON_IsString(content);
    cJSON_ArrayForEach(part, content) {
        const cJSON *text = cJSON_GetObjectItemCaseSensitive(part, "text");
        if (!cJSON_IsString(text))
            return 0;
        text_add(&p->plain, text->valuestring, strlen(text->valuestring));
    }
    return 1;
}

static int role_of(const cJSON *message)
{
    static const char *const names[] = {"system", "user", "assistant"};
    const char *role = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "role"));
    for (int i = 0; role != NULL && i < 3; i++)
        if (strcmp(role, names[i]) == 0)
            return i;
    return role != NULL && strcmp(role, "developer") == 0 ? 0 : -1;
}

static const char *add_messages(Prompt *p, const cJSON *messages)
{
    int last = START;
    const cJSON *message;
    if (!cJSON_IsArray(messages) || cJSON_GetArraySize(messages) == 0)
        return "expected 'messages', a list of messages";
    cJSON_ArrayForEach(message, messages) {
        const int role = role_of(message);
        if (role < 0)
            return "expected a 'role' of system, user or assistant in each message";
        if (turns[last][role] == NULL)
            return "the model's template has no place for a message of this role behind the one before it";
        if (!add_template(p, turns[last][role]))
            return "the messages are longer than the context";
        if (!add_content(p, cJSON_GetObjectItemCaseSensitive(message, "content")))
            return "expected a 'content' that is a text, or a list of texts, in each message";
        last = role + 1;
    }
    if (turns[last][ANSWER] == NULL)
        return "expected a message of the user at the end";
    if (!add_template(p, turns[last][ANSWER]) || !flush(p))
        return "the messages are longer than the context";
    return NULL;
}

static const char *read_prompt(Request *r)
{
    Prompt p = {r, {NULL, 0, 0}};
    const cJSON *prompt = cJSON_GetObjectItemCaseSensitive(r->json, "prompt");
    if (r->is_chat) {
        const char *why = add_messages(&p, cJSON_GetObjectItemCaseSensitive(r->json, "messages"));
        text_free(&p.plain);
        return why;
    }
    if (cJSON_IsArray(prompt) && cJSON_GetArraySize(prompt) == 1)
        prompt = prompt->child;
    if (!cJSON_IsString(prompt))
        return "expected 'prompt', one text";
    return add_tokens(r, prompt->valuestring, strlen(prompt->valuestring), RLX_TOKENS_FRAME)
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

// The grammar of answers that keep to a schema. NULL: the program has none.
static const rlx_grammar *find_grammar(const cJSON *schema)
{
    for (size_t i = 1; i < sizeof grammars / sizeof *grammars; i++) {
        cJSON *own = cJSON_Parse(grammars[i].schema);
        const int is_same = cJSON_Compare(own, schema, 1);
        cJSON_Delete(own);
        if (is_same)
            return grammars[i].grammar;
    }
    return NULL;
}

static const char *read_format(Request *r)
{
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(r->json, "response_format");
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(format, "type");
    const cJSON *schema = cJSON_GetObjectItemCaseSensitive(format, "json_schema");
    const char *word = cJSON_IsString(type) ? type->valuestring : "";
    if (format == NULL || cJSON_IsNull(format) || strcmp(word, "text") == 0)
        return NULL;
    if (strcmp(word, "json_object") == 0)
        r->grammar = grammars[0].grammar;
    else if (strcmp(word, "json_schema") != 0)
        return "expected a 'response_format' of the type text, json_object or json_schema";
    else
        r->grammar = find_grammar(cJSON_GetObjectItemCaseSensitive(schema, "schema"));
    return r->grammar != NULL ? NULL : "this server was not built for this schema: make SCHEMAS=FILE has it";
}

static const char *read_rest(Request *r)
{
    static const char *const lacks[] = {"tools",  "tool_choice", "functions", "logit_bias",
                                        "suffix", "echo",        "audio"};
    const cJSON *stream = cJSON_GetObjectItemCaseSensitive(r->json, "stream");
    const cJSON *options = cJSON_GetObjectItemCaseSensitive(r->json, "stream_options");
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++)
        if (asks_for(r, lacks[i]))
            return "this server has no tools, functions, logit_bias, suffix, echo and audio";
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
    if (*why == NULL)
        *why = read_logprobs(r);
    if (*why == NULL)
        *why = read_prompt(r);
    if (*why == NULL && r->n_tokens == 0)
        *why = "expected a prompt that is not empty";
    return *why == NULL ? 200 : 400;
}
