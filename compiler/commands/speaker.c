// SPDX-License-Identifier: Apache-2.0
// See speaker.h.
#include "compiler/commands/speaker.h"
#include "compiler/commands/drafter.h"
#include "compiler/job/language.h"
#include "compiler/job/open_sizes.h"
#include <stdio.h>
#include <string.h>

// The sizes T and P of the graph of a language model (docs/LLM.md), and its one input and output.
static bool find_sizes(Speaker *s, const char *what)
{
    LanguageSizes sizes;
    if (!language_sizes(s->job, &sizes))
        return diag_error(s->job->cli->diag, (Span){0}, E0003,
                          "%s: expected a language model whose sizes T and P are set between runs, and whose "
                          "first output has the logits of the last token",
                          what);
    s->is_recurrent = !language_has_rows(s->job);
    s->rows = sizes.rows;
    s->past = sizes.past;
    s->most_rows = sizes.most_rows;
    s->context = sizes.context;
    s->logit_rows = sizes.logit_rows;
    s->most_drafts = sizes.drafts;
    return true;
}

// There is a logit for each token.
static bool check_tokens(const Speaker *s, const char *what)
{
    const PlanIo *logits = s->job->plan->outputs.data;
    const int64_t n = logits->dim[logits->rank - 1];
    return n >= (int64_t)s->vocab.n_tokens ||
           diag_error(s->job->cli->diag, (Span){0}, E0003,
                      "%s: the vocabulary has %u tokens, but the model has %lld logits", what,
                      s->vocab.n_tokens, (long long)n);
}

bool speaker_open(Speaker *s, Cli *c, const char *what)
{
    Job *j = s->job;
    if (!job_begin(j, c, "native", false) || !native_check_cpu(j) || !job_plan(j) || !find_sizes(s, what) ||
        !vocab_open(c->arena, c->diag, j->model, &s->vocab) || !check_tokens(s, what))
        return false;
    const size_t bytes = RLX_SAMPLE_BYTES(s->vocab.n_tokens, SPEAKER_LAST);
    s->work = (rlx_work){arena_alloc(c->arena, bytes), bytes};
    s->sizes = ARENA_ARRAY(c->arena, int64_t, open_sizes_count(j));
    s->token = ARENA_ARRAY(c->arena, int32_t, (size_t)s->context);
    s->output = ARENA_ARRAY(c->arena, Tensor, j->plan->outputs.len);
    s->input = (Tensor){.dtype = DTYPE_i64, .rank = 1};
    s->input.data = ARENA_ARRAY(c->arena, int64_t, (size_t)s->most_rows);
    return native_emit(j, c->options.keep) && native_open(j, c->options.keep, &s->native);
}

void speaker_set(Speaker *s, const int32_t *token, int64_t n)
{
    int64_t same = 0;
    rlx_assert(n >= 1 && n <= s->context);
    while (same < n - 1 && same < s->n_fed && s->token[same] == token[same])
        same++;
    if (same < s->n_fed && s->is_recurrent) // its states have no rows to go back to
        same = 0;
    memcpy(s->token, token, (size_t)n * sizeof *token);
    s->n = n;
    s->n_fed = same;
    s->n_drafts = s->n_ahead = 0;
}

void speaker_add(Speaker *s, int32_t token)
{
    const bool is_draft = s->n_drafts != 0 && s->token[s->n] == token, is_run = is_draft && s->n_ahead != 0;
    rlx_assert(s->n < s->context);
    s->n_drafts = is_draft ? s->n_drafts - 1 : 0;
    s->n_ahead = is_run ? s->n_ahead - 1 : 0;
    s->token[s->n++] = token;
    s->n_fed += is_run;
    s->row += is_run;
}

// Guesses what follows the tokens, as many as a run takes along behind the last ones.
static bool draft(Speaker *s)
{
    const int64_t left = s->n - s->n_fed, rows = s->most_rows - left, room = s->context - s->n;
    int64_t most = s->most_drafts < rows ? s->most_drafts : rows;
    most = most < room ? most : room;
    if (s->drafter == NULL || s->n_drafts != 0 || most <= 0)
        return true;
    return drafter_guess(s->drafter, s, most);
}

bool speaker_feed(Speaker *s)
{
    if (s->n_fed < s->n && !draft(s))
        return false;
    while (s->n_fed < s->n) {
        const int64_t left = s->n - s->n_fed, own = left < s->most_rows ? left : s->most_rows;
        const int64_t n = own == left ? own + s->n_drafts : own;
        s->row = 0;
        s->sizes[s->rows] = n;
        s->sizes[s->past] = s->n_fed;
        if (s->most_drafts != 0)
            s->sizes[s->logit_rows] = 1 + n - own;
        s->input.dim[0] = s->input.numel = n;
        for (int64_t i = 0; i < n; i++)
            ((int64_t *)s->input.data)[i] = s->token[s->n_fed + i];
        if (!native_set_sizes(s->job, &s->native, s->sizes) ||
            !native_run(s->job, &s->native, &s->input, s->output))
            return false;
        s->n_fed += own;
        s->n_ahead = n - own;
        s->n_runs++;
    }
    return true;
}

const float *speaker_logits(const Speaker *s)
{
    return (const float *)s->output->data + s->row * s->output->dim[s->output->rank - 1];
}

int32_t speaker_choose(Speaker *s)
{
    s->sampling.n_last = s->n < SPEAKER_LAST ? (size_t)s->n : SPEAKER_LAST;
    s->sampling.last = s->token + s->n - (int64_t)s->sampling.n_last;
    return rlx_sample(&s->sampling, speaker_logits(s), s->vocab.n_tokens, s->work);
}

void speaker_give_out(const Speaker *s, const char *text, int64_t n, Str *kept)
{
    rlx_assert(n >= 0);
    if (s->job->cli->options.json != NULL) {
        str_add_n(kept, text, (size_t)n);
        return;
    }
    fwrite(text, 1, (size_t)n, stdout);
    fflush(stdout);
}

const char *speaker_memory(const Speaker *s)
{
    const rlx_model *m = s->native.model;
    const unsigned tenth = 104858; // of a MB
    return arena_printf(s->job->cli->arena, "weights %zu.%zu MB, caches %zu.%zu MB, arena %zu.%zu MB",
                        m->weight_bytes >> 20, m->weight_bytes % (1 << 20) / tenth, m->state_bytes >> 20,
                        m->state_bytes % (1 << 20) / tenth, m->arena_bytes >> 20,
                        m->arena_bytes % (1 << 20) / tenth);
}
