// SPDX-License-Identifier: Apache-2.0
// Tests that take a part of their cases take another one each day; $TEST_ROTATE names a day.
#ifndef TESTS_ROTATION_H
#define TESTS_ROTATION_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline uint32_t test_rotation(void)
{
    enum { SECONDS_A_DAY = 86400 };
    const char *given = getenv("TEST_ROTATE");
    return given != NULL ? (uint32_t)strtoul(given, NULL, 10) : (uint32_t)(time(NULL) / SECONDS_A_DAY);
}

#endif
