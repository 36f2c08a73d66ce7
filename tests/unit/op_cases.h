// SPDX-License-Identifier: Apache-2.0
// Ops as rows of a table, for the tests of shape rules and of the evaluator: operand types are text
// ("f32[2, seq]; -; i64[3]", - for an absent one), attributes are listed with INT, LIST, TEXT and REAL.
#ifndef TESTS_UNIT_OP_CASES_H
#define TESTS_UNIT_OP_CASES_H

#include "graph_fixture.h"

typedef struct Arg {
    AttrId id;
    AttrType type;
    int64_t i;
    double real;
    const char *text;
    const int64_t *list;
    uint32_t n;
} Arg;

// ATTR_INTS stands for every list, ATTR_INT for every number without a fraction.
#define INT(attr, value)                                                                                     \
    {                                                                                                        \
        .id = (attr), .type = ATTR_INT, .i = (value), .n = 1                                                 \
    }
#define REAL(attr, value)                                                                                    \
    {                                                                                                        \
        .id = (attr), .type = ATTR_FLOAT, .real = (value), .n = 1                                            \
    }
#define TEXT(attr, value)                                                                                    \
    {                                                                                                        \
        .id = (attr), .type = ATTR_STR, .text = (value), .n = 1                                              \
    }
#define LIST(attr, ...)                                                                                      \
    {                                                                                                        \
        .id = (attr), .type = ATTR_INTS, .list = (const int64_t[]){__VA_ARGS__},                             \
        .n = sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)                                        \
    }
enum { CASE_ARGS = 6 };

static inline size_t skip_spaces(const char *s)
{
    return strspn(s, " ");
}

// Reads "f32[2, seq]" and returns the text behind it.
static inline const char *read_type(Fixture *f, const char *s, TensorType *t)
{
    char name[16] = {0};
    const size_t len = strcspn(s, "[");
    assert_true(len < sizeof name);
    memcpy(name, s, len);
    assert_true(dtype_parse(name, &t->dtype));
    t->shape = (Shape){.rank = 0};
    for (s += len + 1; *s != ']';) {
        const size_t end = strcspn(s, ",]");
        size_t error_at = 0;
        assert_true(
            dim_parse(f->g->dims, s, end, DIM_ADD_SYMBOLS, &t->shape.dim[t->shape.rank++], &error_at));
        s += end;
        s += *s == ',' ? 1 + skip_spaces(s + 1) : 0;
    }
    return s + 1;
}

static inline void add_args(NodeBuild *b, const Arg *args)
{
    for (uint32_t i = 0; i < CASE_ARGS && args[i].n > 0; i++) {
        const Arg *a = &args[i];
        if (a->type == ATTR_INT)
            node_int(b, a->id, a->i);
        else if (a->type == ATTR_FLOAT)
            node_float(b, a->id, a->real);
        else if (a->type == ATTR_STR)
            node_str(b, a->id, a->text);
        else
            node_ints(b, a->id, a->list, a->n);
    }
}

// The node of an op on new inputs of the listed types; 0 when a message was reported.
static inline NodeId build_case(Fixture *f, OpId op, const char *types, const Arg *args)
{
    NodeId src[8];
    uint32_t n = 0;
    for (const char *s = types; *s != '\0'; n++) {
        TensorType t;
        assert_true(n < 8);
        src[n] = 0;
        if (*s == '-') {
            s++;
        } else {
            s = read_type(f, s, &t);
            const char *name = arena_printf(&f->arena, "in%u", f->g->nodes.len);
            src[n] = graph_input(f->g, name, t.dtype, &t.shape, (Span){0});
        }
        s += *s == ';' ? 1 + skip_spaces(s + 1) : 0;
    }
    NodeBuild b = node_begin(f->g, op, (Span){0}, NULL);
    for (uint32_t i = 0; i < n; i++)
        node_src(&b, src[i]);
    add_args(&b, args);
    return node_end(&b);
}

#endif
