// SPDX-License-Identifier: Apache-2.0
// Runs of lockstep_test.c: of `sub` by all calls that run a model, of `ref` by one.
#ifndef TESTS_LOCKSTEP_RUNS_H
#define TESTS_LOCKSTEP_RUNS_H

#include "lockstep_own.h"

// --- the reference run ----------------------------------------------------------------------------

// Inputs of the reference, and whether handles let the run begin.
static rlx_status give_own(const void **given, int set)
{
    int64_t shape[RLX_MAX_RANK];
    uint32_t i;
    Own *o;
    rlx_status status = RLX_OK;
    for (i = 0; i < ref.ctx.model->n_inputs; i++) {
        given[i] = inputs[set][i];
        o = giver(i);
        if (o == NULL)
            continue;
        given[i] = o->mirror;
        rlx_input_shape(&ref.ctx, i, shape);
        if (status != RLX_OK)
            continue;
        if (!o->has_value)
            status = RLX_ERR_HANDLE;
        else if (memcmp(shape, o->shape, (size_t)o->rank * sizeof *shape) != 0)
            status = RLX_ERR_SIZE;
    }
    return status;
}

static void take_own(const unsigned char *has)
{
    int i;
    for (i = 0; i < MAX_OWN; i++) {
        Own *o = &own[i];
        if (!o->is_made || o->output == RLX_NO_SLOT ||
            (has != NULL && o->output < ref.ctx.model->n_outputs && !has[o->output]))
            continue;
        rlx_output_shape(&ref.ctx, o->output, o->shape);
        agree("reference", o->name, rlx_read_output(&ref.ctx, o->output, o->mirror, own_bytes(o)), RLX_OK);
        o->has_value = 1;
    }
}

static rlx_status mean_run(int set, const unsigned char *has)
{
    const void *given[MAX_VALUES + 1];
    rlx_status status;
    if (rlx_missing_param(&ref.ctx) != NULL)
        return RLX_ERR_PARAM;
    status = give_own(given, set);
    if (status != RLX_OK)
        return status;
    status = rlx_run_slots(&ref.ctx, given, NULL);
    if (status == RLX_OK)
        take_own(has);
    return status;
}

static void compare_output(uint32_t i, const rlx_tensor *t)
{
    int64_t a[RLX_MAX_RANK], b[RLX_MAX_RANK];
    size_t n, bytes;
    void *p, *q;
    agree("output_shape", t->name, rlx_output_shape(&sub.ctx, i, a), rlx_output_shape(&ref.ctx, i, b));
    agree("shape", t->name, memcmp(a, b, (size_t)t->rank * sizeof *a), 0);
    n = count_of(b, t->rank);
    bytes = n * rlx_dtype_bytes(t->dtype);
    agree("output_bytes", t->name, (double)rlx_output_bytes(&sub.ctx, i), (double)bytes);
    agree("output_room", t->name, (double)rlx_output_room(&sub.ctx, i),
          (double)rlx_output_room(&ref.ctx, i));
    p = room(bytes), q = room(bytes);
    agree("read_output", t->name, rlx_read_output(&sub.ctx, i, p, bytes),
          rlx_read_output(&ref.ctx, i, q, bytes));
    compare_values("output", t->name, t->dtype, p, q, n);
    if (i < sub.ctx.model->n_outputs)
        compare_values("output in place", t->name, t->dtype, rlx_output(&sub.ctx, i), q, n);
    if (t->rank > 0 && n != 0) {
        const int64_t at[RLX_MAX_RANK] = {pick(b[0])};
        bytes /= (size_t)b[0];
        agree("read_output_at", t->name, rlx_read_output_at(&sub.ctx, i, at, 1, p, bytes), RLX_OK);
        compare_values("row", t->name, t->dtype, p, (unsigned char *)q + (size_t)at[0] * bytes,
                       n / (size_t)b[0]);
    }
    free(p), free(q);
}

// has: those of a set, or NULL: all.
static void compare_outputs(const unsigned char *has)
{
    uint32_t i;
    for (i = 0; i < output_count(); i++)
        if (has == NULL || i >= ref.ctx.model->n_outputs || has[i])
            compare_output(i, output_tensor(ref.ctx.model, i));
}

// --- runs of sub ----------------------------------------------------------------------------------

static void give_in_place(int set)
{
    const rlx_model *m = sub.ctx.model;
    uint32_t i;
    for (i = 0; i < m->n_inputs; i++) {
        if (giver(i) != NULL)
            continue;
        memcpy(rlx_input(&sub.ctx, i), inputs[set][i], rlx_input_bytes(&sub.ctx, i));
    }
}

static void given_to_sub(const void **given, int set)
{
    uint32_t i;
    for (i = 0; i < sub.ctx.model->n_inputs; i++)
        given[i] = giver(i) != NULL ? NULL : inputs[set][i];
}

static rlx_status run_sized(void)
{
    rlx_sized sized[MAX_VALUES + 1];
    rlx_slot slots[MAX_VALUES + 1];
    uint32_t i;
    for (i = 0; i < sub.ctx.model->n_inputs; i++) {
        sized[i].data = giver(i) != NULL ? NULL : inputs[0][i];
        sized[i].bytes = giver(i) != NULL ? 0 : rlx_input_bytes(&sub.ctx, i);
    }
    return rlx_run_sized(&sub.ctx, sized, sub.ctx.model->n_inputs, slots);
}

// By name, with some of the outputs; or with data of other types, too.
typedef struct Call {
    rlx_named in[MAX_VALUES + 1];
    rlx_named_out out[MAX_VALUES + 1];
    rlx_typed typed[MAX_VALUES + 1];
    rlx_typed_out typed_out[MAX_VALUES + 1];
    void *wide[MAX_VALUES + 1];
    uint32_t n, k;
} Call;

static void add_input(Call *c, uint32_t at)
{
    const rlx_tensor *t = &sub.ctx.model->inputs[at];
    const size_t bytes = rlx_input_bytes(&sub.ctx, at), count = bytes / rlx_dtype_bytes(t->dtype);
    if (giver(at) != NULL)
        return;
    c->in[c->n].name = c->typed[c->n].name = t->name;
    c->in[c->n].data = c->typed[c->n].data = inputs[0][at];
    c->in[c->n].bytes = c->typed[c->n].bytes = bytes;
    c->typed[c->n].dtype = t->dtype;
    c->wide[c->n] = NULL;
    if (pick(2) == 0 && is_float(t->dtype)) {
        c->typed[c->n].dtype = RLX_F64, c->typed[c->n].bytes = count * 8;
        c->typed[c->n].data = c->wide[c->n] = room(count * 8);
        rlx_convert(c->wide[c->n], RLX_F64, inputs[0][at], t->dtype, count);
    }
    c->n++;
}

static rlx_status run_named(int is_typed)
{
    static Call c;
    const rlx_model *m = sub.ctx.model;
    const uint32_t first = (uint32_t)pick(m->n_inputs + 1);
    uint32_t i;
    rlx_status status;
    c.n = c.k = 0;
    for (i = 0; i < m->n_inputs; i++)
        add_input(&c, (i + first) % m->n_inputs);
    for (i = 0; i < output_count(); i++) {
        const rlx_tensor *t = output_tensor(m, i);
        if (pick(4) == 0)
            continue;
        c.out[c.k].name = c.typed_out[c.k].name = t->name;
        c.out[c.k].bytes = c.typed_out[c.k].bytes = rlx_output_room(&sub.ctx, i);
        c.out[c.k].data = c.typed_out[c.k].data = room(c.out[c.k].bytes);
        c.typed_out[c.k++].dtype = t->dtype;
    }
    status = is_typed ? rlx_run_typed(&sub.ctx, c.typed, c.n, c.typed_out, c.k)
                      : rlx_run_named(&sub.ctx, c.in, c.n, c.out, c.k);
    for (i = 0; i < c.k; i++)
        free(c.out[i].data);
    for (i = 0; i < c.n; i++)
        free(c.wide[i]);
    return status;
}

static rlx_status run_slots(void)
{
    const void *given[MAX_VALUES + 1];
    rlx_slot slots[MAX_VALUES + 1];
    given_to_sub(given, 0);
    return rlx_run_slots(&sub.ctx, given, slots);
}

static rlx_status run_in_place(int is_set)
{
    give_in_place(0);
    return is_set ? rlx_run_set(&sub.ctx, 0) : rlx_run(&sub.ctx);
}

static rlx_status run_committed(void)
{
    rlx_status status;
    give_in_place(0);
    status = rlx_commit(&sub.ctx);
    return status == RLX_OK ? rlx_sync(&sub.ctx) : status;
}

// An output into a param or a state.
static void feed_one(void)
{
    const rlx_model *m = ref.ctx.model;
    const uint32_t n = m->n_params + m->n_states, at = n == 0 ? 0 : (uint32_t)pick(n);
    const uint32_t output = (uint32_t)pick((int64_t)output_count());
    const char *name;
    if (n == 0)
        return;
    name = at < m->n_params ? m->params[at].name : m->states[at - m->n_params].name;
    agree("feed", name, rlx_feed_handle(&sub.ctx, name, output), rlx_feed_handle(&ref.ctx, name, output));
}

static void step_run(void)
{
    static const char *const ways[] = {"run", "slots", "sized", "named", "typed", "commit", "set", "feed"};
    const int how = (int)pick(8);
    const unsigned char *has = how == 6 && ref.model->n_sets != 0 ? ref.model->sets[0].has : NULL;
    rlx_status want, status;
    doing = ways[how];
    if (how == 6 && has == NULL)
        return;
    fill_inputs(0);
    want = mean_run(0, has);
    status = how == 1   ? run_slots()
             : how == 2 ? run_sized()
             : how == 3 ? run_named(0)
             : how == 4 ? run_named(1)
             : how == 5 ? run_committed()
                        : run_in_place(how == 6);
    agree_status("status", status, want);
    if (status != RLX_OK || want != RLX_OK)
        return;
    compare_outputs(has);
    if (how == 7)
        feed_one();
}

// --- many runs ------------------------------------------------------------------------------------

static void compare_snapshot(const unsigned char *snapshot)
{
    uint32_t o;
    for (o = 0; o < ref.ctx.model->n_outputs; o++) {
        const rlx_tensor *t = &ref.ctx.model->outputs[o];
        int64_t a[RLX_MAX_RANK], b[RLX_MAX_RANK];
        const void *p = rlx_snapshot_output(sub.ctx.model, snapshot, o, a);
        rlx_output_shape(&ref.ctx, o, b);
        agree("snapshot shape", t->name, memcmp(a, b, (size_t)t->rank * sizeof *a), 0);
        compare_values("snapshot", t->name, t->dtype, p, rlx_output(&ref.ctx, o), count_of(b, t->rank));
    }
}

static void run_pipelined(int n)
{
    static const void *given[MAX_QUEUE * (MAX_VALUES + 1)];
    const size_t bytes = rlx_snapshot_bytes(sub.ctx.model);
    void *all;
    unsigned char *snapshots = (unsigned char *)block(bytes * (size_t)n, &all);
    uint32_t done = 77, ended = 0;
    rlx_status want = RLX_OK, status;
    int i;
    for (i = 0; i < n; i++)
        given_to_sub(given + (uint32_t)i * sub.ctx.model->n_inputs, i);
    status = rlx_run_pipelined(&sub.ctx, given, (uint32_t)n, snapshots, bytes * (size_t)n, &done);
    for (i = 0; i < n && want == RLX_OK; i++) {
        want = mean_run(i, NULL);
        ended += want == RLX_OK;
        if (want == RLX_OK && done > (uint32_t)i)
            compare_snapshot(snapshots + bytes * (size_t)i);
    }
    agree_status("pipelined", status, want);
    agree("done", "", done, ended);
    if (status == RLX_OK && want == RLX_OK)
        compare_outputs(NULL);
    free(all);
}

// What may be written between commits.
static void change_between(void)
{
    const rlx_model *m = ref.ctx.model;
    if (pick(3) == 0 && m->n_states != 0) {
        const rlx_tensor *t = &m->states[pick(m->n_states)];
        void *p = filled(t);
        agree("write", t->name, rlx_write_state(&sub.ctx, t->name, p, t->bytes),
              rlx_write_state(&ref.ctx, t->name, p, t->bytes));
        free(p);
    }
    if (pick(3) == 0 && m->n_params != 0) {
        const rlx_tensor *t = &m->params[pick(m->n_params)];
        void *p = filled(t);
        agree("set", t->name, rlx_set_param_bytes(&sub.ctx, t->name, p, t->bytes),
              rlx_set_param_bytes(&ref.ctx, t->name, p, t->bytes));
        free(p);
    }
    if (pick(4) == 0 && m->symbols != NULL) {
        const uint32_t s = (uint32_t)pick(m->symbols->n);
        const int64_t value = any_size(&m->symbols->list[s]);
        agree("symbol", "", rlx_set_symbol(&sub.ctx, s, value), rlx_set_symbol(&ref.ctx, s, value));
    }
    if (pick(5) == 0)
        (void)rlx_is_done(&sub.ctx);
}

static void run_queued(int n)
{
    rlx_status want = RLX_OK;
    int i, bad = -1;
    for (i = 0; i < n; i++) {
        give_in_place(i);
        agree("commit", "", rlx_commit(&sub.ctx), RLX_OK);
        if (want == RLX_OK) {
            want = mean_run(i, NULL);
            bad = want == RLX_OK ? -1 : i;
        }
        change_between();
    }
    agree_status("sync", rlx_sync(&sub.ctx), want);
    agree("failed_run", "", (double)rlx_failed_run(&sub.ctx), bad);
}

static void step_queue(void)
{
    const int n = 1 + (int)pick(MAX_QUEUE), is_pipelined = pick(3) == 0;
    int i;
    doing = is_pipelined ? "pipelined" : "queue";
    for (i = 0; i < n; i++)
        fill_inputs(i);
    if (rlx_missing_param(&ref.ctx) != NULL) {
        give_in_place(0);
        agree("commit", "", rlx_commit(&sub.ctx), RLX_ERR_PARAM);
    } else if (is_pipelined) {
        run_pipelined(n);
    } else {
        run_queued(n);
    }
}

// --- a run at sizes of its own --------------------------------------------------------------------

// Sizes stay as they were where it fails.
static rlx_status mean_padded(const int64_t *values, uint32_t n)
{
    int64_t before[MAX_SYMBOLS];
    uint32_t i;
    rlx_status status;
    for (i = 0; i < n; i++)
        rlx_get_symbol(&ref.ctx, i, &before[i]);
    status = rlx_missing_param(&ref.ctx) != NULL ? RLX_ERR_PARAM : rlx_set_symbols(&ref.ctx, values, n);
    if (status == RLX_OK)
        status = mean_run(0, NULL);
    if (status != RLX_OK)
        rlx_set_symbols(&ref.ctx, before, n);
    return status;
}

static void step_padded(void)
{
    const rlx_symbols *list = ref.ctx.model->symbols;
    int64_t values[MAX_SYMBOLS];
    const void *given[MAX_VALUES + 1];
    void *out[MAX_VALUES + 1];
    rlx_status want, status;
    uint32_t i;
    doing = "padded";
    if (list == NULL || sub.ctx.handles != NULL)
        return;
    for (i = 0; i < list->n; i++)
        values[i] = any_size(&list->list[i]);
    fill_inputs(0);
    given_to_sub(given, 0);
    for (i = 0; i < output_count(); i++)
        out[i] = i < ref.ctx.model->n_outputs ? room(largest(sub.ctx.model)->outputs[i].bytes) : NULL;
    status = rlx_run_padded(&sub.ctx, values, list->n, given, out);
    want = mean_padded(values, list->n);
    agree("padded", "", status, want);
    if (status == RLX_OK && want == RLX_OK)
        compare_outputs(NULL);
    for (i = 0; i < output_count(); i++)
        free(out[i]);
}

#endif
