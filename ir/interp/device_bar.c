// SPDX-License-Identifier: Apache-2.0
// See device_bar.h.
#include "ir/interp/device_bar.h"

enum { BARS = 64, BAR_BYTES = 8, MAX_ARRIVALS = (1 << 20) - 1 };

static Bar *bars_of(const Call *c, uint32_t rank)
{
    const uint32_t groups = machine_threads(c->m) / machine_group_size(c->m);
    Bar *all = machine_state(c->m, KDEV_bar_init, (size_t)groups * BARS * sizeof(Bar));
    return all + (size_t)rank * BARS;
}

Bar *bar_at(const Call *c, uint32_t t, uint32_t rank, int64_t address)
{
    Bar *all = bars_of(c, rank);
    for (uint32_t i = 0; i < BARS && all[i].address != 0; i++)
        if (all[i].address == address)
            return &all[i];
    call_fail(c, t, "no barrier was made at address %lld of group %u of the cluster", (long long)address,
              rank);
    return NULL;
}

Bar *bar_used(const Call *c, uint32_t t, uint32_t rank, int64_t address)
{
    uint64_t bits = 0;
    bool poison = false;
    Bar *b = bar_at(c, t, rank, address);
    if (b == NULL || !shared_read(c, t, rank, address, &bits, BAR_BYTES, &poison))
        return NULL;
    if (poison) {
        call_fail(c, t, "the barrier at address %lld was overwritten", (long long)address);
        return NULL;
    }
    if (!b->is_fenced && t != b->owner && machine_group_of(c->m, t) != rank) {
        call_fail(c, t, "a barrier of another group, without bar_init_done");
        return NULL;
    }
    return b;
}

CallResult interp_bar_init(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        const uint32_t rank = machine_group_of(c->m, t);
        const int64_t address = call_int(c, 0, t), arrivals = call_int(c, 1, t);
        const uint64_t bits = 0;
        Bar *all = bars_of(c, rank);
        uint32_t i = 0;
        while (i < BARS && all[i].address != 0 && all[i].address != address)
            i++;
        if (i == BARS || address % BAR_BYTES != 0 || arrivals < 1 || arrivals > MAX_ARRIVALS)
            return call_done(call_fail(c, t, "no barrier of %lld arrivals at address %lld",
                                       (long long)arrivals, (long long)address));
        if (!shared_write(c, t, rank, address, &bits, BAR_BYTES, false))
            return CALL_DONE;
        all[i] = (Bar){
            .address = address, .arrivals = (uint32_t)arrivals, .pending = (uint32_t)arrivals, .owner = t};
    }
    return CALL_DONE;
}

CallResult interp_bar_init_done(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        Bar *all = bars_of(c, machine_group_of(c->m, t));
        for (uint32_t i = 0; i < BARS && all[i].address != 0; i++)
            all[i].is_fenced |= all[i].owner == t;
    }
    return CALL_DONE;
}

static void end_phase(const Call *c, Bar *b)
{
    if (b->pending != 0 || b->bytes != 0)
        return;
    const Sync old = b->done;
    b->done = b->now;
    b->now = old;
    sync_clear(c->m, &b->now);
    b->pending = b->arrivals;
    b->phase++;
    machine_progress(c->m);
}

void bar_complete(const Call *c, Bar *b, uint32_t who, int64_t n)
{
    sync_release(c->m, who, who + 1, &b->now);
    b->bytes -= n;
    end_phase(c, b);
}

static bool arrive(const Call *c, uint32_t t, uint32_t rank, int64_t bytes)
{
    Bar *b = bar_used(c, t, rank, call_int(c, 0, t));
    if (b == NULL)
        return false;
    if (b->pending == 0)
        return call_fail(c, t, "more arrivals than the %u of the barrier", b->arrivals);
    sync_release(c->m, t, t + 1, &b->now);
    b->pending--;
    b->bytes += bytes;
    end_phase(c, b);
    return true;
}

CallResult interp_bar_expect(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        if (!arrive(c, t, machine_group_of(c->m, t), call_int(c, 1, t)))
            break;
    return CALL_DONE;
}

CallResult interp_bar_arrive(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        if (!arrive(c, t, machine_group_of(c->m, t), 0))
            break;
    return CALL_DONE;
}

CallResult interp_bar_arrive_at(Call *c)
{
    const uint32_t groups = machine_threads(c->m) / machine_group_size(c->m);
    for (uint32_t t = c->begin; t < c->end; t++) {
        const int64_t rank = call_int(c, 1, t);
        if (rank < 0 || rank >= groups)
            return call_done(call_fail(c, t, "no group %lld in the cluster", (long long)rank));
        if (!arrive(c, t, (uint32_t)rank, 0))
            break;
    }
    return CALL_DONE;
}

// Has the phase of the parity that thread t asks for ended? Before the first one, that of 1 has.
static bool has_ended(const Bar *b, int64_t parity)
{
    return (int64_t)(b->phase & 1) != parity;
}

CallResult interp_bar_wait(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        const int64_t parity = call_int(c, 1, t);
        const Bar *b = bar_at(c, t, machine_group_of(c->m, t), call_int(c, 0, t));
        if (b == NULL)
            return CALL_DONE;
        if (parity != 0 && parity != 1)
            return call_done(call_fail(c, t, "parity %lld", (long long)parity));
        if (!has_ended(b, parity))
            return CALL_BLOCKED;
    }
    for (uint32_t t = c->begin, end = t; t < c->end; t = end) {
        const int64_t address = call_int(c, 0, t);
        const uint32_t rank = machine_group_of(c->m, t);
        while (end < c->end && call_int(c, 0, end) == address && machine_group_of(c->m, end) == rank)
            end++;
        const Bar *b = bar_used(c, end - 1, rank, address); // most often not the thread that made it
        if (b == NULL)
            break;
        sync_acquire(c->m, t, end, &b->done);
    }
    return CALL_DONE;
}
