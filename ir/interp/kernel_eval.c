// SPDX-License-Identifier: Apache-2.0
// Launches: the memory of the machine, its groups one after the other, and whose turn it is.
#include "ir/interp/machine.h"

#include <string.h>

// --- parameters ----------------------------------------------------------------------------------

// Is it written, by a statement or by the copy engine?
static bool is_stored(const Machine *m, uint32_t param)
{
    bool any = m->p->k->params.data[param].is_written;
    for (uint32_t i = 0; i < m->p->code.len && m->launch->args[param].map != NULL; i++) {
        const Code *c = &m->p->code.data[i];
        const bool stores =
            c->run == step_device &&
            (c->kop == KDEV_tma_store_2d || c->kop == KDEV_tma_store_3d || c->kop == KDEV_tma_store_4d);
        any = any || (stores && m->p->operands.data[c->at].at == param);
    }
    return any;
}

// Is memory of the argument one that another one, or this itself, writes (or reads)?
static bool is_shared_with(const Machine *m, const bool *does, uint32_t param)
{
    const EvalArg *a = &m->launch->args[param];
    for (uint32_t i = 0; i < m->p->k->params.len; i++) {
        const EvalArg *b = &m->launch->args[i];
        if (does[i] && a->memory == b->memory && a->begin < b->end && b->begin < a->end)
            return true;
    }
    return false;
}

// Who touched the bytes of all those arguments in one memory; units are as large as its smallest element.
// Where iterations only write, it is enough to know who did.
static void bind_touches(Machine *m, const EvalMemory *memory, const bool *is_touched, const bool *is_read)
{
    const Kernel *k = m->p->k;
    uint64_t begin = UINT64_MAX, end = 0;
    uint32_t unit = 3;
    bool reads = !m->has_forks;
    for (uint32_t i = 0; i < k->params.len; i++) {
        const EvalArg *a = &m->launch->args[i];
        if (a->memory != memory || !is_touched[i])
            continue;
        const DType t = a->map != NULL ? a->map->type : k->params.data[i].dtype;
        begin = a->begin < begin ? a->begin : begin;
        end = a->end > end ? a->end : end;
        reads = reads || is_shared_with(m, is_read, i);
        while (1u << unit > dtype_info[t].bytes)
            unit--;
    }
    if (end <= begin)
        return;
    begin = begin >> unit << unit;
    const uint64_t units = ((end - begin) >> unit) + 2;
    Touch *touch = reads ? ARENA_ARRAY(m->arena, Touch, units) : NULL;
    uint32_t *writer = reads ? NULL : ARENA_ARRAY(m->arena, uint32_t, units);
    for (uint32_t i = 0; i < k->params.len; i++) {
        Bound *b = &m->params[i];
        if (m->launch->args[i].memory != memory || !is_touched[i])
            continue;
        b->unit = unit;
        b->touch = touch;
        b->writer = writer;
        b->touch_low = (int64_t)begin - (int64_t)m->launch->args[i].at;
    }
}

static void bind_all_touches(Machine *m)
{
    const uint32_t n = m->p->k->params.len;
    bool *is_written = ARENA_ARRAY(m->arena, bool, (size_t)n + 1),
         *is_read = ARENA_ARRAY(m->arena, bool, (size_t)n + 1);
    bool *is_touched = ARENA_ARRAY(m->arena, bool, (size_t)n + 1);
    for (uint32_t i = 0; i < n; i++) {
        is_written[i] = is_stored(m, i);
        is_read[i] = m->p->k->params.data[i].is_read;
    }
    for (uint32_t i = 0; i < n; i++)
        is_touched[i] = m->launch->args[i].memory != NULL && is_shared_with(m, is_written, i);
    for (uint32_t i = 0; i < n; i++)
        if (is_touched[i] && m->params[i].touch == NULL && m->params[i].writer == NULL)
            bind_touches(m, m->launch->args[i].memory, is_touched, is_read);
}

static void bind(Machine *m)
{
    const Kernel *k = m->p->k;
    m->params = ARENA_ARRAY(m->arena, Bound, (size_t)k->params.len + 1);
    for (uint32_t i = 0; i < k->params.len; i++) {
        const EvalArg *a = &m->launch->args[i];
        Bound *b = &m->params[i];
        if (a->memory == NULL)
            continue;
        rlx_assert(a->begin <= a->end && a->end <= a->memory->bytes);
        b->data = a->memory->data + a->at;
        b->written = a->memory->written + a->at;
        b->low = (int64_t)a->begin - (int64_t)a->at;
        b->high = (int64_t)a->end - (int64_t)a->at;
        b->is_whole = memchr(a->memory->written + a->begin, 0, a->end - a->begin) == NULL;
    }
    if (m->p->threads > 1 && (m->p->has_forks || !m->has_forks))
        bind_all_touches(m);
}

// --- threads -------------------------------------------------------------------------------------

const Code *step_run(Machine *m, Strand *s, const Code *c)
{
    m->steps += s->end - s->begin;
    if (m->has_poison && !poison_flow(m, s, c))
        return NULL;
    return c->run(m, s, c);
}

static void run_strand(Machine *m, Strand *s)
{
    const Code *c = m->code + s->at;
    while (c != NULL)
        c = step_run(m, s, c);
}

// A strand for which something has changed since it blocked.
static Strand *take_unblocked(Machine *m)
{
    for (Strand **at = &m->blocked; *at != NULL; at = &(*at)->next)
        if ((*at)->tried != m->progress) {
            Strand *s = *at;
            *at = s->next;
            return s;
        }
    return NULL;
}

static Strand *take(Machine *m)
{
    Strand *s = m->ready;
    if (s == NULL)
        return take_unblocked(m);
    m->ready = s->next;
    return s;
}

static void report_deadlock(Machine *m)
{
    Str s = str_new(m->arena);
    const Strand *first = m->blocked;
    rlx_assert(first != NULL);
    for (const Strand *b = first; b != NULL; b = b->next)
        str_printf(&s, "%s%u to %u", b == first ? "" : ", ", b->begin, b->end - 1);
    step_fail(m, m->code + first->at, first->begin, "threads %s wait for ever, and %u others have ended",
              str_text(&s), m->n_threads - m->n_live);
}

static void run_threads(Machine *m)
{
    m->ready = m->blocked = m->free_strands = NULL;
    m->free_joins = NULL;
    m->n_live = m->n_threads;
    strand_new(m, 0, m->n_threads, 0, NULL);
    while (m->message == NULL && m->n_live > 0) {
        Strand *s = take(m);
        if (s != NULL)
            run_strand(m, s);
        else if (!flow_release_joins(m))
            report_deadlock(m);
    }
}

// --- groups --------------------------------------------------------------------------------------

static void make_registers(Machine *m)
{
    const Program *p = m->p;
    m->registers = ARENA_ARRAY(m->arena, unsigned char, p->register_bytes + 64);
    m->poison = ARENA_ARRAY(m->arena, unsigned char, p->register_bytes / 4 + 64);
    m->array_data = ARENA_ARRAY(m->arena, unsigned char, p->array_bytes + 64);
    m->array_state = ARENA_ARRAY(m->arena, unsigned char, p->state_bytes + 64);
    for (uint32_t i = 0; i < p->constants.len; i++) {
        const Constant *c = &p->constants.data[i];
        uint64_t cell = (uint64_t)c->bits;
        double v = 0;
        memcpy(&v, &c->bits, sizeof v);
        const float f = (float)v;
        const uint32_t bytes = cell_bytes(c->type);
        if (cell_class(c->type) == CELL_F32)
            memcpy(&cell, &f, sizeof f);
        for (uint32_t t = 0; t < p->threads; t++)
            memcpy(m->registers + c->slot + (size_t)t * bytes, &cell, bytes);
    }
}

static void make_shared(Machine *m)
{
    const size_t units = ((size_t)m->shared_bytes >> m->shared_unit) * m->n_groups;
    m->shared = ARENA_ARRAY(m->arena, unsigned char, (size_t)m->shared_bytes * m->n_groups + 1);
    m->shared_written = ARENA_ARRAY(m->arena, unsigned char, units + 1);
    m->shared_touch = ARENA_ARRAY(m->arena, Touch, units + 1);
    m->barriers = ARENA_ARRAY(m->arena, Barrier, m->n_groups);
}

// The memory of a group ends with it: nothing may be reading that any more.
static void check_ends(Machine *m)
{
    for (uint32_t t = 0; t < m->n_threads && m->message == NULL; t++) {
        const char *wrong = device_left(m, t);
        if (wrong != NULL)
            m->message =
                arena_printf(m->arena, "%s, thread %u of group %llu: %s", m->p->k->name, t % m->group_size,
                             (unsigned long long)(m->first_group + t / m->group_size), wrong);
    }
}

// Groups [first_group, first_group + n_groups).
static void run_groups(Machine *m)
{
    const size_t units = ((size_t)m->shared_bytes >> m->shared_unit) * m->n_groups;
    arena_reset(m->scratch);
    memset(m->states, 0, sizeof m->states);
    memset(m->shared_written, 0, units);
    memset(m->barriers, 0, m->n_groups * sizeof *m->barriers);
    memset(m->poison, 0, m->has_poison ? m->p->register_bytes / 4 : 0);
    m->has_poison = false;
    order_begin(m);
    run_threads(m);
    if (m->has_fences)
        check_ends(m);
}

static void run_launch(Machine *m)
{
    const Kernel *k = m->p->k;
    const uint32_t cluster = resolve_groups_at_once(k);
    m->has_forks = k->group == 0 && m->launch->parts <= 1;
    m->fork_serial = 1;
    m->n_threads = m->has_forks ? 1 : m->p->threads;
    m->group_size = k->group != 0 ? k->group : m->n_threads;
    m->n_groups = k->group != 0 ? cluster : 1;
    m->shared_bytes = (m->p->shared_bytes + 15) / 16 * 16;
    m->shared_unit = k->shared_bytes != 0 ? 1 : 2;
    make_registers(m);
    make_shared(m);
    if (m->p->has_matrix)
        m->matrix = arena_alloc_array(m->arena, m->p->threads, matrix_bytes());
    bind(m);
    for (; m->first_group < m->p->n_groups && m->message == NULL; m->first_group += m->n_groups)
        run_groups(m);
}

const char *kernel_eval(Arena *a, const EvalLaunch *l)
{
    Arena arena = {0}, scratch = {0};
    Machine m = {.arena = &arena, .scratch = &scratch, .launch = l, .progress = 1};
    if (l->kernel->custom != NULL)
        return arena_printf(a, "%s: the text of a custom op, which only a compiler can run", l->kernel->name);
    step_cast_begin();
    m.p = program_make(&arena, l);
    m.code = m.p->code.data;
    m.has_fences = m.p->has_fences;
    run_launch(&m);
    if (l->steps != NULL)
        *l->steps += m.steps;
    const char *message = m.message != NULL ? arena_strdup(a, m.message) : NULL;
    arena_free(&scratch);
    arena_free(&arena);
    return message;
}
