// SPDX-License-Identifier: Apache-2.0
// What plans of one model prepare of its parameters (REGION_PREPARED): results that are made in the same way
// of the same bytes have one place, and plans that prepare the same do it once for all of them.
#include "base/map.h"
#include "ir/plan/plan.h"

// Stands for the bytes of a buffer: equal ones are made by equal kernels of equal bytes.
typedef struct Identity {
    uint64_t h, h2;
} Identity;

static void mix(Identity *id, const int64_t *v, uint32_t n)
{
    id->h = hash_bytes64(v, n * sizeof *v, id->h);
    id->h2 = hash_bytes64(v, n * sizeof *v, id->h2);
}

// All that decides what a kernel does with its arguments; names do not.
static Identity identity_of_kernel(const Kernel *k)
{
    Identity id = {1, 2};
    for (uint32_t i = 0; i < k->params.len; i++) {
        const KParam *p = &k->params.data[i];
        mix(&id, (const int64_t[]){p->dtype, p->is_written, p->is_read, p->is_own, p->table}, 5);
    }
    for (KRef r = 1; r < k->insts.len; r++) {
        const KInst *n = k_inst(k, r);
        if (n->kind != KI_comment)
            mix(&id,
                (const int64_t[]){n->kind, n->kop, n->dtype, n->lanes, n->count, n->flags, n->a, n->b, n->c,
                                  n->imm},
                10);
    }
    return id;
}

// What the kernel finds in an argument: leaves and constants by their places, which all plans agree on.
static void mix_arg(const Plan *p, const PlanArg *a, const Identity *made, Identity *id)
{
    const PlanBuffer *b = &p->buffers.data[a->buf];
    const Identity *m = &made[a->buf];
    const bool is_made = b->region == REGION_ARENA || b->region == REGION_PREPARED;
    mix(id,
        (const int64_t[]){b->region, (int64_t)b->bytes, (int64_t)a->byte_offset,
                          is_made ? (int64_t)m->h : (int64_t)b->offset, is_made ? (int64_t)m->h2 : 0},
        5);
}

// Fills `made` by buffer. Returns what stands for the whole preparation.
static Identity identify(const Plan *p, uint32_t plan, Identity *made)
{
    Identity all = {3, 4};
    for (uint32_t i = 0; i < p->prepare.n_kernels; i++) {
        const PlanKernel *k = &p->kernels.data[i];
        Identity id = identity_of_kernel(k->kernel);
        if (k->loop != NULL) // bodies are not compared
            mix(&id, (const int64_t[]){plan, i}, 2);
        for (uint32_t j = 0; j < k->args.len; j++)
            mix_arg(p, &k->args.data[j], made, &id);
        for (uint32_t j = 0; j < k->args.len; j++)
            if (k->args.data[j].is_written) {
                Identity *m = &made[k->args.data[j].buf];
                mix(m, (const int64_t[]){(int64_t)id.h, (int64_t)id.h2, j}, 3);
            }
        mix(&all, (const int64_t[]){(int64_t)id.h, (int64_t)id.h2}, 2);
    }
    return all;
}

typedef struct Places {
    Arena *arena;
    Map of;       // by identity: offset
    uint64_t end; // of the region
} Places;

static void place(Places *s, Plan *p, const Identity *made)
{
    for (BufId b = 1; b < p->buffers.len; b++) {
        PlanBuffer *buf = &p->buffers.data[b];
        if (buf->region != REGION_PREPARED || map_get(&s->of, &made[b], sizeof made[b], &buf->offset))
            continue;
        buf->offset = plan_round_up(s->end, buf->align);
        s->end = (buf->offset + buf->bytes + 63) / 64 * 64;
        map_put(s->arena, &s->of, &made[b], sizeof made[b], buf->offset);
    }
}

void plan_share_prepared(PlanBuckets *b, Arena *scratch)
{
    rlx_assert(b->n >= 1 && b->n <= PLAN_MAX_BUCKETS);
    Places s = {.arena = scratch};
    Map marks = {0};
    for (uint32_t i = b->n; i-- > 0;) {
        Plan *p = b->plan[i];
        Identity *made = ARENA_ARRAY(scratch, Identity, p->buffers.len);
        const Identity all = identify(p, i, made);
        uint64_t mark = marks.len;
        if (p->prepare.n_kernels != 0 && !map_get(&marks, &all, sizeof all, &mark))
            map_put(scratch, &marks, &all, sizeof all, mark);
        p->prepare.mark = (uint32_t)mark;
        place(&s, p, made);
    }
    for (uint32_t i = 0; i < b->n; i++) {
        b->plan[i]->prepare.n_marks = marks.len;
        b->plan[i]->region_bytes[REGION_PREPARED] = s.end;
    }
}
