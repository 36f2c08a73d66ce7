// SPDX-License-Identifier: Apache-2.0
// Device functions by which threads wait for each other, and those that are values or hints.
#include "ir/graph/small_float.h"
#include "ir/interp/device_matrix.h"
#include "ir/interp/state.h"

#include <math.h>

enum { NAMED = 16 };

// A barrier that so many threads of a group, or of a cluster, come to. turn: how often all of them have.
typedef struct Meeting {
    uint32_t arrived, threads;
    uint64_t turn;
    Sync now, done;
} Meeting;

// Threads begin .. end - 1 are there.
static bool arrive(const Call *c, Meeting *b, uint32_t begin, uint32_t end, uint32_t threads)
{
    if (b->arrived != 0 && b->threads != threads)
        return call_fail(c, begin, "a barrier of %u threads that is one of %u for others", threads,
                         b->threads);
    b->threads = threads;
    b->arrived += end - begin;
    if (b->arrived > threads)
        return call_fail(c, begin, "%u threads at a barrier of %u", b->arrived, threads);
    sync_release(c->m, begin, end, &b->now);
    if (b->arrived < threads)
        return true;
    const Sync old = b->done;
    b->done = b->now;
    b->now = old;
    sync_clear(c->m, &b->now);
    b->arrived = 0;
    b->turn++;
    machine_progress(c->m);
    return true;
}

// The barriers of the groups that run, by number, and which turn of its barrier each thread waits for.
typedef struct Room {
    Meeting *barriers;
    uint64_t *turns;
} Room;

static Room room_of(const Call *c)
{
    const uint32_t threads = machine_threads(c->m), groups = threads / machine_group_size(c->m);
    const size_t barriers = groups * NAMED * sizeof(Meeting);
    char *all = machine_state(c->m, KDEV_named_sync, barriers + threads * sizeof(uint64_t));
    return (Room){(Meeting *)(void *)all, (uint64_t *)(void *)(all + barriers)};
}

// The barrier of thread t, number 0 being that of the cluster; NULL with a message.
static Meeting *meeting_of(const Call *c, Room *r, uint32_t t, bool is_cluster, uint32_t *threads)
{
    const uint32_t group = machine_group_size(c->m);
    *threads = machine_threads(c->m);
    if (is_cluster)
        return &r->barriers[0];
    const int64_t id = call_int(c, 0, t), n = call_int(c, 1, t);
    if (id < 1 || id >= NAMED || n < MATRIX_LANES || n > group || n % MATRIX_LANES != 0) {
        call_fail(c, t, "no barrier %lld of %lld threads", (long long)id, (long long)n);
        return NULL;
    }
    *threads = (uint32_t)n;
    return &r->barriers[machine_group_of(c->m, t) * NAMED + (uint32_t)id];
}

// All threads of the call arrive, those of one barrier at once.
static bool arrive_all(const Call *c, Room *r, bool is_cluster)
{
    for (uint32_t t = c->begin; t < c->end;) {
        uint32_t threads = 0, end = t, others = 0;
        Meeting *b = meeting_of(c, r, t, is_cluster, &threads);
        if (b == NULL)
            return false;
        while (end < c->end && meeting_of(c, r, end, is_cluster, &others) == b && others == threads)
            r->turns[end++] = b->turn + 1;
        if (!arrive(c, b, t, end, threads))
            return false;
        t = end;
    }
    return true;
}

static CallResult meet(Call *c, bool is_cluster)
{
    Room r = room_of(c);
    uint32_t threads = 0;
    if (*c->token == 0 && !arrive_all(c, &r, is_cluster))
        return CALL_DONE;
    *c->token = 1;
    for (uint32_t t = c->begin; t < c->end; t++)
        if (meeting_of(c, &r, t, is_cluster, &threads)->turn < r.turns[t])
            return CALL_BLOCKED;
    for (uint32_t t = c->begin, end = t; t < c->end; t = end) {
        const Meeting *b = meeting_of(c, &r, t, is_cluster, &threads);
        while (end < c->end && meeting_of(c, &r, end, is_cluster, &threads) == b)
            end++;
        sync_acquire(c->m, t, end, &b->done);
    }
    return CALL_DONE;
}

CallResult interp_cluster_sync(Call *c)
{
    return meet(c, true);
}

// All groups of the launch run at once (Kernel.resident).
CallResult interp_grid_sync(Call *c)
{
    const CallResult result = meet(c, true);
    for (uint32_t t = c->begin; t < c->end && result == CALL_DONE; t++)
        call_set_var(c, 0, t, 0);
    return result;
}

CallResult interp_named_sync(Call *c)
{
    return meet(c, false);
}

CallResult interp_named_arrive(Call *c)
{
    Room r = room_of(c);
    arrive_all(c, &r, false);
    return CALL_DONE;
}

CallResult interp_warp_sync(Call *c)
{
    if (!call_gathers(c, MATRIX_LANES))
        return CALL_BLOCKED;
    for (uint32_t warp = c->begin; warp < c->end; warp += MATRIX_LANES)
        sync_all(c->m, warp, warp + MATRIX_LANES);
    return CALL_DONE;
}

CallResult interp_coop_sync(Call *c)
{
    return interp_warp_sync(c);
}

// --- counters ------------------------------------------------------------------------------------

CallResult interp_take_number(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        uint32_t before = 0;
        if (!param_atomic_add(c, t, call_address(c, 1, t), 1, &before))
            break;
        call_set_var(c, 0, t, (int32_t)before);
    }
    return CALL_DONE;
}

CallResult interp_reset_number(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        if (!param_atomic_set(c, t, call_address(c, 0, t), 0))
            break;
    return CALL_DONE;
}

CallResult interp_max_number(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        if (!param_atomic_max(c, t, call_address(c, 0, t), (int32_t)call_int(c, 1, t)))
            break;
    return CALL_DONE;
}

CallResult interp_leave(Call *c)
{
    (void)c;
    return CALL_LEAVE;
}

// --- hints ---------------------------------------------------------------------------------------

CallResult interp_registers_down(Call *c)
{
    return call_gathers(c, MATRIX_LANES) ? CALL_DONE : CALL_BLOCKED;
}

CallResult interp_registers_up(Call *c)
{
    return call_gathers(c, MATRIX_LANES) ? CALL_DONE : CALL_BLOCKED;
}

CallResult interp_map_prefetch(Call *c)
{
    (void)c;
    return CALL_DONE;
}

// --- values --------------------------------------------------------------------------------------

CallResult interp_has_wgmma(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        call_set_int(c, t, machine_launch(c->m)->has_wgmma);
    return CALL_DONE;
}

CallResult interp_has_grid(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        call_set_int(c, t, machine_launch(c->m)->has_wgmma);
    return CALL_DONE;
}

CallResult interp_has_coop(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        call_set_int(c, t, machine_launch(c->m)->has_coop);
    return CALL_DONE;
}

static CallResult pack(Call *c, DType type)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        const uint32_t low = small_float_narrow(type, (double)call_f32(c, 0, t));
        const uint32_t high = small_float_narrow(type, (double)call_f32(c, 1, t));
        call_set_int(c, t, (int64_t)(low | high << 16));
    }
    return CALL_DONE;
}

CallResult interp_pack_bf16(Call *c)
{
    return pack(c, DTYPE_bf16);
}

CallResult interp_pack_f16(Call *c)
{
    return pack(c, DTYPE_f16);
}

CallResult interp_coop_pair_f16(Call *c)
{
    return pack(c, DTYPE_f16);
}

CallResult interp_coop_pair_bf16(Call *c)
{
    return pack(c, DTYPE_bf16);
}

CallResult interp_max_fast(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        call_set_f32(c, t, fmaxf(call_f32(c, 0, t), call_f32(c, 1, t)));
    return CALL_DONE;
}

// What is below the least normal number is 0, before and after.
static float flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? 0.0f * x : x;
}

CallResult interp_exp2_fast(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        call_set_f32(c, t, flushed(exp2f(flushed(call_f32(c, 0, t)))));
    return CALL_DONE;
}
