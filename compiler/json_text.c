// SPDX-License-Identifier: Apache-2.0
// See json_text.h.
#include "compiler/json_text.h"

const char *json_text(Arena *a, const char *text)
{
    Str s = str_new(a);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            str_printf(&s, "\\%c", *c);
        else if (*c < 0x20)
            str_printf(&s, "\\u%04x", *c);
        else
            str_char(&s, (char)*c);
    }
    return str_text(&s);
}
