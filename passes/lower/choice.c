// SPDX-License-Identifier: Apache-2.0
// Picks a candidate and notes the choice in the plan; see choice.h.
#include "passes/lower/choice.h"
#include <string.h>

static const char *tuned_answer(const PassOptions *o, const char *question)
{
    for (uint32_t i = 0; i < o->n_tuned; i++)
        if (!strcmp(o->tuned[i].question, question))
            return o->tuned[i].answer;
    return NULL;
}

// Indices by estimate; equal ones stay in their order.
static uint32_t *by_estimate(Arena *a, const Candidate *list, uint32_t n)
{
    uint32_t *order = ARENA_ARRAY(a, uint32_t, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i;
        for (; at > 0 && list[order[at - 1]].cycles > list[i].cycles; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return order;
}

// The first word of the question says what is chosen.
static void note_schedule(Lower *l, const PlanChoice *c)
{
    const char *old = l->pk->schedule;
    const int what = (int)strcspn(c->question, " ");
    const char *own = arena_printf(l->pass->perm, "%.*s %s", what, c->question, c->answer);
    if (old == NULL || strstr(old, own) == NULL)
        l->pk->schedule = old == NULL ? own : arena_printf(l->pass->perm, "%s, %s", old, own);
}

uint32_t choice_pick(Lower *l, const char *question, const Candidate *list, uint32_t n)
{
    rlx_assert(n >= 1 && question != NULL);
    rlx_assert(strchr(question, '\n') == NULL);
    const char *answer = tuned_answer(l->pass->options, question);
    const uint32_t *order = by_estimate(l->pass->perm, list, n);
    uint32_t pick = order[0];
    Str others = str_new(l->pass->perm);
    for (uint32_t i = 0; i < n; i++) {
        const Candidate *c = &list[order[i]];
        rlx_assert(c->cycles >= 0 && strchr(c->name, ' ') == NULL);
        str_printf(&others, "%s%s", i == 0 ? "" : " ", c->name);
        if (answer != NULL && !strcmp(c->name, answer))
            pick = order[i];
    }
    const PlanChoice made = {question, list[pick].name, str_text(&others), l->index};
    vec_push(l->plan->arena, &l->plan->choices, made);
    note_schedule(l, &made);
    return pick;
}
