// SPDX-License-Identifier: Apache-2.0
// See ops_print.h.
#include "ops_print.h"

const char *ops_print_functions(PlanKernel *k, Str *out)
{
    const Target *c = target_find("c");
    const char *lacks = target_lacks(c, k->kernel);
    k->function = k->kernel->name = arena_printf(k->kernel->arena, OPS_PREFIX "%s", k->kernel->name);
    for (uint32_t i = 0; i < k->threads.phases.len && lacks == NULL; i++) {
        PlanPhase *phase = &k->threads.phases.data[i];
        phase->function = phase->kernel->name =
            arena_printf(k->kernel->arena, OPS_PREFIX "%s", phase->kernel->name);
        cfamily_print_kernel(c, phase->kernel, out);
    }
    if (lacks != NULL || k->threads.phases.len != 0)
        return lacks;
    if (k->loop == NULL) {
        cfamily_print_kernel(c, k->kernel, out);
        return NULL;
    }
    for (uint32_t i = 0; i < k->loop->body->kernels.len && lacks == NULL; i++)
        lacks = ops_print_functions(&k->loop->body->kernels.data[i], out);
    if (lacks == NULL)
        host_print_loop(k, out);
    return lacks;
}

// phase: of a kernel that is cut, else NULL.
static void print_call(const PlanKernel *k, const PlanPhase *phase, Str *out)
{
    const uint32_t n = phase != NULL ? phase->kernel->params.len : k->args.len;
    str_printf(out, "    %s(", phase != NULL ? phase->function : k->function);
    for (uint32_t i = 0; i < n; i++) {
        const PlanArg *arg = &k->args.data[phase != NULL ? phase->args[i] : i];
        str_printf(out, "%s(void *)(b[%u] + %lld)", i == 0 ? "" : ", ", arg->buf,
                   (long long)arg->byte_offset);
    }
    str_printf(out, "%s%s);\n", k->threads.is_shared && n != 0 ? ", " : "",
               k->threads.is_shared ? "team" : "");
}

void ops_print_calls(const PlanKernel *k, Str *out)
{
    if (k->threads.phases.len == 0)
        print_call(k, NULL, out);
    for (uint32_t i = 0; i < k->threads.phases.len; i++) {
        str_add(out, i == 0 ? "" : "    rlx_barrier(team);\n");
        print_call(k, &k->threads.phases.data[i], out);
    }
}

void ops_print_with_id(const char *text, uint32_t id, Str *out)
{
    for (const char *c = text; *c != '\0'; c++)
        if (*c == OPS_ID)
            str_printf(out, "%u", id);
        else
            str_add_n(out, c, 1);
}
