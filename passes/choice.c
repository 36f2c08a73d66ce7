// SPDX-License-Identifier: Apache-2.0
// Picks a candidate and notes the choice in the plan; see choice.h.
#include "passes/choice.h"
#include <string.h>

static const char *tuned_answer(const PassOptions *o, const char *question)
{
    for (uint32_t i = 0; i < o->n_tuned; i++)
        if (!strcmp(o->tuned[i].question, question))
            return o->tuned[i].answer;
    return NULL;
}

static uint32_t cheapest(const Candidate *list, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (list[i].cycles < list[best].cycles)
            best = i;
    return best;
}

uint32_t choice_pick(Lower *l, const char *question, const Candidate *list, uint32_t n)
{
    const char *answer = tuned_answer(l->pass->options, question);
    uint32_t pick = cheapest(list, n);
    Str others = str_new(l->pass->perm);
    for (uint32_t i = 0; i < n; i++) {
        str_printf(&others, "%s%s", i == 0 ? "" : " ", list[i].name);
        if (answer != NULL && !strcmp(list[i].name, answer))
            pick = i;
    }
    const PlanChoice made = {question, list[pick].name, str_text(&others), l->index};
    vec_push(l->plan->arena, &l->plan->choices, made);
    return pick;
}
