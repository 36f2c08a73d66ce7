// SPDX-License-Identifier: Apache-2.0
// Text inside JSON strings, for the --json outputs.
#ifndef COMPILER_SYSTEM_JSON_TEXT_H
#define COMPILER_SYSTEM_JSON_TEXT_H

#include "base/str.h"

// Escaped, without the quotes around it.
const char *json_text(Arena *a, const char *text);

#endif
