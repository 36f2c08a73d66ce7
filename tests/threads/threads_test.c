// SPDX-License-Identifier: Apache-2.0
// The threads of generated code: any number of them, started and stopped, in several contexts at once, gives
// the bits of a single caller. Built by check_threads.py, also with the thread sanitizer. Usage: p PARTS
#include "shared.h"
#include <stdio.h>
#include <stdlib.h>

enum { RUNS = 4, MAX_BYTES = 1 << 20 };

typedef struct Job {
    rlx_ctx ctx;
    rlx_pool pool;
    unsigned char *results; // of all runs, one behind the other
    size_t n_bytes;
    int parts, has_failed;
} Job;

static unsigned char *block(size_t n)
{
    unsigned char *p = (unsigned char *)malloc(n + RLX_ALIGNMENT);
    if (p == NULL)
        exit(1);
    memset(p, 0xff, n + RLX_ALIGNMENT);
    return p + (RLX_ALIGNMENT - (uintptr_t)p % RLX_ALIGNMENT) % RLX_ALIGNMENT;
}

static void fill_inputs(Job *j, uint32_t run, int64_t n)
{
    uint32_t i, k, seed = run * 7919u + 1u;
    for (i = 0; i < shared_model.n_inputs; i++) {
        const rlx_tensor *t = &shared_model.inputs[i];
        float *f = (float *)rlx_input(&j->ctx, i);
        if (t->dtype == RLX_I64)
            memcpy(f, &n, sizeof n);
        for (k = 0; t->dtype == RLX_F32 && k < t->bytes / 4; k++) {
            seed = seed * 1664525u + 1013904223u;
            f[k] = (float)(seed >> 8) / 16777216.0f - 0.5f;
        }
    }
}

static void keep(Job *j, const void *bytes, size_t n)
{
    memcpy(j->results + j->n_bytes, bytes, n);
    j->n_bytes += n;
}

static void run_once(Job *j, uint32_t run)
{
    uint32_t i;
    fill_inputs(j, run, 3);
    j->has_failed |= rlx_run(&j->ctx) != RLX_OK;
    for (i = 0; i < shared_model.n_outputs; i++)
        keep(j, rlx_output(&j->ctx, i), shared_model.outputs[i].bytes);
    fill_inputs(j, run, 4); // breaks the condition: the state stays
    j->has_failed |= rlx_run(&j->ctx) != RLX_ERR_VALUE;
}

static void *run_job(void *arg)
{
    Job *j = (Job *)arg;
    uint32_t run;
    const rlx_model *m = &shared_model;
    j->has_failed = rlx_init(&j->ctx, m, block(m->arena_bytes), m->arena_bytes, block(m->state_bytes),
                             m->state_bytes, NULL, 0) != RLX_OK;
    j->results = block(RUNS * MAX_BYTES);
    for (run = 0; run < RUNS && !j->has_failed; run++) {
        if (j->parts > 1 && run != 2) // run 2: without threads, after they have ended
            j->has_failed |= rlx_threads_start(&j->ctx, &j->pool, j->parts) != RLX_OK;
        run_once(j, run);
        if (run > 0)
            rlx_threads_stop(&j->ctx);
    }
    rlx_threads_stop(&j->ctx); // again: does nothing
    return NULL;
}

int main(int argc, char **argv)
{
    static Job job[3];
    pthread_t other;
    int i;
    job[0].parts = 1;
    job[1].parts = job[2].parts = argc == 2 ? (int)strtol(argv[1], NULL, 10) : 2;
    run_job(&job[0]);
    if (pthread_create(&other, NULL, run_job, &job[1]) != 0)
        return 1;
    run_job(&job[2]);
    pthread_join(other, NULL);
    for (i = 0; i < 3; i++)
        if (job[i].has_failed || job[i].n_bytes != job[0].n_bytes || job[i].n_bytes == 0 ||
            memcmp(job[i].results, job[0].results, job[0].n_bytes) != 0) {
            fprintf(stderr, "context %d, %d threads: other results than alone\n", i, job[i].parts);
            return 1;
        }
    if (shared_threads_start(&job[0].ctx, &job[0].pool) != RLX_OK || rlx_run(&job[0].ctx) == RLX_ERR_NULL)
        return 1;
    shared_threads_stop(&job[0].ctx);
    return 0;
}
