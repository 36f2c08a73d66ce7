// SPDX-License-Identifier: Apache-2.0
// See int_conv_byte_scale.h.
#include "passes/lower/conv/int_conv_byte_scale.h"

#include <string.h>

enum { BYTES_MAX_SHIFT = 16 };

// What is behind the weights of a block, of all groups.
typedef struct Tail {
    bool is_own;
    uint32_t n_exceptions;
} Tail;

static int64_t lanes(const ByteScales *s, int64_t first)
{
    return first + s->block < s->channels ? s->block : s->channels - first;
}

static Tail tail_of(const ByteScales *s, int64_t first)
{
    Tail t = {0};
    for (int64_t g = 0; g < s->groups; g++)
        for (int64_t j = 0; j < lanes(s, first); j++) {
            const RequantScale *c = &s->of[g * s->channels + first + j];
            t.is_own = t.is_own || int_scale_is_own(c, s->high);
            t.n_exceptions = c->n_exceptions > t.n_exceptions ? c->n_exceptions : t.n_exceptions;
        }
    return t;
}

int64_t byte_tail_words(const ByteScales *s, int64_t first)
{
    const Tail t = tail_of(s, first);
    if (s->moved != 0)
        return 1 + 2 * lanes(s, first);
    return t.is_own ? 1 + (2 * t.n_exceptions + 3) * lanes(s, first) : lanes(s, first);
}

void byte_put_word(unsigned char **out, int64_t word)
{
    const uint32_t v = (uint32_t)(uint64_t)word;
    memcpy(*out, &v, sizeof v);
    *out += sizeof v;
}

// Exception i of n channels; 0 counts as 0 where a channel has none.
static void pack_exception(const RequantScale *channel, int64_t n, uint32_t i, unsigned char **out)
{
    for (int64_t j = 0; j < n; j++)
        byte_put_word(out, i < channel[j].n_exceptions ? channel[j].exception[i] : 0);
    for (int64_t j = 0; j < n; j++)
        byte_put_word(out, i < channel[j].n_exceptions ? int_scale_instead(&channel[j], i) : 0);
}

void byte_pack_tail(const ByteScales *s, int64_t group, int64_t first, unsigned char **out)
{
    const Tail t = tail_of(s, first);
    const int64_t n = lanes(s, first);
    const RequantScale *channel = &s->of[group * s->channels + first];
    if (s->moved != 0) { // bit `even` moves to the sign, and down
        byte_put_word(out, INT32_MIN);
        for (int64_t j = 0; j < n; j++)
            byte_put_word(out, 31 - channel[j].even);
    }
    if (t.is_own)
        byte_put_word(out, -1 - (int64_t)t.n_exceptions);
    for (uint32_t i = 0; i < t.n_exceptions; i++)
        pack_exception(channel, n, i, out);
    for (int64_t j = 0; j < n; j++)
        byte_put_word(out, channel[j].factor);
    for (int64_t j = 0; j < n && t.is_own; j++)
        byte_put_word(out, ~channel[j].start);
    for (int64_t j = 0; j < n && t.is_own; j++)
        byte_put_word(out, (int64_t)((uint64_t)channel[j].start >> 32) - (INT64_C(1) << (s->shift - 1)));
}

int64_t byte_scales_high(const ByteScales *s)
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

// Has the channel nothing of its own but halves that become even?
static bool is_even(const ByteScales *s, const RequantScale *c)
{
    return c->even > 0 && c->shift == s->shift && c->factor <= INT32_MAX && !int_scale_is_own(c, s->high);
}

bool byte_scales_find(const IntConv *c, const Domain *d, ByteScales *s)
{
    const Lower *l = c->l;
    const int64_t n = c->group * c->oc;
    rlx_assert(n == s->groups * s->channels);
    s->of = requantise_match(l->pass->perm, l->g, l->root, l->anchor, &s->ends);
    if (s->of == NULL || !is_result_even(c, d))
        return false;
    s->shift = s->of[0].shift;
    s->high = int_scales_high(s->of, n);
    s->moved = n > 0 && s->of[0].even > 0 ? -1 : 0;
    bool fits =
        s->shift >= 1 && s->shift <= BYTES_MAX_SHIFT && s->high >= INT32_MIN / 2 && s->high <= INT32_MAX / 2;
    for (int64_t i = 0; i < n && fits; i++)
        fits = s->moved != 0 ? is_even(s, &s->of[i]) : int_scale_fits(&s->of[i], s->shift, INT64_C(1) << 54);
    return fits;
}
