// SPDX-License-Identifier: Apache-2.0
// What a vocabulary makes of texts first: its steps with the tables that they need, and the map of
// SentencePiece's files, of which everything is checked.
#include "compiler/vocab/vocab.h"
#include "runtime-lite/text/rlx_compat.h"
#include "runtime-lite/text/rlx_forms.h"
#include "runtime-lite/text/rlx_signs.h"
#include <string.h>

enum { MOST_KEY = 64, MOST_NODES = 1 << 20, MOST_MAP = 1 << 24, MOST_CODES = 64, MOST_GROWTH = 128 };

// --- the trie (darts-clone) ----------------------------------------------------------------------

// Its texts are followed to see that each has something to become, and how long that is.
typedef struct Trie {
    VocabBuild *build;
    rlx_map map;
    uint32_t visited; // nodes, which texts may share: what points back at itself is found by their number
    uint32_t growth;
} Trie;

static bool fail_map(Trie *t, const char *why)
{
    return diag_error(t->build->diag, t->build->where, E0116, "the map of characters %s", why);
}

// What a text of n bytes becomes.
static bool check_value(Trie *t, uint32_t unit, uint32_t n)
{
    const uint32_t place = unit < t->map.n_units ? t->map.unit[unit] & 0x7fffffff : t->map.n_bytes;
    uint32_t codes = 0;
    if (place >= t->map.n_bytes)
        return fail_map(t, "points behind its end");
    const char *p = (const char *)t->map.bytes + place, *end = memchr(p, 0, t->map.n_bytes - place);
    rlx_assert(end != NULL); // the last byte is a zero
    for (; p < end; codes++) {
        uint32_t code = 0;
        const size_t length = str_utf8(p, end, &code);
        if (length == 0 || codes == MOST_CODES)
            return fail_map(t, "has a text that is no UTF-8, or one that is too long");
        p += length;
    }
    const uint32_t growth = (codes + n - 1) / n;
    t->growth = growth > t->growth ? growth : t->growth;
    return true;
}

// All texts, without recursion: for each byte of one, where the units behind it are.
static bool walk(Trie *t)
{
    uint32_t base[MOST_KEY + 1] = {rlx_map_offset(t->map.unit[0])}, next[MOST_KEY + 1] = {1}, depth = 0;
    for (;;) {
        if (next[depth] == 256) {
            if (depth-- == 0)
                return true;
            continue;
        }
        const uint32_t c = next[depth]++, place = base[depth] ^ c;
        const uint32_t unit = place < t->map.n_units ? t->map.unit[place] : 0x80000000;
        if ((unit & 0x800000ff) != c)
            continue;
        if (t->visited++ == MOST_NODES || depth == MOST_KEY)
            return fail_map(t, "has too many texts, or too long ones");
        base[++depth] = place ^ rlx_map_offset(unit);
        next[depth] = 1;
        if ((unit & 0x100) != 0 && !check_value(t, base[depth], depth))
            return false;
    }
}

static bool read_map(VocabBuild *b, VocabText blob, const rlx_map **out, uint32_t *growth)
{
    Trie t = {.build = b, .growth = 1};
    const uint8_t *data = (const uint8_t *)blob.data;
    const uint64_t bytes = blob.len < 8 ? 0 : (uint32_t)data[0] | (uint32_t)data[1] << 8 |
                                                  (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
    if (bytes == 0 || bytes % 4 != 0 || bytes + 4 >= blob.len || blob.len > MOST_MAP ||
        data[blob.len - 1] != 0)
        return fail_map(&t, "has a length that does not fit");
    const uint32_t n_units = (uint32_t)(bytes / 4);
    uint32_t *units = ARENA_ARRAY(b->arena, uint32_t, n_units);
    for (uint32_t i = 0; i < n_units; i++) {
        const uint8_t *p = data + 4 + 4 * (size_t)i;
        units[i] = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    }
    t.map = (rlx_map){n_units, (uint32_t)(blob.len - 4 - bytes), units, data + 4 + bytes};
    if (!walk(&t))
        return false;
    rlx_map *map = ARENA_NEW(b->arena, rlx_map);
    *map = t.map;
    *out = map;
    *growth = t.growth;
    return true;
}

// --- steps ---------------------------------------------------------------------------------------

// What a step needs and how much it adds: codes of a byte, and bytes of one.
static const struct {
    bool forms, compatible, signs, map;
    uint8_t codes, bytes;
} needs[RLX_NORMAL_STEPS] = {
    [RLX_NORMAL_CLEAN] = {.signs = true, .codes = 1, .bytes = 1},
    [RLX_NORMAL_CHINESE] = {.codes = 1, .bytes = 2},
    [RLX_NORMAL_D] = {.forms = true, .codes = 2, .bytes = 3},
    [RLX_NORMAL_C] = {.forms = true, .codes = 2, .bytes = 3},
    [RLX_NORMAL_KD] = {.forms = true, .compatible = true, .codes = 6, .bytes = 11},
    [RLX_NORMAL_KC] = {.forms = true, .compatible = true, .codes = 6, .bytes = 11},
    [RLX_NORMAL_NONSPACING] = {.signs = true, .codes = 1, .bytes = 1},
    [RLX_NORMAL_MARKS] = {.signs = true, .codes = 1, .bytes = 1},
    [RLX_NORMAL_LOWER] = {.signs = true, .codes = 1, .bytes = 2},
    [RLX_NORMAL_MAP] = {.map = true, .codes = 1, .bytes = 1},
    [RLX_NORMAL_RUNS] = {.codes = 1, .bytes = 1},
    [RLX_NORMAL_TRIM] = {.codes = 1, .bytes = 1},
    [RLX_NORMAL_TRIM_LEFT] = {.codes = 1, .bytes = 1},
    [RLX_NORMAL_TRIM_RIGHT] = {.codes = 1, .bytes = 1},
    [RLX_NORMAL_WORDS] = {.codes = 1, .bytes = 1},
};

uint32_t vocab_growth(const rlx_vocab *v)
{
    uint32_t bytes = 1, doubles = 1;
    if (v->normal == NULL)
        return 1;
    if (v->normal->map != NULL)
        return 4 * v->normal->growth;
    for (uint32_t i = 0; i < v->normal->n_steps; i++) { // forms only once, however often they come
        const uint32_t n = needs[v->normal->step[i]].bytes;
        bytes = n > 2 && n > bytes ? n : bytes;
        doubles = n == 2 ? 2 : doubles;
    }
    return bytes * doubles;
}

// The tables of one step. False: reported.
static bool add_step(VocabBuild *b, rlx_normal *n, uint32_t step)
{
    const bool had_map = n->map != NULL;
    const uint32_t growth = vocab_growth(&(rlx_vocab){.normal = n});
    uint32_t of_map = 1;
    rlx_assert(step > 0 && step < RLX_NORMAL_STEPS);
    if (had_map && (needs[step].map || needs[step].codes > 1))
        return diag_error(b->diag, b->where, E0116, "what follows a map of characters cannot be read");
    n->forms = needs[step].forms ? &rlx_all_forms : n->forms;
    n->compatible = needs[step].compatible ? &rlx_compatible : n->compatible;
    n->signs = needs[step].signs ? &rlx_all_signs : n->signs;
    if (needs[step].map && !read_map(b, b->source->map, &n->map, &of_map))
        return false;
    if (needs[step].map) // of the bytes that the steps before it make
        n->growth = of_map * growth;
    else if (!had_map && needs[step].codes > n->growth)
        n->growth = needs[step].codes;
    return n->growth <= MOST_GROWTH ||
           diag_error(b->diag, b->where, E0116, "the map of characters makes texts %u times as long",
                      n->growth);
}

bool vocab_build_normal(VocabBuild *b, bool needs_signs)
{
    const VocabSource *s = b->source;
    if (s->n_steps == 0 && !needs_signs)
        return true;
    rlx_normal *n = ARENA_NEW(b->arena, rlx_normal);
    uint8_t *steps = ARENA_ARRAY(b->arena, uint8_t, s->n_steps + 1);
    *n = (rlx_normal){.growth = 1, .step = steps, .signs = needs_signs ? &rlx_all_signs : NULL};
    for (uint32_t i = 0; i < s->n_steps; i++) {
        steps[i] = s->steps[i];
        if (!add_step(b, n, steps[i]))
            return false;
        n->n_steps++;
    }
    b->out->normal = n;
    return true;
}
