// SPDX-License-Identifier: Apache-2.0
// What inspect prints of a language model before all else: which it is, and the memory of its caches by the
// number of tokens.
#ifndef COMPILER_REPORT_INSPECT_LANGUAGE_H
#define COMPILER_REPORT_INSPECT_LANGUAGE_H

#include "compiler/job/job.h"

// Nothing for other models.
void inspect_language_print(const Job *j);

#endif
