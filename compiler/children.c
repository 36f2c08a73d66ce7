// SPDX-License-Identifier: Apache-2.0
// See children.h. Programs are started directly, without a shell.
#include "compiler/children.h"
#include "base/arena.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

uint32_t children_processors(void)
{
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > 64 ? 64 : (uint32_t)n;
}

static pid_t start(const char *dir, const ChildCommand *c)
{
    const pid_t child = fork();
    if (child != 0)
        return child;
    if (chdir(dir) == 0)
        execvp(c->argv[0], (char *const *)(uintptr_t)c->argv);
    fprintf(stderr, "cannot start %s: %s\n", c->argv[0], strerror(errno));
    _exit(127);
}

static bool wait_for(Diag *d, const char *dir, const ChildCommand *c, pid_t child)
{
    int status = 0;
    pid_t ended = child;
    do
        ended = child < 0 ? child : waitpid(child, &status, 0);
    while (ended < 0 && child >= 0 && errno == EINTR);
    if (ended < 0)
        return diag_error(d, (Span){0}, E0005, "cannot start %s: %s", c->argv[0], strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return diag_error(d, (Span){0}, E0005, "%s failed on %s in %s", c->argv[0], c->what, dir);
    return true;
}

// In their order, so that messages have one, too. What ends early waits for those before it.
bool children_run(Diag *d, const char *dir, const ChildCommands *commands)
{
    enum { MOST = 64 };
    pid_t child[MOST];
    const uint32_t n = commands->list.len, at_once = children_processors();
    uint32_t started = 0;
    bool ok = true;
    for (uint32_t ended = 0; ended < n && (ok || ended < started); ended++) {
        for (; ok && started < n && started - ended < at_once; started++)
            child[started % MOST] = start(dir, &commands->list.data[started]);
        ok = wait_for(d, dir, &commands->list.data[ended], child[ended % MOST]) && ok;
    }
    return ok;
}
