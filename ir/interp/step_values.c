// SPDX-License-Identifier: Apache-2.0
// Values other than operations and casts: copies, lanes, the number of the thread, and what several threads
// compute together.
#include "ir/interp/machine.h"

#include <string.h>

// var, get and set.
const Code *step_copy(Machine *m, Strand *s, const Code *c)
{
    const size_t cell = (size_t)cell_bytes(c->dtype) * c->lanes;
    memcpy(m->registers + c->d + s->begin * cell, m->registers + c->a + s->begin * cell,
           (s->end - s->begin) * cell);
    return c + 1;
}

const Code *step_splat(Machine *m, Strand *s, const Code *c)
{
    const uint32_t bytes = cell_bytes(c->dtype), n = c->lanes;
    for (uint32_t t = s->begin; t < s->end; t++) {
        if (bytes == 4)
            for (uint32_t i = 0; i < n; i++)
                CELLS(m, uint32_t, c->d)[t * n + i] = CELLS(m, uint32_t, c->a)[t];
        else
            for (uint32_t i = 0; i < n; i++)
                CELLS(m, uint64_t, c->d)[t * n + i] = CELLS(m, uint64_t, c->a)[t];
    }
    return c + 1;
}

const Code *step_zip(Machine *m, Strand *s, const Code *c)
{
    const uint32_t n = c->lanes, bytes = cell_bytes(c->dtype);
    for (uint32_t t = s->begin; t < s->end; t++) {
        const size_t first = (size_t)t * n * bytes;
        const unsigned char *a = CELLS(m, unsigned char, c->a) + first;
        const unsigned char *b = CELLS(m, unsigned char, c->b) + first;
        unsigned char *out = CELLS(m, unsigned char, c->d) + first;
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t from = zip_lane((KZip)c->imm, n, i);
            memcpy(out + (size_t)i * bytes, (from < n ? a : b) + (size_t)(from % n) * bytes, bytes);
        }
    }
    return c + 1;
}

enum { MAX_LANES = 64, MAX_TEAM = 1024 };

// d = a op b on n cells in a memory of their own: as the operation does it in registers.
static void join_cells(const Code *c, unsigned char *d, const unsigned char *a, const unsigned char *b,
                       uint32_t n)
{
    const uint32_t bytes = cell_bytes(c->dtype), room = MAX_TEAM * 8;
    unsigned char cells[3 * MAX_TEAM * 8];
    Machine part = {.registers = cells};
    Strand all = {.end = n};
    const Code join = {
        .a = room, .b = 2 * room, .c = 2 * room, .lanes = 1, .shift = c->shift, .dtype = c->dtype};
    memcpy(cells + room, a, (size_t)n * bytes);
    memcpy(cells + 2 * (size_t)room, b, (size_t)n * bytes);
    op_steps[c->kop][cell_class(c->dtype)](&part, &all, &join);
    memcpy(d, cells, (size_t)n * bytes);
}

const Code *step_hreduce(Machine *m, Strand *s, const Code *c)
{
    const uint32_t bytes = cell_bytes(c->dtype), lanes = c->count;
    for (uint32_t t = s->begin; t < s->end; t++) {
        unsigned char part[MAX_LANES * 8];
        memcpy(part, m->registers + c->a + (size_t)t * lanes * bytes, (size_t)lanes * bytes);
        for (uint32_t half = lanes / 2; half > 0; half /= 2)
            join_cells(c, part, part, part + (size_t)half * bytes, half);
        memcpy(m->registers + c->d + (size_t)t * bytes, part, bytes);
    }
    return c + 1;
}

// Values of threads whose numbers differ by `step` are joined, for all steps: each gets the same bits.
const Code *step_team(Machine *m, Strand *s, const Code *c)
{
    const uint32_t bytes = cell_bytes(c->dtype), width = (uint32_t)c->imm;
    Call call = {.m = m, .strand = s, .code = c, .begin = s->begin, .end = s->end, .token = &s->token};
    unsigned char other[MAX_TEAM * 8];
    if (!call_gathers(&call, width))
        return flow_block(m, s, c);
    memcpy(m->registers + c->d + (size_t)s->begin * bytes, m->registers + c->a + (size_t)s->begin * bytes,
           (size_t)(s->end - s->begin) * bytes);
    for (uint32_t t = s->begin; t < s->end; t += width) {
        unsigned char *mine = m->registers + c->d + (size_t)t * bytes;
        for (uint32_t step = width / 2; step > 0; step /= 2) {
            for (uint32_t i = 0; i < width; i++)
                memcpy(other + (size_t)i * bytes, mine + (size_t)(i ^ step) * bytes, bytes);
            join_cells(c, mine, mine, other, width);
        }
    }
    return c + 1;
}

const Code *step_thread(Machine *m, Strand *s, const Code *c)
{
    int64_t *out = CELLS(m, int64_t, c->d);
    for (uint32_t t = s->begin; t < s->end; t++)
        out[t] = t % m->group_size;
    return c + 1;
}

// One launch runs all iterations.
const Code *step_since(Machine *m, Strand *s, const Code *c)
{
    int64_t *out = CELLS(m, int64_t, c->d);
    for (uint32_t t = s->begin; t < s->end; t++)
        out[t] = 0;
    return c + 1;
}

// Which of those that share the kernel it is (alone, there is but part 0), and how many they are.
const Code *step_part(Machine *m, Strand *s, const Code *c)
{
    int64_t *out = CELLS(m, int64_t, c->d);
    const int64_t parts = m->launch->parts > 1 ? m->launch->parts : 1;
    for (uint32_t t = s->begin; t < s->end; t++)
        out[t] = c->imm != 0 ? parts : parts == 1 ? 0 : t;
    return c + 1;
}
