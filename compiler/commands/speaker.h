// SPDX-License-Identifier: Apache-2.0
// A language model that runs: tokens that it has seen, and the choice of the next one. Separate from the
// commands that decide what it is given.
#ifndef COMPILER_COMMANDS_SPEAKER_H
#define COMPILER_COMMANDS_SPEAKER_H

#include "compiler/native/native.h"
#include "compiler/vocab/vocab.h"
#include "runtime-lite/text/rlx_sample.h"

enum { SPEAKER_LAST = 64 }; // tokens that the penalty looks back at

struct Drafter;

typedef struct Speaker {
    Job *job;
    Native native;
    rlx_vocab vocab;
    rlx_sampling sampling;
    rlx_work work;
    uint32_t rows, past; // slots of the sizes T and P
    int64_t most_rows, context;
    bool is_recurrent; // it cannot go back but to the begin
    int64_t *sizes;
    int32_t *token;   // that it was given, and room for the context
    int64_t n, n_fed; // of them; and how many are in its states
    uint32_t logit_rows;    // with drafts: slot of the size L
    int64_t most_drafts;    // of a run
    struct Drafter *drafter; // who guesses what comes; NULL: nobody
    int64_t n_drafts, n_ahead; // guesses behind the n tokens, and those that the last run had
    int64_t row;               // of the logits of that run: behind the n tokens
    int64_t n_runs;
    Tensor input, *output;
} Speaker;

// Builds the model of the command line and opens it. `what` names the command, for messages. False: reported.
bool speaker_open(Speaker *s, Cli *c, const char *what);
// Makes the tokens those of a list: what it has in common with those before is not run again. At least the
// last one is, by speaker_feed. n is at least 1 and at most the context.
void speaker_set(Speaker *s, const int32_t *token, int64_t n);
// Runs what was not run yet: the logits of the last token are there then. False: reported.
bool speaker_feed(Speaker *s);
// Adds a token that was chosen. Where it was guessed, speaker_feed has nothing to run. There must be room.
void speaker_add(Speaker *s, int32_t token);
// Logits after speaker_feed; as many as the vocabulary has tokens.
const float *speaker_logits(const Speaker *s);
// The next token, which is not added. A status below zero: no logit is a number.
int32_t speaker_choose(Speaker *s);
// Text that was written: to standard output, with --json to `kept`.
void speaker_give_out(const Speaker *s, const char *text, int64_t n, Str *kept);
// "weights 12.0 MB, caches 1.5 MB, arena 0.3 MB".
const char *speaker_memory(const Speaker *s);

#endif
