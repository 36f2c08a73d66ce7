// SPDX-License-Identifier: Apache-2.0
// In which bank of memory (--bank) each buffer lies: where the cycles of all reads and writes are the fewest,
// of what the banks have room for. See memplan.h.
#include "passes/plan/memplan.h"
#include <string.h>

// Placements of a bank that are tried, from each of two beginnings.
enum { TRIES = 400, BLOCK = 64, NOWHERE = PLAN_MAX_BANKS };

// Items that lie in one bank together, and perhaps the state block, which lies behind the arena's part.
typedef struct Unit {
    double traffic;
    uint64_t bytes, state;
    uint32_t bank;
} Unit;

// What is compared: bytes that banks lack, then cycles.
typedef struct Cost {
    uint64_t lacking;
    double cycles;
} Cost;

typedef struct Search {
    Plan *plan;
    Planner *m; // NULL: of constants, which lie side by side
    const PlaceItem *items;
    const BufId *ids; // by item
    uint32_t n;
    const uint32_t *unit_of; // by item
    Unit *units;
    uint32_t n_units;
    PlanBank *banks;
    uint32_t order[PLAN_MAX_BANKS], n_banks; // those that may be used, the fastest first
    uint64_t bytes[PLAN_MAX_BANKS];          // by bank: what it takes now
    PlaceItem *some;                         // scratch: items of one bank, and which they are
    uint32_t *which;
    Arena *keep, scratch;
    uint32_t tries;
    Cost now;
    uint64_t most; // bytes in all banks together (--ram); 0: what they have
} Search;

// --- one bank ------------------------------------------------------------------------------------

static uint32_t take_items(Search *s, uint32_t bank)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const bool is_here = s->units[s->unit_of[i]].bank == bank;
        if (s->m != NULL)
            s->m->item[s->ids[i]] = is_here ? n + 1 : 0;
        if (is_here) {
            s->which[n] = i;
            s->some[n++] = s->items[i];
        }
    }
    return n;
}

static uint64_t state_in(const Search *s, uint32_t bank)
{
    uint64_t state = 0;
    for (uint32_t u = 0; u < s->n_units; u++)
        state += s->units[u].bank == bank ? s->units[u].state : 0;
    return state;
}

static uint64_t side_by_side(Search *s, uint32_t n)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < n; i++) {
        s->some[i].offset = plan_round_up(end, s->some[i].align);
        end = s->some[i].offset + s->some[i].size;
    }
    return plan_round_up(end, BLOCK / 8); // words, which the text of C has
}

// What the bank takes with the units that are in it: an estimate that is never too low.
static uint64_t bytes_of(Search *s, uint32_t bank)
{
    const uint64_t state = state_in(s, bank), size = s->banks[bank].size;
    const uint64_t room = size > state ? (size - state) / BLOCK * BLOCK : 0;
    const uint32_t n = take_items(s, bank);
    PlaceResult r = {0};
    s->tries++;
    if (s->m == NULL)
        return side_by_side(s, n);
    if (n != 0)
        place_solve(&s->scratch, s->some, n, (PlaceBudget){0}, &r);
    if (n != 0 && r.arena > room)
        memplan_overlap(s->m, &s->scratch, room != 0 ? room : 1, s->some, n, &r);
    arena_reset(&s->scratch);
    return state == 0 ? r.arena : plan_round_up(r.arena, BLOCK) + state;
}

// --- all banks -----------------------------------------------------------------------------------

static Cost cost_of(const Search *s)
{
    Cost c = {0};
    uint64_t all = 0;
    for (uint32_t i = 0; i < s->n_banks; i++) {
        const uint32_t b = s->order[i];
        c.lacking += s->bytes[b] > s->banks[b].size ? s->bytes[b] - s->banks[b].size : 0;
        all += plan_round_up(s->bytes[b], BLOCK);
    }
    c.lacking += s->most != 0 && all > s->most ? all - s->most : 0;
    for (uint32_t u = 0; u < s->n_units; u++)
        if (s->units[u].bank != NOWHERE)
            c.cycles += s->units[u].traffic * s->banks[s->units[u].bank].cycles;
    return c;
}

static bool is_less(Cost a, Cost b)
{
    return a.lacking != b.lacking ? a.lacking < b.lacking : a.cycles < b.cycles;
}

static void put(Search *s, uint32_t unit, uint32_t bank)
{
    const uint32_t before = s->units[unit].bank;
    s->units[unit].bank = bank;
    if (before != NOWHERE)
        s->bytes[before] = bytes_of(s, before);
    if (bank != NOWHERE)
        s->bytes[bank] = bytes_of(s, bank);
}

// Puts a unit into the first bank that has room for it, in this order; else into the largest.
static void put_first(Search *s, uint32_t unit, const uint32_t *order)
{
    uint32_t largest = order[0];
    for (uint32_t i = 0; i < s->n_banks; i++) {
        const uint32_t b = order[i];
        largest = s->banks[b].size > s->banks[largest].size ? b : largest;
        if (s->units[unit].bytes + s->units[unit].state > s->banks[b].size)
            continue;
        put(s, unit, b);
        if (s->bytes[b] <= s->banks[b].size)
            return;
        put(s, unit, NOWHERE);
    }
    put(s, unit, largest);
}

static double density(const Unit *u)
{
    return u->traffic / (double)(u->bytes + u->state + 1);
}

static double weight(const Unit *u)
{
    return (double)(u->bytes + u->state);
}

// Units by falling keys, stable.
static uint32_t *sorted(Search *s, double (*key)(const Unit *u))
{
    uint32_t *order = ARENA_ARRAY(s->keep, uint32_t, s->n_units);
    for (uint32_t i = 0; i < s->n_units; i++) {
        uint32_t at = i;
        for (; at > 0 && key(&s->units[order[at - 1]]) < key(&s->units[i]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return order;
}

// The fastest banks take what is read and written most for its size; or, to fit at all, the largest banks
// what takes most.
static void begin(Search *s, bool (*comes_first)(const PlanBank *a, const PlanBank *b),
                  double (*key)(const Unit *u))
{
    uint32_t banks[PLAN_MAX_BANKS];
    const uint32_t *units = sorted(s, key);
    for (uint32_t i = 0; i < s->n_banks; i++) {
        uint32_t at = i;
        for (; at > 0 && comes_first(&s->banks[s->order[i]], &s->banks[banks[at - 1]]); at--)
            banks[at] = banks[at - 1];
        banks[at] = s->order[i];
    }
    memset(s->bytes, 0, sizeof s->bytes);
    for (uint32_t u = 0; u < s->n_units; u++)
        s->units[u].bank = NOWHERE;
    for (uint32_t i = 0; i < s->n_units; i++)
        put_first(s, units[i], banks);
}

static bool is_faster(const PlanBank *a, const PlanBank *b)
{
    return a->cycles != b->cycles ? a->cycles < b->cycles : a->size > b->size;
}

static bool is_larger(const PlanBank *a, const PlanBank *b)
{
    return a->size > b->size;
}

// Moves a unit, or lets two change places. False: it was no better, and nothing has changed.
static bool try_move(Search *s, uint32_t u, uint32_t bank, uint32_t other)
{
    Unit *one = &s->units[u], *two = &s->units[other];
    const uint32_t from = one->bank;
    const double moved = one->traffic - (other != u ? two->traffic : 0);
    uint64_t bytes[PLAN_MAX_BANKS];
    if (s->now.lacking == 0 && moved * (s->banks[bank].cycles - s->banks[from].cycles) >= 0)
        return false; // there is no need to place it
    memcpy(bytes, s->bytes, sizeof bytes);
    two->bank = from;
    one->bank = bank;
    s->bytes[bank] = bytes_of(s, bank);
    s->bytes[from] = bytes_of(s, from);
    const Cost after = cost_of(s);
    if (is_less(after, s->now)) {
        s->now = after;
        return true;
    }
    two->bank = bank;
    one->bank = from;
    memcpy(s->bytes, bytes, sizeof bytes);
    return false;
}

static bool improve_unit(Search *s, uint32_t u, uint32_t most)
{
    for (uint32_t i = 0; i < s->n_banks; i++)
        if (s->order[i] != s->units[u].bank && try_move(s, u, s->order[i], u))
            return true;
    for (uint32_t v = 0; v < s->n_units && s->tries < most; v++)
        if (s->units[v].bank != s->units[u].bank && try_move(s, u, s->units[v].bank, v))
            return true;
    return false;
}

static void improve(Search *s)
{
    const uint32_t most = s->tries + TRIES;
    bool any = true;
    s->now = cost_of(s);
    while (any && s->tries < most) {
        any = false;
        for (uint32_t u = 0; u < s->n_units && s->tries < most; u++)
            any |= improve_unit(s, u, most);
    }
}

// Is a unit larger than every bank?
static bool is_hopeless(const Search *s)
{
    for (uint32_t u = 0; u < s->n_units; u++) {
        bool fits = false;
        for (uint32_t i = 0; i < s->n_banks; i++)
            fits = fits || s->units[u].bytes + s->units[u].state <= s->banks[s->order[i]].size;
        if (!fits)
            return true;
    }
    return false;
}

// Finds a bank for every unit.
static void search(Search *s)
{
    uint32_t *best = ARENA_ARRAY(s->keep, uint32_t, s->n_units);
    begin(s, is_faster, density);
    if (is_hopeless(s))
        return;
    improve(s);
    const Cost found = cost_of(s);
    for (uint32_t u = 0; u < s->n_units; u++)
        best[u] = s->units[u].bank;
    if (s->n_banks == 1)
        return;
    begin(s, is_larger, weight);
    improve(s);
    const bool is_better = is_less(cost_of(s), found);
    for (uint32_t u = 0; u < s->n_units && !is_better; u++)
        s->units[u].bank = best[u];
}

static Search search_of(Planner *m, const PlaceItem *items, const BufId *ids, uint32_t n)
{
    Arena *keep = m->pass->scratch;
    Search s = {.plan = m->plan, .m = m, .items = items, .ids = ids, .n = n, .keep = keep};
    s.banks = m->plan->banks.data;
    s.some = ARENA_ARRAY(keep, PlaceItem, n + 1u);
    s.which = ARENA_ARRAY(keep, uint32_t, n + 1u);
    s.units = ARENA_ARRAY(keep, Unit, n + 2u);
    return s;
}

static void use_banks(Search *s, bool is_weights)
{
    for (uint32_t i = 0; i < s->plan->banks.len; i++)
        if (s->banks[i].is_weights == is_weights)
            s->order[s->n_banks++] = i;
}

// --- RAM -----------------------------------------------------------------------------------------

enum { EXCHANGED, STATE, OTHERS }; // the first units

static void mark_exchanged(Planner *m, BufId b)
{
    if (planner_is_arena(m, b) && m->item[m->owner[b]] != 0)
        m->is_exchanged[m->owner[b]] = true;
}

static double state_traffic(const Plan *p)
{
    double traffic = 0;
    for (BufId b = 1; b < p->buffers.len; b++) {
        const Region r = p->buffers.data[b].region;
        const bool is_state = r == REGION_STATE || r == REGION_PARAM || r == REGION_PREPARED;
        traffic += is_state ? p->buffers.data[b].traffic : 0;
    }
    return traffic;
}

// One for what the program reads and writes, one for the state block, and one for each other item.
static void make_units(Search *s)
{
    const Plan *p = s->plan;
    uint32_t *unit_of = ARENA_ARRAY(s->keep, uint32_t, s->n + 1u);
    s->m->is_exchanged = ARENA_ARRAY(s->keep, bool, p->buffers.len);
    memplan_for_exchanged(s->m, mark_exchanged);
    s->units[STATE] = (Unit){.traffic = state_traffic(p), .state = plan_state_bytes(p)};
    s->n_units = OTHERS;
    for (uint32_t i = 0; i < s->n; i++) {
        unit_of[i] = s->m->is_exchanged[s->ids[i]] ? EXCHANGED : s->n_units++;
        s->units[unit_of[i]].traffic += p->buffers.data[s->ids[i]].traffic;
        s->units[unit_of[i]].bytes += s->items[i].size;
    }
    // Those that are exchanged may lie in each other's places: the largest of them counts.
    s->units[EXCHANGED].bytes = 0;
    for (uint32_t i = 0; i < s->n; i++)
        if (unit_of[i] == EXCHANGED && s->items[i].size > s->units[EXCHANGED].bytes)
            s->units[EXCHANGED].bytes = s->items[i].size;
    s->unit_of = unit_of;
}

// Places for good what is in a bank, from `base` on. Returns where the next one may begin.
static uint64_t settle(Search *s, PlaceItem *items, uint32_t bank, uint64_t base)
{
    PlanBank *b = &s->banks[bank];
    PlaceResult r = {.optimal = true};
    const uint32_t n = take_items(s, bank);
    if (n != 0) {
        place_solve(s->keep, s->some, n, (PlaceBudget){s->m->pass->options->place_budget}, &r);
        memplan_overlap(s->m, s->keep, 0, s->some, n, &r);
        memplan_turn(s->m, s->some);
    }
    *b = (PlanBank){b->name,
                    b->size,
                    b->cycles,
                    .base = base,
                    .bytes = r.arena,
                    .lower_bound = r.lower_bound,
                    .is_optimal = r.optimal,
                    .state = state_in(s, bank)};
    for (uint32_t i = 0; i < n; i++) {
        PlanBuffer *buf = planner_buffer(s->m, s->ids[s->which[i]]);
        items[s->which[i]].offset = base + s->some[i].offset;
        buf->bank = bank;
        b->traffic += buf->traffic;
    }
    b->traffic += s->units[STATE].bank == bank ? s->units[STATE].traffic : 0;
    return plan_round_up(base + r.arena, BLOCK);
}

static uint64_t end_of_arena(const Search *s)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < s->n_banks; i++) {
        const PlanBank *b = &s->banks[s->order[i]];
        end = b->bytes != 0 && b->base + b->bytes > end ? b->base + b->bytes : end;
    }
    return end;
}

// Banks behind each other are a block, so no division takes less than one block does at least. That each bank
// is packed as well as can be says nothing about other divisions.
static void bound(Search *s)
{
    Plan *p = s->plan;
    PlaceResult r = {0};
    for (uint32_t i = 0; i < s->n; i++) {
        s->some[i] = s->items[i];
        s->m->item[s->ids[i]] = i + 1;
    }
    if (s->n != 0) {
        place_solve(&s->scratch, s->some, s->n, (PlaceBudget){0}, &r);
        memplan_overlap(s->m, &s->scratch, 1, s->some, s->n, &r);
    }
    p->arena_lower_bound = r.lower_bound;
    p->arena_optimal = p->region_bytes[REGION_ARENA] == r.lower_bound;
}

// What the division costs, and what any other one does at least. items: with the state block, if it counts.
static void settle_cost(Search *s, bool is_weights, const BankItem *items, uint32_t n)
{
    BankRoom rooms[PLAN_MAX_BANKS];
    double cycles = 0;
    for (uint32_t i = 0; i < s->n_banks; i++) {
        uint32_t at = i;
        const PlanBank *b = &s->banks[s->order[i]];
        for (; at > 0 && rooms[at - 1].cycles > b->cycles; at--)
            rooms[at] = rooms[at - 1];
        rooms[at] = (BankRoom){b->cycles, b->size};
        cycles += b->traffic * b->cycles;
    }
    const double least = place_bank_bound(s->keep, items, n, rooms, s->n_banks);
    s->plan->bank_cost[is_weights] = plan_bound(cycles, least);
}

static void settle_ram_cost(Search *s)
{
    const Plan *p = s->plan;
    BankItem *items = ARENA_ARRAY(s->keep, BankItem, s->n + 1u);
    for (uint32_t i = 0; i < s->n; i++)
        items[i] = (BankItem){.traffic = p->buffers.data[s->ids[i]].traffic,
                              .bytes = s->items[i].size,
                              .first = s->items[i].first,
                              .last = s->items[i].last};
    memplan_mark_overlaps(s->m, items, s->n);
    const Unit *state = &s->units[STATE];
    items[s->n] = (BankItem){.traffic = state->traffic, .bytes = state->state, .last = UINT32_MAX};
    settle_cost(s, false, items, s->n + 1);
}

void memplan_place_banks(Planner *m, PlaceItem *items, const BufId *ids, uint32_t n)
{
    Plan *p = m->plan;
    Search s = search_of(m, items, ids, n);
    s.most = m->pass->options->ram;
    memplan_count_traffic(m);
    use_banks(&s, false);
    make_units(&s);
    search(&s);
    uint64_t base = settle(&s, items, s.units[EXCHANGED].bank, 0);
    for (uint32_t i = 0; i < s.n_banks; i++)
        if (s.order[i] != s.units[EXCHANGED].bank)
            base = settle(&s, items, s.order[i], base);
    p->region_bytes[REGION_ARENA] = end_of_arena(&s);
    if (s.n_banks == 1) {
        p->arena_lower_bound = s.banks[s.order[0]].lower_bound;
        p->arena_optimal = s.banks[s.order[0]].is_optimal;
    } else {
        bound(&s);
    }
    for (uint32_t i = 0; i < n; i++)
        m->item[ids[i]] = i + 1;
    settle_ram_cost(&s);
    arena_free(&s.scratch);
}

// --- constants -----------------------------------------------------------------------------------

static Search search_of_weights(Planner *m)
{
    Plan *p = m->plan;
    PlaceItem *items = ARENA_ARRAY(m->pass->scratch, PlaceItem, p->buffers.len);
    BufId *ids = ARENA_ARRAY(m->pass->scratch, BufId, p->buffers.len);
    uint32_t *unit_of = ARENA_ARRAY(m->pass->scratch, uint32_t, p->buffers.len), n = 0;
    for (BufId b = 1; b < p->buffers.len; b++) {
        const PlanBuffer *buf = &p->buffers.data[b];
        if (buf->region != REGION_WEIGHTS || buf->first == UINT32_MAX)
            continue;
        unit_of[n] = n;
        ids[n] = b;
        items[n++] = (PlaceItem){.size = plan_round_up(buf->bytes, buf->align), .align = buf->align};
    }
    Search s = search_of(m, items, ids, n);
    s.unit_of = unit_of;
    s.n_units = n;
    for (uint32_t i = 0; i < n; i++)
        s.units[i] = (Unit){p->buffers.data[ids[i]].traffic, items[i].size, 0, NOWHERE};
    use_banks(&s, true);
    s.m = NULL;
    return s;
}

// Returns where the next bank may begin.
static uint64_t settle_weights(Search *s, uint32_t bank, uint64_t base)
{
    PlanBank *b = &s->banks[bank];
    const uint32_t n = take_items(s, bank);
    b->base = base;
    b->bytes = b->lower_bound = side_by_side(s, n);
    b->is_optimal = true;
    for (uint32_t i = 0; i < n; i++) {
        PlanBuffer *buf = &s->plan->buffers.data[s->ids[s->which[i]]];
        buf->bank = bank;
        buf->offset = base + s->some[i].offset;
        b->traffic += buf->traffic;
    }
    return plan_round_up(base + b->bytes, BLOCK);
}

static void settle_weights_cost(Search *s)
{
    BankItem *items = ARENA_ARRAY(s->keep, BankItem, s->n + 1u);
    for (uint32_t i = 0; i < s->n; i++)
        items[i] = (BankItem){.traffic = s->units[i].traffic, .bytes = s->items[i].size};
    settle_cost(s, true, items, s->n);
}

void memplan_place_weights(Planner *m)
{
    Plan *p = m->plan;
    memplan_count_traffic(m);
    Search s = search_of_weights(m);
    search(&s);
    uint64_t base = 0;
    for (uint32_t i = 0; i < s.n_banks; i++) {
        base = settle_weights(&s, s.order[i], base);
        p->region_bytes[REGION_WEIGHTS] = s.banks[s.order[i]].base + s.banks[s.order[i]].bytes;
    }
    settle_weights_cost(&s);
    arena_free(&s.scratch);
}

// --- the limit -----------------------------------------------------------------------------------

void memplan_begin_banks(const Pass *p)
{
    Plan *plan = p->plan;
    plan->banks.len = 0;
    for (uint32_t i = 0; i < p->options->n_banks && p->frame == NULL; i++)
        vec_push(plan->arena, &plan->banks, p->options->banks[i]);
}

static uint64_t lack_of(const PlanBank *b)
{
    const uint64_t all = b->state != 0 ? plan_round_up(b->bytes, BLOCK) + b->state : b->bytes;
    return all > b->size ? all - b->size : 0;
}

uint64_t memplan_lacking(const Plan *p, BankKind kind)
{
    uint64_t lacking = 0;
    for (uint32_t i = 0; i < p->banks.len; i++)
        lacking += p->banks.data[i].is_weights == (kind == BANKS_OF_WEIGHTS) ? lack_of(&p->banks.data[i]) : 0;
    return lacking;
}

// Does it hold data in the bank at a step? Constants always do.
static bool is_in(const Plan *p, BufId b, uint32_t bank, uint32_t step)
{
    const PlanBuffer *buf = &p->buffers.data[b];
    const bool is_weights = p->banks.data[bank].is_weights;
    return buf->bytes != 0 && buf->bank == bank &&
           (is_weights ? buf->region == REGION_WEIGHTS && buf->first != UINT32_MAX
                       : plan_buffer_is_live(buf, step));
}

static uint32_t peak_step(const Plan *p, uint32_t bank)
{
    uint64_t most = 0;
    uint32_t at = 0;
    for (uint32_t step = 0; step < p->kernels.len; step++) {
        uint64_t live = 0;
        for (BufId b = 1; b < p->buffers.len; b++)
            live += is_in(p, b, bank, step) ? p->buffers.data[b].bytes : 0;
        at = live > most ? step : at;
        most = live > most ? live : most;
    }
    return at;
}

void memplan_report_banks(const Pass *p)
{
    const Plan *plan = p->plan;
    uint32_t bank = 0, named = 0;
    for (uint32_t i = 1; i < plan->banks.len; i++)
        bank = lack_of(&plan->banks.data[i]) > lack_of(&plan->banks.data[bank]) ? i : bank;
    const PlanBank *b = &plan->banks.data[bank];
    const uint32_t step = peak_step(plan, bank);
    diag_error(p->diag, (Span){0}, E0405, "--bank %s: %llu bytes are needed here at least, and it has %llu",
               b->name, (unsigned long long)(b->size + lack_of(b)), (unsigned long long)b->size);
    for (uint32_t i = 0; i < plan->banks.len; i++)
        if (i != bank && plan->banks.data[i].is_weights == b->is_weights)
            diag_note(p->diag, (Span){0}, "bank %s has %llu of %llu bytes", plan->banks.data[i].name,
                      (unsigned long long)plan->banks.data[i].bytes,
                      (unsigned long long)plan->banks.data[i].size);
    if (b->state != 0)
        diag_note(p->diag, (Span){0}, "state: %llu bytes", (unsigned long long)b->state);
    for (BufId i = 1; i < plan->buffers.len && named < MEMPLAN_NAMED; i++)
        if (is_in(plan, i, bank, step)) {
            memplan_name_buffer(p, i, step);
            named++;
        }
}
