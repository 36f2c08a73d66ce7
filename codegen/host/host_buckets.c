// SPDX-License-Identifier: Apache-2.0
// A model that was planned for several sizes: one descriptor and one dispatch function for each plan, behind
// one table of buckets. Kernels with equal text and constants with equal bytes are there once.
#include "codegen/host/host_parts.h"
#include <stdlib.h>

uint32_t host_n_plans(const Plan *p)
{
    return p->buckets != NULL ? p->buckets->n : 1;
}

Plan *host_plan(const Plan *p, uint32_t i)
{
    rlx_assert(i < host_n_plans(p));
    return p->buckets != NULL ? p->buckets->plan[i] : (Plan *)(uintptr_t)p;
}

HostEmit host_variant(const HostEmit *e, uint32_t i)
{
    HostEmit v = *e;
    v.plan = host_plan(e->plan, i);
    v.device = e->device != NULL ? host_plan(e->device, i) : NULL;
    v.variant = i;
    v.suffix = v.plan == e->plan ? e->side : arena_printf(e->arena, "%s_b%u", e->side, i);
    return v;
}

typedef struct Namer {
    Arena *arena;
    const char *suffix;
} Namer;

static void add_suffix(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    const Namer *n = ctx;
    (void)p, (void)times;
    k->kernel->name = arena_printf(n->arena, "%s%s", k->kernel->name, n->suffix);
    for (uint32_t i = 0; i < k->threads.phases.len; i++) {
        Kernel *phase = k->threads.phases.data[i].kernel;
        phase->name = arena_printf(n->arena, "%s%s", phase->name, n->suffix);
    }
}

void host_name_variants(HostEmit *e)
{
    for (uint32_t i = 0; i < host_n_plans(e->plan); i++) {
        Namer n = {e->arena, host_variant(e, i).suffix};
        if (n.suffix[0] != '\0')
            plan_walk(host_plan(e->plan, i), add_suffix, &n);
    }
}

uint32_t host_count_kernels(const HostEmit *e)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < host_n_plans(e->plan); i++)
        n += plan_count_kernels(host_plan(e->plan, i));
    return n;
}

uint32_t host_listed_kernels(const HostEmit *e)
{
    const HostOptions *o = e->options;
    const bool is_read = o->api != API_CORE || o->has_profile || o->has_tables || o->has_source ||
                         e->device != NULL || e->fallback != NULL || e->plan->caps->is_gpu;
    return is_read ? host_count_kernels(e) : 0;
}

void host_emit_bucket_header(const HostEmit *e, Str *out)
{
    const PlanBuckets *b = e->plan->buckets;
    if (b == NULL)
        return;
    str_add(out, "\n// Buckets (rlx_bucket): the largest sizes of each.\n");
    for (uint32_t i = 0; i < b->n; i++) {
        str_printf(out, "// %u:", i);
        for (uint32_t k = 0; k < b->n_symbols; k++)
            str_printf(out, "%s %s %lld", k == 0 ? "" : ",", e->symbol_names[b->slot[k]],
                       (long long)b->size[i][k]);
        str_add(out, "\n");
    }
    str_printf(out, "#define %s_BUCKETS %uu\n", e->upper, b->n);
}

// --- the table -----------------------------------------------------------------------------------

// The sizes of a symbol, each once.
typedef struct Ladder {
    uint32_t n;
    int64_t size[PLAN_MAX_BUCKETS];
} Ladder;

static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static Ladder ladder_of(const PlanBuckets *b, uint32_t symbol)
{
    Ladder l = {0};
    rlx_assert(b->n <= PLAN_MAX_BUCKETS && symbol < b->n_symbols);
    for (uint32_t i = 0; i < b->n; i++)
        l.size[i] = b->size[i][symbol];
    qsort(l.size, b->n, sizeof *l.size, ascending);
    for (uint32_t i = 0; i < b->n; i++)
        if (l.n == 0 || l.size[l.n - 1] != l.size[i])
            l.size[l.n++] = l.size[i];
    return l;
}

// The first bucket that fits, as buckets are in the order of their costs.
static uint32_t bucket_for(const PlanBuckets *b, const int64_t *size)
{
    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t k = 0;
        while (k < b->n_symbols && size[k] <= b->size[i][k])
            k++;
        if (k == b->n_symbols)
            return i;
    }
    return UINT8_MAX;
}

static void emit_cells(const HostEmit *e, const PlanBuckets *b, const Ladder *ladder, Str *out)
{
    uint32_t cells = 1;
    for (uint32_t i = 0; i < b->n_symbols; i++)
        cells *= ladder[i].n;
    str_printf(out, "static const unsigned char bucket_cells%s[] = {", e->side);
    for (uint32_t c = 0; c < cells; c++) {
        int64_t size[PLAN_MAX_BUCKET_SYMBOLS];
        for (uint32_t i = b->n_symbols, rest = c; i-- > 0; rest /= ladder[i].n)
            size[i] = ladder[i].size[rest % ladder[i].n];
        str_printf(out, "%s%s%u", c == 0 ? "" : ",", c % 24 == 0 ? "\n    " : " ", bucket_for(b, size));
    }
    str_add(out, "\n};\n");
}

static void emit_ladders(const HostEmit *e, const PlanBuckets *b, const Ladder *ladder, Str *out)
{
    for (uint32_t i = 0; i < b->n_symbols; i++) {
        str_printf(out, "static const int64_t bucket_ladder%u%s[] = {", i, e->side);
        for (uint32_t k = 0; k < ladder[i].n; k++)
            str_printf(out, "%s%lld", k == 0 ? "" : ", ", (long long)ladder[i].size[k]);
        str_add(out, "};\n");
    }
    str_printf(out, "static const rlx_bucket_symbol bucket_symbols%s[] = {", e->side);
    for (uint32_t i = 0; i < b->n_symbols; i++)
        str_printf(out, "%s{%uu, %uu, bucket_ladder%u%s}", i == 0 ? "" : ", ", b->slot[i], ladder[i].n, i,
                   e->side);
    str_add(out, "};\n");
}

// The descriptor of a bucket; the largest is the model.
static const char *model_of(const HostEmit *e, const PlanBuckets *b, uint32_t i)
{
    return i + 1 < b->n ? arena_printf(e->arena, "&model%s_b%u", e->side, i)
                        : arena_printf(e->arena, "&%s_model%s", e->options->name, e->side);
}

static void emit_models(const HostEmit *e, const PlanBuckets *b, Str *out)
{
    str_printf(out, "static const rlx_model *const bucket_models%s[] = {", e->side);
    for (uint32_t i = 0; i < b->n; i++)
        str_printf(out, "%s%s", i == 0 ? "" : ", ", model_of(e, b, i));
    str_printf(out, "};\nstatic const int64_t bucket_sizes%s[] = {", e->side);
    for (uint32_t i = 0; i < b->n * b->n_symbols; i++)
        str_printf(out, "%s%lld", i == 0 ? "" : ", ", (long long)b->size[i / b->n_symbols][i % b->n_symbols]);
    str_add(out, "};\n");
}

void host_emit_buckets(const HostEmit *e, Str *out)
{
    const PlanBuckets *b = e->plan->buckets;
    Ladder ladder[PLAN_MAX_BUCKET_SYMBOLS];
    int64_t first[PLAN_MAX_BUCKET_SYMBOLS];
    if (b == NULL)
        return;
    rlx_assert(b->n >= 1 && b->n_symbols <= PLAN_MAX_BUCKET_SYMBOLS);
    for (uint32_t i = 0; i < b->n_symbols; i++) {
        ladder[i] = ladder_of(b, i);
        first[i] = e->plan->graph->symbols->symbol[b->slot[i]].dflt;
    }
    emit_ladders(e, b, ladder, out);
    emit_models(e, b, out);
    emit_cells(e, b, ladder, out);
    str_printf(out, "const rlx_buckets %s_buckets%s = {%uu, bucket_models%s, %s, %uu, bucket_symbols%s, ",
               e->options->name, e->side, b->n, e->side, model_of(e, b, bucket_for(b, first)), b->n_symbols,
               e->side);
    str_printf(out, "bucket_sizes%s, bucket_cells%s};\n\n", e->side, e->side);
}
