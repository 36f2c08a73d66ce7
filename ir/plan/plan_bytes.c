// SPDX-License-Identifier: Apache-2.0
// Which buffer each byte was written for last. Part of plan_verify's replay of kernels.
#include "ir/plan/plan_check.h"

enum { BITS = 64 };

void plan_bytes_add(PlanBytes *b, Arena *a, BufId owner, uint64_t bytes)
{
    for (uint32_t i = 0; i < b->len; i++)
        if (b->data[i].owner == owner)
            return;
    vec_push(a, b, ((PlanWritten){owner, ARENA_ARRAY(a, uint64_t, bytes / BITS + 1)}));
}

// The bits of word `at` that are in [begin, end).
static uint64_t bits_of(uint64_t at, uint64_t begin, uint64_t end)
{
    const uint64_t lo = begin > at * BITS ? begin % BITS : 0, hi = end < (at + 1) * BITS ? end % BITS : BITS;
    return (hi == BITS ? UINT64_MAX : (UINT64_C(1) << hi) - 1) & (UINT64_MAX << lo);
}

void plan_bytes_write(PlanBytes *b, BufId owner, uint64_t begin, uint64_t end)
{
    for (uint32_t i = 0; i < b->len; i++) {
        const PlanWritten *w = &b->data[i];
        for (uint64_t at = begin / BITS; at * BITS < end; at++) {
            const uint64_t bits = bits_of(at, begin, end);
            w->bits[at] = w->owner == owner ? w->bits[at] | bits : w->bits[at] & ~bits;
        }
    }
}

BufId plan_bytes_read(const PlanBytes *b, BufId owner, uint64_t begin, uint64_t end)
{
    for (uint32_t i = 0; i < b->len; i++) {
        const PlanWritten *w = &b->data[i];
        for (uint64_t at = begin / BITS; w->owner != owner && at * BITS < end; at++)
            if ((w->bits[at] & bits_of(at, begin, end)) != 0)
                return w->owner;
    }
    return 0;
}
