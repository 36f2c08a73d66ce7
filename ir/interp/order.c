// SPDX-License-Identifier: Apache-2.0
// What happened before what. Every agent (a thread, or what runs on behalf of one) has a clock that moves on
// whenever others may learn what it did, and knows up to which clock of each other one it is behind. Memory
// remembers who touched it at which clock: an access that the next one does not know of, one of them a write,
// is a race.
//
// Knowledge is immutable and shared: threads behind a barrier have the same.
#include "ir/interp/machine.h"

#include <string.h>

enum { VIRTUAL_AGENTS = 64 };

// clock[agent]; then the same for what has also passed a proxy fence.
struct Known {
    uint32_t users;
    Known *next_free;
    uint32_t clock[];
};

static uint32_t *fenced_of(const Machine *m, Known *k)
{
    return m->has_fences ? k->clock + m->n_agents : k->clock;
}

static uint32_t n_clocks(const Machine *m)
{
    return m->has_fences ? 2 * m->n_agents : m->n_agents;
}

static Known *known_new(Machine *m, const Known *from)
{
    const size_t bytes = sizeof(Known) + n_clocks(m) * sizeof(uint32_t);
    Known *k = m->free_known;
    if (k != NULL)
        m->free_known = k->next_free;
    else
        k = arena_alloc(m->scratch, bytes);
    if (from != NULL)
        memcpy(k, from, bytes);
    else
        memset(k, 0, bytes);
    k->users = 1;
    return k;
}

static void known_drop(Machine *m, Known *k)
{
    if (k == NULL || --k->users != 0)
        return;
    k->next_free = m->free_known;
    m->free_known = k;
}

static void known_set(Machine *m, uint32_t who, Known *k)
{
    k->users++;
    known_drop(m, m->known[who]);
    m->known[who] = k;
}

static void add_clocks(const Machine *m, Known *to, const Known *from)
{
    const uint32_t n = n_clocks(m);
    for (uint32_t i = 0; i < n; i++)
        to->clock[i] = to->clock[i] > from->clock[i] ? to->clock[i] : from->clock[i];
}

// --- launches ------------------------------------------------------------------------------------

void order_begin(Machine *m)
{
    rlx_assert(m->n_threads != 0);
    m->n_agents = m->n_threads + VIRTUAL_AGENTS;
    m->free_known = NULL;
    m->known = ARENA_ARRAY(m->scratch, Known *, m->n_agents);
    m->clock = ARENA_ARRAY(m->scratch, uint32_t, m->n_agents);
    m->next_agent = m->n_threads;
    m->group_time = ++m->time;
    Known *nothing = known_new(m, NULL);
    for (uint32_t i = 0; i < m->n_agents; i++) {
        m->clock[i] = m->time;
        known_set(m, i, nothing);
    }
}

// Has what left this mark happened before what `who` does now? Inline: every access asks several times.
static inline bool knows(const Machine *m, uint64_t mark, uint32_t who, bool is_write, bool is_param)
{
    if (mark == 0)
        return true;
    if (m->has_forks)
        return !m->is_fork || mark <= m->fork_floor || mark == m->fork_first + who + 1;
    const uint32_t agent = (uint32_t)(mark >> 32) - 1, clock = (uint32_t)mark;
    if (clock < m->group_time)
        return !is_param; // of another group
    Known *k = m->known[who];
    const bool is_engine = who >= m->n_threads, by_engine = agent >= m->n_threads;
    if (agent == who)
        return true;
    if (k->clock[agent] < clock)
        return false;
    return !is_engine || !is_write || by_engine || fenced_of(m, k)[agent] >= clock;
}

// --- knowledge that is handed on -----------------------------------------------------------------

void sync_release(Machine *m, uint32_t begin, uint32_t end, Sync *s)
{
    rlx_assert(begin <= end && end <= m->n_agents);
    Known *all = known_new(m, s->known);
    const Known *last = NULL;
    const bool is_engine = begin >= m->n_threads;
    m->time++;
    for (uint32_t i = begin; i < end; i++) {
        if (m->known[i] != last)
            add_clocks(m, all, m->known[i]);
        last = m->known[i];
        all->clock[i] = m->clock[i] > all->clock[i] ? m->clock[i] : all->clock[i];
        if (is_engine)
            fenced_of(m, all)[i] = all->clock[i];
        m->clock[i] = m->time;
    }
    known_drop(m, s->known);
    s->known = all;
}

void sync_acquire(Machine *m, uint32_t begin, uint32_t end, const Sync *s)
{
    Known *from = NULL, *to = NULL;
    rlx_assert(begin <= end && end <= m->n_agents);
    for (uint32_t i = begin; i < end && s->known != NULL; i++) {
        if (from == NULL || m->known[i] != from) {
            known_drop(m, to);
            known_drop(m, from);
            from = m->known[i];
            from->users++;
            to = known_new(m, from);
            add_clocks(m, to, s->known);
        }
        known_set(m, i, to);
    }
    known_drop(m, to);
    known_drop(m, from);
}

void sync_clear(Machine *m, Sync *s)
{
    known_drop(m, s->known);
    s->known = NULL;
}

void sync_all(Machine *m, uint32_t begin, uint32_t end)
{
    Sync s = {0};
    sync_release(m, begin, end, &s);
    for (uint32_t i = begin; i < end; i++)
        known_set(m, i, s.known);
    sync_clear(m, &s);
}

// --- agents --------------------------------------------------------------------------------------

uint32_t agent_begin(Machine *m, uint32_t t, AgentProxy proxy)
{
    const uint32_t agent = m->next_agent;
    rlx_assert(t < m->n_threads && agent >= m->n_threads && agent < m->n_agents);
    Known *k = known_new(m, m->known[t]);
    m->next_agent = agent + 1 < m->n_agents ? agent + 1 : m->n_threads;
    k->clock[t] = m->clock[t];
    if (proxy == AGENT_GENERIC && m->has_fences)
        memcpy(fenced_of(m, k), k->clock, m->n_agents * sizeof *k->clock);
    known_set(m, agent, k);
    known_drop(m, k);
    m->clock[agent] = m->clock[t] = ++m->time;
    return agent;
}

void machine_fence(Machine *m, uint32_t begin, uint32_t end)
{
    const Known *from = NULL;
    Known *to = NULL;
    m->time += m->has_fences;
    for (uint32_t i = begin; i < end && m->has_fences; i++) {
        if (to == NULL || m->known[i] != from) {
            known_drop(m, to);
            from = m->known[i];
            to = known_new(m, from);
            memcpy(fenced_of(m, to), to->clock, m->n_agents * sizeof *to->clock);
            // What others have done is seen through `clock` alone, so that all may have all of it here.
            for (uint32_t j = begin; j < end; j++)
                fenced_of(m, to)[j] = m->clock[j];
        }
        known_set(m, i, to);
    }
    for (uint32_t i = begin; i < end && m->has_fences; i++)
        m->clock[i] = m->time;
    known_drop(m, to);
}

// --- who touched what ----------------------------------------------------------------------------

const char *who_text(Machine *m, uint64_t mark)
{
    if (m->is_fork)
        return arena_printf(m->arena, "iteration %llu", (unsigned long long)(mark - 1 - m->fork_serial));
    const uint32_t who = (uint32_t)(mark >> 32) - 1;
    if (who >= m->n_threads)
        return "an asynchronous operation";
    if ((uint32_t)mark < m->group_time)
        return arena_printf(m->arena, "thread %u of another group", who % m->group_size);
    return arena_printf(m->arena, "thread %u", who);
}

static const char *race(Machine *m, uint64_t mark, const char *what)
{
    return arena_printf(m->arena, "race: %s %s the same bytes, and nothing orders the two", who_text(m, mark),
                        what);
}

// Which of the two readers gives way: the one that is known, so that one that is not stays to be found.
static void keep_reader(const Machine *m, Touch *t, uint64_t mark, uint32_t who, bool is_param)
{
    for (uint32_t i = 0; i < 2; i++)
        if (t->read[i] == mark)
            return;
    for (uint32_t i = 0; i < 2; i++)
        if (knows(m, t->read[i], who, false, is_param)) {
            t->read[i] = mark;
            return;
        }
    t->read[mark & 1] = mark;
}

const char *touch_read(Machine *m, Touch *t, uint32_t n, uint32_t who, bool is_param)
{
    const uint64_t mark = order_mark(m, who);
    for (uint32_t i = 0; i < n; i++) {
        if (t[i].write != mark && !knows(m, t[i].write, who, true, is_param))
            return race(m, t[i].write, "writes");
        if (t[i].read[0] != mark)
            keep_reader(m, &t[i], mark, who, is_param);
    }
    return NULL;
}

const char *touch_write(Machine *m, Touch *t, uint32_t n, uint32_t who, bool is_param)
{
    const uint64_t mark = order_mark(m, who);
    for (uint32_t i = 0; i < n; i++) {
        if (t[i].write != mark && !knows(m, t[i].write, who, true, is_param))
            return race(m, t[i].write, "writes");
        for (uint32_t r = 0; r < 2; r++)
            if (!knows(m, t[i].read[r], who, false, is_param))
                return race(m, t[i].read[r], "reads");
        t[i] = (Touch){.write = mark};
    }
    return NULL;
}
