// SPDX-License-Identifier: Apache-2.0
// Ops on numbers as rows of a table, for the tests of the evaluator: constants and one expression in the text
// form, and the elements that must come out, as text ("1.0 nan -0.0").
#ifndef TESTS_UNIT_VALUE_CASES_H
#define TESTS_UNIT_VALUE_CASES_H

#include "graph_fixture.h"
#include "ir/eval/eval.h"
#include "ir/text/text.h"

typedef struct Value {
    const char *constants; // "f32[2] = {1.0, nan}; f32[] = {2.0}": %1, %2 ...
    const char *expr;      // "max(%1, %2) : f32[2]"
    const char *want;
} Value;

static inline const char *elements_text(Fixture *f, const Tensor *t)
{
    Str s = str_new(&f->arena);
    for (int64_t i = 0; i < t->numel; i++) {
        str_add(&s, i > 0 ? " " : "");
        if (t->dtype == DTYPE_f64)
            str_f64(&s, tensor_get_f64(t, i));
        else if (dtype_info[t->dtype].cls == DCLASS_FLOAT)
            str_f32(&s, (float)tensor_get_f64(t, i));
        else if (t->dtype == DTYPE_u64)
            str_printf(&s, "%llu", (unsigned long long)tensor_get_i64(t, i));
        else
            str_printf(&s, "%lld", (long long)tensor_get_i64(t, i));
    }
    return str_text(&s);
}

static inline Graph *parse_graph(Fixture *f, const char *text)
{
    Graph *g = NULL;
    if (!graph_parse(&f->arena, &f->diag, diag_add_file(&f->diag, "case", text, strlen(text)), &g)) {
        fprintf(stderr, "%s", text);
        assert_no_error(f);
    }
    return g;
}

// A graph of the constants and the expression, whose results are the outputs "y".
static inline Graph *parse_value(Fixture *f, const Value *v)
{
    Str s = str_new(&f->arena);
    uint32_t n = 0;
    str_add(&s, "graph \"case\" {\n");
    for (const char *c = v->constants, *end = c; end && *c != '\0'; c = end) {
        end = strchr(c, ';');
        str_printf(&s, "  %%%u = const : ", ++n);
        str_add_n(&s, c, end ? (size_t)(end - c) : strlen(c));
        str_char(&s, '\n');
        while (end && (*end == ';' || *end == ' '))
            end++;
    }
    str_printf(&s, "  %%%u = %s\n  output \"y\" = %%%u\n}\n", n + 1, v->expr, n + 1);
    return parse_graph(f, str_text(&s));
}

static inline void check_values(Fixture *f, const Value *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const Graph *g = parse_value(f, &rows[i]);
        EvalRun run = eval_begin(g, &f->arena, (DimValues){0});
        if (!eval_graph(&run))
            assert_no_error(f);
        const char *got = elements_text(f, &run.value[g->outputs.data[0].node]);
        if (strcmp(got, rows[i].want) != 0)
            fail_msg("%s of %s: got '%s', expected '%s'", rows[i].expr, rows[i].constants, got, rows[i].want);
    }
}

#define CHECK_VALUES(f, rows) check_values((f), (rows), sizeof(rows) / sizeof *(rows))

#endif
