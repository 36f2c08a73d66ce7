// SPDX-License-Identifier: Apache-2.0
// See board.h: reads rows of boards.def.
#include "base/diag.h"
#include "codegen/target/board.h"
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *chip, *cpu;
    uint32_t mhz;
    const char *flash, *ram;
} rows[] = {
#define BOARD(...) {__VA_ARGS__},
#include "codegen/target/boards.def"
#undef BOARD
};

// "64K", "8M"
static uint64_t read_size(const char *text)
{
    char *unit = NULL;
    const uint64_t n = strtoull(text, &unit, 10);
    rlx_assert(n != 0 && (*unit == 'K' || *unit == 'M'));
    return n << (*unit == 'K' ? 10 : 20);
}

// "dtcm=64K,sram1=240K,sdram=8M,slow": a word without a size says something of the bank before it.
static void read_banks(Arena *a, const char *text, Board *out)
{
    for (size_t len = 0; *text != '\0'; text += len + (text[len] == ',')) {
        len = strcspn(text, ",");
        const char *equals = memchr(text, '=', len);
        if (equals == NULL) {
            rlx_assert(out->n_banks > 0);
            out->bank[out->n_banks - 1].is_slow = true;
            continue;
        }
        rlx_assert(out->n_banks < BOARD_MAX_BANKS);
        BoardBank *bank = &out->bank[out->n_banks++];
        *bank = (BoardBank){.name = arena_strndup(a, text, (size_t)(equals - text)),
                            .bytes = read_size(equals + 1)};
        out->ram_bytes += bank->bytes;
    }
}

bool board_at(Arena *a, uint32_t i, Board *out)
{
    if (i >= sizeof rows / sizeof *rows)
        return false;
    *out = (Board){.name = rows[i].name, .chip = rows[i].chip, .cpu = rows[i].cpu, .mhz = rows[i].mhz};
    out->flash_bytes = read_size(rows[i].flash);
    out->has_xip = strchr(rows[i].flash, ',') != NULL;
    read_banks(a, rows[i].ram, out);
    return true;
}

bool board_find(Arena *a, const char *name, Board *out)
{
    for (uint32_t i = 0; board_at(a, i, out); i++)
        if (strcmp(out->name, name) == 0)
            return true;
    return false;
}
