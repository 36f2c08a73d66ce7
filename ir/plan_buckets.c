// SPDX-License-Identifier: Apache-2.0
// Plans of one graph for several sizes share their memory: see PlanBuckets.
#include "base/map.h"
#include "ir/plan.h"

// --- states and params ---------------------------------------------------------------------------

// All plans number their leaves in the same order, and leave out none.
static const char *share_region(const Plan *largest, Plan *p, Region r)
{
    BufId at = 1;
    for (BufId b = 1; b < p->buffers.len; b++) {
        PlanBuffer *own = &p->buffers.data[b];
        if (own->region != r)
            continue;
        while (at < largest->buffers.len && largest->buffers.data[at].region != r)
            at++;
        if (at == largest->buffers.len || largest->buffers.data[at].bytes != own->bytes)
            return "the states or parameters of two buckets differ";
        own->offset = largest->buffers.data[at++].offset;
    }
    for (; at < largest->buffers.len; at++)
        if (largest->buffers.data[at].region == r)
            return "a bucket lacks a state or parameter of another one";
    p->region_bytes[r] = largest->region_bytes[r];
    return NULL;
}

// --- constants -----------------------------------------------------------------------------------

typedef struct Content {
    uint64_t h, h2, bytes;
} Content;

typedef struct Pool {
    Arena *arena;
    Map seen;             // by content: the place, 1 + index in `places`
    VEC(uint64_t) places; // offsets
    VEC(uint32_t) user;   // the plan that reads it; PLAN_MAX_BUCKETS: several do
    VEC(uint64_t) bytes;
    uint64_t end;
} Pool;

static Content content_of(const PlanBuffer *b)
{
    Arena scratch = {0};
    const void *bytes = plan_buffer_bytes(b, &scratch);
    const Content c = {hash_bytes64(bytes, b->bytes, 1), hash_bytes64(bytes, b->bytes, 2), b->bytes};
    arena_free(&scratch);
    return c;
}

static void add_place(Pool *s, const Content *key, uint64_t offset, uint32_t user)
{
    vec_push(s->arena, &s->places, offset);
    vec_push(s->arena, &s->user, user);
    vec_push(s->arena, &s->bytes, key->bytes);
    map_put(s->arena, &s->seen, key, sizeof *key, s->places.len);
}

// The largest plan comes first: its constants stay where they are.
static void share_constant(Pool *s, PlanBuffer *b, uint32_t user, bool is_largest)
{
    const Content key = content_of(b);
    uint64_t found = 0;
    const bool is_known = map_get(&s->seen, &key, sizeof key, &found);
    if (is_known && !is_largest) {
        b->offset = s->places.data[found - 1];
        if (s->user.data[found - 1] != user)
            s->user.data[found - 1] = PLAN_MAX_BUCKETS;
        return;
    }
    if (!is_largest) {
        b->offset = (s->end + b->align - 1) / b->align * b->align;
        s->end = (b->offset + b->bytes + 63) / 64 * 64;
    }
    if (!is_known)
        add_place(s, &key, b->offset, user);
}

static void share_constants(PlanBuckets *b, Arena *scratch)
{
    Pool s = {.arena = scratch, .end = b->plan[b->n - 1]->region_bytes[REGION_WEIGHTS]};
    for (uint32_t i = b->n; i-- > 0;)
        for (BufId k = 1; k < b->plan[i]->buffers.len; k++) {
            PlanBuffer *buf = &b->plan[i]->buffers.data[k];
            if (buf->region == REGION_WEIGHTS && buf->first != UINT32_MAX && buf->bytes > 0)
                share_constant(&s, buf, i, i == b->n - 1);
        }
    for (uint32_t i = 0; i < s.places.len; i++)
        *(s.user.data[i] == PLAN_MAX_BUCKETS ? &b->shared_bytes : &b->single_bytes) += s.bytes.data[i];
    for (uint32_t i = 0; i < b->n; i++)
        b->plan[i]->region_bytes[REGION_WEIGHTS] = s.end;
}

const char *plan_share_buckets(PlanBuckets *b, Arena *scratch)
{
    const char *wrong = NULL;
    Plan *largest = b->plan[b->n - 1];
    uint64_t arena = 0;
    for (uint32_t i = 0; i < b->n && wrong == NULL; i++) {
        wrong = share_region(largest, b->plan[i], REGION_STATE);
        wrong = wrong != NULL ? wrong : share_region(largest, b->plan[i], REGION_PARAM);
        b->arena_bytes[i] = b->plan[i]->region_bytes[REGION_ARENA];
        arena = b->arena_bytes[i] > arena ? b->arena_bytes[i] : arena;
    }
    for (uint32_t i = 0; i < b->n; i++)
        b->plan[i]->region_bytes[REGION_ARENA] = arena;
    if (wrong == NULL) {
        share_constants(b, scratch);
        plan_share_prepared(b, scratch);
    }
    return wrong;
}
