// SPDX-License-Identifier: Apache-2.0
// See keep.h.
#include "compiler/job/keep.h"
#include "codegen/host/host.h"
#include "compiler/import/llm/llm.h"
#include "compiler/job/node_find.h"
#include <string.h>

// --- values inside -------------------------------------------------------------------------------

static bool is_output(const Graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->outputs.len; i++)
        if (strcmp(g->outputs.data[i].name, name) == 0)
            return true;
    return false;
}

bool keep_apply(Cli *c, const Strings *given, Graph *g)
{
    for (uint32_t i = 0; i < given->len; i++) {
        const char *name = given->data[i];
        const NodeId id = node_find(g, name);
        if (is_output(g, name))
            return diag_error(c->diag, (Span){0}, E0003, "--keep %s: this is an output, or given twice",
                              name);
        if (id == 0 || op_info[graph_node(g, id)->op].kind == OPKIND_LEAF)
            return diag_error(c->diag, (Span){0}, E0003,
                              "--keep %s: the model computes no value of that name", name);
        graph_output(g, name, id);
    }
    return true;
}

void keep_take(const Strings *given, Plan *p)
{
    rlx_assert(p->kept.len == 0);
    rlx_assert(p->outputs.len >= given->len); // keep_apply has added them
    const uint32_t first = p->outputs.len - given->len;
    for (uint32_t i = 0; i < given->len; i++)
        vec_push(p->arena, &p->kept, p->outputs.data[first + i]);
    p->outputs.len = first;
}

// --- sets of outputs -----------------------------------------------------------------------------

static bool wrong(Cli *c, const char *given, const char *expected)
{
    return diag_error(c->diag, (Span){0}, E0003, "--output-set %s: expected %s", given, expected);
}

// NAME=a,b of --output-set.
static bool add_set(Cli *c, Plan *p, const char *given)
{
    Arena *a = c->arena;
    const char *eq = strchr(given, '=');
    PlanSet set = {.name = eq == NULL ? given : arena_strndup(a, given, (size_t)(eq - given))};
    uint8_t *has = ARENA_ARRAY(a, uint8_t, p->outputs.len + 1u);
    if (eq == NULL || strcmp(set.name, host_identifier(a, set.name)) != 0)
        return wrong(c, given, "NAME=OUTPUT,OUTPUT with a C identifier");
    if (strcmp(set.name, LLM_PLAIN_SET) == 0)
        return wrong(c, given, "another name");
    for (uint32_t i = 0; i < p->sets.len; i++)
        if (strcmp(p->sets.data[i].name, set.name) == 0)
            return wrong(c, given, "every name once");
    for (const char *name = eq + 1; *name != '\0'; name += name[strcspn(name, ",")] != '\0' ? 1 : 0) {
        const size_t n = strcspn(name, ",");
        uint32_t i = 0;
        while (i < p->outputs.len &&
               (strlen(p->outputs.data[i].name) != n || memcmp(p->outputs.data[i].name, name, n) != 0))
            i++;
        if (i == p->outputs.len)
            return wrong(c, given, "names of outputs of the model");
        has[i] = 1;
        name += n;
    }
    set.has = has;
    vec_push(a, &p->sets, set);
    return true;
}

// Language models give the best tokens only to runs that are drawn from.
static void add_plain_set(Plan *p)
{
    uint8_t *has = ARENA_ARRAY(p->arena, uint8_t, p->outputs.len + 1u);
    bool has_top = false;
    for (uint32_t i = 0; i < p->outputs.len; i++) {
        has[i] = strcmp(p->outputs.data[i].name, LLM_TOP) != 0;
        has[i] = has[i] && (i == 0 || strcmp(p->outputs.data[i - 1].name, LLM_TOP) != 0);
        has_top |= !has[i];
    }
    if (has_top)
        vec_push(p->arena, &p->sets, ((PlanSet){.name = LLM_PLAIN_SET, .has = has}));
}

bool sets_apply(Cli *c, Plan *p)
{
    rlx_assert(p->sets.len == 0);
    Arena scratch = {0};
    const Strings *given = &c->options.output_sets;
    bool ok = true;
    if (given->len > PLAN_MAX_SETS)
        return wrong(c, given->data[PLAN_MAX_SETS], "at most 31 sets");
    for (uint32_t i = 0; ok && i < given->len; i++)
        ok = add_set(c, p, given->data[i]);
    if (ok && given->len < PLAN_MAX_SETS)
        add_plain_set(p);
    if (ok)
        plan_use_sets(p, &scratch);
    arena_free(&scratch);
    return ok;
}
