// SPDX-License-Identifier: Apache-2.0
// Tables of ops that fit and of ops that do not, for the tests of the shape rules.
#ifndef TESTS_UNIT_SHAPE_CASES_H
#define TESTS_UNIT_SHAPE_CASES_H

#include "op_cases.h"

typedef struct Good {
    OpId op;
    const char *types;
    Arg args[CASE_ARGS];
    const char *want; // result types with "; " between
} Good;

typedef struct Bad {
    OpId op;
    const char *types;
    Arg args[CASE_ARGS];
    DiagCode code;
    const char *part; // of the message
} Bad;

static inline const char *result_types(Fixture *f, NodeId id)
{
    const Node *n = graph_node(f->g, id);
    Str s = str_new(&f->arena);
    for (uint32_t i = 0; i < n->n_results; i++) {
        str_add(&s, i > 0 ? "; " : "");
        if (n->n_results > 1)
            shape_print(f->g->dims, n->results[i].dtype, &n->results[i].shape, &s);
        else
            shape_print(f->g->dims, (DType)n->dtype, n->shape, &s);
    }
    return str_text(&s);
}

static inline void check_good(Fixture *f, const Good *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const NodeId id = build_case(f, rows[i].op, rows[i].types, rows[i].args);
        assert_no_error(f);
        assert_string_equal(result_types(f, id), rows[i].want);
    }
}

static inline void check_bad(Fixture *f, const Bad *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(build_case(f, rows[i].op, rows[i].types, rows[i].args), 0);
        assert_error(f, rows[i].code, rows[i].part);
    }
}

#define CHECK_GOOD(f, rows) check_good((f), (rows), sizeof(rows) / sizeof *(rows))
#define CHECK_BAD(f, rows)  check_bad((f), (rows), sizeof(rows) / sizeof *(rows))

#endif
