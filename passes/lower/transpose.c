// SPDX-License-Identifier: Apache-2.0
// Transposing copies; see transpose.h. A block of as many rows as a vector has lanes takes log2(lanes) zips
// for each of them, where scalar copies take a load and a store for each element.
#include "passes/lower/transpose.h"

enum { MAX_ROWS = 64 };

typedef struct Range {
    KRef at;
    int64_t n; // at most the lanes
} Range;

static void store_pairs(Lower *l, const Transpose *t, const KRef *v, KRef to, int64_t columns)
{
    Kernel *k = l->k;
    for (int64_t i = 0; i < columns; i += 2) {
        const KRef upper = i + 1 < columns ? v[i + 1] : k_splat(k, k_number(k, DTYPE_f32, 0), t->lanes);
        k_store(k, t->to, k_expr(k, "$ + #", to, i / 2 * t->to_row), k_pair_bf16(k, v[i], upper), t->lanes);
    }
}

static void emit_block(Lower *l, const Transpose *t, Range rows, Range columns)
{
    Kernel *k = l->k;
    const KRef from = k_expr(k, "$ * # + ($ + $)", rows.at, t->from_row, t->from_at, columns.at);
    const int64_t step = t->in_pairs ? t->to_row / 2 : t->to_row;
    const KRef to = k_expr(k, "$ * # + ($ + $)", columns.at, step, t->to_at, rows.at);
    const KRef zero = k_splat(k, k_number(k, DTYPE_f32, 0), t->lanes);
    KRef v[MAX_ROWS];
    for (int64_t i = 0; i < t->lanes; i++)
        v[i] = i < rows.n ? k_cast(k,
                                   k_load(k, t->from, k_expr(k, "$ + #", from, i * t->from_row), t->lanes,
                                          (uint8_t)columns.n),
                                   DTYPE_f32)
                          : zero;
    k_transpose(k, v);
    if (t->in_pairs) {
        store_pairs(l, t, v, to, columns.n);
        return;
    }
    for (int64_t i = 0; i < columns.n; i++)
        k_store(k, t->to, k_expr(k, "$ + #", to, i * t->to_row), v[i], t->lanes);
}

static void emit_rows(Lower *l, const Transpose *t, Range rows)
{
    Kernel *k = l->k;
    const int64_t rest = t->columns % t->lanes, whole = t->columns - rest;
    if (whole > 0) {
        const KRef c = k_for(k, k_index(k, 0), k_index(k, whole), t->lanes, KFOR_SERIAL, "c");
        emit_block(l, t, rows, (Range){.at = c, .n = t->lanes});
        k_end(k);
    }
    if (rest > 0)
        emit_block(l, t, rows, (Range){.at = k_index(k, whole), .n = rest});
}

void transpose_emit(Lower *l, const Transpose *t)
{
    Kernel *k = l->k;
    const int64_t rest = t->rows % t->lanes, whole = t->rows - rest;
    rlx_assert(t->lanes > 1 && t->lanes <= MAX_ROWS);
    rlx_assert(t->rows >= 0 && (!t->in_pairs || (t->lanes % 2 == 0 && t->to_row % 2 == 0)));
    const KRef last = k_index(k, whole), end = t->live != 0 ? k_min(k, t->live, last) : last;
    if (whole > 0) {
        const KRef r = k_for(k, k_index(k, 0), end, t->lanes, KFOR_SERIAL, "r");
        emit_rows(l, t, (Range){.at = r, .n = t->lanes});
        k_end(k);
    }
    if (rest == 0)
        return;
    if (t->live != 0)
        k_if(k, k_lt(k, last, t->live));
    emit_rows(l, t, (Range){.at = last, .n = rest});
    if (t->live != 0)
        k_end(k);
}
