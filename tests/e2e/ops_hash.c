// SPDX-License-Identifier: Apache-2.0
// See ops_hash.h.
#include "ops_hash.h"
#include "ir/kernel/kernel.h"

#include <string.h>

uint64_t ops_hash_numbers(uint64_t hash, const uint64_t *v, size_t n)
{
    return hash_bytes64(v, n * sizeof *v, hash);
}

static uint64_t hash_string(uint64_t hash, const char *s)
{
    return s != NULL ? hash_bytes64(s, strlen(s) + 1, hash) : hash_bytes64("", 0, hash);
}

static uint64_t hash_ios(uint64_t hash, const PlanIo *io, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t all[] = {n,           io[i].node,  io[i].buf,  io[i].byte_offset,
                                io[i].bytes, io[i].dtype, io[i].rank, io[i].sizes};
        hash = ops_hash_numbers(hash, all, sizeof all / sizeof *all);
        hash = hash_string(hash_bytes64(io[i].dim, io[i].rank * sizeof *io[i].dim, hash), io[i].name);
    }
    return hash;
}

static uint64_t hash_map(uint64_t hash, const PlanTensorMap *m)
{
    const uint64_t all[] = {m->buf,      m->byte_offset,      m->type,
                            m->rank,     m->swizzle,          m->is_image,
                            m->step[0],  m->step[1],          (uint64_t)m->low[0],
                            (uint64_t)m->low[1], (uint64_t)m->high[0], (uint64_t)m->high[1]};
    hash = ops_hash_numbers(hash, all, sizeof all / sizeof *all);
    hash = ops_hash_numbers(hash, m->dim, m->rank);
    hash = ops_hash_numbers(hash, m->stride, m->rank);
    return hash_bytes64(m->box, m->rank * sizeof *m->box, hash);
}

static uint64_t hash_buffer(uint64_t hash, const PlanBuffer *x, OpsPlaces places)
{
    const uint64_t all[] = {x->region, x->bytes, x->shares, x->slot, x->first == UINT32_MAX, x->offset};
    hash = ops_hash_numbers(hash, all, sizeof all / sizeof *all - (places == OPS_APART));
    return x->map != NULL ? hash_map(hash, x->map) : hash;
}

uint64_t ops_hash_facts(const Plan *p, OpsPlaces places, uint64_t hash)
{
    for (BufId b = 1; b < p->buffers.len; b++)
        hash = hash_buffer(hash, &p->buffers.data[b], places);
    for (uint32_t i = 0; i < p->slots.len; i++) {
        const PlanSlot *s = &p->slots.data[i];
        hash = ops_hash_numbers(hash, (const uint64_t[]){s->arg, (uint64_t)s->start, (uint64_t)s->step}, 3);
    }
    hash = hash_ios(hash, p->inputs.data, p->inputs.len);
    hash = hash_ios(hash, p->outputs.data, p->outputs.len);
    hash = hash_ios(hash, p->params.data, p->params.len);
    hash = hash_ios(hash, p->states.data, p->states.len);
    hash = hash_ios(hash, p->sizes.data, p->sizes.len);
    for (uint32_t i = 0; i < p->checks.len; i++) {
        const PlanCheck *c = &p->checks.data[i];
        hash = hash_string(ops_hash_numbers(hash, (const uint64_t[]){c->buf, c->byte_offset}, 2), c->message);
    }
    const uint64_t all[] = {p->page, p->prepare.n_kernels, p->n_check_kernels, p->checks.len, p->is_shared,
                            p->region_bytes[REGION_ARENA]};
    return ops_hash_numbers(hash, all, sizeof all / sizeof *all - (places == OPS_APART));
}

typedef struct KernelHash {
    OpsPlaces places;
    uint64_t hash;
    Str text;
} KernelHash;

static void hash_text_of(KernelHash *h, const Kernel *k)
{
    h->text.len = 0;
    kernel_print(k, &h->text);
    h->hash = hash_bytes64(str_text(&h->text), h->text.len, h->hash);
}

static void hash_loop(KernelHash *h, const PlanLoop *l)
{
    const uint64_t all[] = {
        (uint64_t)l->max_trips, l->trips, l->cond, l->arena, l->weights, l->count, l->has_cond,
        l->is_on_device};
    h->hash = ops_hash_numbers(h->hash, all, sizeof all / sizeof *all);
    h->hash = hash_bytes64(l->cleared.data, l->cleared.len * sizeof *l->cleared.data, h->hash);
    for (uint32_t i = 0; i < l->moves.len; i++) {
        const PlanMove *m = &l->moves.data[i];
        h->hash =
            ops_hash_numbers(h->hash, (const uint64_t[]){m->arg, (uint64_t)m->start, (uint64_t)m->step}, 3);
    }
    h->hash = ops_hash_facts(l->body, OPS_PLANNED, h->hash); // in memory that the loop is given
}

static void hash_kernel(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    KernelHash *h = ctx;
    (void)p, (void)times;
    hash_text_of(h, k->kernel);
    for (uint32_t i = 0; i < k->args.len; i++) {
        const PlanArg *a = &k->args.data[i];
        const uint64_t numbers[] = {a->buf,   a->byte_offset, a->begin,   a->end,
                                    a->below, a->is_written,  a->is_read, a->move};
        h->hash = ops_hash_numbers(h->hash, numbers, sizeof numbers / sizeof *numbers);
    }
    const PlanThreads *t = &k->threads;
    const uint64_t facts[] = {k->args.len, t->is_shared, t->waits, t->thread, k->is_last, k->is_start};
    h->hash = ops_hash_numbers(h->hash, facts, sizeof facts / sizeof *facts);
    if (k->loop != NULL)
        hash_loop(h, k->loop);
    for (uint32_t i = 0; i < t->phases.len; i++) {
        const PlanPhase *phase = &t->phases.data[i];
        hash_text_of(h, phase->kernel);
        h->hash =
            hash_bytes64(phase->args, phase->kernel->params.len * sizeof *phase->args, h->hash);
    }
}

uint64_t ops_hash_kernels(Arena *scratch, const Plan *p, OpsPlaces places, uint64_t hash)
{
    KernelHash h = {.places = places, .hash = hash, .text = str_new(scratch)};
    plan_walk(p, hash_kernel, &h);
    return h.hash;
}

uint64_t ops_hash_constants(Arena *scratch, const Plan *p, uint64_t hash)
{
    for (BufId b = 1; b < p->buffers.len; b++) {
        const PlanBuffer *buf = &p->buffers.data[b];
        const void *bytes = buf->region != REGION_ARENA ? plan_buffer_bytes(buf, scratch) : NULL;
        if (bytes != NULL)
            hash = hash_bytes64(bytes, buf->bytes, hash);
    }
    return hash;
}
