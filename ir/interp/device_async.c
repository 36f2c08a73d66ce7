// SPDX-License-Identifier: Apache-2.0
// cp.async (sm_80): copies of 4 or 16 bytes that a thread begins and waits for. What it copies is in shared
// memory at once, but poison until the thread has waited.
#include "ir/interp/state.h"

#include <string.h>

enum {
    CHUNK = 16,
    UNIT = 2,
    MOST = 256 // copies of a thread under way
};

// A copy that is under way. bad: a bit for every unit that is poison in any case.
typedef struct Copy {
    uint32_t to, group;
    uint8_t bad, bytes;
} Copy;

// Of a thread. group: the one that is open.
typedef struct Copies {
    uint32_t n, group;
    Copy copy[MOST];
} Copies;

static Copies *copies_of(const Call *c, uint32_t t)
{
    Copies *all = machine_state(c->m, KDEV_cp_async16, machine_threads(c->m) * sizeof(Copies));
    return &all[t];
}

// The first `n` of `bytes` bytes are read, the others 0.
static bool read_source(const Call *c, uint32_t t, Address from, uint32_t n, unsigned char *to, uint8_t *bad)
{
    bool poison = false;
    *bad = 0;
    if (n == 0)
        return true;
    if (!param_read(c, t, from, to, n, &poison))
        return false;
    for (uint32_t i = 0; poison && i < n; i += UNIT) {
        bool is_bad = false;
        if (!param_read(c, t, (Address){from.param, from.byte + i}, to + i, UNIT, &is_bad))
            return false;
        *bad |= (uint8_t)(is_bad << i / UNIT);
    }
    return true;
}

static bool begin_copy(const Call *c, uint32_t t, int64_t to, Address from, uint32_t bytes, int64_t n)
{
    Copies *all = copies_of(c, t);
    unsigned char data[CHUNK] = {0};
    const EvalArg *arg = machine_arg(c->m, from.param);
    if (all->n == MOST || n < 0 || n > bytes || to % bytes != 0 ||
        ((int64_t)arg->at + from.byte) % bytes != 0)
        return call_fail(c, t, "a copy of %lld bytes from byte %lld to %lld, beside %u others", (long long)n,
                         (long long)from.byte, (long long)to, all->n);
    Copy copy = {.to = (uint32_t)to, .group = all->group + 1, .bytes = (uint8_t)bytes};
    if (!read_source(c, t, from, (uint32_t)n, data, &copy.bad) ||
        !shared_write(c, t, machine_group_of(c->m, t), to, data, bytes, true))
        return false;
    all->copy[all->n++] = copy;
    return true;
}

CallResult interp_cp_async16(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        if (!begin_copy(c, t, call_int(c, 0, t), call_address(c, 1, t), CHUNK, call_int(c, 2, t)))
            break;
    return CALL_DONE;
}

CallResult interp_cp_async4(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        if (!begin_copy(c, t, call_int(c, 0, t), call_address(c, 1, t), 4, 4))
            break;
    return CALL_DONE;
}

CallResult interp_cp_async_words(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        if (!begin_copy(c, t, call_shared_address(c, 0, call_int(c, 1, t)), call_address(c, 2, t), CHUNK,
                        call_int(c, 3, t)))
            break;
    return CALL_DONE;
}

CallResult interp_cp_async_commit(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        copies_of(c, t)->group++;
    return CALL_DONE;
}

static bool end_copy(const Call *c, uint32_t t, const Copy *copy)
{
    const uint32_t rank = machine_group_of(c->m, t);
    unsigned char data[CHUNK];
    bool poison = false;
    if (!shared_read(c, t, rank, copy->to, data, copy->bytes, &poison))
        return false;
    if (copy->bad == 0)
        return shared_write(c, t, rank, copy->to, data, copy->bytes, false);
    for (uint32_t i = 0; i < copy->bytes; i += UNIT)
        if ((copy->bad >> i / UNIT & 1) == 0 &&
            !shared_write(c, t, rank, copy->to + i, data + i, UNIT, false))
            return false;
    return true;
}

// Of the committed groups of a thread, all but the newest `constant` end.
CallResult interp_cp_async_wait(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        Copies *all = copies_of(c, t);
        uint32_t kept = 0;
        for (uint32_t i = 0; i < all->n; i++)
            if (all->copy[i].group + c->constant > all->group)
                all->copy[kept++] = all->copy[i];
            else if (!end_copy(c, t, &all->copy[i]))
                return CALL_DONE;
        all->n = kept;
    }
    return CALL_DONE;
}
