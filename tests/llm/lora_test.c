// SPDX-License-Identifier: Apache-2.0
// What sessions of a model with an adapter promise: each has a scale of its own, a saved session goes on in
// another one that has the same scale, and one that begins anew after a change is like one that always had
// the new scale. The model is m, with the parameter lora_one (check_lora.py makes it). Exit status 1, with
// the place, where something is not as it must be.
#include "session_need.h"

enum { N = 17, MORE = 9, SAVED = M_SESSION_BYTES + 1024 };

static RLX_ALIGNED unsigned char memory[3][M_SESSION_BYTES];
static rlx_session one, two, three;
static unsigned char saved[SAVED];
static int32_t list[N + MORE];

static void set_scale(rlx_session *s, float scale)
{
    NEED(rlx_set_param(&s->ctx, "lora_one", &scale, 1) == RLX_OK);
}

static void begin(rlx_session *s, void *block, float scale)
{
    open_on(s, block);
    set_scale(s, scale);
}

int main(void)
{
    make_tokens(list, N + MORE);
    begin(&one, memory[0], 1);
    begin(&two, memory[1], 0);
    NEED(m_feed(&one, list, N) >= 0 && m_feed(&two, list, N) >= 0);
    NEED(apart(m_logits(&one), m_logits(&two)) > 0.01); // each has its own

    // saved, and restored where the scale is the same
    const int64_t bytes = m_save(&one, saved, sizeof saved);
    NEED(bytes > 0);
    begin(&three, memory[2], 1);
    NEED(m_restore(&three, saved, (size_t)bytes) == 0);
    NEED(m_feed(&three, list + N, MORE) >= 0 && m_feed(&one, list + N, MORE) >= 0);
    NEED(same_logits(&one, &three));

    // where it is another one, the scale stays that of the session, and the rows those of the saved one
    begin(&three, memory[2], 0);
    NEED(m_restore(&three, saved, (size_t)bytes) == 0 && m_feed(&three, list + N, MORE) >= 0);
    NEED(m_feed(&two, list + N, MORE) >= 0);
    NEED(apart(m_logits(&three), m_logits(&one)) > 0.01 && apart(m_logits(&three), m_logits(&two)) > 0.01);

    // a fork has the scale that was set for it
    NEED(m_rewind(&one, 0) >= 0 && m_feed(&one, list, N) >= 0);
    begin(&three, memory[2], 1);
    NEED(m_fork(&three, &one) >= 0 && m_feed(&three, list + N, MORE) >= 0);
    NEED(m_feed(&one, list + N, MORE) >= 0 && same_logits(&one, &three));

    // begun anew after a change
    set_scale(&one, 0);
    NEED(m_rewind(&one, 0) >= 0 && m_feed(&one, list, N) >= 0 && m_feed(&one, list + N, MORE) >= 0);
    NEED(same_logits(&one, &two));
    m_close(&one);
    m_close(&two);
    m_close(&three);
    return 0;
}
