// SPDX-License-Identifier: Apache-2.0
// A grammar while it is read: states with edges of bytes, calls of rules, and edges that take nothing.
// Separate from the automaton, which has no empty edges and nothing that leads nowhere.
#ifndef COMPILER_GRAMMAR_NET_H
#define COMPILER_GRAMMAR_NET_H

#include "base/diag.h"
#include "base/vec.h"

#include <stdbool.h>

enum {
    NET_MAX_STATES = 1 << 18,
    NET_MAX_EDGES = 1 << 20,
    NET_MAX_WORK = 1 << 26 // steps of making the automaton
};
#define NET_NONE 0xffffffffu

typedef enum NetKind { NET_EMPTY, NET_BYTES, NET_CALL } NetKind;

typedef struct NetEdge {
    uint32_t to, next;
    NetKind kind;
    uint32_t rule;     // NET_CALL
    uint8_t low, high; // NET_BYTES
} NetEdge;

typedef struct NetRule {
    const char *name;
    uint32_t begin, end; // states; NET_NONE: not defined yet
    Span used;           // first
} NetRule;

typedef struct Net {
    Arena *arena;
    VEC(uint32_t) first; // by state: its first edge
    VEC(NetEdge) edges;
    VEC(NetRule) rules;
    bool is_full; // there were too many states or edges: the rest was not added
} Net;

// A piece of the net that nothing leads into or out of but begin and end. Its states are those from `first`
// on to `last`, so that it can be copied.
typedef struct NetPart {
    uint32_t begin, end, first, last;
} NetPart;

typedef struct CodeRange {
    uint32_t low, high;
} CodeRange;

typedef VEC(CodeRange) CodeRanges;

// A piece that takes nothing; one that takes a call; one that takes one of these characters, as UTF-8.
NetPart net_empty(Net *n);
NetPart net_call(Net *n, uint32_t rule);
NetPart net_class(Net *n, const CodeRange *ranges, uint32_t n_ranges);
// Both, one after the other, or either; b is newer than a.
NetPart net_then(Net *n, NetPart a, NetPart b);
NetPart net_or(Net *n, NetPart a, NetPart b);
// `part`, which is the newest, at least min and at most max times; NET_NONE: any number of times.
NetPart net_repeat(Net *n, NetPart part, uint32_t min, uint32_t max);

// All characters that are in none of the ranges.
CodeRanges net_complement(Arena *a, const CodeRange *ranges, uint32_t n);

#endif
