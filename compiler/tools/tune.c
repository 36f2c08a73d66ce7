// SPDX-License-Identifier: Apache-2.0
// See tune.h.
#include "compiler/tools/tune.h"
#include "compiler/system/clock.h"
#include "compiler/system/interrupt.h"
#include "compiler/system/libraries.h"
#include "compiler/native/native.h"
#include "runtime-lite/rlx_profile.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// MAX_ON_GPU: of variants, with the candidates that are cheapest by the estimate. There are up to 150, and
// compiling takes seconds.
enum { MAX_TOGETHER = 6, MIN_ROUNDS = 5, MAX_ROUNDS = 200, WARM_UP = 2, MAX_ON_GPU = 12 };
static const double batch_seconds = 4, worth_it = 0.97;
// The most bytes of weights in all libraries that are loaded together.
static const uint64_t most_weights = (uint64_t)2 << 30, most_gpu_weights = (uint64_t)16 << 30;

// --- questions -----------------------------------------------------------------------------------

static TuneQuestion *find(TuneQuestions *q, const char *question)
{
    for (uint32_t i = 0; i < q->len; i++)
        if (strcmp(q->data[i].question, question) == 0)
            return &q->data[i];
    return NULL;
}

static TuneQuestion *add_question(const Job *j, TuneQuestions *q, const PlanChoice *c)
{
    Arena *a = j->cli->arena;
    TuneQuestion t = {.question = c->question};
    const uint32_t most = j->target->caps.is_gpu ? MAX_ON_GPU : UINT32_MAX;
    for (const char *name = c->others; *name != '\0' && t.candidates.len < most;) {
        const size_t n = strcspn(name, " ");
        if (strlen(c->answer) == n && strncmp(name, c->answer, n) == 0)
            t.given = t.pick = t.candidates.len;
        vec_push(a, &t.candidates, (const char *)arena_strndup(a, name, n));
        name += n + (name[n] == ' ');
    }
    t.time = ARENA_ARRAY(a, double, t.candidates.len);
    vec_push(a, q, t);
    return &q->data[q->len - 1];
}

// Numbers the kernels of a plan, and then those of the loops in it, from *next on.
static void number_kernels(Plan *p, uint32_t *next)
{
    p->probe = 1 + *next;
    *next += p->kernels.len;
    for (uint32_t i = 0; i < p->kernels.len; i++)
        if (p->kernels.data[i].loop != NULL)
            number_kernels(p->kernels.data[i].loop->body, next);
}

// The rows of the table of kernels, in which the body of a loop follows it, by number of a kernel.
static void find_rows(const Plan *p, uint32_t *row, uint32_t *rows)
{
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        rows[p->probe - 1 + i] = (*row)++;
        if (p->kernels.data[i].loop != NULL)
            find_rows(p->kernels.data[i].loop->body, row, rows);
    }
}

static void collect(const Job *j, const Plan *p, const uint32_t *rows, TuneQuestions *q)
{
    for (uint32_t i = 0; i < p->choices.len; i++) {
        const PlanChoice *c = &p->choices.data[i];
        if (strchr(c->others, ' ') == NULL)
            continue;
        TuneQuestion *t = find(q, c->question);
        t = t != NULL ? t : add_question(j, q, c);
        const uint32_t number = p->probe - 1 + c->kernel;
        const uint32_t kernel = j->target->caps.is_gpu ? rows[number] : number;
        if (t->kernels.len == 0 || t->kernels.data[t->kernels.len - 1] != kernel)
            vec_push(j->cli->arena, &t->kernels, kernel);
    }
    for (uint32_t i = 0; i < p->kernels.len; i++)
        if (p->kernels.data[i].loop != NULL)
            collect(j, p->kernels.data[i].loop->body, rows, q);
}

static int by_question(const void *a, const void *b)
{
    return strcmp(((const TuneQuestion *)a)->question, ((const TuneQuestion *)b)->question);
}

TuneQuestions tune_questions(Job *j)
{
    TuneQuestions q = {0};
    uint32_t n = 0, row = 0;
    number_kernels(j->plan, &n);
    uint32_t *rows = ARENA_ARRAY(j->cli->arena, uint32_t, n + 1);
    find_rows(j->plan, &row, rows);
    collect(j, j->plan, rows, &q);
    if (q.len != 0)
        qsort(q.data, q.len, sizeof *q.data, by_question);
    return q;
}

// --- variants ------------------------------------------------------------------------------------

// Variant 0 has the given answers, variant r those r places after them, as far as there are as many.
static uint32_t candidate_of(const TuneQuestion *t, uint32_t variant)
{
    return variant < t->candidates.len ? (t->given + variant) % t->candidates.len : t->given;
}

static bool build_here(Job *j, const TuneQuestions *q, uint32_t variant, const char *dir)
{
    Arena *a = j->cli->arena;
    PlanChoice *answers = ARENA_ARRAY(a, PlanChoice, q->len + 1);
    for (uint32_t i = 0; i < q->len; i++)
        answers[i] = (PlanChoice){.question = q->data[i].question,
                                  .answer = q->data[i].candidates.data[candidate_of(&q->data[i], variant)]};
    j->pipeline.tuned = answers;
    j->pipeline.n_tuned = q->len;
    const char *library = NULL;
    uint32_t n = 0;
    if (!job_plan(j))
        return false;
    if (j->target->caps.is_gpu)
        j->host.has_profile = true;
    else
        number_kernels(j->plan, &n);
    return native_emit(j, NULL) && native_build(j, dir, &library);
}

// In a process of its own: what a compilation takes is given back.
static bool build(Job *j, const TuneQuestions *q, uint32_t variant, const char *dir)
{
    fflush(stdout);
    fflush(stderr);
    const pid_t child = interrupt_fork();
    if (child == 0) {
        Job copy = *j;
        const bool ok = build_here(&copy, q, variant, dir);
        if (!ok)
            cli_fail(j->cli);
        _exit(ok ? 0 : 1);
    }
    const int status = child < 0 ? -1 : interrupt_wait(child);
    if (interrupt_came())
        return false;
    if (status == -1 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return diag_error(j->cli->diag, (Span){0}, E0005, "a variant of the model could not be built");
    return true;
}

// --- clocks --------------------------------------------------------------------------------------

// Where the kernels of the current run report their times, by number.
static double *running;
static uint32_t n_running;
static double last;

// 0: the run begins; k + 1: kernel k has ended.
static void on_probe(unsigned place)
{
    const double now = clock_seconds();
    if (place > 0 && place <= n_running)
        running[place - 1] += now - last;
    last = clock_seconds();
}

typedef struct Variant {
    uint32_t number;
    Native native;
    double *best;        // by kernel, seconds in a whole run
    rlx_profile profile; // on a GPU, which then says how long each kernel took
} Variant;

static uint64_t no_clock(void *user)
{
    (void)user;
    return 0;
}

static bool run_once(Job *j, Variant *v, const Tensor *inputs, Tensor *outputs, double *scratch)
{
    const bool is_gpu = j->target->caps.is_gpu;
    memset(scratch, 0, n_running * sizeof *scratch);
    running = scratch;
    if (is_gpu)
        rlx_set_device_times(&v->native.ctx, scratch, n_running);
    if (!native_run(j, &v->native, inputs, outputs))
        return false;
    for (uint32_t k = 0; is_gpu && k < n_running; k++)
        scratch[k] *= 1e-9;
    for (uint32_t k = 0; k < n_running; k++)
        if (v->best[k] == 0 || scratch[k] < v->best[k])
            v->best[k] = scratch[k];
    return true;
}

// --- batches -------------------------------------------------------------------------------------

static void start_clock(Job *j, Variant *v)
{
    if (j->target->caps.is_gpu) {
        v->profile.clock = no_clock;
        v->profile.ticks = ARENA_ARRAY(j->cli->arena, uint64_t, n_running + 1);
        rlx_assert(rlx_set_profile(&v->native.ctx, &v->profile) == RLX_OK);
        return;
    }
    void (**probe)(unsigned) = (void (**)(unsigned))dlsym(v->native.library, "rlx_probe");
    rlx_assert(probe != NULL);
    *probe = on_probe;
}

static const char *folder_of(Job *j, const Variant *v, const char *root)
{
    return arena_printf(j->cli->arena, "%s/v%u", root, v->number);
}

static bool load(Job *j, Variant *v, const char *root)
{
    const char *library = arena_printf(j->cli->arena, "%s/%s.so", folder_of(j, v, root), j->host.name);
    if (!native_load(j, library, &v->native))
        return false;
    start_clock(j, v);
    v->best = ARENA_ARRAY(j->cli->arena, double, n_running + 1);
    return true;
}

// Builds all before it loads one: a process that has loaded a GPU's driver must not fork. *loaded: how many
// are to be closed.
static bool prepare(Job *j, const TuneQuestions *q, Variant *v, uint32_t n, uint32_t *loaded,
                    const char *root)
{
    bool ok = true;
    uint32_t built = 0;
    for (; built < n && ok; built++) {
        cli_progress(arena_printf(j->cli->arena, "building variant %u", v[built].number));
        ok = build(j, q, v[built].number, folder_of(j, &v[built], root));
    }
    for (; *loaded < n && ok; (*loaded)++)
        ok = load(j, &v[*loaded], root);
    for (uint32_t i = 0; i < built; i++)
        work_folder_remove_tree(folder_of(j, &v[i], root));
    return ok;
}

static bool take_turns(Job *j, Variant *v, uint32_t n, const Tensor *inputs)
{
    Arena *a = j->cli->arena;
    Tensor *outputs = ARENA_ARRAY(a, Tensor, j->plan->outputs.len + 1);
    double *scratch = ARENA_ARRAY(a, double, n_running + 1);
    const double start = clock_seconds();
    for (int round = 0; round < MAX_ROUNDS; round++) {
        if (round >= MIN_ROUNDS && clock_seconds() - start > batch_seconds)
            break;
        for (uint32_t i = 0; i < n; i++) {
            if (interrupt_came())
                return false;
            if (round == WARM_UP)
                memset(v[i].best, 0, n_running * sizeof *v[i].best);
            if (!run_once(j, &v[i], inputs, outputs, scratch))
                return false;
        }
    }
    return true;
}

static double time_of(const TuneQuestion *t, const Variant *v)
{
    double sum = 0;
    for (uint32_t i = 0; i < t->kernels.len; i++)
        sum += t->kernels.data[i] < n_running ? v->best[t->kernels.data[i]] : 0;
    return sum;
}

// v[0] is the variant with the given answers.
static void compare(TuneQuestions *q, const Variant *v, uint32_t n)
{
    for (uint32_t i = 0; i < q->len; i++) {
        TuneQuestion *t = &q->data[i];
        const double given = time_of(t, &v[0]);
        t->given_us = t->given_us == 0 || given * 1e6 < t->given_us ? given * 1e6 : t->given_us;
        t->time[t->given] = 1;
        for (uint32_t k = 1; k < n && given > 0; k++)
            if (v[k].number < t->candidates.len)
                t->time[candidate_of(t, v[k].number)] = time_of(t, &v[k]) / given;
    }
}

static bool run_batch(Job *j, TuneQuestions *q, uint32_t first, uint32_t n, const Tensor *inputs,
                      const char *root)
{
    Variant v[MAX_ON_GPU] = {0};
    uint32_t loaded = 0;
    for (uint32_t i = 1; i < n; i++)
        v[i].number = first + i - 1;
    bool ok = prepare(j, q, v, n, &loaded, root);
    cli_progress("measuring");
    ok = ok && take_turns(j, v, n, inputs);
    if (ok)
        compare(q, v, n);
    for (uint32_t i = 0; i < loaded; i++)
        native_close(&v[i].native);
    return ok;
}

static void pick(TuneQuestions *q)
{
    for (uint32_t i = 0; i < q->len; i++) {
        TuneQuestion *t = &q->data[i];
        for (uint32_t k = 0; k < t->candidates.len; k++)
            if (t->time[k] > 0 && t->time[k] < worth_it && t->time[k] < t->time[t->pick])
                t->pick = k;
    }
}

static uint32_t count_variants(const TuneQuestions *q)
{
    uint32_t n = 1;
    for (uint32_t i = 0; i < q->len; i++)
        n = q->data[i].candidates.len > n ? q->data[i].candidates.len : n;
    return n;
}

static uint32_t count_together(const Job *j)
{
    const bool is_gpu = j->target->caps.is_gpu;
    const uint32_t most = is_gpu ? MAX_ON_GPU : MAX_TOGETHER;
    const uint64_t fit = (is_gpu ? most_gpu_weights : most_weights) / (plan_weight_bytes(j->plan) + 1);
    return fit >= most ? most : fit < 2 ? 2 : (uint32_t)fit;
}

// On a GPU there is one batch.
bool tune_measure(Job *j, const Tensor *inputs, TuneQuestions *q)
{
    CacheFolder f;
    WorkFolder work;
    const uint32_t together = count_together(j);
    uint32_t n = count_variants(q);
    n = j->target->caps.is_gpu && n > together ? together : n;
    if (!libraries_open(j->cli, &f) || !work_folder_make(j->cli->diag, f.path, &work))
        return false;
    n_running = plan_count_kernels(j->plan);
    bool ok = true;
    for (uint32_t first = 1; first < n && ok; first += together - 1) {
        const uint32_t others = n - first < together - 1 ? n - first : together - 1;
        ok = run_batch(j, q, first, others + 1, inputs, work.path);
    }
    work_folder_remove(&work);
    pick(q);
    return ok;
}
