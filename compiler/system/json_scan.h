// SPDX-License-Identifier: Apache-2.0
// What cJSON does not give: strict checking of JSON text with limits, and the places of values in it.
#ifndef COMPILER_SYSTEM_JSON_SCAN_H
#define COMPILER_SYSTEM_JSON_SCAN_H

#include "base/str.h"

#include <cjson/cJSON.h>

enum { JSON_MAX_DEPTH = 64, JSON_MAX_VALUES = 16 << 20, JSON_MAX_TEXT = 256 << 20 };

typedef struct JsonRange {
    uint32_t begin, end; // bytes of the text
} JsonRange;

typedef enum JsonFault { JSON_FINE, JSON_BROKEN, JSON_TOO_LARGE } JsonFault;

// Checks that text is one JSON value: RFC 8259, UTF-8, no NUL character in a string, and the limits above. A
// text that passes is one that cJSON reads. If not: where, and why in a few words.
JsonFault json_check(const char *text, size_t len, size_t *at, const char **why);

// cJSON's tree of a checked text, all of it in the arena: nothing to delete. NULL: cJSON refuses the text at
// *at.
cJSON *json_parse(Arena *a, const char *text, size_t len, size_t *at);

// Places in checked text. The children of an array or object are its elements, or the values of its members;
// the one at byte `parent` must have as many as asked for.
JsonRange *json_find_children(Arena *a, const char *text, uint32_t parent, uint32_t n);
// Where child number `index` begins; its end takes a scan of its own.
uint32_t json_find_child(const char *text, uint32_t parent, uint32_t index);
JsonRange json_find_end(const char *text, uint32_t begin);
// The place of the one value of a whole text.
JsonRange json_find_root(const char *text, size_t len);

// A text as a JSON string, in quotes. What is not UTF-8 becomes U+FFFD.
void json_print_string(Str *out, const char *s);

#endif
