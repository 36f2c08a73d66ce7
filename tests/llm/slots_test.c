// SPDX-License-Identifier: Apache-2.0
// Runs a language model with slots as a script on standard input says, and prints the logits of the wanted
// tokens after each run as bits. A line "run T W", then T of "token slot position row", then W numbers of
// tokens; "pages" and the table of all slots. llm_model.h (check_slots.py writes it) brings the model. Caches
// begin with large numbers: what was not written, or is not a slot's own, must not count.
#include "llm_model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rlx_ctx ctx;
static RLX_ALIGNED unsigned char arena[M_ARENA_BYTES], state[M_STATE_BYTES];
static int32_t pages[SLOTS * PAGES];

static void need(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static int64_t number(void)
{
    long long v = 0;
    need(scanf("%lld", &v) == 1, "a number is missing");
    return v;
}

static void run(void)
{
    const int64_t n = number(), n_wanted = number();
    need(m_set_symbol(&ctx, M_SYM_T, n) == RLX_OK, "T");
    int64_t *tokens = (int64_t *)rlx_input(&ctx, M_INPUT_tokens);
    int64_t *slots = (int64_t *)rlx_input(&ctx, M_INPUT_slot);
    int64_t *positions = (int64_t *)rlx_input(&ctx, M_INPUT_position);
    int64_t *rows = (int64_t *)rlx_input(&ctx, M_INPUT_row);
    int64_t *wanted = (int64_t *)rlx_input(&ctx, M_INPUT_wanted);
    memcpy(rlx_input(&ctx, M_INPUT_pages), pages, sizeof pages);
    for (int64_t i = 0; i < n; i++) {
        tokens[i] = number();
        slots[i] = number();
        positions[i] = number();
        rows[i] = number();
    }
    for (int64_t i = 0; i < SLOTS; i++)
        wanted[i] = i < n_wanted ? number() : 0;
    need(rlx_run(&ctx) == RLX_OK, "rlx_run");
    const float *logits = (const float *)rlx_output(&ctx, 0);
    for (int64_t i = 0; i < n_wanted * VOCAB; i++) {
        uint32_t bits;
        memcpy(&bits, logits + i, sizeof bits);
        printf("%08x%c", (unsigned)bits, (i + 1) % VOCAB == 0 ? '\n' : ' ');
    }
}

int main(void)
{
    char word[8];
    need(rlx_init(&ctx, &m_model, arena, sizeof arena, state, sizeof state, NULL, 0) == RLX_OK, "rlx_init");
    for (uint32_t i = 0; i < m_model.n_states; i++)
        memset(state + m_model.states[i].offset, 0xff, m_model.states[i].bytes);
    while (scanf("%7s", word) == 1)
        if (strcmp(word, "run") == 0)
            run();
        else
            for (int i = 0; i < SLOTS * PAGES; i++)
                pages[i] = (int32_t)number();
    return 0;
}
