// SPDX-License-Identifier: Apache-2.0
// Conversations to tokens: the model's chat template makes a text of messages and tools, which is cut into
// tokens. Control tokens count only in what the template says: where a text of a client has one, a mark that
// is no character of texts stands before it, until tokens are made.
#include "server.h"
#include "template.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK "\xf4\x8f\xbf\xbd" // U+10FFFD, which is for private use

typedef struct Control { // a control token
    struct Control *next;
    int32_t token;
    size_t n;
    char text[MODEL_PIECE_BYTES];
} Control;

static Control *controls[256]; // by the first byte
static rlxc_template *chat_template;
static cJSON *source; // the template and the texts of special tokens
static char work_memory[MODEL_WORK_BYTES(MOST_BODY)];
static const rlx_work work = {work_memory, sizeof work_memory};

static void note_control(int32_t token)
{
    Control one = {.token = token};
    const int64_t n = model_piece(token, RLX_TOKENS_CONTROL, one.text, sizeof one.text);
    if (n <= 0 || model_piece(token, 0, NULL, 0) != 0)
        return;
    one.n = (size_t)n;
    one.next = controls[(unsigned char)one.text[0]];
    Control *kept = (Control *)malloc(sizeof one);
    if (kept == NULL)
        abort();
    *kept = one;
    controls[(unsigned char)one.text[0]] = kept;
}

// The longest control token at a place that has n bytes. NULL: none.
static const Control *control_at(const char *p, size_t n)
{
    const Control *best = NULL;
    for (const Control *c = n == 0 ? NULL : controls[(unsigned char)*p]; c != NULL; c = c->next)
        if (c->n <= n && memcmp(p, c->text, c->n) == 0 && (best == NULL || c->n > best->n))
            best = c;
    return best;
}

int32_t prompt_control(const char *text, size_t n, size_t *length)
{
    const Control *c = control_at(text, n);
    *length = c == NULL ? 0 : c->n;
    return c == NULL ? -1 : c->token;
}

int prompt_open(char *why, size_t room)
{
    for (int32_t token = 0; model_piece(token, RLX_TOKENS_CONTROL, NULL, 0) >= 0; token++)
        note_control(token);
    source = cJSON_Parse(template_source);
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(source, "template"));
    snprintf(why, room, "the template could not be read");
    chat_template = text == NULL ? NULL : rlxc_template_read(text, strlen(text), why, room);
    return chat_template != NULL;
}

// --- the text ------------------------------------------------------------------------------------

// A text without marks of its own, and with one before each control token. Marks that it has go first: they
// may stand within a control token.
static char *guarded(const char *text)
{
    Text bare = {NULL, 0, 0}, out = {NULL, 0, 0};
    for (; *text != '\0'; text++)
        if (strncmp(text, MARK, 4) == 0)
            text += 3;
        else
            text_add(&bare, text, 1);
    text_add(&out, "", 0);
    for (size_t i = 0; i < bare.n; i++) {
        if (control_at(bare.data + i, bare.n - i) != NULL)
            text_add(&out, MARK, 4);
        text_add(&out, bare.data + i, 1);
    }
    text_free(&bare);
    return out.data;
}

// Guards all texts of a value, and the names of its members. cJSON takes none that nests deeper than 1000.
static void guard(cJSON *value)
{
    cJSON *item;
    if (value->string != NULL) {
        char *name = guarded(value->string);
        cJSON_free(value->string);
        value->string = name;
    }
    if (cJSON_IsString(value)) {
        char *text = guarded(value->valuestring);
        cJSON_free(value->valuestring);
        value->valuestring = text;
    }
    if (cJSON_IsArray(value) || cJSON_IsObject(value))
        cJSON_ArrayForEach(item, value)
            guard(item);
}

char *prompt_text(cJSON *messages, const cJSON *tools, int asks, char *why, size_t room)
{
    cJSON *variables = cJSON_CreateObject(), *given = cJSON_Duplicate(tools, 1);
    const cJSON *item;
    cJSON_ArrayForEach(item, source)
        if (strcmp(item->string, "template") != 0)
            cJSON_AddStringToObject(variables, item->string, item->valuestring);
    guard(messages);
    cJSON_AddItemToObject(variables, "messages", messages);
    if (given != NULL)
        guard(given);
    cJSON_AddItemToObject(variables, "tools", given != NULL ? given : cJSON_CreateNull());
    cJSON_AddBoolToObject(variables, "add_generation_prompt", asks);
    char *json = cJSON_PrintUnformatted(variables);
    cJSON_Delete(variables);
    if (json == NULL)
        abort(); // no memory
    char *text = rlxc_template_render(chat_template, json, strlen(json), NULL, why, room);
    cJSON_free(json);
    return text;
}

// --- tokens --------------------------------------------------------------------------------------

int prompt_add(Request *r, const char *text, size_t n, unsigned flags)
{
    const size_t room = MODEL_CONTEXT - (size_t)r->n_tokens;
    const int64_t got = n == 0 ? 0 : model_tokenize(text, n, flags, work, r->tokens + r->n_tokens, room);
    if (got < 0 || (size_t)got > room)
        return 0;
    r->n_tokens += got;
    return 1;
}

int prompt_add_token(Request *r, int32_t token)
{
    if (r->n_tokens == MODEL_CONTEXT)
        return 0;
    r->tokens[r->n_tokens++] = token;
    return 1;
}

// What is no control token is cut into tokens together, as it is when the model is trained.
static int cut(Request *r, const char *text, size_t n)
{
    Text plain = {NULL, 0, 0};
    int ok = 1;
    for (size_t at = 0; at < n && ok;) {
        const int is_marked = n - at >= 4 && memcmp(text + at, MARK, 4) == 0;
        at += is_marked ? 4 : 0;
        const Control *c = is_marked ? NULL : control_at(text + at, n - at);
        if (c == NULL && at < n)
            text_add(&plain, text + at++, 1);
        if (c == NULL)
            continue;
        ok = prompt_add(r, plain.data, plain.n, 0) && prompt_add_token(r, c->token);
        plain.n = 0;
        at += c->n;
    }
    ok = ok && prompt_add(r, plain.data, plain.n, 0);
    text_free(&plain);
    return ok;
}

int prompt_cut(Request *r, const char *text)
{
    int32_t first = -1;
    const int64_t n = model_tokenize("", 0, RLX_TOKENS_FRAME, work, &first, 1);
    size_t length;
    // Templates that leave the first token out count on the vocabulary to add it.
    if (n > 0 && first == MODEL_BOS && prompt_control(text, strlen(text), &length) != first &&
        !prompt_add_token(r, first))
        return 0;
    return cut(r, text, strlen(text));
}
