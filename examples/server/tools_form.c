// SPDX-License-Identifier: Apache-2.0
// How a model writes calls of functions: it is learned from its chat template, by looking at what the
// template makes of calls that are known.
#include "server.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

Form form = {.opening = -1};

#define ASKED     "rlxc asks this"
#define FIRST     "rlxc_first_tool"
#define SECOND    "rlxc_second_tool"
#define ARGUMENT  "rlxc_argument"
#define CALL_ID   "rlxccall1"
static const char probe_arguments[] = "{\"" ARGUMENT "\":\"rlxc value\"}";

static char *copy(const char *text, const char *end)
{
    return text_copy(text, (size_t)(end - text));
}

static cJSON *probe_tools(void)
{
    return cJSON_Parse("[{\"type\":\"function\",\"function\":{\"name\":\"" FIRST "\",\"description\":\"d\","
                       "\"parameters\":{\"type\":\"object\",\"properties\":{\"" ARGUMENT
                       "\":{\"type\":\"string\",\"description\":\"d\"}},\"required\":[\"" ARGUMENT "\"]}}}]");
}

static cJSON *probe_call(const char *name, int as_text)
{
    cJSON *call = cJSON_CreateObject(), *function;
    cJSON_AddStringToObject(call, "id", CALL_ID);
    cJSON_AddStringToObject(call, "type", "function");
    function = cJSON_AddObjectToObject(call, "function");
    cJSON_AddStringToObject(function, "name", name);
    if (as_text)
        cJSON_AddStringToObject(function, "arguments", probe_arguments);
    else
        cJSON_AddItemToObject(function, "arguments", cJSON_Parse(probe_arguments));
    return call;
}

// What the template writes behind a message of the user: before an answer (n_calls is 0), or with calls.
// NULL: it refuses.
static char *probe(int n_calls, int as_text)
{
    char why[WHY_BYTES];
    cJSON *messages = cJSON_CreateArray(), *tools = probe_tools(), *m = cJSON_CreateObject(), *calls;
    cJSON_AddStringToObject(m, "role", "user");
    cJSON_AddStringToObject(m, "content", ASKED);
    cJSON_AddItemToArray(messages, m);
    if (n_calls != 0) {
        m = cJSON_CreateObject();
        cJSON_AddStringToObject(m, "role", "assistant");
        cJSON_AddStringToObject(m, "content", "");
        calls = cJSON_AddArrayToObject(m, "tool_calls");
        for (int i = 0; i < n_calls; i++)
            cJSON_AddItemToArray(calls, probe_call(i == 0 ? FIRST : SECOND, as_text));
        cJSON_AddItemToArray(messages, m);
    }
    char *text = prompt_text(messages, tools, n_calls == 0, why, sizeof why), *behind = NULL;
    cJSON_Delete(tools);
    for (char *at = text; at != NULL && (at = strstr(at, ASKED)) != NULL; at += strlen(ASKED))
        behind = at + strlen(ASKED);
    char *out = behind == NULL ? NULL : copy(behind, behind + strlen(behind));
    free(text);
    return out;
}

// The arguments behind the name of a call: where they begin, and where they end. 0: they are not in JSON.
static int find_arguments(const char *name, const char **begin, const char **end)
{
    const char *key = strstr(name, "\"" ARGUMENT "\"");
    cJSON *wanted = cJSON_Parse(probe_arguments), *found = NULL;
    *begin = key;
    while (*begin != NULL && *begin > name && **begin != '{')
        --*begin;
    if (key != NULL)
        found = cJSON_ParseWithOpts(*begin, end, 0);
    const int ok = found != NULL && cJSON_Compare(found, wanted, 1);
    cJSON_Delete(found);
    cJSON_Delete(wanted);
    return ok;
}

static int has_control(const char *text)
{
    size_t length;
    for (; *text != '\0'; text++)
        if (prompt_control(text, strlen(text), &length) >= 0)
            return 1;
    return 0;
}

// What comes behind the last arguments, up to a control token, which ends the answer.
static char *text_before_control(const char *text)
{
    const char *end = text;
    size_t length;
    while (*end != '\0' && prompt_control(end, strlen(end), &length) < 0)
        end++;
    return copy(text, end);
}

// What tells calls from text: a word such as <tool_call> before the first brace of `open`, or all of it,
// which then only counts where an answer begins.
static void find_begin(void)
{
    const char *end = strchr(form.open, '{'), *at;
    while (end != NULL && end > form.open && isspace((unsigned char)end[-1]))
        end--;
    for (at = end; at != NULL && at > form.open && !isspace((unsigned char)at[-1]);)
        at--;
    form.is_first = at == end || *at == '[';
    if (form.is_first) {
        at = form.open;
        end = at + strlen(at);
    }
    form.begin = copy(at, end);
    form.rest = end;
}

// One call: open, name, middle, arguments, close.
static int learn_call(const char *answer, const char *text)
{
    const char *name, *begin, *end;
    size_t length, n = strlen(answer);
    if (strncmp(text, answer, n) != 0)
        return 0;
    text += n;
    name = strstr(text, FIRST);
    if (name == NULL || !find_arguments(name + strlen(FIRST), &begin, &end))
        return 0;
    const int32_t control = prompt_control(text, strlen(text), &length);
    form.opening = control;
    form.open = copy(text + (control >= 0 ? length : 0), name);
    form.middle = copy(name + strlen(FIRST), begin);
    form.close = text_before_control(end);
    find_begin();
    return *form.middle != '\0' && *form.open != '\0' && !isalnum((unsigned char)*form.middle) &&
           !has_control(form.open) && !has_control(form.middle);
}

// Two calls: what stands between them.
static void learn_between(const char *text)
{
    const char *name = strstr(text, FIRST), *begin, *end, *next;
    if (name == NULL || !find_arguments(name, &begin, &end) || (next = strstr(end, SECOND)) == NULL)
        return;
    form.between = copy(end, next);
    if (has_control(form.between) || *form.between == '\0') {
        free(form.between);
        form.between = NULL;
    }
}

void tools_open(void)
{
    char *answer = probe(0, 0);
    for (int as_text = 0; as_text < 2 && !form.is_known && answer != NULL; as_text++) {
        char *one = probe(1, as_text), *two = probe(2, as_text);
        form.takes_texts = as_text;
        form.is_known = one != NULL && learn_call(answer, one);
        if (form.is_known && two != NULL)
            learn_between(two);
        free(one);
        free(two);
    }
    free(answer);
}
