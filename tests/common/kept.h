// SPDX-License-Identifier: Apache-2.0
// What passed before and would pass again, by a hash of all that it depends on, so that a test need not
// repeat it when another part of the compiler has changed. Only for ./run-tests, which sets $UNCHANGED_CORE
// (it stands for the machine, the packages, and the sources of base/, ir/, codegen/, runtime-lite/ and of
// the test programs: the evaluator and the interpreter are among them) and $UNCHANGED_BUT_PASSES (for
// compiler/ as well). What the passes made of a case is in the key. With --again and $TEST_ALL nothing is
// known.
#ifndef TESTS_KEPT_H
#define TESTS_KEPT_H

#include "base/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Kept {
    Arena arena;
    Map known;
    FILE *file; // NULL: nothing is kept
} Kept;

// kind: names a file in the folder of the build. unchanged: the variable that stands for what the results
// depend on besides their keys; if its value is another, what was kept is forgotten.
static inline void kept_open(Kept *k, const char *kind, const char *unchanged)
{
    const char *data = getenv(unchanged), *build = getenv("RLXC_BUILD");
    if (data == NULL || data[0] == '\0')
        return;
    const char *path = arena_printf(&k->arena, "%s/passed/%s.kept", build != NULL ? build : ".", kind);
    const uint64_t salt = hash_bytes64(data, strlen(data), 1);
    unsigned long long first = 0, key[2], value;
    FILE *f = fopen(path, "r");
    const bool is_same = f != NULL && fscanf(f, "%llx", &first) == 1 && first == salt;
    const bool is_asked = getenv("TEST_ALL") == NULL;
    while (is_same && is_asked && fscanf(f, "%llx %llx %llx", &key[0], &key[1], &value) == 3)
        map_put(&k->arena, &k->known, (const uint64_t[]){key[0], key[1]}, 2 * sizeof(uint64_t), value);
    if (f != NULL)
        fclose(f);
    k->file = fopen(path, is_same ? "a" : "w"); // NULL: ./run-tests has made no such folder
    if (k->file != NULL && !is_same)
        fprintf(k->file, "%llx\n", (unsigned long long)salt);
}

// *value: what was put with it.
static inline bool kept_get(const Kept *k, const uint64_t key[2], uint64_t *value)
{
    return map_get(&k->known, key, 2 * sizeof *key, value);
}

static inline bool kept_has(const Kept *k, const uint64_t key[2])
{
    uint64_t unused = 0;
    return kept_get(k, key, &unused);
}

// Only of what has passed.
static inline void kept_put(Kept *k, const uint64_t key[2], uint64_t value)
{
    if (k->file != NULL)
        fprintf(k->file, "%llx %llx %llx\n", (unsigned long long)key[0], (unsigned long long)key[1],
                (unsigned long long)value);
}

// ../../tools/checks/count_tests.py adds these lines up.
static inline void kept_say(uint32_t n)
{
    if (n != 0)
        printf("# kept: %u\n", n);
}

#endif
