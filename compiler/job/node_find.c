// SPDX-License-Identifier: Apache-2.0
// See node_find.h.
#include "compiler/job/node_find.h"
#include "base/str.h"
#include "ir/graph/intern.h"
#include <string.h>

static const char *name_of(const Graph *g, NodeId id)
{
    const char *name = leaf_name(graph_node(g, id));
    return name != NULL ? name : g->labels.data[id];
}

NodeId node_find(const Graph *g, const char *name)
{
    rlx_assert(name != NULL && g->nodes.len != 0);
    int64_t number = 0;
    for (NodeId id = g->nodes.len - 1; id > 0; id--)
        if (name_of(g, id) != NULL && strcmp(name_of(g, id), name) == 0)
            return id;
    for (uint32_t i = 0; i < g->outputs.len; i++)
        if (strcmp(g->outputs.data[i].name, name) == 0)
            return g->outputs.data[i].node;
    if (name[0] == '%' && str_parse_i64(name + 1, strlen(name + 1), &number) && number > 0 &&
        number < g->nodes.len)
        return (NodeId)number;
    return 0;
}

const char *node_closest(const Graph *g, const char *name)
{
    const char **names = ARENA_ARRAY(g->arena, const char *, g->nodes.len + g->outputs.len);
    uint32_t n = 0;
    for (NodeId id = 1; id < g->nodes.len; id++)
        if (name_of(g, id) != NULL)
            names[n++] = name_of(g, id);
    for (uint32_t i = 0; i < g->outputs.len; i++)
        names[n++] = g->outputs.data[i].name;
    rlx_assert(n <= g->nodes.len + g->outputs.len);
    return str_closest(name, names, n);
}

const char *node_exact_name(Arena *a, const Graph *g, NodeId id)
{
    rlx_assert(id != 0 && id < g->nodes.len);
    const char *name = name_of(g, id);
    return name != NULL && node_find(g, name) == id ? name : arena_printf(a, "%%%u", id);
}
