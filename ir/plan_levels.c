// SPDX-License-Identifier: Apache-2.0
// Dependency levels: kernels of one level touch no bytes that another of them writes, so they could run at
// the same time. A sweep over the kernels in order, with the bytes of each region as disjoint pieces that
// remember the levels of their last writer and readers.
#include "ir/plan.h"
#include <string.h>

typedef struct Piece {
    uint64_t begin, end;
    uint32_t write, read; // 1 + level; 0: nobody yet
} Piece;

typedef struct Pieces {
    VEC(Piece) list; // sorted, disjoint; together all bytes that somebody touched
} Pieces;

typedef struct Levels {
    const Plan *plan;
    Arena *scratch;
    Pieces pieces[REGION_COUNT];
} Levels;

// First piece that ends behind `at`.
static uint32_t find_piece(const Pieces *p, uint64_t at)
{
    uint32_t low = 0, high = p->list.len;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (p->list.data[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static uint32_t level_of(const Levels *l, const PlanKernel *k)
{
    uint32_t level = 0;
    for (uint32_t j = 0; j < k->args.len; j++) {
        const PlanArg *a = &k->args.data[j];
        const PlanBuffer *b = &l->plan->buffers.data[a->buf];
        const Pieces *p = &l->pieces[b->region];
        for (uint32_t i = find_piece(p, b->offset + a->begin);
             i < p->list.len && p->list.data[i].begin < b->offset + a->end; i++) {
            const Piece *piece = &p->list.data[i];
            level = level > piece->write ? level : piece->write;
            if (a->is_written)
                level = level > piece->read ? level : piece->read;
        }
    }
    return level;
}

// Makes the range one piece, with what lies over its ends cut off.
static void touch(Levels *l, Region r, uint64_t begin, uint64_t end, bool is_written, uint32_t level)
{
    Pieces *p = &l->pieces[r], next = {0};
    if (begin >= end)
        return;
    const uint32_t from = find_piece(p, begin);
    uint32_t to = from;
    uint64_t at = begin;
    for (; to < p->list.len && p->list.data[to].begin < end; to++) {
        const Piece old = p->list.data[to];
        Piece part = old;
        if (old.begin < begin)
            vec_push(l->scratch, &next.list, ((Piece){old.begin, begin, old.write, old.read}));
        if (old.begin > at) // a gap that nobody has touched
            vec_push(l->scratch, &next.list,
                     ((Piece){at, old.begin, is_written ? level : 0, is_written ? 0 : level}));
        part.begin = old.begin > begin ? old.begin : begin;
        part.end = old.end < end ? old.end : end;
        part.write = is_written ? level : old.write;
        part.read = is_written ? 0 : level > old.read ? level : old.read;
        vec_push(l->scratch, &next.list, part);
        at = part.end;
        if (old.end > end)
            vec_push(l->scratch, &next.list, ((Piece){end, old.end, old.write, old.read}));
    }
    if (at < end)
        vec_push(l->scratch, &next.list, ((Piece){at, end, is_written ? level : 0, is_written ? 0 : level}));
    const uint32_t gone = to - from, came = next.list.len, behind = p->list.len - to;
    for (uint32_t i = gone; i < came; i++)
        vec_push(l->scratch, &p->list, (Piece){0});
    memmove(p->list.data + from + came, p->list.data + to, behind * sizeof(Piece));
    memcpy(p->list.data + from, next.list.data, came * sizeof(Piece));
    p->list.len = from + came + behind;
}

void plan_find_levels(Plan *plan)
{
    Arena scratch = {0};
    Levels l = {.plan = plan, .scratch = &scratch};
    for (uint32_t i = 0; i < plan->kernels.len; i++) {
        PlanKernel *k = &plan->kernels.data[i];
        k->level = level_of(&l, k);
        for (uint32_t j = 0; j < k->args.len; j++) {
            const PlanArg *a = &k->args.data[j];
            const PlanBuffer *b = &plan->buffers.data[a->buf];
            if (b->region != REGION_WEIGHTS && b->region != REGION_MAPS)
                touch(&l, b->region, b->offset + a->begin, b->offset + a->end, a->is_written, k->level + 1);
        }
        if (k->loop != NULL)
            plan_find_levels(k->loop->body);
    }
    arena_free(&scratch);
}
