// SPDX-License-Identifier: Apache-2.0
// What a run costs the host (tools/bench/host_gpu): the time in rlx_commit, from its begin to the end of
// rlx_sync, in the second rlx_commit before rlx_sync, of rlx_run, and of runs in a row, committed and
// pipelined. Medians, in microseconds.
#define _POSIX_C_SOURCE 200112L
#include "m.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RUNS = 500, ROW = 16, WARM = 50, MAX_INPUTS = 16 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *list, int n)
{
    qsort(list, (size_t)n, sizeof *list, by_size);
    return list[n / 2];
}

static void *block(size_t n)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, n + 64) != 0)
        exit(1);
    memset(p, 0, n + 64);
    return p;
}

static double commit[RUNS], sync_end[RUNS], second[RUNS], run[RUNS], queued[RUNS / ROW], row[RUNS / ROW];

static void check(rlx_status status)
{
    if (status == RLX_OK)
        return;
    printf("%s\n", rlx_status_text(status));
    exit(1);
}

static void measure_commits(rlx_ctx *ctx)
{
    int i, j;
    for (i = -WARM; i < RUNS; i++) {
        const double begin = now();
        check(rlx_commit(ctx));
        const double committed = now();
        check(rlx_sync(ctx));
        if (i >= 0) {
            commit[i] = committed - begin;
            sync_end[i] = now() - begin;
        }
    }
    for (i = -WARM; i < RUNS; i++) {
        check(rlx_commit(ctx));
        const double begin = now();
        check(rlx_commit(ctx));
        if (i >= 0)
            second[i] = now() - begin;
        check(rlx_sync(ctx));
    }
    for (i = -1; i < RUNS / ROW; i++) {
        const double begin = now();
        for (j = 0; j < ROW; j++)
            check(rlx_commit(ctx));
        check(rlx_sync(ctx));
        if (i >= 0)
            queued[i] = (now() - begin) / ROW;
    }
}

static void measure_runs(rlx_ctx *ctx)
{
    static const void *inputs[ROW * MAX_INPUTS];
    void *snapshots = block(ROW * M_SNAPSHOT_BYTES);
    int i;
    for (i = -WARM; i < RUNS; i++) {
        const double begin = now();
        check(rlx_run(ctx));
        if (i >= 0)
            run[i] = now() - begin;
    }
    for (i = 0; i < ROW * (int)m_model.n_inputs; i++)
        inputs[i] = block(m_model.inputs[i % (int)m_model.n_inputs].bytes);
    for (i = -1; i < RUNS / ROW; i++) {
        const double begin = now();
        check(rlx_run_pipelined(ctx, inputs, ROW, snapshots, ROW * M_SNAPSHOT_BYTES, NULL));
        if (i >= 0)
            row[i] = (now() - begin) / ROW;
    }
}

int main(int argc, char **argv)
{
    rlx_ctx ctx;
    if (m_model.n_inputs > MAX_INPUTS)
        return 1;
    check(rlx_init(&ctx, &m_model, block(M_ARENA_BYTES), M_ARENA_BYTES, block(M_STATE_BYTES), M_STATE_BYTES,
                   NULL, 0));
    measure_commits(&ctx);
    measure_runs(&ctx);
    printf("%-40s %3u kernels: commit %6.2f, with sync %7.2f, the second %6.2f, in a row %7.2f; run %7.2f, "
           "pipelined %7.2f us\n",
           argc > 1 ? argv[1] : "", m_model.n_kernels, median(commit, RUNS), median(sync_end, RUNS),
           median(second, RUNS), median(queued, RUNS / ROW), median(run, RUNS), median(row, RUNS / ROW));
    rlx_close(&ctx);
    return 0;
}
