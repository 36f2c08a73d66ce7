// SPDX-License-Identifier: Apache-2.0
// int_conv of groups with fewer output channels than vectors of bytes have, for microcontrollers:
// neighbouring groups become one, whose other weights are zeros. That does not pay where a group has one
// input: depthwise schedules take fewer instructions.
#include "passes/lower/conv/int_conv.h"
#include <string.h>

// Groups that become one: as few as have enough output channels, or all of them. 1: none.
static int64_t groups_to_join(const IntConv *c)
{
    enum { ENOUGH = 4, MOST = 16 };
    int64_t n = c->oc < ENOUGH ? ceil_div(ENOUGH, c->oc) : 1;
    while (n < c->group && n <= MOST && c->group % n != 0)
        n++;
    n = n < c->group ? n : c->group;
    return n <= MOST ? n : 1;
}

// The weights of the joined groups, [channel][input][tap].
static const int32_t *spread(const IntConv *c, const int32_t *values, int64_t n)
{
    const int64_t each = c->ic * c->kh * c->kw, channels = c->group * c->oc;
    int32_t *out = ARENA_ARRAY(c->l->pass->perm, int32_t, channels * n * each);
    for (int64_t o = 0; o < channels; o++)
        memcpy(out + (o * n + o / c->oc % n) * each, values + o * each, (size_t)each * sizeof *out);
    return out;
}

// There may be 16 times as many as before: not of weights that no microcontroller has room for.
static bool has_few_weights(const IntConv *c)
{
    enum { MOST = 1 << 20 };
    return c->group * c->oc * c->ic * c->kh * c->kw <= MOST;
}

bool int_conv_joined(const IntConv *c, const Domain *d, const int32_t *values, bool is_inside)
{
    const int64_t n = groups_to_join(c);
    IntConv joined = *c;
    if (n == 1 || c->ic == 1 || c->l->caps->byte_vectors == BYTE_VECTORS_NONE || !has_few_weights(c))
        return false;
    joined.group /= n;
    joined.ic *= n;
    joined.oc *= n;
    const int32_t *all = spread(c, values, n);
    return int_conv_rvv(&joined, d, all, is_inside) || int_conv_mve(&joined, d, all, is_inside);
}
