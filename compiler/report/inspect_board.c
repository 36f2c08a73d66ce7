// SPDX-License-Identifier: Apache-2.0
// See inspect_board.h.
#include "compiler/report/inspect_board.h"
#include "compiler/system/json_text.h"

static bool is_counted(const Measures *m)
{
    return m->run != NULL && m->run->unknown == NULL;
}

static bool has_code(const Measures *m)
{
    return m->code != NULL && m->code->unknown == NULL;
}

// What the graph of calls says of a run; NULL: nothing.
static const StackEntry *stack_bound(const Measures *m)
{
    return has_code(m) ? call_graph_entry(&m->code->stack, "run") : NULL;
}

bool measures_kernel(const Measures *m, const PlanKernel *k, uint64_t *insns, uint64_t *cycles)
{
    const bool has_function = is_counted(m) && k->function != NULL;
    const BoardFunction *f = has_function ? board_function(m->run, k->function) : NULL;
    if (f == NULL || f->calls == 0)
        return false;
    *insns = f->insns / f->calls;
    *cycles = f->cycles / f->calls;
    return true;
}

void inspect_board_kernel_json(const Job *j, const Measures *m, const PlanKernel *k, uint64_t times, Str *out)
{
    uint64_t insns = 0, cycles = 0;
    if (measures_kernel(m, k, &insns, &cycles))
        str_printf(out, ", \"instructions\": %llu, \"cycles\": %llu", (unsigned long long)(insns * times),
                   (unsigned long long)(cycles * times));
    if ((j->cpu.features & CPU_INTEGERS) == 0 || k->loop != NULL)
        return;
    const Work work = work_of_kernel(k->kernel);
    for (uint32_t i = 0; i < WORK_KINDS; i++)
        str_printf(out, "%s\"%s\": %llu", i == 0 ? ", \"work\": {" : ", ", work_names[i],
                   (unsigned long long)(work.n[i] * (double)times));
    const Estimate e = estimate_time(j->cpu.name, k->kernel);
    str_printf(out, "}, \"kind\": \"%s\"", estimate_kind(k->kernel));
    if (e.error > 0)
        str_printf(out, ", \"estimated_instructions\": %llu",
                   (unsigned long long)(e.insns * (double)times));
}

// --- the board -----------------------------------------------------------------------------------

// What the model takes of a board.
typedef struct Used {
    uint64_t ram, flash;
    bool has_code, has_time, has_banks; // has_banks: --bank has divided the arena
    double ms;
    const BoardBank *bank; // the smallest one that holds the arena; NULL: none does
} Used;

// The most that a run can take, or took.
static uint64_t stack_of(const Measures *m)
{
    const uint64_t counted = is_counted(m) ? m->run->stack_bytes : 0;
    const StackEntry *most = stack_bound(m);
    return most != NULL && most->bytes > counted ? most->bytes : counted;
}

static Used used_of(const Job *j, const Measures *m)
{
    const Board *b = &j->board;
    Used u = {.has_code = has_code(m), .has_time = is_counted(m)};
    u.ram = j->emitted.arena_bytes + j->emitted.state_bytes + stack_of(m) +
            (u.has_code ? m->code->data_bytes + m->code->bss_bytes : 0);
    u.flash = j->emitted.weight_bytes + (u.has_code ? m->code->code_bytes + m->code->const_bytes : 0);
    u.ms = u.has_time ? (double)m->run->cycles / (b->mhz * 1e3) : 0;
    u.has_banks = plan_count_banks(j->plan, false) > 1;
    for (uint32_t i = 0; i < b->n_banks && !u.has_banks; i++)
        if (b->bank[i].bytes >= j->emitted.arena_bytes &&
            (u.bank == NULL || b->bank[i].bytes < u.bank->bytes))
            u.bank = &b->bank[i];
    return u;
}

static double percent(uint64_t part, uint64_t of)
{
    rlx_assert(of != 0); // rows of boards say all their sizes
    return 100.0 * (double)part / (double)of;
}

static void print_board(const Job *j, const Measures *m)
{
    const Board *b = &j->board;
    const Used u = used_of(j, m);
    printf("board   %s: %s, %s at %u MHz\n", b->name, b->chip, b->cpu, b->mhz);
    printf("  RAM   %llu of %llu bytes (%.1f %%), ", (unsigned long long)u.ram,
           (unsigned long long)b->ram_bytes, percent(u.ram, b->ram_bytes));
    if (u.bank != NULL)
        printf("the arena fits into %s (%llu bytes%s)\n", u.bank->name, (unsigned long long)u.bank->bytes,
               u.bank->is_slow ? ", a chip of its own, which is slower" : "");
    else
        printf(u.has_banks ? "the arena lies in several banks\n" : "the arena fits into no single bank\n");
    printf("  flash %llu of %llu bytes (%.1f %%)%s\n", (unsigned long long)u.flash,
           (unsigned long long)b->flash_bytes, percent(u.flash, b->flash_bytes),
           u.has_code ? "" : ", without machine code");
    if (u.has_time)
        printf("  time  %.2f ms by the model, without the wait states of %s\n", u.ms,
               b->has_xip ? "its flash, which is a chip of its own" : "flash");
}

static void add_board(const Job *j, const Measures *m, Str *out)
{
    const Board *b = &j->board;
    const Used u = used_of(j, m);
    str_printf(out, "  \"board\": {\"name\": \"%s\", \"chip\": \"%s\", \"mhz\": %u, ", b->name, b->chip,
               b->mhz);
    str_printf(out, "\"ram_bytes\": %llu, \"flash_bytes\": %llu, \"ram_used_bytes\": %llu, ",
               (unsigned long long)b->ram_bytes, (unsigned long long)b->flash_bytes,
               (unsigned long long)u.ram);
    str_printf(out, "\"flash_used_bytes\": %llu, \"arena_bank\": ", (unsigned long long)u.flash);
    str_printf(out, u.bank != NULL ? "\"%s\"" : "null%s", u.bank != NULL ? u.bank->name : "");
    if (u.has_time) {
        str_add(out, ", \"ms\": ");
        str_f64(out, u.ms);
    }
    str_add(out, "},\n");
}

// --- all -----------------------------------------------------------------------------------------

typedef struct Total {
    const Job *job;
    Estimate sum;
} Total;

static void add_estimate(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    Total *t = ctx;
    const Estimate e = k->loop == NULL ? estimate_time(t->job->cpu.name, k->kernel) : (Estimate){0};
    (void)p;
    t->sum.insns += e.insns * (double)times;
    t->sum.error = k->loop == NULL ? e.error : t->sum.error;
}

Estimate inspect_estimate(const Job *j)
{
    Total t = {.job = j};
    plan_walk(j->plan, add_estimate, &t);
    return t.sum;
}

static void print_run(const Job *j, const BoardCounts *run)
{
    const Estimate e = run->unknown != NULL ? inspect_estimate(j) : (Estimate){0};
    if (run->unknown != NULL && e.error > 0)
        printf("time    estimated %.3f M instructions, which can be off by %.0f %%; not counted: %s\n",
               e.insns * 1e-6, e.error, run->unknown);
    else if (run->unknown != NULL)
        printf("time    not counted: %s\n", run->unknown);
    if (run->unknown != NULL)
        return;
    printf("time    %.3f M instructions, about %.3f M cycles without wait states (%s)\n",
           (double)run->insns * 1e-6, (double)run->cycles * 1e-6, run->how);
}

// What the counted run used, and what the graph of calls allows.
static void print_stack(const Measures *m)
{
    const StackEntry *most = stack_bound(m);
    rlx_assert(!is_counted(m) || m->code != NULL); // a run is counted where the code was compiled
    if (is_counted(m))
        printf("stack   %llu bytes in that run, ", (unsigned long long)m->run->stack_bytes);
    else if (has_code(m))
        printf("stack   ");
    if (most != NULL) {
        printf("at most %llu bytes by the graph of calls (%s)", (unsigned long long)most->bytes, most->path);
        for (uint32_t i = 0; i < most->libraries.len; i++)
            printf("%s %s", i == 0 ? " and what these take:" : ",", most->libraries.data[i]);
        printf("\n");
    } else if (is_counted(m) || has_code(m)) {
        printf("no bound: %s\n", m->code->unknown != NULL ? m->code->unknown : m->code->stack.unknown);
    }
}

void inspect_board_print(const Job *j, const Measures *m)
{
    if (m->run != NULL)
        print_run(j, m->run);
    print_stack(m);
    if (j->board.name != NULL)
        print_board(j, m);
}

// counted_by null: nothing was counted, and count_unknown says why.
static void add_run(const Job *j, const BoardCounts *run, Str *out)
{
    const Estimate e = inspect_estimate(j);
    if (e.error > 0)
        str_printf(out, "  \"estimated_instructions\": %llu,\n  \"estimate_error_percent\": %llu,\n",
                   (unsigned long long)e.insns, (unsigned long long)e.error);
    if (run->unknown == NULL)
        str_printf(out, "  \"counted_versions\": \"%s\",\n", json_text(out->arena, run->versions));
    if (run->unknown != NULL)
        str_printf(out, "  \"counted_by\": null,\n  \"count_unknown\": \"%s\",\n",
                   json_text(out->arena, run->unknown));
    else
        str_printf(out,
                   "  \"instructions\": %llu,\n  \"cycles\": %llu,\n  \"stack_bytes\": %llu,\n"
                   "  \"counted_by\": \"%s\",\n",
                   (unsigned long long)run->insns, (unsigned long long)run->cycles,
                   (unsigned long long)run->stack_bytes, json_text(out->arena, run->how));
}

void inspect_board_json(const Job *j, const Measures *m, Str *out)
{
    if (m->run != NULL)
        add_run(j, m->run, out);
    if (j->board.name != NULL)
        add_board(j, m, out);
}
