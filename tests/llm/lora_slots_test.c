// SPDX-License-Identifier: Apache-2.0
// What slots of a model with an adapter promise: each has a scale of its own, and is what it would be if all
// had that scale. The model is m, with the parameter lora_one (check_lora.py makes it). Exit status 1, with
// the place, where something is not as it must be.
#include "session_need.h"

#define ALLOWED 4e-6 // sums are added up in another order where runs are cut elsewhere

enum { N = 17, MORE = 5 };

static RLX_ALIGNED unsigned char memory[2][M_SESSION_BYTES];
static m_slots all, same;
static int32_t list[N + MORE];

static void set_scales(m_slots *slots, const float *scale)
{
    NEED(rlx_set_param(&slots->all.ctx, "lora_one", scale, M_SLOTS) == RLX_OK);
}

// Tokens of all slots: a text of another length in each, then one token after the other.
static void feed(m_slots *slots, int step)
{
    for (int i = 0; i < M_SLOTS; i++) {
        const int from = step == 0 ? 0 : N - i + step - 1, n = step == 0 ? N - i : 1;
        NEED(m_feed(&slots->slot[i], list + from, (size_t)n) >= 0);
    }
}

int main(void)
{
    float scale[M_SLOTS];
    make_tokens(list, N + MORE);
    for (int k = 0; k < 2; k++)
        NEED(m_open(k == 0 ? &all : &same, memory[k], M_SESSION_BYTES, NULL, 0) == 0);
    for (int i = 0; i < M_SLOTS; i++)
        scale[i] = (float)i - 0.5f;
    set_scales(&all, scale);
    for (int one = 0; one < M_SLOTS; one++) {
        float equal[M_SLOTS];
        for (int i = 0; i < M_SLOTS; i++) {
            equal[i] = scale[one];
            NEED(m_rewind(&all.slot[i], 0) == 0 && m_rewind(&same.slot[i], 0) == 0);
        }
        set_scales(&same, equal);
        for (int step = 0; step < MORE; step++) {
            feed(&all, step);
            feed(&same, step);
            NEED(apart(m_logits(&all.slot[one]), m_logits(&same.slot[one])) <= ALLOWED);
            for (int i = 0; i < M_SLOTS; i++) // the others have other scales
                NEED(i == one || apart(m_logits(&all.slot[i]), m_logits(&same.slot[i])) > 0.01);
        }
    }
    return 0;
}
