// SPDX-License-Identifier: Apache-2.0
// What state.h gives device functions: their operands, their threads, and messages.
#include "ir/interp/device_matrix.h"
#include "ir/interp/machine.h"

#include <string.h>

static const Operand *operand(const Call *c, uint32_t i)
{
    rlx_assert(i < c->code->count);
    return &c->m->p->operands.data[c->code->at + i];
}

// --- operands ------------------------------------------------------------------------------------

int64_t call_int(const Call *c, uint32_t i, uint32_t t)
{
    const Operand *o = operand(c, i);
    rlx_assert(strchr("iurbV", o->letter) != NULL);
    return o->letter == 'b' ? CELLS(c->m, int32_t, o->slot)[t] : CELLS(c->m, int64_t, o->slot)[t];
}

float call_f32(const Call *c, uint32_t i, uint32_t t)
{
    rlx_assert(operand(c, i)->letter == 'f');
    return CELLS(c->m, float, operand(c, i)->slot)[t];
}

bool call_is_poison(const Call *c, uint32_t i, uint32_t t)
{
    const Operand *o = operand(c, i);
    return machine_has_poison(c->m, o->slot, t, cell_bytes(o->type));
}

void call_set_var(const Call *c, uint32_t i, uint32_t t, int64_t v)
{
    const Operand *o = operand(c, i);
    rlx_assert(o->letter == 'V');
    CELLS(c->m, int64_t, o->slot)[t] = v;
    if (c->m->has_poison)
        memset(c->m->poison + o->slot / 4 + (size_t)t * 2, 0, 2);
}

void call_set_int(const Call *c, uint32_t t, int64_t v)
{
    if (cell_bytes(c->code->dtype) == 4)
        CELLS(c->m, int32_t, c->code->d)[t] = (int32_t)v;
    else
        CELLS(c->m, int64_t, c->code->d)[t] = v;
}

void call_set_f32(const Call *c, uint32_t t, float v)
{
    CELLS(c->m, float, c->code->d)[t] = v;
}

bool call_elements(const Call *c, uint32_t i, uint32_t t, int64_t at, uint32_t n, Elements *out)
{
    const Operand *o = operand(c, i);
    rlx_assert(o->letter == 'F' || o->letter == 'R');
    const Array *a = &c->m->p->arrays.data[o->at];
    rlx_assert(!a->is_shared && a->element == 4);
    if (at < 0 || at + n > a->n)
        return call_fail(c, t, "elements %lld to %lld of an array of %lld", (long long)at,
                         (long long)at + n - 1, (long long)a->n);
    const size_t first = (size_t)t * (size_t)a->n + (size_t)at;
    out->r = (uint32_t *)(void *)(c->m->array_data + a->data) + first;
    out->state = c->m->array_state + a->state + first;
    return true;
}

int64_t call_shared_address(const Call *c, uint32_t i, int64_t element)
{
    const Array *a = &c->m->p->arrays.data[operand(c, i)->at];
    rlx_assert(a->is_shared);
    return (int64_t)a->data + element * a->element;
}

Address call_address(const Call *c, uint32_t i, uint32_t t)
{
    const Operand *o = operand(c, i);
    rlx_assert(o->letter == 'p');
    const int64_t size = (int64_t)dtype_info[c->m->p->k->params.data[o->at].dtype].bytes;
    return (Address){o->at, CELLS(c->m, int64_t, o->slot)[t] * size};
}

// --- threads -------------------------------------------------------------------------------------

static bool has_whole_runs(const Call *c, uint32_t width)
{
    const uint32_t size = c->m->group_size;
    return c->begin % size % width == 0 && (c->end % size) % width == 0;
}

// A strand that waits for the same, next to this one: its threads join.
static bool take_neighbour(Call *c)
{
    Machine *m = c->m;
    Strand *s = c->strand;
    for (Strand **at = &m->blocked; *at != NULL; at = &(*at)->next) {
        Strand *o = *at;
        const bool is_same = o->gathers && o->at == (uint32_t)(c->code - m->code) && o->join == s->join;
        if (!is_same || (o->end != s->begin && o->begin != s->end))
            continue;
        s->begin = o->begin < s->begin ? o->begin : s->begin;
        s->end = o->end > s->end ? o->end : s->end;
        *at = o->next;
        o->next = m->free_strands;
        m->free_strands = o;
        return true;
    }
    return false;
}

bool call_gathers(Call *c, uint32_t width)
{
    while (!has_whole_runs(c, width) && take_neighbour(c)) {
        c->begin = c->strand->begin;
        c->end = c->strand->end;
    }
    c->strand->gathers = !has_whole_runs(c, width);
    return !c->strand->gathers;
}

CallResult call_each(Call *c, uint32_t width, bool (*fn)(const Call *c, uint32_t first))
{
    if (!call_gathers(c, width))
        return CALL_BLOCKED;
    for (uint32_t first = c->begin; first < c->end; first += width)
        if (!fn(c, first))
            break;
    return CALL_DONE;
}

uint32_t machine_threads(const Machine *m)
{
    return m->n_threads;
}

uint32_t machine_group_size(const Machine *m)
{
    return m->group_size;
}

uint32_t machine_group_of(const Machine *m, uint32_t t)
{
    return t / m->group_size;
}

const EvalLaunch *machine_launch(const Machine *m)
{
    return m->launch;
}

const EvalArg *machine_arg(const Machine *m, uint32_t param)
{
    return &m->launch->args[param];
}

void machine_progress(Machine *m)
{
    m->progress++;
}

void *machine_state(Machine *m, KDevice key, size_t bytes)
{
    if (m->states[key] == NULL)
        m->states[key] = arena_alloc(m->scratch, bytes);
    return m->states[key];
}

// --- messages ------------------------------------------------------------------------------------

// The line of the listing, which has one for each instruction that is written out, at its end.
static const char *line_of(const Machine *m, KRef ref, uint32_t *number)
{
    const Kernel *k = m->p->k;
    Str listing = str_new(m->arena);
    uint32_t behind = 0, lines = 0, at = 1;
    kernel_print(k, &listing);
    for (KRef r = ref + 1; r < k->insts.len; r++)
        behind += kkind_info[k_inst(k, r)->kind].form[0] != '\0';
    const char *text = str_text(&listing);
    for (const char *c = text; *c != '\0'; c++)
        lines += *c == '\n';
    *number = lines - behind;
    for (; at < *number; at++)
        text = strchr(text, '\n') + 1;
    while (*text == ' ')
        text++;
    return arena_strndup(m->arena, text, strcspn(text, "\n"));
}

static const char *thread_text(const Machine *m, uint32_t t)
{
    const unsigned long long group = m->first_group + t / m->group_size;
    if (t >= m->n_threads)
        return "an asynchronous operation";
    if (m->is_fork)
        return arena_printf(m->arena, "iteration %llu",
                            (unsigned long long)(m->fork_first - m->fork_serial + t));
    if (m->p->k->group != 0)
        return arena_printf(m->arena, "thread %u of group %llu", t % m->group_size, group);
    return m->launch->parts > 1 ? arena_printf(m->arena, "part %u", t) : "alone";
}

static void set_message(Machine *m, const Code *c, uint32_t t, const char *text)
{
    uint32_t line = 0;
    if (m->message != NULL) // the first one is the cause
        return;
    const char *listing = line_of(m, c->ref, &line);
    m->message = arena_printf(m->arena, "%s, line %u (%s), %s: %s", m->p->k->name, line, listing,
                              thread_text(m, t), text);
}

const Code *step_fail(Machine *m, const Code *c, uint32_t t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    set_message(m, c, t, arena_vprintf(m->arena, fmt, args));
    va_end(args);
    return NULL;
}

bool call_fail(const Call *c, uint32_t t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    set_message(c->m, c->code, t, arena_vprintf(c->m->arena, fmt, args));
    va_end(args);
    return false;
}
