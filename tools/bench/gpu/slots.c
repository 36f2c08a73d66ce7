// SPDX-License-Identifier: Apache-2.0
// What a round of tokens takes, one for each sequence of a generated language model with slots: slots WEIGHTS
// LENGTHS, where LENGTHS are the tokens that the sequences begin with, with commas. Prints lines of "what
// number". The model is m (tools/bench/gpu_slots).
#include "m.c"
#include "language.h"

enum { ROUNDS = 24, WARM = 4 };

static m_slots all;
static int32_t list[M_CONTEXT];
static double ms[ROUNDS];

static void need(int64_t status, const char *what)
{
    need_status(status, what, all.all.run_status);
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
    size_t n_mapped = 0;
    if (argc != 3)
        return 2;
    const void *mapped = map(argv[1], &n_mapped);
    for (int i = 0; i < M_CONTEXT; i++)
        list[i] = (int32_t)(((int64_t)7919 * i + 300) % M_TOKENS);
    need(m_open(&all, memory, sizeof memory, mapped, n_mapped), "open");
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
