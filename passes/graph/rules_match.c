// SPDX-License-Identifier: Apache-2.0
// Holds the pattern of a rule against a node and builds its replacement. Where operands may change places,
// both orders are tried, in all combinations: a match that fails is repeated with the last open choice the
// other way.
#include "ir/graph/tensor.h"
#include "passes/graph/fold.h"
#include "passes/graph/rules.h"

#include <string.h>

// --- what may change places ---

static bool rule_commutes(OpId op, DType operand, RuleClass promise)
{
    rlx_assert(op < OP_COUNT && operand < DTYPE_COUNT);
    if (op_info[op].flags & OPFLAG_NEARLY)
        return promise != RULE_EXACT || dtype_info[operand].cls != DCLASS_FLOAT;
    return (op_info[op].flags & OPFLAG_COMMUTES) != 0;
}

// --- numbers ---

// Larger constants are not searched, so that a rule costs the same at every node.
static const uint64_t number_max_bytes = 1 << 16;

static bool same_number(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

// The number as an element of type t; false when an integer type does not have it.
static bool round_to(DType t, double v, double *out)
{
    uint64_t bytes = 0;
    Tensor one = {.dtype = t, .numel = 1, .data = &bytes};
    tensor_set_f64(&one, 0, v);
    *out = tensor_get_f64(&one, 0);
    return dtype_info[t].cls == DCLASS_FLOAT || same_number(*out, v);
}

bool rule_is_number(const Graph *g, NodeId id, double value)
{
    rlx_assert(id != 0 && id < g->nodes.len);
    double wanted = 0;
    if (!node_is_const(g, id) || !round_to((DType)graph_node(g, id)->dtype, value, &wanted))
        return false;
    const Tensor t = tensor_of_const(g, id);
    const uint64_t size = dtype_info[t.dtype].bytes, bytes = (uint64_t)t.numel * size;
    if (t.numel == 0 || bytes > number_max_bytes || !same_number(tensor_get_f64(&t, 0), wanted))
        return false;
    return memcmp(t.data, (const char *)t.data + size, bytes - size) == 0;
}

// --- matching ---

enum { MAX_CHOICES = 16 };

typedef struct Matcher {
    RuleMatch on;
    RuleClass promise;
    bool choice[MAX_CHOICES]; // true: the operands change places
    uint32_t n_choices, at;   // made so far, and how many of them this attempt has used
} Matcher;

static bool choose(Matcher *m)
{
    rlx_assert(m->at < MAX_CHOICES);
    if (m->at == m->n_choices)
        m->choice[m->n_choices++] = false;
    return m->choice[m->at++];
}

// Turns the last choice that has a side left. False: all combinations were tried.
static bool choose_again(Matcher *m)
{
    while (m->n_choices > 0 && m->choice[m->n_choices - 1])
        m->n_choices--;
    if (m->n_choices == 0)
        return false;
    m->choice[m->n_choices - 1] = true;
    return true;
}

static bool bind(Matcher *m, char letter, NodeId id)
{
    NodeId *bound = &m->on.letter[letter - 'a'];
    if (*bound)
        return *bound == id;
    *bound = id;
    return id != 0;
}

static uint32_t operand_count(const Node *n)
{
    uint32_t count = n->n_src;
    while (count > 0 && n->src[count - 1] == 0)
        count--;
    return count;
}

static bool match(Matcher *m, const RuleNode *p, NodeId id)
{
    const Graph *g = m->on.g;
    if (p->kind == RULE_LETTER)
        return bind(m, p->letter, id);
    if (p->kind == RULE_NUMBER)
        return rule_is_number(g, id, p->number);
    const Node *n = graph_node(g, id);
    if (n->op != p->op || operand_count(n) != p->n_src || (p->letter && !bind(m, p->letter, id)))
        return false;
    const DType t = (DType)graph_node(g, n->src[0])->dtype;
    const bool is_swapped = p->n_src == 2 && rule_commutes(p->op, t, m->promise) && choose(m);
    for (uint32_t i = 0; i < p->n_src; i++)
        if (!match(m, p->src[i], n->src[is_swapped ? 1 - i : i]))
            return false;
    return true;
}

// --- building ---

static NodeId rule_build(Graph *g, OpId op, const NodeId *src, uint32_t n, NodeId like)
{
    rlx_assert(like != 0 && n >= op_info[op].min_src && n <= op_info[op].max_src);
    NodeBuild b = node_begin(g, op, node_span(g, like), g->labels.data[like]);
    for (uint32_t i = 0; i < n; i++)
        node_src(&b, src[i]);
    const NodeId id = node_end(&b);
    return id ? fold_node(g, id) : 0;
}

static NodeId build(const RuleMatch *on, const RuleNode *r);

// A pattern may match types that the ops of its replacement do not take: integers have no square root.
static bool takes_type(OpId op, DType t)
{
    const DTypeClass cls = dtype_info[t].cls;
    switch (op_info[op].ew) {
    case EW_ARITH:
        return cls != DCLASS_BOOL;
    case EW_FLOAT:
    case EW_TEST:
        return cls == DCLASS_FLOAT;
    case EW_INTS:
        return cls != DCLASS_FLOAT;
    case EW_LOGIC:
        return cls == DCLASS_BOOL;
    case EW_CMP:
    case EW_SEL:
        return true;
    case EW_NONE:
        break;
    }
    return false;
}

// Numbers take the type of the operands beside them; the first operand of `where` is no measure.
static NodeId build_op(const RuleMatch *on, const RuleNode *r)
{
    NodeId src[RULE_MAX_SRC] = {0};
    DType t = (DType)graph_node(on->g, on->root)->dtype;
    for (uint32_t i = r->n_src; i-- > 0;) {
        if (r->src[i]->kind == RULE_NUMBER)
            continue;
        src[i] = build(on, r->src[i]);
        if (!src[i])
            return 0;
        if (r->op != OP_where || i > 0)
            t = (DType)graph_node(on->g, src[i])->dtype;
    }
    if (!takes_type(r->op, t))
        return 0;
    for (uint32_t i = 0; i < r->n_src; i++)
        if (r->src[i]->kind == RULE_NUMBER)
            src[i] = graph_scalar(on->g, t, r->src[i]->number, node_span(on->g, on->root));
    return rule_build(on->g, r->op, src, r->n_src, on->root);
}

// A number in the place of the whole pattern has to be spread to its shape.
static NodeId build_number(const RuleMatch *on, double value)
{
    Graph *g = on->g;
    const Node n = *graph_node(g, on->root);
    NodeBuild b = node_begin(g, OP_expand, node_span(g, on->root), g->labels.data[on->root]);
    node_src(&b, graph_scalar(g, (DType)n.dtype, value, node_span(g, on->root)));
    node_ints(&b, A_expand_shape, n.shape->dim, n.shape->rank);
    return n.shape->rank == 0 ? b.src.data[0] : node_end(&b);
}

static NodeId build(const RuleMatch *on, const RuleNode *r)
{
    if (r->kind == RULE_LETTER)
        return rule_letter(on, r->letter);
    return r->kind == RULE_NUMBER ? build_number(on, r->number) : build_op(on, r);
}

// A letter may be smaller than the root, which operands that are gone had spread.
static bool has_type_of(const Graph *g, NodeId id, NodeId root)
{
    const Node *a = graph_node(g, id), *b = graph_node(g, root);
    return a->dtype == b->dtype && shape_equal(a->shape, b->shape);
}

NodeId rules_try(const RuleSet *set, uint32_t index, Graph *g, NodeId root)
{
    rlx_assert(index < set->n && root != 0);
    const Rule *rule = &set->rules[index];
    Matcher m = {.promise = rule->promise};
    do {
        m.on = (RuleMatch){.g = g, .root = root};
        m.at = 0;
        if (!match(&m, set->pattern[index], root) || !rule->guard(&m.on))
            continue;
        const NodeId made =
            set->replacement[index] ? build(&m.on, set->replacement[index]) : rule->make(&m.on);
        if (made && has_type_of(g, made, root))
            return made;
    } while (choose_again(&m));
    return 0;
}
