// SPDX-License-Identifier: Apache-2.0
// What a round of tokens takes, one for each sequence of a generated language model with slots: slots WEIGHTS
// LENGTHS, where LENGTHS are the tokens that the sequences begin with, with commas. Prints lines of "what
// number". The model is m (tools/bench/gpu_slots).
#include "m.c"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 24, WARM = 4 };

static m_slots all;
static int32_t list[M_CONTEXT];
static double ms[ROUNDS];

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void need(int64_t status, const char *what)
{
    if (status >= 0)
        return;
    fprintf(stderr, "%s: %s (%d)\n", what, rlx_session_text(status), (int)all.all.run_status);
    exit(1);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// A token of each sequence. One that ends texts is not added: another one comes in its place.
static void round_of_tokens(void)
{
    for (uint32_t i = 0; i < M_SLOTS; i++) {
        int32_t token;
        while ((token = m_next(&all.slot[i], NULL)) == RLX_SESSION_WAIT)
            ;
        need(token == RLX_END_TOKEN ? m_feed(&all.slot[i], list + i, 1) : token, "next");
    }
}

#ifdef RLX_PROFILE_H
#include "profile.h"

static void profile_rounds(void)
{
    if (!all.all.ctx.model->has_profile)
        return;
    begin_profile(&all.all.ctx);
    for (int i = 0; i < PROFILED; i++)
        round_of_tokens();
    show_profile(&all.all.ctx, "us_round", M_SLOTS);
    end_profile(&all.all.ctx);
}
#endif

int main(int argc, char **argv)
{
    static RLX_ALIGNED unsigned char memory[M_SESSION_BYTES];
    struct stat file;
    const int fd = argc == 3 ? open(argv[1], O_RDONLY) : -1;
    if (fd < 0 || fstat(fd, &file) != 0)
        return 2;
    const void *weights = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    for (int i = 0; i < M_CONTEXT; i++)
        list[i] = 300 + i * 7919 % 700;
    need(m_open(&all, memory, sizeof memory, weights, (size_t)file.st_size), "open");
    double begin = now_ms();
    char *at = argv[2];
    for (uint32_t i = 0; i < M_SLOTS; i++, at += *at == ',')
        need(m_feed(&all.slot[i], list + i, (size_t)strtol(at, &at, 10)), "feed");
    round_of_tokens();
    printf("prompts %.3f\n", now_ms() - begin);
    for (int i = -WARM; i < ROUNDS; i++) {
        begin = now_ms();
        round_of_tokens();
        if (i >= 0)
            ms[i] = now_ms() - begin;
    }
    qsort(ms, ROUNDS, sizeof *ms, compare);
    printf("round %.4f\nbest %.4f\n", ms[ROUNDS / 2], ms[0]);
#ifdef RLX_PROFILE_H
    profile_rounds();
#endif
    return 0;
}
