// SPDX-License-Identifier: Apache-2.0
// Makes GBNF of a JSON schema: references, constants, alternatives, and what each type begins with. A keyword
// that it does not know is an error, because texts that break it would get through.
#include "compiler/grammar/schema.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char basics[] =
    "ws ::= (\" \" | \"\\n\" [ \\t]{0,20})?\n"
    "char ::= [^\"\\\\\\x00-\\x1f] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" ([0-9a-cA-CefEF] hex | [dD] [0-7]) hex "
    "hex)\n"
    "hex ::= [0-9a-fA-F]\n"
    "plain ::= [^\"\\\\\\x00-\\x1f]\n"
    "string ::= \"\\\"\" char* \"\\\"\"\n"
    "digits ::= \"0\" | [1-9] [0-9]{0,15}\n"
    "integer ::= \"-\"? digits\n"
    "behind ::= (\".\" [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?\n"
    "number ::= \"-\"? digits behind\n"
    "boolean ::= \"true\" | \"false\"\n"
    "null ::= \"null\"\n"
    "array ::= \"[\" ws (value (ws \",\" ws value)*)? ws \"]\"\n"
    "object ::= \"{\" ws (string ws \":\" ws value (ws \",\" ws string ws \":\" ws value)*)? ws \"}\"\n"
    "value ::= object | array | string | number | boolean | null\n";

static const struct {
    const char *name;
    uint32_t type;
} types[] = {{"object", TYPE_OBJECT}, {"array", TYPE_ARRAY},     {"string", TYPE_STRING},
             {"number", TYPE_NUMBER}, {"integer", TYPE_INTEGER}, {"boolean", TYPE_BOOLEAN},
             {"null", TYPE_NULL}};
enum { N_TYPES = sizeof types / sizeof *types, ALL_TYPES = (1 << N_TYPES) - 1 };

// Which keywords may stand in a schema, by what it is: KINDS is TYPE_* bits, or one of these.
enum { ANYWHERE = 1 << 8, WITH_REF = 1 << 9, WITH_CONST = 1 << 10, WITH_ANY = 1 << 11 };

static const struct {
    const char *name;
    uint32_t kinds;
} keywords[] = {
#define KEYWORD(name, kinds) {name, kinds},
#include "compiler/grammar/schema_keywords.def"
};

// Writes a part of a place before those at `at`, as far as there is room. It gives where it begins.
static size_t put_part(char *text, size_t at, const char *part)
{
    const size_t n = part == NULL ? 0 : strlen(part), kept = n < at ? n : at;
    memcpy(text + at - kept, part == NULL ? "" : part + n - kept, kept);
    at -= kept;
    if (part != NULL && at != 0)
        text[--at] = '/';
    return at;
}

const char *schema_path(const Schema *s, const SchemaPath *path)
{
    enum { MOST = 120 }; // bytes, so that messages have room behind them
    char text[MOST];
    size_t at = MOST;
    if (path == NULL)
        return "/";
    for (; path != NULL && at != 0; path = path->parent)
        at = put_part(text, put_part(text, at, path->name), path->keyword);
    const bool is_all = path == NULL && at != 0;
    while (at < MOST && ((unsigned char)text[at] & 0xc0) == 0x80) // not within a character
        at++;
    return arena_printf(s->arena, "%s%.*s", is_all ? "" : "...", (int)(MOST - at), text + at);
}

bool schema_fail(const Schema *s, const SchemaPath *path, const char *why)
{
    Span where = s->where;
    where.path = schema_path(s, path);
    return diag_error(s->diag, where, E0121, "%s", why);
}

static bool check_keywords(const Schema *s, const cJSON *node, const SchemaPath *path, uint32_t kinds)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, node)
    {
        bool is_known = false;
        for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
            is_known = is_known || ((keywords[i].kinds & (kinds | ANYWHERE)) != 0 &&
                                    str_equal(keywords[i].name, item->string));
        if (!is_known)
            return schema_fail(s, path,
                               arena_printf(s->arena, "the keyword %s cannot be kept to here", item->string));
    }
    return true;
}

bool schema_count(const Schema *s, const cJSON *node, const SchemaPath *path, const char *name,
                  uint32_t *count)
{
    const cJSON *item = schema_member(node, name);
    if (item == NULL)
        return true;
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= 65536) ||
        floor(item->valuedouble) != item->valuedouble)
        return schema_fail(s, path, arena_printf(s->arena, "%s: expected a number from 0 to 65536", name));
    *count = (uint32_t)item->valuedouble;
    return true;
}

// --- texts ---------------------------------------------------------------------------------------

void schema_put_sign(const char *sign, size_t n, Str *out)
{
    if ((unsigned char)*sign < 0x20 || *sign == 0x7f)
        str_printf(out, "\\x%02x", (unsigned char)*sign);
    else if (strchr("\"\\[]-^", *sign) != NULL)
        str_printf(out, "\\%c", *sign);
    else
        str_add_n(out, sign, n);
}

void schema_put_literal(const char *text, Str *out)
{
    str_char(out, '"');
    for (; *text != '\0'; text++) {
        if (strchr("[]-^", *text) != NULL)
            str_char(out, *text);
        else
            schema_put_sign(text, 1, out);
    }
    str_char(out, '"');
}

// A JSON value, written in one way.
static void schema_put_constant(Schema *s, const cJSON *value, Str *out)
{
    char *text = cJSON_PrintUnformatted(value);
    schema_put_literal(text == NULL ? "null" : arena_strdup(s->arena, text), out);
    cJSON_free(text);
}

// --- what a schema consists of -------------------------------------------------------------------

static uint32_t type_of(const cJSON *value)
{
    if (cJSON_IsNumber(value))
        return floor(value->valuedouble) == value->valuedouble ? TYPE_NUMBER | TYPE_INTEGER : TYPE_NUMBER;
    return cJSON_IsObject(value)   ? TYPE_OBJECT
           : cJSON_IsArray(value)  ? TYPE_ARRAY
           : cJSON_IsString(value) ? TYPE_STRING
           : cJSON_IsBool(value)   ? TYPE_BOOLEAN
                                   : TYPE_NULL;
}

static uint32_t type_named(const cJSON *item)
{
    for (uint32_t i = 0; cJSON_IsString(item) && i < N_TYPES; i++)
        if (str_equal(item->valuestring, types[i].name))
            return types[i].type;
    return 0;
}

// The types that a schema names, or that its keywords are for. 0: reported.
uint32_t schema_types_of(const Schema *s, const cJSON *node, const SchemaPath *path)
{
    const cJSON *type = schema_member(node, "type"), *item;
    uint32_t found = type_named(type), named;
    if (cJSON_IsArray(type))
        cJSON_ArrayForEach(item, type)
        {
            named = type_named(item);
            if (named == 0) {
                found = 0;
                break;
            }
            found |= named;
        }
    if (type != NULL && found == 0)
        schema_fail(s, path, "type: expected object, array, string, number, integer, boolean or null");
    if (type != NULL)
        return found;
    cJSON_ArrayForEach(item, node) for (size_t i = 0; i < sizeof keywords / sizeof *keywords;
                                        i++) if (str_equal(keywords[i].name, item->string) &&
                                                 (keywords[i].kinds & ALL_TYPES) != 0) found |=
        keywords[i].kinds & ALL_TYPES;
    found = (found & TYPE_NUMBER) != 0 ? found & ~(uint32_t)TYPE_INTEGER : found;
    return found == 0 ? ALL_TYPES : found;
}

// Is every number of the value one that a double has exactly?
static bool is_exact(const cJSON *value)
{
    const cJSON *item;
    if (cJSON_IsNumber(value))
        return fabs(value->valuedouble) < 9007199254740992.0;
    cJSON_ArrayForEach(item, value) if (!is_exact(item)) return false;
    return true;
}

// The values from `item` on: of enum, or the one of const.
static bool put_values(Schema *s, const cJSON *node, const SchemaPath *path, const cJSON *item, Str *out)
{
    const uint32_t allowed = schema_member(node, "type") == NULL ? ALL_TYPES : schema_types_of(s, node, path);
    const bool is_one = schema_member(node, "const") != NULL;
    bool is_first = true;
    if (allowed == 0 || !check_keywords(s, node, path, WITH_CONST))
        return false;
    str_char(out, '(');
    for (; item != NULL; item = is_one ? NULL : item->next) {
        if ((type_of(item) & allowed) == 0)
            continue;
        if (!is_exact(item))
            return schema_fail(s, path, "a number beyond 2^53 cannot be kept to");
        str_add(out, is_first ? "" : " | ");
        schema_put_constant(s, item, out);
        is_first = false;
    }
    str_char(out, ')');
    return !is_first || schema_fail(s, path, "no value is of the type that the schema asks for");
}

static bool put_alternatives(Schema *s, const SchemaPath *path, const cJSON *list, const char *name, Str *out)
{
    const cJSON *item;
    char number[12];
    uint32_t i = 0;
    if (!cJSON_IsArray(list) || list->child == NULL)
        return schema_fail(s, path, arena_printf(s->arena, "%s: expected a list of schemas", name));
    str_char(out, '(');
    cJSON_ArrayForEach(item, list)
    {
        str_add(out, i == 0 ? "" : " | ");
        snprintf(number, sizeof number, "%u", i++);
        if (!schema_put(s, item, &(SchemaPath){path, name, number}, out))
            return false;
    }
    str_char(out, ')');
    return true;
}

// --- references ----------------------------------------------------------------------------------

static const cJSON *step_into(const cJSON *at, const char *name)
{
    if (!cJSON_IsArray(at))
        return schema_member(at, name);
    int64_t index;
    return str_parse_i64(name, strlen(name), &index) && index >= 0 && index < cJSON_GetArraySize(at)
               ? cJSON_GetArrayItem(at, (int)index)
               : NULL;
}

// The schema at "#/$defs/name". NULL: there is none.
static const cJSON *find_ref(const Schema *s, const char *ref)
{
    const cJSON *at = s->root;
    if (ref[0] != '#' || (ref[1] != '\0' && ref[1] != '/'))
        return NULL;
    for (const char *p = ref + 1; at != NULL && *p == '/';) {
        Str name = str_new(s->arena);
        for (p++; *p != '/' && *p != '\0'; p++) {
            const bool is_escape = *p == '~' && (p[1] == '0' || p[1] == '1');
            str_char(&name, !is_escape ? *p : p[1] == '0' ? '~' : '/');
            p += is_escape;
        }
        at = step_into(at, str_text(&name));
    }
    return at;
}

// The schema for which a reference stands, or the node itself.
const cJSON *schema_resolved(const Schema *s, const cJSON *node)
{
    const cJSON *ref = schema_member(node, "$ref");
    const cJSON *to = cJSON_IsString(ref) ? find_ref(s, ref->valuestring) : NULL;
    return to != NULL ? to : node;
}

static bool put_ref(Schema *s, const cJSON *node, const SchemaPath *path, const cJSON *ref, Str *out)
{
    uint64_t rule;
    const cJSON *to = cJSON_IsString(ref) ? find_ref(s, ref->valuestring) : NULL;
    if (to == NULL)
        return schema_fail(s, path,
                           "$ref: expected the place of a schema in this file, such as #/$defs/name");
    if (!check_keywords(s, node, path, WITH_REF))
        return false;
    if (!map_get_str(&s->refs, ref->valuestring, &rule)) {
        Str text = str_new(s->arena);
        rule = s->n_rules++;
        map_put_str(s->arena, &s->refs, ref->valuestring, rule);
        const SchemaPath place = {NULL, NULL, ref->valuestring + 2};
        if (!schema_put(s, to, ref->valuestring[1] == '\0' ? NULL : &place, &text))
            return false;
        str_printf(&s->rules, "ref-%u ::= %s\n", (uint32_t)rule, str_text(&text));
    }
    str_printf(out, "ref-%u", (uint32_t)rule);
    return true;
}

// --- all -----------------------------------------------------------------------------------------

static bool put_types(Schema *s, const cJSON *node, const SchemaPath *path, Str *out)
{
    const uint32_t all = schema_types_of(s, node, path);
    bool is_first = true;
    if (all == 0 || !check_keywords(s, node, path, all))
        return false;
    str_char(out, '(');
    for (uint32_t i = 0; i < N_TYPES; i++) {
        const bool is_in_number = types[i].type == TYPE_INTEGER && (all & TYPE_NUMBER) != 0;
        if ((all & types[i].type) == 0 || is_in_number)
            continue;
        str_add(out, is_first ? "" : " | ");
        if (!schema_put_type(s, node, path, types[i].type, out))
            return false;
        is_first = false;
    }
    str_char(out, ')');
    return true;
}

static bool put_object_form(Schema *s, const cJSON *node, const SchemaPath *path, Str *out)
{
    const cJSON *ref = schema_member(node, "$ref"), *constant = schema_member(node, "const");
    const cJSON *values = schema_member(node, "enum"), *any = schema_member(node, "anyOf");
    const cJSON *one = schema_member(node, "oneOf"), *all = schema_member(node, "allOf");
    if (ref != NULL)
        return put_ref(s, node, path, ref, out);
    if (constant != NULL)
        return put_values(s, node, path, constant, out);
    if (values != NULL)
        return cJSON_IsArray(values) ? put_values(s, node, path, values->child, out)
                                     : schema_fail(s, path, "enum: expected a list");
    if (any == NULL && one == NULL && all == NULL)
        return put_types(s, node, path, out);
    if (!check_keywords(s, node, path, WITH_ANY) || (one != NULL && !schema_check_one_of(s, path, one)))
        return false;
    if ((any != NULL) + (one != NULL) + (all != NULL) > 1 || (all != NULL && cJSON_GetArraySize(all) != 1))
        return schema_fail(s, path,
                           "schemas that must hold together cannot be kept to; expected one of anyOf, "
                           "oneOf, or allOf with one schema");
    return put_alternatives(s, path,
                            any != NULL   ? any
                            : one != NULL ? one
                                          : all,
                            any != NULL   ? "anyOf"
                            : one != NULL ? "oneOf"
                                          : "allOf",
                            out);
}

bool schema_put(Schema *s, const cJSON *node, const SchemaPath *path, Str *out)
{
    if (cJSON_IsTrue(node)) {
        str_add(out, "value");
        return true;
    }
    if (!cJSON_IsObject(node))
        return schema_fail(s, path, cJSON_IsFalse(node) ? "this schema allows nothing" : "expected a schema");
    if (s->depth == SCHEMA_NESTING || s->rules.len + out->len > SCHEMA_MAX_TEXT)
        return schema_fail(s, path, "the schema is nested too deep, or becomes too large");
    s->depth++;
    const bool ok = put_object_form(s, node, path, out);
    s->depth--;
    return ok;
}

static bool put_rule(Schema *s, const GrammarSchema *schema, Str *gbnf)
{
    const GrammarText text = schema->text;
    const char *why = "it is no JSON";
    Str rule = str_new(s->arena);
    size_t at = 0;
    s->where = text.where;
    s->refs = (Map){0};
    if (json_check(text.data, text.len, &at, &why) != JSON_FINE ||
        (s->root = json_parse(s->arena, text.data, text.len, &at)) == NULL) {
        s->where.begin = s->where.end = (uint32_t)at;
        return diag_error(s->diag, s->where, E0101, "%s", why);
    }
    if (!schema_put(s, s->root, NULL, &rule))
        return false;
    rlx_assert(s->depth == 0);
    str_printf(gbnf, "%s ::= %s\n", schema->name, str_text(&rule));
    return true;
}

bool grammar_of_schemas(Arena *a, Diag *d, const GrammarSchema *schemas, size_t n, Str *gbnf)
{
    Schema s = {.arena = a, .diag = d, .rules = str_new(a)};
    for (size_t i = 0; i < n; i++)
        if (!put_rule(&s, &schemas[i], gbnf))
            return false;
    if (n != 0)
        str_printf(gbnf, "%s%s", str_text(&s.rules), basics);
    return true;
}

bool grammar_of_schema(Arena *a, Diag *d, GrammarText text, Str *gbnf)
{
    return grammar_of_schemas(a, d, &(GrammarSchema){"root", text}, 1, gbnf);
}
