// SPDX-License-Identifier: Apache-2.0
// Names in quotes, as the text form of graphs and dims writes them.
#ifndef BASE_QUOTE_H
#define BASE_QUOTE_H

#include "base/str.h"

// "name" with \" \\ \n \t and \xHH for other control bytes.
void quote_print(Str *out, const char *s);
// Reads a quoted text at *pos and moves behind it; the text is in out's arena. False: *pos is at what does
// not fit.
bool quote_parse(Arena *a, const char *text, size_t len, size_t *pos, const char **out);
// Letters, digits, '_' and '.', not starting with a digit or '.': needs no quotes.
bool quote_is_plain(const char *s);
bool quote_is_name_start(char c);
bool quote_is_name_char(char c);

#endif
