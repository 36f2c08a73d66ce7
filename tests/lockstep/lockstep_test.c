// SPDX-License-Identifier: Apache-2.0
// Two programs of one model in one process, step by step: `sub`, compiled for a target with options, and
// `ref`, compiled to plain C. Random calls of all kinds go to sub; what they mean is done on ref by the
// simplest calls, and by lockstep_own.h what handles of the program are about. Statuses, outputs, states,
// params and sentences of errors have to agree. Usage: lockstep_test SEED STEPS
#include "lockstep_runs.h"

// --- what lasts -----------------------------------------------------------------------------------

// To sub and to ref; what is said has to be the same.
#define BOTH(call, ...)                                                                                      \
    do {                                                                                                     \
        agree(#call, "", call(&sub.ctx, __VA_ARGS__), call(&ref.ctx, __VA_ARGS__));                          \
        agree_text();                                                                                        \
    } while (0)

// Now and then one that does not exist, or a value out of its range.
static void step_symbol(void)
{
    const rlx_symbols *list = ref.ctx.model->symbols;
    const uint32_t n = list == NULL ? 0 : list->n, s = (uint32_t)pick(n + (pick(9) == 0) + (n == 0));
    int64_t values[MAX_SYMBOLS], value = 1, upper;
    uint32_t i;
    doing = "symbol";
    forget_errors();
    if (n == 0)
        return;
    if (s < n)
        value = any_size(&list->list[s]) + (pick(9) == 0) - (pick(9) == 0);
    upper = value + pick(2);
    switch (pick(3)) {
    case 0:
        for (i = 0; i < n; i++)
            values[i] = pick(3) == 0 ? RLX_KEEP : any_size(&list->list[i]);
        BOTH(rlx_set_symbols, values, n);
        break;
    case 1:
        BOTH(rlx_set_active_extent, s, value, upper);
        break;
    default:
        BOTH(rlx_set_symbol, s, value);
    }
}

static void set_typed(const rlx_tensor *t, const void *data)
{
    const size_t count = t->bytes / rlx_dtype_bytes(t->dtype);
    double *wide = (double *)room(count * sizeof *wide);
    rlx_convert(wide, RLX_F64, data, t->dtype, count);
    BOTH(rlx_set_param_typed, t->name, wide, count * sizeof *wide, RLX_F64);
    free(wide);
}

// A param or a state, by calls that are for it and by others.
static void step_lasting(void)
{
    const rlx_model *m = ref.ctx.model;
    const uint32_t n = m->n_params + m->n_states, at = n == 0 ? 0 : (uint32_t)pick(n);
    const rlx_tensor *t;
    size_t from;
    void *p;
    doing = "lasting";
    forget_errors();
    if (n == 0)
        return;
    t = at < m->n_params ? &m->params[at] : &m->states[at - m->n_params];
    p = filled(t);
    from = (size_t)pick((int64_t)(t->bytes / rlx_dtype_bytes(t->dtype)) + 1) * rlx_dtype_bytes(t->dtype);
    switch (pick(9)) {
    case 0:
        BOTH(rlx_bind_handle, t->name, p, t->bytes);
        break;
    case 1:
        BOTH(rlx_write_state, t->name, p, t->bytes);
        break;
    case 2:
        BOTH(rlx_set_param_bytes, t->name, p, t->bytes);
        break;
    case 3:
        BOTH(rlx_write_state_range, t->name, from, p, t->bytes - from);
        break;
    case 4:
        BOTH(rlx_set_param_range, t->name, from, p, t->bytes - from);
        break;
    case 5:
        set_typed(t, p);
        break;
    case 6:
        if (pick(3) == 0)
            BOTH(rlx_clear_handle, t->name);
        break;
    case 7:
        if (pick(2) == 0)
            agree("reset", "", rlx_reset(&sub.ctx), rlx_reset(&ref.ctx));
        break;
    default:
        BOTH(rlx_bind_handle, t->name, p, t->bytes - 1);
        BOTH(rlx_write_state_range, t->name, from, p, t->bytes - from + 1);
    }
    free(p);
}

// --- what is around runs --------------------------------------------------------------------------

static uint64_t count_up(void *user)
{
    return ++*(uint64_t *)user;
}

static void set_profile(void)
{
    enum { MOST = 4096 };
    static uint64_t clock, ticks[MOST];
    static double ns[MOST];
    static rlx_profile profile;
    const int has = sub.model->has_profile;
    memset(&profile, 0, sizeof profile);
    profile.clock = count_up, profile.user = &clock, profile.ticks = pick(2) == 0 ? ticks : NULL;
    if (largest(sub.ctx.model)->n_kernels > MOST)
        return;
    agree("profile", "", rlx_set_profile(&sub.ctx, pick(2) == 0 ? &profile : NULL),
          has ? RLX_OK : RLX_ERR_VALUE);
    agree("device times", "", rlx_set_device_times(&sub.ctx, ns, MOST), has ? RLX_OK : RLX_ERR_VALUE);
}

static void set_times(void)
{
    static uint64_t clock;
    static rlx_run_times times;
    static rlx_run_time list[8];
    const int is_on = (int)pick(2);
    if (!is_on)
        agree("times", "", rlx_set_run_times(&sub.ctx, NULL), RLX_OK);
    agree("ended", "", (double)times.ended, (double)times.begun);
    memset(&times, 0, sizeof times);
    times.clock = count_up, times.user = &clock, times.list = list, times.n = 8;
    if (is_on)
        agree("times", "", rlx_set_run_times(&sub.ctx, &times), RLX_OK);
}

static void stop_threads(void)
{
    if (has_threads)
        rlx_threads_stop(&sub.ctx);
    has_threads = 0;
}

static void start_threads(void)
{
    const uint32_t n = sub.ctx.model->threads;
    stop_threads();
    if (n > 1 && sub.ctx.model->device == NULL && pick(2) == 0)
        has_threads = rlx_threads_start(&sub.ctx, &pool, (uint32_t)(1 + pick(n))) == RLX_OK;
}

static void set_error(void)
{
    says_errors = !says_errors;
    rlx_set_error(&sub.ctx, says_errors ? &sub.error : NULL);
    rlx_set_error(&ref.ctx, says_errors ? &ref.error : NULL);
}

// Goes on as a copy, in other blocks.
static void go_on_as_copy(void)
{
    Side old;
    stop_threads();
    old = sub;
    sub.arena = block(arena_of(sub.model), &sub.block[0]);
    sub.state = block(state_of(sub.model), &sub.block[1]);
    memset(&sub.ctx, 0x55, sizeof sub.ctx);
    agree("clone", "",
          rlx_clone(&sub.ctx, &old.ctx, sub.arena, arena_of(sub.model), sub.state, state_of(sub.model)),
          RLX_OK);
    agree("close", "", rlx_close(&old.ctx), RLX_OK);
    free(old.block[0]), free(old.block[1]);
    forget_own();
    rlx_set_error(&sub.ctx, says_errors ? &sub.error : NULL);
}

static void step_around(void)
{
    static void (*const what[])(void) = {set_profile, set_times, start_threads, set_error, go_on_as_copy};
    doing = "around";
    what[pick(5)]();
}

static void step_wrong(void)
{
    const rlx_model *m = sub.ctx.model;
    const uint32_t slot = (uint32_t)pick((int64_t)output_count() + 2);
    const size_t bytes = (size_t)pick(65);
    const char *name = m->n_inputs != 0 && pick(2) == 0 ? m->inputs[0].name : output_tensor(m, 0)->name;
    float data[16] = {0};
    doing = "wrong";
    forget_errors();
    if (sub.ctx.handles != NULL)
        return;
    BOTH(rlx_set_param, name, data, 1);
    BOTH(rlx_write_state, name, data, bytes);
    BOTH(rlx_bind_handle, "none", data, bytes);
    BOTH(rlx_clear_handle, "none");
    BOTH(rlx_run_set, 5);
    BOTH(rlx_read_output, slot, NULL, bytes);
    if (m->n_inputs != 0)
        BOTH(rlx_run_named, NULL, 0, NULL, 0);
}

static void step(void)
{
    static void (*const what[])(void) = {
        step_run,    step_run,    step_run,    step_run,     step_run,     step_run, step_run,   step_run,
        step_queue,  step_queue,  step_queue,  step_symbol,  step_symbol,  step_own, step_own,   step_own,
        step_symbol, step_padded, step_around, step_lasting, step_lasting, step_around, step_wrong,
    };
    what[pick(sizeof what / sizeof *what)]();
    if (pick(2) == 0) {
        compare_lasting();
        compare_own();
    }
}

int main(int argc, char **argv)
{
    const unsigned long steps = argc > 2 ? strtoul(argv[2], NULL, 10) : 200;
    uint32_t i, s;
    seed = argc > 1 ? strtoul(argv[1], NULL, 10) * 7919 + 1 : 1;
    sub.model = &subject_model, ref.model = &plain_model;
    make(&sub);
    make(&ref);
    for (s = 0; s < MAX_QUEUE; s++)
        for (i = 0; i < largest(sub.ctx.model)->n_inputs; i++)
            inputs[s][i] = (unsigned char *)room(largest(sub.ctx.model)->inputs[i].bytes);
    for (step_number = 0; step_number < steps && !failed; step_number++)
        step();
    stop_threads();
    end(&sub);
    end(&ref);
    forget_own();
    for (s = 0; s < MAX_QUEUE; s++)
        for (i = 0; i < largest(ref.model)->n_inputs; i++)
            free(inputs[s][i]);
    return failed != 0;
}
