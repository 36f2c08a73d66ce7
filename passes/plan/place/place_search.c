// SPDX-License-Identifier: Apache-2.0
// One depth-first search for a placement within a capacity, after MiniMalloc (Moffitt 2023). Separate from
// the policy of restarts and capacities (place_exact.c): this file answers one question, with or without a
// proof.
//
// Items are placed in the order of (offset, rank), each at the lowest offset that those before it leave:
// every placement can be pushed down into that form, so nothing is lost. See Note [prunings] at the end.
#include "passes/plan/place/place_part.h"
#include <stdlib.h>
#include <string.h>

#define PLACED UINT64_MAX

enum { SEARCH_MAX_ITEMS = 2048 }; // per part: bounds the depth of the recursion and the tables
#define SEARCH_MAX_MEMBERS ((uint64_t)1 << 22)

typedef uint16_t ItemId; // index of an item in the part

typedef enum UndoKind { UNDO_raise, UNDO_witness, UNDO_place } UndoKind;

typedef struct Undo {
    UndoKind kind;
    uint32_t id;  // item (raise, place) or section (witness)
    uint64_t old; // low (raise, place) or item (witness)
} Undo;

typedef struct Score {
    uint64_t score;
    uint32_t id;
} Score;

// Per-section numbers count only items that are not placed yet.
struct Search {
    uint32_t n, n_sections;
    PartItem *items; // a copy: heights change as the search orders anew
    uint64_t grain;
    const uint32_t *adj_start;
    ItemId *adj; // neighbours in time
    uint32_t *member_start;
    ItemId *members;   // items of a section
    ItemId *twin;      // the item before it that is its equal in all but name, else itself
    uint64_t *low;     // per item: lowest offset that the placed ones leave; PLACED once it is placed
    uint64_t *offset;  // per item, once placed
    uint16_t *rank;    // per item: order among equal offsets
    ItemId *witness;   // per section: an item so low that all may still fit on top of it
    uint32_t *watched; // per item: how many sections it is witness of
    uint64_t *total;   // per section: sum of their pitches
    uint32_t *cut;     // per section: how many of them are in the next section too
    uint32_t *blame;   // per section: how often it could not hold its items
    uint32_t *touched; // scratch: sections whose witness was raised or placed
    uint32_t n_touched;
    VEC(Undo) trail;
    uint16_t *stack; // lists of the nodes on the path, one behind the other
    RankKey *keys;   // scratch for ordering
    Score *scores;   // scratch for ordering
    const SearchPlan *plan;
    uint64_t ceiling; // capacity rounded up to the grain: what pitches may fill
    uint64_t nodes;   // left for this run
    Arena *arena;
};

static void touch_sections(Search *x, ItemId i)
{
    if (x->watched[i] == 0)
        return;
    for (uint32_t s = x->items[i].first; s <= x->items[i].last; s++) {
        if (x->witness[s] == i)
            x->touched[x->n_touched++] = s;
    }
}

// An item of the section above which its unplaced items fit, if there is one. Any will do: all of them lie on
// top of the lowest one, so the section fits if and only if some item is low enough.
static bool find_witness(Search *x, uint32_t s)
{
    uint64_t highest = x->ceiling - x->total[s];
    for (uint32_t m = x->member_start[s]; m < x->member_start[s + 1]; m++) {
        if (x->low[x->members[m]] <= highest) {
            x->watched[x->witness[s]]--;
            x->witness[s] = x->members[m];
            x->watched[x->witness[s]]++;
            return true;
        }
    }
    return false;
}

// Finds new witnesses for the touched sections. False: one of them cannot hold its items any more.
static bool settle_witnesses(Search *x)
{
    bool fits = true;
    for (uint32_t k = 0; k < x->n_touched && fits; k++) {
        uint32_t s = x->touched[k];
        ItemId old = x->witness[s];
        if (x->total[s] == 0 || x->low[old] <= x->ceiling - x->total[s])
            continue;
        fits = find_witness(x, s);
        if (fits)
            vec_push(x->arena, &x->trail, ((Undo){UNDO_witness, s, old}));
        x->blame[s] += !fits;
    }
    x->n_touched = 0;
    return fits;
}

// Raises the neighbours above item i. False: one of them does not fit any more. *has_hat: one was not placed
// yet.
static bool raise_neighbours(Search *x, ItemId i, bool *has_hat)
{
    uint64_t top = x->offset[i] + x->items[i].pitch;
    for (uint32_t k = x->adj_start[i]; k < x->adj_start[i + 1]; k++) {
        ItemId j = x->adj[k];
        uint64_t low = x->low[j];
        *has_hat = *has_hat || low != PLACED;
        if (low >= top)
            continue;
        const PartItem *other = &x->items[j];
        vec_push(x->arena, &x->trail, ((Undo){UNDO_raise, j, low}));
        low = place_align_up(top, other->align);
        if (other->fixed != PLACE_FREE || low + other->size > x->plan->capacity)
            return false;
        x->low[j] = low;
        touch_sections(x, j);
    }
    return true;
}

// Places item i at x->low[i]. False: no completion fits. The caller undoes in either case.
static bool place_item(Search *x, ItemId i, bool *has_hat)
{
    const PartItem *it = &x->items[i];
    vec_push(x->arena, &x->trail, ((Undo){UNDO_place, i, x->low[i]}));
    x->offset[i] = x->low[i];
    x->low[i] = PLACED;
    for (uint32_t s = it->first; s <= it->last; s++) {
        x->total[s] -= it->pitch;
        x->cut[s] -= s < it->last;
    }
    touch_sections(x, i);
    if (raise_neighbours(x, i, has_hat))
        return settle_witnesses(x);
    x->n_touched = 0;
    return false;
}

static void undo_to(Search *x, uint32_t mark)
{
    while (x->trail.len > mark) {
        const Undo *u = &x->trail.data[--x->trail.len];
        if (u->kind == UNDO_witness) {
            x->watched[x->witness[u->id]]--;
            x->watched[u->old]++;
            x->witness[u->id] = (ItemId)u->old;
            continue;
        }
        x->low[u->id] = u->old;
        if (u->kind == UNDO_place) {
            const PartItem *it = &x->items[u->id];
            for (uint32_t s = it->first; s <= it->last; s++) {
                x->total[s] += it->pitch;
                x->cut[s] += s < it->last;
            }
        }
    }
}

// A place in the canonical order: the next item must come at or after it.
typedef struct Limit {
    uint64_t offset;
    uint32_t rank;
} Limit;

// A sub-problem: unplaced items that hang together through the sections first..last.
typedef struct Node {
    uint16_t *list; // items
    uint16_t *free; // stack above
    uint32_t n, first, last;
    Limit limit;
} Node;

typedef struct Candidate {
    Limit at;
    ItemId item;
} Candidate;

// The next item to try from c->at on: least (offset, rank), below the height at which some item would slide
// under it.
static bool next_candidate(const Search *x, const Node *node, uint64_t height, Candidate *c)
{
    Candidate best = {{height, 0}, 0};
    for (uint32_t k = 0; k < node->n; k++) {
        ItemId i = node->list[k];
        uint64_t low = x->low[i];
        uint32_t rank = x->rank[i];
        if (low > best.at.offset || low < c->at.offset || (low == c->at.offset && rank < c->at.rank))
            continue;
        if (low == best.at.offset && rank >= best.at.rank)
            continue;
        if (x->twin[i] == i || x->low[x->twin[i]] == PLACED)
            best = (Candidate){{low, rank}, i};
    }
    *c = best;
    return best.at.offset < height;
}

static uint64_t lowest_height(const Search *x, const Node *node)
{
    uint64_t height = UINT64_MAX;
    for (uint32_t k = 0; k < node->n; k++) {
        uint64_t h = x->low[node->list[k]] + x->items[node->list[k]].pitch;
        height = h < height ? h : height;
    }
    return height;
}

// Every later offset in the node is at least `offset`: do its sections still fit?
static bool fits_above(Search *x, const Node *node, uint64_t offset)
{
    uint64_t most = 0;
    for (uint32_t s = node->first; s <= node->last; s++)
        most = x->total[s] > most ? x->total[s] : most;
    if (offset + most <= x->ceiling)
        return true;
    for (uint32_t s = node->first; s <= node->last; s++)
        x->blame[s] += x->total[s] == most;
    return false;
}

static int compare_scores(const void *pa, const void *pb)
{
    const Score *a = pa, *b = pb;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

// Ranks the items of a node by the plan: by the rule on what is unplaced now, then corrected by the bonus.
static void order_items(Search *x, const Node *node)
{
    for (uint32_t k = 0; k < node->n; k++) {
        PartItem *it = &x->items[node->list[k]];
        it->height = 0;
        for (uint32_t s = it->first; s <= it->last; s++)
            it->height = x->total[s] > it->height ? x->total[s] : it->height;
        x->keys[k].id = node->list[k];
    }
    place_rank(x->items, x->keys, node->n, x->plan->rule);
    for (uint32_t k = 0; k < node->n; k++) {
        uint64_t score = (node->n - k) * PLACE_SCORE_ONE / node->n;
        x->scores[k] =
            (Score){score + (x->plan->bonus != NULL ? x->plan->bonus[x->keys[k].id] : 0), x->keys[k].id};
    }
    if (x->plan->bonus != NULL)
        qsort(x->scores, node->n, sizeof *x->scores, compare_scores);
    for (uint32_t k = 0; k < node->n; k++)
        x->rank[x->scores[k].id] = (uint16_t)k;
}

static Outcome search(Search *x, const Node *node);

// Solves a node that is one of several into which its parent fell apart, in an order of its own.
static Outcome search_resorted(Search *x, Node *node)
{
    uint16_t *saved = node->free;
    node->free += node->n;
    for (uint32_t k = 0; k < node->n; k++)
        saved[k] = x->rank[node->list[k]];
    order_items(x, node);
    node->limit.rank = 0;
    Outcome out = search(x, node);
    for (uint32_t k = 0; k < node->n; k++)
        x->rank[node->list[k]] = saved[k];
    return out;
}

// Goes on below a node: with all its unplaced items, or, where the item just placed was the last one that
// joined two sections, with each side on its own.
static Outcome descend(Search *x, const Node *node, const Candidate *c)
{
    const PartItem *placed = &x->items[c->item];
    Node sub = {.list = node->free, .first = node->first};
    for (uint32_t s = placed->first; s <= placed->last; s++) {
        if (s < placed->last && x->cut[s] != 0)
            continue;
        sub.last = s < placed->last ? s : node->last;
        sub.n = 0;
        for (uint32_t k = 0; k < node->n; k++) {
            ItemId i = node->list[k];
            if (x->low[i] != PLACED && x->items[i].first >= sub.first && x->items[i].first <= sub.last)
                sub.list[sub.n++] = i;
        }
        sub.free = sub.list + sub.n;
        sub.limit = c->at;
        bool is_whole = sub.first == node->first && sub.last == node->last;
        Outcome out = OUTCOME_found;
        if (sub.n > 0)
            out = is_whole ? search(x, &sub) : search_resorted(x, &sub);
        if (out != OUTCOME_found)
            return out;
        sub.first = sub.last + 1;
    }
    return OUTCOME_found;
}

static Outcome search(Search *x, const Node *node)
{
    uint64_t height = lowest_height(x, node);
    uint64_t price = 1 + node->n / 512; // nodes of large parts take longer
    Candidate c = {node->limit, 0};
    for (; next_candidate(x, node, height, &c); c.at.rank++) {
        if (x->nodes < price)
            return OUTCOME_budget;
        x->nodes -= price;
        uint32_t mark = x->trail.len;
        bool has_hat = false;
        if (place_item(x, c.item, &has_hat) &&
            (c.at.offset == node->limit.offset || fits_above(x, node, c.at.offset))) {
            Outcome out = descend(x, node, &c);
            if (out != OUTCOME_none)
                return out;
        }
        undo_to(x, mark);
        if (!has_hat)
            return OUTCOME_none;
    }
    return OUTCOME_none;
}

// --- Setting up ----------------------------------------------------------------------------------

static void set_members(Search *x)
{
    x->member_start = ARENA_ARRAY(x->arena, uint32_t, (size_t)x->n_sections + 1);
    for (uint32_t i = 0; i < x->n; i++) {
        for (uint32_t s = x->items[i].first; s <= x->items[i].last; s++)
            x->member_start[s + 1]++;
    }
    for (uint32_t s = 0; s < x->n_sections; s++)
        x->member_start[s + 1] += x->member_start[s];
    x->members = ARENA_ARRAY(x->arena, ItemId, x->member_start[x->n_sections]);
    uint32_t *fill = arena_copy(x->arena, x->member_start, x->n_sections * sizeof *fill);
    for (uint32_t i = 0; i < x->n; i++) {
        for (uint32_t s = x->items[i].first; s <= x->items[i].last; s++)
            x->members[fill[s]++] = (ItemId)i;
    }
}

static bool is_twin(const PartItem *a, const PartItem *b)
{
    return a->first == b->first && a->last == b->last && a->size == b->size && a->align == b->align &&
           a->fixed == PLACE_FREE && b->fixed == PLACE_FREE;
}

static void set_twins(Search *x)
{
    x->twin = ARENA_ARRAY(x->arena, ItemId, x->n);
    for (uint32_t i = 0; i < x->n; i++) {
        x->twin[i] = (ItemId)i;
        for (uint32_t k = x->adj_start[i]; k < x->adj_start[i + 1]; k++) {
            uint32_t j = x->adj[k];
            if (j < i && (x->twin[i] == i || j > x->twin[i]) && is_twin(&x->items[i], &x->items[j]))
                x->twin[i] = (ItemId)j;
        }
    }
}

bool place_search_accepts(const PlacePart *part)
{
    rlx_assert(part->n >= 1);
    if (part->n > SEARCH_MAX_ITEMS || part->adj == NULL || part->arena > (uint64_t)1 << 62)
        return false;
    uint64_t members = 0;
    for (uint32_t i = 0; i < part->n; i++)
        members += part->items[i].last - part->items[i].first + 1;
    return members <= SEARCH_MAX_MEMBERS;
}

Search *place_search_new(Arena *a, const PlacePart *part)
{
    rlx_assert(part->adj != NULL && part->n <= SEARCH_MAX_ITEMS);
    rlx_assert(part->grain >= 1 && part->n_sections >= 1);
    Search *x = ARENA_NEW(a, Search);
    *x = (Search){.n = part->n, .n_sections = part->n_sections, .grain = part->grain, .arena = a};
    x->items = arena_copy(a, part->items, x->n * sizeof *x->items);
    x->adj_start = part->adj_start;
    x->adj = ARENA_ARRAY(a, ItemId, part->pairs * 2);
    for (uint32_t k = 0; k < x->adj_start[x->n]; k++)
        x->adj[k] = (ItemId)part->adj[k];
    set_twins(x);
    set_members(x);
    x->low = ARENA_ARRAY(a, uint64_t, x->n);
    x->rank = ARENA_ARRAY(a, uint16_t, x->n);
    x->offset = ARENA_ARRAY(a, uint64_t, x->n);
    x->witness = ARENA_ARRAY(a, ItemId, x->n_sections);
    x->watched = ARENA_ARRAY(a, uint32_t, x->n);
    x->total = ARENA_ARRAY(a, uint64_t, x->n_sections);
    x->cut = ARENA_ARRAY(a, uint32_t, x->n_sections);
    x->blame = ARENA_ARRAY(a, uint32_t, x->n_sections);
    x->touched = ARENA_ARRAY(a, uint32_t, x->n_sections);
    x->stack = ARENA_ARRAY(a, uint16_t, (size_t)x->n * (x->n + 1));
    x->keys = ARENA_ARRAY(a, RankKey, x->n);
    x->scores = ARENA_ARRAY(a, Score, x->n);
    return x;
}

// Back to nothing placed. False: a section cannot hold its items (fixed ones may leave too little below
// them).
static bool reset(Search *x)
{
    x->trail.len = 0;
    memset(x->total, 0, x->n_sections * sizeof *x->total);
    memset(x->cut, 0, x->n_sections * sizeof *x->cut);
    memset(x->blame, 0, x->n_sections * sizeof *x->blame);
    for (uint32_t i = 0; i < x->n; i++) {
        const PartItem *it = &x->items[i];
        x->low[i] = it->fixed == PLACE_FREE ? 0 : it->fixed;
        for (uint32_t s = it->first; s <= it->last; s++) {
            x->total[s] += it->pitch;
            x->cut[s] += s < it->last;
        }
    }
    memset(x->witness, 0, x->n_sections * sizeof *x->witness);
    memset(x->watched, 0, x->n * sizeof *x->watched);
    x->watched[0] = x->n_sections;
    bool fits = true;
    for (uint32_t s = 0; s < x->n_sections && fits; s++)
        fits = find_witness(x, s);
    return fits;
}

Outcome place_search_run(Search *x, const SearchPlan *plan, uint64_t *nodes)
{
    rlx_assert(plan->capacity > 0 && plan->rule != NULL);
    x->plan = plan;
    x->ceiling = place_align_up(plan->capacity, x->grain);
    if (!reset(x))
        return OUTCOME_none;
    x->nodes = *nodes;
    for (uint32_t i = 0; i < x->n; i++)
        x->stack[i] = (uint16_t)i;
    Node root = {.list = x->stack, .free = x->stack + x->n, .n = x->n, .last = x->n_sections - 1};
    order_items(x, &root);
    Outcome out = search(x, &root);
    *nodes = x->nodes;
    return out;
}

const uint64_t *place_search_offsets(const Search *x)
{
    return x->offset;
}

const uint32_t *place_search_blame(const Search *x)
{
    return x->blame;
}

// Note [prunings]
// A placement is canonical if it is pushed down (every item lies at the lowest offset that is aligned and
// above the items below it) and, among the placements of least sum of offsets, taken in the order of (offset,
// rank). If any placement fits the capacity, a canonical one does, so the search may drop whatever is not
// canonical:
// * order: an item comes at or after the one before it (Limit). When the problem falls apart, each side
// continues
//   from that offset in an order of its own; the sides share no section, so how they interleave means
//   nothing.
// * dominance: no item goes at or above low + pitch of another unplaced one (lowest_height): that one could
// slide
//   under it, because whatever comes later lies no lower.
// * sections: unplaced items of a section stack up from the lowest of them. If that exceeds the ceiling,
// stop. One
//   item that is low enough proves the opposite; it is remembered (witness) and looked at again only when it
//   moves.
// * fits_above: later offsets are not below this one, so no section may need more room above it than there
// is.
// * hatless: an item that overlaps nothing unplaced is never raised: now is the only time to place it.
// * twins: of two items that are equal in all but name, the first one goes below.
// Ceiling and pitches are in grains, the capacity in bytes: an item's own end is checked in bytes when it is
// raised, so that the search is exact also where the topmost item ends short of its pitch.
