// SPDX-License-Identifier: Apache-2.0
// See interrupt.h. The handler only notes the signal and passes it on: whoever holds gives up at the next
// step, and cleans up as after any other failure. Children have process groups of their own, because C
// compilers start programs that would go on without them. Any thread may be the one that a signal meets.
#include "compiler/system/interrupt.h"
#include "base/diag.h"
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && sizeof(pid_t) <= sizeof(int), "what handlers use");
// PATIENCE: seconds. Many programs send one signal twice at once: shells, timeout.
enum { MOST_CHILDREN = 128, N_SIGNALS = 4, PATIENCE = 2 };
static const int signals[N_SIGNALS] = {SIGHUP, SIGINT, SIGPIPE, SIGTERM};
static struct sigaction before[N_SIGNALS];
static uint32_t holds;
static atomic_int came;
static atomic_uint since; // seconds
static atomic_int children[MOST_CHILDREN]; // 0: none

// After the handler, where it is called from one.
static void end_by(int signal)
{
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    sigaction(signal, &usual, NULL);
    raise(signal);
}

static void note(int signal)
{
    const int error = errno;
    const unsigned now = (unsigned)time(NULL);
    if (came != 0 && signal != SIGPIPE && now - since >= PATIENCE)
        end_by(signal);
    if (came == 0)
        since = now;
    came = signal;
    for (uint32_t i = 0; i < MOST_CHILDREN; i++) {
        const pid_t child = children[i];
        if (child > 0)
            kill(-child, SIGTERM);
    }
    errno = error;
}

// What is ignored stays so, as nohup wants it.
void interrupt_hold(void)
{
    const struct sigaction noted = {.sa_handler = note, .sa_flags = SA_RESTART};
    if (holds++ != 0)
        return;
    for (uint32_t i = 0; i < N_SIGNALS; i++)
        if (sigaction(signals[i], NULL, &before[i]) == 0 && before[i].sa_handler == SIG_DFL)
            sigaction(signals[i], &noted, NULL);
}

static void restore(void)
{
    for (uint32_t i = 0; i < N_SIGNALS; i++)
        if (before[i].sa_handler == SIG_DFL)
            sigaction(signals[i], &before[i], NULL);
}

void interrupt_release(void)
{
    rlx_assert(holds > 0);
    if (--holds != 0)
        return;
    restore();
    if (came != 0)
        end_by(came);
}

bool interrupt_came(void)
{
    return came != 0;
}

// --- children ------------------------------------------------------------------------------------

// Nothing that its parent holds is its own. In its group it is in the background, where a terminal may stop
// those who write to it (stty tostop).
static void begin_child(void)
{
    setpgid(0, 0);
    signal(SIGTTOU, SIG_IGN);
    for (uint32_t i = 0; i < MOST_CHILDREN; i++)
        children[i] = 0;
    restore();
    holds = 0;
    came = 0;
}

static void replace(pid_t old, pid_t new)
{
    for (uint32_t i = 0; i < MOST_CHILDREN; i++)
        if (children[i] == old) {
            children[i] = new;
            return;
        }
}

pid_t interrupt_fork(void)
{
    rlx_assert(holds > 0);
    sigset_t ours, others;
    sigemptyset(&ours);
    for (uint32_t i = 0; i < N_SIGNALS; i++)
        sigaddset(&ours, signals[i]);
    sigprocmask(SIG_BLOCK, &ours, &others);
    const pid_t child = fork();
    if (child == 0) {
        begin_child();
    } else if (child > 0) {
        setpgid(child, child); // whichever of the two comes first
        replace(0, child);
    }
    if (child > 0 && came != 0)
        kill(-child, SIGTERM);
    sigprocmask(SIG_SETMASK, &others, NULL);
    return child;
}

int interrupt_wait(pid_t child)
{
    int status = -1;
    pid_t ended;
    do
        ended = waitpid(child, &status, 0);
    while (ended < 0 && errno == EINTR);
    replace(child, 0);
    return ended < 0 ? -1 : status;
}
