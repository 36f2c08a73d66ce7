// SPDX-License-Identifier: Apache-2.0
// Conversations with language models: their template, messages, and the tokens of both. Separate from the
// interpreter of templates, which knows nothing of models.
#ifndef COMPILER_CHAT_CHAT_H
#define COMPILER_CHAT_CHAT_H

#include "compiler/template/template.h"
#include "compiler/vocab/vocab.h"

typedef struct Chat {
    Arena *arena;
    Diag *diag;
    const Template *t;
    TplValue variables; // what each rendering begins with: bos_token, eos_token and the like
    TplValue messages;  // a list, for chat_say
} Chat;

// The template of a model, or what --template says in its place (NULL: nothing): a file or a built-in name.
// False: reported; a model without a template too.
bool chat_open(Arena *a, Diag *d, const char *model, const char *given, Chat *out);
// Adds a message. The texts are copied.
void chat_say(Chat *c, const char *role, TplText content);
// Forgets messages from number n on.
void chat_forget(Chat *c, uint32_t n);
// What the template makes of these variables beside those of the model. False: reported.
bool chat_render(Chat *c, Arena *a, TplValue variables, TplText *out);

// A mark that stands in texts of users where a control token could begin, until tokens are made.
#define CHAT_MARK "\xf4\x8f\xbf\xbd" // U+10FFFD, which is for private use
// The tokens of all messages and of the begin of an answer; what users wrote is text, whatever it looks like.
bool chat_tokens(Chat *c, Arena *a, const rlx_vocab *v, VocabTokens *out);

// The control token that ends an answer, by what the template writes behind one. -1: none.
int32_t chat_end(Chat *c, const rlx_vocab *v);

#endif
