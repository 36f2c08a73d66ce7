// SPDX-License-Identifier: Apache-2.0
// Which rules can be empty, and which have a text that ends: what a walk from the begin of each rule reaches.
// A call is passed once its rule is known to have the property, so that all takes linear time.
#include "compiler/grammar/grammar.h"

typedef struct Waiting { // a call that was reached before its rule had the property
    uint32_t to, owner, next;
} Waiting;

typedef struct Walk {
    const Net *net;
    bool follows_bytes;
    bool *has;       // by rule
    uint32_t *owner; // by state: the rule to which it belongs, plus 1, once it was reached
    uint32_t *first; // by rule: its first waiting call
    VEC(Waiting) waiting;
    VEC(uint32_t) reached; // states to go on from
} Walk;

static void reach(Walk *w, uint32_t state, uint32_t owner)
{
    if (w->owner[state] != 0)
        return;
    w->owner[state] = owner + 1;
    vec_push(w->net->arena, &w->reached, state);
}

static void set(Walk *w, uint32_t rule)
{
    if (w->has[rule])
        return;
    w->has[rule] = true;
    for (uint32_t i = w->first[rule]; i != NET_NONE; i = w->waiting.data[i].next)
        reach(w, w->waiting.data[i].to, w->waiting.data[i].owner);
}

static void follow(Walk *w, uint32_t state)
{
    const Net *n = w->net;
    const uint32_t owner = w->owner[state] - 1;
    rlx_assert(owner < n->rules.len); // states are reached from their rule
    if (state == n->rules.data[owner].end)
        set(w, owner);
    for (uint32_t i = n->first.data[state]; i != NET_NONE; i = n->edges.data[i].next) {
        const NetEdge *e = &n->edges.data[i];
        if (e->kind == NET_EMPTY || (e->kind == NET_BYTES && w->follows_bytes) ||
            (e->kind == NET_CALL && w->has[e->rule])) {
            reach(w, e->to, owner);
        } else if (e->kind == NET_CALL) {
            vec_push(n->arena, &w->waiting, ((Waiting){e->to, owner, w->first[e->rule]}));
            w->first[e->rule] = w->waiting.len - 1;
        }
    }
}

bool *grammar_rules(const Net *n, RulesHave what)
{
    Walk w = {.net = n, .follows_bytes = what == RULES_END};
    w.has = ARENA_ARRAY(n->arena, bool, n->rules.len);
    w.owner = ARENA_ARRAY(n->arena, uint32_t, n->first.len);
    w.first = ARENA_ARRAY(n->arena, uint32_t, n->rules.len);
    for (uint32_t i = 0; i < n->rules.len; i++)
        w.first[i] = NET_NONE;
    for (uint32_t i = 0; i < n->rules.len; i++) {
        rlx_assert(n->rules.data[i].begin != NET_NONE && w.owner[n->rules.data[i].begin] == 0);
        reach(&w, n->rules.data[i].begin, i);
    }
    while (w.reached.len != 0)
        follow(&w, w.reached.data[--w.reached.len]);
    return w.has;
}
