// SPDX-License-Identifier: Apache-2.0
// What the programs of this folder say when something is not as it should be; main returns `failed`.
#ifndef TESTS_RUNTIME_CHECK_H
#define TESTS_RUNTIME_CHECK_H

#include <stdio.h>
#include <string.h>

static int failed;

static void check(int ok, const char *what, int line)
{
    if (!ok) {
        fprintf(stderr, "FAILED: line %d: %s\n", line, what);
        failed = 1;
    }
}
#define CHECK(expression) check((expression), #expression, __LINE__)

// The call must give this status and leave all memory of the context, `one`, as it is; `before` has the type
// of `one`.
#define REFUSES(call, status)                                                                                \
    do {                                                                                                     \
        memcpy(&before, &one, sizeof one);                                                                   \
        CHECK((call) == (status));                                                                           \
        check(memcmp(&before, &one, sizeof one) == 0, #call " changed something", __LINE__);                 \
    } while (0)

#endif
