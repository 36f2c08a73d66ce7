// SPDX-License-Identifier: Apache-2.0
// The function that runs a model: the calls of its kernels in order.
#include "codegen/host/host_parts.h"
#include "codegen/walk/names.h"

static void find_matrix(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    (void)p, (void)times;
    *(bool *)ctx |= k->loop == NULL && kernel_has_matrix(k->kernel);
}

// Names for where the buffers are that the calls of kernels [begin, end) use: at_relu1. One that is too far
// for an enumerator has none.
static const char *const *emit_places(const HostEmit *e, uint32_t begin, uint32_t end, Str *out)
{
    rlx_assert(begin <= end && end <= e->plan->kernels.len);
    const Plan *p = e->plan;
    const char **names = ARENA_ARRAY(e->arena, const char *, p->buffers.len);
    Names used = {.arena = e->arena};
    uint32_t n = 0;
    for (uint32_t i = begin; i < end; i++)
        for (uint32_t j = 0; j < p->kernels.data[i].args.len; j++) {
            const BufId buf = p->kernels.data[i].args.data[j].buf;
            rlx_assert(buf < p->buffers.len);
            const PlanBuffer *b = &p->buffers.data[buf];
            const uint64_t at = host_place(p, b);
            if (names[buf] != NULL || b->name == NULL || at > INT32_MAX)
                continue;
            names[buf] = names_take(&used, arena_printf(e->arena, "at_%s", b->name));
            str_printf(out, "%s        %s = %llu,\n", n++ == 0 ? "    enum { // bytes into the block\n" : "",
                       names[buf], (unsigned long long)at);
        }
    if (n != 0)
        str_add(out, "    };\n");
    return names;
}

// What the calls of kernels [begin, end) name: by region, and by bank where these have pointers of their own.
typedef struct Named {
    bool region[REGION_COUNT], bank[PLAN_MAX_BANKS], is_limited;
} Named;

static Named named_by(const HostEmit *e, uint32_t begin, uint32_t end)
{
    const Plan *p = e->plan;
    Named used = {0};
    for (uint32_t i = begin; i < end; i++) {
        const PlanKernel *k = &p->kernels.data[i];
        used.is_limited = used.is_limited || k->skipped_by != 0;
        for (uint32_t j = 0; j < k->args.len; j++) {
            const PlanBuffer *b = &p->buffers.data[k->args.data[j].buf];
            const bool is_apart = host_bank_apart(p, b) != NULL;
            *(is_apart ? &used.bank[b->bank] : &used.region[b->region]) = true;
        }
    }
    return used;
}

// Blocks that the caller gave. False: the calls name none.
static bool emit_blocks(const HostEmit *e, const Named *used, Str *out)
{
    const Plan *p = e->plan;
    const bool has_state =
        used->region[REGION_STATE] || used->region[REGION_PARAM] || used->region[REGION_PREPARED];
    bool any = used->region[REGION_ARENA] || has_state;
    if (used->region[REGION_ARENA])
        str_add(out, "    unsigned char *const a = ctx->arena;\n");
    for (uint32_t i = 0; i < p->banks.len; i++)
        if (used->bank[i]) {
            host_emit_bank_pointer(e, &p->banks.data[i], out);
            any = any || !p->banks.data[i].is_weights || e->weights == WEIGHTS_FILE;
        }
    if (has_state)
        str_add(out, "    unsigned char *const s = ctx->state;\n");
    return any;
}

// False: the calls name no constants that the context has.
static bool emit_constants(const HostEmit *e, const Named *used, Str *out)
{
    const bool is_apart = e->plan->experts.slots > 0, has_file = e->plan->file != NULL;
    const bool has_experts = used->region[REGION_EXPERTS];
    if (used->region[REGION_WEIGHTS] && has_file) // ctx->weights is the file
        str_printf(out, "    const unsigned char *const w = (const unsigned char *)%s;\n", e->rest);
    else if (used->region[REGION_WEIGHTS] || (has_experts && !is_apart))
        str_add(out, "    const unsigned char *const w = ctx->weights;\n");
    if (used->region[REGION_FILE])
        str_add(out, "    const unsigned char *const f = ctx->weights;\n");
    if (has_experts && is_apart)
        str_add(out, "    const unsigned char *const x = rlx_moe_source(ctx);\n");
    return used->region[REGION_WEIGHTS] || has_experts || used->region[REGION_FILE];
}

static void emit_names(const HostEmit *e, uint32_t begin, uint32_t end, Str *out)
{
    const Named used = named_by(e, begin, end);
    const bool has_blocks = emit_blocks(e, &used, out), has_constants = emit_constants(e, &used, out);
    if (used.is_limited)
        str_add(out, "    const uint32_t skipped = ctx->outputs == 0 ? 0u : 1u << (ctx->outputs - 1u);\n");
    if (!has_blocks && !has_constants)
        str_add(out, "    (void)ctx;\n");
}

// What must hold before a run: a place where experts are, and registers that may be used. That is asked once
// a context: the system's answer takes 100 ns.
static void emit_conditions(const HostEmit *e, bool has_matrix, Str *out)
{
    if (e->plan->experts.slots > 0)
        str_add(out, "    if (rlx_moe_source(ctx) == NULL)\n        return RLX_ERR_WEIGHTS;\n");
    if (has_matrix)
        str_add(out, "    if (!ctx->is_allowed && !rlx_matrix_is_allowed())\n        return RLX_ERR_CPU;\n"
                     "    ctx->is_allowed = 1;\n");
}

// --- one thread ----------------------------------------------------------------------------------

// The condition that what depends on parameters only must be made, with the state block at `s`: one was set
// since the last run. Plans for several sizes have a mark each behind the flags, which end together.
static void open_preparation(const Plan *p, const char *s, Str *out)
{
    const unsigned long long flags = host_flags_offset(p), marks = flags + p->params.len;
    str_printf(out, "    if (memchr(%s + %llu, 1, %u) != NULL) {\n", s, flags, p->params.len);
    if (p->prepare.n_marks != 0)
        str_printf(out,
                   "        memset(%s + %llu, 2, %u);\n        memset(%s + %llu, 0, %u);\n    }\n"
                   "    if (%s[%llu] == 0) {\n",
                   s, flags, p->params.len, s, marks, p->prepare.n_marks, s, marks + p->prepare.mark);
}

static void close_preparation(const Plan *p, const char *s, Str *out)
{
    const unsigned long long flags = host_flags_offset(p), marks = flags + p->params.len;
    if (p->prepare.n_marks != 0)
        str_printf(out, "        %s[%llu] = 1;\n    }\n", s, marks + p->prepare.mark);
    else
        str_printf(out, "        memset(%s + %llu, 2, %u);\n    }\n", s, flags, p->params.len);
}

static void emit_preparation(const HostEmit *e, const char *const *places, Str *out)
{
    const HostCalls calls = {
        .end = e->plan->prepare.n_kernels, .has_laps = e->options->has_profile, .places = places};
    open_preparation(e->plan, "s", out);
    host_print_calls(e->plan, calls, "        ", out);
    close_preparation(e->plan, "s", out);
}

// The kernels from here on run after the checks.
static uint32_t first_unchecked(const Plan *p)
{
    return p->n_check_kernels > p->prepare.n_kernels ? p->n_check_kernels : p->prepare.n_kernels;
}

// What a function that runs kernels [begin, end) begins with, beside its conditions.
static void emit_laps(const HostEmit *e, Str *out)
{
    if (e->options->has_profile)
        str_add(out, "    const rlx_profile *const profile = ctx->profile;\n    uint64_t time = "
                     "rlx_lap_begin(profile);\n");
}

// Kernels [begin, end), the preparation and the test of checks where they are among them.
static void emit_range(const HostEmit *e, uint32_t begin, uint32_t end, const char *const *places, Str *out)
{
    const bool laps = e->options->has_profile;
    const uint32_t prepared = e->plan->prepare.n_kernels, checked = first_unchecked(e->plan);
    if (begin == 0 && prepared != 0)
        emit_preparation(e, places, out);
    if (begin == 0) {
        host_print_calls(e->plan, (HostCalls){prepared, checked, .has_laps = laps, .places = places}, "    ",
                         out);
        if (e->plan->checks.len != 0)
            str_add(out, "    if (rlx_test_checks(ctx) != RLX_OK)\n        return rlx_test_checks(ctx);\n");
        begin = checked;
    }
    host_print_calls(e->plan, (HostCalls){begin, end, .has_laps = laps, .places = places}, "    ", out);
}

static void emit_end(const HostEmit *e, Str *out)
{
    if (e->options->has_profile)
        str_add(out, "    (void)time;\n    if (profile != NULL)\n        ctx->profile->runs++;\n");
    if (e->plan->experts.layers.len != 0)
        str_add(out, "    rlx_moe_note(ctx);\n");
}

static void emit_alone(const HostEmit *e, bool has_matrix, Str *out)
{
    str_printf(out, "static rlx_status dispatch%s(rlx_ctx *ctx)\n{\n", e->suffix);
    const char *const *places = emit_places(e, 0, e->plan->kernels.len, out);
    emit_names(e, 0, e->plan->kernels.len, out);
    emit_conditions(e, has_matrix, out);
    if (e->plan->probe != 0)
        str_add(out, "    rlx_probe(0u);\n");
    emit_laps(e, out);
    emit_range(e, 0, e->plan->kernels.len, places, out);
    emit_end(e, out);
    str_add(out, "    return RLX_OK;\n}\n\n");
}

// --- an input that comes row by row ---------------------------------------------------------------

// The kernels before the one that reads rows, with the first of them, and those iterations of that one which
// the rows allow.
static void emit_take(const HostEmit *e, bool has_matrix, Str *out)
{
    const PlanRows *r = &e->plan->rows;
    str_add(out, "static rlx_status take_first(rlx_ctx *ctx)\n{\n");
    const char *const *places = emit_places(e, 0, r->kernel, out);
    emit_names(e, 0, r->kernel, out);
    emit_conditions(e, has_matrix, out);
    if (e->plan->probe != 0)
        str_add(out, "    rlx_probe(0u);\n");
    emit_laps(e, out);
    emit_range(e, 0, r->kernel, places, out);
    if (e->options->has_profile)
        str_add(out, "    (void)time;\n");
    const char *index = e->target->types[KT_INDEX].value;
    str_printf(out,
               "    return RLX_OK;\n}\n\n"
               "static rlx_status take_rows(rlx_ctx *ctx, const unsigned char *rows, uint32_t n)\n{\n");
    places = emit_places(e, r->kernel, r->kernel + 1, out);
    str_printf(out,
               "    const %s since = (%s)ctx->n_fed, all = since + (%s)n, until = all == %lld ? %lld : all;\n"
               "    const rlx_status status = since == 0 ? take_first(ctx) : RLX_OK;\n",
               index, index, index, (long long)r->n_rows, (long long)r->n_turns);
    emit_names(e, r->kernel, r->kernel + 1, out);
    emit_laps(e, out);
    str_add(out, "    if (status != RLX_OK)\n        return status;\n"
                 "    ctx->has_run = 0;\n    ctx->n_fed = RLX_FEEDING;\n");
    const HostCalls calls = {
        r->kernel, r->kernel + 1, .has_laps = e->options->has_profile, .places = places};
    host_print_calls(e->plan, calls, "    ", out);
    if (e->options->has_profile)
        str_add(out, "    (void)time;\n");
    str_add(out, "    ctx->n_fed = (uint32_t)all;\n    return RLX_OK;\n}\n\n");
}

// The kernels behind it. A run that gets the input as a whole takes its rows first.
static void emit_rest(const HostEmit *e, Str *out)
{
    const PlanRows *r = &e->plan->rows;
    const PlanIo *io = &e->plan->inputs.data[r->input - 1];
    str_printf(out, "static const rlx_rows rows_input = {%uu, %lldu, %llu, take_rows};\n\n", r->input - 1,
               (long long)r->n_rows, (unsigned long long)io->bytes / (unsigned long long)r->n_rows);
    str_add(out, "static rlx_status dispatch(rlx_ctx *ctx)\n{\n");
    const char *const *places = emit_places(e, r->kernel + 1, e->plan->kernels.len, out);
    str_printf(out, "    const unsigned char *const whole = ctx->whole;\n"
                    "    const uint32_t given = ctx->n_fed;\n");
    emit_names(e, r->kernel + 1, e->plan->kernels.len, out);
    emit_laps(e, out);
    str_printf(out,
               "    ctx->whole = NULL;\n"
               "    if (whole != NULL) {\n"
               "        const rlx_status status =\n"
               "            given == 0 ? take_rows(ctx, whole, %lldu) : RLX_ERR_INPUT;\n"
               "        if (status != RLX_OK) {\n"
               "            ctx->n_fed = given == RLX_FEEDING ? given : 0;\n"
               "            return status;\n"
               "        }\n"
               "    } else if (given != %lldu) {\n"
               "        return RLX_ERR_INPUT;\n"
               "    }\n"
               "    ctx->n_fed = RLX_FEEDING;\n",
               (long long)r->n_rows, (long long)r->n_rows);
    emit_range(e, r->kernel + 1, e->plan->kernels.len, places, out);
    str_add(out, "    ctx->n_fed = 0;\n");
    emit_end(e, out);
    str_add(out, "    return RLX_OK;\n}\n\n");
}

// --- several threads -------------------------------------------------------------------------------

// What a thread runs without waiting for others; the checks are a segment of their own, without kernels.
typedef struct Segment {
    uint32_t begin, end;
    uint32_t phase; // of a kernel that is cut
    bool waits;     // for what other threads did before
    bool is_whole;  // by one thread where threads cannot wait for each other in the middle of it
} Segment;
typedef VEC(Segment) Segments;

static bool has_barrier(const Kernel *k)
{
    for (KRef r = 1; r < k->insts.len; r++)
        if (k_inst(k, r)->kind == KI_barrier)
            return true;
    return false;
}

// Kernels, or phases of them, in which threads wait for each other.
static bool meets_inside(const PlanKernel *k, uint32_t phase)
{
    if (!k->threads.is_shared || k->loop != NULL)
        return k->threads.is_shared;
    rlx_assert(phase == 0 || phase < k->threads.phases.len);
    return has_barrier(k->threads.phases.len != 0 ? k->threads.phases.data[phase].kernel : k->kernel);
}

static bool stands_alone(const PlanKernel *k)
{
    return k->threads.phases.len != 0 || meets_inside(k, 0);
}

// Appends the segments of kernels [begin, end). Kernels with barriers are segments of their own, one for each
// phase: where one thread runs all of it, other parts of the same segment must not come before or behind it.
static void cut(const Plan *p, uint32_t begin, uint32_t end, bool waits, Segments *out)
{
    rlx_assert(begin <= end && end <= p->kernels.len);
    for (uint32_t i = begin; i < end; i++) {
        const PlanKernel *k = &p->kernels.data[i];
        Segment next = {i, i, .waits = k->threads.waits || (waits && i == begin), .is_whole = true};
        do {
            if (next.phase != 0 || i == begin || k->threads.waits || stands_alone(k) || stands_alone(k - 1))
                vec_push(p->arena, out, next);
            Segment *s = &out->data[out->len - 1];
            s->end = i + 1;
            s->is_whole = s->is_whole &&
                          (meets_inside(k, next.phase) || (!k->threads.is_shared && k->threads.thread == 0));
            next.waits = true;
        } while (++next.phase < k->threads.phases.len);
    }
}

static Segments find_segments(const Plan *p)
{
    Segments s = {0};
    const bool has_checks = p->checks.len != 0;
    const uint32_t checked = first_unchecked(p);
    const Segment checks = {checked, checked, .waits = true, .is_whole = true};
    cut(p, p->prepare.n_kernels, checked, false, &s);
    if (has_checks)
        vec_push(p->arena, &s, checks);
    // All have read the checks before one of them uses the memory again.
    cut(p, checked, p->kernels.len, has_checks, &s);
    if (s.len == 0) // all is prepared: a test of no checks
        vec_push(p->arena, &s, checks);
    return s;
}

static void emit_part(const HostEmit *e, const char *name, const Segments *s, Str *out)
{
    rlx_assert(s->len != 0);
    const bool laps = e->options->has_profile;
    str_printf(out, "static rlx_status %s_part%s(rlx_ctx *ctx, rlx_team *team, uint32_t segment)\n{\n", name,
               e->suffix);
    const char *const *places = emit_places(e, s->data[0].begin, s->data[s->len - 1].end, out);
    emit_names(e, s->data[0].begin, s->data[s->len - 1].end, out);
    if (s->data[0].begin == s->data[s->len - 1].end)
        str_add(out, "    (void)team;\n");
    if (laps)
        str_add(out, "    const rlx_profile *const profile = team->part != 0 ? NULL : ctx->profile;\n"
                     "    uint64_t time = rlx_lap_begin(profile);\n");
    str_add(out, "    switch (segment) {\n");
    for (uint32_t i = 0; i < s->len; i++) {
        const Segment g = s->data[i];
        str_printf(out, "    case %u:\n", i);
        const HostCalls calls = {g.begin, g.end, g.phase, laps, .is_segment = true, .places = places};
        host_print_calls(e->plan, calls, "        ", out);
        str_add(out, g.begin < g.end ? "        break;\n" : "        return rlx_test_checks(ctx);\n");
    }
    str_printf(out, "    }\n%s    return RLX_OK;\n}\n\n", laps ? "    (void)time;\n" : "");
}

// NAME_part, and a schedule of it.
static void emit_schedule(const HostEmit *e, const char *name, const char *schedule, const char *segments,
                          const Segments *s, Str *out)
{
    emit_part(e, name, s, out);
    str_printf(out, "static const unsigned char %s%s[] = {", segments, e->suffix);
    for (uint32_t i = 0; i < s->len; i++)
        str_printf(out, "%s%d",
                   i == 0        ? ""
                   : i % 32 == 0 ? ",\n    "
                                 : ", ",
                   s->data[i].waits + 2 * s->data[i].is_whole); // RLX_WAITS, RLX_WHOLE
    str_printf(out, "};\nstatic const rlx_schedule %s%s = {%s_part%s, %s%s, %uu};\n\n", schedule, e->suffix,
               name, e->suffix, segments, e->suffix, s->len);
}

// As emit_preparation: a schedule of its own, after which one thread marks what was prepared.
static void emit_shared_preparation(const HostEmit *e, const char *run, Str *out)
{
    open_preparation(e->plan, "ctx->state", out);
    str_printf(out,
               "        const rlx_status prepared = %s(ctx, &preparation%s);\n"
               "        if (prepared != RLX_OK)\n            return prepared;\n",
               run, e->suffix);
    close_preparation(e->plan, "ctx->state", out);
}

static void emit_shared(const HostEmit *e, bool has_matrix, Str *out)
{
    const Segments s = find_segments(e->plan);
    const char *run = host_has_pool(e) ? "rlx_threads_run" : "rlx_parallel_run";
    Segments first = {0};
    cut(e->plan, 0, e->plan->prepare.n_kernels, false, &first);
    if (first.len != 0)
        emit_schedule(e, "prepare", "preparation", "first_segments", &first, out);
    emit_schedule(e, "dispatch", "schedule", "segments", &s, out);
    str_printf(out, "static rlx_status dispatch%s(rlx_ctx *ctx)\n{\n", e->suffix);
    emit_conditions(e, has_matrix, out);
    if (e->plan->probe != 0)
        str_add(out, "    rlx_probe(0u);\n");
    if (first.len != 0)
        emit_shared_preparation(e, run, out);
    if (!e->options->has_profile && e->plan->experts.layers.len == 0) {
        str_printf(out, "    return %s(ctx, &schedule%s);\n}\n\n", run, e->suffix);
        return;
    }
    str_printf(out, "    const rlx_status status = %s(ctx, &schedule%s);\n", run, e->suffix);
    if (e->options->has_profile)
        str_add(out, "    if (ctx->profile != NULL && status == RLX_OK)\n        ctx->profile->runs++;\n");
    if (e->plan->experts.layers.len != 0)
        str_add(out, "    if (status == RLX_OK)\n        rlx_moe_note(ctx);\n");
    str_add(out, "    return status;\n}\n\n");
}

void host_emit_dispatch(const HostEmit *e, Str *out)
{
    rlx_assert(e->plan->prepare.n_kernels <= e->plan->kernels.len);
    rlx_assert(e->plan->n_check_kernels <= e->plan->kernels.len);
    bool has_matrix = false;
    plan_walk(e->plan, find_matrix, &has_matrix);
    if (e->plan->rows.input != 0) {
        rlx_assert(!e->plan->is_shared && e->plan->rows.kernel >= first_unchecked(e->plan));
        emit_take(e, has_matrix, out);
        emit_rest(e, out);
    } else if (e->plan->is_shared)
        emit_shared(e, has_matrix, out);
    else
        emit_alone(e, has_matrix, out);
}
