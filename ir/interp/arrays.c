// SPDX-License-Identifier: Apache-2.0
// Arrays: those of a thread, and those that a group shares, with the rest of the memory that it shares.
#include "ir/interp/machine.h"

#include <string.h>

static inline unsigned char *own_data(const Machine *m, const Array *a, uint32_t t)
{
    return m->array_data + a->data + (size_t)t * (size_t)a->n * a->element;
}

static inline unsigned char *own_state(const Machine *m, const Array *a, uint32_t t)
{
    return m->array_state + a->state + (size_t)t * (size_t)a->n;
}

// Whoever comes to the declaration has a new array. Those of groups are there from the beginning.
const Code *step_array(Machine *m, Strand *s, const Code *c)
{
    const Array *a = &m->p->arrays.data[c->at];
    if (!a->is_shared)
        memset(own_state(m, a, s->begin), ELEMENT_UNWRITTEN, (size_t)(s->end - s->begin) * (size_t)a->n);
    return c + 1;
}

// Most are four, for which a call is too long.
static inline void copy_bytes(void *to, const void *from, size_t n)
{
    if (n == sizeof(float))
        memcpy(to, from, sizeof(float));
    else
        memcpy(to, from, n);
}

static inline void set_bytes(unsigned char *to, unsigned char value, size_t n)
{
    if (n == 1)
        *to = value;
    else
        memset(to, value, n);
}

static bool is_element(Machine *m, const Code *c, uint32_t t, const Array *a, int64_t at, uint32_t n)
{
    if (at >= 0 && at + n <= a->n)
        return true;
    step_fail(m, c, t, "element %lld of an array of %lld", (long long)(at < 0 || n == 1 ? at : at + n - 1),
              (long long)a->n);
    return false;
}

// --- shared memory -------------------------------------------------------------------------------

typedef struct Place {
    unsigned char *data, *written;
    Touch *touch;
    uint32_t units;
} Place;

static const char *find_place(const Machine *m, uint32_t rank, int64_t address, uint32_t n, Place *out)
{
    const int64_t at = address - SHARED_BEGIN;
    if (at < 0 || at + n > m->shared_bytes || rank >= m->n_groups)
        return arena_printf(m->arena, "bytes %lld to %lld of the group's memory, which has %u", (long long)at,
                            (long long)at + n - 1, m->shared_bytes);
    const size_t first = (size_t)at >> m->shared_unit, last = ((size_t)at + n - 1) >> m->shared_unit;
    const size_t units = m->shared_bytes >> m->shared_unit;
    *out = (Place){.data = m->shared + (size_t)rank * m->shared_bytes + at,
                   .written = m->shared_written + rank * units + first,
                   .touch = m->shared_touch + rank * units + first,
                   .units = (uint32_t)(last - first + 1)};
    return NULL;
}

static bool misses_some(const Place *p)
{
    for (uint32_t i = 0; i < p->units; i++)
        if (p->written[i] == 0)
            return true;
    return false;
}

static const char *race_text(Machine *m, const char *wrong, int64_t address)
{
    return arena_printf(m->arena, "%s (byte %lld of the group's memory)", wrong,
                        (long long)(address - SHARED_BEGIN));
}

static const char *read_shared(Machine *m, uint32_t who, uint32_t rank, int64_t address, void *out,
                               uint32_t n, bool *poison)
{
    Place p;
    const char *wrong = find_place(m, rank, address, n, &p);
    if (wrong != NULL)
        return wrong;
    *poison = *poison || misses_some(&p);
    copy_bytes(out, p.data, n);
    wrong = touch_read(m, p.touch, p.units, who, false);
    return wrong != NULL ? race_text(m, wrong, address) : NULL;
}

static const char *write_shared(Machine *m, uint32_t who, uint32_t rank, int64_t address, const void *in,
                                uint32_t n, bool is_poison)
{
    Place p;
    const char *wrong = find_place(m, rank, address, n, &p);
    if (wrong != NULL)
        return wrong;
    wrong = touch_write(m, p.touch, p.units, who, false);
    if (wrong != NULL)
        return race_text(m, wrong, address);
    set_bytes(p.written, !is_poison, p.units);
    copy_bytes(p.data, in, n);
    return NULL;
}

static bool is_right(const Call *c, uint32_t who, const char *wrong)
{
    if (wrong != NULL)
        call_fail(c, who, "%s", wrong);
    return wrong == NULL;
}

bool shared_read(const Call *c, uint32_t who, uint32_t rank, int64_t address, void *out, uint32_t n,
                 bool *poison)
{
    return is_right(c, who, read_shared(c->m, who, rank, address, out, n, poison));
}

bool shared_write(const Call *c, uint32_t who, uint32_t rank, int64_t address, const void *in, uint32_t n,
                  bool is_poison)
{
    return is_right(c, who, write_shared(c->m, who, rank, address, in, n, is_poison));
}

bool shared_write_same(const Call *c, uint32_t who, uint32_t rank, int64_t address, const void *in,
                       uint32_t n)
{
    Place p;
    const bool is_there =
        find_place(c->m, rank, address, n, &p) == NULL && !misses_some(&p) && memcmp(p.data, in, n) == 0;
    return is_there || shared_write(c, who, rank, address, in, n, false);
}

// --- loads and stores ----------------------------------------------------------------------------

static bool is_ready(Machine *m, const Code *c, uint32_t t, unsigned char state)
{
    if (state == ELEMENT_PENDING)
        step_fail(m, c, t, "an element that an operation still writes, which was not waited for");
    return state != ELEMENT_PENDING;
}

static void set_poison(Machine *m, uint32_t slot, uint32_t cell, uint32_t bytes, bool is_poison)
{
    if (!m->has_poison && !is_poison)
        return;
    m->has_poison = true;
    memset(m->poison + (slot + (size_t)cell * bytes) / 4, is_poison, bytes / 4);
}

static bool get_shared(Machine *m, const Code *c, const Array *a, uint32_t t, int64_t at, void *cell,
                       bool *poison)
{
    uint64_t bits = 0;
    const char *wrong = read_shared(m, t, t / m->group_size, (int64_t)a->data + at * a->element, &bits,
                                    a->element, poison);
    if (wrong != NULL)
        step_fail(m, c, t, "%s", wrong);
    if (cell_class(a->type) == CELL_F32 && a->element == sizeof(float))
        memcpy(cell, &bits, sizeof(float));
    else
        array_load(a->type, &bits, cell);
    return wrong == NULL;
}

static bool put_shared(Machine *m, const Code *c, const Array *a, uint32_t t, int64_t at, const void *cell,
                       bool is_poison)
{
    uint64_t bits = 0;
    array_store(a->type, cell, &bits);
    const char *wrong = write_shared(m, t, t / m->group_size, (int64_t)a->data + at * a->element, &bits,
                                     a->element, is_poison);
    if (wrong != NULL)
        step_fail(m, c, t, "%s", wrong);
    return wrong == NULL;
}

// Element `at` of an array into a cell of the register at `slot`.
static bool get_element(Machine *m, const Code *c, const Array *a, uint32_t t, int64_t at, uint32_t slot,
                        uint32_t cell)
{
    const uint32_t bytes = cell_bytes(a->type);
    unsigned char *out = m->registers + slot + (size_t)cell * bytes;
    bool poison = false;
    if (a->is_shared) {
        if (!get_shared(m, c, a, t, at, out, &poison))
            return false;
    } else {
        const unsigned char state = own_state(m, a, t)[at];
        if (!is_ready(m, c, t, state))
            return false;
        poison = state == ELEMENT_UNWRITTEN;
        array_load(a->type, own_data(m, a, t) + at * a->element, out);
    }
    set_poison(m, slot, cell, bytes, poison);
    return true;
}

static bool put_element(Machine *m, const Code *c, const Array *a, uint32_t t, int64_t at, const void *cell,
                        bool is_poison)
{
    if (a->is_shared)
        return put_shared(m, c, a, t, at, cell, is_poison);
    own_state(m, a, t)[at] = is_poison ? ELEMENT_UNWRITTEN : ELEMENT_WRITTEN;
    array_store(a->type, cell, own_data(m, a, t) + at * a->element);
    return true;
}

// Lanes of a thread's own array that are all written, of the types that most arrays have.
static inline bool load_words(Machine *m, const Code *c, const Array *a, uint32_t t, int64_t at)
{
    const unsigned char *state = own_state(m, a, t) + at, *from = own_data(m, a, t) + at * 4;
    for (uint32_t i = 0; i < c->lanes; i++)
        if (state[i] != ELEMENT_WRITTEN)
            return false;
    if (cell_class(a->type) == CELL_F32)
        copy_bytes(CELLS(m, float, c->d) + (size_t)t * c->lanes, from, c->lanes * sizeof(float));
    else
        for (uint32_t i = 0; i < c->lanes; i++)
            array_load(a->type, from + 4 * i, CELLS(m, int64_t, c->d) + (size_t)t * c->lanes + i);
    if (m->has_poison)
        memset(m->poison + (c->d + (size_t)t * c->lanes * cell_bytes(a->type)) / 4, 0,
               (size_t)c->lanes * cell_bytes(a->type) / 4);
    return true;
}

// What most loads are: single floats of arrays of threads. The first thread for which it is more than that.
static uint32_t load_floats(const Machine *m, const Strand *s, const Code *c, const Array *a)
{
    const int64_t *index = CELLS(m, int64_t, c->b);
    const uint64_t n = (uint64_t)a->n;
    const unsigned char *state = own_state(m, a, s->begin), *from = own_data(m, a, s->begin);
    float *to = CELLS(m, float, c->d);
    uint32_t t = s->begin;
    for (; t < s->end; t++, state += n, from += n * sizeof *to) {
        const uint64_t at = (uint64_t)index[t];
        if (at >= n || state[at] != ELEMENT_WRITTEN)
            break;
        memcpy(to + t, from + at * sizeof *to, sizeof *to);
    }
    return t;
}

const Code *step_aload(Machine *m, Strand *s, const Code *c)
{
    const Array *a = &m->p->arrays.data[c->at];
    const int64_t *index = CELLS(m, int64_t, c->b);
    const bool is_plain = !a->is_shared && a->element == 4;
    const bool is_float = is_plain && c->lanes == 1 && cell_class(a->type) == CELL_F32 && !m->has_poison;
    for (uint32_t t = is_float ? load_floats(m, s, c, a) : s->begin; t < s->end; t++) {
        if (!is_element(m, c, t, a, index[t], c->lanes))
            return NULL;
        if (is_plain && load_words(m, c, a, t, index[t]))
            continue;
        for (uint32_t i = 0; i < c->lanes; i++)
            if (!get_element(m, c, a, t, index[t] + i, c->d, t * c->lanes + i))
                return NULL;
    }
    return c + 1;
}

// As load_floats.
static uint32_t store_floats(const Machine *m, const Strand *s, const Code *c, const Array *a)
{
    const int64_t *index = CELLS(m, int64_t, c->b);
    const uint64_t n = (uint64_t)a->n;
    unsigned char *state = own_state(m, a, s->begin), *to = own_data(m, a, s->begin);
    const float *from = CELLS(m, float, c->c);
    uint32_t t = s->begin;
    for (; t < s->end && (uint64_t)index[t] < n; t++, state += n, to += n * sizeof *from) {
        state[index[t]] = ELEMENT_WRITTEN;
        memcpy(to + (size_t)index[t] * sizeof *from, from + t, sizeof *from);
    }
    return t;
}

const Code *step_astore(Machine *m, Strand *s, const Code *c)
{
    const Array *a = &m->p->arrays.data[c->at];
    const int64_t *index = CELLS(m, int64_t, c->b);
    const uint32_t bytes = cell_bytes(a->type);
    const bool is_plain = !a->is_shared && cell_class(a->type) == CELL_F32 && !m->has_poison;
    for (uint32_t t = is_plain && c->lanes == 1 ? store_floats(m, s, c, a) : s->begin; t < s->end; t++) {
        const unsigned char *from = m->registers + c->c + (size_t)t * c->lanes * bytes;
        if (!is_element(m, c, t, a, index[t], c->lanes))
            return NULL;
        if (is_plain) {
            set_bytes(own_state(m, a, t) + index[t], ELEMENT_WRITTEN, c->lanes);
            copy_bytes(own_data(m, a, t) + index[t] * 4, from, c->lanes * sizeof(float));
            continue;
        }
        for (uint32_t i = 0; i < c->lanes; i++)
            if (!put_element(m, c, a, t, index[t] + i, from + (size_t)i * bytes,
                             machine_has_poison(m, c->c, t * c->lanes + i, bytes)))
                return NULL;
    }
    return c + 1;
}

// --- wide accesses -------------------------------------------------------------------------------

static bool begin_wide(Machine *m, const Code *c, uint32_t t, int64_t index, int64_t at)
{
    const Array *a = &m->p->arrays.data[c->target];
    const uint64_t bytes = (uint64_t)dtype_info[c->dtype].bytes * c->count, begin = m->launch->args[c->at].at;
    const bool is_multiple = index % c->count == 0, is_aligned = begin % bytes == 0;
    if (!is_multiple)
        step_fail(m, c, t, "element %lld is no multiple of %u, as one access of so many needs",
                  (long long)index, c->count);
    else if (!is_aligned)
        step_fail(m, c, t, "accesses of %llu bytes to memory that begins at byte %llu",
                  (unsigned long long)bytes, (unsigned long long)begin);
    return is_multiple && is_aligned && is_element(m, c, t, a, at, c->count);
}

const Code *step_fetch(Machine *m, Strand *s, const Code *c)
{
    const Array *a = &m->p->arrays.data[c->target];
    const uint32_t size = dtype_info[c->dtype].bytes;
    const Call call = {.m = m, .strand = s, .code = c};
    for (uint32_t t = s->begin; t < s->end; t++) {
        const int64_t index = CELLS(m, int64_t, c->a)[t], at = CELLS(m, int64_t, c->c)[t];
        if (!begin_wide(m, c, t, index, at))
            return NULL;
        for (uint32_t i = 0; i < c->count; i++) {
            uint64_t bits = 0, cell = 0;
            bool poison = false;
            if (!param_read(&call, t, (Address){c->at, (index + i) * size}, &bits, size, &poison))
                return NULL;
            cell_load(c->dtype, &bits, &cell);
            m->has_poison = m->has_poison || poison;
            if (!put_element(m, c, a, t, at + i, &cell, poison))
                return NULL;
        }
    }
    return c + 1;
}

const Code *step_put(Machine *m, Strand *s, const Code *c)
{
    const Array *a = &m->p->arrays.data[c->target];
    const uint32_t size = dtype_info[c->dtype].bytes;
    const Call call = {.m = m, .strand = s, .code = c};
    for (uint32_t t = s->begin; t < s->end; t++) {
        const int64_t index = CELLS(m, int64_t, c->a)[t], at = CELLS(m, int64_t, c->c)[t];
        if (!begin_wide(m, c, t, index, at))
            return NULL;
        for (uint32_t i = 0; i < c->count; i++) {
            // c->d: a register of one cell a thread, for this alone.
            uint64_t bits = 0;
            if (!get_element(m, c, a, t, at + i, c->d, t))
                return NULL;
            const uint32_t own = cell_bytes(c->dtype);
            cell_store(c->dtype, m->registers + c->d + (size_t)t * own, &bits);
            if (!param_write(&call, t, (Address){c->at, (index + i) * size}, &bits, size,
                             machine_has_poison(m, c->d, t, own)))
                return NULL;
        }
    }
    return c + 1;
}
