// SPDX-License-Identifier: Apache-2.0
// GBNF of objects of a JSON schema: properties in the order of the schema, of which some may be missing, and
// behind them further ones with other names.
#include "compiler/grammar/schema.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_PROPERTIES = 4096, MAX_NAME = 1024 };

typedef struct Property {
    const char *name;
    const cJSON *schema; // NULL: any value
    bool is_required;
} Property;

typedef struct Object {
    Schema *schema;
    const SchemaPath *path;
    VEC(Property) properties;
    const char *rest; // what stands for a further property. NULL: there is none
    uint32_t number;  // of its rules
} Object;

static Property *find(Object *o, const char *name)
{
    for (uint32_t i = 0; i < o->properties.len; i++)
        if (str_equal(o->properties.data[i].name, name))
            return &o->properties.data[i];
    return NULL;
}

static bool list_properties(Object *o, const cJSON *node)
{
    const cJSON *properties = schema_member(node, "properties"), *required = schema_member(node, "required");
    const cJSON *rest = schema_member(node, "additionalProperties"), *item;
    Arena *a = o->schema->arena;
    if ((properties != NULL && !cJSON_IsObject(properties)) || (required != NULL && !cJSON_IsArray(required)))
        return schema_fail(o->schema, o->path, "expected properties as an object, and required as a list");
    if (cJSON_GetArraySize(properties) > MAX_PROPERTIES || cJSON_GetArraySize(required) > MAX_PROPERTIES)
        return schema_fail(o->schema, o->path, "an object has more than 4096 properties");
    cJSON_ArrayForEach(item, properties)
    {
        if (find(o, item->string) != NULL)
            return schema_fail(o->schema, o->path, "a property is there twice");
        vec_push(a, &o->properties, ((Property){item->string, item, false}));
    }
    cJSON_ArrayForEach(item, required)
    {
        if (!cJSON_IsString(item))
            return schema_fail(o->schema, o->path, "required: expected names");
        Property *p = find(o, item->valuestring);
        if (p != NULL)
            p->is_required = true;
        else
            vec_push(a, &o->properties, ((Property){item->valuestring, rest, true}));
    }
    for (uint32_t i = 0; i < o->properties.len; i++)
        if (strlen(o->properties.data[i].name) > MAX_NAME)
            return schema_fail(o->schema, o->path, "the name of a property has more than 1024 bytes");
    return true;
}

// --- further properties --------------------------------------------------------------------------

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t sign_length(const char *text)
{
    const size_t n = str_utf8(text, text + strlen(text), NULL);
    return n == 0 ? 1 : n;
}

// What follows the first `at` bytes, which the n names share, in a name that is none of them. Names are
// sorted.
static void put_other(Str *out, const char *const *name, uint32_t n, size_t at)
{
    Str others = str_new(out->arena);
    bool ends_here = false;
    str_char(out, '(');
    for (uint32_t i = 0, end; i < n; i = end) {
        rlx_assert(i == 0 || strcmp(name[i - 1], name[i]) < 0); // sorted: equal beginnings stand together
        const char *mark = name[i] + at;
        const size_t length = *mark == '\0' ? 0 : sign_length(mark);
        for (end = i + 1; end < n && strncmp(name[end] + at, mark, length) == 0 && length != 0;)
            end++;
        ends_here = ends_here || length == 0;
        if (length == 0)
            continue;
        schema_put_sign(mark, length, &others);
        char *text = arena_strndup(out->arena, mark, length);
        schema_put_literal(text, out);
        put_other(out, name + i, end - i, at + length);
        str_add(out, " | ");
    }
    str_printf(out, "[^\"\\\\\\x00-\\x1f%s] plain* \"\\\"\"%s)", str_text(&others),
               ends_here ? "" : " | \"\\\"\"");
}

// Names that need escapes are left out: further names have none.
static bool is_plain(const char *name)
{
    for (; *name != '\0'; name++)
        if ((unsigned char)*name < 0x20 || *name == '"' || *name == '\\')
            return false;
    return true;
}

static void put_other_name(const Object *o, Str *out)
{
    const char **names = ARENA_ARRAY(o->schema->arena, const char *, o->properties.len + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->properties.len; i++)
        if (is_plain(o->properties.data[i].name))
            names[n++] = o->properties.data[i].name;
    qsort(names, n, sizeof *names, compare_names);
    str_add(out, "\"\\\"\" ");
    put_other(out, names, n, 0);
}

static bool read_rest(Object *o, const cJSON *node)
{
    const cJSON *rest = schema_member(node, "additionalProperties");
    Schema *s = o->schema;
    Str text = str_new(s->arena), value = str_new(s->arena);
    if (cJSON_IsFalse(rest) || (rest == NULL && o->properties.len != 0))
        return true;
    if (rest == NULL)
        str_add(&value, "value");
    else if (!schema_put(s, rest, &(SchemaPath){o->path, "additionalProperties", NULL}, &value))
        return false;
    put_other_name(o, &text);
    str_printf(&s->rules, "more-%u ::= %s ws \":\" ws %s\n", o->number, str_text(&text), str_text(&value));
    o->rest = arena_printf(s->arena, "more-%u", o->number);
    return true;
}

// --- all -----------------------------------------------------------------------------------------

static void put_name(Schema *s, const char *name, Str *out)
{
    Str text = str_new(s->arena);
    json_print_string(&text, name);
    schema_put_literal(str_text(&text), out);
}

// Rules for what comes from property number i on: with nothing before it, and with something.
static bool put_from(Object *o, uint32_t i)
{
    Schema *s = o->schema;
    rlx_assert(i < o->properties.len);
    const Property *p = &o->properties.data[i];
    const uint32_t n = o->number;
    Str value = str_new(s->arena), name = str_new(s->arena);
    const SchemaPath path = {o->path, "properties", p->name};
    if (p->schema == NULL)
        str_add(&value, "value");
    else if (!schema_put(s, p->schema, &path, &value))
        return false;
    put_name(s, p->name, &name);
    str_printf(&s->rules, "p-%u-%u ::= %s ws \":\" ws %s\n", n, i, str_text(&name), str_text(&value));
    str_printf(&s->rules, "first-%u-%u ::= p-%u-%u next-%u-%u", n, i, n, i, n, i + 1);
    if (!p->is_required)
        str_printf(&s->rules, " | first-%u-%u", n, i + 1);
    str_printf(&s->rules, "\nnext-%u-%u ::= ws \",\" ws p-%u-%u next-%u-%u", n, i, n, i, n, i + 1);
    if (!p->is_required)
        str_printf(&s->rules, " | next-%u-%u", n, i + 1);
    str_char(&s->rules, '\n');
    return true;
}

bool schema_put_object(Schema *s, const cJSON *node, const SchemaPath *path, Str *out)
{
    Object o = {.schema = s, .path = path, .number = s->n_rules++};
    if (!list_properties(&o, node) || !read_rest(&o, node))
        return false;
    for (uint32_t i = 0; i < o.properties.len; i++)
        if (!put_from(&o, i))
            return false;
    const uint32_t n = o.properties.len;
    if (o.rest == NULL)
        str_printf(&s->rules, "first-%u-%u ::= \"\"\nnext-%u-%u ::= \"\"\n", o.number, n, o.number, n);
    else
        str_printf(&s->rules, "first-%u-%u ::= (%s next-%u-%u)?\nnext-%u-%u ::= (ws \",\" ws %s)*\n",
                   o.number, n, o.rest, o.number, n, o.number, n, o.rest);
    str_printf(out, "\"{\" ws first-%u-0 ws \"}\"", o.number);
    return true;
}
