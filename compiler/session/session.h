// SPDX-License-Identifier: Apache-2.0
// Sessions of language models in generated code: whether a model gets them, and what its files then have.
#ifndef COMPILER_SESSION_SESSION_H
#define COMPILER_SESSION_SESSION_H

#include "compiler/job/language.h"
#include "compiler/session/session_text.h"
#include "compiler/vocab/vocab.h"
#include "runtime-lite/session/rlx_session_open.h"

typedef struct Session {
    bool is_there; // else nothing of the rest is
    bool has_slots;
    bool is_embedder; // no session: a text becomes a vector
    rlx_vocab vocab;
    LanguageSizes sizes;
    uint64_t fingerprint;
    size_t text_bytes; // of the longest text that is tokenized in the memory of a session
    rlx_session_sizes bytes;
} Session;

// Of a job that is emitted: with --session auto a model gets them that has all they need. False: reported.
bool session_find(Job *j, Session *out);
// Puts them into the files of the job.
void session_add(Job *j, const Session *s);

// The texts (session_emit.c). Both headers begin with the calls of the vocabulary, a title and a guard, and
// end with their own calls; session_begin returns the name in capitals.
const char *session_begin(const Session *s, const char *name, const char *title, const char *guard, Str *out);
void session_end(const char *const *calls, uint32_t n, const char *name, Str *out);
void session_emit_header(const Session *s, const char *name, Str *out);
void session_emit_code(const Session *s, const char *name, Str *out);
// Of models that make vectors (embed.c); the code is that behind the vocabulary.
void embed_emit_header(const Session *s, const char *name, Str *out);
void embed_emit_code(const Session *s, const char *name, Str *out);

#endif
