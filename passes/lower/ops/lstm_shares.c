// SPDX-License-Identifier: Apache-2.0
// How a recurrent layer is cut on GPUs: see lstm_group.h. Apart from the kernel, since only sizes matter.
#include "passes/lower/ops/lstm_group.h"

static int64_t power_for(int64_t n)
{
    int64_t p = 1;
    while (p < n)
        p *= 2;
    return p;
}

Shares lstm_shares_of(const Lstm *m, int64_t ranks, int64_t threads)
{
    Shares s = {.ranks = ranks, .lanes = MOST_LANES};
    const int64_t units = ceil_div(m->hidden, ranks);
    while (s.lanes > 1 && (s.lanes * units > threads || PIECE * s.lanes >= 2 * m->hidden))
        s.lanes /= 2;
    const int64_t least = power_for(units) * s.lanes < WARP ? WARP / s.lanes : power_for(units);
    s.teams = threads / s.lanes < least ? threads / s.lanes : least;
    s.blocks = ceil_div(units, s.teams);
    return s;
}

// As few groups as keep their weights; if none do, as many as there can be.
Shares lstm_shares_choose(const Lower *l, const Lstm *m, int64_t threads)
{
    Shares s = lstm_shares_of(m, 1, threads);
    for (uint32_t i = 1; 1 << i <= MOST_RANKS && l->caps->has_mma && l->caps->gpu->clusters[i] > 0; i++) {
        if (s.blocks == 1 && weights_of(m, &s) <= KEPT / 2)
            break;
        s = lstm_shares_of(m, 1 << i, threads);
    }
    return s;
}

// Clusters that a device runs at once share the batch.
void lstm_choose_entries(Net *n)
{
    const Lstm *m = n->m;
    const int64_t at_once = n->l->caps->gpu->clusters[__builtin_ctz((unsigned)n->s.ranks)];
    const int64_t places = at_once > m->dirs ? at_once / m->dirs : 1, all = ceil_div(m->batch, places);
    const int64_t most = n->s.lanes < MOST_ROWS ? n->s.lanes : MOST_ROWS;
    n->entries = all < most ? all : most;
    n->slots = power_for(n->entries);
    n->of_batch = ceil_div(m->batch, n->entries);
    n->clusters = n->of_batch * m->dirs;
}

// Entries that the same groups make one after the other: as many sets as leave no group without work.
static void choose_sets(Net *n, int64_t places)
{
    n->sets = 1;
    while (n->of_batch / n->sets * n->m->dirs > places || n->of_batch % n->sets != 0)
        n->sets++;
}

bool lstm_choose_grid(Net *n)
{
    const Lstm *m = n->m;
    const TargetCaps *caps = n->l->caps;
    const int64_t processors = caps->gpu->processors, most = processors / m->dirs;
    const int64_t wanted = ceil_div(m->hidden, UNITS_OF_GRID);
    if (!caps->has_mma || n->l->pass->frame != NULL || most < 1 || caps->group_threads < THREADS ||
        (n->s.blocks == 1 && weights_of(m, &n->s) <= KEPT))
        return false;
    n->is_grid = true;
    n->s = (Shares){.ranks = wanted < most ? wanted : most, .lanes = MOST_LANES, .teams = UNITS_OF_GRID};
    n->s.blocks = ceil_div(m->hidden, n->s.ranks * n->s.teams);
    n->entries = m->batch < MOST_ROWS ? m->batch : MOST_ROWS;
    n->units = units_of(&n->s);
    const int64_t row = row_of(m, &n->s) > n->units ? row_of(m, &n->s) : n->units;
    while (n->entries > 1 && hidden_bytes(power_for(n->entries), row) > GRID_BYTES)
        n->entries = power_for(n->entries) / 2;
    n->slots = power_for(n->entries);
    n->of_batch = ceil_div(m->batch, n->entries);
    choose_sets(n, processors / n->s.ranks);
    n->clusters = n->of_batch * m->dirs;
    return true;
}

bool lstm_choose_apart(Net *n)
{
    const Lstm *m = n->m;
    const int64_t processors = n->l->caps->gpu->processors, wanted = ceil_div(m->hidden, UNITS_OF_GRID);
    if (m->seq != 1 || m->cell->phases > 1 || wanted < 2)
        return false;
    n->is_apart = true;
    n->s = lstm_shares_of(m, wanted < processors ? wanted : processors, THREADS);
    const int64_t most = n->s.lanes < MOST_ROWS ? n->s.lanes : MOST_ROWS;
    n->entries = m->batch < most ? m->batch : most;
    n->slots = power_for(n->entries);
    n->of_batch = ceil_div(m->batch, n->entries);
    n->clusters = n->of_batch * m->dirs;
    return true;
}

// A step waits for the others, and adds up in teams what each entry takes; a multiply-add takes so many
// times as long as that of a product, and where weights are not kept, so many times that.
double lstm_group_time(Lower *l, const Lstm *m)
{
    static const double cluster_latencies = 0.2, grid_latencies = 0.5, team_latencies = 0.2;
    static const double add_factor = 6, read_factor = 2.5;
    const GpuMachine *gpu = l->caps->gpu;
    Net n = {.m = m, .l = l, .s = lstm_shares_choose(l, m, THREADS), .sets = 1};
    if (!lstm_choose_apart(&n) && !lstm_choose_grid(&n))
        lstm_choose_entries(&n);
    const int64_t weights = weights_of(m, &n.s) * n.s.blocks, threads = n.s.lanes * n.s.teams;
    const double adds = (double)(weights * threads) * add_factor / gpu->f32_rate;
    const bool is_kept = n.s.blocks == 1 && weights <= KEPT;
    const double phases = m->cell->phases;
    const double entry = team_latencies * gpu->latency + adds * (is_kept ? 1 : read_factor);
    const double waits = n.is_grid ? grid_latencies : cluster_latencies;
    const double step = phases * waits * gpu->latency + entry * (double)n.entries;
    const int64_t at_once = gpu->clusters[n.is_grid || n.is_apart ? 0 : __builtin_ctz((unsigned)n.s.ranks)];
    const int64_t groups = n.clusters / n.sets * (n.is_grid || n.is_apart ? n.s.ranks : 1);
    const int64_t turns = n.sets * ceil_div(groups, at_once > 1 ? at_once : 1);
    return step * (double)turns * (double)m->seq;
}
