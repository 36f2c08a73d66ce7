// SPDX-License-Identifier: Apache-2.0
// Groups that share a sum: what each puts into memory only the last one of them may get, whichever that is.
#include "ir/interp/state.h"

enum { FOUR = 4, WORD = 4 };

// Of the groups that run: has it been at the counter, and was it the last one?
typedef struct Turn {
    bool has_come, is_last;
} Turn;

static Turn *turn_of(const Call *c, uint32_t t)
{
    const uint32_t groups = machine_threads(c->m) / machine_group_size(c->m);
    Turn *all = machine_state(c->m, KDEV_part_last, groups * sizeof(Turn));
    return &all[machine_group_of(c->m, t)];
}

static bool put(const Call *c, uint32_t t)
{
    const Address at = call_address(c, 0, t);
    Elements from;
    if (turn_of(c, t)->has_come)
        return call_fail(c, t, "a part behind the counter of the parts");
    if (at.byte % (FOUR * WORD) != 0)
        return call_fail(c, t, "four numbers at byte %lld", (long long)at.byte);
    if (!call_elements(c, 1, t, call_int(c, 2, t), FOUR, &from))
        return false;
    for (uint32_t i = 0; i < FOUR; i++)
        if (!param_give(c, t, (Address){at.param, at.byte + i * WORD}, &from.f[i], WORD,
                        from.state[i] != ELEMENT_WRITTEN))
            return false;
    return true;
}

CallResult interp_part_put(Call *c)
{
    for (uint32_t t = c->begin; t < c->end && put(c, t);)
        t++;
    return CALL_DONE;
}

static bool get(const Call *c, uint32_t t)
{
    const Address at = call_address(c, 2, t);
    Elements to;
    if (!turn_of(c, t)->is_last)
        return call_fail(c, t, "parts of other groups, of which this one is not the last");
    if (at.byte % (FOUR * WORD) != 0)
        return call_fail(c, t, "four numbers at byte %lld", (long long)at.byte);
    if (!call_elements(c, 0, t, call_int(c, 1, t), FOUR, &to))
        return false;
    for (uint32_t i = 0; i < FOUR; i++) {
        bool is_poison = false;
        if (!param_take(c, t, (Address){at.param, at.byte + i * WORD}, &to.f[i], WORD, &is_poison))
            return false;
        to.state[i] = is_poison ? ELEMENT_UNWRITTEN : ELEMENT_WRITTEN;
    }
    return true;
}

CallResult interp_part_get(Call *c)
{
    for (uint32_t t = c->begin; t < c->end && get(c, t);)
        t++;
    return CALL_DONE;
}

static bool come(const Call *c, uint32_t first)
{
    const uint32_t n = (uint32_t)call_int(c, 2, first), threads = machine_group_size(c->m);
    const Address at = call_address(c, 1, first);
    Turn *turn = turn_of(c, first);
    uint32_t before = 0;
    if (!param_atomic_add(c, first, at, 1, &before))
        return false;
    if (turn->has_come || before >= n)
        return call_fail(c, first, "group number %u of %u at the counter of the parts", before + 1, n);
    *turn = (Turn){.has_come = true, .is_last = before + 1 == n};
    for (uint32_t t = first; t < first + threads; t++)
        call_set_var(c, 0, t, turn->is_last);
    sync_all(c->m, first, first + threads);
    return !turn->is_last || param_atomic_set(c, first, at, 0);
}

CallResult interp_part_last(Call *c)
{
    return call_each(c, machine_group_size(c->m), come);
}
