// SPDX-License-Identifier: Apache-2.0
// Loops of templates, and what `loop` can do in them.
#include "compiler/template/tpl_run.h"

// The items for which the condition of the loop holds.
static bool choose(Tpl *t, const TplNode *n, const TplList **items)
{
    if (n->c == NULL)
        return true;
    TplList *chosen = tpl_new_list(t, TPL_PLAIN);
    TplScope *outside = t->scope;
    t->scope = tpl_open_scope(t, outside);
    for (uint32_t i = 0; i < (*items)->items.len; i++) {
        TplValue v;
        if (!tpl_assign(t, n->a, (*items)->items.data[i]) || !tpl_eval(t, n->c, &v))
            return false;
        if (tpl_is_true(v))
            vec_push(t->arena, &chosen->items, (*items)->items.data[i]);
    }
    t->scope = outside;
    *items = chosen;
    return true;
}

// A scope for the next round: the same one again, unless a macro keeps what was in it.
static void renew_scope(Tpl *t, TplScope *outside)
{
    if (t->scope == outside || t->scope->is_kept)
        t->scope = tpl_open_scope(t, outside);
    t->scope->variables.len = 0;
}

// *is_done: was there a round that came to its end? `else` depends on it, in jinja2 too.
static TplFlow go_over(Tpl *t, const TplNode *n, TplLoop *loop, bool *is_done)
{
    TplScope *outside = t->scope;
    uint64_t name;
    const bool has_name = map_get_str(&t->t->names, "loop", &name);
    TplFlow f = FLOW_ON;
    for (; loop->at < loop->items->items.len && f == FLOW_ON; loop->at++) {
        renew_scope(t, outside);
        if (has_name)
            tpl_set_variable(t, (uint32_t)name, (TplValue){TPL_LOOP, {.loop = loop}});
        if (!tpl_spend(t, 1) || !tpl_assign(t, n->a, loop->items->items.data[loop->at]))
            return FLOW_FAIL;
        f = tpl_exec(t, n->d);
        *is_done = *is_done || f == FLOW_ON;
        f = f == FLOW_CONTINUE ? FLOW_ON : f;
    }
    rlx_assert(f == FLOW_FAIL || t->scope == outside || t->scope->above == outside); // the body left its own
    t->scope = outside;
    return f == FLOW_BREAK ? FLOW_ON : f;
}

TplFlow tpl_exec_for(Tpl *t, const TplNode *n)
{
    TplValue v;
    TplLoop *loop = ARENA_NEW(t->arena, TplLoop);
    if (!tpl_eval(t, n->b, &v) || !tpl_iterate(t, v, &loop->items) || !choose(t, n, &loop->items))
        return FLOW_FAIL;
    bool is_done = false;
    const TplFlow f = go_over(t, n, loop, &is_done);
    return f == FLOW_ON && !is_done && n->e != NULL ? tpl_exec(t, n->e) : f;
}

bool tpl_method_cycle(Tpl *t, TplCall *c, TplValue *out)
{
    if (c->n == 0)
        return tpl_fail(t, "cycle() needs values");
    rlx_assert(c->self.kind == TPL_LOOP && c->self.u.loop->at <= c->self.u.loop->items->items.len);
    *out = c->value[c->self.u.loop->at % c->n];
    return true;
}

bool tpl_method_changed(Tpl *t, TplCall *c, TplValue *out)
{
    TplLoop *loop = c->self.u.loop;
    TplList *now = tpl_new_list(t, TPL_TUPLE);
    bool is_equal = false;
    for (uint32_t i = 0; i < c->n; i++)
        vec_push(t->arena, &now->items, c->value[i]);
    if (loop->has_changed && !tpl_equal(t, loop->changed, tpl_of_list(now), &is_equal))
        return false;
    loop->has_changed = true;
    loop->changed = tpl_of_list(now);
    *out = tpl_bool(!is_equal);
    return true;
}
