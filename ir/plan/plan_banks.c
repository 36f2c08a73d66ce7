// SPDX-License-Identifier: Apache-2.0
// Banks of memory (PlanBank): where buffers are in them, and what plan_verify asks of that. Separate from
// plan.c, because few plans have banks.
#include "ir/plan/plan_check.h"
#include "ir/plan/plan_table.h"

uint32_t plan_count_banks(const Plan *p, bool is_weights)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->banks.len; i++)
        n += p->banks.data[i].is_weights == is_weights;
    return n;
}

const PlanBank *plan_bank_of(const Plan *p, const PlanBuffer *b)
{
    const bool is_weights = b->region == REGION_WEIGHTS;
    if ((!is_weights && b->region != REGION_ARENA) || plan_count_banks(p, is_weights) == 0)
        return NULL;
    rlx_assert(b->bank < p->banks.len && p->banks.data[b->bank].is_weights == is_weights);
    return &p->banks.data[b->bank];
}

// --- verification --------------------------------------------------------------------------------

// The part of a bank does not meet that of another one, and keeps to the size with the state behind it.
static const char *check_bank(const Plan *p, uint32_t at)
{
    const PlanBank *b = &p->banks.data[at];
    const Region region = b->is_weights ? REGION_WEIGHTS : REGION_ARENA;
    if (plan_bank_used(b) > b->size || (b->bytes != 0 && b->base + b->bytes > p->region_bytes[region]))
        return arena_printf(p->arena, "bank %s: more than it has", b->name);
    for (uint32_t i = 0; i < at; i++) {
        const PlanBank *o = &p->banks.data[i];
        if (o->is_weights == b->is_weights && o->base < b->base + b->bytes && b->base < o->base + o->bytes)
            return arena_printf(p->arena, "banks %s and %s overlap", o->name, b->name);
    }
    return NULL;
}

// Every buffer is in one bank as a whole, and with all that shares its bytes.
static const char *check_buffer(const Plan *p, const PlanBuffer *b)
{
    const bool is_weights = b->region == REGION_WEIGHTS;
    if ((!is_weights && b->region != REGION_ARENA) || plan_count_banks(p, is_weights) == 0 ||
        b->first == UINT32_MAX || b->bytes == 0)
        return NULL;
    const PlanBank *bank = b->bank < p->banks.len ? &p->banks.data[b->bank] : NULL;
    if (bank == NULL || bank->is_weights != is_weights || b->offset < bank->base ||
        b->offset + b->bytes > bank->base + bank->bytes)
        return arena_printf(p->arena, "buffer %s is in no bank", b->name);
    if (b->shares != 0 && p->buffers.data[b->shares].bank != b->bank)
        return arena_printf(p->arena, "buffer %s is in another bank than its bytes", b->name);
    return NULL;
}

static const char *check_io(const Plan *p, const PlanIo *io)
{
    const PlanBank *b = io->bytes != 0 ? plan_bank_of(p, &p->buffers.data[io->buf]) : NULL;
    return b != NULL && b->base != 0 ? arena_printf(p->arena, "%s is not in the first bank", io->name) : NULL;
}

const char *plan_check_banks(const Plan *p)
{
    const char *wrong = NULL;
    uint64_t state = 0;
    for (uint32_t i = 0; i < p->banks.len && wrong == NULL; i++) {
        wrong = check_bank(p, i);
        state += p->banks.data[i].state;
    }
    for (BufId b = 1; b < p->buffers.len && wrong == NULL && p->banks.len != 0; b++)
        wrong = check_buffer(p, &p->buffers.data[b]);
    if (wrong == NULL && plan_count_banks(p, false) != 0 && state != plan_state_bytes(p))
        wrong = "the state block is not in one bank";
    for (uint32_t i = 0; plan_io(p, i) != NULL && wrong == NULL; i++)
        wrong = check_io(p, plan_io(p, i));
    return wrong;
}
