// SPDX-License-Identifier: Apache-2.0
// Guesses what a language model writes next (--draft): by its own text, or by a smaller model of the same
// vocabulary. Separate from the speaker, which checks them.
#ifndef COMPILER_COMMANDS_DRAFTER_H
#define COMPILER_COMMANDS_DRAFTER_H

#include "compiler/commands/speaker.h"

typedef struct Drafter {
    Cli cli; // of the model that guesses
    Job job;
    Speaker speaker;
    bool has_model; // else the text itself is looked at
    int64_t wanted; // guesses at a time: more where they were right, fewer where the first one was wrong
    int64_t n, at;  // of the last ones, and the number of tokens that stood before them
} Drafter;

// --draft and --drafts of a command that writes text, before its own model is read: sets how many guesses a
// run takes. False: reported.
bool drafter_read(Cli *c);
// What --draft names, for an open speaker, which gets it. False: reported.
bool drafter_open(Drafter *d, Cli *c, Speaker *s);
void drafter_close(Drafter *d);
// Writes up to `most` guesses behind the tokens of the speaker. False: reported.
bool drafter_guess(Drafter *d, Speaker *s, int64_t most);

#endif
