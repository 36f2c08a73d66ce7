// SPDX-License-Identifier: Apache-2.0
// rlxc chat: a conversation with a language model, in a terminal or through pipes. Answers go to standard
// output, and all else to standard error.
#include "compiler/chat/chat.h"
#include "compiler/commands/drafter.h"
#include "compiler/commands/sampling_options.h"
#include "compiler/commands/speaker.h"
#include "compiler/system/clock.h"
#include "compiler/system/json_scan.h"
#include "runtime-lite/text/rlx_decode.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { MOST_LINE = 16 << 20 };

typedef struct Talk {
    Cli *cli;
    Job job;
    Speaker speaker;
    Drafter drafter;
    Chat chat;
    int32_t end;               // what ends an answer beside eos and eot; -1: none
    int64_t most;              // tokens of an answer
    bool is_terminal;          // somebody types
    bool shows_speed;          // standard error is a terminal
    bool is_lost;     // a message did not fit, and has no answer
    bool is_full;              // no answer can go on
    int64_t n_read, n_written; // tokens in all
    double seconds;
    char *piece;
    size_t piece_room;
} Talk;

// --- Ctrl-C: it stops the answer that is being written, and at other times what it always stops ----

static volatile sig_atomic_t is_stopped;

static void stop_answer(int number)
{
    (void)number;
    is_stopped = 1;
}

static void catch_stop(struct sigaction *before)
{
    struct sigaction action = {.sa_handler = stop_answer, .sa_flags = SA_RESTART};
    is_stopped = 0;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, before);
}

// --- the model -----------------------------------------------------------------------------------

static void say_system(Talk *t)
{
    const char *system = t->cli->options.chat_system;
    chat_forget(&t->chat, 0);
    if (system != NULL)
        chat_say(&t->chat, "system", (TplText){system, strlen(system)});
}

static bool prepare(Talk *t)
{
    Cli *c = t->cli;
    double most = 0;
    if (!options_count(c, "-n", c->options.most_tokens, 1e9, &most) ||
        !options_sampling(c, &t->speaker.sampling) || !drafter_read(c))
        return false;
    if (c->options.args.len != 1)
        return diag_error(c->diag, (Span){0}, E0003, "expected one file: a language model");
    t->most = c->options.most_tokens == NULL ? INT64_MAX : (int64_t)most;
    // The template first: whether it is there does not have to wait until the model is built.
    if (!chat_open(c->arena, c->diag, c->options.args.data[0], c->options.chat_template, &t->chat) ||
        !speaker_open(&t->speaker, c, "chat") || !drafter_open(&t->drafter, c, &t->speaker))
        return false;
    t->end = chat_end(&t->chat, &t->speaker.vocab);
    t->piece_room = RLX_STREAM_BYTES(t->speaker.vocab.longest);
    t->piece = ARENA_ARRAY(c->arena, char, t->piece_room);
    say_system(t);
    return true;
}

// --- answers -------------------------------------------------------------------------------------

static void give_out(Talk *t, const char *text, int64_t n, Str *answer)
{
    rlx_assert(n >= 0);
    str_add_n(answer, text, (size_t)n);
    if (t->cli->options.json != NULL)
        return;
    fwrite(text, 1, (size_t)n, stdout);
    fflush(stdout);
}

static bool ends(const Talk *t, int32_t token)
{
    return token == t->speaker.vocab.eos || token == t->speaker.vocab.eot || token == t->end;
}

// Writes until the answer ends. The last token that was chosen may be one that no run has seen.
static bool write_answer(Talk *t, Str *answer)
{
    Speaker *s = &t->speaker;
    rlx_stream stream = {0};
    for (int64_t i = 0; i < t->most && is_stopped == 0; i++) {
        if (!speaker_feed(s))
            return false;
        const int32_t token = speaker_choose(s);
        if (token < 0)
            return diag_error(t->cli->diag, (Span){0}, E0402, "no logit of the model is a number");
        if (ends(t, token))
            break;
        give_out(t, t->piece, rlx_stream_token(&s->vocab, &stream, token, 0, t->piece, t->piece_room),
                 answer);
        t->n_written++;
        if (s->n == s->context) {
            t->is_full = true;
            break;
        }
        speaker_add(s, token);
    }
    give_out(t, t->piece, rlx_stream_end(&stream, t->piece), answer);
    return true;
}

static void show_speed(const Talk *t, int64_t n_read, int64_t n, double reading, double writing)
{
    if (!t->shows_speed)
        return;
    const int64_t speed = writing > 0 ? (int64_t)((double)n * 10 / writing) : 0;
    fprintf(stderr,
            "(%lld tokens read in %.1f s, %lld written, %lld.%lld tokens/s, %lld of %lld in the context)\n",
            (long long)n_read, reading, (long long)n, (long long)(speed / 10), (long long)(speed % 10),
            (long long)t->speaker.n, (long long)t->speaker.context);
}

// The conversation as tokens. False: reported; *fits: is there room for an answer?
static bool set_tokens(Talk *t, Arena *a, bool *fits)
{
    VocabTokens tokens;
    if (!chat_tokens(&t->chat, a, &t->speaker.vocab, &tokens))
        return false;
    if (tokens.n == 0)
        return diag_error(t->cli->diag, (Span){0}, E0120, "the template makes no tokens of the messages");
    *fits = (int64_t)tokens.n < t->speaker.context;
    if (*fits)
        speaker_set(&t->speaker, tokens.token, (int64_t)tokens.n);
    else
        fprintf(stderr,
                "rlxc: the conversation has %zu tokens, and the context %lld: /reset begins anew, and "
                "--context gives more room\n",
                tokens.n, (long long)t->speaker.context);
    return true;
}

static bool answer(Talk *t)
{
    struct sigaction before;
    Speaker *s = &t->speaker;
    Str text = str_new(t->cli->arena);
    const int64_t written = t->n_written, to_read = s->n - s->n_fed;
    const double start = clock_seconds();
    t->is_full = false;
    catch_stop(&before);
    bool ok = speaker_feed(s);
    const double middle = clock_seconds();
    ok = ok && write_answer(t, &text);
    sigaction(SIGINT, &before, NULL);
    if (!ok)
        return false;
    t->n_read += to_read;
    t->seconds += clock_seconds() - start;
    chat_say(&t->chat, "assistant", (TplText){str_text(&text), text.len});
    if (t->cli->options.json == NULL) {
        printf("\n");
        fflush(stdout);
    }
    if (is_stopped != 0 && t->is_terminal)
        fprintf(stderr, "(stopped)\n");
    if (t->is_full)
        fprintf(
            stderr,
            "rlxc: the context of %lld tokens is full: /reset begins anew, and --context gives more room\n",
            (long long)s->context);
    show_speed(t, to_read, t->n_written - written, middle - start, clock_seconds() - middle);
    return true;
}

static bool hear(Talk *t, TplText line)
{
    const uint32_t n = t->chat.messages.u.list->items.len;
    Arena own = {0};
    bool fits = false;
    chat_say(&t->chat, "user", line);
    bool ok = set_tokens(t, &own, &fits);
    arena_free(&own);
    if (ok && !fits) {
        t->is_lost = true;
        chat_forget(&t->chat, n);
    }
    return ok && (!fits || answer(t));
}

// --- lines ---------------------------------------------------------------------------------------

// A line without its end. False: there is none, or it is too long (reported).
static bool read_line(Talk *t, Str *line)
{
    *line = str_new(t->cli->arena);
    if (t->is_terminal) {
        fputs("> ", stderr);
        fflush(stderr);
    }
    for (int c; (c = getchar()) != '\n';) {
        if (c == EOF)
            return line->len != 0 && !ferror(stdin);
        str_char(line, (char)c);
        if (line->len > MOST_LINE)
            return diag_error(t->cli->diag, (Span){0}, E0004, "a message has at most %d bytes", MOST_LINE);
    }
    if (line->len != 0 && line->data[line->len - 1] == '\r')
        line->data[--line->len] = '\0';
    return true;
}

// A line that is a command. False: it is none. *goes_on: false after /quit.
static bool obey(Talk *t, const char *line, bool *goes_on)
{
    if (strcmp(line, "/quit") == 0)
        *goes_on = false;
    else if (strcmp(line, "/reset") == 0)
        say_system(t);
    else if (strcmp(line, "/help") == 0)
        fprintf(stderr,
                "/reset begins the conversation anew, /quit ends it; Ctrl-C stops an answer. A message that "
                "begins with / has two of them\n");
    else if (line[0] == '/' && line[1] != '/')
        fprintf(stderr, "rlxc: there is no command %s: /reset, /quit, /help\n", line);
    else
        return false;
    return true;
}

static bool talk(Talk *t)
{
    Str line;
    bool goes_on = true;
    while (goes_on && read_line(t, &line)) {
        const char *text = str_text(&line);
        if (line.len == 0 || obey(t, text, &goes_on))
            continue;
        const size_t skip = text[0] == '/';
        if (!hear(t, (TplText){text + skip, line.len - skip}))
            return false;
    }
    if (t->is_terminal && goes_on)
        fputc('\n', stderr);
    return t->cli->diag->n_errors == 0;
}

static void print_json(Talk *t)
{
    const TplList *messages = t->chat.messages.u.list;
    Str s = str_new(t->cli->arena);
    for (uint32_t i = 0; i < messages->items.len; i++) {
        str_add(&s, i == 0 ? "" : ", ");
        for (uint32_t k = 0; k < 2; k++) {
            const TplText v = messages->items.data[i].u.dict->items.data[k].value.u.text;
            str_add(&s, k == 0 ? "{\"role\": " : ", \"content\": ");
            json_print_string(&s, arena_strndup(t->cli->arena, v.data, v.len));
        }
        str_char(&s, '}');
    }
    printf("{\n  \"name\": \"%s\",\n  \"prompt_tokens\": %lld,\n  \"tokens\": %lld,\n  \"seconds\": %.3f,\n"
           "  \"messages\": [%s]\n}\n",
           t->job.host.name, (long long)t->n_read, (long long)t->n_written, t->seconds, str_text(&s));
}

ExitCode cmd_chat(Cli *c)
{
    Talk t = {.cli = c};
    t.speaker.job = &t.job;
    t.is_terminal = isatty(STDIN_FILENO) != 0 && c->options.json == NULL;
    t.shows_speed = isatty(STDERR_FILENO) != 0 && c->options.json == NULL;
    if (!prepare(&t))
        return cli_fail(c);
    cli_progress_end();
    diag_print(c->diag, stderr, c->style);
    if (t.shows_speed)
        fprintf(stderr, "%s; context %lld tokens; /help lists commands\n", speaker_memory(&t.speaker),
                (long long)t.speaker.context);
    const bool ok = talk(&t);
    if (!ok)
        return cli_fail(c);
    if (c->options.json != NULL)
        print_json(&t);
    drafter_close(&t.drafter);
    native_close(&t.speaker.native);
    return t.is_lost && !t.is_terminal ? EXIT_WRONG : EXIT_OK;
}
