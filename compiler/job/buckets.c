// SPDX-License-Identifier: Apache-2.0
// See buckets.h.
#include "compiler/job/buckets.h"
#include "compiler/job/job.h"
#include <stdlib.h>
#include <string.h>

static bool wrong(Cli *c, const char *option, const char *given, const char *expected)
{
    return diag_error(c->diag, (Span){0}, E0003, "%s %s: expected %s", option, given, expected);
}

// --- options -------------------------------------------------------------------------------------

static bool add_name(Cli *c, BucketSizes *b, const char *option, const char *given, const char *name,
                     size_t len)
{
    const char *own = arena_strndup(c->arena, name, len);
    if (len == 0 || b->n_symbols == PLAN_MAX_BUCKET_SYMBOLS)
        return wrong(c, option, given, "one to eight names of symbolic dimensions");
    for (uint32_t i = 0; i < b->n_symbols; i++)
        if (strcmp(b->name[i], own) == 0)
            return wrong(c, option, given, "every dimension once");
    b->name[b->n_symbols++] = own;
    return true;
}

// Numbers above 0 with a separator between them. 0: not valid, or too many.
static uint32_t parse_numbers(const char *text, size_t len, char separator, int64_t *out, uint32_t max)
{
    uint32_t n = 0;
    for (size_t at = 0; at <= len; n++) {
        size_t end = at;
        while (end < len && text[end] != separator)
            end++;
        if (n == max || !str_parse_i64(text + at, end - at, &out[n]) || out[n] < 1 || out[n] > DIM_MAX_VALUE)
            return 0;
        at = end + 1;
    }
    return n;
}

// NAME=16,64: every bucket so far with each of the sizes.
static bool read_ladder(Cli *c, BucketSizes *b, const char *given)
{
    const char *eq = strrchr(given, '=');
    int64_t size[PLAN_MAX_BUCKETS];
    const uint32_t n = eq == NULL ? 0 : parse_numbers(eq + 1, strlen(eq + 1), ',', size, PLAN_MAX_BUCKETS);
    const uint32_t before = b->n != 0 ? b->n : 1, at = b->n_symbols;
    if (n == 0 || n * before > PLAN_MAX_BUCKETS)
        return wrong(c, "--bucket", given, "NAME=16,64 with sizes above 0, in all at most 64 buckets");
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (size[i] == size[k])
                return wrong(c, "--bucket", given, "every size once");
    if (!add_name(c, b, "--bucket", given, given, (size_t)(eq - given)))
        return false;
    rlx_assert(at < PLAN_MAX_BUCKET_SYMBOLS && n * before <= PLAN_MAX_BUCKETS);
    for (uint32_t i = n * before; i-- > 0;) {
        memmove(b->size[i], b->size[i % before], sizeof b->size[i]);
        b->size[i][at] = size[i / before];
    }
    b->n = n * before;
    return true;
}

// a,b=16x1,64x8: these buckets.
static bool read_list(Cli *c, BucketSizes *b, const char *given)
{
    const char *eq = strrchr(given, '='), *expected = "a,b=16x1,64x8 with a size above 0 for every name";
    for (const char *at = given; eq != NULL && at <= eq;) {
        const size_t len = strcspn(at, ",=");
        if (!add_name(c, b, "--buckets", given, at, len))
            return false;
        at += len + 1;
    }
    for (const char *at = eq; at != NULL && *at != '\0';) {
        const size_t len = strcspn(++at, ",");
        if (b->n == PLAN_MAX_BUCKETS)
            return wrong(c, "--buckets", given, "at most 64 buckets");
        if (parse_numbers(at, len, 'x', b->size[b->n++], PLAN_MAX_BUCKET_SYMBOLS) != b->n_symbols)
            return wrong(c, "--buckets", given, expected);
        at += len;
    }
    return eq != NULL || wrong(c, "--buckets", given, expected);
}

// The product says about how much a bucket costs.
static int by_size(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    double px = 1, py = 1;
    for (uint32_t i = 0; i < PLAN_MAX_BUCKET_SYMBOLS; i++) {
        px *= x[i] != 0 ? (double)x[i] : 1;
        py *= y[i] != 0 ? (double)y[i] : 1;
    }
    if (px != py)
        return px < py ? -1 : 1;
    return memcmp(x, y, sizeof(int64_t) * PLAN_MAX_BUCKET_SYMBOLS);
}

// Entries of the table that leads from sizes to a bucket: every size of a dimension with every one of the
// others.
enum { MAX_CELLS = 4096 };
static uint32_t count_cells(const BucketSizes *b)
{
    uint32_t cells = 1;
    for (uint32_t s = 0; s < b->n_symbols && cells <= MAX_CELLS; s++) {
        uint32_t sizes = 0;
        for (uint32_t i = 0; i < b->n; i++) {
            uint32_t k = 0;
            while (b->size[k][s] != b->size[i][s])
                k++;
            sizes += k == i;
        }
        cells *= sizes;
    }
    return cells;
}

static bool check_buckets(Cli *c, const BucketSizes *b, const char *option)
{
    rlx_assert(b->n <= PLAN_MAX_BUCKETS && (b->n == 0) == (b->n_symbols == 0));
    for (uint32_t i = 0; i < b->n; i++)
        for (uint32_t k = 0; k < b->n_symbols; k++)
            if (b->size[i][k] > b->size[b->n - 1][k])
                return diag_error(c->diag, (Span){0}, E0003,
                                  "%s: one bucket must be the largest in every dimension: states have its "
                                  "sizes",
                                  option);
    if (count_cells(b) > MAX_CELLS)
        return diag_error(c->diag, (Span){0}, E0003, "%s: too many different sizes", option);
    for (uint32_t i = 1; i < b->n; i++)
        if (memcmp(b->size[i], b->size[i - 1], sizeof b->size[i]) == 0)
            return diag_error(c->diag, (Span){0}, E0003, "%s: a bucket is given twice", option);
    return true;
}

ImportSize buckets_range(const BucketSizes *b, uint32_t bucket, uint32_t symbol)
{
    rlx_assert(bucket < b->n && symbol < b->n_symbols);
    return (ImportSize){.name = b->name[symbol],
                        .value = b->size[bucket][symbol],
                        .min = b->min[symbol],
                        .is_range = true,
                        .keeps_min = !b->has_min[symbol]};
}

// --dim NAME=MIN..MAX beside buckets: where the sizes begin. The symbol's range takes its place.
static bool take_range(Cli *c, const Given *given, BucketSizes *b, uint32_t symbol, uint32_t *at)
{
    rlx_assert(b->n != 0 && symbol < b->n_symbols);
    const int64_t largest = b->size[b->n - 1][symbol];
    int64_t smallest = largest;
    for (uint32_t i = 0; i < b->n; i++)
        smallest = b->size[i][symbol] < smallest ? b->size[i][symbol] : smallest;
    for (*at = 0; *at < given->sizes.len; (*at)++) {
        const ImportSize *size = &given->sizes.data[*at];
        if (strcmp(size->name, b->name[symbol]) != 0)
            continue;
        b->min[symbol] = size->min;
        b->has_min[symbol] = true;
        return (size->is_range && !size->is_open && size->value == largest && size->min <= smallest) ||
               wrong(c, "--dim", size->name,
                     arena_printf(c->arena,
                                  "no --bucket for the same dimension, or where its sizes begin: MIN..%lld",
                                  (long long)largest));
    }
    return true;
}

bool buckets_read(Cli *c, Given *given, BucketSizes *out)
{
    const Strings *ladders = &c->options.bucket_sizes;
    const char *list = c->options.bucket_list;
    *out = (BucketSizes){0};
    if (list != NULL && ladders->len != 0)
        return wrong(c, "--buckets", list, "no --bucket beside it");
    if (list != NULL && !read_list(c, out, list))
        return false;
    for (uint32_t i = 0; i < ladders->len; i++)
        if (!read_ladder(c, out, ladders->data[i]))
            return false;
    qsort(out->size, out->n, sizeof out->size[0], by_size);
    if (!check_buckets(c, out, list != NULL ? "--buckets" : "--bucket"))
        return false;
    for (uint32_t i = 0; i < out->n_symbols; i++) {
        uint32_t at = 0;
        if (!take_range(c, given, out, i, &at))
            return false;
        for (uint32_t k = 0; k < given->largest.len; k++)
            if (strcmp(given->largest.data[k].name, out->name[i]) == 0)
                return wrong(c, "--arena-at", out->name[i], "no --bucket for the same dimension");
        const ImportSize range = buckets_range(out, out->n - 1, i);
        if (at < given->sizes.len)
            given->sizes.data[at] = range;
        else
            vec_push(c->arena, &given->sizes, range);
    }
    return true;
}

// --- plans ---------------------------------------------------------------------------------------

static bool plan_one(Job *j, uint32_t bucket, Plan **out)
{
    rlx_assert(bucket + 1 < j->buckets.n && j->plan != NULL); // the largest is planned first
    PipelineOptions o = j->pipeline;
    Graph *g = NULL;
    o.bucket_of = j->plan;
    o.dims.len = o.dims.cap = 0;
    o.dims.data = NULL;
    Given given = j->given;
    given.sizes.len = given.sizes.cap = 0;
    given.sizes.data = NULL;
    for (uint32_t i = 0; i < j->given.sizes.len; i++) {
        ImportSize size = j->given.sizes.data[i];
        for (uint32_t k = 0; k < j->buckets.n_symbols; k++)
            if (strcmp(size.name, j->buckets.name[k]) == 0)
                size = buckets_range(&j->buckets, bucket, k);
        vec_push(j->cli->arena, &given.sizes, size);
        if (size.is == NULL) // else the import puts the expression for the symbol
            vec_push(j->cli->arena, &o.dims, size);
    }
    return job_import(j, &given, &g) && job_plan_graph(j, g, &o, out);
}

// The slots of the symbols.
static bool find_slots(Job *j, PlanBuckets *b)
{
    const GraphSymbols *s = j->plan->graph->symbols;
    for (uint32_t i = 0; i < b->n_symbols; i++) {
        uint32_t at = 0;
        while (s != NULL && at < s->n && strcmp(s->symbol[at].name, j->buckets.name[i]) != 0)
            at++;
        if (s == NULL || at == s->n)
            return diag_error(j->cli->diag, (Span){0}, E0207,
                              "--bucket %s: the graph has no symbolic "
                              "dimension of that name",
                              j->buckets.name[i]);
        b->slot[i] = at;
    }
    return true;
}

bool buckets_plan(Job *j)
{
    PlanBuckets *b = ARENA_NEW(j->cli->arena, PlanBuckets);
    Arena scratch = {0};
    if (j->buckets.n == 0)
        return true;
    rlx_assert(j->plan != NULL && j->buckets.n_symbols != 0);
    b->n = j->buckets.n;
    b->n_symbols = j->buckets.n_symbols;
    memcpy(b->size, j->buckets.size, sizeof b->size);
    if (!find_slots(j, b))
        return false;
    for (uint32_t i = 0; i + 1 < b->n; i++)
        if (!plan_one(j, i, &b->plan[i]))
            return false;
    b->plan[b->n - 1] = j->plan;
    j->plan->buckets = b;
    const char *why = plan_share_buckets(b, &scratch);
    arena_free(&scratch);
    return why == NULL || diag_error(j->cli->diag, (Span){0}, E0206, "--bucket: %s", why);
}
