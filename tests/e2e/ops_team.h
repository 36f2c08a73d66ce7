// SPDX-License-Identifier: Apache-2.0
// Runs code that threads share without threads: each part is a coroutine that runs from one barrier to the
// next, in an order that the test picks. What depends on another part without a barrier in between goes wrong
// every time.
#ifndef TESTS_E2E_OPS_TEAM_H
#define TESTS_E2E_OPS_TEAM_H

#include <stdbool.h>
#include <stddef.h>

typedef struct rlx_team {
    ptrdiff_t part, parts;
    void (*wait)(struct rlx_team *team);
} rlx_team;

// The text of these for the generated code, which knows no headers of the tests.
#define TEAM_TEXT                                                                                            \
    "typedef struct rlx_team {\n    ptrdiff_t part, parts;\n    void (*wait)(struct rlx_team *team);\n} "    \
    "rlx_team;\nstatic inline void rlx_barrier(rlx_team *team)\n{\n    team->wait(team);\n}\n"

typedef enum TeamOrder { TEAM_FIRST_TO_LAST, TEAM_LAST_TO_FIRST } TeamOrder;
typedef void (*TeamFn)(char **buffers, rlx_team *team);

enum { TEAM_MAX = 8 };

// False: some parts have ended while others wait.
bool team_run(TeamFn fn, char **buffers, ptrdiff_t parts, TeamOrder order);

#endif
