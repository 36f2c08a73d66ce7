// SPDX-License-Identifier: Apache-2.0
// Continues a text: write TEXT [TOKENS [TEMPERATURE [SEED]]]. The model, its vocabulary and sessions are a
// part of the program (model.c, which rlxc generates from one GGUF file), and nothing is allocated. The
// continuation goes to standard output, and how fast it came to standard error.
#include "model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static RLX_ALIGNED unsigned char memory[MODEL_SESSION_BYTES];
static rlx_session session;

static int fail(const char *what, int64_t status)
{
    fprintf(stderr, "write: %s: %s\n", what, rlx_session_text(status));
    return 1;
}

static double seconds(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// Up to `most` tokens, as they come. Returns how many, or what went wrong.
static int64_t write_on(rlx_sampling *sampling, long most)
{
    int32_t token = 0;
    int64_t n = 0;
    while (n < most && token >= 0) {
        token = model_next(&session, sampling);
        fwrite(session.text, 1, session.n_text, stdout);
        fflush(stdout);
        n += token >= 0;
    }
    putchar('\n');
    return token >= 0 || token >= RLX_END_CONTEXT ? n : token;
}

int main(int argc, char **argv)
{
    const char *text = argc > 1 ? argv[1] : "";
    const long most = argc > 2 ? strtol(argv[2], NULL, 10) : 100;
    rlx_sampling sampling = rlx_sampling_start(argc > 4 ? strtoull(argv[4], NULL, 10) : 1);
    if (argc > 3)
        sampling.temperature = strtof(argv[3], NULL);
    int64_t n = model_open(&session, memory, sizeof memory, NULL, 0);
    if (n < 0)
        return fail("model", n);
    n = model_feed_text(&session, text, strlen(text), RLX_TOKENS_FRAME);
    if (n < 0)
        return fail("TEXT", n);
    const double begin = seconds();
    n = write_on(&sampling, most);
    if (n < 0)
        return fail("model", n);
    fprintf(stderr, "%lld tokens, %.0f a second\n", (long long)n, (double)n / (seconds() - begin));
    return 0;
}
