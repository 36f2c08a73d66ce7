// SPDX-License-Identifier: Apache-2.0
// The lines of runtime-lite/load, made by the build.
#ifndef COMPILER_LOAD_LOAD_TEXT_H
#define COMPILER_LOAD_LOAD_TEXT_H

extern const char *const load_text_public[]; // of NAME.h
extern const char *const load_text_code[];   // of NAME.c

#endif
