// SPDX-License-Identifier: Apache-2.0
// Formulas of kernel expressions (k_expr), built while they are read. They are part of the program, not
// input: a wrong one is a bug and ends in an assertion.
#include "ir/kernel/kernel.h"

#include <string.h>

typedef struct ExprReader {
    Kernel *k;
    const char *at;
    const int64_t *arg, *end;
} ExprReader;

typedef struct ExprOp {
    const char *text;
    int level; // the tightest bind at the highest
    KOp op;
} ExprOp;

// Of two that begin alike, the longer one comes first.
static const ExprOp binary[] = {
    {"|", 0, KOP_or},  {"&", 1, KOP_and}, {"==", 2, KOP_eq}, {"!=", 2, KOP_ne},
    {"<=", 3, KOP_le}, {"<", 3, KOP_lt},  {"+", 4, KOP_add}, {"-", 4, KOP_sub},
    {"*", 5, KOP_mul}, {"/", 5, KOP_div}, {"%", 5, KOP_rem},
};
static const ExprOp functions[] = {{"min(", 0, KOP_min}, {"max(", 0, KOP_max}};
enum { N_BINARY = sizeof binary / sizeof *binary, N_FUNCTIONS = sizeof functions / sizeof *functions };

static KRef read_level(ExprReader *r, int level);

static bool take(ExprReader *r, const char *text)
{
    const size_t n = strlen(text);
    r->at += strspn(r->at, " ");
    if (strncmp(r->at, text, n) != 0)
        return false;
    r->at += n;
    return true;
}

static void expect(ExprReader *r, const char *text)
{
    const bool is_there = take(r, text);
    rlx_assert(is_there);
}

static int64_t next_arg(ExprReader *r)
{
    rlx_assert(r->arg != r->end);
    return *r->arg++;
}

static KRef read_number(ExprReader *r)
{
    const bool is_negative = take(r, "-");
    int64_t v = 0;
    rlx_assert(*r->at >= '0' && *r->at <= '9');
    for (; *r->at >= '0' && *r->at <= '9'; r->at++)
        v = v * 10 + (*r->at - '0');
    return k_index(r->k, is_negative ? -v : v);
}

static KRef read_call(ExprReader *r, KOp op)
{
    const KRef a = read_level(r, 0);
    expect(r, ",");
    const KRef b = read_level(r, 0);
    expect(r, ")");
    return k_op(r->k, op, a, b, 0);
}

static KRef read_operand(ExprReader *r)
{
    if (take(r, "$"))
        return (KRef)next_arg(r);
    if (take(r, "#"))
        return k_index(r->k, next_arg(r));
    if (take(r, "(")) {
        const KRef v = read_level(r, 0);
        expect(r, ")");
        return v;
    }
    for (uint32_t i = 0; i < N_FUNCTIONS; i++)
        if (take(r, functions[i].text))
            return read_call(r, functions[i].op);
    return read_number(r);
}

// The operator that comes next, if it binds at least as tightly as `level`.
static const ExprOp *peek_op(ExprReader *r, int level)
{
    r->at += strspn(r->at, " ");
    for (uint32_t i = 0; i < N_BINARY; i++)
        if (r->at[0] == binary[i].text[0] && (binary[i].text[1] == '\0' || r->at[1] == binary[i].text[1]))
            return binary[i].level >= level ? &binary[i] : NULL;
    return NULL;
}

// Recursion is as deep as the text has parentheses and levels.
static KRef read_level(ExprReader *r, int level)
{
    KRef v = read_operand(r);
    for (const ExprOp *o = peek_op(r, level); o != NULL; o = peek_op(r, level)) {
        r->at += strlen(o->text);
        const KRef w = read_level(r, o->level + 1);
        v = k_op(r->k, o->op, v, w, 0);
    }
    return v;
}

KRef k_expr_of(Kernel *k, const char *text, const int64_t *args, size_t n)
{
    ExprReader r = {.k = k, .at = text, .arg = args, .end = args + n};
    const KRef v = read_level(&r, 0);
    rlx_assert(*r.at == '\0' && r.arg == r.end);
    return v;
}
