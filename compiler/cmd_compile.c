// SPDX-License-Identifier: Apache-2.0
// rlxc compile, check, convert: a model in, files out.
#include "compiler/import/import.h"
#include "compiler/interface.h"
#include "compiler/job.h"
#include "compiler/json_text.h"
#include "compiler/output.h"

// The sizes that are set between runs, as a member of the object; nothing where there are none.
static void print_symbols(const Job *j)
{
    const GraphSymbols *s = j->plan->graph->symbols;
    for (uint32_t i = 0; s != NULL && i < s->n; i++)
        printf("%s{\"name\": \"%s\", \"min\": %lld, \"max\": %lld, \"multiple\": %lld, \"first\": %lld}%s",
               i == 0 ? "\"symbols\": [" : ", ", json_text(j->cli->arena, s->symbol[i].name),
               (long long)s->symbol[i].min, (long long)s->symbol[i].max, (long long)s->symbol[i].multiple,
               (long long)s->symbol[i].dflt, i + 1 == s->n ? "],\n  " : "");
}

static void print_json(const Job *j, const char *dir)
{
    Arena *a = j->cli->arena;
    uint64_t macs = 0;
    for (uint32_t i = 0; i < j->plan->kernels.len; i++)
        macs += j->plan->kernels.data[i].macs;
    printf("{\n  \"name\": \"%s\",\n  \"cpu\": \"%s\",\n  \"cc_flags\": \"%s\",\n  \"macs\": %llu,\n",
           json_text(a, j->host.name), j->cpu.name, json_text(a, j->host.cc_flags), (unsigned long long)macs);
    printf("  \"files\": [");
    for (uint32_t i = 0; i < j->emitted.files.len; i++)
        printf("%s\"%s\"", i == 0 ? "" : ", ",
               json_text(a, output_path(a, dir, j->emitted.files.data[i].name)));
    printf("],\n  ");
    print_symbols(j);
    fputs(interface_json(j), stdout);
    printf(",\n  \"arena_bytes\": %zu,\n  \"state_bytes\": %zu,\n  \"weight_bytes\": %zu",
           j->emitted.arena_bytes, j->emitted.state_bytes, j->emitted.weight_bytes);
    if (j->emitted.device_bytes != 0)
        printf(",\n  \"device_bytes\": %zu", j->emitted.device_bytes);
    printf("\n}\n");
}

// How much of the weights all sizes have in common: packings may differ.
static void print_buckets(const PlanBuckets *b)
{
    if (b != NULL)
        printf("%u buckets: %llu bytes of weights serve several, %llu only one\n", b->n,
               (unsigned long long)b->shared_bytes, (unsigned long long)b->single_bytes);
}

ExitCode cmd_compile(Cli *c)
{
    Job j;
    const char *dir = c->options.output != NULL ? c->options.output : ".";
    if (!job_begin(&j, c, "generic", false) || !job_plan(&j))
        return cli_fail(c);
    if (c->options.stop_after != NULL) {
        cli_progress_end();
        return EXIT_OK;
    }
    if (!job_emit(&j) || !job_write(&j, dir))
        return cli_fail(c);
    cli_progress_end();
    diag_print(c->diag, stderr, c->style);
    if (c->options.json != NULL) {
        print_json(&j, dir);
        return EXIT_OK;
    }
    for (uint32_t i = 0; i < j.emitted.files.len; i++)
        printf("wrote %s (%zu bytes)\n", output_path(c->arena, dir, j.emitted.files.data[i].name),
               j.emitted.files.data[i].len);
    printf("arena %llu bytes (lower bound %llu), state %zu, weights %zu, %u kernels\n",
           (unsigned long long)j.plan->region_bytes[REGION_ARENA],
           (unsigned long long)j.plan->arena_lower_bound, j.emitted.state_bytes, j.emitted.weight_bytes,
           plan_count_kernels(j.plan));
    if (j.emitted.device_bytes != 0)
        printf("on the device %zu bytes; the program's arena block %zu\n", j.emitted.device_bytes,
               j.emitted.arena_bytes);
    print_buckets(j.plan->buckets);
    return EXIT_OK;
}

ExitCode cmd_check(Cli *c)
{
    if (c->options.args.len == 0) {
        diag_error(c->diag, (Span){0}, E0003, "expected at least one model file");
        return cli_fail(c);
    }
    bool ok = true;
    for (uint32_t i = 0; i < c->options.args.len; i++) {
        Graph *g = NULL;
        ok = import_model(c->arena, c->diag, c->options.args.data[i], &g) && ok;
    }
    if (!ok)
        return cli_fail(c);
    diag_print(c->diag, stderr, c->style);
    return EXIT_OK;
}

ExitCode cmd_convert(Cli *c)
{
    const Strings *args = &c->options.args;
    Graph *g = NULL;
    if (args->len < 1 || args->len > 2) {
        diag_error(c->diag, (Span){0}, E0003, "expected a model file and, perhaps, the file to write");
        return cli_fail(c);
    }
    const char *to = c->options.output_file != NULL ? c->options.output_file
                     : args->len == 2               ? args->data[1]
                                                    : NULL;
    if (!import_model(c->arena, c->diag, args->data[0], &g))
        return cli_fail(c);
    if (to == NULL) {
        Str text = str_new(c->arena);
        import_print_json(g, &text);
        diag_print(c->diag, stderr, c->style);
        fputs(str_text(&text), stdout);
        return EXIT_OK;
    }
    if (!import_export_json(g, to, c->diag))
        return cli_fail(c);
    diag_print(c->diag, stderr, c->style);
    printf("wrote %s\n", to);
    return EXIT_OK;
}
