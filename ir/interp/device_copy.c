// SPDX-License-Identifier: Apache-2.0
// Device functions of the copy engine (sm_90): boxes of tensors, and runs of bytes. Memory is read, and
// written, when a copy is begun; until it has been waited for, nothing orders that against what others do, so
// that whoever comes too early is in a race.
#include "ir/interp/device_bar.h"
#include "ir/interp/device_box.h"
#include "ir/interp/device_matrix.h"

#include <string.h>

enum {
    CHUNK = 16, // bytes that stay together in a swizzled line
    UNIT = 2,   // bytes that are poison, or not
    ENGINE_ALIGN = 128,
    MAX_LINE = 1024, // bytes of a box's line
    MAX_GROUPS = 4   // of stores that are under way
};

// --- memory --------------------------------------------------------------------------------------

// n bytes of a parameter; is_poison: by unit.
static bool read_param(const Call *c, uint32_t who, Address from, unsigned char *to, uint32_t n,
                       bool *is_poison)
{
    bool poison = false;
    memset(is_poison, 0, (n + UNIT - 1) / UNIT);
    if (n == 0 || (param_read(c, who, from, to, n, &poison) && !poison))
        return true;
    for (uint32_t i = 0; poison && i < n; i += UNIT) {
        const uint32_t left = n - i < UNIT ? n - i : UNIT;
        const Address at = {from.param, from.byte + i};
        is_poison[i / UNIT] = false;
        if (!param_read(c, who, at, to + i, left, &is_poison[i / UNIT]))
            return false;
    }
    return poison;
}

// 16 bytes into the memory of a group.
static bool write_chunk(const Call *c, uint32_t who, uint32_t rank, int64_t to, const unsigned char *from,
                        const bool *is_poison)
{
    uint32_t n_bad = 0;
    for (uint32_t i = 0; i < CHUNK / UNIT; i++)
        n_bad += is_poison[i];
    if (n_bad == 0 || n_bad == CHUNK / UNIT)
        return shared_write(c, who, rank, to, from, CHUNK, n_bad != 0);
    for (uint32_t i = 0; i < CHUNK / UNIT; i++)
        if (!shared_write(c, who, rank, to + UNIT * i, from + UNIT * i, UNIT, is_poison[i]))
            return false;
    return true;
}

// Bytes first to end of 16 in the memory of a group, to a parameter where byte 0 is at `to`.
static bool store_chunk(const Call *c, uint32_t who, int64_t from, Address to, uint32_t first, uint32_t end)
{
    const uint32_t rank = machine_group_of(c->m, c->begin);
    unsigned char bytes[CHUNK];
    bool poison = false;
    Address at = {to.param, to.byte + first};
    if (first >= end)
        return true;
    if (!shared_read(c, who, rank, from + first, bytes, end - first, &poison))
        return false;
    if (!poison)
        return param_write(c, who, at, bytes, end - first, false);
    for (uint32_t i = first; i < end; i += UNIT) {
        const uint32_t n = end - i < UNIT ? end - i : UNIT;
        bool is_bad = false;
        at.byte = to.byte + i;
        if (!shared_read(c, who, rank, from + i, bytes, n, &is_bad) ||
            !param_write(c, who, at, bytes, n, is_bad))
            return false;
    }
    return true;
}

// --- loads ---------------------------------------------------------------------------------------

// A box to address `to` of the groups that `groups` has bits of, whose barriers at address `bar` count it.
typedef struct Load {
    const PlanTensorMap *map;
    BoxAt at;
    Address from; // of the map
    int64_t to, bar;
    uint32_t groups;
} Load;

static bool check_place(const Call *c, uint32_t t, const PlanTensorMap *map, const BoxAt *at, int64_t address)
{
    const char *wrong = map == NULL                   ? "an address that is no tensor map"
                        : address % ENGINE_ALIGN != 0 ? "a box at no multiple of 128 bytes"
                                                      : box_wrong(map, at);
    if (wrong != NULL)
        call_fail(c, t, "%s", wrong);
    return wrong == NULL;
}

// The barrier of a group that a copy is to be counted by.
static Bar *bar_of_copy(const Call *c, uint32_t t, uint32_t rank, int64_t address)
{
    Bar *b = bar_used(c, t, rank, address);
    if (b == NULL || b->is_fenced)
        return b;
    call_fail(c, t, "a copy for a barrier without bar_init_done");
    return NULL;
}

// A line of the box into all groups.
static bool load_line(const Call *c, uint32_t who, const Load *l, uint32_t line)
{
    const uint32_t bytes = box_line_bytes(l->map);
    const BoxLine at = box_line(l->map, &l->at, line);
    unsigned char data[MAX_LINE] = {0};
    bool is_poison[MAX_LINE / UNIT] = {false};
    const Address from = {l->from.param, at.from + at.first};
    rlx_assert(bytes <= MAX_LINE);
    if (!read_param(c, who, from, data + at.first, at.end - at.first, is_poison + at.first / UNIT))
        return false;
    for (uint32_t rank = 0; l->groups >> rank != 0; rank++)
        for (uint32_t i = 0; (l->groups >> rank & 1) != 0 && i < bytes; i += CHUNK) {
            const int64_t plain = l->to + (int64_t)line * bytes + i;
            const int64_t to = matrix_swizzled((uint32_t)plain, l->map->swizzle);
            if (!write_chunk(c, who, rank, to, data + i, is_poison + i / UNIT))
                return false;
        }
    return true;
}

static bool load_box(const Call *c, uint32_t t, const Load *l)
{
    const uint32_t n = machine_threads(c->m) / machine_group_size(c->m);
    if (l->groups == 0 || l->groups >> n != 0)
        return call_fail(c, t, "groups %x of a cluster of %u", l->groups, n);
    if (!check_place(c, t, l->map, &l->at, l->to))
        return false;
    for (uint32_t rank = 0; rank < n; rank++)
        if ((l->groups >> rank & 1) != 0 && bar_of_copy(c, t, rank, l->bar) == NULL)
            return false;
    const uint32_t who = agent_begin(c->m, t, AGENT_ASYNC);
    for (uint32_t line = 0; line < box_lines(l->map); line++)
        if (!load_line(c, who, l, line))
            return false;
    for (uint32_t rank = 0; rank < n; rank++)
        if ((l->groups >> rank & 1) != 0)
            bar_complete(c, bar_at(c, t, rank, l->bar), who, box_bytes(l->map));
    return true;
}

// Operands: to, map, coordinates, of pixels two more, barrier, and where it is shared the groups.
static CallResult load(Call *c, uint32_t rank, bool is_image, bool is_shared)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        uint32_t i = 2;
        Load l = {.to = call_int(c, 0, t), .from = call_address(c, 1, t)};
        l.map = machine_arg(c->m, l.from.param)->map;
        if (l.map != NULL && (l.map->rank != rank || l.map->is_image != is_image))
            return call_done(call_fail(c, t, "a map of rank %u for a copy of rank %u", l.map->rank, rank));
        for (uint32_t axis = 0; axis < rank; axis++)
            l.at.at[axis] = call_int(c, i++, t);
        for (uint32_t axis = 0; is_image && axis < 2; axis++)
            l.at.tap[axis] = call_int(c, i++, t);
        l.bar = call_int(c, i++, t);
        l.groups = is_shared ? (uint32_t)call_int(c, i, t) & 0xffff : 1u << machine_group_of(c->m, t);
        if (!load_box(c, t, &l))
            break;
    }
    return CALL_DONE;
}

CallResult interp_tma_load_2d(Call *c)
{
    return load(c, 2, false, false);
}

CallResult interp_tma_load_3d(Call *c)
{
    return load(c, 3, false, false);
}

CallResult interp_tma_load_4d(Call *c)
{
    return load(c, 4, false, false);
}

CallResult interp_tma_share_2d(Call *c)
{
    return load(c, 2, false, true);
}

CallResult interp_tma_share_3d(Call *c)
{
    return load(c, 3, false, true);
}

CallResult interp_tma_share_4d(Call *c)
{
    return load(c, 4, false, true);
}

CallResult interp_tma_load_pixels(Call *c)
{
    return load(c, 4, true, false);
}

CallResult interp_bulk_load(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        const uint32_t rank = machine_group_of(c->m, t);
        const int64_t to = call_int(c, 0, t), n = call_int(c, 2, t);
        const Address from = call_address(c, 1, t);
        Bar *b = bar_of_copy(c, t, rank, call_int(c, 3, t));
        if (b == NULL)
            break;
        if (n <= 0 || n % CHUNK != 0 || to % CHUNK != 0)
            return call_done(call_fail(c, t, "a copy of %lld bytes to %lld", (long long)n, (long long)to));
        const uint32_t who = agent_begin(c->m, t, AGENT_ASYNC);
        for (int64_t i = 0; i < n; i += CHUNK) {
            unsigned char data[CHUNK];
            bool is_poison[CHUNK / UNIT];
            if (!read_param(c, who, (Address){from.param, from.byte + i}, data, CHUNK, is_poison) ||
                !write_chunk(c, who, rank, to + i, data, is_poison))
                return CALL_DONE;
        }
        bar_complete(c, b, who, n);
    }
    return CALL_DONE;
}

// --- stores --------------------------------------------------------------------------------------

// Stores of a thread: those since the last commit, then groups, the newest first, of which so many have not
// been waited for.
typedef struct Stores {
    Sync open, group[MAX_GROUPS];
    uint32_t n_running;
} Stores;

static Stores *stores_of(Machine *m, uint32_t t)
{
    Stores *all = machine_state(m, KDEV_bulk_commit, machine_threads(m) * sizeof(Stores));
    return &all[t];
}

const char *stores_left(Machine *m, uint32_t t)
{
    const Stores *s = stores_of(m, t);
    return s->n_running == 0 && s->open.known == NULL ? NULL : "it ends before the stores that it began";
}

// Operands: map, from, coordinates.
static CallResult store(Call *c, uint32_t rank)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        const Address to = call_address(c, 0, t);
        const PlanTensorMap *map = machine_arg(c->m, to.param)->map;
        const int64_t from = call_int(c, 1, t);
        BoxAt at = {0};
        for (uint32_t axis = 0; axis < rank; axis++)
            at.at[axis] = call_int(c, 2 + axis, t);
        if (!check_place(c, t, map, &at, from))
            break;
        if (map->rank != rank || map->is_image)
            return call_done(call_fail(c, t, "a map of rank %u for a copy of rank %u", map->rank, rank));
        const uint32_t who = agent_begin(c->m, t, AGENT_ASYNC), bytes = box_line_bytes(map);
        for (uint32_t line = 0; line < box_lines(map); line++) {
            const BoxLine l = box_line(map, &at, line);
            for (uint32_t i = 0; i < bytes; i += CHUNK) {
                const int64_t place =
                    matrix_swizzled((uint32_t)(from + (int64_t)line * bytes + i), map->swizzle);
                const uint32_t first = l.first > i ? l.first - i : 0;
                const uint32_t end = l.end > i ? l.end - i : 0;
                if (!store_chunk(c, who, place, (Address){to.param, l.from + i}, first,
                                 end < CHUNK ? end : CHUNK))
                    return CALL_DONE;
            }
        }
        sync_release(c->m, who, who + 1, &stores_of(c->m, t)->open);
    }
    return CALL_DONE;
}

CallResult interp_tma_store_2d(Call *c)
{
    return store(c, 2);
}

CallResult interp_tma_store_3d(Call *c)
{
    return store(c, 3);
}

CallResult interp_tma_store_4d(Call *c)
{
    return store(c, 4);
}

CallResult interp_bulk_store(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        const Address to = call_address(c, 0, t);
        const int64_t from = call_int(c, 1, t), n = call_int(c, 2, t);
        if (n <= 0 || n % CHUNK != 0 || from % CHUNK != 0)
            return call_done(call_fail(c, t, "a copy of %lld bytes from %lld", (long long)n,
                                       (long long)from));
        const uint32_t who = agent_begin(c->m, t, AGENT_ASYNC);
        for (int64_t i = 0; i < n; i += CHUNK)
            if (!store_chunk(c, who, from + i, (Address){to.param, to.byte + i}, 0, CHUNK))
                return CALL_DONE;
        sync_release(c->m, who, who + 1, &stores_of(c->m, t)->open);
    }
    return CALL_DONE;
}

CallResult interp_bulk_commit(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        Stores *s = stores_of(c->m, t);
        if (s->n_running++ == MAX_GROUPS)
            return call_done(call_fail(c, t, "more than %d groups of stores under way", MAX_GROUPS));
        const Sync oldest = s->group[MAX_GROUPS - 1];
        memmove(&s->group[1], &s->group[0], (MAX_GROUPS - 1) * sizeof(Sync));
        s->group[0] = s->open;
        s->open = oldest;
        sync_clear(c->m, &s->open);
    }
    return CALL_DONE;
}

static CallResult wait_stores(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        Stores *s = stores_of(c->m, t);
        for (; s->n_running > c->constant; s->n_running--)
            sync_acquire(c->m, t, t + 1, &s->group[s->n_running - 1]);
    }
    return CALL_DONE;
}

CallResult interp_bulk_wait_read(Call *c)
{
    return wait_stores(c);
}

CallResult interp_bulk_wait(Call *c)
{
    return wait_stores(c);
}

CallResult interp_proxy_fence(Call *c)
{
    machine_fence(c->m, c->begin, c->end);
    return CALL_DONE;
}
