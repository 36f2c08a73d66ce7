// SPDX-License-Identifier: Apache-2.0
// What inspect prints of a language model before all else: which it is, and the memory of its caches by the
// number of tokens.
#ifndef COMPILER_REPORT_INSPECT_LANGUAGE_H
#define COMPILER_REPORT_INSPECT_LANGUAGE_H

#include "compiler/job/job.h"

// A list of the adapters, as a member of an object; nothing where there are none.
void inspect_adapters_json(const Job *j, Str *out);
// Nothing for other models.
void inspect_language_print(const Job *j);

#endif
