// SPDX-License-Identifier: Apache-2.0
// The grammar of answers that may call functions: in the form of the model, with arguments that keep to the
// schemas of the request.
#include "server.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cJSON *member(const cJSON *of, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(of, name);
}

static void add_text(Text *g, const char *text)
{
    text_add(g, text, strlen(text));
}

// The next character of a text in UTF-8.
static uint32_t take_character(const char **text)
{
    const unsigned char *p = (const unsigned char *)*text;
    const size_t n = character(p, strlen(*text));
    uint32_t code = n < 2 ? *p : *p & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++)
        code = code << 6 | (p[i] & 0x3f);
    *text += n == 0 ? 1 : n;
    return code;
}

static void add_character(Text *g, uint32_t code)
{
    char shown[16];
    snprintf(shown, sizeof shown, "\\U%08X", (unsigned)code);
    add_text(g, shown);
}

static void add_literal(Text *g, const char *text)
{
    add_text(g, "\"");
    while (*text != '\0')
        add_character(g, take_character(&text));
    add_text(g, "\" ");
}

static void add_rule(Text *g, const char *before, size_t number, const char *behind)
{
    char shown[64];
    snprintf(shown, sizeof shown, "%s%zu%s", before, number, behind);
    add_text(g, shown);
}

// How many characters of `word`, of which n were read, still fit when `code` comes behind them.
static size_t next_place(const uint32_t *word, size_t n, uint32_t code)
{
    for (size_t k = n + 1; k != 0; k--)
        if (word[k - 1] == code && memcmp(word, word + (n + 1 - k), (k - 1) * sizeof *word) == 0)
            return k;
    return 0;
}

enum { MOST_WORD = 64 };

// Text F0, in which calls begin with a word: F<n> is text behind n of its characters.
static int add_free_text(Text *g, const char *text)
{
    uint32_t word[MOST_WORD];
    size_t n = 0;
    while (*text != '\0' && n < MOST_WORD)
        word[n++] = take_character(&text);
    if (*text != '\0')
        return 0;
    for (size_t i = 0; i < n; i++) {
        add_rule(g, "F", i, " ::= \"\" ");
        add_text(g, "| [^");
        for (size_t k = 0; k < n; k++)
            add_character(g, word[k]);
        add_text(g, "] F0 ");
        for (size_t k = 0; k < n; k++) {
            int is_first = 1;
            for (size_t before = 0; before < k; before++)
                is_first = is_first && word[before] != word[k];
            if (!is_first)
                continue;
            add_text(g, "| [");
            add_character(g, word[k]);
            add_rule(g, "] F", next_place(word, i, word[k]), " ");
        }
        add_text(g, "\n");
    }
    add_rule(g, "F", n, " ::= Begun\n");
    return 1;
}

// An answer that is no call because it begins otherwise than calls do, in whatever place.
static void add_other_text(Text *g, const char *open)
{
    add_text(g, "Any ::= [^\\x00]*\nOther ::= \"\" ");
    for (const char *at = open; *at != '\0';) {
        Text before = {NULL, 0, 0};
        text_add(&before, open, (size_t)(at - open));
        add_text(g, "| ");
        add_literal(g, before.data);
        add_text(g, "([^");
        add_character(g, take_character(&at));
        add_text(g, "] Any)? ");
        text_free(&before);
    }
    add_text(g, "\n");
}

// Each tool as an alternative of Call: its name, and arguments of the rule T<number>.
static void add_calls(Text *g, const cJSON *tools, const char *only)
{
    const cJSON *tool;
    size_t i = 0;
    const char *divider = "Call ::= ";
    cJSON_ArrayForEach(tool, tools) {
        const char *name = member(member(tool, "function"), "name")->valuestring;
        if (only == NULL || strcmp(only, name) == 0) {
            add_text(g, divider);
            add_literal(g, name);
            add_literal(g, form.middle);
            add_rule(g, "T", i, " ");
            divider = "| ";
        }
        i++;
    }
    add_text(g, "\n");
}

// has_to: the answer is one or more calls.
static void add_answers(Text *g, int has_to, int one_only)
{
    add_text(g, "Calls ::= Call ");
    if (!one_only && form.between != NULL) {
        add_text(g, "(");
        add_literal(g, form.between);
        add_text(g, "Call)* ");
    }
    add_literal(g, form.close);
    add_text(g, "\nBegun ::= ");
    add_literal(g, has_to || form.opening >= 0 ? form.open : form.rest);
    add_text(g, "Calls\n");
}

typedef struct Schemas {
    rlxc_schema of[MOST_TOOLS];
    char name[MOST_TOOLS][8];
    unsigned char is_sure[MOST_TOOLS]; // it asks for an object
    size_t n;
} Schemas;

static void read_schemas(Schemas *s, const cJSON *tools)
{
    const cJSON *tool;
    cJSON_ArrayForEach(tool, tools) {
        const cJSON *parameters = member(member(tool, "function"), "parameters");
        cJSON *any = cJSON_Parse("{\"type\":\"object\"}");
        char *text = cJSON_PrintUnformatted(cJSON_IsObject(parameters) ? parameters : any);
        cJSON_Delete(any);
        if (text == NULL)
            abort(); // no memory
        snprintf(s->name[s->n], sizeof s->name[0], "T%zu", s->n);
        s->of[s->n] = (rlxc_schema){s->name[s->n], text, strlen(text)};
        const char *type = cJSON_GetStringValue(member(parameters, "type"));
        s->is_sure[s->n] = parameters == NULL || (type != NULL && strcmp(type, "object") == 0);
        s->n++;
    }
}

enum { SCHEMA_SECONDS = 2 }; // others wait so long, or a little longer

// Arguments are an object, whatever else a schema allows.
static int takes_other(const rlxc_grammar *g)
{
    static const char begins[] = "[\"-0123456789tfn";
    static RLX_ALIGNED unsigned char memory[RLX_PARSE_BYTES(MOST_NESTED)];
    for (const char *c = begins; *c != '\0'; c++) {
        rlx_parse p;
        rlx_parse_start(&p, rlxc_grammar_tables(g), memory, sizeof memory);
        if (rlx_parse_feed(&p, (const uint8_t *)c, 1) == 0)
            return 1;
    }
    return 0;
}

static void count_as_any(rlxc_schema *of)
{
    static const char any[] = "{\"type\":\"object\"}";
    char *text = (char *)malloc(sizeof any);
    if (text == NULL)
        abort(); // no memory
    memcpy(text, any, sizeof any);
    cJSON_free((void *)(uintptr_t)of->text);
    of->text = text;
    of->n = sizeof any - 1;
}

// Schemas that no grammar can keep to, or that allow other values than objects, count as those of any object,
// unless the tool is strict. all: also those that ask for an object are looked at. 0: one is strict.
static int replace_others(Schemas *s, const cJSON *tools, int all, char *why, size_t room)
{
    const cJSON *tool = tools->child;
    const time_t begin = now();
    for (size_t i = 0; i < s->n; i++, tool = tool->next) {
        char root[24];
        if (!all && s->is_sure[i])
            continue;
        if (now() - begin > SCHEMA_SECONDS) {
            snprintf(why, room, "the schemas of the tools take too long to read");
            return 0;
        }
        snprintf(root, sizeof root, "root ::= %s", s->name[i]);
        rlxc_grammar *one = rlxc_grammar_read(root, strlen(root), &s->of[i], 1, why, room);
        if (one != NULL && takes_other(one))
            snprintf(why, room, "expected 'parameters' of the type object");
        const int is_good = one != NULL && !takes_other(one);
        rlxc_grammar_free(one);
        if (!is_good && cJSON_IsTrue(member(member(tool, "function"), "strict")))
            return 0;
        if (!is_good)
            count_as_any(&s->of[i]);
        s->is_sure[i] = 1;
    }
    return 1;
}

static rlxc_grammar *compile(const Text *g, const cJSON *tools, char *why, size_t room)
{
    Schemas *s = (Schemas *)calloc(1, sizeof *s);
    if (s == NULL)
        abort(); // no memory
    read_schemas(s, tools);
    const int ok = replace_others(s, tools, 0, why, room);
    rlxc_grammar *made = ok ? rlxc_grammar_read(g->data, g->n, s->of, s->n, why, room) : NULL;
    if (ok && made == NULL && replace_others(s, tools, 1, why, room))
        made = rlxc_grammar_read(g->data, g->n, s->of, s->n, why, room);
    for (size_t i = 0; i < s->n; i++)
        cJSON_free((void *)(uintptr_t)s->of[i].text);
    free(s);
    return made;
}

// What an answer may be where calls need not come.
static int add_root(Text *g)
{
    if (form.opening >= 0) {
        add_text(g, "root ::= Begun\n");
    } else if (form.is_first) {
        add_other_text(g, form.open);
        add_text(g, "Whole ::= ");
        add_literal(g, form.open);
        add_text(g, "Begun\nroot ::= Whole | Other\n");
    } else {
        add_text(g, "root ::= F0\n");
        return add_free_text(g, form.begin);
    }
    return 1;
}

rlxc_grammar *tools_grammar(const cJSON *tools, Choice choice, int one_only, char *why, size_t room)
{
    Text g = {NULL, 0, 0};
    int ok = 1;
    add_calls(&g, tools, choice.only);
    add_answers(&g, choice.has_to, one_only);
    if (choice.has_to)
        add_text(&g, "root ::= Begun\n");
    else
        ok = add_root(&g);
    if (!ok)
        snprintf(why, room, "the model's form of calls is too long");
    rlxc_grammar *made = ok ? compile(&g, tools, why, room) : NULL;
    text_free(&g);
    return made;
}
