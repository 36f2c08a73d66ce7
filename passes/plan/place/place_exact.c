// SPDX-License-Identifier: Apache-2.0
// The policy around the depth-first search: which capacity to try next, when to start over, and how.
// Separate because nothing here can make a result wrong, only late. See Note [restarts].
#include "passes/plan/place/place_part.h"

// How far earlier failures, chance and a second rule may move an item from its place by the first rule, in
// eighths of the whole order. The runs take these in turn.
typedef struct Temper {
    uint8_t blame, noise, second;
} Temper;

static const Temper tempers[] = {{0, 0, 0}, {32, 1, 0}, {0, 0, 16}, {32, 0, 0}, {8, 1, 16}};
enum { N_TEMPERS = sizeof tempers / sizeof tempers[0] };

// Rows of place_orders that the runs take in turn.
static const uint8_t rules[] = {2, 3, 9, 10, 7, 8, 5};
enum { N_RULES = sizeof rules };

// Runs before the share of nodes per run doubles: every temper has then met every rule.
enum { RUNS_PER_SHARE = N_TEMPERS * N_RULES };

// A line of runs that learn from each other.
typedef struct Track {
    uint64_t *blame; // per section, fading
    uint64_t share;  // nodes a run may take
    uint32_t n_runs;
} Track;

typedef struct Exact {
    PlacePart *part;
    Search *search;
    uint64_t quantum; // divides every arena that a placement of the part can have
    uint64_t *nodes;  // left in all
    uint64_t *bonus;  // per item
    RankKey *keys;    // scratch
    uint64_t rng;
} Exact;

static uint64_t next_random(Exact *x)
{
    x->rng = x->rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return x->rng >> 40; // 24 bits
}

// Blame of the last run is added to what is left of earlier blame.
static void learn_blame(const Exact *x, Track *track)
{
    const uint32_t *fresh = place_search_blame(x->search);
    for (uint32_t s = 0; s < x->part->n_sections; s++)
        track->blame[s] = track->blame[s] / 5 * 4 + (uint64_t)fresh[s] * 256;
}

// An item is moved forward by the most blamed section that it is alive in. Blame stays below 2^43: the sum
// fits.
static void set_bonus(Exact *x, const Track *track, const Temper *temper)
{
    uint64_t most = 1;
    for (uint32_t s = 0; s < x->part->n_sections; s++)
        most = track->blame[s] > most ? track->blame[s] : most;
    for (uint32_t i = 0; i < x->part->n; i++) {
        const PartItem *it = &x->part->items[i];
        uint64_t blame = 0;
        for (uint32_t s = it->first; s <= it->last; s++)
            blame = track->blame[s] > blame ? track->blame[s] : blame;
        uint64_t noise = next_random(x) * PLACE_SCORE_ONE >> 24;
        x->bonus[i] = (blame * PLACE_SCORE_ONE / most * temper->blame + noise * temper->noise) / 8;
        x->keys[i].id = i;
    }
    const PlaceOrder *second = &place_orders[next_random(x) % PLACE_N_ORDERS];
    uint64_t weight = next_random(x) * temper->second * PLACE_SCORE_ONE / 8 >> 24;
    place_rank(x->part->items, x->keys, x->part->n, second);
    for (uint32_t k = 0; k < x->part->n; k++)
        x->bonus[x->keys[k].id] += weight * (x->part->n - k) / x->part->n;
}

static void keep_solution(Exact *x, uint64_t capacity)
{
    const uint64_t *offset = place_search_offsets(x->search);
    uint64_t arena = 0;
    for (uint32_t i = 0; i < x->part->n; i++) {
        uint64_t top = offset[i] + x->part->items[i].size;
        arena = top > arena ? top : arena;
    }
    rlx_assert(arena <= capacity);
    place_improve(x->part, offset, arena);
}

// The next run of a track, at a capacity.
static Outcome try_capacity(Exact *x, Track *track, uint64_t capacity)
{
    const Temper *temper = &tempers[track->n_runs % N_TEMPERS];
    SearchPlan plan = {.capacity = capacity, .rule = &place_orders[rules[track->n_runs % N_RULES]]};
    if (temper->blame + temper->noise + temper->second > 0) {
        set_bonus(x, track, temper);
        plan.bonus = x->bonus;
    }
    uint64_t given = track->share < *x->nodes ? track->share : *x->nodes, left = given;
    Outcome out = place_search_run(x->search, &plan, &left);
    *x->nodes -= given - left;
    learn_blame(x, track);
    if (out == OUTCOME_found)
        keep_solution(x, capacity);
    if (++track->n_runs % RUNS_PER_SHARE == 0)
        track->share *= 2;
    return out;
}

static uint64_t find_quantum(const PlacePart *part)
{
    uint64_t g = part->grain;
    for (uint32_t i = 0; i < part->n && g > 1; i++) {
        for (uint64_t b = part->items[i].size; b != 0;) {
            uint64_t r = g % b;
            g = b;
            b = r;
        }
    }
    return g;
}

static Track track_new(Arena *a, const PlacePart *part)
{
    return (Track){.blame = ARENA_ARRAY(a, uint64_t, part->n_sections), .share = 6 * (uint64_t)part->n};
}

void place_exact(Arena *a, PlacePart *part, uint64_t goal, uint64_t *nodes)
{
    rlx_assert(place_search_accepts(part) && part->bound <= part->arena);
    Exact x = {
        .part = part, .nodes = nodes, .search = place_search_new(a, part), .quantum = find_quantum(part)};
    x.bonus = ARENA_ARRAY(a, uint64_t, part->n);
    x.keys = ARENA_ARRAY(a, RankKey, part->n);
    Track aim = track_new(a, part), step = track_new(a, part);
    uint64_t open = part->bound; // every smaller arena is refuted
    uint32_t stride = 2, n_failed = 0;
    while (*nodes > 0) {
        uint64_t low = place_align_up(goal > open ? goal : open, x.quantum);
        if (part->arena <= low)
            break;
        if (try_capacity(&x, &aim, low) == OUTCOME_none) {
            open = low + x.quantum;
            continue;
        }
        uint64_t gap = (part->arena - low) / x.quantum;
        if (gap < 2 || part->arena <= low)
            continue;
        uint64_t down = gap >> stride;
        uint64_t capacity = part->arena - (down > 0 ? down : 1) * x.quantum;
        Outcome out = try_capacity(&x, &step, capacity);
        if (out == OUTCOME_none)
            open = capacity + x.quantum;
        if (out == OUTCOME_found) {
            n_failed = 0;
            stride = stride > 1 ? stride - 1 : 1;
        } else if (++n_failed % N_RULES == 0 && stride < 4) {
            stride++;
        }
    }
    part->proven = part->arena <= open;
}

// Note [restarts]
// The time of one search has a heavy tail: nearly all hard inputs have some order in which a few thousand
// nodes are enough, and others in which a billion are not. So runs are short, and each differs from the last:
// in the rule that orders items, in a second rule mixed in, in noise, and in blame: sections that could not
// hold their items in earlier runs pull their items to the front. Runs grow once all combinations were had.
// Two tracks take turns: one aims at the least capacity that is not refuted, which on most inputs is the
// optimum; the other lowers the best known arena in steps, which gives a good result where the aim is out of
// reach. Tables were chosen on MiniMalloc's eleven hard inputs, whose tail they cut by two orders of
// magnitude; nothing else depends on them.
