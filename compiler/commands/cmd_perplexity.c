// SPDX-License-Identifier: Apache-2.0
// rlxc perplexity: how well a language model predicts a text. Each token is judged by the logits of the run
// before it.
#include "compiler/cli/cli.h"
#include "compiler/commands/speaker.h"
#include "compiler/quantize/importance.h"
#include "compiler/system/rawfile.h"
#include "runtime-lite/text/rlx_tokens.h"
#include <math.h>
#include <string.h>

typedef struct Score {
    int64_t n;  // tokens that were predicted
    double sum; // of minus the logarithms of their probabilities
    VEC(ImportanceSums) factors; // with --imatrix-out
} Score;

// --- what the columns of weights are multiplied by -----------------------------------------------

static void find_factors(Speaker *s, Score *score)
{
    Cli *c = s->job->cli;
    for (uint32_t i = 0; c->options.imatrix_out != NULL && i < s->job->plan->outputs.len; i++) {
        const PlanIo *io = &s->job->plan->outputs.data[i];
        if (!str_ends_with(io->name, LLM_SUMS))
            continue;
        const size_t n = strlen(io->name) - strlen(LLM_SUMS);
        const uint64_t k = (uint64_t)io->dim[0];
        const ImportanceSums sums = {.tensor = arena_strndup(c->arena, io->name, n),
                                     .output = i,
                                     .k = k,
                                     .sum = ARENA_ARRAY(c->arena, double, k)};
        vec_push(c->arena, &score->factors, sums);
    }
}

static void add_factors(const Speaker *s, Score *score)
{
    for (uint32_t i = 0; i < score->factors.len; i++) {
        ImportanceSums *f = &score->factors.data[i];
        const float *v = s->output[f->output].data;
        for (uint64_t k = 0; k < f->k; k++)
            f->sum[k] += (double)v[k];
        f->count++;
    }
}

// --- tokens --------------------------------------------------------------------------------------

static bool read_tokens(Cli *c, const Speaker *s, VocabTokens *out)
{
    RawFile file;
    const char *path = c->options.judged_text;
    if (path == NULL)
        return diag_error(c->diag, (Span){0}, E0003, "expected a text: --text FILE");
    return rawfile_open(c->arena, c->diag, (Span){0}, path, &file) &&
           vocab_cut(c->arena, c->diag, &s->vocab, (VocabText){file.data, file.len}, RLX_TOKENS_FRAME, out) &&
           (out->n >= 2 ||
            diag_error(c->diag, (Span){0}, E0003, "--text %s: the text has %zu tokens, and two are needed",
                       path, out->n));
}

// The tokens of a window, of which the first one is given. False: reported.
static bool judge(Speaker *s, const VocabTokens *window, const VocabTokens *all, Score *score)
{
    Cli *c = s->job->cli;
    memcpy(s->token, window->token, window->n * sizeof *window->token);
    s->n_fed = 0;
    for (size_t i = 0; i + 1 < window->n; i++) {
        s->n = (int64_t)i + 1;
        cli_progress_step("tokens", (uint64_t)score->n, all->n);
        if (!speaker_feed(s))
            return false;
        add_factors(s, score);
        const float *logits = speaker_logits(s);
        const double loss =
            (double)rlx_log_sum(logits, s->vocab.n_tokens) - (double)logits[window->token[i + 1]];
        if (!isfinite(loss))
            return diag_error(c->diag, (Span){0}, E0402, "the logits of token %zu are not all finite", i);
        score->sum += loss;
        score->n++;
    }
    return true;
}

// The text in windows of the context, each on its own.
static bool judge_all(Speaker *s, const VocabTokens *all, Score *score)
{
    const size_t most = (size_t)s->context;
    for (size_t at = 0; at + 1 < all->n; at += most) {
        const VocabTokens window = {all->token + at, all->n - at < most ? all->n - at : most};
        if (!judge(s, &window, all, score))
            return false;
    }
    return score->n != 0 ||
           diag_error(s->job->cli->diag, (Span){0}, E0003, "--context: at least two tokens are needed");
}

static void print_score(const Cli *c, const Speaker *s, const Score *score)
{
    Str mean = str_new(c->arena), value = str_new(c->arena);
    str_f64(&mean, score->sum / (double)score->n);
    str_f64(&value, exp(score->sum / (double)score->n));
    if (c->options.json != NULL)
        printf("{\n  \"name\": \"%s\",\n  \"tokens\": %lld,\n  \"loss\": %s,\n  \"perplexity\": %s\n}\n",
               s->job->host.name, (long long)score->n, str_text(&mean), str_text(&value));
    else
        printf("perplexity %.4f, loss %.5f a token, %lld tokens in windows of %lld\n",
               exp(score->sum / (double)score->n), score->sum / (double)score->n, (long long)score->n,
               (long long)s->context);
}

static bool write_factors(const Cli *c, const Score *score)
{
    return c->options.imatrix_out == NULL ||
           importance_write(c->arena, c->diag, c->options.imatrix_out, c->options.judged_text,
                            score->factors.data, score->factors.len);
}

ExitCode cmd_perplexity(Cli *c)
{
    Job j;
    Speaker s = {.job = &j};
    VocabTokens all;
    Score score = {0};
    if (c->options.args.len != 1) {
        diag_error(c->diag, (Span){0}, E0003, "expected one file: a language model");
        return cli_fail(c);
    }
    if (!speaker_open(&s, c, "perplexity") || !read_tokens(c, &s, &all))
        return cli_fail(c);
    find_factors(&s, &score);
    if (!judge_all(&s, &all, &score) || !write_factors(c, &score))
        return cli_fail(c);
    cli_progress_end();
    diag_print(c->diag, stderr, c->style);
    print_score(c, &s, &score);
    native_close(&s.native);
    return EXIT_OK;
}
