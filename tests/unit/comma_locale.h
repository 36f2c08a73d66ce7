// SPDX-License-Identifier: Apache-2.0
// A locale whose decimal point is a comma, compiled on the spot: the machine need not have a German one.
#ifndef TESTS_UNIT_COMMA_LOCALE_H
#define TESTS_UNIT_COMMA_LOCALE_H

#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// False where localedef is missing. Lasts until setlocale(LC_ALL, "C").
static inline bool enter_comma_locale(void)
{
    char dir[] = "/tmp/rlxc-locale-XXXXXX", path[64], command[256];
    if (!mkdtemp(dir))
        return false;
    snprintf(path, sizeof path, "%s/source", dir);
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    fputs("LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\nEND LC_NUMERIC\n", f);
    fclose(f);
    snprintf(command, sizeof command, "localedef -c -i %s %s/comma >/dev/null 2>&1", path, dir);
    int status = system(command); // 1: warnings about the categories that we leave out
    setenv("LOCPATH", dir, 1);
    bool is_in = status != -1 && setlocale(LC_ALL, "comma") && localeconv()->decimal_point[0] == ',';
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command) == 0 && is_in;
}

#endif
