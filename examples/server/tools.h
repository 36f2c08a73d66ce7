// SPDX-License-Identifier: Apache-2.0
// Tools: which calls of functions an answer may have, and which it has.
#ifndef TOOLS_H
#define TOOLS_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Text {
    char *data;
    size_t n, room;
} Text;

struct Request;

enum { MOST_TOOLS = 128 };

// An answer with calls: open, NAME, middle, ARGUMENTS, between, NAME, middle, ARGUMENTS, close.
typedef struct Form {
    char *open, *middle, *between, *close; // between: NULL: there is never more than one call
    char *begin;                           // the word in `open` that tells calls from text
    const char *rest;                      // what `open` has behind it
    int is_first;                          // the word only counts where an answer begins
    int32_t opening;                       // the control token before `open`; -1: none
    int takes_texts;                       // arguments of earlier calls go into the template as they come
    int is_known;
} Form;

typedef struct Choice {
    int is_none, has_to;
    const char *only; // the one function that may be called
} Choice;

typedef enum CallPlace { OUTSIDE, OPENING, NAME, MIDDLE, ARGUMENTS, BEHIND } CallPlace;

// The calls of an answer, as they come.
typedef struct Calls {
    int may_come, is_opened; // opened: behind the control token that begins calls
    CallPlace place;
    const char *words; // that come where calls open
    Text held; // text of which it is not known yet what it is
    int has_text;
    int depth, is_in_string, is_escaped; // in arguments
    Text arguments;                      // of the last call
    cJSON *list;                         // of a whole answer
    int n;
} Calls;

// tools_form.c. Learns from the template how the model writes calls.
extern Form form;
void tools_open(void);

// tools_grammar.c. NULL: why.
struct rlxc_grammar *tools_grammar(const cJSON *tools, Choice choice, int one_only, char *why, size_t room);

// tools.c
// `tools`, `tool_choice` and `parallel_tool_calls` of a request. NULL: they are taken; or what is wrong.
const char *tools_read(struct Request *r);
// Behind the prompt, if the answer has to be a call. 0: the context is full.
int tools_add_opening(struct Request *r);

void tools_note(struct Request *r, int32_t token);                  // that was chosen
void tools_feed(struct Request *r, const char *text, size_t n);     // of the answer
const char *tools_end(struct Request *r, const char *why);          // finish_reason
void tools_free(struct Request *r);

#endif
