// SPDX-License-Identifier: Apache-2.0
// Constants whose elements somebody has looked at, and those that are made of others and stand for the same
// numbers. Separate from the graph, as only programs that load weights themselves need to know it.
#include "ir/graph/reads.h"

GraphReads *graph_reads_new(Arena *a)
{
    GraphReads *r = ARENA_NEW(a, GraphReads);
    r->arena = a;
    return r;
}

void reads_note(GraphReads *r, const void *data)
{
    map_put(r->arena, &r->seen, &data, sizeof data, 1);
}

bool reads_has_seen(const GraphReads *r, const void *data)
{
    uint64_t seen = 0;
    return map_get(&r->seen, &data, sizeof data, &seen);
}

void reads_note_widened(GraphReads *r, const void *from, DType type, void *to)
{
    const ReadsWidened w = {from, type, to};
    const uint64_t at = (uint64_t)(uintptr_t)arena_copy(r->arena, &w, sizeof w);
    const void *key = to;
    rlx_assert(from != NULL && to != NULL);
    map_put(r->arena, &r->widened, &key, sizeof key, at);
    map_put(r->arena, &r->widened_from, &from, sizeof from, at);
}

static const ReadsWidened *find(const Map *m, const void *key)
{
    uint64_t at = 0;
    return map_get(m, &key, sizeof key, &at) ? (const ReadsWidened *)(uintptr_t)at : NULL;
}

const ReadsWidened *reads_widened(const GraphReads *r, const void *to)
{
    return find(&r->widened, to);
}

const ReadsWidened *reads_widened_from(const GraphReads *r, const void *from)
{
    return find(&r->widened_from, from);
}

void reads_note_moved(GraphReads *r, const void *from, const void *to, uint64_t bytes)
{
    const ReadsMoved m = {from, bytes};
    rlx_assert(from != NULL && to != NULL);
    map_put(r->arena, &r->moved, &to, sizeof to, (uint64_t)(uintptr_t)arena_copy(r->arena, &m, sizeof m));
    map_put(r->arena, &r->copies, &from, sizeof from, (uint64_t)(uintptr_t)to);
}

const void *reads_copy(const GraphReads *r, const void *from)
{
    uint64_t to = 0;
    return map_get(&r->copies, &from, sizeof from, &to) ? (const void *)(uintptr_t)to : NULL;
}

const void *reads_source(const GraphReads *r, const void *at, uint64_t bytes)
{
    uint64_t known = 0;
    const ReadsMoved *m = NULL;
    if (map_get(&r->moved, &at, sizeof at, &known))
        m = (const ReadsMoved *)(uintptr_t)known;
    return m != NULL && bytes <= m->bytes ? m->from : at;
}
