// SPDX-License-Identifier: Apache-2.0
// Filling templates. Precedence is read off the text: operands are short, and nothing else then has to carry
// it along.
#include "codegen/expand.h"
#include "base/diag.h"

#include <string.h>

// How tightly the weakest operator of a text binds.
enum { BINDS_WEAKLY, BINDS_ADD, BINDS_MUL, BINDS_ATOM };

static int operator_level(char c)
{
    if (c == '+' || c == '-')
        return BINDS_ADD;
    return c == '*' || c == '/' || c == '%' ? BINDS_MUL : BINDS_WEAKLY;
}

static int level_of(const char *text)
{
    if (text[0] && strchr("-!~&", text[0]))
        return BINDS_WEAKLY;
    int level = BINDS_ATOM, depth = 0;
    for (const char *p = text; *p; p++) {
        depth += (*p == '(' || *p == '[') - (*p == ')' || *p == ']');
        // A cast, not a call: something follows the first parenthesis's end.
        if (depth == 0 && *p == ')' && text[0] == '(' && p[1] && p[1] != ' ' && level > BINDS_MUL)
            level = BINDS_MUL;
        const bool is_operator = depth == 0 && p[0] == ' ' && p[1] && !strchr("(", p[1]);
        if (is_operator && operator_level(p[1]) < level)
            level = operator_level(p[1]);
        if (is_operator && strchr(p + 1, ' '))
            p = strchr(p + 1, ' ');
    }
    return level;
}

// What an operand between these neighbours must at least be to stand without parentheses.
static int level_needed(const char *begin, const char *at, const char *after)
{
    int left = 0, right = 0;
    if (at > begin && at[-1] != '(' && !(at[-1] == ' ' && at[-2] == ',')) {
        const bool is_infix =
            at[-1] == ' ' && at - begin >= 3 && at[-3] == ' ' && operator_level(at[-2]) != BINDS_WEAKLY;
        left = is_infix ? operator_level(at[-2]) + 1 : BINDS_ATOM;
    }
    if (*after && *after != ')' && *after != ',' && *after != ']' && *after != ';') {
        const bool is_infix =
            after[0] == ' ' && after[1] && after[2] == ' ' && operator_level(after[1]) != BINDS_WEAKLY;
        right = is_infix ? operator_level(after[1]) : BINDS_ATOM;
    }
    return left > right ? left : right;
}

static void add_operand(Str *out, const char *template, const char *at, const char *text)
{
    const bool needs = level_of(text) < level_needed(template, at, at + 2);
    str_printf(out, needs ? "(%s)" : "%s", text);
}

void expand_template(Str *out, const char *template, const ExpandArgs *args)
{
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
