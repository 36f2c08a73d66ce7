// SPDX-License-Identifier: Apache-2.0
// See call_graph.h.
#include "compiler/native/call_graph.h"
#include "base/map.h"
#include "base/str.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 1000 };
typedef enum State { NEW, OPEN, DONE } State;

typedef struct Node {
    const char *title, *name;
    bool is_defined, is_bounded, is_static; // is_static: of the model's own file
    uint64_t frame, need;
    VEC(uint32_t) calls;
    uint32_t deepest; // that it calls, + 1
    State state;
} Node;

typedef struct Reader {
    Arena *arena;
    const char *source, *c;
    Map index; // of nodes, by title
    VEC(Node) nodes;
    const char *unknown;
} Reader;

static const char indirect[] = "__indirect_call";

// --- the file ------------------------------------------------------------------------------------

// What stands in quotes behind a word on the line; NULL: the line has no such word.
static const char *quoted(Arena *a, const char *line, size_t len, const char *word)
{
    const char *text = arena_strndup(a, line, len), *at = strstr(text, word);
    const char *begin = at != NULL ? strchr(at, '"') : NULL;
    return begin != NULL ? arena_strndup(a, begin + 1, strcspn(begin + 1, "\"")) : NULL;
}

// "{r4-r11, lr}": 9.
static uint64_t count_registers(const char *list)
{
    uint64_t n = 0;
    for (const char *at = list + 1; *at != '\0' && *at != '}'; at += *at == ',') {
        unsigned first = 0, last = 0;
        at += strspn(at, " ");
        n += sscanf(at, "r%u-r%u", &first, &last) == 2 && last >= first ? last - first + 1 : 1;
        at += strcspn(at, ",}");
    }
    return n;
}

// What all functions in assembler take together (c_dsp.inc): none runs what moves the stack more than once.
static uint64_t assembler_bytes(const char *c)
{
    static const char push[] = "push {", sub[] = "sub sp, #";
    uint64_t bytes = 0;
    for (const char *at = c; (at = strstr(at, push)) != NULL; at++)
        bytes += 4 * count_registers(at + sizeof push - 2);
    for (const char *at = c; (at = strstr(at, sub)) != NULL; at++)
        bytes += strtoull(at + sizeof sub - 1, NULL, 10);
    return bytes;
}

static bool is_assembler(const Reader *r, const char *name)
{
    return strstr(r->c, arena_printf(r->arena, "\nRLX_DSP_FUNCTION void %s(", name)) != NULL;
}

static uint32_t node_of(Reader *r, const char *title)
{
    uint64_t at = 0;
    if (map_get_str(&r->index, title, &at))
        return (uint32_t)at;
    map_put_str(r->arena, &r->index, title, r->nodes.len);
    const size_t n = strlen(r->source);
    const bool is_static = strncmp(title, r->source, n) == 0 && title[n] == ':';
    vec_push(r->arena, &r->nodes, ((Node){.title = title, .name = title, .is_static = is_static}));
    return r->nodes.len - 1;
}

// "dispatch\nkws.c:1059:19\n64 bytes (static)", where \n are two characters. What is not defined there has
// no frame.
static void read_node(Reader *r, const char *title, const char *label)
{
    const uint32_t at = node_of(r, title);
    Node *n = &r->nodes.data[at];
    const char *bytes = strstr(label, " bytes (");
    if (bytes == NULL)
        return;
    const char *number = bytes;
    while (number > label && number[-1] >= '0' && number[-1] <= '9')
        number--;
    const char *end = strstr(label, "\\n");
    n->name = arena_strndup(r->arena, label, end != NULL ? (size_t)(end - label) : strlen(label));
    n->frame = strtoull(number, NULL, 10);
    n->frame += is_assembler(r, n->name) ? assembler_bytes(r->c) : 0;
    n->is_defined = true;
    n->is_bounded = strstr(bytes, "(dynamic)") == NULL;
}

static void read_line(Reader *r, const char *line, size_t len)
{
    const bool is_node = strncmp(line, "node:", 5) == 0, is_edge = strncmp(line, "edge:", 5) == 0;
    const char *first =
        is_node || is_edge ? quoted(r->arena, line, len, is_node ? "title:" : "sourcename:") : NULL;
    const char *second =
        first != NULL ? quoted(r->arena, line, len, is_node ? "label:" : "targetname:") : NULL;
    if (second == NULL)
        return;
    if (is_node) {
        read_node(r, first, second);
        return;
    }
    const uint32_t from = node_of(r, first), to = node_of(r, second);
    vec_push(r->arena, &r->nodes.data[from].calls, to);
}

// --- the stack -----------------------------------------------------------------------------------

static void visit(Reader *r, uint32_t at, uint32_t depth);

static void take(Reader *r, uint32_t at, uint32_t callee, uint32_t depth)
{
    if (r->nodes.data[callee].state == NEW)
        visit(r, callee, depth + 1);
    Node *n = &r->nodes.data[at];
    const Node *to = &r->nodes.data[callee];
    if (to->state == OPEN && r->unknown == NULL)
        r->unknown = arena_printf(r->arena, "%s may lead back to %s", n->name, to->name);
    if (n->frame + to->need > n->need) {
        n->need = n->frame + to->need;
        n->deepest = callee + 1;
    }
}

// A pointer may lead to each static function of the model.
static void visit(Reader *r, uint32_t at, uint32_t depth)
{
    Node *n = &r->nodes.data[at];
    n->state = OPEN;
    n->need = n->frame;
    if ((depth > MAX_DEPTH || (n->is_defined && !n->is_bounded)) && r->unknown == NULL)
        r->unknown = arena_printf(
            r->arena, "%s", depth > MAX_DEPTH ? "calls are nested too deeply" : "a frame depends on the run");
    for (uint32_t i = 0; i < n->calls.len && r->unknown == NULL; i++)
        take(r, at, n->calls.data[i], depth);
    for (uint32_t i = 0; strcmp(n->title, indirect) == 0 && i < r->nodes.len && r->unknown == NULL; i++)
        if (r->nodes.data[i].is_static)
            take(r, at, i, depth);
    n->state = DONE;
}

static const char *path_of(const Reader *r, uint32_t at)
{
    Str path = str_new(r->arena);
    for (;; at = r->nodes.data[at].deepest - 1) {
        const Node *n = &r->nodes.data[at];
        if (strcmp(n->title, indirect) != 0)
            str_printf(&path, "%s%s", path.len != 0 ? " > " : "", n->name);
        if (n->deepest == 0)
            return str_text(&path);
    }
}

static void reach(const Reader *r, bool *is_reached, uint32_t at, Strings *libraries)
{
    const Node *n = &r->nodes.data[at];
    const bool is_indirect = strcmp(n->title, indirect) == 0;
    if (is_reached[at])
        return;
    is_reached[at] = true;
    if (!n->is_defined && !is_indirect)
        vec_push(r->arena, libraries, n->name);
    for (uint32_t i = 0; i < n->calls.len; i++)
        reach(r, is_reached, n->calls.data[i], libraries);
    for (uint32_t i = 0; i < r->nodes.len && is_indirect; i++)
        if (r->nodes.data[i].is_static)
            reach(r, is_reached, i, libraries);
}

CallGraph call_graph_read(Arena *a, const char *text, const char *source, const char *c)
{
    Reader r = {.arena = a, .source = source, .c = c};
    CallGraph g = {0};
    for (; *text != '\0'; text += *text == '\n') {
        const size_t len = strcspn(text, "\n");
        read_line(&r, text, len);
        text += len;
    }
    for (uint32_t i = 0; i < r.nodes.len && r.unknown == NULL; i++) {
        const Node *n = &r.nodes.data[i];
        if (!n->is_defined || strchr(n->title, ':') != NULL)
            continue;
        if (n->state == NEW)
            visit(&r, i, 0);
        StackEntry e = {.function = n->name, .bytes = n->need};
        if (r.unknown != NULL)
            break;
        e.path = path_of(&r, i);
        reach(&r, ARENA_ARRAY(a, bool, r.nodes.len), i, &e.libraries);
        vec_push(a, &g.entries, e);
    }
    g.unknown = r.unknown != NULL    ? r.unknown
                : g.entries.len == 0 ? "the compiler wrote no graph of calls"
                                     : NULL;
    return g;
}

const StackEntry *call_graph_entry(const CallGraph *g, const char *function)
{
    for (uint32_t i = 0; g->unknown == NULL && i < g->entries.len; i++)
        if (strcmp(g->entries.data[i].function, function) == 0)
            return &g->entries.data[i];
    return NULL;
}
