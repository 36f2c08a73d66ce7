// SPDX-License-Identifier: Apache-2.0
// rlxc quantize: a language model with weights in blocks.
#include "compiler/cli/cli.h"
#include "compiler/quantize/quantize.h"

static void show_progress(uint64_t done, uint64_t total)
{
    cli_progress_step("bytes", done, total);
}

static bool read_options(Cli *c, QuantizeJob *j)
{
    const Options *o = &c->options;
    if (o->args.len != 1)
        return diag_error(c->diag, (Span){0}, E0003, "expected one file: a language model, NAME.gguf");
    if (o->quant_output == NULL)
        return diag_error(c->diag, (Span){0}, E0003, "expected a file to write: -o FILE");
    if (o->quant_type == NULL)
        return diag_error(c->diag, (Span){0}, E0003, "expected a type for the weights: --type and one of %s",
                          quantize_mix_names(c->arena));
    j->from = o->args.data[0];
    j->to = o->quant_output;
    j->mix = quantize_mix(o->quant_type);
    return j->mix != NULL || diag_error(c->diag, (Span){0}, E0003, "--type %s: expected one of %s",
                                        o->quant_type, quantize_mix_names(c->arena));
}

static void print_json(Cli *c, const QuantizeReport *r)
{
    printf("{\n  \"bytes_before\": %llu,\n  \"bytes\": %llu,\n  \"weighted\": %llu,\n  \"types\": [\n",
           (unsigned long long)r->bytes_before, (unsigned long long)r->bytes,
           (unsigned long long)r->weighted);
    for (uint32_t i = 0; i < r->sums.len; i++) {
        const QuantizeSum *s = &r->sums.data[i];
        Str rmse = str_new(c->arena), relative = str_new(c->arena);
        str_f64(&rmse, quantize_rmse(s));
        str_f64(&relative, quantize_relative(s));
        printf("    {\"type\": \"%s\", \"tensors\": %llu, \"bytes\": %llu, ", s->type->name,
               (unsigned long long)s->tensors, (unsigned long long)s->bytes);
        printf("\"rmse\": %s, \"relative\": %s}%s\n", str_text(&rmse), str_text(&relative),
               i + 1 < r->sums.len ? "," : "");
    }
    printf("  ]\n}\n");
}

static void print_report(const QuantizeJob *j, const QuantizeReport *r)
{
    for (uint32_t i = 0; i < r->sums.len; i++) {
        const QuantizeSum *s = &r->sums.data[i];
        printf("%-7s %5llu tensors %11.2f MB", s->type->name, (unsigned long long)s->tensors,
               (double)s->bytes * 1e-6);
        if (s->elements != 0)
            printf("   rmse %.3e (%.3f %% of the numbers')", quantize_rmse(s), 100 * quantize_relative(s));
        printf("\n");
    }
    printf("wrote %s, %.2f MB of weights instead of %.2f MB", j->to, (double)r->bytes * 1e-6,
           (double)r->bytes_before * 1e-6);
    if (j->importance != NULL)
        printf(", %llu tensors by importance", (unsigned long long)r->weighted);
    printf("\n");
}

ExitCode cmd_quantize(Cli *c)
{
    QuantizeJob j = {.arena = c->arena, .diag = c->diag, .progress = show_progress};
    QuantizeReport report;
    Importance importance;
    if (!read_options(c, &j))
        return cli_fail(c);
    if (c->options.imatrix != NULL) {
        if (!importance_open(c->arena, c->diag, c->options.imatrix, &importance))
            return cli_fail(c);
        j.importance = &importance;
    }
    if (!quantize_file(&j, &report))
        return cli_fail(c);
    cli_progress_end();
    diag_print(c->diag, stderr, c->style);
    if (c->options.json != NULL)
        print_json(c, &report);
    else
        print_report(&j, &report);
    return EXIT_OK;
}
