// SPDX-License-Identifier: Apache-2.0
// Makes answers: requests wait for a slot, and those that have one go on together. A slot whose request has
// ended keeps its tokens until their pages are needed, so that a request that begins like them is quick.
#include "server.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static RLX_ALIGNED unsigned char memory[MODEL_SESSION_BYTES];
static model_slots slots;
static Request *running[MODEL_SLOTS], *waiting;
static uint64_t last_use[MODEL_SLOTS], n_uses, n_tokens;

int engine_open(void)
{
    return model_open(&slots, memory, sizeof memory, NULL, 0);
}

int engine_add(Request *r)
{
    Request **at = &waiting;
    int n = 0;
    while (*at != NULL && n < MOST_WAITING) {
        at = &(*at)->next;
        n++;
    }
    if (n == MOST_WAITING)
        return 0;
    *at = r;
    answer_begin(r);
    return 1;
}

static void finish(Request *r, const char *why)
{
    r->finish = tools_end(r, why);
    r->state = DONE;
    answer_end(r);
}

void engine_cancel(Request *r)
{
    for (Request **at = &waiting; *at != NULL; at = &(*at)->next)
        if (*at == r) {
            *at = r->next;
            break;
        }
    for (int i = 0; i < MODEL_SLOTS; i++)
        if (running[i] == r)
            running[i] = NULL;
    r->state = DONE;
}

Load engine_load(void)
{
    Load load = {0, 0, n_tokens};
    for (const Request *r = waiting; r != NULL; r = r->next)
        load.waiting++;
    for (int i = 0; i < MODEL_SLOTS; i++)
        load.running += running[i] != NULL;
    return load;
}

// --- slots ---------------------------------------------------------------------------------------

// The free slot that has most of a prompt already, of equal ones that which was free for longest. -1: none.
static int find_slot(const Request *r)
{
    int best = -1;
    int64_t best_same = -1;
    for (int i = 0; i < MODEL_SLOTS; i++) {
        const rlx_session *s = &slots.slot[i];
        int64_t same = 0;
        while (same < s->n_tokens && same < r->n_tokens && s->tokens[same] == r->tokens[same])
            same++;
        if (running[i] == NULL &&
            (same > best_same || (same == best_same && last_use[i] < last_use[best]))) {
            best = i;
            best_same = same;
        }
    }
    return best;
}

// Gives back the pages of the slot that is free for longest. 0: none has any.
static int forget_one(void)
{
    int oldest = -1;
    for (int i = 0; i < MODEL_SLOTS; i++)
        if (running[i] == NULL && slots.slot[i].n_tokens != 0 &&
            (oldest < 0 || last_use[i] < last_use[oldest]))
            oldest = i;
    return oldest >= 0 && model_rewind(&slots.slot[oldest], 0) == 0;
}

// The text of the answer begins.
static void start_grammar(Request *r)
{
    if (r->grammar == NULL || (r->calls.may_come && !r->calls.is_opened))
        return;
    rlx_parse_start(&r->parse, r->grammar, r->parse_memory, sizeof r->parse_memory);
    r->sampling.allows = model_allows;
    r->sampling.allows_with = &r->parse;
}

// Does the grammar end the text behind the token? A reason, or NULL.
static const char *ends_by_grammar(Request *r, int32_t token)
{
    if (r->sampling.allows == NULL) {
        tools_note(r, token); // calls may begin with a control token
        start_grammar(r);
        return NULL;
    }
    if (model_advance(&r->parse, token) != 0)
        return "length"; // it nests deeper than there is memory for
    return rlx_parse_is_over(&r->parse) ? "stop" : NULL;
}

// Puts the first request that waits into a slot. 0: it has to wait.
static int start_one(void)
{
    Request *r = waiting;
    const int i = r == NULL ? -1 : find_slot(r);
    rlx_session *s = i < 0 ? NULL : &slots.slot[i];
    int64_t same;
    int status;
    if (s == NULL)
        return 0;
    running[i] = r; // what is forgotten must not be this one
    same = model_reuse(s, r->tokens, (size_t)r->n_tokens);
    status = same < 0 ? (int)same : model_stop_at(s, r->stops, r->n_stops);
    if (status >= 0)
        do
            status = model_feed(s, r->tokens + same, (size_t)(r->n_tokens - same));
        while (status == RLX_SESSION_PAGES && forget_one());
    if (status == RLX_SESSION_PAGES) { // those of others that are running; wait for them
        (void)model_rewind(s, 0);
        running[i] = NULL;
        return 0;
    }
    waiting = r->next;
    r->state = RUNNING;
    last_use[i] = ++n_uses;
    start_grammar(r);
    if (status < 0) {
        fprintf(stderr, "server: %s\n", rlx_session_text(status));
        engine_cancel(r);
    }
    return 1;
}

// Why an answer ends where there is no other token. NULL: by an error.
static const char *reason_of(const Request *r, int32_t status)
{
    if (status == RLX_END_TOKEN || status == RLX_END_STOP)
        return "stop";
    const int is_full = status == RLX_TEXT_NONE && r->grammar != NULL && r->parse.is_full;
    return status == RLX_END_CONTEXT || status == RLX_SESSION_PAGES || is_full ? "length" : NULL;
}

static void go_on(int i)
{
    Request *r = running[i];
    rlx_session *s = &slots.slot[i];
    const int32_t token = model_next(s, &r->sampling);
    if (token == RLX_SESSION_WAIT || (token == RLX_SESSION_PAGES && forget_one()))
        return;
    r->n_answer += token >= 0;
    n_tokens += token >= 0;
    if (token >= 0)
        logprobs_note(r, s);
    r->n_sure = s->n_sure;
    tools_feed(r, s->text, s->n_text);
    const char *end = token >= 0 ? ends_by_grammar(r, token) : reason_of(r, token);
    if (token >= 0 && end == NULL) {
        if (r->n_answer < r->most && now() - r->begin < ANSWER_SECONDS)
            return;
        end = "length";
    }
    running[i] = NULL;
    if (token >= 0 && model_end_text(s) == 0) {
        r->n_sure = s->n_sure;
        tools_feed(r, s->text, s->n_text);
    }
    if (end != NULL) {
        finish(r, end);
        return;
    }
    fprintf(stderr, "server: %s\n", rlx_session_text(token));
    engine_cancel(r);
}

// Has the client closed its connection?
static int is_gone(const Request *r)
{
    char c;
    const ssize_t n = recv(r->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

void engine_step(void)
{
    for (Request *r = waiting, *next; r != NULL; r = next) {
        next = r->next;
        if (is_gone(r) || now() - r->begin > ANSWER_SECONDS)
            engine_cancel(r);
    }
    for (int i = 0; i < MODEL_SLOTS; i++)
        if (running[i] != NULL && is_gone(running[i]))
            engine_cancel(running[i]);
    while (start_one())
        ;
    for (int i = 0; i < MODEL_SLOTS; i++)
        if (running[i] != NULL)
            go_on(i);
}
