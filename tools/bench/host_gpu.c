// SPDX-License-Identifier: Apache-2.0
// What a run costs the host (tools/bench/host_gpu): the time in rlx_commit, from its begin to the end of
// rlx_sync, of rlx_run, and of a run in a row of pipelined ones. Medians, in microseconds.
#define _POSIX_C_SOURCE 200112L
#include "m.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RUNS = 500, ROW = 16, WARM = 50 };

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

int main(int argc, char **argv)
{
    static double commit[RUNS], sync[RUNS], run[RUNS], row[RUNS / ROW];
    rlx_ctx ctx;
    const void *inputs[ROW * 16];
    void *snapshots = block(ROW * M_SNAPSHOT_BYTES), *arena = block(M_ARENA_BYTES);
    const rlx_status status =
        rlx_init(&ctx, &m_model, arena, M_ARENA_BYTES, block(M_STATE_BYTES), M_STATE_BYTES, NULL, 0);
    int i;
    if (status != RLX_OK || m_model.n_inputs > 16) {
        printf("%s\n", rlx_status_text(status));
        return 1;
    }
    for (i = 0; i < ROW * (int)m_model.n_inputs; i++)
        inputs[i] = block(m_model.inputs[i % (int)m_model.n_inputs].bytes);
    for (i = -WARM; i < RUNS; i++) {
        const double begin = now();
        if (rlx_commit(&ctx) != RLX_OK)
            return 1;
        const double committed = now();
        if (rlx_sync(&ctx) != RLX_OK)
            return 1;
        const double synced = now();
        if (rlx_run(&ctx) != RLX_OK)
            return 1;
        const double end = now();
        if (i >= 0) {
            commit[i] = committed - begin;
            sync[i] = synced - begin;
            run[i] = end - synced;
        }
    }
    for (i = -1; i < RUNS / ROW; i++) {
        const double begin = now();
        if (rlx_run_pipelined(&ctx, inputs, ROW, snapshots, ROW * M_SNAPSHOT_BYTES, NULL) != RLX_OK)
            return 1;
        if (i >= 0)
            row[i] = (now() - begin) / ROW;
    }
    printf("%-40s %3u kernels: commit %6.2f, with sync %7.2f, run %7.2f, pipelined %7.2f us\n",
           argc > 1 ? argv[1] : "", m_model.n_kernels, median(commit, RUNS), median(sync, RUNS),
           median(run, RUNS), median(row, RUNS / ROW));
    rlx_close(&ctx);
    return 0;
}
