// SPDX-License-Identifier: Apache-2.0
// Kernel forms: the s-expressions over kops.def that the rows of ops.def carry, built as kernel expressions.
// Forms are part of the program, not input: a wrong one is a bug and ends in an assertion.
#include "ir/kernel/kernel_fold.h"

#include <string.h>

enum { MAX_DEPTH = 32 };

typedef struct FormReader {
    Kernel *k;
    const char *at;
    const KRef *operand; // a, b ...
    KRef named[26];      // r to z: what `let` has named
    int type;            // of literals that no neighbour gives a type
} FormReader;

// A number takes its type from the other operands of its op, so it waits.
typedef struct FormValue {
    KRef ref; // 0: a number
    double number;
} FormValue;

static size_t token_len(const char *s)
{
    return strcspn(s, " ()");
}

static FormValue read_atom(FormReader *f)
{
    const size_t n = token_len(f->at);
    const char *text = f->at;
    FormValue v = {0};
    f->at += n;
    if (n == 1 && *text >= 'a' && *text <= 'z') {
        v.ref = *text < 'r' ? f->operand[*text - 'a'] : f->named[*text - 'a'];
        rlx_assert(v.ref != 0);
        return v;
    }
    const bool is_number = str_parse_f64(text, n, &v.number);
    rlx_assert(is_number);
    return v;
}

static KRef resolve(const FormReader *f, const FormValue *v, int type)
{
    return v->ref ? v->ref : k_number(f->k, type, v->number);
}

static FormValue build_op(const FormReader *f, KOp op, const FormValue *arg)
{
    const bool is_select = kop_info[op].cls == KCLASS_SEL;
    int type = f->type;
    for (uint32_t i = kop_info[op].arity; i-- > (is_select ? 1 : 0);)
        if (arg[i].ref)
            type = k_inst(f->k, arg[i].ref)->dtype;
    KRef src[3] = {0};
    for (uint32_t i = 0; i < kop_info[op].arity; i++)
        src[i] = resolve(f, &arg[i], is_select && i == 0 ? (int)DTYPE_bool : type);
    return (FormValue){.ref = k_op(f->k, op, src[0], src[1], src[2])};
}

static FormValue read_form(FormReader *f, int depth);

// "let r VALUE FORM)": the form, in which r is the value.
static FormValue read_let(FormReader *f, int depth)
{
    f->at += strlen("let ");
    const char letter = *f->at;
    rlx_assert(letter >= 'r' && letter <= 'z' && f->named[letter - 'a'] == 0);
    f->at += strlen("r ");
    f->named[letter - 'a'] = read_form(f, depth).ref;
    f->at += strspn(f->at, " ");
    const FormValue form = read_form(f, depth);
    rlx_assert(*f->at == ')');
    f->at++;
    return form;
}

static FormValue read_form(FormReader *f, int depth)
{
    rlx_assert(depth < MAX_DEPTH);
    if (*f->at != '(')
        return read_atom(f);
    f->at++;
    if (strncmp(f->at, "let ", 4) == 0)
        return read_let(f, depth + 1);
    KOp op = KOP_add;
    const size_t n = token_len(f->at);
    const bool is_known = kop_parse(f->at, n, &op);
    rlx_assert(is_known);
    f->at += n;
    FormValue arg[3];
    for (uint32_t i = 0; i < kop_info[op].arity; i++) {
        f->at += strspn(f->at, " ");
        arg[i] = read_form(f, depth + 1);
    }
    rlx_assert(*f->at == ')');
    f->at++;
    return build_op(f, op, arg);
}

KRef k_form(Kernel *k, const char *form, const KRef *operand, int type)
{
    FormReader f = {.k = k, .at = form, .operand = operand, .type = type};
    const FormValue v = read_form(&f, 0);
    rlx_assert(*f.at == 0);
    return resolve(&f, &v, type);
}
