// SPDX-License-Identifier: Apache-2.0
// mt19937: words come 624 at a time, from a twist of those before, so this is one thread, which works on
// vectors. They are i32, as vectors of whole numbers are. The state after the words is where the work is
// done; when nobody asks for it, that is scratch memory.
#include "passes/lower/operand.h"

enum { WORDS = 624, AHEAD = 397 };

typedef struct Generator {
    uint32_t work; // parameter
    KRef taken;    // variable: words taken since the last twist
    uint8_t lanes;
} Generator;

static KRef word(Lower *l, int64_t v)
{
    return k_integer(l->k, DTYPE_i32, (int32_t)(uint32_t)v);
}

// y shifted to the right by bits, with zeros behind.
static KRef down(Lower *l, KRef y, int64_t bits)
{
    return k_and(l->k, k_shr(l->k, y, word(l, bits)), word(l, 0xffffffff >> bits));
}

// --- the twist ---

typedef struct Part {
    KRef at, next; // the first word, and that behind it
    int64_t ahead; // from the word to the one that is mixed in
    uint8_t lanes, count;
} Part;

static void twist_part(Lower *l, const Generator *g, const Part *p)
{
    Kernel *k = l->k;
    const KRef here = k_load(k, g->work, p->at, p->lanes, p->count);
    const KRef next = k_load(k, g->work, p->next, p->lanes, p->count);
    const KRef other = k_load(k, g->work, k_expr(k, "$ + #", p->at, p->ahead), p->lanes, p->count);
    const KRef y = k_or(k, k_and(k, here, word(l, 0x80000000)), k_and(k, next, word(l, 0x7fffffff)));
    const KRef is_odd = k_sub(k, word(l, 0), k_and(k, y, word(l, 1)));
    const KRef mask = k_and(k, is_odd, word(l, 0x9908b0df));
    k_store(k, g->work, p->at, k_xor(k, k_xor(k, other, down(l, y, 1)), mask), p->count);
}

// Words lo to hi - 1: as many as the vector has are further from the word that is mixed in.
static void twist_range(Lower *l, const Generator *g, int64_t lo, int64_t hi, int64_t ahead)
{
    Kernel *k = l->k;
    const int64_t whole = (hi - lo) / g->lanes * g->lanes;
    Part p = {.ahead = ahead, .lanes = g->lanes, .count = g->lanes};
    p.at = k_for(k, k_index(k, lo), k_index(k, lo + whole), g->lanes, KFOR_SERIAL, "i");
    p.next = k_expr(k, "$ + 1", p.at);
    twist_part(l, g, &p);
    k_end(k);
    p.count = (uint8_t)(hi - lo - whole);
    p.at = k_index(k, lo + whole);
    p.next = k_index(k, lo + whole + 1);
    if (p.count != 0)
        twist_part(l, g, &p);
}

static void twist(Lower *l, const Generator *g)
{
    const Part last = {.at = k_index(l->k, WORDS - 1),
                       .next = k_index(l->k, 0),
                       .ahead = AHEAD - WORDS,
                       .lanes = 1,
                       .count = 1};
    rlx_assert(g->lanes <= WORDS - AHEAD);
    twist_range(l, g, 0, WORDS - AHEAD, AHEAD);
    twist_range(l, g, WORDS - AHEAD, WORDS - 1, AHEAD - WORDS);
    twist_part(l, g, &last);
    k_set(l->k, g->taken, k_index(l->k, 0));
}

// --- words ---

// Words from element `at` of the state on.
static KRef tempered(Lower *l, const Generator *g, KRef at, uint8_t lanes)
{
    Kernel *k = l->k;
    KRef y = k_load(k, g->work, at, lanes, lanes);
    y = k_xor(k, y, down(l, y, 11));
    y = k_xor(k, y, k_and(k, k_shl(k, y, word(l, 7)), word(l, 0x9d2c5680)));
    y = k_xor(k, y, k_and(k, k_shl(k, y, word(l, 15)), word(l, 0xefc60000)));
    return k_xor(k, y, down(l, y, 18));
}

static KRef next_word(Lower *l, const Generator *g)
{
    Kernel *k = l->k;
    k_if(k, k_eq(k, k_get(k, g->taken), k_index(k, WORDS)));
    twist(l, g);
    k_end(k);
    const KRef at = k_get(k, g->taken);
    const KRef y = tempered(l, g, at, 1);
    k_set(k, g->taken, k_expr(k, "$ + 1", at));
    return k_bitcast(k, y, DTYPE_u32);
}

static Generator begin(Lower *l)
{
    Kernel *k = l->k;
    const NodeId state = lower_node(l, l->anchor)->src[0], after = lower_find_result(l, 1);
    const TensorType signed_state = {.dtype = DTYPE_i32, .shape = {.rank = 1, .dim = {WORDS + 1}}};
    Generator g = {.lanes = lower_fit_lanes(l, WORDS)};
    g.work = after
                 ? lower_param_typed(l, &signed_state, lower_loc(l, after), "generator", PARAM_READ_WRITE)
                 : lower_param_scratch(l, "generator", DTYPE_i32, WORDS + 1);
    const KRef i = k_loop(k, WORDS, KFOR_SERIAL, "i");
    const KRef v = operand_scalar(l, state, operand_index(l, state, &i), DTYPE_u32);
    k_store(k, g.work, i, k_bitcast(k, v, DTYPE_i32), 1);
    k_end(k);
    const KRef last = k_index(k, WORDS);
    g.taken = k_var(k, operand_clamped(l, state, operand_index(l, state, &last), 0, WORDS), "taken");
    return g;
}

// --- where they go ---

// The root is the words as they are, or their bits as i32, one behind the other.
static bool is_plain(const Lower *l)
{
    const Node *root = lower_node(l, l->root);
    const Loc *loc = lower_loc(l, l->root);
    int64_t step = 1;
    if (l->root != l->anchor &&
        (root->op != OP_bitcast || root->src[0] != l->anchor || root->dtype != DTYPE_i32))
        return false;
    for (uint32_t i = root->shape->rank; i-- > 0;) {
        if (root->shape->dim[i] != 1 && loc->stride[i] != step)
            return false;
        step *= root->shape->dim[i];
    }
    return true;
}

// So many words as are left of the state, or as are wanted, at a time.
static void fill(Lower *l, const Generator *g, int64_t count)
{
    Kernel *k = l->k;
    const TensorType words = {.dtype = DTYPE_i32, .shape = *lower_node(l, l->root)->shape};
    const uint32_t to = lower_param_typed(l, &words, lower_loc(l, l->root), "words", PARAM_WRITE);
    const KRef done = k_var(k, k_index(k, 0), "done");
    k_loop(k, ceil_div(count, WORDS) + 1, KFOR_SERIAL, "block");
    const KRef is_empty = k_eq(k, k_get(k, g->taken), k_index(k, WORDS));
    k_if(k, k_and(k, is_empty, k_lt(k, k_get(k, done), k_index(k, count))));
    twist(l, g);
    k_end(k);
    const KRef from = k_get(k, g->taken), at = k_get(k, done);
    const KRef n = k_expr(k, "min(# - $, # - $)", WORDS, from, count, at);
    const KRef whole = k_expr(k, "$ / # * #", n, g->lanes, g->lanes);
    const KRef i = k_for(k, k_index(k, 0), whole, g->lanes, KFOR_SERIAL, "i");
    k_store(k, to, k_add(k, at, i), tempered(l, g, k_add(k, from, i), g->lanes), g->lanes);
    k_end(k);
    const KRef j = k_for(k, whole, n, 1, KFOR_SERIAL, "j");
    k_store(k, to, k_add(k, at, j), tempered(l, g, k_add(k, from, j), 1), 1);
    k_end(k);
    k_set(k, g->taken, k_add(k, from, n));
    k_set(k, done, k_add(k, at, n));
    k_end(k);
}

static void walk(Lower *l, const Generator *g)
{
    Domain d = domain_of(lower_node(l, l->root)->shape);
    Point at = {.lanes = 1, .count = 1};
    domain_add(l, &d, l->root);
    domain_add_operands(l, &d, l->root);
    for (uint32_t i = 0; i < d.rank; i++)
        at.idx[i] = k_loop(l->k, d.extent[i], KFOR_SERIAL, "i");
    pull_store_root(l, &d, at, next_word(l, g));
    k_ends(l->k, d.rank);
}

void lower_mt19937(Lower *l)
{
    const Generator g = begin(l);
    if (is_plain(l))
        fill(l, &g, shape_numel(lower_node(l, l->root)->shape));
    else
        walk(l, &g);
    k_store(l->k, g.work, k_index(l->k, WORDS), k_cast(l->k, k_get(l->k, g.taken), DTYPE_i32), 1);
}
