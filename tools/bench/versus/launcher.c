// SPDX-License-Identifier: Apache-2.0
// Starts a program on one core and prints the seconds to the first byte of its output and the peak of
// its resident memory in KiB: launcher CORE PROGRAM ARGUMENTS...
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    int end[2], status = 0;
    char byte;
    struct rusage usage;
    cpu_set_t core;
    if (argc < 3 || pipe(end) != 0)
        return 2;
    CPU_ZERO(&core);
    CPU_SET((unsigned)strtol(argv[1], NULL, 10), &core);
    sched_setaffinity(0, sizeof core, &core);
    const double start = now();
    const pid_t child = fork();
    if (child == 0) {
        dup2(end[1], 1);
        close(end[0]);
        close(end[1]);
        execv(argv[2], argv + 2);
        _exit(127);
    }
    close(end[1]);
    const ssize_t first = read(end[0], &byte, 1);
    const double seconds = now() - start;
    while (read(end[0], &byte, 1) > 0)
        ;
    if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0 || first != 1)
        return 1;
    printf("%.9f %ld\n", seconds, usage.ru_maxrss);
    return 0;
}
