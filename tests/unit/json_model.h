// SPDX-License-Identifier: Apache-2.0
// What the tests of JSON models share: models as C strings with ' for ", and what came of them.
#ifndef TESTS_UNIT_JSON_MODEL_H
#define TESTS_UNIT_JSON_MODEL_H

#include "compiler/import/import.h"
#include "ir/shape/verify.h"
#include "unit.h"

static Arena arena;
static Diag diag;

static inline int reset(void **state)
{
    (void)state;
    arena_free(&arena);
    return 0;
}

// Imports a text in which ' stands for ".
static inline Graph *import(const char *text)
{
    Graph *g = NULL;
    char *json = arena_strdup(&arena, text);
    for (char *c = json; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    diag = diag_new(&arena);
    bool ok = import_json(&arena, &diag, diag_add_file(&diag, "dir/net.v1.json", json, strlen(json)), "", &g);
    assert_int_equal(diag.n_errors == 0, ok);
    return ok ? g : NULL;
}

static inline Graph *import_good(const char *text)
{
    Graph *g = import(text);
    if (!g) {
        diag_print(&diag, stderr, DIAG_PLAIN);
        fail_msg("refused: %s", text);
    }
    const char *broken = graph_verify(g, STAGE_IMPORTED);
    if (broken)
        fail_msg("%s: %s", text, broken);
    return g;
}

static inline const Node *output(const Graph *g, uint32_t i)
{
    return graph_node(g, g->outputs.data[i].node);
}

static inline const char *type_of(const Graph *g, uint32_t i)
{
    Str s = str_new(&arena);
    shape_print(g->dims, (DType)output(g, i)->dtype, output(g, i)->shape, &s);
    return str_text(&s);
}

#endif
