// SPDX-License-Identifier: Apache-2.0
// What `rlxc inspect --json` prints; its pages carry the same text, so that their numbers are the same.
#ifndef COMPILER_INSPECT_JSON_H
#define COMPILER_INSPECT_JSON_H

#include "compiler/facts.h"
#include "compiler/job.h"

const char *inspect_json(const Job *j, const Totals *t);

#endif
