// SPDX-License-Identifier: Apache-2.0
// Exact narrowing of f32 constants; see halves.h.
#include "passes/lower/halves.h"

#include <string.h>

static uint32_t bits_of(const void *data, int64_t i)
{
    uint32_t u;
    memcpy(&u, (const unsigned char *)data + i * 4, sizeof u);
    return u;
}

static bool is_bf16(uint32_t u)
{
    return (u & 0xffffu) == 0;
}

// The bits below the last one of an f16 of this size, 24 and more when it would be 0.
static uint32_t spare_bits(uint32_t u)
{
    const uint32_t exponent = u >> 23 & 255;
    return exponent >= 113 ? 13 : 13 + 113 - exponent;
}

static bool is_f16(uint32_t u)
{
    const uint32_t rest = u & 0x7fffffffu, spare = spare_bits(u);
    if (rest == 0 || rest == 0x7f800000u)
        return true;
    return rest < 0x47800000u && spare < 24 && (rest & ((1u << spare) - 1)) == 0;
}

static uint16_t to_f16(uint32_t u)
{
    const uint32_t rest = u & 0x7fffffffu, spare = spare_bits(u), fraction = (rest & 0x7fffffu) | 0x800000u;
    const uint32_t h = rest == 0             ? 0
                       : rest == 0x7f800000u ? 0x7c00u
                       : spare > 13          ? fraction >> spare
                                             : (rest - 0x38000000u) >> 13;
    return (uint16_t)((u >> 16 & 0x8000u) | h);
}

DType halves_type(DType type, const void *data, int64_t n)
{
    rlx_assert(data != NULL || n == 0);
    bool fits_bf16 = true, fits_f16 = true;
    if (type != DTYPE_f32 || n < READS_LEAST)
        return type;
    for (int64_t i = 0; i < n && (fits_bf16 || fits_f16); i++) {
        const uint32_t u = bits_of(data, i);
        fits_bf16 = fits_bf16 && is_bf16(u);
        fits_f16 = fits_f16 && is_f16(u);
    }
    return fits_bf16 ? DTYPE_bf16 : fits_f16 ? DTYPE_f16 : type;
}

// Is it the same elements in another order or shape?
static bool only_moves(const Node *n)
{
    const OpInfo *info = &op_info[n->op];
    return n->n_src == 1 && info->types == OPTYPES_MOVE && (info->flags & OPFLAG_POINT) == 0 &&
           ((info->flags & OPFLAG_VIEW) != 0 || info->layout == OPLAYOUT_ANY);
}

bool halves_come_from(const Graph *g, NodeId id, DType type)
{
    rlx_assert(type != DTYPE_f32);
    const Node *n = graph_node(g, id);
    while (n->dtype == DTYPE_f32 && only_moves(n))
        n = graph_node(g, n->src[0]);
    return n->dtype == DTYPE_f32 && n->n_src == 1 && (op_info[n->op].flags & OPFLAG_POINT) != 0 &&
           graph_node(g, n->src[0])->dtype == (uint8_t)type;
}

DType halves_type_in(const Graph *g, DType type, const void *data, int64_t n)
{
    if (g->reads == NULL)
        return halves_type(type, data, n);
    const ReadsWidened *w = reads_widened(g->reads, data);
    return w != NULL && type == DTYPE_f32 && n >= READS_LEAST ? w->type : type;
}

void halves_copy(void *out, DType to, const void *data, DType from, int64_t i)
{
    rlx_assert(to == from || (from == DTYPE_f32 && (to == DTYPE_bf16 || to == DTYPE_f16)));
    const uint32_t bytes = dtype_info[from].bytes;
    if (to == from) {
        memcpy(out, (const unsigned char *)data + i * bytes, bytes);
        return;
    }
    const uint32_t u = bits_of(data, i);
    const uint16_t h = to == DTYPE_bf16 ? (uint16_t)(u >> 16) : to_f16(u);
    memcpy(out, &h, sizeof h);
}
