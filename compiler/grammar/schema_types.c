// SPDX-License-Identifier: Apache-2.0
// GBNF of the plain types of a JSON schema: strings, numbers, lists.
#include "compiler/grammar/schema.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

// --- strings -------------------------------------------------------------------------------------

#define DATE "[0-9]{4} \"-\" (\"0\" [1-9] | \"1\" [0-2]) \"-\" (\"0\" [1-9] | \"1\" [0-9] | \"2\" [0-8])"
#define TIME                                                                                                 \
    "([01] [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9] \":\" [0-5] [0-9] (\"Z\" | [+-] ([01] [0-9] | \"2\" "      \
    "[0-3]) \":\" [0-5] [0-9])"
static const struct {
    const char *name, *text;
} formats[] = {
    {"date", DATE}, // of every month the days that all months have
    {"time", TIME},
    {"date-time", DATE " \"T\" " TIME},
    {"uuid", "hex{8} \"-\" hex{4} \"-\" hex{4} \"-\" hex{4} \"-\" hex{12}"},
};
#undef DATE
#undef TIME

static const char *format_of(const cJSON *node)
{
    const cJSON *format = schema_member(node, "format");
    for (size_t i = 0; cJSON_IsString(format) && i < sizeof formats / sizeof *formats; i++)
        if (str_equal(format->valuestring, formats[i].name))
            return formats[i].text;
    return NULL;
}

static bool put_string(Schema *s, const cJSON *node, const SchemaPath *path, Str *out)
{
    const char *format = format_of(node);
    uint32_t least = 0, most = NET_NONE;
    if (!schema_count(s, node, path, "minLength", &least) || !schema_count(s, node, path, "maxLength", &most))
        return false;
    if (least > most)
        return schema_fail(s, path, "maxLength is below minLength");
    if (format == NULL && schema_member(node, "format") != NULL)
        diag_warning(s->diag, s->where, E0121, "%s: strings of this format are not checked",
                     schema_path(s, path));
    if (format != NULL && (least != 0 || most != NET_NONE))
        return schema_fail(s, path, "a format and a length cannot both be kept to");
    if (format != NULL)
        str_printf(out, "\"\\\"\" %s \"\\\"\"", format);
    else if (most == NET_NONE)
        str_printf(out, "\"\\\"\" char{%u,} \"\\\"\"", least);
    else
        str_printf(out, "\"\\\"\" char{%u,%u} \"\\\"\"", least, most);
    return true;
}

// --- numbers -------------------------------------------------------------------------------------

// A bound of an integer; `by` is added to an exclusive one. *has: is there one?
static bool read_bound(const Schema *s, const cJSON *node, const SchemaPath *path, const char *const names[2],
                       int by, bool *has, int64_t *bound)
{
    *has = false;
    for (int i = 0; i < 2; i++) {
        const cJSON *item = schema_member(node, names[i]);
        if (item == NULL)
            continue;
        if (!cJSON_IsNumber(item) || !(fabs(item->valuedouble) < 1e15))
            return schema_fail(s, path, arena_printf(s->arena, "%s: expected a number below 1e15", names[i]));
        const double x = item->valuedouble, whole = by > 0 ? ceil(x) : floor(x);
        const int64_t b = (int64_t)whole + (i == 1 && whole == x ? by : 0);
        *bound = !*has || (by > 0 ? b > *bound : b < *bound) ? b : *bound;
        *has = true;
    }
    return true;
}

static bool put_integer(Schema *s, const cJSON *node, const SchemaPath *path, Str *out)
{
    static const char *const lows[2] = {"minimum", "exclusiveMinimum"};
    static const char *const highs[2] = {"maximum", "exclusiveMaximum"};
    bool has_low, has_high;
    int64_t low, high;
    if (!read_bound(s, node, path, lows, 1, &has_low, &low) ||
        !read_bound(s, node, path, highs, -1, &has_high, &high))
        return false;
    if (has_low && has_high && high < low)
        return schema_fail(s, path, "no integer is between the bounds");
    schema_put_integers(has_low ? &low : NULL, has_high ? &high : NULL, out);
    return true;
}

static bool put_number(Schema *s, const cJSON *node, const SchemaPath *path, Str *out)
{
    const cJSON *low = schema_member(node, "minimum");
    if (schema_member(node, "maximum") != NULL ||
        (low != NULL && (!cJSON_IsNumber(low) || low->valuedouble != 0)))
        return schema_fail(s, path,
                           "bounds of numbers that are no integers cannot be kept to, but for minimum 0");
    str_add(out, low != NULL ? "digits behind" : "number");
    return true;
}

// --- lists ---------------------------------------------------------------------------------------

// A rule of its own for what is written twice.
static const char *name_item(Schema *s, const Str *text)
{
    const uint32_t number = s->n_rules++;
    str_printf(&s->rules, "item-%u ::= %s\n", number, str_text(text));
    return arena_printf(s->arena, "item-%u", number);
}

// Items behind the first n: `rest` of them, with a comma before each but the first of all.
static void put_rest(Str *out, const char *rest, uint32_t n, uint32_t least, uint32_t most)
{
    Str times = str_new(out->arena);
    rlx_assert(most == NET_NONE || (most >= n && most >= least));
    const uint32_t low = least < n ? 0 : least - n, high = most == NET_NONE ? NET_NONE : most - n;
    if (high == 0)
        return;
    const uint32_t first = n == 0;
    if (high == NET_NONE)
        str_printf(&times, "{%u,}", low > first ? low - first : 0);
    else
        str_printf(&times, "{%u,%u}", low > first ? low - first : 0, high - first);
    if (first)
        str_printf(out, " (%s (ws \",\" ws %s)%s)%s", rest, rest, str_text(&times), low == 0 ? "?" : "");
    else
        str_printf(out, " (ws \",\" ws %s)%s", rest, str_text(&times));
}

// Items each with a schema of its own, of which the last may be missing: "a (, b (, c)?)?".
static bool put_first_items(Schema *s, const cJSON *list, const SchemaPath *path, uint32_t least, Str *out)
{
    const cJSON *item;
    char number[12];
    uint32_t i = 0;
    cJSON_ArrayForEach(item, list)
    {
        str_add(out, i >= least ? " (" : " ");
        str_add(out, i == 0 ? "" : "ws \",\" ws ");
        snprintf(number, sizeof number, "%u", i++);
        if (!schema_put(s, item, &(SchemaPath){path, "prefixItems", number}, out))
            return false;
    }
    return true;
}

static bool put_array(Schema *s, const cJSON *node, const SchemaPath *path, Str *out)
{
    const cJSON *first = schema_member(node, "prefixItems"), *items = schema_member(node, "items");
    uint32_t least = 0, most = NET_NONE;
    const uint32_t n = first == NULL ? 0 : (uint32_t)cJSON_GetArraySize(first);
    Str rest = str_new(s->arena);
    if (!schema_count(s, node, path, "minItems", &least) || !schema_count(s, node, path, "maxItems", &most))
        return false;
    if (first != NULL && (!cJSON_IsArray(first) || n == 0 || n > 256))
        return schema_fail(s, path, "prefixItems: expected a list of 1 to 256 schemas");
    if (cJSON_IsFalse(items))
        most = most < n ? most : n;
    else if (items == NULL)
        str_add(&rest, "value");
    else if (!schema_put(s, items, &(SchemaPath){path, "items", NULL}, &rest))
        return false;
    if (least > most || most < n)
        return schema_fail(s, path, "maxItems is below minItems or the number of prefixItems");
    str_add(out, "\"[\" ws");
    if (!put_first_items(s, first, path, least, out))
        return false;
    put_rest(out, most == n ? "" : name_item(s, &rest), n, least, most);
    for (uint32_t i = least; i < n; i++)
        str_add(out, ")?");
    str_add(out, " ws \"]\"");
    return true;
}

bool schema_put_type(Schema *s, const cJSON *node, const SchemaPath *path, uint32_t type, Str *out)
{
    switch (type) {
    case TYPE_OBJECT:
        return schema_put_object(s, node, path, out);
    case TYPE_ARRAY:
        return put_array(s, node, path, out);
    case TYPE_STRING:
        return put_string(s, node, path, out);
    case TYPE_NUMBER:
        return put_number(s, node, path, out);
    case TYPE_INTEGER:
        return put_integer(s, node, path, out);
    default:
        str_add(out, type == TYPE_BOOLEAN ? "boolean" : "null");
        return true;
    }
}
