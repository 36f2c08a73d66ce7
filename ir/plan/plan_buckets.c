// SPDX-License-Identifier: Apache-2.0
// Plans of one graph for several sizes share their memory: see PlanBuckets.
#include "base/map.h"
#include "ir/plan/plan.h"

#include <string.h>

// --- what bytes are ------------------------------------------------------------------------------

typedef struct Content {
    uint64_t h, h2, bytes;
} Content;

static Content content_of(const PlanBuffer *b)
{
    Arena scratch = {0};
    if (b->made_of[0] != 0) // without packing gigabytes
        return (Content){b->made_of[0], b->made_of[1], b->bytes};
    const void *bytes = plan_buffer_bytes(b, &scratch);
    const Content c = {hash_bytes64(bytes, b->bytes, 1), hash_bytes64(bytes, b->bytes, 2), b->bytes};
    arena_free(&scratch);
    return c;
}

// --- experts -------------------------------------------------------------------------------------

// The layers of a plan, with what the weights of their parts are: one after the other.
typedef struct Layers {
    Plan *plan;
    Content *content;
    bool *is_moe; // by buffer: memory of the runtime, or weights of experts
    bool *is_own; // by buffer: in the state block, but no state: counters that a kernel keeps
} Layers;

static void find_own(Layers *l)
{
    const Plan *p = l->plan;
    for (BufId b = 1; b < p->buffers.len; b++)
        l->is_own[b] = p->buffers.data[b].region == REGION_STATE && !l->is_moe[b];
    for (uint32_t i = 0; i < p->states.len; i++)
        l->is_own[p->states.data[i].buf] = false;
}

static Layers layers_of(Plan *p, Arena *scratch)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->experts.layers.len; i++)
        n += p->experts.layers.data[i].parts.len;
    Layers l = {p, ARENA_ARRAY(scratch, Content, n + 1), ARENA_ARRAY(scratch, bool, p->buffers.len),
                ARENA_ARRAY(scratch, bool, p->buffers.len)};
    l.is_moe[p->experts.head] = true;
    n = 0;
    for (uint32_t i = 0; i < p->experts.layers.len; i++) {
        const PlanMoe *m = &p->experts.layers.data[i];
        l.is_moe[m->page] = true;
        for (uint32_t j = 0; j < m->parts.len; j++) {
            l.is_moe[m->parts.data[j].table] = true;
            l.content[n++] = content_of(&p->buffers.data[m->parts.data[j].weights]);
        }
    }
    find_own(&l);
    return l;
}

static const Content *contents_of(const Layers *l, uint32_t layer)
{
    const Content *c = l->content;
    for (uint32_t i = 0; i < layer; i++)
        c += l->plan->experts.layers.data[i].parts.len;
    return c;
}

static void swap_parts(PlanMoe *m, Content *c, uint32_t i, uint32_t j)
{
    const PlanMoePart part = m->parts.data[i];
    const Content content = c[i];
    m->parts.data[i] = m->parts.data[j];
    m->parts.data[j] = part;
    c[i] = c[j];
    c[j] = content;
}

// Are layers i and j the same? The parts of j come into the order of those of i as far as they are.
static bool is_same_layer(const Layers *a, uint32_t i, const Layers *b, uint32_t j)
{
    const PlanMoe *m = &a->plan->experts.layers.data[i];
    PlanMoe *own = &b->plan->experts.layers.data[j];
    const Content *want = contents_of(a, i);
    Content *have = (Content *)(uintptr_t)contents_of(b, j);
    if (m->n_experts != own->n_experts || m->per_row != own->per_row || m->parts.len != own->parts.len)
        return false;
    for (uint32_t k = 0; k < m->parts.len; k++) {
        uint32_t at = k;
        while (at < m->parts.len && memcmp(&want[k], &have[at], sizeof want[k]) != 0)
            at++;
        if (at == m->parts.len)
            return false;
        swap_parts(own, have, k, at);
    }
    return true;
}

static void share_buffer(const Layers *a, BufId from, const Layers *b, BufId to)
{
    b->plan->buffers.data[to].offset = a->plan->buffers.data[from].offset;
}

// Layers and their parts get the order and the places that they have in the largest plan.
static const char *share_experts(const Layers *largest, Layers *own, Arena *scratch)
{
    Plan *p = own->plan;
    const uint32_t n = largest->plan->experts.layers.len;
    PlanMoe *in_order = ARENA_ARRAY(scratch, PlanMoe, n + 1);
    bool *is_taken = ARENA_ARRAY(scratch, bool, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = 0;
        while (j < p->experts.layers.len && (is_taken[j] || !is_same_layer(largest, i, own, j)))
            j++;
        if (j == p->experts.layers.len || p->experts.layers.len != n)
            return "the experts of two buckets differ";
        const PlanMoe *m = &largest->plan->experts.layers.data[i];
        is_taken[j] = true;
        in_order[i] = p->experts.layers.data[j];
        in_order[i].name = m->name;
        share_buffer(largest, m->page, own, in_order[i].page);
        for (uint32_t k = 0; k < m->parts.len; k++) {
            share_buffer(largest, m->parts.data[k].table, own, in_order[i].parts.data[k].table);
            share_buffer(largest, m->parts.data[k].weights, own, in_order[i].parts.data[k].weights);
        }
    }
    if (n > 0) {
        memcpy(p->experts.layers.data, in_order, n * sizeof *in_order);
        share_buffer(largest, largest->plan->experts.head, own, p->experts.head);
    }
    p->region_bytes[REGION_EXPERTS] = largest->plan->region_bytes[REGION_EXPERTS];
    return NULL;
}

// --- states and params ---------------------------------------------------------------------------

static bool is_leaf(const Layers *l, BufId b, Region r)
{
    return l->plan->buffers.data[b].region == r && !l->is_moe[b] && !l->is_own[b];
}

// All plans number their leaves in the same order, and leave out none.
static const char *share_region(const Layers *of_largest, const Layers *of_own, Region r)
{
    const Plan *largest = of_largest->plan;
    Plan *p = of_own->plan;
    BufId at = 1;
    for (BufId b = 1; b < p->buffers.len; b++) {
        PlanBuffer *own = &p->buffers.data[b];
        if (!is_leaf(of_own, b, r))
            continue;
        while (at < largest->buffers.len && !is_leaf(of_largest, at, r))
            at++;
        if (at == largest->buffers.len || largest->buffers.data[at].bytes != own->bytes)
            return "the states or parameters of two buckets differ";
        own->offset = largest->buffers.data[at++].offset;
    }
    for (; at < largest->buffers.len; at++)
        if (is_leaf(of_largest, at, r))
            return "a bucket lacks a state or parameter of another one";
    p->region_bytes[r] = largest->region_bytes[r];
    return NULL;
}

// Counters of kernels get places of their own behind the states.
static uint64_t place_own(const Layers *l, uint64_t at)
{
    for (BufId b = 1; b < l->plan->buffers.len; b++) {
        PlanBuffer *own = &l->plan->buffers.data[b];
        if (!l->is_own[b])
            continue;
        own->offset = plan_round_up(at, own->align);
        at = own->offset + plan_round_up(own->bytes, own->align);
    }
    return at;
}

// --- constants -----------------------------------------------------------------------------------

typedef struct Pool {
    Arena *arena;
    Map seen;             // by content: the place, 1 + index in `places`
    VEC(uint64_t) places; // offsets
    VEC(uint32_t) user;   // the plan that reads it; PLAN_MAX_BUCKETS: several do
    VEC(uint64_t) bytes;
    uint64_t end;
} Pool;

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
        b->offset = plan_round_up(s->end, b->align);
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
    b->shared_bytes += b->n > 1 ? b->plan[b->n - 1]->region_bytes[REGION_EXPERTS] : 0;
    for (uint32_t i = 0; i < b->n; i++)
        b->plan[i]->region_bytes[REGION_WEIGHTS] = s.end;
}

const char *plan_share_buckets(PlanBuckets *b, Arena *scratch)
{
    rlx_assert(b->n >= 1 && b->n <= PLAN_MAX_BUCKETS);
    const char *wrong = NULL;
    const Layers largest = layers_of(b->plan[b->n - 1], scratch);
    uint64_t arena = 0, states = largest.plan->region_bytes[REGION_STATE];
    for (uint32_t i = 0; i + 1 < b->n && wrong == NULL; i++) {
        Layers own = layers_of(b->plan[i], scratch);
        wrong = share_experts(&largest, &own, scratch);
        wrong = wrong != NULL ? wrong : share_region(&largest, &own, REGION_STATE);
        wrong = wrong != NULL ? wrong : share_region(&largest, &own, REGION_PARAM);
        states = place_own(&own, states);
    }
    for (uint32_t i = 0; i < b->n; i++) {
        b->arena_bytes[i] = b->plan[i]->region_bytes[REGION_ARENA];
        arena = b->arena_bytes[i] > arena ? b->arena_bytes[i] : arena;
    }
    for (uint32_t i = 0; i < b->n; i++)
        b->plan[i]->region_bytes[REGION_ARENA] = arena;
    for (uint32_t i = 0; i < b->n; i++)
        b->plan[i]->region_bytes[REGION_STATE] = states;
    if (wrong == NULL) {
        share_constants(b, scratch);
        plan_share_prepared(b, scratch);
    }
    return wrong;
}
