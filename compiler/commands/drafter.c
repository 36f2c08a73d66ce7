// SPDX-License-Identifier: Apache-2.0
// See drafter.h.
#include "compiler/commands/drafter.h"
#include "runtime-lite/text/rlx_decode.h"
#include "runtime-lite/text/rlx_lookup.h"
#include <string.h>

#define DEFAULT_DRAFTS "3" // products with blocks take up to four rows in the time of one
enum { FIRST_DRAFTS = 2 };

bool drafter_read(Cli *c)
{
    Options *o = &c->options;
    if (o->draft == NULL)
        return o->drafts == NULL || diag_error(c->diag, (Span){0}, E0003, "--drafts goes with --draft here");
    if (o->drafts == NULL)
        o->drafts = DEFAULT_DRAFTS;
    return true;
}

static bool same_token(const rlx_vocab *a, const rlx_vocab *b, uint32_t token)
{
    size_t n = 0, m = 0;
    const void *x = rlx_token_text(a, token, RLX_TOKENS_CONTROL, &n);
    const void *y = rlx_token_text(b, token, RLX_TOKENS_CONTROL, &m);
    return n == m && memcmp(x, y, n) == 0;
}

// Do the numbers of tokens mean the same? A vocabulary may have more tokens at its end than the other one.
static bool check_vocabulary(const Drafter *d, const Speaker *s)
{
    const rlx_vocab *a = &s->vocab, *b = &d->speaker.vocab;
    const uint32_t n = a->n_tokens < b->n_tokens ? a->n_tokens : b->n_tokens;
    uint32_t i = 0;
    while (i < n && same_token(a, b, i))
        i++;
    return i == n || diag_error(s->job->cli->diag, (Span){0}, E0003,
                                "--draft %s: token %u is another one than that of the model: the "
                                "vocabularies must be the same",
                                s->job->cli->options.draft, i);
}

bool drafter_open(Drafter *d, Cli *c, Speaker *s)
{
    const char *given = c->options.draft;
    if (given == NULL)
        return true;
    *d = (Drafter){.cli = *c, .has_model = strcmp(given, "ngram") != 0, .wanted = FIRST_DRAFTS};
    s->drafter = d;
    if (!d->has_model)
        return true;
    d->cli.options.args = (Strings){0};
    vec_push(c->arena, &d->cli.options.args, given);
    d->cli.options.loras = (Strings){0};
    d->cli.options.draft = d->cli.options.drafts = d->cli.options.keep = NULL;
    d->speaker.job = &d->job;
    d->speaker.sampling = rlx_sampling_start(0);
    d->speaker.sampling.temperature = 0;
    return speaker_open(&d->speaker, &d->cli, "--draft") && check_vocabulary(d, s);
}

void drafter_close(Drafter *d)
{
    if (d->has_model)
        native_close(&d->speaker.native);
}

// The tokens that the other model takes to be the likeliest.
static bool guess_by_model(Drafter *d, Speaker *s, int64_t most)
{
    Speaker *other = &d->speaker;
    const int64_t room = other->context - s->n;
    most = most < room ? most : room;
    for (int64_t i = 0; i < s->n && most > 0; i++)
        most = (uint32_t)s->token[i] < other->vocab.n_tokens ? most : 0;
    if (most <= 0)
        return true;
    speaker_set(other, s->token, s->n);
    while (s->n_drafts < most) {
        if (!speaker_feed(other))
            return false;
        const int32_t token = speaker_choose(other);
        if (token < 0 || (uint32_t)token >= s->vocab.n_tokens || token == s->vocab.eos ||
            token == s->vocab.eot)
            break;
        s->token[s->n + s->n_drafts++] = token;
        speaker_add(other, token); // `most` leaves room
    }
    return true;
}

// Wrong guesses make runs longer for nothing.
static void learn(Drafter *d, const Speaker *s)
{
    const int64_t passed = s->n - d->at - 1; // the token behind them was chosen too
    if (d->n != 0 && passed >= d->n)
        d->wanted = 2 * d->wanted < s->most_drafts ? 2 * d->wanted : s->most_drafts;
    else if (d->n != 0 && passed <= 0 && d->wanted > 1)
        d->wanted /= 2;
}

bool drafter_guess(Drafter *d, Speaker *s, int64_t most)
{
    bool ok = true;
    rlx_assert(s->n_drafts == 0 && most >= 1 && most <= s->context - s->n);
    learn(d, s);
    most = most < d->wanted ? most : d->wanted;
    if (d->has_model)
        ok = guess_by_model(d, s, most);
    else
        s->n_drafts = (int64_t)rlx_lookup(s->token, (size_t)s->n, s->token + s->n, (size_t)most);
    d->at = s->n;
    d->n = s->n_drafts;
    return ok;
}
