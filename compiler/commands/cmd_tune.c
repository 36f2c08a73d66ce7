// SPDX-License-Identifier: Apache-2.0
// rlxc tune: measures the choices of a model on this machine and writes what --tune reads.
#include "compiler/job/feeds.h"
#include "compiler/system/json_text.h"
#include "compiler/native/native.h"
#include "compiler/job/open_sizes.h"
#include "compiler/system/output.h"
#include "compiler/tools/tune.h"
#include "compiler/job/tune_file.h"
#include <string.h>

static void print_json(const Job *j, const TuneQuestions *q, const char *path)
{
    Arena *a = j->cli->arena;
    printf("{\n  \"file\": \"%s\",\n  \"cpu\": \"%s\",\n", json_text(a, path), j->cpu.name);
    if (j->target->caps.is_gpu)
        printf("  \"gpu\": \"%s\",\n", j->nvrtc.gpus.name[0]);
    printf("  \"choices\": [");
    for (uint32_t i = 0; i < q->len; i++) {
        const TuneQuestion *t = &q->data[i];
        printf("%s\n    {\"question\": \"%s\", \"answer\": \"%s\", \"estimated\": \"%s\", \"us\": %.3f, "
               "\"times\": {",
               i == 0 ? "" : ",", json_text(a, t->question), json_text(a, t->candidates.data[t->pick]),
               json_text(a, t->candidates.data[t->given]), t->given_us * t->time[t->pick]);
        for (uint32_t k = 0; k < t->candidates.len; k++)
            printf("%s\"%s\": %.4f", k == 0 ? "" : ", ", json_text(a, t->candidates.data[k]), t->time[k]);
        printf("}}");
    }
    printf("\n  ]\n}\n");
}

static void print_text(const TuneQuestions *q, const char *path)
{
    uint32_t n_changed = 0;
    for (uint32_t i = 0; i < q->len; i++) {
        const TuneQuestion *t = &q->data[i];
        rlx_assert(t->pick < t->candidates.len && t->given < t->candidates.len);
        n_changed += t->pick != t->given;
        printf("%9.1f us  %s: %s", t->given_us, t->question, t->candidates.data[t->given]);
        if (t->pick != t->given)
            printf(" -> %s (%.2f of the time)", t->candidates.data[t->pick], t->time[t->pick]);
        printf("\n");
    }
    printf("wrote %s: %u of %u choices differ from the estimate\n", path, n_changed, q->len);
}

// At the first values of sizes that are set between runs.
static bool measured_inputs(Job *j, const char *seed, Tensor **inputs)
{
    int64_t *sizes = ARENA_ARRAY(j->cli->arena, int64_t, open_sizes_count(j) + 1);
    return open_sizes_given(j, sizes) && feeds_read(j, seed, sizes, inputs);
}

// What is measured is code for one place: this machine, or its GPU.
static bool check_place(Job *j)
{
    if (!j->target->caps.is_gpu)
        return native_check_cpu(j);
    if (j->target->device != DEVICE_CUDA || j->fallback != NULL)
        return diag_error(j->cli->diag, (Span){0}, E0003, "tune does not work with --target %s",
                          j->cli->options.target);
    return j->nvrtc.gpus.n == 1 ||
           diag_error(j->cli->diag, (Span){0}, E0003,
                      "tune: --gpu must name the one GPU to measure on, such as sm_90a");
}

static bool tune(Job *j, TuneQuestions *q, const char *path)
{
    Tensor *inputs = NULL;
    const char *seed = j->cli->options.random != NULL ? j->cli->options.random : "1";
    if (!check_place(j))
        return false;
    TuneFile file = {.place = job_tune_place(j, 0)};
    if (!job_plan(j) || !measured_inputs(j, seed, &inputs))
        return false;
    *q = tune_questions(j);
    if (!tune_measure(j, inputs, q))
        return false;
    for (uint32_t i = 0; i < q->len; i++) {
        const TuneQuestion *t = &q->data[i];
        rlx_assert(t->pick < t->candidates.len);
        const PlanChoice c = {.question = t->question, .answer = t->candidates.data[t->pick]};
        vec_push(j->cli->arena, &file.choices, c);
    }
    return tune_file_write(j->cli->diag, path, &file);
}

ExitCode cmd_tune(Cli *c)
{
    Job j;
    TuneQuestions q = {0};
    if (!job_begin(&j, c, "native", false))
        return cli_fail(c);
    const char *path = c->options.output_file != NULL
                           ? c->options.output_file
                           : arena_printf(c->arena, "%s.tune", output_stem(c->arena, j.model));
    if (!tune(&j, &q, path))
        return cli_fail(c);
    cli_progress_end();
    diag_print(c->diag, stderr, c->style);
    if (c->options.json != NULL)
        print_json(&j, &q, path);
    else
        print_text(&q, path);
    return EXIT_OK;
}
