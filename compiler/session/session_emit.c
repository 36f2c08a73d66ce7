// SPDX-License-Identifier: Apache-2.0
// The texts of sessions: what a program calls (NAME.h), and the tables and functions behind it (NAME.c).
#include "compiler/import/llm/llm.h"
#include "compiler/session/session.h"
#include "runtime-lite/text/rlx_sample.h"

// --- NAME.h --------------------------------------------------------------------------------------

static const char open_text[] =
    "// Opens a session without tokens. memory: @NAME@_SESSION_BYTES at a multiple of RLX_ALIGNMENT,\n"
    "// the session's until @name@_close; nothing is allocated then or later. mapped: NULL, 0 where the\n"
    "// weights are a part of the program; else their file, of @NAME@_WEIGHT_BYTES. 0 or a status below\n"
    "// zero, which rlx_session_text puts in words, here and below.\n"
    "int @name@_open(rlx_session *s, void *memory, size_t bytes, const void *mapped, size_t n_mapped);\n"
    "void @name@_close(rlx_session *s);\n";

static const char open_slots_text[] =
    "typedef struct @name@_slots {\n"
    "    rlx_slots all;\n"
    "    rlx_session slot[@NAME@_SLOTS]; // what the calls below take\n"
    "} @name@_slots;\n\n"
    "// Opens all sessions, without tokens. memory: @NAME@_SESSION_BYTES at a multiple of RLX_ALIGNMENT,\n"
    "// theirs until @name@_close; nothing is allocated then or later. mapped: NULL, 0 where the weights\n"
    "// are a part of the program; else their file, of @NAME@_WEIGHT_BYTES. 0 or a status below zero,\n"
    "// which rlx_session_text puts in words, here and below. The caches have @NAME@_CONTEXT rows for all\n"
    "// sessions together: RLX_SESSION_PAGES, where too few are left even after all guesses\n"
    "// that wait have given theirs back, leaves the tokens of all sessions as they were.\n"
    "// Calls for sessions of the same slots must not run at the same time.\n"
    "int @name@_open(@name@_slots *slots, void *memory, size_t bytes, const void *mapped,\n"
    "    size_t n_mapped);\n"
    "void @name@_close(@name@_slots *slots);\n"
    "// What is fed is not run before @name@_next or @name@_logits of any session: that makes a run with\n"
    "// tokens of all sessions, @NAME@_MOST_ROWS at most, unless the logits are there already.\n"
    "// @name@_next makes one run at most, and returns RLX_SESSION_WAIT while tokens of the session wait\n"
    "// for another one: call it again, after those of other sessions.\n";

static const char calls_text[] =
    "// Adds n tokens, and runs them in pieces of at most @NAME@_MOST_ROWS. RLX_SESSION_FULL: more than\n"
    "// @NAME@_CONTEXT would be in the session. RLX_TEXT_TOKEN: one is no token. Nothing has changed\n"
    "// then.\n"
    "int @name@_feed(rlx_session *s, const int32_t *tokens, size_t n);\n"
    "// The same with a text of at most @NAME@_TEXT_BYTES. flags: RLX_TOKENS_FRAME adds the tokens that\n"
    "// begin a text, RLX_TOKENS_CONTROL reads control tokens in it (never in what users write),\n"
    "// RLX_SESSION_LATER leaves the run to the next call. Returns how many tokens were added, or a\n"
    "// status.\n"
    "int64_t @name@_feed_text(rlx_session *s, const char *text, size_t n, unsigned flags);\n"
    "// Chooses the next token (sampling NULL: the most likely one), adds it to the session, and\n"
    "// returns it. RLX_END_TOKEN: the model has ended its text; RLX_END_STOP: a stop string came,\n"
    "// whose tokens are in the session; RLX_END_CONTEXT: there is no room. Also then s->text has\n"
    "// n_text bytes that are new: whole characters, without what may begin a stop string. Sets the\n"
    "// members last and n_last of sampling.\n"
    "int32_t @name@_next(rlx_session *s, rlx_sampling *sampling);\n"
    "// Log-probabilities in the place of the token that @name@_next has just chosen (s->chosen, also one\n"
    "// that ended the text), by the logits alone: list[0] has that token, and behind it come the n - 1\n"
    "// most likely ones, the best first. The member logit has the log-probability. Returns how many there\n"
    "// are; 0: nothing was chosen, or its logits are gone, as after the next run.\n"
    "int64_t @name@_logprobs(const rlx_session *s, rlx_candidate *list, size_t n);\n"
    "// Ends the text where the program wants no more tokens: s->text has what was held back.\n"
    "int @name@_end_text(rlx_session *s);\n"
    "// Strings that end the text from here on, in place of earlier ones; they are copied. At most\n"
    "// RLX_SESSION_MOST_STOPS, of RLX_SESSION_STOP_BYTES bytes together.\n"
    "int @name@_stop_at(rlx_session *s, const char *const *strings, size_t n);\n"
    "// The @NAME@_LOGITS logits of what follows the last token; NULL: it could not be run. They stay\n"
    "// until the next call with the session.\n"
    "const float *@name@_logits(rlx_session *s);\n"
    "// Forgets all tokens after the first `length`. A model whose states have a fixed size runs the others\n"
    "// again then, with the next call, and so it does after @name@_reuse and @name@_shift.\n"
    "int @name@_rewind(rlx_session *s, int64_t length);\n"
    "// Forgets all tokens after those with which both the session and the n tokens begin, and returns\n"
    "// how many these are: the program then feeds the others.\n"
    "int64_t @name@_reuse(rlx_session *s, const int32_t *tokens, size_t n);\n"
    "// Removes n tokens after the first `keep`, when a text outgrows the context. The tokens after\n"
    "// them are run again at their new places, with the next call.\n"
    "int @name@_shift(rlx_session *s, int64_t keep, int64_t n);\n"
    "// Writes the session to memory and returns the number of bytes; where `room` is less, it only\n"
    "// returns it. Stop strings and sampling are the program's to keep.\n"
    "int64_t @name@_save(rlx_session *s, void *memory, size_t room);\n"
    "// Makes an open session what was saved: what follows has the same bits. RLX_SESSION_SAVED: the\n"
    "// bytes are not those of a saved session; RLX_SESSION_OTHER: it is one of another model;\n"
    "// RLX_SESSION_FULL: of a larger context. Nothing has changed then.\n"
    "int @name@_restore(rlx_session *s, const void *memory, size_t bytes);\n"
    "// Makes the open session `to` a copy of `from`, stop strings included.\n"
    "int @name@_fork(rlx_session *to, rlx_session *from);\n";

static const char draft_text[] =
    "// Guesses how the session goes on: the next run takes the tokens along, and @name@_next needs no\n"
    "// other one while the tokens that it chooses are the guessed ones. The first other one ends that.\n"
    "// Tokens, text and log-probabilities are what they would be without drafts, up to the rounding of\n"
    "// sums. tokens NULL: guesses by what followed the last tokens when they came before. Of n tokens\n"
    "// the first @NAME@_DRAFTS count, and one more where the next logits are there already. Drafts that\n"
    "// still wait (s->n_drafts) stay instead. Returns how many wait then, or a status.\n"
    "int64_t @name@_draft(rlx_session *s, const int32_t *tokens, size_t n);\n";

static void add_sizes(const Session *s, const char *big, Str *out)
{
    str_printf(out, "#define %s_CONTEXT %lld // tokens of a session at most\n", big,
               (long long)s->sizes.context);
    str_printf(out, "#define %s_MOST_ROWS %lld // tokens of a run at most\n", big,
               (long long)s->sizes.most_rows);
    if (s->has_slots)
        str_printf(out, "#define %s_SLOTS %zu\n", big, s->bytes.n);
    if (s->sizes.drafts != 0)
        str_printf(out, "#define %s_DRAFTS %lld // guesses for a session that a run takes at most\n", big,
                   (long long)s->sizes.drafts);
    str_printf(out, "#define %s_LOGITS %zuu\n", big, s->bytes.logits / sizeof(float));
    str_printf(out, "#define %s_TEXT_BYTES %zuu // of the longest text that a session tokenizes\n", big,
               s->text_bytes);
    str_printf(out, "#define %s_SESSION_BYTES %zuu\n\n", big, rlx_session_bytes(&s->bytes));
}

const char *session_begin(const Session *s, const char *name, const char *title, const char *guard, Str *out)
{
    Str big = str_new(out->arena);
    vocab_emit_named(&big, "@NAME@", name);
    str_char(out, '\n');
    vocab_emit_header(&s->vocab, name, out);
    str_printf(out, "\n// %s %s.\n#ifndef %s_%s_H\n#define %s_%s_H\n\n", title, name, str_text(&big), guard,
               str_text(&big), guard);
    return str_text(&big);
}

void session_end(const char *const *calls, uint32_t n, const char *name, Str *out)
{
    str_add(out, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    for (uint32_t i = 0; i < n; i++)
        vocab_emit_named(out, calls[i], name);
    str_add(out, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}

void session_emit_header(const Session *s, const char *name, Str *out)
{
    const char *big = session_begin(s, name, "Sessions of", "SESSION", out);
    vocab_emit_lines(out, session_text_public);
    if (s->has_slots)
        vocab_emit_lines(out, session_text_slots_public);
    add_sizes(s, big, out);
    const char *const calls[] = {s->has_slots ? open_slots_text : open_text, calls_text, draft_text};
    session_end(calls, s->sizes.drafts != 0 ? 3 : 2, name, out);
}

// --- NAME.c --------------------------------------------------------------------------------------

static const char open_code_text[] =
    "int @name@_open(rlx_session *s, void *memory, size_t bytes, const void *mapped, size_t n_mapped)\n"
    "{\n    return rlx_session_open(s, &@name@_session, memory, bytes, mapped, n_mapped);\n}\n\n"
    "void @name@_close(rlx_session *s)\n{\n    rlx_session_close(s);\n}\n\n";

static const char open_slots_code_text[] =
    "int @name@_open(@name@_slots *slots, void *memory, size_t bytes, const void *mapped,\n"
    "    size_t n_mapped)\n"
    "{\n    if (slots == NULL)\n        return RLX_SESSION_NULL;\n    slots->all.slot = slots->slot;\n"
    "    return rlx_slots_open(&slots->all, &@name@_session, memory, bytes, mapped, n_mapped);\n}\n\n"
    "void @name@_close(@name@_slots *slots)\n"
    "{\n    if (slots != NULL)\n        rlx_slots_close(&slots->all);\n}\n\n";

static const char code_text[] =
    "int @name@_feed(rlx_session *s, const int32_t *tokens, size_t n)\n"
    "{\n    return rlx_session_feed(s, tokens, n);\n}\n\n"
    "int64_t @name@_feed_text(rlx_session *s, const char *text, size_t n, unsigned flags)\n"
    "{\n    return rlx_session_feed_text(s, text, n, flags);\n}\n\n"
    "int32_t @name@_next(rlx_session *s, rlx_sampling *sampling)\n"
    "{\n    return rlx_session_next(s, sampling);\n}\n\n"
    "int64_t @name@_logprobs(const rlx_session *s, rlx_candidate *list, size_t n)\n"
    "{\n    return rlx_session_logprobs(s, list, n);\n}\n\n"
    "int @name@_end_text(rlx_session *s)\n{\n    return rlx_session_end_text(s);\n}\n\n"
    "int @name@_stop_at(rlx_session *s, const char *const *strings, size_t n)\n"
    "{\n    return rlx_session_stop_at(s, strings, n);\n}\n\n"
    "const float *@name@_logits(rlx_session *s)\n{\n    return rlx_session_logits(s);\n}\n\n"
    "int @name@_rewind(rlx_session *s, int64_t length)\n{\n    return rlx_session_rewind(s, length);\n}\n\n"
    "int64_t @name@_reuse(rlx_session *s, const int32_t *tokens, size_t n)\n"
    "{\n    return rlx_session_reuse(s, tokens, n);\n}\n\n"
    "int @name@_shift(rlx_session *s, int64_t keep, int64_t n)\n"
    "{\n    return rlx_session_shift(s, keep, n);\n}\n\n"
    "int64_t @name@_save(rlx_session *s, void *memory, size_t room)\n"
    "{\n    return rlx_session_save(s, memory, room);\n}\n\n"
    "int @name@_restore(rlx_session *s, const void *memory, size_t bytes)\n"
    "{\n    return rlx_session_restore(s, memory, bytes);\n}\n\n"
    "int @name@_fork(rlx_session *to, rlx_session *from)\n{\n    return rlx_session_fork(to, from);\n}\n";

static const char draft_code_text[] =
    "\nint64_t @name@_draft(rlx_session *s, const int32_t *tokens, size_t n)\n"
    "{\n    return rlx_session_draft(s, tokens, n);\n}\n";

_Static_assert((int)LLM_TOP_TOKENS == (int)RLX_SAMPLE_FEW, "what the model gives");

static void add_descriptor(const Session *s, const char *name, Str *out)
{
    const rlx_session_sizes *b = &s->bytes;
    str_printf(out, "static const rlx_session_model %s_session = {\n", name);
    str_printf(out, "    &%s_model, &%s_vocab, &%s, %s, 0x%016llxu,\n", name, name,
               s->has_slots ? "rlx_session_in_slots" : "rlx_session_alone",
               vocab_fragment(&s->vocab), (unsigned long long)s->fingerprint);
    str_printf(out, "    %u, %u, %lld, %lld, %lld, %zuu, %u, %lld, %u, %u, %u, %s,\n", s->sizes.rows,
               s->sizes.past, (long long)s->sizes.most_rows, (long long)s->sizes.context,
               (long long)s->sizes.cache_rows, s->text_bytes, s->sizes.logit_rows, (long long)s->sizes.drafts,
               s->sizes.best, s->sizes.top, s->sizes.plain, s->sizes.best != 0 ? "rlx_fetch_output" : "NULL");
    str_printf(out, "    {%zuu, %zuu, %zuu, %zuu, %zuu, %zuu, %zuu, %zuu, %zuu}};\n\n", b->arena, b->state,
               b->tokens, b->logits, b->out, b->work, b->pages, b->n, b->rows);
}

void session_emit_code(const Session *s, const char *name, Str *out)
{
    Str part = str_new(out->arena);
    vocab_emit_named(&part, "@NAME@_PART", name);
    str_printf(out,
               "\n// --- tokens and sessions "
               "---------------------------------------------------------------------\n\n"
               "#if !defined(%s) || %s == 1\n",
               str_text(&part), str_text(&part));
    vocab_emit_body(&s->vocab, name, out);
    str_char(out, '\n');
    if (s->is_embedder) {
        embed_emit_code(s, name, out);
        str_add(out, "#endif\n");
        return;
    }
    vocab_emit_lines(out, session_text_code);
    vocab_emit_lines(out, s->has_slots ? session_text_slots : session_text_alone);
    add_descriptor(s, name, out);
    vocab_emit_named(out, s->has_slots ? open_slots_code_text : open_code_text, name);
    vocab_emit_named(out, code_text, name);
    if (s->sizes.drafts != 0)
        vocab_emit_named(out, draft_code_text, name);
    str_add(out, "#endif\n");
}
