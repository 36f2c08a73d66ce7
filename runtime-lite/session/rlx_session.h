// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// A session of a language model, as programs see it: the tokens of one text, what the model knows of them,
// and the text that comes next. Each session has memory of its own; any number of them share the weights,
// and may run at once in threads of their own.
#ifndef RLX_SESSION_H
#define RLX_SESSION_H

#include "../rlx.h"
#include "../text/rlx_decode.h"
#include "../text/rlx_stops.h"

// What calls return that is no token and no count, beside RLX_TEXT_*: rlx_session_text says it in words. The
// first three are ends of a text; all others are errors, after which the session is as before the call.
enum {
    RLX_END_TOKEN = -20,       // the model has ended its text or its turn
    RLX_END_STOP = -21,        // one of the stop strings came
    RLX_END_CONTEXT = -22,     // the context has no room for another token
    RLX_SESSION_NULL = -23,    // a pointer is NULL, or the session is not open
    RLX_SESSION_MEMORY = -24,  // the block is too short, or is not aligned to RLX_ALIGNMENT
    RLX_SESSION_MODEL = -25,   // the model cannot be started or run: run_status says why
    RLX_SESSION_FULL = -26,    // the context has no room for so many tokens
    RLX_SESSION_EMPTY = -27,   // there is no token yet that another one could follow
    RLX_SESSION_RANGE = -28,   // a number is outside of its range
    RLX_SESSION_STOPS = -29,   // a stop string is empty, or they are too many or too long
    RLX_SESSION_SAVED = -30,   // no saved session, or a damaged one
    RLX_SESSION_OTHER = -31,   // a session of another model
    RLX_SESSION_PAGES = -32,   // with slots: too few pages are free for the tokens
    RLX_SESSION_WAIT = -33     // with slots: some of its tokens wait for the next run; no error
};

enum {
    RLX_SESSION_LAST = 64,        // tokens that penalties of rlx_sampling look back at
    RLX_SESSION_BIASES = 1024,    // entries that rlx_sampling.bias may have
    RLX_SESSION_MOST_STOPS = 16,  // stop strings,
    RLX_SESSION_STOP_BYTES = 512  // and bytes of all of them together
};

// A flag of NAME_feed_text beside RLX_TOKENS_*: the tokens are run with those that come next.
enum { RLX_SESSION_LATER = 256 };
enum { RLX_SESSION_FEW = 2 }; // of rlx_session.draws

struct rlx_session_model;
struct rlx_slots;

// It lies where the program puts it, and stays there while it is open. Programs read the members up to
// run_status and write none.
typedef struct rlx_session {
    rlx_ctx ctx;               // of the model, for the calls of threads and devices; unused in slots
    const int32_t *tokens;     // [n_tokens] those that were fed and those that were chosen
    int64_t n_tokens;
    int64_t n_sure;            // the text of the first so many tokens is out, and none of it was held back
    int64_t n_drafts;          // behind them: what NAME_draft was given, and NAME_next has not come to
    const char *text;          // [n_text] bytes of whole characters: what the last NAME_next has added
    size_t n_text;
    int32_t chosen;            // by the last NAME_next, or what ended the text; -1: none, or a run came since
    rlx_status run_status;     // of the model, after RLX_SESSION_MODEL
    const struct rlx_session_model *kind; // NULL: it is not open
    int64_t n_run;             // tokens whose keys and values are in the states
    int has_logits;            // logits are those behind the last token
    float *logits;             // a row of those that the last run gave,
    float *first_logits;       // of which this is the first,
    const float *chosen_logits; // and this the one from which `chosen` came
    int64_t away, n_away;      // rows of the last run's logits that first_logits gets when they are asked for
    int draws;                 // the last NAME_next had settings: 1, or RLX_SESSION_FEW: of few tokens
    int has_top;               // the last run gave the best tokens
    int32_t best;              // the most likely token by the first row, of the device; -1: it says nothing
    int64_t n_ahead;           // drafts whose rows of states and logits are there
    rlx_stream stream;
    rlx_stops stops;
    rlx_stop stop[RLX_SESSION_MOST_STOPS];
    char stop_text[RLX_SESSION_STOP_BYTES];
    uint32_t stop_back[RLX_SESSION_STOP_BYTES];
    rlx_work work;
    char *out;                 // of text
    rlx_ctx *runs_on;          // ctx, or that of all slots
    struct rlx_slots *slots;   // that it is one of; NULL: it is alone
    uint32_t slot;
    int64_t n_pages; // in slots: pages of the caches that it has
    int64_t n_now;   // in slots: its tokens in the run that is being made
} rlx_session;

// What a status of a session or of a text means.
static inline const char *rlx_session_text(int64_t status)
{
    static const char *const texts[] = {
        "the model has ended its text",
        "a stop string came",
        "the context is full",
        "a pointer is NULL, or the session is not open",
        "the session's block is too short or not aligned",
        "the model cannot be started or run",
        "the context has no room for so many tokens",
        "the session has no tokens yet",
        "a number is outside of its range",
        "a stop string is empty, or they are too many or too long",
        "this is no saved session, or it is damaged",
        "the session is one of another model",
        "too few pages of the caches are free",
        "some of the tokens wait for the next run",
    };
    static const char *const of_text[] = {
        "the work memory is too small",
        "the text is too long",
        "the vocabulary has no such token",
        "no token can be chosen",
        "a setting of sampling is out of its range",
    };
    if (status >= 0)
        return "no error";
    if (status <= RLX_END_TOKEN && status >= RLX_SESSION_WAIT)
        return texts[RLX_END_TOKEN - status];
    return status >= RLX_TEXT_ARGUMENT ? of_text[RLX_TEXT_MEMORY - status] : "an unknown status";
}

#endif
