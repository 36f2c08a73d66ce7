// SPDX-License-Identifier: Apache-2.0
// Control flow of strands. Where its threads want to go different ways, a strand falls into several, which
// meet again at the end of the block.
#include "ir/interp/machine.h"

#include <string.h>

// --- strands and joins ---------------------------------------------------------------------------

Strand *strand_new(Machine *m, uint32_t begin, uint32_t end, uint32_t at, Join *join)
{
    Strand *s = m->free_strands;
    if (s != NULL)
        m->free_strands = s->next;
    else
        s = ARENA_NEW(m->scratch, Strand);
    *s = (Strand){.begin = begin, .end = end, .at = at, .join = join, .next = m->ready};
    m->ready = s;
    return s;
}

static Join *join_new(Machine *m, uint32_t at, uint32_t threads, Join *outer)
{
    Join *j = m->free_joins;
    if (j != NULL)
        m->free_joins = j->outer;
    else
        j = ARENA_NEW(m->scratch, Join);
    *j = (Join){.at = at, .remaining = threads, .total = threads, .outer = outer};
    return j;
}

// All that arrived go on, those next to each other together.
static void release(Machine *m, Join *j)
{
    while (j->arrived != NULL) {
        Strand *s = j->arrived;
        j->arrived = s->next;
        while (j->arrived != NULL && j->arrived->end == s->begin) {
            Strand *before = j->arrived;
            j->arrived = before->next;
            before->end = s->end;
            s->next = m->free_strands;
            m->free_strands = s;
            s = before;
        }
        s->at = j->at + 1;
        s->join = j->outer;
        s->next = m->ready;
        m->ready = s;
    }
}

static void finish(Machine *m, Join *j)
{
    release(m, j);
    if (j->remaining != 0)
        return;
    j->outer = m->free_joins;
    m->free_joins = j;
}

// The strand waits at its innermost join; those that arrived are kept with the last threads first.
static const Code *arrive(Machine *m, Strand *s)
{
    Join *j = s->join;
    Strand **to = &j->arrived;
    j->remaining -= s->end - s->begin;
    while (*to != NULL && (*to)->begin > s->begin)
        to = &(*to)->next;
    s->next = *to;
    *to = s;
    if (j->remaining == 0)
        finish(m, j);
    return NULL;
}

// Where threads wait for some that wait for them, those that have arrived go on alone.
bool flow_release_joins(Machine *m)
{
    bool any = false;
    Strand *blocked = m->blocked;
    for (; blocked != NULL; blocked = blocked->next)
        for (Join *j = blocked->join; j != NULL; j = j->outer)
            if (j->arrived != NULL) {
                release(m, j);
                any = true;
            }
    return any;
}

const Code *flow_block(Machine *m, Strand *s, const Code *c)
{
    s->at = (uint32_t)(c - m->code);
    s->tried = m->progress;
    s->next = m->blocked;
    m->blocked = s;
    return NULL;
}

// --- conditions ----------------------------------------------------------------------------------

// Ends of the run of threads from `begin` on that go the same way.
static uint32_t run_end(const int32_t *way, uint32_t begin, uint32_t end)
{
    uint32_t t = begin + 1;
    while (t < end && (way[t] != 0) == (way[begin] != 0))
        t++;
    return t;
}

// The strand keeps its first run of threads; the others become strands of their own.
static uint32_t split(Machine *m, Strand *s, const int32_t *way, const uint32_t to[2])
{
    const uint32_t first = run_end(way, s->begin, s->end);
    for (uint32_t t = first; t < s->end;) {
        const uint32_t end = run_end(way, t, s->end);
        strand_new(m, t, end, to[way[t] != 0], s->join);
        t = end;
    }
    s->end = first;
    return to[way[s->begin] != 0];
}

const Code *step_if(Machine *m, Strand *s, const Code *c)
{
    const int32_t *way = CELLS(m, int32_t, c->a);
    if (run_end(way, s->begin, s->end) == s->end)
        return way[s->begin] != 0 ? c + 1 : m->code + c->target;
    s->join = join_new(m, c->other, s->end - s->begin, s->join);
    return m->code + split(m, s, way, (const uint32_t[]){c->target, (uint32_t)(c - m->code) + 1});
}

const Code *step_jump(Machine *m, Strand *s, const Code *c)
{
    (void)s;
    return m->code + c->target;
}

const Code *step_join(Machine *m, Strand *s, const Code *c)
{
    if (s->join == NULL || s->join->at != (uint32_t)(c - m->code))
        return c + 1;
    return arrive(m, s);
}

// --- loops ---------------------------------------------------------------------------------------

// c: of the loop's begin; its target is the first instruction of the body, other the join behind it.
static const Code *test_loop(Machine *m, Strand *s, const Code *c)
{
    const int64_t *i = CELLS(m, int64_t, c->d), *end = CELLS(m, int64_t, c->b);
    uint32_t n = 0;
    for (uint32_t t = s->begin; t < s->end; t++)
        n += i[t] < end[t];
    if (n == 0)
        return m->code + c->other;
    if (n == s->end - s->begin)
        return c + 1;
    int32_t *way = CELLS(m, int32_t, c->c);
    for (uint32_t t = s->begin; t < s->end; t++)
        way[t] = i[t] < end[t];
    if (s->join == NULL || s->join->at != c->other)
        s->join = join_new(m, c->other, s->end - s->begin, s->join);
    return m->code + split(m, s, way, (const uint32_t[]){c->other, (uint32_t)(c - m->code) + 1});
}

const Code *step_for(Machine *m, Strand *s, const Code *c)
{
    if (c->imm < 1)
        return step_fail(m, c, s->begin, "a loop with step %lld", (long long)c->imm);
    memcpy(CELLS(m, int64_t, c->d) + s->begin, CELLS(m, int64_t, c->a) + s->begin,
           (s->end - s->begin) * sizeof(int64_t));
    return test_loop(m, s, c);
}

static bool exceeds_steps(const Machine *m)
{
    return m->steps > m->launch->max_steps && m->launch->max_steps != 0;
}

static const Code *fail_steps(Machine *m, const Strand *s, const Code *c)
{
    return step_fail(m, c, s->begin, "more than %llu steps", (unsigned long long)m->launch->max_steps);
}

const Code *step_next(Machine *m, Strand *s, const Code *c)
{
    const Code *loop = m->code + c->target;
    int64_t *i = CELLS(m, int64_t, loop->d);
    if (exceeds_steps(m))
        return fail_steps(m, s, c);
    for (uint32_t t = s->begin; t < s->end; t++)
        i[t] += loop->imm;
    return test_loop(m, s, loop);
}

// The end of the loop (at instruction `exit`) for threads that may be in blocks inside of it.
static const Code *leave_to(Machine *m, Strand *s, uint32_t begin, uint32_t exit)
{
    Join *top = NULL, *j = s->join;
    const uint32_t n = s->end - s->begin;
    for (; j != NULL && j->at > begin && j->at < exit; j = j->outer)
        top = j;
    if (top != NULL && (j == NULL || j->at != exit))
        top->outer = join_new(m, exit, top->total, j);
    for (j = s->join; top != NULL; j = s->join) {
        s->join = j->outer;
        j->remaining -= n;
        j->total -= n;
        const bool is_last = j == top;
        if (j->remaining == 0)
            finish(m, j);
        if (is_last)
            break;
    }
    return m->code + exit;
}

// target: the loop, whose end is left for.
static const Code *flow_leave(Machine *m, Strand *s, const Code *c)
{
    return leave_to(m, s, c->target, m->code[c->target].other);
}

// --- the grid ------------------------------------------------------------------------------------

// A loop over groups runs once, with the number of the thread's group.
const Code *step_group(Machine *m, Strand *s, const Code *c)
{
    int64_t *i = CELLS(m, int64_t, c->d);
    const int64_t low = CELLS(m, int64_t, c->a)[s->begin];
    for (uint32_t t = s->begin; t < s->end; t++)
        i[t] = low + (int64_t)((m->first_group + t / m->group_size) / (uint64_t)c->imm % c->count) *
                         (int64_t)c->other;
    return c + 1;
}

static const Code *next_batch(Machine *m, Strand *s, const Code *c)
{
    const Fork *f = &m->p->forks.data[c->at];
    const uint64_t left = m->fork_total - m->fork_done, room = m->p->threads;
    const uint32_t n = (uint32_t)(left < room ? left : room);
    m->fork_first = m->fork_serial + m->fork_done;
    for (uint32_t t = 0; t < n; t++) {
        uint64_t number = m->fork_done + t;
        for (uint32_t l = f->n_loops; l-- > 0;) {
            const int64_t low = CELLS(m, int64_t, f->loop[l].low)[0],
                          high = CELLS(m, int64_t, f->loop[l].high)[0];
            const uint64_t trips = (uint64_t)(high - low + f->loop[l].step - 1) / (uint64_t)f->loop[l].step;
            CELLS(m, int64_t, f->loop[l].var)[t] = low + (int64_t)(number % trips) * f->loop[l].step;
            number /= trips;
        }
    }
    m->fork_done += n;
    s->end = n;
    return c + 1;
}

static uint64_t count_trips(const Machine *m, const Fork *f)
{
    uint64_t n = 1;
    for (uint32_t l = 0; l < f->n_loops; l++) {
        const int64_t low = CELLS(m, int64_t, f->loop[l].low)[0],
                      high = CELLS(m, int64_t, f->loop[l].high)[0];
        const int64_t step = f->loop[l].step;
        n *= high <= low ? 0 : (uint64_t)(high - low + step - 1) / (uint64_t)step;
    }
    return n;
}

// A register's value of one thread for another one.
static inline void hand_over(Machine *m, const Spread *r, uint32_t from, uint32_t to)
{
    const size_t bytes = (size_t)r->lanes * r->bytes;
    memcpy(m->registers + r->slot + to * bytes, m->registers + r->slot + from * bytes, bytes);
    if (m->has_poison)
        memcpy(m->poison + (r->slot + to * bytes) / 4, m->poison + (r->slot + from * bytes) / 4, bytes / 4);
}

static void spread(Machine *m, const Fork *f, uint32_t n)
{
    for (uint32_t i = 0; i < f->spread.len; i++)
        for (uint32_t t = 1; t < n; t++)
            hand_over(m, &f->spread.data[i], 0, t);
}

// Iterations of parallel loops as threads, as many at once as registers have room for.
const Code *step_fork(Machine *m, Strand *s, const Code *c)
{
    const Fork *f = &m->p->forks.data[c->at];
    rlx_assert(s->begin == 0 && s->end == 1 && !m->is_fork && s->join == NULL);
    m->fork_total = count_trips(m, f);
    if (m->fork_total == 0)
        return m->code + c->other;
    spread(m, f, m->p->threads);
    m->is_fork = true;
    m->fork_floor = m->fork_serial;
    m->fork_done = 0;
    m->n_threads = m->p->threads;
    return next_batch(m, s, c);
}

const Code *step_fork_next(Machine *m, Strand *s, const Code *c)
{
    const Code *fork = m->code + c->target;
    rlx_assert(s->begin == 0 && s->join == NULL);
    if (m->fork_done < m->fork_total)
        return next_batch(m, s, fork);
    m->fork_serial += m->fork_total;
    m->is_fork = false;
    m->n_threads = 1;
    s->end = 1;
    return c + 1;
}

// Iterations of a loop that are threads up to its chain. They only read, so that nothing is between them.
const Code *step_batch(Machine *m, Strand *s, const Code *c)
{
    const Fork *f = &m->p->forks.data[c->at];
    rlx_assert(s->begin == 0 && s->end == 1 && !m->is_fork);
    m->fork_total = count_trips(m, f);
    m->fork_done = 0;
    if (m->fork_total == 0)
        return m->code + c->other;
    m->n_threads = m->p->threads;
    spread(m, f, m->fork_total < m->p->threads ? (uint32_t)m->fork_total : m->p->threads);
    return next_batch(m, s, c);
}

const Code *step_chain(Machine *m, Strand *s, const Code *c)
{
    const Fork *f = &m->p->forks.data[c->at];
    const uint32_t n = s->end;
    for (uint32_t t = 0; t < n; t++) {
        Strand one = {.begin = t, .end = t + 1};
        for (uint32_t i = 0; i < f->carried.len && t > 0; i++)
            hand_over(m, &f->carried.data[i], t - 1, t);
        for (uint32_t i = 1; i <= c->count; i++)
            if (step_run(m, &one, c + i) == NULL)
                return NULL;
    }
    for (uint32_t i = 0; i < f->carried.len && n > 1; i++)
        hand_over(m, &f->carried.data[i], n - 1, 0);
    return c + 1 + c->count;
}

const Code *step_batch_next(Machine *m, Strand *s, const Code *c)
{
    if (exceeds_steps(m))
        return fail_steps(m, s, c);
    if (m->fork_done < m->fork_total)
        return next_batch(m, s, m->code + c->target);
    m->n_threads = 1;
    s->end = 1;
    return c + 1;
}

const Code *step_end(Machine *m, Strand *s, const Code *c)
{
    (void)c;
    m->n_live -= s->end - s->begin;
    s->next = m->free_strands;
    m->free_strands = s;
    return NULL;
}

// --- barriers and device functions ---------------------------------------------------------------

// Threads of several groups part: each group has its own barrier.
static void split_groups(Machine *m, Strand *s, const Code *c)
{
    const uint32_t end = s->begin / m->group_size * m->group_size + m->group_size;
    if (end >= s->end)
        return;
    strand_new(m, end, s->end, (uint32_t)(c - m->code), s->join);
    s->end = end;
}

static void note_reached(const Machine *m, const Code *c)
{
    if (m->launch->reached != NULL)
        m->launch->reached[c->ref] = true;
}

static bool has_whole_groups(const Machine *m, const Strand *s)
{
    return s->begin % m->group_size == 0 && s->end % m->group_size == 0;
}

const Code *step_barrier(Machine *m, Strand *s, const Code *c)
{
    const uint32_t size = m->group_size;
    note_reached(m, c);
    if (s->token == 0 && has_whole_groups(m, s)) {
        for (uint32_t g = s->begin; g < s->end; g += size)
            sync_all(m, g, g + size);
        return c + 1;
    }
    split_groups(m, s, c);
    const uint32_t first = s->begin / size * size;
    Barrier *b = &m->barriers[s->begin / size];
    if (s->token == 0) {
        const uint32_t at = (uint32_t)(c - m->code);
        if (b->arrived != 0 && b->at != at)
            return step_fail(m, c, s->begin, "threads of a group wait at different barriers");
        b->at = at;
        b->arrived += s->end - s->begin;
        s->token = b->phase + 1;
        m->progress++;
        if (b->arrived == size) {
            sync_all(m, first, first + size);
            b->arrived = 0;
            b->phase++;
        }
    }
    if (b->phase < s->token)
        return flow_block(m, s, c);
    s->token = 0;
    return c + 1;
}

const Code *step_device(Machine *m, Strand *s, const Code *c)
{
    Call call = {.m = m,
                 .strand = s,
                 .code = c,
                 .begin = s->begin,
                 .end = s->end,
                 .constant = c->imm,
                 .token = &s->token};
    note_reached(m, c);
    const CallResult r = interp_functions[c->kop](&call);
    if (m->message != NULL)
        return NULL;
    if (r == CALL_BLOCKED)
        return flow_block(m, s, c);
    s->token = 0;
    return r == CALL_LEAVE ? flow_leave(m, s, c) : c + 1;
}
