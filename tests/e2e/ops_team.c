// SPDX-License-Identifier: Apache-2.0
// See ops_team.h.
#define _XOPEN_SOURCE 700
#include "ops_team.h"

#include <stdlib.h>
#include <ucontext.h>

enum { STACK_BYTES = 1 << 20 };

typedef struct Part {
    rlx_team team; // first: what `wait` is given
    ucontext_t at;
    bool has_ended;
} Part;

static Part part[TEAM_MAX];
static ucontext_t scheduler;
static TeamFn running;
static char **running_on;
static Part *current;

static void wait(rlx_team *team)
{
    Part *p = (Part *)(void *)team;
    swapcontext(&p->at, &scheduler);
}

static void run_part(void)
{
    Part *p = current;
    running(running_on, &p->team);
    p->has_ended = true;
    swapcontext(&p->at, &scheduler);
}

static void start(ptrdiff_t i, ptrdiff_t parts, char *stack)
{
    part[i] = (Part){.team = {i, parts, wait}};
    getcontext(&part[i].at);
    part[i].at.uc_stack.ss_sp = stack;
    part[i].at.uc_stack.ss_size = STACK_BYTES;
    makecontext(&part[i].at, run_part, 0);
}

bool team_run(TeamFn fn, char **buffers, ptrdiff_t parts, TeamOrder order)
{
    char *stacks = malloc((size_t)parts * STACK_BYTES);
    ptrdiff_t n_ended = 0;
    running = fn;
    running_on = buffers;
    for (ptrdiff_t i = 0; i < parts && stacks != NULL; i++)
        start(i, parts, stacks + i * STACK_BYTES);
    while (n_ended == 0 && stacks != NULL)
        for (ptrdiff_t i = 0; i < parts; i++) {
            current = &part[order == TEAM_FIRST_TO_LAST ? i : parts - 1 - i];
            swapcontext(&scheduler, &current->at);
            n_ended += current->has_ended;
        }
    free(stacks);
    return n_ended == parts;
}
