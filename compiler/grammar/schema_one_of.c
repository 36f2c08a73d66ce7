// SPDX-License-Identifier: Apache-2.0
// oneOf of a JSON schema: no value may be one of two alternatives at once. They count as apart if they name
// different types, or if one requires a property for which the two have different constants. Constants are
// hashed, and properties sorted, before pairs are compared, since a client of a server may send thousands.
#include "compiler/grammar/schema.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_REQUIRED = 4096 };

typedef struct Tag { // a property whose value is a constant
    const char *name;
    uint64_t hash;
    bool is_required;
} Tag;

typedef struct Alternative {
    uint32_t types; // 0: it names none
    VEC(Tag) tags;  // by name
} Alternative;

// The same for equal values, in whatever order members stand. json_parse bounds the depth.
static uint64_t hash_of(const cJSON *value)
{
    const double number = cJSON_IsNumber(value) ? value->valuedouble + 0.0 : 0; // -0 is 0
    const cJSON *item;
    uint64_t h = (uint64_t)(value->type & 0xff);
    if (cJSON_IsString(value))
        return hash_bytes64(value->valuestring, strlen(value->valuestring), h);
    if (cJSON_IsNumber(value))
        return hash_bytes64(&number, sizeof number, h);
    cJSON_ArrayForEach(item, value)
    {
        const uint64_t one = hash_of(item);
        h = cJSON_IsArray(value) ? hash_bytes64(&one, sizeof one, h)
                                 : h + hash_bytes64(item->string, strlen(item->string), one);
    }
    return h;
}

static int compare_tags(const void *a, const void *b)
{
    return strcmp(((const Tag *)a)->name, ((const Tag *)b)->name);
}

static Alternative read(const Schema *s, const cJSON *node, const SchemaPath *path)
{
    Alternative made = {.types = schema_member(node, "type") == NULL ? 0 : schema_types_of(s, node, path)};
    const cJSON *item, *required = schema_member(node, "required");
    Map names = {0};
    uint64_t none;
    if (cJSON_GetArraySize(required) > MOST_REQUIRED)
        return made;
    cJSON_ArrayForEach(item, required) if (cJSON_IsString(item))
        map_put_str(s->arena, &names, item->valuestring, 1);
    cJSON_ArrayForEach(item, schema_member(node, "properties"))
    {
        const cJSON *constant = schema_member(item, "const");
        if (constant != NULL)
            vec_push(s->arena, &made.tags,
                     ((Tag){item->string, hash_of(constant), map_get_str(&names, item->string, &none)}));
    }
    if (made.tags.len != 0)
        qsort(made.tags.data, made.tags.len, sizeof(Tag), compare_tags);
    return made;
}

// Has every value of the one a property or type that no value of the other has?
static bool are_apart(const Alternative *a, const Alternative *b)
{
    const uint32_t numbers = TYPE_NUMBER | TYPE_INTEGER;
    if (a->types != 0 && b->types != 0 && (a->types & b->types) == 0 &&
        !((a->types & numbers) != 0 && (b->types & numbers) != 0))
        return true;
    const Tag *x = a->tags.data, *y = b->tags.data;
    for (uint32_t i = 0, j = 0; i < a->tags.len && j < b->tags.len;) {
        const int order = compare_tags(&x[i], &y[j]);
        if (order == 0 && (x[i].is_required || y[j].is_required) && x[i].hash != y[j].hash)
            return true;
        i += order <= 0;
        j += order >= 0;
    }
    return false;
}

// Of more alternatives, each with a constant of its own, a grammar has too many states.
bool schema_check_one_of(const Schema *s, const SchemaPath *path, const cJSON *list)
{
    enum { MOST = 8192 };
    const cJSON *item;
    VEC(Alternative) all = {0};
    if (!cJSON_IsArray(list))
        return true; // its alternatives are reported
    if (cJSON_GetArraySize(list) > MOST)
        return schema_fail(s, path, "oneOf: more than 8192 alternatives");
    cJSON_ArrayForEach(item, list)
    {
        const Alternative one = read(s, schema_resolved(s, item), path);
        for (uint32_t i = 0; i < all.len; i++)
            if (!are_apart(&all.data[i], &one))
                return schema_fail(s, path,
                                   "oneOf: two of the alternatives may hold at once, which a grammar "
                                   "cannot exclude; anyOf allows that, or give them different types "
                                   "or a required property with different constants");
        vec_push(s->arena, &all, one);
    }
    return true;
}
