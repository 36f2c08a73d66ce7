// SPDX-License-Identifier: Apache-2.0
// Makes the automaton of a net: states are sets of states of the net, so that a byte leads to few of them.
// Where sets become too many, a set is divided into its states, which the run-time follows side by side.
#include "base/map.h"
#include "compiler/grammar/grammar.h"
#include <stdlib.h>

enum { MAX_SETS = 1 << 15, MAX_SET_WORDS = 1 << 22, MAX_EDGES = 1 << 21 };

typedef VEC(uint32_t) List;
typedef VEC(const NetEdge *) Ways;

typedef struct Edge { // by: the low byte, and the high one times 256; a call: RLX_RULE_CALL and the rule
    uint32_t to, by;
} Edge;

typedef struct Set {         // a state of the automaton
    uint32_t rule, begin, n; // states of the net in `members`
    uint32_t first_edge, n_edges;
    bool can_end, is_live;
} Set;

typedef struct Build {
    Net *net;
    Diag *diag;
    const bool *can_be_empty, *ends; // by rule
    uint32_t *rule_set;              // by rule: its first set, plus 1
    List queue;                      // rules whose sets are to be made
    VEC(Set) sets;
    List members;
    VEC(Edge) edges;
    Map ids;               // sets by rule and members
    uint32_t *mark, stamp; // of states of the net
    List stack, closure, key;
    Ways ways;
    uint64_t work;
} Build;

static bool is_too_large(const Build *b)
{
    return b->work > NET_MAX_WORK || b->edges.len > MAX_EDGES || b->sets.len > NET_MAX_STATES;
}

// --- sets ----------------------------------------------------------------------------------------

static void reach(Build *b, uint32_t state)
{
    rlx_assert(state < b->net->first.len);
    b->work++;
    if (b->mark[state] == b->stamp)
        return;
    b->mark[state] = b->stamp;
    vec_push(b->net->arena, &b->stack, state);
}

// Adds to the closure what the stack's states reach without a byte: those with edges that matter, and the
// end.
static void close_over(Build *b, uint32_t rule)
{
    const Net *n = b->net;
    while (b->stack.len != 0 && !is_too_large(b)) {
        const uint32_t state = b->stack.data[--b->stack.len];
        bool matters = state == n->rules.data[rule].end;
        for (uint32_t i = n->first.data[state]; i != NET_NONE; i = n->edges.data[i].next) {
            const NetEdge *e = &n->edges.data[i];
            if (e->kind == NET_EMPTY || (e->kind == NET_CALL && b->can_be_empty[e->rule]))
                reach(b, e->to);
            matters = matters || e->kind != NET_EMPTY;
        }
        if (matters)
            vec_push(n->arena, &b->closure, state);
    }
}

static int compare_words(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static uint32_t set_of(Build *b, uint32_t rule, const uint32_t *members, uint32_t n, bool is_needed)
{
    const size_t bytes = (n + 1) * sizeof *members;
    uint64_t id;
    rlx_assert(n != 0 && (n == 1 || members[0] < members[n - 1])); // sorted, so that equal sets have one key
    b->key.len = 0;
    vec_push(b->net->arena, &b->key, rule);
    for (uint32_t i = 0; i < n; i++)
        vec_push(b->net->arena, &b->key, members[i]);
    if (map_get(&b->ids, b->key.data, bytes, &id))
        return (uint32_t)id;
    if (!is_needed && (b->sets.len >= MAX_SETS || b->members.len + n > MAX_SET_WORDS))
        return NET_NONE;
    Set s = {.rule = rule, .begin = b->members.len, .n = n};
    for (uint32_t i = 0; i < n; i++) {
        vec_push(b->net->arena, &b->members, members[i]);
        s.can_end = s.can_end || members[i] == b->net->rules.data[rule].end;
    }
    vec_push(b->net->arena, &b->sets, s);
    map_put(b->net->arena, &b->ids, b->key.data, bytes, b->sets.len - 1);
    return b->sets.len - 1;
}

// The sets that stand for the closure: one, or many small ones. They replace the closure.
static void name_closure(Build *b, uint32_t rule)
{
    List *c = &b->closure;
    if (c->len == 0 || is_too_large(b))
        return;
    qsort(c->data, c->len, sizeof *c->data, compare_words);
    const uint32_t whole = set_of(b, rule, c->data, c->len, c->len == 1);
    if (whole != NET_NONE) {
        c->data[0] = whole;
        c->len = 1;
        return;
    }
    for (uint32_t i = 0; i < c->len; i++) {
        const uint32_t state = c->data[i];
        c->data[i] = set_of(b, rule, &state, 1, true);
    }
}

static void begin_closure(Build *b)
{
    b->stamp++;
    b->stack.len = b->closure.len = 0;
}

static void add_edges(Build *b, uint32_t by)
{
    for (uint32_t i = 0; i < b->closure.len; i++)
        vec_push(b->net->arena, &b->edges, ((Edge){b->closure.data[i], by}));
    b->work += b->closure.len;
}

// --- edges ---------------------------------------------------------------------------------------

static void list_ways(Build *b, const Set *s, NetKind kind)
{
    const Net *n = b->net;
    b->ways.len = 0;
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t e = n->first.data[b->members.data[s->begin + i]]; e != NET_NONE;
             e = n->edges.data[e].next)
            if (n->edges.data[e].kind == kind)
                vec_push(n->arena, &b->ways, &n->edges.data[e]);
    b->work += b->ways.len;
}

// Edges for each range of bytes between two places at which some way begins or ends.
static void add_bytes(Build *b, uint32_t id)
{
    const Set s = b->sets.data[id];
    bool begins[257] = {false};
    list_ways(b, &s, NET_BYTES);
    const Ways ways = b->ways;
    for (uint32_t i = 0; i < ways.len; i++)
        begins[ways.data[i]->low] = begins[ways.data[i]->high + 1] = true;
    for (uint32_t low = 0, high; low < 256 && ways.len != 0 && !is_too_large(b); low = high) {
        for (high = low + 1; high < 256 && !begins[high];)
            high++;
        begin_closure(b);
        for (uint32_t i = 0; i < ways.len; i++)
            if (ways.data[i]->low <= low && low <= ways.data[i]->high)
                reach(b, ways.data[i]->to);
        b->work += ways.len;
        close_over(b, s.rule);
        name_closure(b, s.rule);
        add_edges(b, low | (high - 1) << 8);
    }
}

static int compare_rules(const void *a, const void *b)
{
    const NetEdge *x = *(const NetEdge *const *)a, *y = *(const NetEdge *const *)b;
    return x->rule < y->rule ? -1 : x->rule > y->rule;
}

static void want_rule(Build *b, uint32_t rule)
{
    if (b->rule_set[rule] != 0)
        return;
    begin_closure(b);
    reach(b, b->net->rules.data[rule].begin);
    close_over(b, rule);
    if (b->closure.len == 0)
        return; // too large
    qsort(b->closure.data, b->closure.len, sizeof *b->closure.data, compare_words);
    b->rule_set[rule] = set_of(b, rule, b->closure.data, b->closure.len, true) + 1;
}

static void add_calls(Build *b, uint32_t id)
{
    const Set s = b->sets.data[id];
    list_ways(b, &s, NET_CALL);
    const Ways ways = b->ways;
    if (ways.len != 0)
        qsort(ways.data, ways.len, sizeof *ways.data, compare_rules);
    for (uint32_t i = 0; i < ways.len && !is_too_large(b);) {
        const uint32_t rule = ways.data[i]->rule;
        const bool is_useful = b->ends[rule];
        if (is_useful)
            want_rule(b, rule);
        begin_closure(b);
        for (; i < ways.len && ways.data[i]->rule == rule; i++)
            if (is_useful)
                reach(b, ways.data[i]->to);
        close_over(b, s.rule);
        name_closure(b, s.rule);
        add_edges(b, RLX_RULE_CALL | rule);
    }
}

// --- tables --------------------------------------------------------------------------------------

static uint32_t target_of_call(const Build *b, const Edge *e)
{
    const uint32_t rule = e->by & ~RLX_RULE_CALL;
    rlx_assert(rule < b->net->rules.len && b->rule_set[rule] != 0);
    return b->rule_set[rule] - 1;
}

// Marks the sets from which the end of their rule can be reached: the others are left out.
static void mark_live(Build *b)
{
    const uint32_t n = b->sets.len;
    Arena *a = b->net->arena;
    uint32_t *begin = ARENA_ARRAY(a, uint32_t, n + 2), *from = ARENA_ARRAY(a, uint32_t, b->edges.len + 1);
    List queue = {0};
    for (uint32_t i = 0; i < b->edges.len; i++) {
        rlx_assert(b->edges.data[i].to < n);
        begin[b->edges.data[i].to + 2]++;
    }
    for (uint32_t i = 2; i < n + 2; i++)
        begin[i] += begin[i - 1];
    for (uint32_t s = 0; s < n; s++)
        for (uint32_t i = 0; i < b->sets.data[s].n_edges; i++)
            from[begin[b->edges.data[b->sets.data[s].first_edge + i].to + 1]++] = s;
    for (uint32_t s = 0; s < n; s++)
        if (b->sets.data[s].can_end) {
            b->sets.data[s].is_live = true;
            vec_push(a, &queue, s);
        }
    while (queue.len != 0) {
        const uint32_t s = queue.data[--queue.len];
        for (uint32_t i = begin[s]; i < begin[s + 1]; i++)
            if (!b->sets.data[from[i]].is_live) {
                b->sets.data[from[i]].is_live = true;
                vec_push(a, &queue, from[i]);
            }
    }
}

// Copies an edge, joined with the one before it where both lead to one state by neighbouring bytes.
static void put_edge(rlx_rule_edge *edges, uint32_t first, uint32_t *n, rlx_rule_edge e)
{
    rlx_rule_edge *last = *n == first ? NULL : &edges[*n - 1];
    const bool is_bytes = last != NULL && ((e.by | last->by) & RLX_RULE_CALL) == 0;
    if (is_bytes && last->to == e.to && last->by >> 8 == (e.by & 255) - 1)
        last->by = (last->by & 255) | (e.by & 0xff00);
    else
        edges[(*n)++] = e;
}

static void make_tables(Build *b, rlx_grammar *out)
{
    Arena *a = b->net->arena;
    uint32_t *number = ARENA_ARRAY(a, uint32_t, b->sets.len), n = 0, n_edges = 0;
    for (uint32_t s = 0; s < b->sets.len; s++)
        number[s] = b->sets.data[s].is_live ? n++ : NET_NONE;
    uint32_t *begin = ARENA_ARRAY(a, uint32_t, n + 1);
    uint8_t *kind = ARENA_ARRAY(a, uint8_t, n);
    rlx_rule_edge *edges = ARENA_ARRAY(a, rlx_rule_edge, b->edges.len + 1);
    for (uint32_t s = 0; s < b->sets.len; s++) {
        if (number[s] == NET_NONE)
            continue;
        const uint32_t first = n_edges;
        for (uint32_t i = 0; i < b->sets.data[s].n_edges; i++) {
            const Edge *e = &b->edges.data[b->sets.data[s].first_edge + i];
            const bool is_call = (e->by & RLX_RULE_CALL) != 0;
            const uint32_t called = is_call ? number[target_of_call(b, e)] : 0;
            const uint32_t by = is_call ? RLX_RULE_CALL | called : e->by;
            rlx_assert(called != NET_NONE); // only rules that end are called
            if (number[e->to] != NET_NONE)
                put_edge(edges, first, &n_edges, (rlx_rule_edge){number[e->to], by});
        }
        kind[number[s]] = (uint8_t)((b->sets.data[s].can_end ? RLX_RULE_END : 0) |
                                    (b->sets.data[s].can_end && n_edges == first ? RLX_RULE_ONLY_END : 0));
        begin[number[s] + 1] = n_edges;
    }
    rlx_assert(n != 0 && number[0] == 0 && begin[n] == n_edges); // a text begins in the first state
    *out = (rlx_grammar){.n_states = n, .begin = begin, .edge = edges, .kind = kind};
}

bool grammar_build(Net *n, Diag *d, uint32_t root, rlx_grammar *out)
{
    Build b = {.net = n, .diag = d};
    rlx_assert(!n->is_full && root < n->rules.len);
    b.can_be_empty = grammar_rules(n, RULES_BE_EMPTY);
    b.ends = grammar_rules(n, RULES_END);
    if (!b.ends[root])
        return diag_error(d, n->rules.data[root].used, E0121, "no text of the rule %s ever ends",
                          n->rules.data[root].name);
    b.rule_set = ARENA_ARRAY(n->arena, uint32_t, n->rules.len);
    b.mark = ARENA_ARRAY(n->arena, uint32_t, n->first.len);
    want_rule(&b, root);
    for (uint32_t s = 0; s < b.sets.len && !is_too_large(&b); s++) {
        b.sets.data[s].first_edge = b.edges.len;
        add_bytes(&b, s);
        add_calls(&b, s);
        b.sets.data[s].n_edges = b.edges.len - b.sets.data[s].first_edge;
    }
    if (is_too_large(&b))
        return diag_error(d, n->rules.data[root].used, E0004, "the grammar becomes too large");
    mark_live(&b);
    make_tables(&b, out);
    return true;
}
