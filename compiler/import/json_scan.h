// SPDX-License-Identifier: Apache-2.0
// What cJSON does not give: strict checking of JSON text with limits, and the places of values in it.
#ifndef COMPILER_IMPORT_JSON_SCAN_H
#define COMPILER_IMPORT_JSON_SCAN_H

#include "base/str.h"

enum { JSON_MAX_DEPTH = 64, JSON_MAX_VALUES = 16 << 20, JSON_MAX_TEXT = 256 << 20 };

typedef struct JsonRange {
    uint32_t begin, end; // bytes of the text
} JsonRange;

typedef enum JsonFault { JSON_FINE, JSON_BROKEN, JSON_TOO_LARGE } JsonFault;

// Checks that text is one JSON value: RFC 8259, UTF-8, no NUL character in a string, and the limits above. A text that
// passes is one that cJSON reads. If not: where, and why in a few words.
JsonFault json_check(const char *text, size_t len, size_t *at, const char **why);

// The places of the children (elements, or member values) of the array or object at `of`, n of them, in order. For
// checked text.
JsonRange *json_find_children(Arena *a, const char *text, JsonRange of, uint32_t n);
// The place of child number `index` only.
JsonRange json_find_child(const char *text, JsonRange of, uint32_t index);
// The place of the one value of a whole text.
JsonRange json_find_root(const char *text, size_t len);

// A text as a JSON string, in quotes. What is not UTF-8 becomes U+FFFD.
void json_print_string(Str *out, const char *s);

#endif
