// SPDX-License-Identifier: Apache-2.0
// See device_box.h.
#include "ir/interp/device_box.h"

enum { AXIS_C, AXIS_W, AXIS_H, AXIS_N, STEP_BYTES = 16, BOX_MOST = 256 };

static int64_t element_bytes(const PlanTensorMap *m)
{
    return dtype_info[m->type].bytes;
}

uint32_t box_line_bytes(const PlanTensorMap *m)
{
    return m->box[0] * (uint32_t)element_bytes(m);
}

uint32_t box_lines(const PlanTensorMap *m)
{
    uint32_t n = 1;
    for (uint32_t i = 1; i < (m->is_image ? 2 : m->rank); i++)
        n *= m->box[i];
    return n;
}

// Places of the first tap along W (0) or H (1).
static int64_t places(const PlanTensorMap *m, uint32_t i)
{
    return ((int64_t)m->dim[AXIS_W + i] - 1 + m->high[i] - m->low[i]) / m->step[i] + 1;
}

const char *box_wrong(const PlanTensorMap *m, const BoxAt *at)
{
    if (m->rank == 0 || m->rank > PLAN_MAP_MAX_RANK || (m->is_image && m->rank != AXIS_N + 1))
        return "a map of no such rank";
    if (box_line_bytes(m) % STEP_BYTES != 0 || (m->swizzle != 0 && box_line_bytes(m) > m->swizzle))
        return "a box whose lines are no multiples of 16 bytes, or longer than the swizzle";
    for (uint32_t i = 0; i < (m->is_image ? 2 : m->rank); i++)
        if (m->box[i] == 0 || m->box[i] > (m->is_image && i == 1 ? 4 * BOX_MOST : BOX_MOST))
            return "a box of no such size";
    for (uint32_t i = 1; i < m->rank; i++)
        if (m->stride[i] % STEP_BYTES != 0)
            return "a stride that is no multiple of 16 bytes";
    for (uint32_t i = 0; m->is_image && i < 2; i++) {
        const int64_t from = at->at[AXIS_W + i] - m->low[i];
        if (from < 0 || from % m->step[i] != 0 || from / m->step[i] >= places(m, i))
            return "a pixel that the map does not go over";
    }
    return NULL;
}

// The coordinates of a line. Pixels follow each other along W, H and N as the places of the first tap do.
static void find_line(const PlanTensorMap *m, const BoxAt *at, uint32_t line, int64_t *c)
{
    c[0] = at->at[0];
    if (m->is_image) {
        const int64_t w = (at->at[AXIS_W] - m->low[0]) / m->step[0] + line;
        const int64_t h = (at->at[AXIS_H] - m->low[1]) / m->step[1] + w / places(m, 0);
        c[AXIS_W] = m->low[0] + w % places(m, 0) * m->step[0] + at->tap[0];
        c[AXIS_H] = m->low[1] + h % places(m, 1) * m->step[1] + at->tap[1];
        c[AXIS_N] = at->at[AXIS_N] + h / places(m, 1);
        return;
    }
    for (uint32_t i = 1; i < m->rank; line /= m->box[i], i++)
        c[i] = at->at[i] + line % m->box[i];
}

BoxLine box_line(const PlanTensorMap *m, const BoxAt *at, uint32_t line)
{
    const int64_t bytes = element_bytes(m), size = (int64_t)m->dim[0];
    int64_t c[PLAN_MAP_MAX_RANK] = {0};
    find_line(m, at, line, c);
    BoxLine l = {.from = c[0] * bytes};
    bool is_in = true;
    for (uint32_t i = 1; i < m->rank; i++) {
        is_in = is_in && c[i] >= 0 && c[i] < (int64_t)m->dim[i];
        l.from += c[i] * (int64_t)m->stride[i];
    }
    const int64_t end = size - c[0] < (int64_t)m->box[0] ? size - c[0] : (int64_t)m->box[0];
    const int64_t first = c[0] < 0 ? -c[0] : 0;
    if (is_in && first < end) {
        l.first = (uint32_t)(first * bytes);
        l.end = (uint32_t)(end * bytes);
    }
    return l;
}
