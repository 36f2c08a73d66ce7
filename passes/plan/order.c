// SPDX-License-Identifier: Apache-2.0
// Kernel order: list scheduling that always takes the ready kernel after which the fewest bytes are live,
// tried with a few tie rules; the order with the lowest peak wins, the original one on a tie. Works on the
// planned reads and writes, before lowering.
#include "passes/live/live.h"
#include "passes/pass.h"
#include <string.h>

enum { ORDER_SEARCH_KERNELS = 4000 };

typedef VEC(uint32_t) Indices;

typedef struct OrderStep {
    Indices reads, writes; // buffers in the arena, each once
    Indices users;         // steps that must come after
    uint32_t n_before;     // steps that must come before
} OrderStep;

typedef struct Order {
    Pass *pass;
    Plan *plan;
    const Graph *g;
    OrderStep *step;
    uint32_t n;
    Indices *producers; // by NodeId: steps that write (a part of) the value
} Order;

static void add_once(Arena *a, Indices *v, uint32_t x)
{
    for (uint32_t i = 0; i < v->len; i++)
        if (v->data[i] == x)
            return;
    vec_push(a, v, x);
}

static void note_buffer(Order *o, Indices *v, BufId buf)
{
    if (buf != 0 && o->plan->buffers.data[buf].region == REGION_ARENA)
        add_once(o->pass->scratch, v, buf);
}

// Steps that write the value of a node: through views to the source, through concats to the parts.
static void collect_producers(Order *o, NodeId id, Indices *out)
{
    const Indices *own = &o->producers[id];
    for (uint32_t i = 0; i < own->len; i++)
        add_once(o->pass->scratch, out, own->data[i]);
}

// Fills producers in node order: a view inherits its source's, a concat all its parts'.
static void inherit_producers(Order *o)
{
    for (NodeId id = 1; id < o->g->nodes.len; id++) {
        const Node *n = graph_node(o->g, id);
        if (op_is_computed((OpId)n->op))
            continue;
        for (uint32_t i = 0; i < n->n_src; i++)
            collect_producers(o, n->src[i], &o->producers[id]);
    }
}

static bool is_in(const PlanKernel *k, NodeId id)
{
    for (uint32_t i = 0; i < k->body.len; i++)
        if (k->body.data[i] == id)
            return true;
    return false;
}

static void depend_on(Order *o, uint32_t step, NodeId id)
{
    note_buffer(o, &o->step[step].reads, o->plan->locs.data[id].buf);
    Indices before = {0};
    collect_producers(o, id, &before);
    for (uint32_t i = 0; i < before.len; i++) {
        if (before.data[i] == step)
            continue;
        vec_push(o->pass->scratch, &o->step[before.data[i]].users, step);
        o->step[step].n_before++;
    }
}

// What copies made for this kernel alone, it waits for.
static void wait_for_starts(Order *o, uint32_t step)
{
    const PlanKernel *k = &o->plan->kernels.data[step];
    for (uint32_t i = 0; i < o->n; i++)
        if (o->plan->kernels.data[i].is_start && o->plan->kernels.data[i].root == k->root) {
            vec_push(o->pass->scratch, &o->step[i].users, step);
            o->step[step].n_before++;
        }
}

// A loop writes all its results, some of which copies of the carried values were put into before.
static void note_loop(Order *o, uint32_t step)
{
    const PlanKernel *k = &o->plan->kernels.data[step];
    for (uint32_t i = 0; i < graph_node(o->g, k->root)->n_results; i++)
        note_buffer(o, &o->step[step].writes, k->results[i].buf);
    wait_for_starts(o, step);
}

static void note_custom(Order *o, uint32_t step)
{
    const PlanKernel *k = &o->plan->kernels.data[step];
    for (uint32_t i = 0; i < graph_node(o->g, k->root)->n_src; i++)
        note_buffer(o, &o->step[step].reads, k->operands[i].buf);
    wait_for_starts(o, step);
}

static void read_operands(Order *o, uint32_t step)
{
    const PlanKernel *k = &o->plan->kernels.data[step];
    NodeId size[LIVE_MAX_SIZES];
    const uint32_t n_sizes = live_sizes(o->plan, k, size);
    for (uint32_t i = 0; i < n_sizes; i++)
        if (live_is_apart(o->plan, k, size[i]))
            depend_on(o, step, size[i]);
    if (k->copy.src != 0) {
        depend_on(o, step, k->copy.src);
        note_buffer(o, &o->step[step].writes, k->copy.dst.buf);
        return;
    }
    note_buffer(o, &o->step[step].writes, o->plan->locs.data[k->root].buf);
    if (k->results != NULL)
        note_loop(o, step);
    if (k->operands != NULL)
        note_custom(o, step);
    for (uint32_t i = 0; i < k->body.len; i++) {
        const Node *n = graph_node(o->g, k->body.data[i]);
        for (uint32_t j = 0; j < n->n_src; j++)
            if (n->src[j] != 0 && !is_in(k, n->src[j]))
                depend_on(o, step, n->src[j]);
    }
}

static void build_steps(Order *o)
{
    for (uint32_t i = 0; i < o->n; i++) {
        const PlanKernel *k = &o->plan->kernels.data[i];
        if (!k->is_last && (k->copy.src == 0 || k->copy.dst.buf == o->plan->locs.data[k->root].buf))
            vec_push(o->pass->scratch, &o->producers[k->root], i);
    }
    inherit_producers(o);
    for (uint32_t i = 0; i < o->n; i++)
        read_operands(o, i);
}

typedef struct Live {
    uint32_t *readers_left; // by buffer
    bool *is_live;
    uint64_t now, peak;
} Live;

static uint64_t buffer_bytes(const Order *o, BufId b)
{
    return o->plan->buffers.data[b].bytes;
}

static Live live_begin(const Order *o)
{
    Arena *a = o->pass->scratch;
    const uint32_t n = o->plan->buffers.len;
    Live live = {.readers_left = ARENA_ARRAY(a, uint32_t, n), .is_live = ARENA_ARRAY(a, bool, n)};
    for (uint32_t i = 0; i < o->n; i++)
        for (uint32_t j = 0; j < o->step[i].reads.len; j++)
            live.readers_left[o->step[i].reads.data[j]]++;
    for (uint32_t i = 0; i < o->plan->inputs.len; i++) {
        const BufId b = o->plan->inputs.data[i].buf;
        live.now += live.is_live[b] ? 0 : buffer_bytes(o, b);
        live.is_live[b] = true;
    }
    for (uint32_t i = 0; i < o->plan->outputs.len; i++)
        live.readers_left[o->plan->outputs.data[i].buf]++; // stays to the end
    for (uint32_t i = 0; i < o->plan->sizes.len; i++)
        live.readers_left[o->plan->sizes.data[i].buf]++;
    for (uint32_t i = 0; i < o->plan->checks.len; i++)
        live.readers_left[o->plan->checks.data[i].buf]++;
    return live;
}

// Bytes that running a step adds (what it writes and is not live yet) and frees (what it is the last to
// read).
static void step_effect(const Order *o, const Live *live, uint32_t step, uint64_t *adds, uint64_t *frees)
{
    const OrderStep *s = &o->step[step];
    *adds = *frees = 0;
    for (uint32_t i = 0; i < s->writes.len; i++)
        *adds += live->is_live[s->writes.data[i]] ? 0 : buffer_bytes(o, s->writes.data[i]);
    for (uint32_t i = 0; i < s->reads.len; i++)
        *frees += live->readers_left[s->reads.data[i]] == 1 ? buffer_bytes(o, s->reads.data[i]) : 0;
}

static void live_step(const Order *o, Live *live, uint32_t step)
{
    uint64_t adds, frees;
    step_effect(o, live, step, &adds, &frees);
    for (uint32_t i = 0; i < o->step[step].writes.len; i++)
        live->is_live[o->step[step].writes.data[i]] = true;
    for (uint32_t i = 0; i < o->step[step].reads.len; i++)
        live->readers_left[o->step[step].reads.data[i]]--;
    live->peak = live->now + adds > live->peak ? live->now + adds : live->peak;
    live->now += adds - frees;
}

static uint64_t peak_of(const Order *o, const uint32_t *order)
{
    Live live = live_begin(o);
    for (uint32_t i = 0; i < o->n; i++)
        live_step(o, &live, order[i]);
    return live.peak;
}

typedef enum TieRule { TIE_EARLIEST, TIE_LATEST, TIE_LOWEST_PEAK, TIE_COUNT } TieRule;

static bool is_better(const Order *o, const Live *live, uint32_t a, uint32_t b, TieRule rule)
{
    uint64_t adds_a, frees_a, adds_b, frees_b;
    step_effect(o, live, a, &adds_a, &frees_a);
    step_effect(o, live, b, &adds_b, &frees_b);
    const int64_t net_a = (int64_t)adds_a - (int64_t)frees_a, net_b = (int64_t)adds_b - (int64_t)frees_b;
    if (rule == TIE_LOWEST_PEAK && adds_a != adds_b && net_a <= 0 && net_b <= 0)
        return adds_a < adds_b;
    if (net_a != net_b)
        return net_a < net_b;
    return rule == TIE_LATEST ? a > b : a < b;
}

// Kernels that move or write states are before or behind all others.
static int32_t place_among(const Order *o, uint32_t step)
{
    const PlanKernel *k = &o->plan->kernels.data[step];
    return k->is_last - k->is_first;
}

static void schedule(const Order *o, TieRule rule, uint32_t *order)
{
    Arena *a = o->pass->scratch;
    Live live = live_begin(o);
    uint32_t *waiting = ARENA_ARRAY(a, uint32_t, o->n);
    Indices ready = {0};
    for (uint32_t i = 0; i < o->n; i++) {
        waiting[i] = o->step[i].n_before;
        if (waiting[i] == 0)
            vec_push(a, &ready, i);
    }
    for (uint32_t done = 0; done < o->n; done++) {
        rlx_assert(ready.len > 0);
        uint32_t best = 0;
        for (uint32_t i = 1; i < ready.len; i++) {
            const uint32_t step = ready.data[i], other = ready.data[best];
            const int32_t place = place_among(o, step), of_other = place_among(o, other);
            if (place != of_other ? place < of_other : is_better(o, &live, step, other, rule))
                best = i;
        }
        const uint32_t step = ready.data[best];
        ready.data[best] = ready.data[--ready.len];
        order[done] = step;
        live_step(o, &live, step);
        for (uint32_t i = 0; i < o->step[step].users.len; i++)
            if (--waiting[o->step[step].users.data[i]] == 0)
                vec_push(a, &ready, o->step[step].users.data[i]);
    }
}

// Does every kernel stand before those that use what it makes?
static bool is_topological(const Order *o, const uint32_t *order)
{
    uint32_t *place = ARENA_ARRAY(o->pass->scratch, uint32_t, o->n);
    for (uint32_t i = 0; i < o->n; i++)
        place[order[i]] = i + 1;
    for (uint32_t i = 0; i < o->n; i++) {
        for (uint32_t j = 0; j < o->step[i].users.len; j++)
            if (place[i] >= place[o->step[i].users.data[j]])
                return false;
        if (place[i] == 0)
            return false;
    }
    return true;
}

static void apply(Order *o, const uint32_t *order)
{
    rlx_assert(is_topological(o, order));
    PlanKernel *sorted = ARENA_ARRAY(o->pass->scratch, PlanKernel, o->n);
    for (uint32_t i = 0; i < o->n; i++)
        sorted[i] = o->plan->kernels.data[order[i]];
    memcpy(o->plan->kernels.data, sorted, o->n * sizeof *sorted);
}

bool pass_order(Pass *p)
{
    rlx_assert(p->plan->kernels.len == 0 || p->plan->kernels.data[0].kernel == NULL);
    Order o = {.pass = p, .plan = p->plan, .g = p->plan->graph, .n = p->plan->kernels.len};
    if (o.n == 0 || (o.n < 3 && o.plan->live == NULL) || o.n > ORDER_SEARCH_KERNELS)
        return false;
    o.step = ARENA_ARRAY(p->scratch, OrderStep, o.n);
    o.producers = ARENA_ARRAY(p->scratch, Indices, o.g->nodes.len);
    build_steps(&o);
    uint32_t *best = ARENA_ARRAY(p->scratch, uint32_t, o.n), *order = ARENA_ARRAY(p->scratch, uint32_t, o.n);
    for (uint32_t i = 0; i < o.n; i++)
        best[i] = i;
    if (o.plan->live != NULL) // nodes stand before the sizes that their kernels read
        schedule(&o, TIE_EARLIEST, best);
    const uint64_t original = peak_of(&o, best);
    uint64_t lowest = original;
    for (TieRule rule = TIE_EARLIEST; rule < TIE_COUNT && !p->options->no_reorder; rule++) {
        schedule(&o, rule, order);
        const uint64_t peak = peak_of(&o, order);
        if (peak < lowest) {
            lowest = peak;
            memcpy(best, order, o.n * sizeof *best);
        }
    }
    apply(&o, best);
    return lowest < original;
}
