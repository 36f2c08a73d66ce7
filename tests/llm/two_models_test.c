// SPDX-License-Identifier: Apache-2.0
// Drafts of a second model (check_drafts.py makes the models m and k of one vocabulary): the text is that of
// m alone, in fewer runs. This is the loop of docs/LLM.md.
#include "session_need.h"

#include "k.h"

enum { N = 6, MORE = 40 };

static RLX_ALIGNED unsigned char memory[2][M_SESSION_BYTES], draft_memory[K_SESSION_BYTES];
static rlx_session s, plain, draft;

// Returns a status.
static int64_t guess(void)
{
    int32_t tokens[M_DRAFTS + 1];
    size_t n = 0;
    const int64_t same = k_reuse(&draft, s.tokens, (size_t)s.n_tokens);
    int64_t status = k_feed(&draft, s.tokens + same, (size_t)(s.n_tokens - same));
    for (int32_t token = 0; status == 0 && n <= M_DRAFTS && token >= 0;)
        if ((token = k_next(&draft, NULL)) >= 0)
            tokens[n++] = token;
    return status < 0 ? status : m_draft(&s, tokens, n);
}

int main(void)
{
    int32_t prompt[N];
    int runs = 0;
    make_tokens(prompt, N);
    NEED(m_open(&s, memory[0], M_SESSION_BYTES, NULL, 0) == 0);
    NEED(m_open(&plain, memory[1], M_SESSION_BYTES, NULL, 0) == 0);
    NEED(k_open(&draft, draft_memory, sizeof draft_memory, NULL, 0) == 0);
    NEED(m_feed(&s, prompt, N) == 0 && m_feed(&plain, prompt, N) == 0);
    for (int i = 0; i < MORE; i++) {
        NEED(s.n_drafts != 0 || guess() >= 0);
        runs += !s.has_logits;
        const int32_t token = m_next(&s, NULL);
        NEED(token >= 0 && token == m_next(&plain, NULL));
    }
    printf("%d\n", runs);
    return 0;
}
