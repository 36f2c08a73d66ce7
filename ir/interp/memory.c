// SPDX-License-Identifier: Apache-2.0
// Accesses to parameters: their bounds, what was written, who else touches the same bytes, and the values.
#include "ir/interp/machine.h"

#include <string.h>

// --- what holds for every access -----------------------------------------------------------------

static bool fail(Machine *m, const Code *c, uint32_t t, const char *what, int64_t at)
{
    const KParam *p = &m->p->k->params.data[c->at];
    const int64_t bytes = (int64_t)dtype_info[p->dtype].bytes;
    step_fail(m, c, t, "%s: element %lld of %s, which has %lld to %lld", what, (long long)(at / bytes),
              p->name, (long long)(m->params[c->at].low / bytes),
              (long long)(m->params[c->at].high / bytes - 1));
    return false;
}

static bool touch(Machine *m, const Code *c, uint32_t t, int64_t at, uint32_t n, bool is_write)
{
    const Bound *p = &m->params[c->at];
    const uint64_t first = (uint64_t)(at - p->touch_low) >> p->unit,
                   last = (uint64_t)(at + n - 1 - p->touch_low) >> p->unit;
    const char *wrong =
        (is_write ? touch_write : touch_read)(m, p->touch + first, (uint32_t)(last - first + 1), t, true);
    if (wrong == NULL)
        return true;
    step_fail(m, c, t, "%s (byte %lld of %s)", wrong, (long long)at, m->p->k->params.data[c->at].name);
    return false;
}

// The same where nobody reads, in a fork.
static bool note_writer(Machine *m, const Code *c, const Bound *p, uint32_t t, int64_t at, uint32_t n)
{
    const uint64_t first = (uint64_t)(at - p->touch_low) >> p->unit,
                   last = (uint64_t)(at + n - 1 - p->touch_low) >> p->unit;
    const uint32_t own = (uint32_t)(m->fork_first + t + 1), floor = (uint32_t)m->fork_floor;
    for (uint64_t i = first; m->is_fork && i <= last; i++) {
        if (p->writer[i] > floor && p->writer[i] != own) {
            step_fail(m, c, t, "race: %s writes the same bytes, and nothing orders the two (byte %lld of %s)",
                      who_text(m, p->writer[i]), (long long)at, m->p->k->params.data[c->at].name);
            return false;
        }
        p->writer[i] = own;
    }
    return true;
}

static bool order_write(Machine *m, const Code *c, uint32_t t, int64_t at, uint32_t n)
{
    const Bound *p = &m->params[c->at];
    if (p->writer != NULL)
        return note_writer(m, c, p, t, at, n);
    return p->touch == NULL || touch(m, c, t, at, n, true);
}

static bool is_written(const unsigned char *w, uint32_t n)
{
    uint64_t all = UINT64_C(0x0101010101010101), some = 0;
    for (; n >= 8; n -= 8, w += 8) {
        memcpy(&some, w, 8);
        all &= some;
    }
    for (; n > 0; n--, w++)
        all &= *w != 0 ? all : 0;
    return all == UINT64_C(0x0101010101010101);
}

// Lanes of which some byte was never written are poison from now on.
static void poison_lanes(Machine *m, const Code *c, const unsigned char *written, uint32_t cell,
                         uint32_t bytes)
{
    const uint32_t own = cell_bytes(c->dtype);
    m->has_poison = true;
    for (uint32_t i = 0; i < c->count; i++)
        memset(m->poison + (c->d + (size_t)(cell + i) * own) / 4, !is_written(written + i * bytes, bytes),
               own / 4);
}

static inline bool begin_read(Machine *m, const Code *c, const Bound *p, uint32_t t, int64_t at,
                              uint32_t size)
{
    const uint32_t n = c->count * size;
    if (__builtin_expect(at < p->low || at + n > p->high, 0))
        return fail(m, c, t, "read outside", at);
    if (!p->is_whole && __builtin_expect(!is_written(p->written + at, n), 0))
        poison_lanes(m, c, p->written + at, t * c->lanes, size);
    return p->touch == NULL || touch(m, c, t, at, n, false);
}

static void mark_written(Machine *m, const Code *c, Bound *p, int64_t at, uint32_t cell, uint32_t bytes)
{
    if (!m->has_poison) {
        if (p->is_whole)
            return;
        if (c->count * bytes == 4) // most are of one f32, for which a call is too long
            memset(p->written + at, 1, 4);
        else
            memset(p->written + at, 1, (size_t)c->count * bytes);
        return;
    }
    const uint32_t own = cell_bytes(c->dtype);
    for (uint32_t i = 0; i < c->count; i++) {
        const bool is_poison = machine_has_poison(m, c->a, cell + i, own);
        memset(p->written + at + (size_t)i * bytes, !is_poison, bytes);
        p->is_whole = p->is_whole && !is_poison;
    }
}

static inline bool begin_write(Machine *m, const Code *c, Bound *p, uint32_t t, int64_t at, uint32_t size)
{
    const uint32_t n = c->count * size;
    if (__builtin_expect(at < p->low || at + n > p->high, 0))
        return fail(m, c, t, "written outside", at);
    mark_written(m, c, p, at, t * c->lanes, size);
    return order_write(m, c, t, at, n);
}

// --- by type -------------------------------------------------------------------------------------

// One element for each thread, of memory that is known as a whole and that nobody writes.
static inline bool reads_plainly(const Code *c, const Bound *p)
{
    return c->count == 1 && c->lanes == 1 && p->is_whole && p->touch == NULL;
}

#define LOAD(name, memory_type, cell_type, value)                                                            \
    static const Code *load_##name(Machine *m, Strand *s, const Code *c)                                     \
    {                                                                                                        \
        const Bound *p = &m->params[c->at];                                                                  \
        const int64_t *index = CELLS(m, int64_t, c->a), low = p->low, high = p->high;                        \
        const unsigned char *data = p->data;                                                                 \
        uint32_t begin = s->begin;                                                                           \
        for (const uint32_t end = reads_plainly(c, p) ? s->end : begin; begin < end; begin++) {              \
            const int64_t at = index[begin] * (int64_t)sizeof(memory_type);                                  \
            memory_type v;                                                                                   \
            if (__builtin_expect(at < low || at + (int64_t)sizeof v > high, 0))                              \
                break;                                                                                       \
            memcpy(&v, data + at, sizeof v);                                                                 \
            CELLS(m, cell_type, c->d)[begin] = (cell_type)value(v);                                          \
        }                                                                                                    \
        for (uint32_t t = begin; t < s->end; t++) {                                                          \
            const int64_t at = index[t] * (int64_t)sizeof(memory_type);                                      \
            cell_type *out = CELLS(m, cell_type, c->d) + (size_t)t * c->lanes;                               \
            if (!begin_read(m, c, p, t, at, sizeof(memory_type)))                                            \
                return NULL;                                                                                 \
            for (uint32_t i = 0; i < c->count; i++) {                                                        \
                memory_type v;                                                                               \
                memcpy(&v, p->data + at + i * sizeof v, sizeof v);                                           \
                out[i] = (cell_type)value(v);                                                                \
            }                                                                                                \
            for (uint32_t i = c->count; i < c->lanes; i++)                                                   \
                out[i] = 0;                                                                                  \
        }                                                                                                    \
        return c + 1;                                                                                        \
    }
#define STORE(name, memory_type, cell_type)                                                                  \
    static const Code *store_##name(Machine *m, Strand *s, const Code *c)                                    \
    {                                                                                                        \
        Bound *p = &m->params[c->at];                                                                        \
        const int64_t *index = CELLS(m, int64_t, c->b);                                                      \
        for (uint32_t t = s->begin; t < s->end; t++) {                                                       \
            const int64_t at = index[t] * (int64_t)sizeof(memory_type);                                      \
            const cell_type *from = CELLS(m, cell_type, c->a) + (size_t)t * c->lanes;                        \
            if (!begin_write(m, c, p, t, at, sizeof(memory_type)))                                           \
                return NULL;                                                                                 \
            for (uint32_t i = 0; i < c->count; i++) {                                                        \
                const memory_type v = (memory_type)from[i];                                                  \
                memcpy(p->data + at + i * sizeof v, &v, sizeof v);                                           \
            }                                                                                                \
        }                                                                                                    \
        return c + 1;                                                                                        \
    }

#define ITSELF(v) (v)
#define BOTH(name, memory_type, cell_type)                                                                   \
    LOAD(name, memory_type, cell_type, ITSELF)                                                               \
    STORE(name, memory_type, cell_type)

BOTH(f32, float, float)
BOTH(f64, double, double)
BOTH(i64, int64_t, int64_t)
BOTH(i32, int32_t, int64_t)
BOTH(i16, int16_t, int64_t)
BOTH(i8, int8_t, int64_t)
BOTH(u32, uint32_t, int64_t)
BOTH(u16, uint16_t, int64_t)
BOTH(u8, uint8_t, int64_t)
LOAD(f16, uint16_t, float, f16_value)
LOAD(bf16, uint16_t, float, bf16_value)

// Types that are converted.
static const Code *load_any(Machine *m, Strand *s, const Code *c)
{
    const Bound *p = &m->params[c->at];
    const uint32_t size = dtype_info[c->dtype].bytes, own = cell_bytes(c->dtype);
    for (uint32_t t = s->begin; t < s->end; t++) {
        const int64_t at = CELLS(m, int64_t, c->a)[t] * size;
        unsigned char *out = m->registers + c->d + (size_t)t * c->lanes * own;
        if (!begin_read(m, c, p, t, at, size))
            return NULL;
        for (uint32_t i = 0; i < c->count; i++)
            cell_load(c->dtype, p->data + at + (size_t)i * size, out + (size_t)i * own);
        memset(out + (size_t)c->count * own, 0, (size_t)(c->lanes - c->count) * own);
    }
    return c + 1;
}

static const Code *store_any(Machine *m, Strand *s, const Code *c)
{
    Bound *p = &m->params[c->at];
    const uint32_t size = dtype_info[c->dtype].bytes, own = cell_bytes(c->dtype);
    for (uint32_t t = s->begin; t < s->end; t++) {
        const int64_t at = CELLS(m, int64_t, c->b)[t] * size;
        const unsigned char *from = m->registers + c->a + (size_t)t * c->lanes * own;
        if (!begin_write(m, c, p, t, at, size))
            return NULL;
        for (uint32_t i = 0; i < c->count; i++)
            cell_store(c->dtype, from + (size_t)i * own, p->data + at + (size_t)i * size);
    }
    return c + 1;
}

static const Step by_type[DTYPE_COUNT][2] = {
    [DTYPE_f32] = {load_f32, store_f32}, [DTYPE_f64] = {load_f64, store_f64},
    [DTYPE_i64] = {load_i64, store_i64}, [DTYPE_u64] = {load_i64, store_i64},
    [DTYPE_i32] = {load_i32, store_i32}, [DTYPE_i16] = {load_i16, store_i16},
    [DTYPE_i8] = {load_i8, store_i8},    [DTYPE_u32] = {load_u32, store_u32},
    [DTYPE_u16] = {load_u16, store_u16}, [DTYPE_u8] = {load_u8, store_u8},
    [DTYPE_f16] = {load_f16, NULL},      [DTYPE_bf16] = {load_bf16, NULL},
};

Step load_step(int type)
{
    return by_type[type][0] != NULL ? by_type[type][0] : load_any;
}

Step store_step(int type)
{
    return by_type[type][1] != NULL ? by_type[type][1] : store_any;
}

// --- addresses -----------------------------------------------------------------------------------

// KI_point: d is added to indices of the parameter from here on. b: what begins at element b.
const Code *step_point(Machine *m, Strand *s, const Code *c)
{
    for (uint32_t t = s->begin; t < s->end; t++) {
        if (CELLS(m, int64_t, c->a)[t] != 0)
            return step_fail(m, c, t, "an address from a table, of memory that is not known here");
        CELLS(m, int64_t, c->d)[t] = CELLS(m, int64_t, c->b)[t];
    }
    return c + 1;
}

// --- for device functions and wide accesses ------------------------------------------------------

static bool is_inside(const Call *c, uint32_t who, Address at, uint32_t n)
{
    const Bound *p = &c->m->params[at.param];
    if (at.byte >= p->low && at.byte + n <= p->high)
        return true;
    call_fail(c, who, "bytes %lld to %lld of %s, which has %lld to %lld", (long long)at.byte,
              (long long)at.byte + n - 1, c->m->p->k->params.data[at.param].name, (long long)p->low,
              (long long)p->high - 1);
    return false;
}

static bool is_ordered(const Call *c, uint32_t who, Address at, uint32_t n, bool is_write)
{
    Code code = *c->code;
    code.at = at.param;
    if (is_write)
        return order_write(c->m, &code, who, at.byte, n);
    return c->m->params[at.param].touch == NULL || touch(c->m, &code, who, at.byte, n, false);
}

bool param_read(const Call *c, uint32_t who, Address at, void *out, uint32_t n, bool *poison)
{
    return is_inside(c, who, at, n) && is_ordered(c, who, at, n, false) &&
           param_take(c, who, at, out, n, poison);
}

bool param_take(const Call *c, uint32_t who, Address at, void *out, uint32_t n, bool *poison)
{
    const Bound *p = &c->m->params[at.param];
    if (!is_inside(c, who, at, n))
        return false;
    *poison = *poison || !(p->is_whole || is_written(p->written + at.byte, n));
    memcpy(out, p->data + at.byte, n);
    return true;
}

bool param_write(const Call *c, uint32_t who, Address at, const void *in, uint32_t n, bool is_poison)
{
    return is_inside(c, who, at, n) && is_ordered(c, who, at, n, true) &&
           param_give(c, who, at, in, n, is_poison);
}

bool param_give(const Call *c, uint32_t who, Address at, const void *in, uint32_t n, bool is_poison)
{
    Bound *p = &c->m->params[at.param];
    if (!is_inside(c, who, at, n))
        return false;
    memset(p->written + at.byte, !is_poison, n);
    p->is_whole = p->is_whole && !is_poison;
    memcpy(p->data + at.byte, in, n);
    return true;
}

bool param_atomic_add(const Call *c, uint32_t who, Address at, uint32_t v, uint32_t *before)
{
    Bound *p = &c->m->params[at.param];
    if (!is_inside(c, who, at, sizeof v))
        return false;
    if (!p->is_whole && !is_written(p->written + at.byte, sizeof v))
        return call_fail(c, who, "a counter that nobody has set");
    memcpy(before, p->data + at.byte, sizeof v);
    v += *before;
    memcpy(p->data + at.byte, &v, sizeof v);
    return true;
}

bool param_atomic_max(const Call *c, uint32_t who, Address at, int32_t v)
{
    const Bound *p = &c->m->params[at.param];
    int32_t before = 0;
    if (!is_inside(c, who, at, sizeof v))
        return false;
    if (!p->is_whole && !is_written(p->written + at.byte, sizeof v))
        return call_fail(c, who, "a number that nobody has set");
    memcpy(&before, p->data + at.byte, sizeof before);
    if (v > before)
        memcpy(p->data + at.byte, &v, sizeof v);
    return true;
}

bool param_atomic_set(const Call *c, uint32_t who, Address at, uint32_t v)
{
    Bound *p = &c->m->params[at.param];
    if (!is_inside(c, who, at, sizeof v))
        return false;
    memset(p->written + at.byte, 1, sizeof v);
    memcpy(p->data + at.byte, &v, sizeof v);
    return true;
}
