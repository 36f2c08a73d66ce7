// SPDX-License-Identifier: Apache-2.0
// What programs about sessions of a model m have in common. They end with status 1, and with the place, where
// something is not as it must be.
#ifndef TESTS_LLM_SESSION_NEED_H
#define TESTS_LLM_SESSION_NEED_H

#include "m.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEED(ok) need((ok) != 0, #ok, __LINE__)

static inline void need(int ok, const char *what, int line)
{
    if (ok)
        return;
    fprintf(stderr, "line %d: %s\n", line, what);
    exit(1);
}

// 1: what is open already begins anew instead of being opened again, which takes a second on a device that
// compiles kernels as a model is opened.
#ifndef OPEN_ONCE
#define OPEN_ONCE 0
#endif

#ifndef M_SLOTS // which open otherwise
static inline void open_on(rlx_session *s, void *block)
{
    if (OPEN_ONCE && s->kind != NULL) {
        NEED(m_rewind(s, 0) == 0);
        return;
    }
    memset(block, 0xff, M_SESSION_BYTES); // NaN, where anything is read that nobody wrote
    NEED(m_open(s, block, M_SESSION_BYTES, NULL, 0) == 0);
}
#endif

// Fills a list with tokens.
static inline void make_tokens(int32_t *list, int n)
{
    for (int i = 0; i < n; i++)
        list[i] = (7 * i * i + 3 * i + 1) % M_TOKENS;
}

static inline int same_logits(rlx_session *a, rlx_session *b)
{
    const float *x = m_logits(a), *y = m_logits(b);
    return x != NULL && y != NULL && memcmp(x, y, M_LOGITS * sizeof *x) == 0;
}

// How far two rows of logits are apart, relative to their norm.
static inline double apart(const float *x, const float *y)
{
    double sum = 0, all = 0;
    NEED(x != NULL && y != NULL);
    for (unsigned i = 0; i < M_LOGITS; i++) {
        sum += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        all += (double)x[i] * x[i];
    }
    return sqrt(sum / all);
}

#endif
