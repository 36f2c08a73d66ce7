// SPDX-License-Identifier: Apache-2.0
// What the files share that make GBNF of a JSON schema.
#ifndef COMPILER_GRAMMAR_SCHEMA_H
#define COMPILER_GRAMMAR_SCHEMA_H

#include "base/map.h"
#include "compiler/grammar/grammar.h"
#include "compiler/system/json_scan.h"

typedef struct Schema {
    Arena *arena;
    Diag *diag;
    Span where;
    const cJSON *root;
    Map refs; // "#/..." to the number of its rule
    uint32_t n_rules, depth;
    Str rules;
} Schema;

// A place in a schema: below its parent, a keyword such as properties (or NULL), and a name or number in what
// the keyword has (or NULL). Places are made texts only for messages: of a schema with many long names, the
// texts of all places would be large.
typedef struct SchemaPath {
    const struct SchemaPath *parent;
    const char *keyword, *name;
} SchemaPath;

enum { SCHEMA_NESTING = 64, SCHEMA_MAX_TEXT = 16 << 20 };

// Types, as bits.
enum {
    TYPE_OBJECT = 1,
    TYPE_ARRAY = 2,
    TYPE_STRING = 4,
    TYPE_NUMBER = 8,
    TYPE_INTEGER = 16,
    TYPE_BOOLEAN = 32,
    TYPE_NULL = 64
};

// The JSON pointer of a place, or its end.
const char *schema_path(const Schema *s, const SchemaPath *path);
// A message about the schema at a place; NULL: all of it.
bool schema_fail(const Schema *s, const SchemaPath *path, const char *why);
// Appends what stands for a schema in a sequence: a name, or a group. False: reported.
bool schema_put(Schema *s, const cJSON *node, const SchemaPath *path, Str *out);
bool schema_put_type(Schema *s, const cJSON *node, const SchemaPath *path, uint32_t type, Str *out);
bool schema_put_object(Schema *s, const cJSON *node, const SchemaPath *path, Str *out);
// Integers from low to high; each may be absent (NULL).
void schema_put_integers(const int64_t *low, const int64_t *high, Str *out);
// A text between quotes; a sign in a class.
void schema_put_literal(const char *text, Str *out);
void schema_put_sign(const char *sign, size_t n, Str *out);

// The types that a schema names, or that its keywords are for. 0: reported.
uint32_t schema_types_of(const Schema *s, const cJSON *node, const SchemaPath *path);
// The schema for which a reference stands, or the node itself.
const cJSON *schema_resolved(const Schema *s, const cJSON *node);
// False: two of the alternatives may hold at once (reported).
bool schema_check_one_of(const Schema *s, const SchemaPath *path, const cJSON *list);

static inline const cJSON *schema_member(const cJSON *node, const char *name)
{
    return cJSON_IsObject(node) ? cJSON_GetObjectItemCaseSensitive(node, name) : NULL;
}

// A member that counts something. False: it is none (reported). Absent: *count stays.
bool schema_count(const Schema *s, const cJSON *node, const SchemaPath *path, const char *name,
                  uint32_t *count);

#endif
