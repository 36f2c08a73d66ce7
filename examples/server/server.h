// SPDX-License-Identifier: Apache-2.0
// What the files of the server share: a request from its text to its answer.
#ifndef SERVER_H
#define SERVER_H

#include "model.h"
#include "rlxc_text.h"
#include "tools.h"
#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum {
    MOST_BODY = 1 << 20,    // bytes of a request
    MOST_CONNECTIONS = 128, // at the same time
    MOST_WAITING = 64,      // requests for which no slot is free
    MOST_STOPS = RLX_SESSION_MOST_STOPS,
    MOST_BEST = 20, // tokens that are shown in the place of each one
    MOST_NESTED = 512, // calls of rules of a grammar within each other, and ways to read a text
    WHY_BYTES = 256,   // of a message that says what is wrong
    ANSWER_SECONDS = 600 // for an answer to be made
};
#ifndef READ_SECONDS
#define READ_SECONDS 15 // for a whole request to come, or a finished answer to go
#endif

typedef enum State { WAITING, RUNNING, DONE } State;

typedef struct Request {
    struct Request *next; // that waits
    State state;
    int is_chat, is_stream, has_usage;
    cJSON *json;                   // what came; stops point into it
    int32_t tokens[MODEL_CONTEXT]; // of the prompt
    int64_t n_tokens, most;        // most: tokens of the answer
    const char *stops[MOST_STOPS];
    size_t n_stops;
    rlx_sampling sampling;
    const rlx_grammar *grammar; // of the answer; NULL: any text
    rlxc_grammar *own_grammar;  // NULL: it is one of the program
    const cJSON *tools;         // that the template is given; NULL: none
    Calls calls;                // of tools
    rlx_parse parse;            // of it, as far as it is there
    RLX_ALIGNED unsigned char parse_memory[RLX_PARSE_BYTES(MOST_NESTED)];
    int has_logprobs, n_best;        // of each token of the answer, and the best ones in its place
    cJSON *logprobs;                 // of tokens that were not given out yet; NULL: none
    int64_t n_sure, n_given;         // tokens of the session whose text is out; entries that were given out
    double n_characters;             // of the tokens that have entries
    int64_t n_answer;   // tokens
    const char *finish; // "stop", "length" or "tool_calls", once it is DONE; NULL: it was given up
    Text text;          // of the answer, or the events with it
    size_t n_sent;      // of them
    char id[40];
    time_t begin;
    int fd;
} Request;

typedef struct Load {
    int running, waiting; // requests
    uint64_t tokens;      // of all answers so far
} Load;

// Monotonic seconds.
time_t now(void);
void text_add(Text *t, const char *data, size_t n);
void text_free(Text *t);
char *text_copy(const char *data, size_t n); // free() takes it

// requests.c. An HTTP status: 200, or another one and what is wrong.
int request_read(Request *r, const char *body, size_t n, const char **why);

// Bytes of the character at p; 0: it is none that UTF-8 allows, or a zero.
size_t character(const unsigned char *p, size_t n);

// prompt.c
int prompt_open(char *why, size_t room); // 0: why
// What the template makes of messages, which it takes over, and tools (NULL: none); free() takes it.
// asks: the begin of an answer follows. NULL: why.
char *prompt_text(cJSON *messages, const cJSON *tools, int asks, char *why, size_t room);
// The control token with which a text begins, and its length; -1: none.
int32_t prompt_control(const char *text, size_t n, size_t *length);
// Add the tokens of a text of the template, of any text, or one. 0: the context is full.
int prompt_cut(Request *r, const char *text);
int prompt_add(Request *r, const char *text, size_t n, unsigned flags);
int prompt_add_token(Request *r, int32_t token);

// logprobs.c
void logprobs_note(Request *r, const rlx_session *s); // of the token that was chosen
cJSON *logprobs_take(Request *r);                     // a member of a choice

// answers.c. The model's name is that of the program's option.
extern const char *model_name;
char *answer_error(int status, const char *why);
char *answer_models(void);
char *answer_health(Load load);
char *answer_whole(Request *r);
void answer_begin(Request *r);                           // events of a stream
void answer_add(Request *r, const char *text, size_t n); // also of a whole answer
void answer_call(Request *r, const char *name);          // a call of a tool begins
void answer_arguments(Request *r, const char *text, size_t n); // more of those of the last call
void answer_end(Request *r);

// engine.c
int engine_open(void);      // a status of sessions
int engine_add(Request *r); // 0: too many wait
void engine_cancel(Request *r);
Load engine_load(void);
void engine_step(void);     // one token for each request, or a part of its prompt

// http.c
int http_serve(uint16_t port); // until a signal ends it. 0: the port cannot be used

#endif
