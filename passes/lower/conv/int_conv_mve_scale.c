// SPDX-License-Identifier: Apache-2.0
// See int_conv_mve.h.
#include "passes/lower/conv/int_conv_mve.h"

#include <string.h>

// What is behind the weights of a block, of all groups.
typedef struct Tail {
    bool is_own;
    uint32_t n_exceptions;
} Tail;

static Tail tail_of(const MveScales *s, int64_t first)
{
    Tail t = {0};
    for (int64_t g = 0; g < s->groups; g++)
        for (int64_t j = 0; j < MVE_BLOCK; j++) {
            const RequantScale *c = &s->of[g * s->channels + first + j];
            t.is_own = t.is_own || int_scale_is_own(c, s->high);
            t.n_exceptions = c->n_exceptions > t.n_exceptions ? c->n_exceptions : t.n_exceptions;
        }
    return t;
}

int64_t mve_tail_words(const MveScales *s, int64_t first)
{
    const Tail t = tail_of(s, first);
    return t.is_own ? 1 + t.n_exceptions * MVE_EXCEPTION + MVE_OWN_TAIL : MVE_BLOCK;
}

void mve_put(unsigned char **out, int64_t word)
{
    const uint32_t v = (uint32_t)(uint64_t)word;
    memcpy(*out, &v, sizeof v);
    *out += sizeof v;
}

// Exception i of four channels; 0 counts as 0 where a channel has none.
static void pack_exception(const RequantScale *channel, uint32_t i, unsigned char **out)
{
    for (int64_t j = 0; j < MVE_BLOCK; j++)
        mve_put(out, i < channel[j].n_exceptions ? channel[j].exception[i] : 0);
    for (int64_t j = 0; j < MVE_BLOCK; j++)
        mve_put(out, i < channel[j].n_exceptions ? int_scale_instead(&channel[j], i) : 0);
}

void mve_pack_tail(const MveScales *s, int64_t group, int64_t first, unsigned char **out)
{
    const Tail t = tail_of(s, first);
    const RequantScale *channel = &s->of[group * s->channels + first];
    if (t.is_own)
        mve_put(out, -1 - (int64_t)t.n_exceptions);
    for (uint32_t i = 0; i < t.n_exceptions; i++)
        pack_exception(channel, i, out);
    for (int64_t j = 0; j < MVE_BLOCK; j++)
        mve_put(out, channel[j].factor);
    for (int64_t j = 0; j < MVE_BLOCK && t.is_own; j++)
        mve_put(out, ~channel[j].start);
    for (int64_t j = 0; j < MVE_BLOCK && t.is_own; j++)
        mve_put(out, (int64_t)((uint64_t)channel[j].start >> 32) - (INT64_C(1) << (s->shift - 1)));
}

int64_t mve_high(const MveScales *s)
{
    return s->high - (INT64_C(1) << (s->shift - 1));
}

static bool is_result_even(const IntConv *c, const Domain *d)
{
    const Access *y = int_conv_result(c, d);
    const int64_t pitch = y->stride[d->rank - 1];
    return y->stride[1] == 1 && (c->h == 1 || y->stride[2] == c->w_out * pitch) &&
           (c->n == 1 || y->stride[0] == c->h * c->w_out * pitch);
}

bool mve_scales_find(const IntConv *c, const Domain *d, int64_t channels, MveScales *s)
{
    const Lower *l = c->l;
    const int64_t n = c->group * c->oc;
    rlx_assert(n % channels == 0);
    *s = (MveScales){.of = requantise_match(l->pass->perm, l->g, l->root, l->anchor),
                     .groups = n / channels,
                     .channels = channels};
    if (s->of == NULL || !is_result_even(c, d))
        return false;
    s->shift = s->of[0].shift;
    s->high = int_scales_high(s->of, n);
    bool fits =
        s->shift >= 1 && s->shift <= MVE_MAX_SHIFT && s->high >= INT32_MIN / 2 && s->high <= INT32_MAX / 2;
    for (int64_t i = 0; i < n && fits; i++)
        fits = int_scale_fits(&s->of[i], s->shift, INT64_C(1) << 54);
    return fits;
}

MveTaps mve_taps_inside(Kernel *k, KRef at, int64_t taps, int64_t dilation, int64_t in)
{
    const KRef lo = k_expr(k, "(max(0, 0 - $) + #) / #", at, dilation - 1, dilation);
    const KRef hi = k_expr(k, "min(#, (max(0, # - $) + #) / #)", taps, in, at, dilation - 1, dilation);
    return (MveTaps){lo, k_expr(k, "max(0, $ - $)", hi, lo)};
}
