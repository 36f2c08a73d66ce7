// SPDX-License-Identifier: Apache-2.0
// Builds the net of a grammar out of pieces.
#include "compiler/grammar/net.h"
#include "base/str.h"

static uint32_t net_state(Net *n)
{
    if (n->first.len == NET_MAX_STATES) {
        n->is_full = true;
        return 0;
    }
    vec_push(n->arena, &n->first, NET_NONE);
    return n->first.len - 1;
}

static void net_edge(Net *n, uint32_t from, NetEdge edge)
{
    if (n->is_full || n->edges.len == NET_MAX_EDGES) {
        n->is_full = true;
        return;
    }
    rlx_assert(from < n->first.len && edge.to < n->first.len);
    edge.next = n->first.data[from];
    n->first.data[from] = n->edges.len;
    vec_push(n->arena, &n->edges, edge);
}

static void link(Net *n, uint32_t from, uint32_t to)
{
    net_edge(n, from, (NetEdge){.to = to, .kind = NET_EMPTY});
}

static NetPart begin_part(Net *n)
{
    const uint32_t begin = net_state(n), end = net_state(n);
    return (NetPart){begin, end, begin, n->first.len};
}

NetPart net_empty(Net *n)
{
    const NetPart part = begin_part(n);
    link(n, part.begin, part.end);
    return part;
}

NetPart net_call(Net *n, uint32_t rule)
{
    const NetPart part = begin_part(n);
    net_edge(n, part.begin, (NetEdge){.to = part.end, .kind = NET_CALL, .rule = rule});
    return part;
}

NetPart net_then(Net *n, NetPart a, NetPart b)
{
    link(n, a.end, b.begin);
    return (NetPart){a.begin, b.end, a.first, b.last};
}

NetPart net_or(Net *n, NetPart a, NetPart b)
{
    NetPart part = begin_part(n);
    link(n, part.begin, a.begin);
    link(n, part.begin, b.begin);
    link(n, a.end, part.end);
    link(n, b.end, part.end);
    part.first = a.first;
    return part;
}

// --- repetition ----------------------------------------------------------------------------------

static NetPart copy(Net *n, NetPart part)
{
    rlx_assert(part.first <= part.begin && part.begin < part.last && part.last <= n->first.len);
    const uint32_t by = n->first.len - part.first;
    for (uint32_t i = part.first; i < part.last && !n->is_full; i++)
        net_state(n);
    for (uint32_t i = part.first; i < part.last && !n->is_full; i++)
        for (uint32_t e = n->first.data[i]; e != NET_NONE && !n->is_full; e = n->edges.data[e].next) {
            NetEdge edge = n->edges.data[e];
            edge.to += by;
            net_edge(n, i + by, edge);
        }
    if (n->is_full)
        return part;
    return (NetPart){part.begin + by, part.end + by, part.first + by, part.last + by};
}

NetPart net_repeat(Net *n, NetPart part, uint32_t min, uint32_t max)
{
    rlx_assert(min <= max);
    const bool is_endless = max == NET_NONE;
    const uint32_t copies = is_endless ? (min == 0 ? 1 : min) : max;
    const NetPart frame = begin_part(n);
    uint32_t at = frame.begin;
    for (uint32_t i = 0; i < copies && !n->is_full; i++) {
        const NetPart one = i + 1 == copies ? part : copy(n, part); // the original last: it stays unlinked
        if (i >= min)
            link(n, at, frame.end);
        link(n, at, one.begin);
        at = one.end;
        if (is_endless && i + 1 == copies)
            link(n, one.end, one.begin);
    }
    link(n, at, frame.end);
    return (NetPart){frame.begin, frame.end, part.first, n->first.len};
}

// --- characters ----------------------------------------------------------------------------------

typedef struct Tail { // a state from which bytes of the range lead on
    uint32_t to, state;
    uint8_t low, high;
} Tail;

typedef struct ClassBuild {
    Net *net;
    NetPart part;
    VEC(Tail) tails;
} ClassBuild;

static uint32_t tail_state(ClassBuild *c, uint8_t low, uint8_t high, uint32_t to)
{
    for (uint32_t i = 0; i < c->tails.len; i++) {
        const Tail *t = &c->tails.data[i];
        if (t->to == to && t->low == low && t->high == high)
            return t->state;
    }
    const uint32_t state = net_state(c->net);
    net_edge(c->net, state, (NetEdge){.to = to, .kind = NET_BYTES, .low = low, .high = high});
    vec_push(c->net->arena, &c->tails, ((Tail){to, state, low, high}));
    return state;
}

// Characters whose encodings differ in a range of each byte.
static void add_encoded(ClassBuild *c, CodeRange r)
{
    uint8_t low[4], high[4];
    const uint32_t n = str_utf8_put(r.low, low);
    uint32_t to = c->part.end;
    rlx_assert(str_utf8_put(r.high, high) == n);
    for (uint32_t i = n; i-- > 1;)
        to = tail_state(c, low[i], high[i], to);
    net_edge(c->net, c->part.begin, (NetEdge){.to = to, .kind = NET_BYTES, .low = low[0], .high = high[0]});
}

// Where a range must be divided: its first part ends at the result. NET_NONE: nowhere.
static uint32_t split_at(CodeRange r)
{
    static const uint32_t lengths[3] = {0x7f, 0x7ff, 0xffff};
    rlx_assert(r.low <= r.high);
    for (int i = 0; i < 3; i++)
        if (r.low <= lengths[i] && lengths[i] < r.high)
            return lengths[i];
    for (uint32_t bits = 6; bits <= 18 && r.low > 0x7f; bits += 6) {
        const uint32_t mask = (1u << bits) - 1;
        if ((r.low & ~mask) == (r.high & ~mask))
            break;
        if ((r.low & mask) != 0)
            return r.low | mask;
        if ((r.high & mask) != mask)
            return (r.high & ~mask) - 1;
    }
    return NET_NONE;
}

static void add_range(ClassBuild *c, CodeRange r)
{
    for (uint32_t at; (at = split_at(r)) != NET_NONE && !c->net->is_full; r.low = at + 1) {
        const CodeRange first = {r.low, at};
        if (split_at(first) == NET_NONE)
            add_encoded(c, first);
        else
            add_range(c, first);
    }
    add_encoded(c, r);
}

NetPart net_class(Net *n, const CodeRange *ranges, uint32_t n_ranges)
{
    enum { SURROGATES = 0xd800, BEHIND = 0xe000 };
    ClassBuild c = {.net = n, .part = begin_part(n)};
    for (uint32_t i = 0; i < n_ranges && !n->is_full; i++) {
        const CodeRange r = ranges[i], below = {r.low, r.high < SURROGATES ? r.high : SURROGATES - 1};
        const CodeRange above = {r.low < BEHIND ? BEHIND : r.low, r.high};
        if (below.low <= below.high)
            add_range(&c, below);
        if (above.low <= above.high)
            add_range(&c, above);
    }
    c.part.last = n->first.len;
    return c.part;
}

CodeRanges net_complement(Arena *a, const CodeRange *ranges, uint32_t n)
{
    CodeRanges out = {0};
    for (uint32_t low = 0; low <= 0x10ffff;) {
        uint32_t high = 0x10ffff, is_in = NET_NONE;
        for (uint32_t i = 0; i < n; i++) {
            if (ranges[i].low <= low && low <= ranges[i].high)
                is_in = ranges[i].high;
            else if (ranges[i].low > low && ranges[i].low <= high)
                high = ranges[i].low - 1;
        }
        if (is_in != NET_NONE) {
            low = is_in + 1;
            continue;
        }
        vec_push(a, &out, ((CodeRange){low, high}));
        low = high + 1;
    }
    return out;
}
