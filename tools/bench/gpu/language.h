// SPDX-License-Identifier: Apache-2.0
// What programs that time a generated language model share: session.c, slots.c. Behind "m.c".
#ifndef BENCH_GPU_LANGUAGE_H
#define BENCH_GPU_LANGUAGE_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

// run_status: of the session, for what it says of a failed run.
static void need_status(int64_t status, const char *what, rlx_status run_status)
{
    if (status >= 0)
        return;
    fprintf(stderr, "%s: %s (%d)\n", what, rlx_session_text(status), (int)run_status);
    exit(1);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static const void *map(const char *path, size_t *n)
{
    struct stat st;
    const int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &st) != 0)
        exit(1);
    *n = (size_t)st.st_size;
    return mmap(NULL, *n, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
}

#endif
