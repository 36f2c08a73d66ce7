// SPDX-License-Identifier: Apache-2.0
// The headers of runtime-lite/session as lines, made by the build (tools/embed.py). NULL ends each.
#ifndef COMPILER_SESSION_SESSION_TEXT_H
#define COMPILER_SESSION_SESSION_TEXT_H

extern const char *const session_text_embed[]; // of NAME.c, of models that make vectors of texts
extern const char *const session_text_public[], *const session_text_slots_public[]; // of NAME.h
extern const char *const session_text_code[];                                // of NAME.c
extern const char *const session_text_alone[], *const session_text_slots[];         // one of them follows

#endif
