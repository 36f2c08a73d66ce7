// SPDX-License-Identifier: Apache-2.0
// The line of progress. It is the only state of the program that is global: there is one terminal.
#include "compiler/cli/cli.h"
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { MAX_COLUMNS = 200, STEP_MS = 100 };

static bool is_allowed, is_drawn;
static int64_t drawn_ms;

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int columns(void)
{
    struct winsize size;
    const int n = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
    return n < MAX_COLUMNS ? n : MAX_COLUMNS;
}

// Cut to the line: what wraps cannot be wiped. Names come from models: only what is plain ASCII is shown.
static void draw(const char *text)
{
    char line[MAX_COLUMNS + 1];
    snprintf(line, (size_t)columns(), "%s", text);
    for (char *c = line; *c != '\0'; c++)
        if (*c < 0x20 || *c > 0x7e)
            *c = '?';
    fprintf(stderr, "\r\033[K%s", line);
    fflush(stderr);
    is_drawn = true;
    drawn_ms = now_ms();
}

void cli_progress_allow(void)
{
    is_allowed = true;
}

void cli_progress(const char *what)
{
    char text[MAX_COLUMNS + 1];
    if (!is_allowed)
        return;
    snprintf(text, sizeof text, "%s ...", what);
    draw(text);
}

void cli_progress_step(const char *what, uint64_t done, uint64_t total)
{
    char text[MAX_COLUMNS + 1];
    if (!is_allowed || (is_drawn && now_ms() - drawn_ms < STEP_MS))
        return;
    if (total == 0)
        snprintf(text, sizeof text, "%s: %llu ...", what, (unsigned long long)done);
    else
        snprintf(text, sizeof text, "%s: %llu of %llu ...", what, (unsigned long long)done,
                 (unsigned long long)total);
    draw(text);
}

void cli_progress_end(void)
{
    if (is_drawn)
        fputs("\r\033[K", stderr);
    is_drawn = false;
}
