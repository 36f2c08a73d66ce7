// SPDX-License-Identifier: Apache-2.0
// A graph with its arena and diagnostics, for the tests of the graph's own files.
#ifndef TESTS_UNIT_GRAPH_FIXTURE_H
#define TESTS_UNIT_GRAPH_FIXTURE_H

#include "ir/graph/graph.h"
#include "ir/text/text.h"
#include "unit.h"

typedef struct Fixture {
    Arena arena;
    Diag diag;
    Graph *g;
} Fixture;

static inline int set_up(void **state)
{
    Fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->diag = diag_new(&f->arena);
    f->g = graph_new(&f->arena, &f->diag, "test");
    *state = f;
    return 0;
}

static inline int tear_down(void **state)
{
    Fixture *f = *state;
    arena_free(&f->arena);
    free(f);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static inline NodeId input(Fixture *f, const char *name, DType t, uint32_t rank, const Dim *dims)
{
    Shape s = shape_of(rank, dims);
    NodeId id = graph_input(f->g, name, t, &s, (Span){0});
    assert_int_not_equal(id, 0);
    return id;
}

// The last error has this code, and its message contains `part`. Forgets all messages.
static inline void assert_error(Fixture *f, DiagCode code, const char *part)
{
    const DiagItem *found = NULL;
    for (uint32_t i = 0; i < f->diag.items.len; i++)
        if (f->diag.items.data[i].level == DIAG_ERROR)
            found = &f->diag.items.data[i];
    assert_non_null(found);
    if (!strstr(found->message, part))
        fail_msg("'%s' is not in the message '%s'", part, found->message);
    assert_string_equal(diag_code_text(found->code), diag_code_text(code));
    f->diag.items.len = 0;
    f->diag.n_errors = 0;
}

static inline void assert_no_error(Fixture *f)
{
    if (f->diag.n_errors) {
        diag_print(&f->diag, stderr, DIAG_PLAIN);
        fail_msg("%u errors", f->diag.n_errors);
    }
}

// Prints what a pass got and made, and fails.
static inline void fail_graph(Fixture *f, const Graph *before, const Graph *after, const char *what)
{
    Str text = str_new(&f->arena);
    graph_print(before, &text, TEXT_FULL);
    graph_print(after, &text, TEXT_FULL);
    fputs(str_text(&text), stderr); // longer than a message may be
    fail_msg("%s", what);
}

#endif
