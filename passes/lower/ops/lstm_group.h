// SPDX-License-Identifier: Apache-2.0
// What lstm_group.c and lstm_shares.c share: how the units and the batch of a recurrent layer are cut into
// clusters, groups and teams of threads.
#ifndef PASSES_LOWER_OPS_LSTM_GROUP_H
#define PASSES_LOWER_OPS_LSTM_GROUP_H

#include "passes/lower/ops/lstm.h"

enum {
    WARP = 32,
    THREADS = 256,
    MOST_LANES = 32,    // of a team
    PIECE = 4,          // hidden values, or inputs, that a thread takes at once
    FLIGHT = 8,         // pieces whose weights are on their way at once, where they are not kept
    KEPT = 128,         // weights that a thread keeps
    MOST_ROWS = 8,      // entries of a cluster
    ROW_SUMS = 32,      // over inputs that are made together
    ROW_FLIGHT = 2,     // pieces of them whose weights are on their way at once
    MOST_RANKS = 8,
    AHEAD_BYTES = 1 << 23, // of sums over inputs
    UNITS_OF_GRID = 8,    // of a group, where all groups of the device share the units
    GRID_BYTES = 96 << 10 // of shared memory of a group there
};

// How the units are shared: by `ranks` groups (those that a device without clusters has at work: 1), of teams
// of `lanes` threads, each with `blocks` units one after the other.
typedef struct Shares {
    int64_t ranks, lanes, teams, blocks;
} Shares;

typedef struct Net {
    const Lstm *m;
    Lower *l;
    Kernel *k;
    Shares s;
    int64_t clusters, of_batch; // of_batch: clusters of a direction
    int64_t entries, slots;     // of a cluster; a power of two, as many at least
    int64_t chunk;              // steps
    int64_t row;                // hidden values of an entry in shared memory, with zeros behind them
    bool is_raw;                // shared memory has addresses
    // All groups of the device run the steps together, and hand hidden values to each other through memory.
    // sets: clusters that the same groups make one after the other; units: hidden values in memory.
    bool of_grid, is_grid; // of_grid: another way of the same kernel does
    bool is_apart;         // one step, in which every group has some units to itself
    int64_t sets, units;
    uint32_t exchange, counter;
    KRef phase, group_of_sets;
    uint32_t ahead;
    KRef shared, memory;        // address, or array
    KRef thread, lane, team, rank, cluster;
    KRef own;                   // the lane's entry of the cluster's
    KRef kept;                  // weights of the thread, or 0
    KRef cells, hiddens, sums;  // of the lane's entry, by block; of inputs, by block and gate
    KRef waiting;               // by block: z, from the first phase of a step to the second
    LstmStep at;                // of the lane's entry
} Net;

static inline int64_t pieces_of(const Shares *s, int64_t n)
{
    return ceil_div(n, PIECE * s->lanes);
}

static inline int64_t weights_of(const Lstm *m, const Shares *s)
{
    return lstm_gates(m) * PIECE * pieces_of(s, m->hidden);
}

static inline int64_t row_of(const Lstm *m, const Shares *s)
{
    return PIECE * s->lanes * pieces_of(s, m->hidden);
}

// Of hidden values in shared memory.
static inline int64_t hidden_bytes(int64_t slots, int64_t row)
{
    return 2 * slots * row * (int64_t)sizeof(float);
}

static inline int64_t units_of(const Shares *s)
{
    return s->ranks * s->teams * s->blocks;
}

// A unit of the thread's team, by its block; the last one for those beyond it.
KRef net_unit_of(const Net *n, KRef block);
KRef net_real_unit(const Net *n, KRef unit);
// PIECE elements of a row that begins at `base`, from `from` on, to[at ...] in the type of sums; zeros behind
// the last one.
void net_fetch_piece(const Net *n, NodeId id, KRef base, KRef from, KRef to, KRef at);
// Where a piece of the thread begins.
KRef net_piece_place(const Net *n, KRef piece);
// Weights of a unit for a piece of the thread: by gate, those of the phase.
void net_fetch_weights(const Net *n, NodeId id, KRef unit, KRef piece, KRef to, KRef at);
Shares lstm_shares_of(const Lstm *m, int64_t ranks, int64_t threads);
// Microseconds that a layer takes that is cut in this way, about.
double lstm_group_time(Lower *l, const Lstm *m);
// For a device with clusters.
Shares lstm_shares_choose(const Lower *l, const Lstm *m, int64_t threads);
void lstm_choose_entries(Net *n);
// Cuts it for all groups of a device, where clusters would not keep their weights. False: it is not so.
bool lstm_choose_grid(Net *n);
// Of one step: every group has some units to itself, and nothing is handed over. False: it is not so.
bool lstm_choose_apart(Net *n);

#endif
