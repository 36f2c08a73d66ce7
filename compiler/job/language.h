// SPDX-License-Identifier: Apache-2.0
// What language models are compiled for where the user says nothing about sizes (docs/LLM.md).
#ifndef COMPILER_JOB_LANGUAGE_H
#define COMPILER_JOB_LANGUAGE_H

#include "compiler/job/job.h"

// --context, --kv, --windows, --outputs, --slots, --drafts and --lora. False: reported.
bool language_read(Job *j);
// Lets programs set the numbers of tokens between runs, with one variant for a single token and one for up to
// as many as a run takes. Nothing for other models, and nothing where an option gives any size.
void language_open_sizes(Job *j);

// Is the model one, as it was read?
bool language_is(const Job *j);
// Its architecture and sizes, in words.
const char *language_name(const Job *j);

// Does the file or folder say that its model makes a vector of a text?
bool language_is_encoder(Arena *a, const char *path);

// What programs set between the runs of one that is planned.
typedef struct LanguageSizes {
    uint32_t rows, past; // slots of the sizes T and P; there is no P with --slots
    int64_t most_rows, context;
    int64_t cache_rows; // of each head; 0: states have a fixed size
    int64_t n;          // sequences of a run
    uint32_t logit_rows; // with --drafts: the slot of the size L
    int64_t drafts;      // of a sequence at most
    uint32_t best;       // the output with the most likely token by each row of logits; 0: there is none
    uint32_t top, plain; // the output with the best ones; the number of the set without it, from 1
} LanguageSizes;

// False: its sizes are not just these, or its first output has not the logits of one token (not reported).
bool language_sizes(const Job *j, LanguageSizes *out);
// Are all of its states caches, with rows of tokens to which it can go back? Also those of rings.
bool language_has_rows(const Job *j);
// The same of a model that makes a vector of a text: T alone.
bool language_embeds(const Job *j, LanguageSizes *out);
// The same of a model with slots, and of one token for each of them.
bool language_slots(const Job *j, LanguageSizes *out);

#endif
