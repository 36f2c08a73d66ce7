// SPDX-License-Identifier: Apache-2.0
// Follows a text through a grammar, byte by byte: which bytes can come next, and whether the text can end.
// Any context-free grammar will do. Calls of rules are kept as a graph, in which equal calls at one place
// are one node, so that ambiguous and left recursive grammars take no more memory than others. Separate
// from tokens, which are only bytes here (rlx_allow.h).
#ifndef RLX_GRAMMAR_H
#define RLX_GRAMMAR_H

#include "rlx_text.h"

#include <string.h>

enum {
    RLX_RULE_END = 1,     // a rule may end in this state
    RLX_RULE_ONLY_END = 2 // and nothing leads out of it
};
#define RLX_RULE_CALL 0x80000000u

// by: the lowest byte, and the highest one times 256; or RLX_RULE_CALL and the state in which a rule begins.
typedef struct rlx_rule_edge {
    uint32_t to, by;
} rlx_rule_edge;

// Made by `rlxc grammar`. It begins in state 0.
typedef struct rlx_grammar {
    uint32_t n_states;
    const uint32_t *begin; // [n_states + 1] edges, those of bytes before calls, in the order of bytes
    const rlx_rule_edge *edge;
    const uint8_t *kind; // [n_states] RLX_RULE_*
} rlx_grammar;

// A state, and the node to whose callers it returns.
typedef struct rlx_parse_at {
    uint32_t state, node;
} rlx_parse_at;

typedef struct rlx_parse_list {
    rlx_parse_at *at;
    uint32_t n;
    int can_end;
} rlx_parse_list;

typedef struct rlx_parse_node {
    uint32_t state; // in which the called rule begins
    uint32_t first; // caller; RLX_NO_CALLER: none
    uint32_t place; // plus 1, while nodes are moved; 0: nobody needs it
} rlx_parse_node;

typedef struct rlx_parse_caller {
    uint32_t to, node; // where it goes on
    uint32_t of, next; // the node called, and another caller of it
} rlx_parse_caller;

#define RLX_NO_CALLER 0xffffffffu

// A text so far. Its memory must stay where it is.
typedef struct rlx_parse {
    const rlx_grammar *grammar;
    rlx_parse_list now, next[2]; // states with edges of bytes
    rlx_parse_node *node;        // number 0 stands for the beginning of the text
    rlx_parse_caller *caller;    // twice as many
    uint32_t room, n_nodes, n_callers;
    uint32_t first_new; // node that was made after the last byte
    uint32_t first[8];  // bits: the bytes that can come next
    int is_full;        // a token was refused because it needs more memory
} rlx_parse;

// Memory for about n calls of rules within each other, and as many ways to read the text.
#define RLX_PARSE_BYTES(n)                                                                                   \
    ((size_t)(n) * (3 * sizeof(rlx_parse_at) + sizeof(rlx_parse_node) + 2 * sizeof(rlx_parse_caller)) + 40)

static inline void rlx_parse_add(rlx_parse *p, rlx_parse_list *list, uint32_t state, uint32_t node)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (list->at[i].state == state && list->at[i].node == node)
            return;
    if (list->n == p->room) {
        p->is_full = 1;
        return;
    }
    list->at[list->n].state = state;
    list->at[list->n++].node = node;
}

static inline void rlx_parse_add_caller(rlx_parse *p, uint32_t of, uint32_t to, uint32_t node)
{
    for (uint32_t i = p->node[of].first; i != RLX_NO_CALLER; i = p->caller[i].next)
        if (p->caller[i].to == to && p->caller[i].node == node)
            return;
    if (p->n_callers == 2 * p->room) {
        p->is_full = 1;
        return;
    }
    rlx_parse_caller *c = &p->caller[p->n_callers];
    c->to = to;
    c->node = node;
    c->of = of;
    c->next = p->node[of].first;
    p->node[of].first = p->n_callers++;
}

// Calls a rule from an edge. What does nothing after the call lets the rule return to its own callers.
static inline void rlx_parse_call(rlx_parse *p, rlx_parse_list *list, const rlx_rule_edge *e, uint32_t node)
{
    const uint32_t state = e->by & ~RLX_RULE_CALL;
    uint32_t found = p->first_new;
    if ((p->grammar->kind[e->to] & RLX_RULE_ONLY_END) != 0) {
        rlx_parse_add(p, list, state, node);
        return;
    }
    while (found < p->n_nodes && p->node[found].state != state)
        found++;
    if (found == p->room) {
        p->is_full = 1;
        return;
    }
    if (found == p->n_nodes) {
        p->node[p->n_nodes].state = state;
        p->node[p->n_nodes++].first = RLX_NO_CALLER;
    }
    rlx_parse_add_caller(p, found, e->to, node);
    rlx_parse_add(p, list, state, found);
}

// Follows calls and ends of rules, and keeps what waits for a byte. A rule that ends where it began needs no
// return: the tables have a way around calls of rules that may be empty.
static inline void rlx_parse_close(rlx_parse *p, rlx_parse_list *list)
{
    const rlx_grammar *g = p->grammar;
    uint32_t kept = 0;
    list->can_end = 0;
    for (uint32_t i = 0; i < list->n && !p->is_full; i++) {
        const rlx_parse_at at = list->at[i];
        if ((g->kind[at.state] & RLX_RULE_END) != 0 && at.node == 0)
            list->can_end = 1;
        else if ((g->kind[at.state] & RLX_RULE_END) != 0 && at.node < p->first_new)
            for (uint32_t c = p->node[at.node].first; c != RLX_NO_CALLER; c = p->caller[c].next)
                rlx_parse_add(p, list, p->caller[c].to, p->caller[c].node);
        for (uint32_t k = g->begin[at.state + 1]; k-- > g->begin[at.state];) {
            if ((g->edge[k].by & RLX_RULE_CALL) == 0)
                break;
            rlx_parse_call(p, list, &g->edge[k], at.node);
        }
    }
    for (uint32_t i = 0; i < list->n; i++) {
        const uint32_t k = g->begin[list->at[i].state];
        if (k < g->begin[list->at[i].state + 1] && (g->edge[k].by & RLX_RULE_CALL) == 0)
            list->at[kept++] = list->at[i];
    }
    list->n = kept;
}

static inline void rlx_parse_byte(rlx_parse *p, const rlx_parse_list *from, uint32_t byte, rlx_parse_list *to)
{
    const rlx_grammar *g = p->grammar;
    to->n = 0;
    to->can_end = 0;
    p->first_new = p->n_nodes;
    for (uint32_t i = 0; i < from->n; i++)
        for (uint32_t k = g->begin[from->at[i].state]; k < g->begin[from->at[i].state + 1]; k++) {
            const uint32_t by = g->edge[k].by;
            if ((by & RLX_RULE_CALL) != 0 || (by & 255) > byte)
                break;
            if (byte <= by >> 8)
                rlx_parse_add(p, to, g->edge[k].to, from->at[i].node);
        }
    if (to->n != 0)
        rlx_parse_close(p, to);
}

// The list after some bytes. NULL: they cannot come, or there is not enough memory (is_full).
static inline const rlx_parse_list *rlx_parse_bytes(rlx_parse *p, const uint8_t *text, size_t n)
{
    const rlx_parse_list *from = &p->now;
    for (size_t i = 0; i < n; i++) {
        rlx_parse_list *to = &p->next[i & 1];
        rlx_parse_byte(p, from, text[i], to);
        if (p->is_full || (to->n == 0 && !to->can_end))
            return NULL;
        from = to;
    }
    return from;
}

static inline void rlx_parse_note_first(rlx_parse *p)
{
    const rlx_grammar *g = p->grammar;
    memset(p->first, 0, sizeof p->first);
    for (uint32_t i = 0; i < p->now.n; i++)
        for (uint32_t k = g->begin[p->now.at[i].state]; k < g->begin[p->now.at[i].state + 1]; k++) {
            const uint32_t by = g->edge[k].by;
            if ((by & RLX_RULE_CALL) != 0)
                break;
            for (uint32_t byte = by & 255; byte <= by >> 8; byte++)
                p->first[byte >> 5] |= 1u << (byte & 31);
        }
}

// Can these bytes come next? Most tokens are refused by their first byte.
static inline int rlx_parse_can(rlx_parse *p, const uint8_t *text, size_t n)
{
    if (n != 0 && (p->first[text[0] >> 5] >> (text[0] & 31) & 1) == 0)
        return 0;
    const uint32_t n_nodes = p->n_nodes, n_callers = p->n_callers;
    const int was_full = p->is_full;
    p->is_full = 0;
    const int can = rlx_parse_bytes(p, text, n) != NULL;
    p->is_full = p->is_full || was_full;
    p->n_nodes = n_nodes;
    p->n_callers = n_callers;
    return can;
}

// --- memory --------------------------------------------------------------------------------------

// Marks the nodes that can still return, with their place plus 1.
static inline void rlx_parse_mark(rlx_parse *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++)
        p->node[i].place = i == 0;
    for (uint32_t i = 0; i < p->now.n; i++)
        p->node[p->now.at[i].node].place = 1;
    for (int is_done = 0; !is_done;) {
        is_done = 1;
        for (uint32_t i = p->n_nodes; i-- != 0;) { // callers are before what they call, nearly always
            uint32_t c = p->node[i].place == 0 ? RLX_NO_CALLER : p->node[i].first;
            for (; c != RLX_NO_CALLER; c = p->caller[c].next) {
                is_done = is_done && (p->caller[c].node < i || p->node[p->caller[c].node].place != 0);
                p->node[p->caller[c].node].place = 1;
            }
        }
    }
    for (uint32_t i = 0; i < p->n_nodes; i++)
        p->node[i].place = p->node[i].place != 0 ? ++n : 0;
}

// Forgets the nodes to which nothing returns any more.
static inline void rlx_parse_compact(rlx_parse *p)
{
    uint32_t n = 0, kept = 0;
    rlx_parse_mark(p);
    for (uint32_t i = 0; i < p->now.n; i++)
        p->now.at[i].node = p->node[p->now.at[i].node].place - 1;
    for (uint32_t i = 0; i < p->n_callers; i++) {
        rlx_parse_caller c = p->caller[i];
        if (p->node[c.of].place == 0)
            continue;
        c.node = p->node[c.node].place - 1;
        c.of = p->node[c.of].place - 1;
        p->caller[n++] = c;
    }
    p->n_callers = n;
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->node[i].place != 0) {
            p->node[kept] = p->node[i];
            p->node[kept++].first = RLX_NO_CALLER;
        }
    p->n_nodes = kept;
    for (uint32_t i = 0; i < n; i++) {
        p->caller[i].next = p->node[p->caller[i].of].first;
        p->node[p->caller[i].of].first = i;
    }
}

// --- what programs call --------------------------------------------------------------------------

// The begin of a text. The memory must stay: RLX_PARSE_BYTES. Returns 0 or RLX_TEXT_MEMORY.
static inline int64_t rlx_parse_start(rlx_parse *p, const rlx_grammar *grammar, void *memory, size_t bytes)
{
    const size_t none = RLX_PARSE_BYTES(0), unit = RLX_PARSE_BYTES(1) - RLX_PARSE_BYTES(0);
    rlx_work work;
    work.memory = memory;
    work.bytes = bytes;
    memset(p, 0, sizeof *p);
    if (bytes < none + unit)
        return RLX_TEXT_MEMORY;
    p->grammar = grammar;
    p->room = (bytes - none) / unit > 1u << 24 ? 1u << 24 : (uint32_t)((bytes - none) / unit);
    p->now.at = (rlx_parse_at *)rlx_work_take(&work, p->room, sizeof *p->now.at);
    p->next[0].at = (rlx_parse_at *)rlx_work_take(&work, p->room, sizeof *p->now.at);
    p->next[1].at = (rlx_parse_at *)rlx_work_take(&work, p->room, sizeof *p->now.at);
    p->node = (rlx_parse_node *)rlx_work_take(&work, p->room, sizeof *p->node);
    p->caller = (rlx_parse_caller *)rlx_work_take(&work, 2 * (size_t)p->room, sizeof *p->caller);
    if (p->now.at == NULL || p->next[0].at == NULL || p->next[1].at == NULL || p->node == NULL ||
        p->caller == NULL)
        return RLX_TEXT_MEMORY;
    p->node[0].first = RLX_NO_CALLER;
    p->n_nodes = p->first_new = 1;
    rlx_parse_add(p, &p->now, 0, 0);
    rlx_parse_close(p, &p->now);
    rlx_parse_note_first(p);
    return p->is_full ? RLX_TEXT_MEMORY : 0;
}

// Goes on after these bytes. Returns 0, RLX_TEXT_TOKEN (the grammar does not allow them) or
// RLX_TEXT_MEMORY; the text is then what it was.
static inline int64_t rlx_parse_feed(rlx_parse *p, const uint8_t *text, size_t n)
{
    const uint32_t n_nodes = p->n_nodes, n_callers = p->n_callers;
    p->is_full = 0;
    const rlx_parse_list *list = rlx_parse_bytes(p, text, n);
    if (list == NULL) {
        p->n_nodes = n_nodes;
        p->n_callers = n_callers;
        return p->is_full ? RLX_TEXT_MEMORY : RLX_TEXT_TOKEN;
    }
    if (list != &p->now) {
        memcpy(p->now.at, list->at, list->n * sizeof *list->at);
        p->now.n = list->n;
        p->now.can_end = list->can_end;
    }
    if (p->n_nodes > p->room / 2 || p->n_callers > p->room)
        rlx_parse_compact(p);
    rlx_parse_note_first(p);
    return 0;
}

// Is the text whole, as it stands?
static inline int rlx_parse_can_end(const rlx_parse *p)
{
    return p->now.can_end;
}

// Can nothing follow the text?
static inline int rlx_parse_is_over(const rlx_parse *p)
{
    return p->now.n == 0;
}

#endif
