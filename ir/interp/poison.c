// SPDX-License-Identifier: Apache-2.0
// Poison: values made of what nobody wrote. Most kernels never have any, so registers carry marks only once a
// load has found some. What is computed of poison is poison; whoever decides on it, uses it as an address or
// hands it to a barrier is wrong. A store of it makes memory unwritten again.
#include "ir/interp/machine.h"

#include <string.h>

static unsigned char *marks(const Machine *m, uint32_t slot, uint32_t cell, uint32_t bytes)
{
    return m->poison + (slot + (size_t)cell * bytes) / 4;
}

static bool has_any(const Machine *m, uint32_t slot, uint32_t first, uint32_t n, uint32_t bytes)
{
    return memchr(marks(m, slot, first, bytes), 1, (size_t)n * bytes / 4) != NULL;
}

// A register of one cell a thread whose value is acted on.
static bool check(Machine *m, const Strand *s, const Code *c, uint32_t slot, uint32_t bytes)
{
    for (uint32_t t = s->begin; t < s->end; t++)
        if (*marks(m, slot, t, bytes) != 0) {
            step_fail(m, c, t, "it uses a value that nobody wrote");
            return false;
        }
    return true;
}

static bool check_index(Machine *m, const Strand *s, const Code *c, uint32_t slot)
{
    return check(m, s, c, slot, 8);
}

static void set(const Machine *m, uint32_t slot, uint32_t cell, uint32_t bytes, bool is_poison)
{
    memset(marks(m, slot, cell, bytes), is_poison, bytes / 4);
}

// and, or: where one side decides, the other does not matter.
static bool is_decided(const Machine *m, const Code *c, uint32_t i)
{
    const bool decides = c->kop == KOP_or;
    if (c->from != DTYPE_bool || (c->kop != KOP_and && c->kop != KOP_or))
        return false;
    const bool a = *marks(m, c->a, i, 4) == 0 && (CELLS(m, int32_t, c->a)[i] != 0) == decides;
    return a || (*marks(m, c->b, i, 4) == 0 && (CELLS(m, int32_t, c->b)[i] != 0) == decides);
}

static void flow_op(const Machine *m, const Strand *s, const Code *c)
{
    const uint32_t from = cell_bytes(c->from), to = cell_bytes(c->dtype), arity = kop_info[c->kop].arity;
    const uint32_t slots[3] = {c->a, c->b, c->c};
    for (uint32_t i = s->begin * c->lanes; i < s->end * c->lanes; i++) {
        bool is_poison = false;
        if (c->kop == KOP_select) {
            is_poison = *marks(m, c->a, i, 4) != 0 ||
                        *marks(m, CELLS(m, int32_t, c->a)[i] != 0 ? c->b : c->c, i, from) != 0;
        } else {
            for (uint32_t k = 0; k < arity; k++)
                is_poison = is_poison || *marks(m, slots[k], i, from) != 0;
            is_poison = is_poison && !is_decided(m, c, i);
        }
        set(m, c->d, i, to, is_poison);
    }
}

static void flow_cast(const Machine *m, const Strand *s, const Code *c)
{
    for (uint32_t i = s->begin * c->lanes; i < s->end * c->lanes; i++)
        set(m, c->d, i, cell_bytes(c->dtype), *marks(m, c->a, i, cell_bytes(c->from)) != 0);
}

static void flow_copy(const Machine *m, const Strand *s, const Code *c)
{
    const uint32_t bytes = cell_bytes(c->dtype), first = s->begin * c->lanes;
    memcpy(marks(m, c->d, first, bytes), marks(m, c->a, first, bytes),
           (size_t)(s->end - s->begin) * c->lanes * bytes / 4);
}

static void flow_splat(const Machine *m, const Strand *s, const Code *c)
{
    const uint32_t bytes = cell_bytes(c->dtype);
    for (uint32_t i = s->begin * c->lanes; i < s->end * c->lanes; i++)
        set(m, c->d, i, bytes, *marks(m, c->a, i / c->lanes, bytes) != 0);
}

static void flow_zip(const Machine *m, const Strand *s, const Code *c)
{
    const uint32_t n = c->lanes, bytes = cell_bytes(c->dtype);
    for (uint32_t t = s->begin; t < s->end; t++)
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t from = zip_lane((KZip)c->imm, n, i);
            set(m, c->d, t * n + i, bytes,
                *marks(m, from < n ? c->a : c->b, t * n + from % n, bytes) != 0);
        }
}

static void flow_hreduce(const Machine *m, const Strand *s, const Code *c)
{
    const uint32_t bytes = cell_bytes(c->dtype);
    for (uint32_t t = s->begin; t < s->end; t++)
        set(m, c->d, t, bytes, has_any(m, c->a, t * c->count, c->count, bytes));
}

// Of teams that are not complete yet the step comes again.
static void flow_team(const Machine *m, const Strand *s, const Code *c)
{
    const uint32_t bytes = cell_bytes(c->dtype), width = (uint32_t)c->imm;
    for (uint32_t t = s->begin; t < s->end; t++)
        set(m, c->d, t, bytes, has_any(m, c->a, t / width * width, width, bytes));
}

static void flow_call(const Machine *m, const Strand *s, const Code *c)
{
    for (uint32_t t = s->begin; t < s->end; t++) {
        bool is_poison = false;
        for (uint32_t i = 0; i < c->count; i++) {
            const Operand *o = &m->p->operands.data[c->at + i];
            is_poison = is_poison || *marks(m, o->slot, t, cell_bytes(o->type)) != 0;
        }
        set(m, c->d, t, cell_bytes(c->dtype), is_poison);
    }
}

static bool check_device(Machine *m, const Strand *s, const Code *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        const Operand *o = &m->p->operands.data[c->at + i];
        if ((strchr("iu", o->letter) != NULL && !check_index(m, s, c, o->slot)) ||
            (o->letter == 'b' && !check(m, s, c, o->slot, 4)) ||
            (o->letter == 'p' && !check_index(m, s, c, o->slot)))
            return false;
    }
    return true;
}

static bool check_matrix(Machine *m, const Strand *s, const Code *c)
{
    const bool has_a = c->kop == KMATRIX_load || c->kop == KMATRIX_split;
    return (!has_a || check_index(m, s, c, c->a)) &&
           (!(has_a || c->kop == KMATRIX_store) || check_index(m, s, c, c->b)) &&
           (c->kop != KMATRIX_store || check_index(m, s, c, c->c));
}

bool poison_flow(Machine *m, const Strand *s, const Code *c)
{
    static void (*const flows[KI_COUNT])(const Machine *, const Strand *, const Code *) = {
        [KI_op] = flow_op,           [KI_cast] = flow_cast, [KI_splat] = flow_splat, [KI_zip] = flow_zip,
        [KI_hreduce] = flow_hreduce, [KI_team] = flow_team, [KI_call] = flow_call,   [KI_var] = flow_copy,
        [KI_get] = flow_copy,        [KI_set] = flow_copy,
    };
    if (flows[c->kind] != NULL)
        flows[c->kind](m, s, c);
    switch (c->kind) {
    case KI_load:
        memset(marks(m, c->d, s->begin * c->lanes, cell_bytes(c->dtype)), 0,
               (size_t)(s->end - s->begin) * c->lanes * cell_bytes(c->dtype) / 4);
        return check_index(m, s, c, c->a);
    case KI_store:
    case KI_aload:
    case KI_astore:
        return check_index(m, s, c, c->b);
    case KI_fetch:
    case KI_put:
        return check_index(m, s, c, c->a) && check_index(m, s, c, c->c);
    case KI_point:
        return check_index(m, s, c, c->a) && check_index(m, s, c, c->b);
    case KI_for:
        return check_index(m, s, c, c->a) && check_index(m, s, c, c->b);
    case KI_if:
        return check(m, s, c, c->a, 4);
    case KI_device:
        return check_device(m, s, c);
    case KI_matrix:
        return check_matrix(m, s, c);
    default:
        return true;
    }
}
