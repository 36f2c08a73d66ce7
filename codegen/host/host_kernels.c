// SPDX-License-Identifier: Apache-2.0
// The table of kernels in the descriptor, and their texts where these are embedded.
#include "base/map.h"
#include "codegen/host/host_parts.h"
#include <string.h>

typedef struct KernelTable {
    const HostEmit *e;
    Str *out;
} KernelTable;

static void number_row(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    (void)p, (void)times;
    k->launch.row = (*(uint32_t *)ctx)++;
}

void host_number_kernels(const HostEmit *e)
{
    const Plan *p = e->device != NULL ? e->device : e->plan; // where kernels have their hazards
    uint32_t n = 0;
    for (uint32_t i = 0; i < host_n_plans(p); i++) {
        plan_walk(host_plan(p, i), number_row, &n);
        plan_find_edges(host_plan(p, i));
    }
}

static void print_line(const HostEmit *e, const char *line, size_t n, Str *out)
{
    const char *text = arena_printf(e->arena, "%.*s\n", (int)n, line);
    str_printf(out, "    %s,\n", host_string_literal(e->arena, text));
}

// One list of lines for every function.
static void emit_text(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    KernelTable *t = ctx;
    uint64_t seen = 0;
    Str text = str_new(t->e->arena);
    (void)p, (void)times;
    if (k->loop != NULL && t->e->device != NULL) // it has none
        return;
    rlx_assert(k->function != NULL); // host_name_functions has been there
    if (map_get(t->e->sources, k->function, strlen(k->function), &seen))
        return;
    map_put(t->e->arena, t->e->sources, k->function, strlen(k->function), 1);
    host_print_functions(t->e, k, &text);
    str_printf(t->out, "static const char *const %s_source[] = {\n", k->function);
    for (const char *line = str_text(&text); *line != '\0';) {
        const size_t n = strcspn(line, "\n");
        print_line(t->e, line, n, t->out);
        line += n + (line[n] == '\n');
    }
    str_add(t->out, "    NULL};\n");
}

static void emit_row(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    const KernelTable *t = ctx;
    (void)p;
    const char *source = t->e->options->has_source && (k->loop == NULL || t->e->device == NULL)
                             ? arena_printf(t->e->arena, "%s_source", k->function)
                             : "NULL";
    str_printf(t->out, "    {\"%s\", %s, %lluu, %lluu, %lluu, %uu, %uu, %s},\n", k->kernel->name,
               host_note_literal(t->e->arena, k->kernel->comment), (unsigned long long)(k->macs * times),
               (unsigned long long)(plan_kernel_bytes(k) * times), (unsigned long long)(k->flops * times),
               k->launch.level, k->threads.is_shared ? host_used_threads(t->e) : 1u, source);
}

void host_emit_kernel_table(const HostEmit *e, Str *out)
{
    KernelTable t = {.e = e, .out = out};
    const uint32_t n = host_n_plans(e->plan);
    if (host_listed_kernels(e) == 0)
        return;
    for (uint32_t i = 0; i < n && e->options->has_source; i++)
        plan_walk(host_plan(e->plan, i), emit_text, &t);
    str_printf(out, "static const rlx_kernel kernels%s[] = {\n", e->side);
    for (uint32_t i = 0; i < n; i++)
        plan_walk(host_plan(e->plan, i), emit_row, &t);
    str_add(out, "};\n\n");
}
