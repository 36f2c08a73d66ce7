// SPDX-License-Identifier: Apache-2.0
// Integers between two bounds, as alternatives of digits: 7 to 123 is [7-9] | [1-9] [0-9] | "1" ([01] [0-9] |
// "2" [0-3]). Without an upper bound they have up to 16 digits.
#include "compiler/grammar/schema.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DIGITS = 16 };

static void put_digit(Str *out, char low, char high)
{
    if (low == high)
        str_printf(out, "\"%c\"", low);
    else
        str_printf(out, "[%c-%c]", low, high);
}

static void put_any(Str *out, size_t n)
{
    if (n != 0)
        str_printf(out, " [0-9]{%zu}", n);
}

// The numbers from low to high, both with n digits.
static void put_same(Str *out, const char *low, const char *high, size_t n)
{
    rlx_assert(n >= 1 && memcmp(low, high, n) <= 0);
    const bool from_start = strspn(low + 1, "0") >= n - 1, to_end = strspn(high + 1, "9") >= n - 1;
    if (n == 1 || (from_start && to_end)) {
        put_digit(out, low[0], high[0]);
        put_any(out, n - 1);
        return;
    }
    if (low[0] == high[0]) {
        put_digit(out, low[0], low[0]);
        str_add(out, " (");
        put_same(out, low + 1, high + 1, n - 1);
        str_char(out, ')');
        return;
    }
    char nines[DIGITS + 4], zeros[DIGITS + 4];
    rlx_assert(n <= DIGITS);
    memset(nines, '9', sizeof nines);
    memset(zeros, '0', sizeof zeros);
    nines[sizeof nines - 1] = zeros[sizeof zeros - 1] = '\0';
    put_digit(out, low[0], low[0]);
    str_add(out, " (");
    put_same(out, low + 1, nines, n - 1);
    str_add(out, ") | ");
    if (low[0] + 1 < high[0]) {
        put_digit(out, (char)(low[0] + 1), (char)(high[0] - 1));
        put_any(out, n - 1);
        str_add(out, " | ");
    }
    put_digit(out, high[0], high[0]);
    str_add(out, " (");
    put_same(out, zeros, high + 1, n - 1);
    str_char(out, ')');
}

// The numbers from low to high, 0 <= low <= high.
static void put_range(Str *out, int64_t low, int64_t high)
{
    char a[24], b[24];
    rlx_assert(0 <= low && low <= high);
    snprintf(a, sizeof a, "%" PRId64, low);
    snprintf(b, sizeof b, "%" PRId64, high);
    const size_t n_low = strlen(a), n_high = strlen(b);
    for (size_t n = n_low; n <= n_high; n++) {
        char first[24] = "1", last[24];
        memset(first + 1, '0', sizeof first - 1);
        memset(last, '9', sizeof last);
        first[sizeof first - 1] = last[sizeof last - 1] = '\0';
        str_add(out, n == n_low ? "" : " | ");
        put_same(out, n == n_low ? a : first, n == n_high ? b : last, n);
    }
}

void schema_put_integers(const int64_t *low, const int64_t *high, Str *out)
{
    static const int64_t most = 9999999999999999;
    const int64_t from = low == NULL ? -most : *low, to = high == NULL ? most : *high;
    str_char(out, '(');
    if (from < 0) {
        const int64_t least = to < 0 ? -to : 1;
        str_add(out, "\"-\" (");
        put_range(out, least, -from);
        str_char(out, ')');
    }
    if (to >= 0) {
        str_add(out, from < 0 ? " | " : "");
        put_range(out, from < 0 ? 0 : from, to);
    }
    str_char(out, ')');
}
