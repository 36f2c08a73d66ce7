// SPDX-License-Identifier: Apache-2.0
// Tools: what requests say of them, and how calls are read off an answer. A grammar has the model write them
// in one form only (tools_grammar.c).
#include "server.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAME = 64 };

static const cJSON *member(const cJSON *of, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(of, name);
}

// --- requests ------------------------------------------------------------------------------------

static int is_in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

static int is_name(const char *name)
{
    size_t n = 0;
    while (name != NULL && is_in_name(name[n]))
        n++;
    return n != 0 && n <= MOST_NAME && name[n] == '\0';
}

static const char *check_tools(const cJSON *tools)
{
    const cJSON *tool, *other;
    if (!cJSON_IsArray(tools) || cJSON_GetArraySize(tools) > MOST_TOOLS)
        return "expected 'tools', a list of at most 128 functions";
    cJSON_ArrayForEach(tool, tools) {
        const cJSON *function = member(tool, "function"), *parameters = member(function, "parameters");
        const char *type = cJSON_GetStringValue(member(tool, "type"));
        const char *name = cJSON_GetStringValue(member(function, "name"));
        if (type == NULL || strcmp(type, "function") != 0 || !is_name(name))
            return "expected tools of the type function, with names of up to 64 letters, digits, _ and -";
        if (parameters != NULL && !cJSON_IsObject(parameters))
            return "expected 'parameters' that are a JSON schema";
        for (other = tools->child; other != tool; other = other->next)
            if (strcmp(member(member(other, "function"), "name")->valuestring, name) == 0)
                return "two tools have the same name";
    }
    return NULL;
}

static int has_tool(const cJSON *tools, const char *name)
{
    const cJSON *tool;
    cJSON_ArrayForEach(tool, tools)
        if (strcmp(member(member(tool, "function"), "name")->valuestring, name) == 0)
            return 1;
    return 0;
}

static const char *read_choice(const cJSON *choice, const cJSON *tools, Choice *out)
{
    const char *word = cJSON_GetStringValue(choice);
    if (choice == NULL || cJSON_IsNull(choice) || (word != NULL && strcmp(word, "auto") == 0))
        return NULL;
    if (word != NULL && strcmp(word, "none") == 0) {
        out->is_none = 1;
        return NULL;
    }
    out->has_to = 1;
    if (word != NULL && strcmp(word, "required") == 0)
        return NULL;
    out->only = cJSON_GetStringValue(member(member(choice, "function"), "name"));
    return out->only != NULL && has_tool(tools, out->only)
               ? NULL
               : "expected a 'tool_choice' of none, auto, required, or one of the functions";
}

const char *tools_read(Request *r)
{
    static char why[WHY_BYTES];
    Choice choice = {0, 0, NULL};
    const cJSON *tools = member(r->json, "tools"), *parallel = member(r->json, "parallel_tool_calls");
    const int has_tools = tools != NULL && !cJSON_IsNull(tools) && cJSON_GetArraySize(tools) != 0;
    const char *wrong = tools == NULL || cJSON_IsNull(tools) ? NULL : check_tools(tools);
    if (wrong == NULL)
        wrong = read_choice(member(r->json, "tool_choice"), tools, &choice);
    if (wrong != NULL || choice.is_none || (!has_tools && !choice.has_to))
        return wrong;
    if (!has_tools)
        return "a 'tool_choice' goes with tools";
    if (!form.is_known)
        return "the model's chat template does not show how calls of tools are written";
    if (r->grammar != NULL)
        return "expected either tools or a 'response_format'";
    r->own_grammar = tools_grammar(tools, choice, cJSON_IsFalse(parallel), why, sizeof why);
    if (r->own_grammar == NULL)
        return why;
    r->grammar = rlxc_grammar_tables(r->own_grammar);
    r->tools = tools;
    r->calls.may_come = 1;
    r->calls.is_opened = choice.has_to || form.opening < 0;
    r->calls.place = choice.has_to ? OPENING : OUTSIDE;
    r->calls.words = form.open;
    return NULL;
}

int tools_add_opening(Request *r)
{
    const int has_to = r->calls.may_come && r->calls.place == OPENING;
    return !has_to || form.opening < 0 || prompt_add_token(r, form.opening);
}

// --- answers -------------------------------------------------------------------------------------

void tools_note(Request *r, int32_t token)
{
    Calls *c = &r->calls;
    if (!c->may_come || c->is_opened || token != form.opening)
        return;
    c->is_opened = 1;
    c->place = OPENING;
}

static void drop(Text *t, size_t n)
{
    memmove(t->data, t->data + n, t->n - n);
    t->n -= n;
}

static void give_text(Request *r, size_t n)
{
    Calls *c = &r->calls;
    c->has_text = c->has_text || n != 0;
    answer_add(r, c->held.data, n);
    drop(&c->held, n);
}

// How many bytes at the end of the text may be the begin of a word.
static size_t begin_at_end(const Text *t, const char *word)
{
    size_t n = strlen(word) < t->n ? strlen(word) : t->n;
    while (n != 0 && memcmp(t->data + t->n - n, word, n) != 0)
        n--;
    return n;
}

// Text, until calls begin. 0: more has to come.
static int take_text(Request *r)
{
    Calls *c = &r->calls;
    const size_t n = strlen(form.begin);
    char *found = form.opening >= 0 ? NULL : strstr(c->held.data, form.begin);
    if (form.is_first && (c->has_text || found != c->held.data))
        found = NULL;
    if (found != NULL) {
        give_text(r, (size_t)(found - c->held.data));
        drop(&c->held, n);
        c->words = form.rest;
        c->place = OPENING;
        return 1;
    }
    size_t kept = form.opening >= 0 ? 0 : begin_at_end(&c->held, form.begin);
    if (form.is_first && (c->has_text || kept != c->held.n))
        kept = 0;
    give_text(r, c->held.n - kept);
    return 0;
}

static int take_words(Calls *c, const char *words, CallPlace next)
{
    if (c->held.n < strlen(words))
        return 0;
    drop(&c->held, strlen(words));
    c->place = next;
    return 1;
}

static int take_name(Request *r)
{
    Calls *c = &r->calls;
    size_t n = 0;
    while (n < c->held.n && is_in_name(c->held.data[n]))
        n++;
    if (n == c->held.n)
        return 0;
    char *name = text_copy(c->held.data, n);
    c->arguments.n = 0;
    answer_call(r, name);
    free(name);
    c->n++;
    drop(&c->held, n);
    c->place = MIDDLE;
    c->depth = c->is_in_string = c->is_escaped = 0;
    return 1;
}

// Does the object end with this byte?
static int ends_object(Calls *c, char byte)
{
    if (c->is_escaped) {
        c->is_escaped = 0;
    } else if (c->is_in_string) {
        c->is_escaped = byte == '\\';
        c->is_in_string = byte != '"';
    } else {
        c->is_in_string = byte == '"';
        c->depth += (byte == '{' || byte == '[') - (byte == '}' || byte == ']');
    }
    return c->depth == 0;
}

static int take_arguments(Request *r)
{
    Calls *c = &r->calls;
    size_t n = 0;
    int is_over = 0;
    while (n < c->held.n && !is_over)
        is_over = ends_object(c, c->held.data[n++]);
    answer_arguments(r, c->held.data, n);
    drop(&c->held, n);
    c->place = is_over ? BEHIND : ARGUMENTS;
    return is_over;
}

static int take_behind(Calls *c)
{
    const size_t n = form.between == NULL ? 0 : strlen(form.between);
    return n != 0 && c->held.n >= n && memcmp(c->held.data, form.between, n) == 0 &&
           take_words(c, form.between, NAME);
}

static int take(Request *r)
{
    Calls *c = &r->calls;
    switch (c->place) {
    case OUTSIDE: return take_text(r);
    case OPENING: return take_words(c, c->words, NAME);
    case NAME: return take_name(r);
    case MIDDLE: return take_words(c, form.middle, ARGUMENTS);
    case ARGUMENTS: return take_arguments(r);
    default: return take_behind(c);
    }
}

void tools_feed(Request *r, const char *text, size_t n)
{
    if (!r->calls.may_come) {
        answer_add(r, text, n);
        return;
    }
    text_add(&r->calls.held, text, n);
    while (r->calls.held.n != 0 && take(r))
        ;
}

const char *tools_end(Request *r, const char *why)
{
    Calls *c = &r->calls;
    if (c->may_come && c->place == OUTSIDE && c->held.n != 0)
        give_text(r, c->held.n);
    return c->n != 0 && c->place == BEHIND && strcmp(why, "stop") == 0 ? "tool_calls" : why;
}

void tools_free(Request *r)
{
    text_free(&r->calls.held);
    text_free(&r->calls.arguments);
    cJSON_Delete(r->calls.list);
    rlxc_grammar_free(r->own_grammar);
}
