// SPDX-License-Identifier: Apache-2.0
// See children.h. Programs are started directly, without a shell.
#include "compiler/system/children.h"
#include "compiler/system/interrupt.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

uint32_t children_processors(void)
{
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > 64 ? 64 : (uint32_t)n;
}

// What a compiler prints is no result of rlxc, and it has nothing to read.
static void use_streams(const ChildCommand *c)
{
    const int nothing = open("/dev/null", O_RDWR);
    if (nothing >= 0 && c->what == NULL)
        dup2(nothing, STDERR_FILENO);
    if (nothing >= 0 && nothing != STDIN_FILENO) {
        dup2(nothing, STDIN_FILENO);
        close(nothing);
    }
    dup2(STDERR_FILENO, STDOUT_FILENO);
}

static pid_t start(const char *dir, const ChildCommand *c)
{
    const pid_t child = interrupt_fork();
    if (child != 0)
        return child;
    use_streams(c);
    if (chdir(dir) == 0)
        execvp(c->argv[0], (char *const *)(uintptr_t)c->argv);
    fprintf(stderr, "cannot start %s: %s\n", c->argv[0], strerror(errno));
    _exit(127);
}

bool children_run_program(const char *const *words)
{
    const ChildCommand c = {words, ""};
    interrupt_hold();
    const pid_t child = start(".", &c);
    const int status = child < 0 ? -1 : interrupt_wait(child);
    interrupt_release();
    return status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool wait_for(Diag *d, const char *dir, const ChildCommand *c, pid_t child)
{
    const int status = child < 0 ? -1 : interrupt_wait(child);
    if (interrupt_came())
        return false;
    if (status == -1)
        return diag_error(d, (Span){0}, E0005, "cannot start %s: %s", c->argv[0], strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return diag_error(d, (Span){0}, E0005, "%s failed on %s in %s", c->argv[0],
                          c->what != NULL ? c->what : "a file", dir);
    return true;
}

// In their order, so that messages have one, too. What ends early waits for those before it.
bool children_run(Diag *d, const char *dir, const ChildCommands *commands)
{
    enum { MOST = 64 };
    pid_t child[MOST];
    const uint32_t n = commands->list.len, at_once = children_processors();
    rlx_assert(at_once >= 1 && at_once <= MOST);
    uint32_t started = 0;
    bool ok = true;
    interrupt_hold();
    for (uint32_t ended = 0; ended < n && (ok || ended < started); ended++) {
        for (; ok && started < n && started - ended < at_once; started++)
            child[started % MOST] = start(dir, &commands->list.data[started]);
        ok = wait_for(d, dir, &commands->list.data[ended], child[ended % MOST]) && ok;
    }
    interrupt_release();
    return ok;
}
