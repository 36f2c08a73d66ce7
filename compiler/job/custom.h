// SPDX-License-Identifier: Apache-2.0
// Custom ops (docs/CUSTOM.md) as the commands see them: texts of the model that are compiled and, where the
// user allows it, run.
#ifndef COMPILER_JOB_CUSTOM_H
#define COMPILER_JOB_CUSTOM_H

#include "compiler/job/job.h"

// Sub-graphs too.
bool custom_has(const Graph *g);
// Every custom op has a text for the target (the name of its capabilities). False: reported.
bool custom_check(const Graph *g, const char *target);
// May the texts of the job's model run on this machine (--allow-custom)? False: reported.
bool custom_may_run(const Job *j);
// Lets the reference evaluator evaluate the custom ops of the job's graph, by their text for C.
void custom_evaluate(Job *j);

#endif
