// SPDX-License-Identifier: Apache-2.0
// Tests every rule of rules.def out of the table itself: its pattern is built in every element type with its
// letters as inputs, constants and values without a minus; where the rule applies, both sides are evaluated.
// EXACT rules must agree in every bit on all combinations of the values that are hard (NaN, infinities, zeros
// of both signs, denormals, extremes), the others within a tolerance on moderate ones. No rule may cost more,
// and every rule must apply somewhere. Rules that are wrong on purpose show that each of these checks can
// fail.
#include "graph_fixture.h"
#include "ir/eval/eval.h"
#include "passes/graph/cost.h"
#include "passes/graph/rules.h"

#include <math.h>

typedef enum Outcome { RULE_HOLDS, RULE_DIFFERS, RULE_COSTS, RULE_NEVER_APPLIES } Outcome;

// --- values ---

// Among them the largest, the smallest normal and denormal numbers of f16, f32 and f64.
static const double hard_floats[] = {0.0,
                                     -0.0,
                                     1,
                                     -1,
                                     0.5,
                                     -0.25,
                                     3,
                                     -6,
                                     7.25,
                                     100.1,
                                     HUGE_VAL,
                                     -HUGE_VAL,
                                     (double)NAN,
                                     65504,
                                     1e-7,
                                     1e-42,
                                     -1e-42,
                                     3.4028234663852886e38,
                                     -3.4028234663852886e38,
                                     1.1754943508222875e-38,
                                     1.7976931348623157e308,
                                     -5e-324};
static const int64_t hard_ints[] = {
    0,      1,     -1,        2,         -2,        3,         6,
    7,      -8,    100,       127,       -128,      255,       32767,
    -32768, 65535, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, INT64_C(1) << 32,
    1000};
enum { N_HARD = 22, N_MODERATE = 64, ROWS = 4, COLUMNS = 16 };

_Static_assert(sizeof hard_floats / sizeof *hard_floats == N_HARD, "all floats are used");
_Static_assert(sizeof hard_ints / sizeof *hard_ints == N_HARD, "all integers are used");

static bool is_float(DType t)
{
    return dtype_info[t].cls == DCLASS_FLOAT;
}

static double moderate(uint64_t *seed, RuleClass promise)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    const double unit = (double)(*seed >> 33) / (double)(UINT64_C(1) << 31);
    return promise == RULE_FAST ? 0.1 + 3 * unit : 8 * unit - 4;
}

// Letter number `digit` counts through the hard values as the digit of a number, so that all combinations
// come up.
static void fill_hard(Tensor *t, uint32_t digit)
{
    int64_t period = 1;
    for (uint32_t i = 0; i < digit; i++)
        period *= N_HARD;
    for (int64_t i = 0; i < t->numel; i++) {
        const int64_t at = i / period % N_HARD;
        if (is_float(t->dtype))
            tensor_set_f64(t, i, hard_floats[at]);
        else
            tensor_set_i64(t, i, t->dtype == DTYPE_bool ? at & 1 : hard_ints[at]);
    }
}

static void fill(Tensor *t, uint32_t digit, RuleClass promise)
{
    uint64_t seed = digit + 1;
    if (promise == RULE_EXACT) {
        fill_hard(t, digit);
        return;
    }
    for (int64_t i = 0; i < t->numel; i++) {
        const double v = moderate(&seed, promise);
        tensor_set_f64(t, i, t->dtype == DTYPE_bool ? v > 1 : v);
    }
}

// --- instances of a pattern ---

// What a letter stands for.
typedef enum LetterKind {
    LETTER_INPUT,
    LETTER_ABS,    // an input without its sign
    LETTER_VECTOR, // a constant vector of the last axis
    LETTER_CONST,  // LETTER_CONST + i: the constant letter_consts[i]
} LetterKind;
static const double letter_consts[] = {0.25, 3, -2};
enum { N_KINDS = LETTER_CONST + 3, MAX_LETTERS = 4 };

typedef struct Instance {
    Graph *g;
    Rule rule;
    DType dtype;
    bool is_structural; // norms and reductions need two axes
    char letters[MAX_LETTERS];
    uint32_t n_letters;
    LetterKind kind[MAX_LETTERS];
    NodeId leaf[MAX_LETTERS]; // the input of a letter, or 0
    NodeId node[RULE_LETTERS];
} Instance;

static bool has_structural(const RuleNode *n)
{
    bool found = n->kind == RULE_OP && op_info[n->op].kind != OPKIND_EW;
    for (uint32_t i = 0; n->kind == RULE_OP && i < n->n_src; i++)
        found |= has_structural(n->src[i]);
    return found;
}

static void list_letters(Instance *it, const RuleNode *n)
{
    if (n->kind == RULE_LETTER && !memchr(it->letters, n->letter, it->n_letters)) {
        bool is_capture = false;
        for (const char *at = it->rule.pattern; *at; at++)
            is_capture |= *at == n->letter && at[1] == ':';
        assert_true(it->n_letters < MAX_LETTERS);
        if (!is_capture)
            it->letters[it->n_letters++] = n->letter;
    }
    for (uint32_t i = 0; n->kind == RULE_OP && i < n->n_src; i++)
        list_letters(it, n->src[i]);
}

static Shape letter_shape(const Instance *it)
{
    if (it->is_structural)
        return shape_of(2, (Dim[]){ROWS, COLUMNS});
    Dim n = it->rule.promise == RULE_EXACT ? 1 : N_MODERATE;
    for (uint32_t i = 0; it->rule.promise == RULE_EXACT && i < it->n_letters; i++)
        n *= N_HARD;
    return shape_of(1, &n);
}

static NodeId constant(Graph *g, DType t, const Shape *s, double first)
{
    Tensor v = tensor_new(g->arena, t, s->rank, s->dim);
    for (int64_t i = 0; i < v.numel; i++)
        tensor_set_f64(&v, i, first + 0.125 * (double)i);
    return graph_const(g, t, s, v.data, type_bytes(t, s), (Span){0});
}

// FAST rules need not agree where a result is not a number, so their logarithms and roots get values above 0.
static double constant_of(const Instance *it, LetterKind kind)
{
    const double v = letter_consts[kind - LETTER_CONST];
    return it->rule.promise == RULE_FAST ? fabs(v) : v;
}

static NodeId make_letter(Instance *it, uint32_t index, DType t)
{
    const LetterKind kind = it->kind[index];
    if (kind == LETTER_VECTOR)
        return constant(it->g, t, &(Shape){.rank = 1, .dim = {it->is_structural ? COLUMNS : 1}}, 0.5);
    if (kind >= LETTER_CONST)
        return graph_scalar(it->g, t, constant_of(it, kind), (Span){0});
    const Shape s = letter_shape(it);
    it->leaf[index] =
        graph_input(it->g, arena_printf(it->g->arena, "%c", it->letters[index]), t, &s, (Span){0});
    return kind == LETTER_ABS ? graph_op1(it->g, OP_abs, it->leaf[index]) : it->leaf[index];
}

static NodeId instantiate(Instance *it, const RuleNode *n, DType t);

// The type of operand i of an op whose result has type t.
static DType operand_type(const Instance *it, OpId op, uint32_t i, DType t)
{
    const EwClass ew = (EwClass)op_info[op].ew;
    if (ew == EW_LOGIC || (ew == EW_SEL && i == 0))
        return DTYPE_bool;
    return ew == EW_CMP || ew == EW_TEST ? it->dtype : t;
}

static void set_attrs(NodeBuild *b, OpId op)
{
    static const AttrId reduce[][2] = {{A_reduce_mean_axes, A_reduce_mean_keepdims},
                                       {A_reduce_sum_axes, A_reduce_sum_keepdims},
                                       {A_reduce_max_axes, A_reduce_max_keepdims}};
    const int64_t last = -1;
    for (uint32_t i = 0; i < 3; i++) {
        if (attr_info[reduce[i][0]].op != op)
            continue;
        node_ints(b, reduce[i][0], &last, 1);
        node_int(b, reduce[i][1], 1);
    }
    if (op == OP_reshape)
        node_ints(b, A_reshape_shape, (const int64_t[]){1, ROWS, COLUMNS}, 3);
}

static NodeId instantiate_op(Instance *it, const RuleNode *n, DType t)
{
    NodeId src[RULE_MAX_SRC];
    for (uint32_t i = 0; i < n->n_src; i++) {
        src[i] = instantiate(it, n->src[i], operand_type(it, n->op, i, t));
        if (!src[i])
            return 0;
    }
    NodeBuild b = node_begin(it->g, n->op, (Span){0}, NULL);
    for (uint32_t i = 0; i < n->n_src; i++)
        node_src(&b, src[i]);
    set_attrs(&b, n->op);
    return node_end(&b);
}

// The pattern as nodes; 0 when it can not be built in this type.
static NodeId instantiate(Instance *it, const RuleNode *n, DType t)
{
    NodeId made = 0;
    if (n->kind == RULE_NUMBER) {
        made = graph_scalar(it->g, t, n->number, (Span){0});
        return rule_is_number(it->g, made, n->number) ? made : 0;
    }
    if (n->letter && it->node[n->letter - 'a'])
        return it->node[n->letter - 'a'];
    if (n->kind == RULE_OP)
        made = instantiate_op(it, n, t);
    for (uint32_t i = 0; n->kind == RULE_LETTER && i < it->n_letters; i++)
        if (it->letters[i] == n->letter)
            made = make_letter(it, i, t);
    if (n->letter)
        it->node[n->letter - 'a'] = made;
    return made;
}

// --- comparing ---

static bool same_element(const Tensor *a, const Tensor *b, int64_t i, RuleClass promise)
{
    if (!is_float(a->dtype))
        return tensor_get_i64(a, i) == tensor_get_i64(b, i);
    const double x = tensor_get_f64(a, i), y = tensor_get_f64(b, i);
    if (isnan(x) || isnan(y))
        return isnan(x) && isnan(y);
    if (promise == RULE_EXACT)
        return x == y && signbit(x) == signbit(y);
    const double scale = fmax(1, fmax(fabs(x), fabs(y)));
    return x == y || fabs(x - y) <= 1e-5 * scale;
}

static Outcome compare(Instance *it, NodeId root, NodeId made)
{
    Arena scratch = {0};
    graph_output(it->g, "root", root);
    graph_output(it->g, "made", made);
    EvalRun run = eval_begin(it->g, &scratch, (DimValues){NULL, 0});
    for (uint32_t i = 0; i < it->n_letters; i++) {
        const Node *leaf = graph_node(it->g, it->leaf[i]);
        if (it->leaf[i] == 0)
            continue;
        run.value[it->leaf[i]] =
            tensor_new(&scratch, (DType)leaf->dtype, leaf->shape->rank, leaf->shape->dim);
        fill(&run.value[it->leaf[i]], i, it->rule.promise);
    }
    assert_true(eval_graph(&run));
    const Tensor *a = &run.value[root], *b = &run.value[made];
    Outcome outcome = RULE_HOLDS;
    for (int64_t i = 0; i < a->numel && outcome == RULE_HOLDS; i++)
        if (!same_element(a, b, i, it->rule.promise))
            outcome = RULE_DIFFERS;
    arena_free(&scratch);
    return outcome;
}

static double cost_of(Graph *g, NodeId root)
{
    g->outputs.data[0].node = g->outputs.data[1].node = root;
    return cost_graph(g);
}

// One instance: `kinds` has the kind of every letter as its digits.
static Outcome check_instance(const Rule *rule, const RuleSet *set, DType t, uint32_t kinds)
{
    Arena a = {0};
    Diag d = diag_new(&a);
    Instance it = {.g = graph_new(&a, &d, "rule"), .rule = *rule, .dtype = t};
    it.is_structural = has_structural(set->pattern[0]);
    list_letters(&it, set->pattern[0]);
    for (uint32_t i = 0; i < it.n_letters; i++, kinds /= N_KINDS)
        it.kind[i] = (LetterKind)(kinds % N_KINDS);
    const EwClass ew = (EwClass)op_info[set->pattern[0]->op].ew;
    const DType result = ew == EW_CMP || ew == EW_TEST || ew == EW_LOGIC ? DTYPE_bool : t;
    const NodeId root = kinds == 0 ? instantiate(&it, set->pattern[0], result) : 0;
    const NodeId made = root ? rules_try(set, 0, it.g, root) : 0;
    Outcome outcome = made ? compare(&it, root, made) : RULE_NEVER_APPLIES;
    if (made)
        assert_int_equal(d.n_errors, 0);
    if (outcome == RULE_HOLDS && cost_of(it.g, made) > cost_of(it.g, root))
        outcome = RULE_COSTS;
    arena_free(&a);
    return outcome;
}

static uint32_t count_instances(const Rule *rule, const RuleSet *set)
{
    Instance it = {.rule = *rule};
    uint32_t n = 1;
    list_letters(&it, set->pattern[0]);
    for (uint32_t i = 0; i < it.n_letters; i++)
        n *= N_KINDS;
    return n;
}

static bool is_wrong(Outcome o)
{
    return o == RULE_DIFFERS || o == RULE_COSTS;
}

static Outcome check_type(const Rule *rule, const RuleSet *set, DType t)
{
    const uint32_t n = count_instances(rule, set);
    Outcome outcome = RULE_NEVER_APPLIES;
    for (uint32_t kinds = 0; kinds < n && !is_wrong(outcome); kinds++) {
        const Outcome one = check_instance(rule, set, t, kinds);
        outcome = one == RULE_NEVER_APPLIES ? outcome : one;
    }
    return outcome;
}

// *type is the first in which it is wrong. Types with fewer bits than the tolerance are only tried with EXACT
// rules.
static Outcome check_rule(const Rule *rule, DType *type)
{
    static const DType types[] = {DTYPE_f32, DTYPE_f64,  DTYPE_i32, DTYPE_u8,  DTYPE_bool,
                                  DTYPE_f16, DTYPE_bf16, DTYPE_i8,  DTYPE_i64, DTYPE_u64};
    const uint32_t n = rule->promise == RULE_EXACT ? sizeof types / sizeof *types : 5;
    Arena a = {0};
    const RuleSet *set = rules_new(&a, rule, 1, RULE_FAST);
    Outcome outcome = RULE_NEVER_APPLIES;
    for (uint32_t i = 0; i < n && !is_wrong(outcome); i++) {
        const Outcome one = check_type(rule, set, types[i]);
        *type = types[i];
        outcome = one == RULE_NEVER_APPLIES ? outcome : one;
    }
    arena_free(&a);
    return outcome;
}

// --- tests ---

static const char *const outcome_text[] = {"holds", "computes something else", "costs more", "never applies"};

static void test_every_rule(void **state)
{
    uint32_t n_wrong = 0;
    (void)state;
    for (uint32_t i = 0; i < rule_count; i++) {
        DType t = DTYPE_COUNT;
        const Outcome outcome = check_rule(&rule_table[i], &t);
        if (outcome != RULE_HOLDS)
            print_message("%s %s in %s\n", rule_table[i].name, outcome_text[outcome], dtype_info[t].name);
        n_wrong += outcome != RULE_HOLDS;
    }
    assert_int_equal(n_wrong, 0);
}

static bool any(const RuleMatch *on)
{
    (void)on;
    return true;
}

static bool never(const RuleMatch *on)
{
    (void)on;
    return false;
}

static void test_wrong_rules(void **state)
{
    static const struct {
        Rule rule;
        Outcome outcome;
    } cases[] = {
        {{"zero", "(add a 0)", "a", NULL, RULE_EXACT, any}, RULE_DIFFERS}, // -0.0
        {{"order", "(sub a b)", "(sub b a)", NULL, RULE_EXACT, any}, RULE_DIFFERS},
        {{"maximum", "(max a b)", "(max b a)", NULL, RULE_EXACT, any}, RULE_DIFFERS}, // zeros
        {{"nan", "(logical_not (lt a b))", "(ge a b)", NULL, RULE_EXACT, any}, RULE_DIFFERS},
        {{"overflow", "(div (mul a b) b)", "a", NULL, RULE_EXACT, any}, RULE_DIFFERS},
        {{"minus", "(mul (neg a) (neg b))", "(neg (mul a b))", NULL, RULE_EXACT, any}, RULE_DIFFERS},
        {{"function", "(sigmoid a)", "(tanh a)", NULL, RULE_FUSED, any}, RULE_DIFFERS},
        {{"rounding", "(mul 0.5001 a)", "(mul 0.5 a)", NULL, RULE_FAST, any}, RULE_DIFFERS},
        {{"cost", "(square a)", "(pow a 2)", NULL, RULE_FUSED, any}, RULE_COSTS},
        {{"guard", "(neg a)", "a", NULL, RULE_EXACT, never}, RULE_NEVER_APPLIES},
        {{"fraction", "(bit_and a 0.5)", "a", NULL, RULE_EXACT, any}, RULE_NEVER_APPLIES},
        {{"right", "(neg (neg a))", "a", NULL, RULE_EXACT, any}, RULE_HOLDS},
    };
    (void)state;
    DType t = DTYPE_COUNT;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (check_rule(&cases[i].rule, &t) != cases[i].outcome)
            fail_msg("the rule '%s' should be found out: %s", cases[i].rule.name,
                     outcome_text[cases[i].outcome]);
}

static void test_parse_errors(void **state)
{
    static const char *const wrong[][2] = {
        {"", "expected a letter"},
        {"(add a b", "expected )"},
        {"(add a)", "wrong number of operands"},
        {"(add a b c)", "wrong number of operands"},
        {"(add a b c d)", "too many operands"},
        {"(plus a b)", "expected the name of an op"},
        {"(add a 1x)", "expected a letter"},
        {"(add a d:b)", "expected ("},
        {"(neg a) b", "expected the end"},
        {"(neg (neg (neg (neg (neg (neg (neg (neg (neg (neg (neg (neg (neg (neg (neg (neg (neg (neg a"
         "))))))))))))))))))",
         "nested too deeply"},
    };
    Arena a = {0};
    (void)state;
    for (uint32_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *error = NULL;
        assert_null(rule_parse(&a, wrong[i][0], &error));
        if (!error || !strstr(error, wrong[i][1]))
            fail_msg("%s: '%s' is not in '%s'", wrong[i][0], wrong[i][1], error ? error : "");
    }
    arena_free(&a);
}

// Every choice of operand order is tried again when a later part does not fit.
static void test_backtracking(void **state)
{
    Fixture *f = *state;
    static const Rule rule = {"factor", "(add (mul a b) (mul a c))", "(mul a (add b c))", NULL, RULE_FAST,
                              any};
    const RuleSet *set = rules_new(&f->arena, &rule, 1, RULE_FAST);
    const NodeId x = input(f, "x", DTYPE_f32, 1, (Dim[]){4}), y = input(f, "y", DTYPE_f32, 1, (Dim[]){4}),
                 z = input(f, "z", DTYPE_f32, 1, (Dim[]){4});
    const NodeId products[2][4] = {
        {graph_op2(f->g, OP_mul, x, y), graph_op2(f->g, OP_mul, y, x)},
        {graph_op2(f->g, OP_mul, x, z), graph_op2(f->g, OP_mul, z, x)},
    };
    for (uint32_t i = 0; i < 8; i++) {
        const NodeId a = products[0][i & 1], b = products[1][i >> 1 & 1];
        const NodeId sum = graph_op2(f->g, OP_add, i & 4 ? b : a, i & 4 ? a : b);
        const NodeId made = rules_try(set, 0, f->g, sum);
        assert_int_not_equal(made, 0);
        assert_int_equal(graph_node(f->g, made)->src[0], x);
    }
    const NodeId other = graph_op2(f->g, OP_add, products[0][0], graph_op1(f->g, OP_neg, x));
    assert_int_equal(rules_try(set, 0, f->g, other), 0);
    assert_no_error(f);
}

static void test_numbers(void **state)
{
    Fixture *f = *state;
    const NodeId tenth = graph_scalar(f->g, DTYPE_f16, 0.1, (Span){0});
    assert_true(rule_is_number(f->g, tenth, 0.1)); // rounded to f16 alike
    assert_false(rule_is_number(f->g, tenth, 0.1001));
    assert_false(rule_is_number(f->g, graph_scalar(f->g, DTYPE_f32, 0, (Span){0}), -0.0));
    assert_false(rule_is_number(f->g, graph_scalar(f->g, DTYPE_u8, 0, (Span){0}), -1));
    assert_false(rule_is_number(f->g, graph_scalar(f->g, DTYPE_i32, 0, (Span){0}), 0.5));
    const float same[3] = {2, 2, 2}, mixed[3] = {2, 2, 3};
    const Shape s = shape_of(1, (Dim[]){3}), none = shape_of(1, (Dim[]){0});
    assert_true(rule_is_number(f->g, graph_const(f->g, DTYPE_f32, &s, same, sizeof same, (Span){0}), 2));
    assert_false(rule_is_number(f->g, graph_const(f->g, DTYPE_f32, &s, mixed, sizeof mixed, (Span){0}), 2));
    assert_false(rule_is_number(f->g, graph_const(f->g, DTYPE_f32, &none, same, 0, (Span){0}), 2));
    assert_no_error(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_rule),
        cmocka_unit_test(test_wrong_rules),
        cmocka_unit_test(test_parse_errors),
        TEST(test_backtracking),
        TEST(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
