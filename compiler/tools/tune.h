// SPDX-License-Identifier: Apache-2.0
// Measures the candidates of all choices of a plan (choice.h) on this machine, or on its GPU. Variant
// r of the model answers every question with its candidate r, and reports when each kernel has ended (on a
// GPU: what its clock says): so one library measures a candidate of every question at once. Several libraries
// are loaded together and take turns, warmed; each time is the best of many runs, and counts relative to the
// cost model's own choice beside it.
#ifndef COMPILER_TOOLS_TUNE_H
#define COMPILER_TOOLS_TUNE_H

#include "compiler/job/job.h"
#include "ir/graph/tensor.h"

typedef struct TuneQuestion {
    const char *question;
    VEC(const char *) candidates;
    uint32_t given;        // the cost model's
    uint32_t pick;         // the fastest; the given one unless another is clearly faster
    double *time;          // by candidate: relative to the given one; 0 = not measured
    double given_us;       // all its kernels together
    VEC(uint32_t) kernels; // that asked, counted through the plan and the bodies of its loops
} TuneQuestion;

typedef VEC(TuneQuestion) TuneQuestions;

// The distinct questions of the job's plan that have more than one candidate, sorted.
TuneQuestions tune_questions(Job *j);
// Fills time, given_us and pick. inputs: by slot. False: reported.
bool tune_measure(Job *j, const Tensor *inputs, TuneQuestions *q);

#endif
