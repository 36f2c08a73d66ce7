// SPDX-License-Identifier: Apache-2.0
// rlxc run --prompt: how a language model continues a text. Separate from cmd_run.c, which runs once and
// shows tensors.
#include "compiler/commands/cmd_prompt.h"
#include "compiler/commands/drafter.h"
#include "compiler/commands/sampling_options.h"
#include "compiler/commands/speaker.h"
#include "compiler/grammar/grammar.h"
#include "compiler/system/clock.h"
#include "compiler/system/json_scan.h"
#include "compiler/system/json_text.h"
#include "runtime-lite/text/rlx_allow.h"
#include "runtime-lite/text/rlx_decode.h"
#include "runtime-lite/text/rlx_tokens.h"
#include <math.h>
#include <string.h>

enum { MOST_TOKENS = 100, CALLS = 4096 }; // CALLS: of rules within each other that the text may have

typedef struct Writer {
    Speaker speaker;
    rlx_grammar grammar; // with --grammar, which sampling.allows then asks
    rlx_parse parse;
    int64_t n_prompt; // tokens; those behind them are the text
    Str text;         // with --json, which prints it at the end
    Str logprobs;     // with --logprobs, of each token
    uint32_t n_best;  // tokens to show in each place
} Writer;

// --- log-probabilities ---------------------------------------------------------------------------

static bool read_logprobs(Writer *w, Cli *c)
{
    double n = 0;
    if (!options_count(c, "--logprobs", c->options.logprobs, 100, &n))
        return false;
    w->n_best = (uint32_t)n;
    w->logprobs = str_new(c->arena);
    return c->options.logprobs == NULL || c->options.json != NULL ||
           diag_error(c->diag, (Span){0}, E0003, "--logprobs goes with --json, which shows them");
}

// {"token": 5, "text": " a", "logprob": -0.25}, without the last brace.
static void put_logprob(Writer *w, int32_t token, double logprob)
{
    Str *out = &w->logprobs;
    const rlx_vocab *v = &w->speaker.vocab;
    size_t n;
    const char *text = (const char *)rlx_token_text(v, (uint32_t)token, RLX_TOKENS_CONTROL, &n);
    str_printf(out, "{\"token\": %d, \"text\": ", token);
    json_print_string(out, arena_strndup(w->speaker.job->cli->arena, text, n));
    str_add(out, ", \"logprob\": ");
    if (isinf(logprob))
        str_add(out, "null");
    else
        str_f64(out, logprob);
}

static void note_logprobs(Writer *w, int32_t token)
{
    const float *logits = speaker_logits(&w->speaker);
    const size_t n = w->speaker.vocab.n_tokens;
    if (w->speaker.job->cli->options.logprobs == NULL)
        return;
    rlx_candidate *list = ARENA_ARRAY(w->speaker.job->cli->arena, rlx_candidate, w->n_best + 1);
    const size_t n_list = rlx_token_logprobs(logits, n, token, list, w->n_best + 1);
    str_add(&w->logprobs, w->logprobs.len == 0 ? "\n    " : ",\n    ");
    put_logprob(w, list[0].token, (double)list[0].logit);
    str_add(&w->logprobs, ", \"best\": [");
    for (size_t i = 1; i < n_list; i++) {
        str_add(&w->logprobs, i == 1 ? "" : ", ");
        put_logprob(w, list[i].token, (double)list[i].logit);
        str_char(&w->logprobs, '}');
    }
    str_add(&w->logprobs, "]}");
}

// --- grammar -------------------------------------------------------------------------------------

static int allows(void *writer, int32_t token)
{
    Writer *w = writer;
    return rlx_parse_allows(&w->speaker.vocab, &w->parse, token);
}

static bool start_grammar(Writer *w)
{
    Cli *c = w->speaker.job->cli;
    const size_t bytes = RLX_PARSE_BYTES(CALLS);
    if (c->options.grammar == NULL)
        return true;
    if (!grammar_open(c->arena, c->diag, c->options.grammar, &w->grammar))
        return false;
    w->speaker.sampling.allows = allows;
    w->speaker.sampling.allows_with = w;
    return rlx_parse_start(&w->parse, &w->grammar, arena_alloc(c->arena, bytes), bytes) == 0 ||
           diag_error(c->diag, (Span){0}, E0004,
                      "--grammar: a text of it begins with too many calls of rules");
}

// Goes on behind a chosen token. False: the text is whole, and nothing can follow.
static bool grammar_goes_on(Writer *w, int32_t token)
{
    if (w->speaker.sampling.allows == NULL)
        return true;
    const int64_t status = rlx_parse_token(&w->speaker.vocab, &w->parse, token);
    rlx_assert(status == 0);
    return !rlx_parse_is_over(&w->parse);
}

static bool fail_choice(Writer *w)
{
    Cli *c = w->speaker.job->cli;
    if (w->speaker.sampling.allows == NULL)
        return diag_error(c->diag, (Span){0}, E0402, "no logit of the model is a number");
    return diag_error(c->diag, (Span){0}, E0402,
                      w->parse.is_full
                          ? "--grammar: the text nests more than %d calls of rules, the most there are"
                          : "--grammar: no token can come next (of at most %d calls of rules)",
                      CALLS);
}

// --- text ----------------------------------------------------------------------------------------

static bool read_prompt(Writer *w)
{
    Speaker *s = &w->speaker;
    Cli *c = s->job->cli;
    const char *text = c->options.prompt;
    VocabTokens tokens;
    if (!vocab_cut(c->arena, c->diag, &s->vocab, (VocabText){text, strlen(text)}, RLX_TOKENS_FRAME, &tokens))
        return false;
    if (tokens.n > 0 && s->vocab.eos >= 0 && tokens.token[tokens.n - 1] == s->vocab.eos)
        tokens.n--; // a text that goes on has not ended
    if ((int64_t)tokens.n >= s->context)
        return diag_error(c->diag, (Span){0}, E0003,
                          "--prompt: the text has %zu tokens, and the context %lld", tokens.n,
                          (long long)s->context);
    if (tokens.n == 0 && s->vocab.bos < 0)
        return diag_error(c->diag, (Span){0}, E0003,
                          "--prompt: the text has no tokens, and there is none that begins texts");
    if (tokens.n == 0)
        speaker_set(s, &s->vocab.bos, 1);
    else
        speaker_set(s, tokens.token, (int64_t)tokens.n);
    w->n_prompt = s->n;
    return true;
}

static bool write_on(Writer *w, int64_t most)
{
    Speaker *s = &w->speaker;
    rlx_stream stream = {0};
    const size_t room = RLX_STREAM_BYTES(s->vocab.longest);
    char *piece = ARENA_ARRAY(s->job->cli->arena, char, room);
    bool ok = speaker_feed(s);
    for (int64_t i = 0; ok && i < most && s->n < s->context; i++) {
        const int32_t token = speaker_choose(s);
        if (token < 0)
            return fail_choice(w);
        note_logprobs(w, token);
        if (token == s->vocab.eos || token == s->vocab.eot)
            break;
        speaker_give_out(s, piece, rlx_stream_token(&s->vocab, &stream, token, 0, piece, room), &w->text);
        speaker_add(s, token);
        if (!grammar_goes_on(w, token))
            break;
        ok = i + 1 == most || s->n == s->context || speaker_feed(s);
    }
    speaker_give_out(s, piece, rlx_stream_end(&stream, piece), &w->text);
    return ok;
}

static void print_json(const Writer *w, double seconds)
{
    const Job *j = w->speaker.job;
    printf("{\n  \"name\": \"%s\",\n  \"prompt_tokens\": %lld,\n  \"tokens\": %lld,\n  \"seconds\": %.3f,\n"
           "  \"runs\": %lld,\n  \"text\": \"%s\"",
           j->host.name, (long long)w->n_prompt, (long long)(w->speaker.n - w->n_prompt), seconds,
           (long long)w->speaker.n_runs,
           json_text(j->cli->arena, str_text(&w->text)));
    if (j->cli->options.logprobs != NULL)
        printf(",\n  \"logprobs\": [%s\n  ]", str_text(&w->logprobs));
    printf("\n}\n");
}

bool cmd_prompt_is_asked(Cli *c, bool *is_asked)
{
    const Options *o = &c->options;
    const struct {
        const char *option, *given;
    } only[] = {{"-n", o->most_tokens},     {"--temperature", o->temperature},
                {"--top-k", o->top_k},      {"--top-p", o->top_p},
                {"--min-p", o->min_p},      {"--repeat-penalty", o->penalty},
                {"--seed", o->text_seed},   {"--grammar", o->grammar},
                {"--logprobs", o->logprobs}, {"--draft", o->draft}};
    *is_asked = o->prompt != NULL;
    for (size_t i = 0; i < sizeof only / sizeof *only && !*is_asked; i++)
        if (only[i].given != NULL)
            return diag_error(c->diag, (Span){0}, E0003, "%s is for --prompt", only[i].option);
    return !*is_asked || o->random == NULL ||
           diag_error(c->diag, (Span){0}, E0003, "--random does not go with --prompt; --seed does");
}

ExitCode cmd_run_prompt(Cli *c)
{
    Job j;
    Drafter drafter = {0};
    Writer w = {.speaker = {.job = &j}, .text = str_new(c->arena)};
    double most = MOST_TOKENS;
    if (!options_count(c, "-n", c->options.most_tokens, 1e9, &most) ||
        !options_sampling(c, &w.speaker.sampling) || !read_logprobs(&w, c) ||
        !drafter_read(c) || !speaker_open(&w.speaker, c, "--prompt") ||
        !drafter_open(&drafter, c, &w.speaker) || !read_prompt(&w) || !start_grammar(&w))
        return cli_fail(c);
    cli_progress_end();
    diag_print(c->diag, stderr, c->style);
    const double start = clock_seconds();
    if (!write_on(&w, (int64_t)most))
        return cli_fail(c);
    if (c->options.json != NULL)
        print_json(&w, clock_seconds() - start);
    else
        printf("\n");
    drafter_close(&drafter);
    native_close(&w.speaker.native);
    return EXIT_OK;
}
