// SPDX-License-Identifier: Apache-2.0
// From the tree of a regular expression to an automaton over bytes, by way of a nondeterministic one.
// Conditions on places (^, \b ...) depend on the bytes on both sides: a state remembers of which kind the
// byte before it was, and follows a condition when it sees the byte after it.
#include "base/map.h"
#include "base/str.h"
#include "compiler/import/onnx/text/onnx_regex.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_STEPS = 1 << 16,
    MAX_STATES = 4096,
    MAX_BUILT = 1 << 20, // nodes, each as often as a repeat builds it
    MAX_WORK = 1 << 26,  // steps that are looked at while states are made
};

// --- the nondeterministic automaton ---

typedef enum StepKind { STEP_BYTE, STEP_SPLIT, STEP_PLACE, STEP_MATCH } StepKind;

typedef struct Step {
    StepKind kind;
    uint8_t first, last; // STEP_BYTE
    RegexPlace place;
    uint32_t next, other; // other: STEP_SPLIT
} Step;

typedef struct Builder {
    Arena *arena;
    VEC(Step) steps;
    uint32_t built;
    bool has_places;
    const char *error;
} Builder;

// Steps are made from the back: what comes next is known.
static uint32_t add_step(Builder *b, Step s)
{
    if (b->steps.len >= MAX_STEPS) {
        b->error = "it is too long";
        return 0;
    }
    vec_push(b->arena, &b->steps, s);
    return b->steps.len - 1;
}

static uint32_t either(Builder *b, uint32_t x, uint32_t y)
{
    return add_step(b, (Step){.kind = STEP_SPLIT, .next = x, .other = y});
}

static uint32_t bytes(Builder *b, uint32_t first, uint32_t last, uint32_t next)
{
    return add_step(b,
                    (Step){.kind = STEP_BYTE, .first = (uint8_t)first, .last = (uint8_t)last, .next = next});
}

// Characters first .. last, all of n bytes: cut until every byte has a range that does not depend on the
// others.
static uint32_t same_length(Builder *b, uint32_t first, uint32_t last, uint32_t n, uint32_t next)
{
    for (uint32_t i = 1; i < n; i++) {
        const uint32_t mask = (1u << 6 * i) - 1;
        if ((first & ~mask) == (last & ~mask))
            continue;
        if ((first & mask) != 0)
            return either(b, same_length(b, first, first | mask, n, next),
                          same_length(b, (first | mask) + 1, last, n, next));
        if ((last & mask) != mask)
            return either(b, same_length(b, first, (last & ~mask) - 1, n, next),
                          same_length(b, last & ~mask, last, n, next));
    }
    uint8_t low[4], high[4];
    str_utf8_put(first, low);
    str_utf8_put(last, high);
    for (uint32_t i = n; i-- > 0;)
        next = bytes(b, low[i], high[i], next);
    return next;
}

static const uint32_t length_end[] = {0, 0x7f, 0x7ff, 0xffff, REGEX_LAST_POINT};

// 0: the set is empty.
static uint32_t build_set(Builder *b, const RegexNode *n, uint32_t next)
{
    uint32_t all = 0;
    for (uint32_t i = 0; i < n->set.len; i++) {
        for (uint32_t k = 1; k <= 4; k++) {
            const RegexRange r = n->set.data[i];
            const uint32_t first = r.first > length_end[k - 1] || k == 1 ? r.first : length_end[k - 1] + 1;
            const uint32_t last = r.last < length_end[k] ? r.last : length_end[k];
            if (first > last)
                continue;
            const uint32_t step = same_length(b, first, last, k, next);
            all = all ? either(b, all, step) : step;
        }
    }
    // A set without a character: a byte that never comes.
    return all ? all : bytes(b, 1, 0, next);
}

static uint32_t build(Builder *b, const RegexNode *n, uint32_t next);

static uint32_t build_repeat(Builder *b, const RegexNode *n, uint32_t next)
{
    const RegexNode *child = n->child.data[0];
    uint32_t at = next;
    if (n->max == REGEX_NO_MAX) {
        const uint32_t loop = add_step(b, (Step){.kind = STEP_SPLIT, .other = next});
        const uint32_t body = build(b, child, loop);
        if (!b->error)
            b->steps.data[loop].next = body;
        at = loop;
    }
    for (int32_t i = n->min; i < n->max && !b->error; i++)
        at = either(b, build(b, child, at), next);
    for (int32_t i = 0; i < n->min && !b->error; i++)
        at = build(b, child, at);
    return at;
}

static uint32_t build(Builder *b, const RegexNode *n, uint32_t next)
{
    if (++b->built > MAX_BUILT)
        b->error = "it is too long";
    if (b->error)
        return 0;
    uint32_t all = next;
    switch (n->kind) {
    case REGEX_EMPTY:
        return next;
    case REGEX_SET:
        return build_set(b, n, next);
    case REGEX_CAT:
        for (uint32_t i = n->child.len; i-- > 0;)
            all = build(b, n->child.data[i], all);
        return all;
    case REGEX_ALT:
        all = build(b, n->child.data[0], next);
        for (uint32_t i = 1; i < n->child.len; i++)
            all = either(b, all, build(b, n->child.data[i], next));
        return all;
    case REGEX_REPEAT:
        return build_repeat(b, n, next);
    case REGEX_ASSERT:
        b->has_places = true;
        return add_step(b, (Step){.kind = STEP_PLACE, .place = n->place, .next = next});
    }
    return next;
}

// --- bytes ---

// What conditions see of a byte.
typedef enum Side { SIDE_NONE, SIDE_WORD, SIDE_LINE, SIDE_OTHER } Side;

static Side side_of(uint32_t c)
{
    const bool is_word =
        (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
    return is_word ? SIDE_WORD : c == '\n' ? SIDE_LINE : SIDE_OTHER;
}

static bool place_holds(RegexPlace p, Side before, Side after)
{
    const bool is_border = (before == SIDE_WORD) != (after == SIDE_WORD);
    switch (p) {
    case PLACE_BEGIN:
        return before == SIDE_NONE;
    case PLACE_END:
        return after == SIDE_NONE;
    case PLACE_LINE_BEGIN:
        return before == SIDE_NONE || before == SIDE_LINE;
    case PLACE_LINE_END:
        return after == SIDE_NONE || after == SIDE_LINE;
    case PLACE_WORD:
        return is_border;
    case PLACE_NO_WORD:
        return !is_border;
    }
    return false;
}

// Bytes that no step tells apart are one class; class 0 is the zero byte.
static void find_classes(const Builder *b, Automaton *out, uint8_t *sample)
{
    bool begins[257] = {[0] = true, [1] = true};
    for (uint32_t i = 0; i < b->steps.len; i++) {
        const Step *s = &b->steps.data[i];
        if (s->kind == STEP_BYTE && s->first <= s->last)
            begins[s->first] = begins[s->last + 1] = true;
    }
    for (uint32_t c = 2; c < 256 && b->has_places; c++)
        begins[c] = begins[c] || side_of(c) != side_of(c - 1);
    for (uint32_t c = 0; c < 256; c++) {
        if (begins[c])
            sample[out->n_classes++] = (uint8_t)c;
        out->classes[c] = (int32_t)out->n_classes - 1;
    }
}

// --- states ---

// A set of steps, after a byte of some kind. Conditions are not followed yet.
typedef struct State {
    Side before;
    uint32_t n;
    const uint32_t *step;
} State;

typedef struct Maker {
    const Builder *b;
    Automaton *out;
    Map known; // states by content
    VEC(State) states;
    VEC(int32_t) table;
    uint32_t *stack, *reached, *next, *key;
    uint32_t n_reached;
    uint32_t *mark; // by step: the last closure that reached it
    uint32_t closure;
    uint64_t work;
    const char *error;
} Maker;

static int compare_steps(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint32_t find_state(Maker *m, Side before, uint32_t *step, uint32_t n)
{
    Arena *a = m->b->arena;
    uint64_t index = 0;
    qsort(step, n, sizeof *step, compare_steps);
    uint32_t *key = m->key;
    key[0] = m->b->has_places ? before : 0;
    if (n)
        memcpy(key + 1, step, n * sizeof *step);
    if (map_get(&m->known, key, (n + 1) * sizeof *key, &index))
        return (uint32_t)index;
    if (m->states.len >= MAX_STATES) {
        m->error = "its automaton has more than 4096 states";
        return 0;
    }
    map_put(a, &m->known, key, (n + 1) * sizeof *key, m->states.len);
    const uint32_t *copy = n ? arena_copy(a, step, n * sizeof *step) : NULL;
    vec_push(a, &m->states, ((State){(Side)key[0], n, copy}));
    return m->states.len - 1;
}

static void reach(Maker *m, uint32_t *depth, uint32_t step)
{
    if (m->mark[step] == m->closure)
        return;
    m->mark[step] = m->closure;
    m->stack[(*depth)++] = step;
    m->reached[m->n_reached++] = step;
}

// All steps that a state can be in when a byte of the kind `after` follows.
static void close_state(Maker *m, const State *s, Side after)
{
    uint32_t depth = 0;
    m->closure++;
    m->n_reached = 0;
    for (uint32_t i = 0; i < s->n; i++)
        reach(m, &depth, s->step[i]);
    while (depth) {
        const Step *step = &m->b->steps.data[m->stack[--depth]];
        if (step->kind == STEP_SPLIT) {
            reach(m, &depth, step->next);
            reach(m, &depth, step->other);
        } else if (step->kind == STEP_PLACE && place_holds(step->place, s->before, after)) {
            reach(m, &depth, step->next);
        }
    }
    m->work += m->n_reached + 1;
    if (m->work > MAX_WORK)
        m->error = "its automaton is too large";
}

static uint32_t follow(Maker *m, const State *s, uint8_t byte)
{
    uint32_t n = 0;
    const Side side = side_of(byte);
    close_state(m, s, side);
    m->closure++; // marks now say what is in `next`
    for (uint32_t i = 0; i < m->n_reached; i++) {
        const Step *step = &m->b->steps.data[m->reached[i]];
        if (step->kind != STEP_BYTE || byte < step->first || byte > step->last ||
            m->mark[step->next] == m->closure)
            continue;
        m->mark[step->next] = m->closure;
        m->next[n++] = step->next;
    }
    return m->error ? 0 : find_state(m, n ? side : SIDE_NONE, m->next, n);
}

static int32_t is_match(Maker *m, const State *s)
{
    close_state(m, s, SIDE_NONE);
    for (uint32_t i = 0; i < m->n_reached; i++)
        if (m->b->steps.data[m->reached[i]].kind == STEP_MATCH)
            return 1;
    return 0;
}

static void make_states(Maker *m, const uint8_t *sample)
{
    Arena *a = m->b->arena;
    VEC(int32_t) result = {0};
    for (uint32_t i = 0; i < m->states.len && !m->error; i++) {
        const State s = m->states.data[i];
        vec_push(a, &result, is_match(m, &s));
        vec_push(a, &m->table, (int32_t)i);
        for (uint32_t k = 1; k < m->out->n_classes && !m->error; k++) {
            const uint32_t to = follow(m, &s, sample[k]);
            vec_push(a, &m->table, (int32_t)to);
        }
    }
    m->out->n_states = m->states.len;
    m->out->table = m->table.data;
    m->out->result = result.data;
}

bool regex_automaton(Arena *a, const RegexNode *tree, Automaton *out, const char **error)
{
    Builder b = {.arena = a};
    uint8_t sample[256];
    *out = (Automaton){0};
    uint32_t begin = build(&b, tree, add_step(&b, (Step){.kind = STEP_MATCH}));
    *error = b.error;
    if (b.error)
        return false;
    find_classes(&b, out, sample);
    Maker m = {.b = &b, .out = out};
    m.stack = ARENA_ARRAY(a, uint32_t, b.steps.len);
    m.reached = ARENA_ARRAY(a, uint32_t, b.steps.len);
    m.key = ARENA_ARRAY(a, uint32_t, b.steps.len + 1);
    m.next = ARENA_ARRAY(a, uint32_t, b.steps.len);
    m.mark = ARENA_ARRAY(a, uint32_t, b.steps.len);
    find_state(&m, SIDE_NONE, &begin, 1);
    make_states(&m, sample);
    *error = m.error;
    return !m.error;
}
