// SPDX-License-Identifier: Apache-2.0
// The text of runtime-lite/rlx.h, made into C strings by the build (tools/embed.py).
#ifndef CODEGEN_RUNTIME_TEXT_H
#define CODEGEN_RUNTIME_TEXT_H

// Lines, each with its newline; NULL at the end.
extern const char *const runtime_text[];
// The same of runtime-lite/rlx_threads.h.
extern const char *const threads_text[];

#endif
