// SPDX-License-Identifier: Apache-2.0
// What reads and writes cost at least when items are divided among banks of memory that are not alike. Knows
// nothing of graphs, as place.h.
#ifndef PASSES_PLAN_PLACE_PLACE_BANKS_H
#define PASSES_PLAN_PLACE_PLACE_BANKS_H

#include "base/arena.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct BankItem {
    double traffic; // bytes read and written
    uint64_t bytes;
    uint32_t first, last; // inclusive steps during which it is alive
    bool is_over;         // may lie over an item whose last step is its first one
    bool is_under;        // such an item may lie over it
} BankItem;

typedef struct BankRoom {
    double cycles; // that a byte read or written costs
    uint64_t bytes;
} BankRoom;

// No division of the items, each into one room as a whole, costs fewer cycles. rooms: the fastest first.
double place_bank_bound(Arena *scratch, const BankItem *items, uint32_t n, const BankRoom *rooms,
                        uint32_t n_rooms);

#endif
