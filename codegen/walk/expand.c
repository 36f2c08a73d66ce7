// SPDX-License-Identifier: Apache-2.0
// Filling templates. Precedence is read off the text: operands are short, and nothing else then has to carry
// it along.
#include "codegen/walk/expand.h"
#include "base/diag.h"

#include <string.h>

// How tightly the weakest operator of a text binds. gcc and clang ask for parentheses where C would not need
// them between &, |, ^, &&, || and shifts: those are all the weakest here.
enum { BINDS_WEAKLY, BINDS_COMPARE, BINDS_ADD, BINDS_MUL, BINDS_UNARY, BINDS_ATOM };

static const char operator_chars[] = "+-*/%<>=!&|^?:";

// The level of the operator that begins here.
static int operator_level(const char *op)
{
    if (*op == '+' || *op == '-')
        return BINDS_ADD;
    if (*op == '*' || *op == '/' || *op == '%')
        return BINDS_MUL;
    const bool is_shift = op[0] == op[1];
    return strchr("<>=!", *op) && (op[1] == ' ' || op[1] == '=') && (!is_shift || *op == '=') ? BINDS_COMPARE
                                                                                              : BINDS_WEAKLY;
}

static bool is_infix(const char *p)
{
    return p[0] == ' ' && p[1] && strchr(operator_chars, p[1]) && strcspn(p + 1, " ") <= 2 &&
           strchr(p + 1, ' ');
}

static int level_of(const char *text)
{
    int level = text[0] && strchr("-!~", text[0]) ? BINDS_UNARY : BINDS_ATOM, depth = 0;
    for (const char *p = text; *p; p++) {
        depth += (*p == '(' || *p == '[') - (*p == ')' || *p == ']');
        // A cast, not a call: something follows the first parenthesis's end.
        if (depth == 0 && *p == ')' && text[0] == '(' && p[1] && p[1] != ' ' && level > BINDS_UNARY)
            level = BINDS_UNARY;
        if (depth > 0 || !is_infix(p))
            continue;
        if (operator_level(p + 1) < level)
            level = operator_level(p + 1);
        p = strchr(p + 1, ' ');
    }
    return level;
}

// What an operand of an operator must at least be to stand without parentheses. side: 1 on its right.
static int operand_level(const char *op, int side)
{
    if (*op == '?' || *op == ':' || !strncmp(op, "&&", 2) || !strncmp(op, "||", 2))
        return BINDS_COMPARE;
    const int level = operator_level(op);
    return level == BINDS_WEAKLY ? BINDS_ATOM : level == BINDS_COMPARE ? BINDS_ADD : level + side;
}

// The operator that ends before `at`, or NULL.
static const char *infix_before(const char *begin, const char *at)
{
    for (int n = 1; n <= 2; n++)
        if (at - begin >= n + 2 && at[-1] == ' ' && is_infix(at - n - 2))
            return at - n - 1;
    return NULL;
}

// What an operand between these neighbours must at least be.
static int level_needed(const char *begin, const char *at, const char *after)
{
    int left = 0, right = 0;
    const bool follows_comma = at - begin >= 2 && at[-1] == ' ' && at[-2] == ',';
    if (at > begin && at[-1] != '(' && !follows_comma) {
        const char *op = infix_before(begin, at);
        left = op ? operand_level(op, 1) : at[-1] == ')' ? BINDS_UNARY : BINDS_ATOM;
    }
    if (*after && !strchr("),];", *after))
        right = is_infix(after) ? operand_level(after + 1, 0) : BINDS_ATOM;
    return left > right ? left : right;
}

static void add_operand(Str *out, const char *template, const char *at, const char *text)
{
    rlx_assert(text != NULL);
    const bool needs = level_of(text) < level_needed(template, at, at + 2);
    str_printf(out, needs ? "(%s)" : "%s", text);
}

void expand_template(Str *out, const char *template, const ExpandArgs *args)
{
    rlx_assert(template != NULL);
    const char *p = template;
    for (const char *mark = strchr(p, '$'); mark; mark = strchr(p, '$')) {
        str_add_n(out, p, (size_t)(mark - p));
        const char what = mark[1];
        const char *word = what == 'T'   ? args->type
                           : what == 'S' ? args->name
                           : what == 'U' ? args->wide
                                         : args->vector;
        if (what >= '0' && what <= '3') {
            add_operand(out, template, mark, args->operand[what - '0']);
        } else if (what == 'L') {
            str_printf(out, "%d", args->lanes);
        } else {
            rlx_assert(strchr("TSUV", what) && word);
            str_add(out, word);
        }
        p = mark + 2;
    }
    str_add(out, p);
}

const char *expand_text(Arena *a, const char *template, const ExpandArgs *args)
{
    Str s = str_new(a);
    expand_template(&s, template, args);
    return str_text(&s);
}
