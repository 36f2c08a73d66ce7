// SPDX-License-Identifier: Apache-2.0
// How --stream-input is read: an input of which the program gives rows in order.
#ifndef COMPILER_JOB_STREAM_INPUT_H
#define COMPILER_JOB_STREAM_INPUT_H

#include "compiler/cli/cli.h"
#include "compiler/job/pipeline.h"

// Reads the option. Where the input has other axes before the rows, its shape gets the rows in front of
// them: [1, C, H, W] becomes [1, H, C, W]. False: reported.
bool stream_input_apply(Cli *c, PipelineOptions *o, Graph **graph);

#endif
