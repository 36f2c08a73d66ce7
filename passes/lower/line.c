// SPDX-License-Identifier: Apache-2.0
// See line.h.
#include "passes/lower/line.h"

bool line_is_worthwhile(const TargetCaps *caps, int64_t n, int64_t channels)
{
    enum { MIN_LANES = 4, MIN_VECTORS = 2, MIN_RESULTS = 7 };
    const int64_t lanes = caps->f32_lanes;
    return lanes >= MIN_LANES && n >= (channels == 1 ? MIN_VECTORS * lanes : MIN_RESULTS);
}

static uint32_t find_pair(Kernel *k, LineTaps *t, int64_t by)
{
    uint32_t i = 0;
    while (i < t->n_pairs && t->pair[i].by != by)
        i++;
    if (i < t->n_pairs)
        return i;
    rlx_assert(i < LINE_MAX_PAIRS);
    const KRef low = k_expr(k, "$ + #", t->place, by), high = k_expr(k, "$ + #", t->place, by + t->lanes);
    t->n_pairs++;
    t->pair[i].by = by;
    t->pair[i].low = k_load(k, t->param, low, t->lanes, t->lanes);
    t->pair[i].high = k_load(k, t->param, high, t->lanes, t->lanes);
    return i;
}

KRef line_tap(Kernel *k, LineTaps *t, int64_t by)
{
    rlx_assert(by >= 0 && t->stride >= 1 && t->stride <= LINE_MAX_STRIDE);
    if (t->stride == 1)
        return k_load(k, t->param, k_expr(k, "$ + #", t->place, by), t->lanes, t->lanes);
    const uint32_t i = find_pair(k, t, by - by % 2);
    return k_zip(k, by % 2 == 0 ? KZIP_EVEN : KZIP_ODD, t->pair[i].low, t->pair[i].high);
}

int64_t line_length(int64_t n, int64_t stride, uint8_t lanes, int64_t reach)
{
    rlx_assert(n >= 0 && lanes >= 1);
    return ceil_div(n, lanes) * lanes * stride + reach;
}
