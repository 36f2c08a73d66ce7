// SPDX-License-Identifier: Apache-2.0
// The headers of runtime-lite/text that C files of grammars carry, as lines made by the build
// (tools/embed.py). NULL ends them.
#ifndef COMPILER_GRAMMAR_GRAMMAR_TEXT_H
#define COMPILER_GRAMMAR_GRAMMAR_TEXT_H

extern const char *const grammar_text[];

#endif
