// SPDX-License-Identifier: Apache-2.0
// See json_text.h.
#include "compiler/system/json_text.h"
#include "compiler/system/json_scan.h"

const char *json_text(Arena *a, const char *text)
{
    Str s = str_new(a);
    json_print_string(&s, text);
    return arena_strndup(a, s.data + 1, s.len - 2);
}
