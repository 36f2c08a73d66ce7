// SPDX-License-Identifier: Apache-2.0
// See inspect_board.h.
#include "compiler/report/inspect_board.h"
#include "compiler/system/json_text.h"

bool measures_kernel(const Measures *m, const PlanKernel *k, uint64_t *insns, uint64_t *cycles)
{
    const bool is_counted = m->run != NULL && m->run->unknown == NULL && k->function != NULL;
    const BoardFunction *f = is_counted ? board_function(m->run, k->function) : NULL;
    if (f == NULL || f->calls == 0)
        return false;
    *insns = f->insns / f->calls;
    *cycles = f->cycles / f->calls;
    return true;
}

void inspect_board_print(const Measures *m)
{
    const BoardCounts *run = m->run;
    if (run == NULL)
        return;
    if (run->unknown != NULL) {
        printf("time    not counted: %s\n", run->unknown);
        return;
    }
    printf("time    %.3f M instructions, about %.3f M cycles without wait states (%s)\n",
           (double)run->insns * 1e-6, (double)run->cycles * 1e-6, run->how);
    printf("stack   %llu bytes\n", (unsigned long long)run->stack_bytes);
}

// counted_by null: nothing was counted, and count_unknown says why.
void inspect_board_json(const Measures *m, Str *out)
{
    const BoardCounts *run = m->run;
    if (run == NULL)
        return;
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
