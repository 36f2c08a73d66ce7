// SPDX-License-Identifier: Apache-2.0
// Compiles emitted C with a system compiler and loads it. Shared by the tests that run what rlxc prints.
#ifndef TESTS_CC_RUN_H
#define TESTS_CC_RUN_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CC_WARNINGS "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror "

typedef struct CcRun {
    char dir[64];
    void *lib;
} CcRun;

static inline bool cc_exists(const char *cc)
{
    char command[256];
    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", cc);
    return system(command) == 0;
}

static inline void cc_close(CcRun *run)
{
    char command[128];
    if (run->lib)
        dlclose(run->lib);
    snprintf(command, sizeof command, "rm -rf %s", run->dir);
    if (system(command) != 0)
        fprintf(stderr, "%s stays behind\n", run->dir);
}

// Writes the text, and runs `cc flags` on it: to a library that is loaded when out_flags makes one. False:
// the compiler said why.
static inline bool cc_build(CcRun *run, const char *cc, const char *flags, const char *text)
{
    char path[128], command[1024];
    *run = (CcRun){.dir = "/tmp/rlxc_test_XXXXXX"};
    if (!mkdtemp(run->dir))
        return false;
    snprintf(path, sizeof path, "%s/k.c", run->dir);
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    fputs(text, f);
    fclose(f);
    snprintf(command, sizeof command, "%s " CC_WARNINGS "%s -o %s/k.so %s -lm", cc, flags, run->dir, path);
    if (system(command) != 0) {
        fprintf(stderr, "failed: %s\n", command);
        return false;
    }
    if (strstr(flags, "-shared")) {
        snprintf(path, sizeof path, "%s/k.so", run->dir);
        run->lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!run->lib)
            fprintf(stderr, "%s\n", dlerror());
    }
    return !strstr(flags, "-shared") || run->lib;
}

#endif
