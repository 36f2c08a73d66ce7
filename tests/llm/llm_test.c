// SPDX-License-Identifier: Apache-2.0
// Feeds the tokens of standard input to a language model, in runs of the lengths that the arguments say, and
// prints an output after each run as bits, a row to a line: the logits, or what OUTPUT says. A negative
// length takes tokens back, which come again then; NAME=VALUE sets a parameter. llm_model.h (built.py writes
// it) brings the model. Caches begin with bytes FILL, 0xff for NaN: what was not written must not count.
#include "llm_model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 4096 };

static rlx_ctx ctx;

static void need(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void *aligned(size_t bytes)
{
    void *p = NULL;
    return posix_memalign(&p, RLX_ALIGNMENT, bytes != 0 ? bytes : RLX_ALIGNMENT) == 0 ? p : NULL;
}

static void start(const rlx_model *model)
{
    void *arena = aligned(model->arena_bytes), *state = aligned(model->state_bytes);
    need(arena != NULL && state != NULL, "no memory");
    need(rlx_init(&ctx, model, arena, model->arena_bytes, state, model->state_bytes, model->weights,
                  model->weight_bytes) == RLX_OK,
         "rlx_init");
    for (uint32_t i = 0; i < model->n_states; i++) {
        const rlx_tensor *t = &model->states[i];
        void *fill = malloc(t->bytes);
        need(fill != NULL, "no memory");
        memset(fill, FILL, t->bytes);
        need(rlx_write_state(&ctx, t->name, fill, t->bytes) == RLX_OK, "rlx_write_state");
        free(fill);
    }
}

static void set_length(const char *symbol, int64_t length)
{
    const int slot = rlx_find_symbol(ctx.model, symbol);
    need(slot >= 0 && rlx_set_symbol(&ctx, (uint32_t)slot, length) == RLX_OK, symbol);
}

// NAME=VALUE
static void set_param(char *given)
{
#ifdef HAS_PARAMETERS // the code of other models has no rlx_set_param
    char *mark = strchr(given, '=');
    const float value = strtof(mark + 1, NULL);
    *mark = '\0';
    need(rlx_set_param(&ctx, given, &value, 1) == RLX_OK, given);
#else
    need(0, given);
#endif
}

static void step(const int64_t *token, int64_t past, int64_t n)
{
    set_length("T", n);
    set_length("P", past);
    memcpy(rlx_input(&ctx, 0), token + past, (size_t)n * sizeof *token);
    need(rlx_run(&ctx) == RLX_OK, "rlx_run");
    const float *values = (const float *)rlx_output(&ctx, OUTPUT);
    const size_t count = rlx_output_bytes(&ctx, OUTPUT) / sizeof *values;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        printf("%08x%c", (unsigned)bits, (i + 1) % COLUMNS == 0 ? '\n' : ' ');
    }
}

int main(int argc, char **argv)
{
    static int64_t token[MAX_TOKENS];
    int64_t n = 0, past = 0;
    long long v = 0;
    while (n < MAX_TOKENS && scanf("%lld", &v) == 1)
        token[n++] = v;
    start(&MODEL);
    for (int i = 1; i < argc; i++) {
        if (strchr(argv[i], '=') != NULL) {
            set_param(argv[i]);
            continue;
        }
        const int64_t length = atoll(argv[i]);
        need(past + length >= 0 && past + length <= n, "so many tokens");
        if (length > 0)
            step(token, past, length);
        past += length;
    }
    return 0;
}
