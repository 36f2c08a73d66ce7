// SPDX-License-Identifier: Apache-2.0
// The adapters of a language model (--lora, docs/LLM.md). Separate from the other options of such models
// because their files are read here.
#ifndef COMPILER_JOB_ADAPTERS_H
#define COMPILER_JOB_ADAPTERS_H

#include "compiler/job/job.h"

// Reads the files that --lora names. False: reported.
bool adapters_read(Job *j);
#endif
