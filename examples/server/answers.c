// SPDX-License-Identifier: Apache-2.0
// Writes what clients get: JSON, and events with JSON where the answer comes in parts.
#include "server.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *model_name = "model";

static char *printed(cJSON *json)
{
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    if (text == NULL)
        abort(); // no memory
    return text;
}

char *answer_error(int status, const char *why)
{
    cJSON *json = cJSON_CreateObject(), *error = cJSON_AddObjectToObject(json, "error");
    cJSON_AddStringToObject(error, "message", why);
    cJSON_AddStringToObject(error, "type", status < 500 ? "invalid_request_error" : "server_error");
    cJSON_AddNullToObject(error, "param");
    cJSON_AddNumberToObject(error, "code", status);
    return printed(json);
}

char *answer_models(void)
{
    cJSON *json = cJSON_CreateObject(), *data, *model = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "object", "list");
    data = cJSON_AddArrayToObject(json, "data");
    cJSON_AddStringToObject(model, "id", model_name);
    cJSON_AddStringToObject(model, "object", "model");
    cJSON_AddNumberToObject(model, "created", 0);
    cJSON_AddStringToObject(model, "owned_by", "rlxc");
    cJSON_AddItemToArray(data, model);
    return printed(json);
}

char *answer_health(Load load)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "status", "ok");
    cJSON_AddNumberToObject(json, "running", load.running);
    cJSON_AddNumberToObject(json, "waiting", load.waiting);
    cJSON_AddNumberToObject(json, "tokens", (double)load.tokens);
    return printed(json);
}

static void add_usage(cJSON *json, const Request *r)
{
    cJSON *usage = cJSON_AddObjectToObject(json, "usage");
    cJSON_AddNumberToObject(usage, "prompt_tokens", (double)r->n_tokens);
    cJSON_AddNumberToObject(usage, "completion_tokens", (double)r->n_answer);
    cJSON_AddNumberToObject(usage, "total_tokens", (double)(r->n_tokens + r->n_answer));
}

// An answer or a part of one, with an empty list of choices.
static cJSON *head(const Request *r, cJSON **choices)
{
    cJSON *json = cJSON_CreateObject();
    const char *chat = r->is_stream ? "chat.completion.chunk" : "chat.completion";
    cJSON_AddStringToObject(json, "id", r->id);
    cJSON_AddStringToObject(json, "object", r->is_chat ? chat : "text_completion");
    cJSON_AddNumberToObject(json, "created", (double)time(NULL));
    cJSON_AddStringToObject(json, "model", model_name);
    *choices = cJSON_AddArrayToObject(json, "choices");
    return json;
}

// A choice with a text, and with calls of tools; each may be NULL: none.
static void add_choice(cJSON *choices, Request *r, const char *text, cJSON *calls, const char *finish)
{
    cJSON *choice = cJSON_CreateObject();
    cJSON_AddNumberToObject(choice, "index", 0);
    if (r->is_chat) {
        cJSON *message = cJSON_AddObjectToObject(choice, r->is_stream ? "delta" : "message");
        if (!r->is_stream || r->n_answer == 0)
            cJSON_AddStringToObject(message, "role", "assistant");
        if (text != NULL)
            cJSON_AddStringToObject(message, "content", text);
        else if (!r->is_stream)
            cJSON_AddNullToObject(message, "content");
        if (calls != NULL)
            cJSON_AddItemToObject(message, "tool_calls", calls);
    } else {
        cJSON_AddStringToObject(choice, "text", text == NULL ? "" : text);
    }
    cJSON_AddItemToObject(choice, "logprobs", logprobs_take(r));
    if (finish == NULL)
        cJSON_AddNullToObject(choice, "finish_reason");
    else
        cJSON_AddStringToObject(choice, "finish_reason", finish);
    cJSON_AddItemToArray(choices, choice);
}

char *answer_whole(Request *r)
{
    cJSON *choices, *json = head(r, &choices);
    const char *text = r->text.n == 0 ? "" : r->text.data;
    add_choice(choices, r, r->calls.list != NULL && r->text.n == 0 ? NULL : text, r->calls.list, r->finish);
    r->calls.list = NULL;
    add_usage(json, r);
    return printed(json);
}

static void add_event(Request *r, const char *data)
{
    text_add(&r->text, "data: ", 6);
    text_add(&r->text, data, strlen(data));
    text_add(&r->text, "\n\n", 2);
}

static void add_json_event(Request *r, cJSON *json)
{
    char *data = printed(json);
    add_event(r, data);
    free(data);
}

void answer_begin(Request *r)
{
    cJSON *choices, *json;
    if (!r->is_stream || !r->is_chat)
        return;
    json = head(r, &choices);
    add_choice(choices, r, "", NULL, NULL);
    add_json_event(r, json);
}

void answer_add(Request *r, const char *text, size_t n)
{
    cJSON *choices, *json;
    Text part = {NULL, 0, 0};
    if (n == 0)
        return;
    if (!r->is_stream) {
        text_add(&r->text, text, n);
        return;
    }
    text_add(&part, text, n);
    json = head(r, &choices);
    add_choice(choices, r, part.data, NULL, NULL);
    add_json_event(r, json);
    text_free(&part);
}

// --- calls of tools ------------------------------------------------------------------------------

static void add_function(cJSON *call, const char *name, const char *arguments)
{
    cJSON *function = cJSON_AddObjectToObject(call, "function");
    if (name != NULL)
        cJSON_AddStringToObject(function, "name", name);
    cJSON_AddStringToObject(function, "arguments", arguments);
}

static void send_call(Request *r, cJSON *call)
{
    cJSON *choices, *json = head(r, &choices), *calls = cJSON_CreateArray();
    cJSON_AddItemToArray(calls, call);
    add_choice(choices, r, NULL, calls, NULL);
    add_json_event(r, json);
}

// Templates of Mistral want names of calls that are nine letters and digits.
static void name_call(cJSON *call)
{
    static uint32_t n_calls;
    char id[16];
    snprintf(id, sizeof id, "%03x%06x", (unsigned)time(NULL) & 0xfff, (unsigned)n_calls++ & 0xffffff);
    cJSON_AddStringToObject(call, "id", id);
    cJSON_AddStringToObject(call, "type", "function");
}

void answer_call(Request *r, const char *name)
{
    cJSON *call = cJSON_CreateObject();
    if (r->is_stream)
        cJSON_AddNumberToObject(call, "index", r->calls.n);
    name_call(call);
    add_function(call, name, "");
    if (r->is_stream) {
        send_call(r, call);
        return;
    }
    if (r->calls.list == NULL)
        r->calls.list = cJSON_CreateArray();
    cJSON_AddItemToArray(r->calls.list, call);
}

void answer_arguments(Request *r, const char *text, size_t n)
{
    Calls *c = &r->calls;
    if (!r->is_stream) {
        text_add(&c->arguments, text, n);
        cJSON *function =
            cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(c->list, c->n - 1), "function");
        cJSON_ReplaceItemInObjectCaseSensitive(function, "arguments", cJSON_CreateString(c->arguments.data));
        return;
    }
    Text part = {NULL, 0, 0};
    cJSON *call = cJSON_CreateObject();
    text_add(&part, text, n);
    cJSON_AddNumberToObject(call, "index", c->n - 1);
    add_function(call, NULL, part.data);
    send_call(r, call);
    text_free(&part);
}

void answer_end(Request *r)
{
    cJSON *choices, *json;
    if (!r->is_stream || r->finish == NULL)
        return;
    json = head(r, &choices);
    add_choice(choices, r, NULL, NULL, r->finish);
    add_json_event(r, json);
    if (r->has_usage) {
        json = head(r, &choices);
        add_usage(json, r);
        add_json_event(r, json);
    }
    add_event(r, "[DONE]");
}
