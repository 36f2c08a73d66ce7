// SPDX-License-Identifier: Apache-2.0
// What a session of a generated language model on an NVIDIA GPU takes: session WEIGHTS N..., for
// contexts of N tokens; prints lines of "what number". The model is m (tools/bench/gpu_session).
#include "m.c" // also for what is no call of programs
#include "language.h"

enum { ROUNDS = 40, LAUNCHES = 40, PREFILLS = 4 };

static rlx_session s;
static int32_t list[M_CONTEXT];
static double ms[ROUNDS];

static void need(int64_t status, const char *what)
{
    need_status(status, what, s.run_status);
}

static void show(const char *what, int context, int n)
{
    qsort(ms, (size_t)n, sizeof *ms, compare);
    printf("%s %d median %.4f best %.4f\n", what, context, ms[n / 2], ms[0]);
    fflush(stdout);
}

// A session of n tokens, with their logits.
static void fill(int n)
{
    need(m_rewind(&s, 0), "rewind");
    need(m_feed(&s, list, (size_t)n), "feed");
}

static void time_prefill(int n)
{
    for (int i = 0; i < PREFILLS; i++) {
        const double begin = now_ms();
        fill(n);
        ms[i] = now_ms() - begin;
    }
    show("prefill", n, PREFILLS);
}

// Tokens that are chosen and run. A token that ends texts is not added: another one comes in its place.
static void time_next(const char *what, int n, rlx_sampling *sampling)
{
    fill(n);
    need(m_next(&s, NULL) == RLX_END_TOKEN ? m_feed(&s, list, 1) : 0, "next");
    for (int i = 0; i < ROUNDS; i++) {
        const double begin = now_ms();
        const int32_t token = m_next(&s, sampling);
        need(token == RLX_END_TOKEN ? m_feed(&s, list, 1) : token, "next");
        ms[i] = now_ms() - begin;
    }
    show(what, n, ROUNDS);
}

// The same without choosing.
static void time_feed(int n)
{
    fill(n);
    for (int i = 0; i < ROUNDS; i++) {
        const double begin = now_ms();
        need(m_feed(&s, list + i, 1), "feed");
        ms[i] = now_ms() - begin;
    }
    show("feed", n, ROUNDS);
}

// What the device needs: the graph of the last token, again and again.
static void time_graph(int n)
{
#ifdef RLX_CUDA_H
    rlx_cuda *const c = rlx_cuda_of(&s.ctx);
    void *before;
    fill(n);
    need(m_feed(&s, list, 1), "feed");
    if (c->launched == NULL || c->api.push(c->context) != 0)
        return;
    for (int i = 0; i < 5; i++) {
        const double begin = now_ms();
        for (int k = 0; k < LAUNCHES; k++)
            need(c->api.graph_launch(c->launched->exec, c->stream) == 0 ? 0 : RLX_SESSION_MODEL, "launch");
        need(c->api.stream_wait(c->stream) == 0 ? 0 : RLX_SESSION_MODEL, "wait");
        ms[i] = (now_ms() - begin) / LAUNCHES;
    }
    c->api.pop(&before);
    show("graph", n, 5);
#else
    (void)n;
#endif
}

#ifdef RLX_PROFILE_H
#include "profile.h"

static void time_kernels(int n)
{
    if (!s.ctx.model->has_profile)
        return;
    fill(n);
    need(m_feed(&s, list, 1), "feed");
    for (int is_prompt = 0; is_prompt < 2; is_prompt++) {
        begin_profile(&s.ctx);
        for (int i = 0; i < PROFILED; i++) {
            if (is_prompt)
                need(m_rewind(&s, n > M_MOST_ROWS ? n - M_MOST_ROWS : 0), "rewind");
            need(m_feed(&s, list, is_prompt ? M_MOST_ROWS : 1), "feed");
        }
        show_profile(&s.ctx, is_prompt ? "us_prompt" : "us_token", n);
        end_profile(&s.ctx);
        need(m_rewind(&s, n > M_MOST_ROWS ? n - M_MOST_ROWS : 0), "rewind");
        need(m_feed(&s, list, M_MOST_ROWS), "feed"); // the variant of prompts
    }
}
#endif

static void time_choice(void)
{
    rlx_sampling drawn = rlx_sampling_start(1);
    for (int i = 0; i < ROUNDS; i++) {
        const double begin = now_ms();
        need(rlx_session_choose(&s, NULL), "choice");
        ms[i] = now_ms() - begin;
    }
    show("greedy", 0, ROUNDS);
    for (int i = 0; i < ROUNDS; i++) {
        const double begin = now_ms();
        need(rlx_session_choose(&s, &drawn), "choice");
        ms[i] = now_ms() - begin;
    }
    show("drawn", 0, ROUNDS);
}

static void time_save(int n)
{
    fill(n);
    const int64_t bytes = m_save(&s, NULL, 0);
    void *saved = malloc((size_t)bytes);
    double begin = now_ms();
    need(saved == NULL ? RLX_SESSION_NULL : m_save(&s, saved, (size_t)bytes), "save");
    printf("save %d median %.3f best %.1f\n", n, now_ms() - begin, (double)bytes / 1e6);
    begin = now_ms();
    need(m_restore(&s, saved, (size_t)bytes), "restore");
    printf("restore %d median %.3f best %.1f\n", n, now_ms() - begin, (double)bytes / 1e6);
    free(saved);
}

int main(int n_args, char **args)
{
    size_t n_mapped = 0;
    const void *mapped = n_args > 2 ? map(args[1], &n_mapped) : NULL;
    void *memory = aligned_alloc(RLX_ALIGNMENT, (M_SESSION_BYTES + 4095) / 4096 * 4096);
    for (int i = 0; i < M_CONTEXT; i++)
        list[i] = (int32_t)(((int64_t)7919 * i + 300) % M_TOKENS);
    const double begin = now_ms();
    need(m_open(&s, memory, M_SESSION_BYTES, mapped, n_mapped), "open");
    printf("open 0 median %.1f best 0\n", now_ms() - begin);
    for (int i = 2; i < n_args; i++) {
        const int n = (int)strtol(args[i], NULL, 10);
        rlx_sampling drawn = rlx_sampling_start(1);
        time_prefill(n);
        time_next("next", n, NULL);
        time_feed(n);
        time_graph(n);
        time_next("next_drawn", n, &drawn); // later runs may find the best tokens, too
#ifdef RLX_PROFILE_H
        time_kernels(n);
#endif
    }
    time_choice();
    time_save(512 < M_CONTEXT ? 512 : M_CONTEXT / 2);
    m_close(&s);
    return 0;
}
