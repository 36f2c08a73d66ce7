// SPDX-License-Identifier: Apache-2.0
// Algebra as data: the rules of rules.def, parsed into trees, matched against nodes and built into their
// replacements. The driver that decides where to apply them, and at what cost, is simplify.c.
#ifndef PASSES_GRAPH_RULES_H
#define PASSES_GRAPH_RULES_H

#include "ir/graph/graph.h"

// What a rule promises; rules.def has the definitions.
typedef enum RuleClass { RULE_EXACT, RULE_FUSED, RULE_FAST } RuleClass;

enum { RULE_LETTERS = 26, RULE_MAX_SRC = 3, RULE_MAX_DEPTH = 16 };

// What a pattern matched: the nodes that its letters stand for.
typedef struct RuleMatch {
    Graph *g;
    NodeId root;
    NodeId letter[RULE_LETTERS]; // 0 = not bound
} RuleMatch;

static inline NodeId rule_letter(const RuleMatch *on, char letter)
{
    return on->letter[letter - 'a'];
}

typedef bool (*RuleGuard)(const RuleMatch *on);
// Makes a replacement that an s-expression cannot say (attributes); 0 when the rule does not apply after all.
typedef NodeId (*RuleMake)(const RuleMatch *on);

typedef struct Rule {
    const char *name;
    const char *pattern, *replacement; // replacement NULL: `make` makes it
    RuleMake make;
    RuleClass promise;
    RuleGuard guard;
} Rule;

extern const Rule rule_table[];
extern const uint32_t rule_count;

typedef enum RuleNodeKind { RULE_LETTER, RULE_NUMBER, RULE_OP } RuleNodeKind;

typedef struct RuleNode RuleNode;
struct RuleNode {
    RuleNodeKind kind;
    char letter;   // LETTER; OP: the letter that captures the node, or 0
    double number; // NUMBER
    OpId op;       // OP
    uint32_t n_src;
    const RuleNode *src[RULE_MAX_SRC];
};

// Parses a pattern or replacement. NULL: *error says what is wrong with it.
const RuleNode *rule_parse(Arena *a, const char *text, const char **error);

typedef struct RuleSet {
    const Rule *rules;
    uint32_t n;
    const RuleNode **pattern, **replacement; // by rule; replacement NULL where the rule makes it
    uint32_t *next;                          // by rule: the next one with the same root op, plus 1
    uint32_t first[OP_COUNT];                // index + 1 of the first rule with that root; 0 = none
} RuleSet;

// The rules up to and including a class. The table must be right: a mistake in it is a bug.
const RuleSet *rules_new(Arena *a, const Rule *rules, uint32_t n, RuleClass most);
// Rule number `index` at node `root`: the replacement, which has the type of the root, or 0 when the rule
// does not apply.
NodeId rules_try(const RuleSet *set, uint32_t index, Graph *g, NodeId root);

// True for a constant of any shape whose elements all equal `value`, bit for bit up to the rounding to its
// type.
bool rule_is_number(const Graph *g, NodeId id, double value);

// Makers, by name in rules.def.
NodeId make_layer_norm(const RuleMatch *on);
NodeId make_layer_norm_scale(const RuleMatch *on);
NodeId make_layer_norm_bias(const RuleMatch *on);
NodeId make_group_norm_scale(const RuleMatch *on);
NodeId make_group_norm_bias(const RuleMatch *on);
NodeId make_rms_norm(const RuleMatch *on);
NodeId make_rms_norm_scale(const RuleMatch *on);
NodeId make_softmax(const RuleMatch *on);
NodeId make_log_softmax(const RuleMatch *on);

#endif
