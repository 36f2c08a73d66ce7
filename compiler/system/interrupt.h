// SPDX-License-Identifier: Apache-2.0
// Signals that end rlxc (Ctrl-C, kill, a closed terminal) while files or folders are half made: they wait
// until those are gone. Where nothing is half made signals do what they always do.
#ifndef COMPILER_SYSTEM_INTERRUPT_H
#define COMPILER_SYSTEM_INTERRUPT_H

#include <stdbool.h>
#include <sys/types.h>

// To be called before such a thing is made. Calls nest.
void interrupt_hold(void);
// It is in its place, or gone. The last one ends the process by the signal that came meanwhile.
void interrupt_release(void);
// Has one come? Then what is being made is given up, without a message. Another signal some
// seconds later does not wait.
bool interrupt_came(void);

// fork, between hold and release: signals are passed on to the child and to all that it starts. The child
// holds nothing.
pid_t interrupt_fork(void);
// Waits until a child of interrupt_fork has ended. Its status as waitpid gives it; -1 with errno: none.
int interrupt_wait(pid_t child);

#endif
