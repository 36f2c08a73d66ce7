// SPDX-License-Identifier: Apache-2.0
// The files of op cases can be read: every case is a graph with outputs, and no two cases of a file have one
// name. The tests that run the cases take minutes; two branches that each add some are joined in between.
#include "../e2e/ops_cases.h"
#include "base/diag.h"
#include "ir/text/text.h"

#include <stdio.h>
#include <string.h>

// Whether it is one; says on stderr what is wrong.
static bool is_graph(const OpsCase *c)
{
    Arena a = {0};
    Diag d = diag_new(&a);
    Graph *g = NULL;
    const char *text = ops_text(&a, c);
    const uint32_t file = diag_add_file(&d, c->name, text, strlen(text));
    const bool is_read = graph_parse(&a, &d, file, &g), has_outputs = is_read && g->outputs.len > 0;
    if (!is_read)
        diag_print(&d, stderr, DIAG_PLAIN);
    else if (!has_outputs)
        fprintf(stderr, "%s: there is no output\n", c->name);
    arena_free(&a);
    return has_outputs;
}

static bool is_again(const OpsCases *cases, uint32_t i)
{
    bool found = false;
    for (uint32_t k = 0; k < i && !found; k++)
        found = strcmp(cases->data[k].name, cases->data[i].name) == 0;
    if (found)
        fprintf(stderr, "%s: there are two cases of that name\n", cases->data[i].name);
    return found;
}

int main(int argc, char **argv)
{
    int failures = 0;
    printf("1..%d\n", argc - 1);
    for (int n = 1; n < argc; n++) {
        Arena a = {0};
        OpsCases cases = {0};
        ops_read_cases(&a, argv[n], NULL, &cases);
        bool is_good = cases.len > 0;
        for (uint32_t i = 0; i < cases.len; i++) {
            const bool is_new = !is_again(&cases, i);
            is_good = is_graph(&cases.data[i]) && is_new && is_good;
        }
        failures += !is_good;
        printf("%s %d - %u cases of %s\n", is_good ? "ok" : "not ok", n, cases.len, argv[n]);
        arena_free(&a);
    }
    return failures > 0;
}
