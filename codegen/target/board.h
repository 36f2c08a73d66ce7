// SPDX-License-Identifier: Apache-2.0
// Boards with microcontrollers: what --board names.
#ifndef CODEGEN_TARGET_BOARD_H
#define CODEGEN_TARGET_BOARD_H

#include "base/arena.h"

#include <stdbool.h>

enum { BOARD_MAX_BANKS = 8 };

typedef struct BoardBank {
    const char *name;
    uint64_t bytes;
    bool is_slow; // a chip of its own
} BoardBank;

typedef struct Board {
    const char *name, *chip, *cpu; // cpu: a row of cpus.def
    uint32_t mhz;
    uint64_t flash_bytes, ram_bytes; // ram_bytes: of all banks
    bool has_xip;                    // flash is a chip of its own
    BoardBank bank[BOARD_MAX_BANKS];
    uint32_t n_banks;
} Board;

// The row i of boards.def, by the order of the table. False: there is none.
bool board_at(Arena *a, uint32_t i, Board *out);
bool board_find(Arena *a, const char *name, Board *out);

#endif
