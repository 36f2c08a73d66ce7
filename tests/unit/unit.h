// SPDX-License-Identifier: Apache-2.0
// What the unit tests share: cmocka with its includes, and how to see a program end on purpose.
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

// cmocka.h wants these four before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Runs fn in a child process whose stderr is hidden. The result is waitpid's status.
static inline int status_of(void (*fn)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr))
            _exit(99);
        fn();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static inline void assert_exits(void (*fn)(void))
{
    int status = status_of(fn);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_FAILURE);
}

static inline void assert_aborts(void (*fn)(void))
{
    int status = status_of(fn);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

#endif
