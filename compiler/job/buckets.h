// SPDX-License-Identifier: Apache-2.0
// Buckets (--bucket, --buckets): sizes that a model is planned for several times over, so that a run with
// small sizes takes a plan that was made for about that much.
#ifndef COMPILER_JOB_BUCKETS_H
#define COMPILER_JOB_BUCKETS_H

#include "compiler/cli/cli.h"
#include "compiler/job/given.h"
#include "ir/plan/plan.h"

typedef struct BucketSizes {
    uint32_t n, n_symbols; // 0: the model has one plan
    const char *name[PLAN_MAX_BUCKET_SYMBOLS];
    bool has_min[PLAN_MAX_BUCKET_SYMBOLS]; // --dim NAME=MIN..MAX says where the sizes begin; else the symbol
    int64_t min[PLAN_MAX_BUCKET_SYMBOLS];
    int64_t size[PLAN_MAX_BUCKETS][PLAN_MAX_BUCKET_SYMBOLS]; // smallest first; the last is the largest in all
} BucketSizes;

// Reads the options; the symbols are open up to their largest size from then on. False: reported.
bool buckets_read(Cli *c, Given *given, BucketSizes *out);
// What --dim NAME=..SIZE would be for symbol `symbol` of bucket `bucket`.
ImportSize buckets_range(const BucketSizes *b, uint32_t bucket, uint32_t symbol);

struct Job;
// Plans all buckets but the largest, which is planned already, and lets them share their memory.
bool buckets_plan(struct Job *j);

#endif
