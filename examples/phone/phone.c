// SPDX-License-Identifier: Apache-2.0
// Talks with a language model, turn by turn: each line of standard input is what the user says, and the
// answer goes to standard output. The model, its vocabulary and its sessions are one C file that rlxc
// generates from a GGUF file. All memory is static, as a phone or a device may want it.
#include "model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = MODEL_TEXT_BYTES, TAGS = 5 };

// What stands around turns. \n and \\ in an argument are a line break and a backslash.
enum { SYSTEM, PREFIX, SUFFIX, CLOSE, STOP };
static const char *const tag_names[TAGS] = {"--system", "--prefix", "--suffix", "--close", "--stop"};
static char *tag[TAGS];
static const char *kept; // a file for the talk, or NULL
static long most = 200;  // tokens of an answer

static RLX_ALIGNED unsigned char memory[MODEL_SESSION_BYTES];
static unsigned char saved[MODEL_SESSION_BYTES + 1024];
static rlx_session talk;
static int64_t n_system; // tokens that stay when the talk outgrows the context

static int usage(void)
{
    fprintf(stderr,
            "usage: phone [--system TEXT] [--prefix TEXT] [--suffix TEXT] [--close TEXT] [--stop TEXT]\n"
            "             [--temperature T] [--seed N] [-n TOKENS] [--keep FILE]\n"
            "A turn is PREFIX, a line of standard input, SUFFIX, the answer, CLOSE. SYSTEM comes first.\n"
            "STOP ends an answer; --keep reads the talk from FILE, if it is there, and writes it back.\n");
    return 2;
}

static int fail(const char *what, int64_t status)
{
    fprintf(stderr, "phone: %s: %s\n", what, rlx_session_text(status));
    return 1;
}

static void unescape(char *text)
{
    char *to = text;
    for (const char *at = text; *at != '\0'; at++)
        *to++ = *at != '\\' || at[1] == '\0' ? *at : *++at == 'n' ? '\n' : *at;
    *to = '\0';
}

static int read_options(int argc, char **argv, rlx_sampling *sampling)
{
    for (int i = 1; i < argc; i += 2) {
        int t = 0;
        if (i + 1 == argc)
            return 0;
        while (t < TAGS && strcmp(argv[i], tag_names[t]) != 0)
            t++;
        if (t < TAGS)
            unescape(tag[t] = argv[i + 1]);
        else if (strcmp(argv[i], "--temperature") == 0)
            sampling->temperature = strtof(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--seed") == 0)
            sampling->random = rlx_sampling_start(strtoull(argv[i + 1], NULL, 10)).random;
        else if (strcmp(argv[i], "-n") == 0)
            most = strtol(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--keep") == 0)
            kept = argv[i + 1];
        else
            return 0;
    }
    return 1;
}

// The oldest half of what was said is forgotten. 0: nothing is left to forget.
static int forget(void)
{
    const int64_t said = talk.n_tokens - n_system;
    return said > 1 && model_shift(&talk, n_system, (said + 1) / 2) == 0;
}

// Adds a text.
static int64_t say(const char *text, unsigned flags)
{
    const size_t n = text == NULL ? 0 : strlen(text);
    int64_t status;
    do
        status = model_feed_text(&talk, text, n, flags | RLX_SESSION_LATER);
    while (status == RLX_SESSION_FULL && forget());
    return status;
}

// The answer, as it comes. Returns 0, or what went wrong.
static int64_t answer(rlx_sampling *sampling)
{
    int32_t token = 0;
    for (long i = 0; i < most && token >= 0; i++) {
        token = model_next(&talk, sampling);
        fwrite(talk.text, 1, talk.n_text, stdout);
        fflush(stdout);
        if (token == RLX_END_CONTEXT && forget())
            token = 0;
    }
    if (token >= 0 && model_end_text(&talk) == 0) // what was held back
        fwrite(talk.text, 1, talk.n_text, stdout);
    putchar('\n');
    return token > RLX_END_TOKEN || token < RLX_END_CONTEXT ? token : 0;
}

static int64_t turn(const char *line, rlx_sampling *sampling)
{
    int64_t status = say(tag[PREFIX], RLX_TOKENS_CONTROL);
    if (status >= 0)
        status = say(line, 0); // what users write has no control tokens
    if (status >= 0)
        status = say(tag[SUFFIX], RLX_TOKENS_CONTROL);
    if (status >= 0)
        status = answer(sampling);
    return status >= 0 ? say(tag[CLOSE], RLX_TOKENS_CONTROL) : status;
}

// A new talk begins with SYSTEM; a kept one has it already.
static int64_t begin(void)
{
    FILE *f = kept == NULL ? NULL : fopen(kept, "rb");
    const char *const stops[] = {tag[STOP]};
    int64_t status = model_open(&talk, memory, sizeof memory, NULL, 0);
    if (status >= 0)
        status = model_stop_at(&talk, stops, tag[STOP] != NULL);
    if (status >= 0)
        n_system = status = say(tag[SYSTEM], RLX_TOKENS_FRAME | RLX_TOKENS_CONTROL);
    if (f == NULL)
        return status;
    const size_t n = fread(saved, 1, sizeof saved, f);
    fclose(f);
    return status >= 0 ? model_restore(&talk, saved, n) : status;
}

static int keep(void)
{
    const int64_t n = model_save(&talk, saved, sizeof saved);
    FILE *f = n < 0 ? NULL : fopen(kept, "wb");
    const int is_written = f != NULL && fwrite(saved, 1, (size_t)n, f) == (size_t)n;
    if (f == NULL || fclose(f) != 0 || !is_written) {
        fprintf(stderr, "phone: %s cannot be written\n", kept);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static char line[LINE];
    rlx_sampling sampling = rlx_sampling_start(1);
    if (!read_options(argc, argv, &sampling))
        return usage();
    int64_t status = begin();
    if (status < 0)
        return fail("begin", status);
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        status = turn(line, &sampling);
        if (status < 0)
            return fail("turn", status);
    }
    return kept == NULL ? 0 : keep();
}
