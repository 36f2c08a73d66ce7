// SPDX-License-Identifier: Apache-2.0
// See ops_hash.h.
#include "ops_hash.h"

uint64_t ops_hash_numbers(uint64_t hash, const uint64_t *v, size_t n)
{
    return hash_bytes64(v, n * sizeof *v, hash);
}

static uint64_t hash_ios(uint64_t hash, const PlanIo *io, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t all[] = {n, io[i].node, io[i].buf, io[i].byte_offset, io[i].bytes};
        hash = ops_hash_numbers(hash, all, sizeof all / sizeof *all);
    }
    return hash;
}

uint64_t ops_hash_facts(const Plan *p, OpsPlaces places, uint64_t hash)
{
    for (BufId b = 1; b < p->buffers.len; b++) {
        const PlanBuffer *x = &p->buffers.data[b];
        const uint64_t all[] = {x->region, x->bytes, x->shares, x->slot, x->first == UINT32_MAX, x->offset};
        hash = ops_hash_numbers(hash, all, sizeof all / sizeof *all - (places == OPS_APART));
    }
    for (uint32_t i = 0; i < p->slots.len; i++) {
        const PlanSlot *s = &p->slots.data[i];
        hash = ops_hash_numbers(hash, (const uint64_t[]){s->arg, (uint64_t)s->start, (uint64_t)s->step}, 3);
    }
    hash = hash_ios(hash, p->inputs.data, p->inputs.len);
    hash = hash_ios(hash, p->outputs.data, p->outputs.len);
    hash = hash_ios(hash, p->params.data, p->params.len);
    hash = hash_ios(hash, p->states.data, p->states.len);
    hash = hash_ios(hash, p->sizes.data, p->sizes.len);
    const uint64_t all[] = {p->page, p->prepare.n_kernels, p->n_check_kernels, p->checks.len};
    return ops_hash_numbers(hash, all, sizeof all / sizeof *all);
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
