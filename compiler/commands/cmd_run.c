// SPDX-License-Identifier: Apache-2.0
// rlxc run and verify: generated code, built, loaded and run; compared with the reference evaluator.
#include "base/map.h"
#include "compiler/commands/cmd_audio.h"
#include "compiler/commands/cmd_prompt.h"
#include "compiler/import/tensors/npy.h"
#include "compiler/job/feeds.h"
#include "compiler/job/interface.h"
#include "compiler/job/language.h"
#include "compiler/job/open_sizes.h"
#include "compiler/native/native.h"
#include "compiler/system/clock.h"
#include "compiler/system/json_text.h"
#include "compiler/system/output.h"
#include "compiler/tools/compare.h"
#include "compiler/tools/reference.h"
#include "compiler/vocab/vocab.h"
#include <math.h>
#include <string.h>

// --- run -----------------------------------------------------------------------------------------

static void add_number(Str *s, const char *before, double v)
{
    str_add(s, before);
    if (isfinite(v))
        str_f64(s, v);
    else
        str_add(s, "null"); // JSON has no such numbers
}

static double sum_of(const Tensor *t, double *low, double *high)
{
    double sum = 0;
    *low = HUGE_VAL;
    *high = -HUGE_VAL;
    for (int64_t i = 0; i < t->numel; i++) {
        const double v = tensor_get_f64(t, i);
        *low = v < *low ? v : *low;
        *high = v > *high ? v : *high;
        sum += v;
    }
    return sum;
}

enum { SHOWN = 6 }; // elements

static void add_output_json(const Job *j, const char *name, const Tensor *t, Str *s)
{
    const bool is_text = interface_text(j, name, true) != NULL;
    rlx_assert(!is_text || t->rank >= 1);
    str_printf(s, "{\"name\": \"%s\", \"element\": \"%s\", \"shape\": [", json_text(j->cli->arena, name),
               is_text ? "string" : dtype_info[t->dtype].name);
    for (uint32_t i = 0; i + is_text < t->rank; i++)
        str_printf(s, "%s%lld", i == 0 ? "" : ", ", (long long)t->dim[i]);
    str_add(s, "]");
    if (!is_text && t->numel > 0) {
        double low, high;
        const double sum = sum_of(t, &low, &high);
        add_number(s, ", \"min\": ", low);
        add_number(s, ", \"max\": ", high);
        add_number(s, ", \"mean\": ", sum / (double)t->numel);
        for (int64_t i = 0; i < t->numel && i < SHOWN; i++)
            add_number(s, i == 0 ? ", \"first\": [" : ", ", tensor_get_f64(t, i));
        str_add(s, "]");
    }
    str_add(s, "}");
}

static void print_strings(const char *name, const Tensor *t)
{
    rlx_assert(t->rank >= 1);
    printf("%s: string[", name);
    for (uint32_t i = 0; i + 1 < t->rank; i++)
        printf("%s%lld", i == 0 ? "" : ", ", (long long)t->dim[i]);
    printf("]");
    interface_print_text(t);
    printf("\n");
}

static void print_summary(const char *name, const Tensor *t)
{
    double low, high;
    const double sum = sum_of(t, &low, &high);
    printf("%s: %s[", name, dtype_info[t->dtype].name);
    for (uint32_t i = 0; i < t->rank; i++)
        printf("%s%lld", i == 0 ? "" : ", ", (long long)t->dim[i]);
    printf("]");
    if (t->numel > 0)
        printf(" min %.6g max %.6g mean %.6g, first", low, high, sum / (double)t->numel);
    for (int64_t i = 0; i < t->numel && i < SHOWN; i++)
        printf(" %.6g", tensor_get_f64(t, i));
    printf("\n");
}

static void print_output(const Job *j, const char *name, const Tensor *t)
{
    if (interface_text(j, name, true) != NULL)
        print_strings(name, t);
    else
        print_summary(name, t);
}

// Two outputs whose names differ in such a character only would overwrite each other.
static bool check_file_names(Job *j)
{
    Map seen = {0};
    for (uint32_t i = 0; i < j->plan->outputs.len; i++) {
        const char *file = output_npy_name(j->cli->arena, j->plan->outputs.data[i].name);
        uint64_t other = 0;
        if (map_get(&seen, file, strlen(file), &other))
            return diag_error(j->cli->diag, (Span){0}, E0002,
                              "outputs '%s' and '%s' would both be written to %s",
                              j->plan->outputs.data[other].name, j->plan->outputs.data[i].name, file);
        map_put(j->cli->arena, &seen, file, strlen(file), i);
    }
    return true;
}

static bool write_output(Job *j, const char *dir, const char *name, const Tensor *t)
{
    const char *path = output_path(j->cli->arena, dir, output_npy_name(j->cli->arena, name));
    return interface_text(j, name, true) != NULL ? npy_write_text(j->cli->diag, path, t)
                                                 : npy_write(j->cli->diag, path, t);
}

static bool write_outputs(Job *j, const Tensor *outputs)
{
    const char *dir = j->cli->options.output_dir;
    if (dir == NULL)
        return true;
    if (!check_file_names(j) || !output_make_dir(j->cli->diag, dir))
        return false;
    for (uint32_t i = 0; i < j->plan->outputs.len; i++)
        if (!write_output(j, dir, j->plan->outputs.data[i].name, &outputs[i]))
            return false;
    return true;
}

// What a run is given and gives.
typedef struct Feed {
    const char *seed; // NULL: all inputs are given
    const char *text; // of a model that makes a vector of it; NULL: the inputs are tensors
    int64_t *sizes;   // of symbols
    Tensor *inputs, *outputs;
    bool is_verified;
    Graph *reference; // of verify, the graph as imported: planning changes the one of the job
    Str json;         // of verify: what was compared
} Feed;

// The tokens of a text as the one input of a model that makes a vector of it.
static bool feed_text(Job *j, Feed *f)
{
    rlx_vocab v;
    VocabTokens tokens;
    LanguageSizes sizes;
    Cli *c = j->cli;
    if (!language_embeds(j, &sizes))
        return diag_error(c->diag, (Span){0}, E0003, "--prompt: expected a model whose size T is open");
    if (!vocab_open(c->arena, c->diag, j->model, &v) ||
        !vocab_cut(c->arena, c->diag, &v, (VocabText){f->text, strlen(f->text)}, RLX_TOKENS_FRAME, &tokens))
        return false;
    if (tokens.n == 0 || (int64_t)tokens.n > sizes.most_rows)
        return diag_error(c->diag, (Span){0}, E0003, "--prompt: the text has %zu tokens; expected 1 to %lld",
                          tokens.n, (long long)sizes.most_rows);
    int64_t *data = ARENA_ARRAY(c->arena, int64_t, tokens.n);
    for (size_t i = 0; i < tokens.n; i++)
        data[i] = tokens.token[i];
    f->inputs = ARENA_NEW(c->arena, Tensor);
    *f->inputs = (Tensor){.dtype = DTYPE_i64, .rank = 1, .dim = {(int64_t)tokens.n}, .data = data};
    f->inputs->numel = (int64_t)tokens.n;
    f->sizes[sizes.rows] = (int64_t)tokens.n;
    return true;
}

// Up to a loaded library, with the inputs of a run.
static bool prepare(Job *j, Cli *c, Feed *f, Native *n)
{
    if (!job_begin(j, c, "native", f->seed == NULL && f->text == NULL) || !native_check_cpu(j))
        return false;
    if (f->is_verified)
        f->reference = reference_graph(j);
    if (!job_plan(j))
        return false;
    f->sizes = ARENA_ARRAY(c->arena, int64_t, open_sizes_count(j) + 1);
    f->outputs = ARENA_ARRAY(c->arena, Tensor, j->plan->outputs.len + 1);
    const bool is_fed = f->text != NULL
                            ? feed_text(j, f)
                            : open_sizes_given(j, f->sizes) && feeds_read(j, f->seed, f->sizes, &f->inputs);
    return is_fed && native_emit(j, c->options.keep) && native_open(j, c->options.keep, n);
}

static const char *where(const Job *j)
{
    if (j->is_on_cpu)
        return "the CPU, which executes Metal text";
    return j->target->caps.is_gpu ? j->target->name : j->cpu.name;
}

static void print_run(Job *j, const Tensor *outputs, double ms)
{
    const unsigned long long arena = (unsigned long long)j->plan->region_bytes[REGION_ARENA];
    Str json = str_new(j->cli->arena);
    for (uint32_t i = 0; i < j->plan->outputs.len; i++) {
        const char *name = j->plan->outputs.data[i].name;
        str_add(&json, i == 0 ? "\n    " : ",\n    ");
        if (j->cli->options.json != NULL)
            add_output_json(j, name, &outputs[i], &json);
        else
            print_output(j, name, &outputs[i]);
    }
    if (j->cli->options.json != NULL)
        printf("{\n  \"name\": \"%s\",\n  \"device\": \"%s\",\n  \"ms\": %.3f,\n"
               "  \"arena_bytes\": %llu,\n  \"outputs\": [%s\n  ]\n}\n",
               j->host.name, where(j), ms, arena, str_text(&json));
    else
        printf("%s on %s: %.3f ms (one run, not warmed up), arena %llu bytes\n", j->host.name, where(j), ms,
               arena);
}

ExitCode cmd_run(Cli *c)
{
    Job j;
    Native n = {0};
    Feed f = {.seed = c->options.random};
    bool has_prompt;
    if (!cmd_prompt_is_asked(c, &has_prompt))
        return cli_fail(c);
    if (c->options.audio != NULL)
        return cmd_run_audio(c);
    if (has_prompt && (c->options.args.len != 1 || !language_is_encoder(c->arena, c->options.args.data[0])))
        return cmd_run_prompt(c);
    f.text = c->options.prompt;
    if (!prepare(&j, c, &f, &n) || !native_set_sizes(&j, &n, f.sizes))
        return cli_fail(c);
    const double start = clock_seconds();
    if (!native_run(&j, &n, f.inputs, f.outputs) || !write_outputs(&j, f.outputs))
        return cli_fail(c);
    const double ms = (clock_seconds() - start) * 1e3;
    cli_progress_end();
    diag_print(c->diag, stderr, c->style);
    print_run(&j, f.outputs, ms);
    native_close(&n);
    return EXIT_OK;
}

// --- verify --------------------------------------------------------------------------------------

static bool has_convolutions(const Graph *g) // Sub-graphs nest at most GRAPH_MAX_DEPTH deep.
{
    for (NodeId id = 1; id < g->nodes.len; id++) {
        const Node *n = graph_node(g, id);
        if (op_info[n->op].steps == OPSTEPS_FILTER && dtype_info[n->dtype].cls == DCLASS_FLOAT)
            return true;
        for (uint32_t i = 0; i < n->n_attr; i++)
            if (attr_info[n->attr[i].id].type == ATTR_GRAPH && has_convolutions(n->attr[i].u.graph))
                return true;
    }
    return false;
}

// What --accuracy says, where it is about this model.
static const char *asked_text(const Job *j, const Graph *imported)
{
    return has_convolutions(imported)
               ? arena_printf(j->cli->arena, "; convolutions were asked for %.3g", j->pipeline.accuracy)
               : "";
}

static bool report(Job *j, Feed *f, uint32_t slot, const Tensor *want, double given)
{
    rlx_assert(slot < j->plan->outputs.len && f->reference != NULL);
    const char *name = j->plan->outputs.data[slot].name, *sizes = open_sizes_text(j, f->sizes);
    const Tensor *got = &f->outputs[slot];
    if (!compare_shapes(got, want))
        return diag_error(j->cli->diag, (Span){0}, E0401,
                          "output '%s' has another shape than the reference%s", name, sizes);
    const double tolerance = given >= 0 ? given : compare_tolerance(want->dtype);
    const Difference d = compare_tensors(got, want);
    const bool ok = compare_is_ok(&d, tolerance);
    if (j->cli->options.json != NULL) {
        Str *s = &f->json;
        str_printf(s, "%s\n    {\"output\": \"%s\", \"sizes\": {", s->len == 0 ? "" : ",",
                   json_text(j->cli->arena, name));
        for (uint32_t i = 0; i < open_sizes_count(j); i++)
            str_printf(s, "%s\"%s\": %lld", i == 0 ? "" : ", ",
                       json_text(j->cli->arena, j->plan->graph->symbols->symbol[i].name),
                       (long long)f->sizes[i]);
        add_number(s, "}, \"accuracy\": ", j->pipeline.accuracy);
        add_number(s, ", \"max_error\": ", d.error);
        add_number(s, ", \"max_magnitude\": ", d.largest);
        add_number(s, ", \"relative_error\": ", d.relative);
        add_number(s, ", \"tolerance\": ", tolerance);
        str_printf(s, ", \"ok\": %s}", ok ? "true" : "false");
    } else
        printf("%s%s: largest error %.3g of magnitude %.6g (relative %.3g%s): %s\n", name, sizes, d.error,
               d.largest, d.relative, asked_text(j, f->reference), ok ? "ok" : "DIFFERS");
    if (!ok)
        diag_error(j->cli->diag, (Span){0}, E0401,
                   "output '%s'%s element %lld: generated %.9g, reference %.9g", name, sizes, (long long)d.at,
                   tensor_get_f64(got, d.at), tensor_get_f64(want, d.at));
    return ok;
}

// One run from the initial states. is_run false: it could not be made.
static bool verify_once(Job *j, Native *n, Feed *f, double tolerance, bool *is_run)
{
    Tensor *want = NULL;
    bool ok = true;
    *is_run = rlx_reset(&n->ctx) == RLX_OK && native_set_sizes(j, n, f->sizes) &&
              native_run(j, n, f->inputs, f->outputs) &&
              reference_outputs(j, f->reference, f->sizes, f->inputs, &want);
    if (!*is_run)
        return false;
    cli_progress_end();
    for (uint32_t i = 0; i < j->plan->outputs.len; i++)
        ok = report(j, f, i, &want[i], tolerance) && ok;
    return ok;
}

// The sizes of the given inputs, or several where the model has sizes that are set between runs.
static bool verify_sizes(Job *j, Native *n, Feed *f, double tolerance, bool *is_run)
{
    bool ok = true;
    *is_run = true;
    if (j->cli->options.inputs.len != 0)
        return verify_once(j, n, f, tolerance, is_run);
    for (uint32_t round = 0; *is_run && open_sizes_try(j, round, f->sizes); round++) {
        *is_run = feeds_read(j, f->seed, f->sizes, &f->inputs);
        ok = *is_run && verify_once(j, n, f, tolerance, is_run) && ok;
    }
    return ok;
}

static void print_verified(const Job *j, const Feed *f, bool ok)
{
    printf("{\n  \"ok\": %s,\n  \"device\": \"%s\",\n  \"outputs\": [%s\n  ]\n}\n", ok ? "true" : "false",
           where(j), str_text(&f->json));
}

ExitCode cmd_verify(Cli *c)
{
    Job j;
    Native n = {0};
    Feed f = {.seed = c->options.random != NULL ? c->options.random : "1",
              .is_verified = true,
              .json = str_new(c->arena)};
    bool is_run = false;
    double tolerance = -1;
    if (!compare_read_tolerance(c->diag, c->options.tolerance, &tolerance))
        return cli_fail(c);
    if (!prepare(&j, c, &f, &n))
        return cli_fail(c);
    if (j.is_on_cpu && c->options.json == NULL)
        printf("Metal text executed on the CPU\n");
    const bool ok = verify_sizes(&j, &n, &f, tolerance, &is_run);
    if (!is_run)
        return cli_fail(c);
    if (c->options.json != NULL)
        print_verified(&j, &f, ok);
    diag_print(c->diag, stderr, c->style);
    native_close(&n);
    return ok ? EXIT_OK : EXIT_WRONG;
}
