// SPDX-License-Identifier: Apache-2.0
// Interning of shapes, attribute payloads and nodes (see intern.h). Payloads live in one map that a graph
// shares with its sub-graphs and rebuilt copies, so that copying a node between those needs no look at its
// payload. Keys may hold pointers: maps iterate in the order of insertion, so addresses never show in what we
// print.
#include "ir/graph/intern.h"

#include <string.h>

typedef enum PayloadTag {
    PAYLOAD_SHAPE = 1,
    PAYLOAD_INTS,
    PAYLOAD_STR,
    PAYLOAD_BLOB,
    PAYLOAD_KNOWN
} PayloadTag;

enum { INLINE_BYTES = 256, INLINE_WORDS = 64, TAG_BYTES = 8, MAX_PROBES = 16, LARGE_BLOB = 4096 };

static const void *as_pointer(uint64_t value)
{
    return (const void *)(uintptr_t)value;
}

static uint64_t as_word(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

// The key in the map is the tag and then the payload itself, so that the map's copy serves as the canonical
// one.
static const void *intern_bytes(Graph *g, PayloadTag tag, const void *p, size_t n)
{
    unsigned char small[INLINE_BYTES];
    unsigned char *key = n + TAG_BYTES <= sizeof small ? small : arena_alloc(g->arena, n + TAG_BYTES);
    uint64_t tag_word = tag, found = 0;
    memcpy(key, &tag_word, TAG_BYTES);
    if (n)
        memcpy(key + TAG_BYTES, p, n);
    if (map_get(g->payloads, key, n + TAG_BYTES, &found))
        return as_pointer(found);
    map_put(g->arena, g->payloads, key, n + TAG_BYTES, 0);
    MapEntry *e = &g->payloads->entries[g->payloads->len - 1];
    const unsigned char *canonical = (const unsigned char *)e->key + TAG_BYTES;
    e->value = as_word(canonical);
    return canonical;
}

const int64_t *intern_ints(Graph *g, const int64_t *v, uint64_t n)
{
    return intern_bytes(g, PAYLOAD_INTS, v, (size_t)n * sizeof *v);
}

const char *intern_str(Graph *g, const char *s)
{
    return intern_bytes(g, PAYLOAD_STR, s, strlen(s) + 1);
}

const Shape *graph_intern_shape(Graph *g, const Shape *s)
{
    rlx_assert(s->rank <= SHAPE_MAX_RANK);
    Shape clean;
    memset(&clean, 0, sizeof clean);
    clean.rank = s->rank;
    memcpy(clean.dim, s->dim, s->rank * sizeof *s->dim);
    return intern_bytes(g, PAYLOAD_SHAPE, &clean, sizeof clean);
}

// Blobs are large, so their key is a hash; `probe` tells those apart that have one hash but differ. Few do,
// unless somebody makes a file of them: after some, a blob is just itself.
static const void *intern_hashed(Graph *g, const void *p, uint64_t n, uint64_t hash)
{
    uint64_t key[4] = {PAYLOAD_BLOB, n, hash, 0};
    for (uint64_t found = 0; key[3] < MAX_PROBES; key[3]++) {
        if (!map_get(g->payloads, key, sizeof key, &found)) {
            map_put(g->arena, g->payloads, key, sizeof key, as_word(p));
            return p;
        }
        if (as_pointer(found) == p || memcmp(as_pointer(found), p, (size_t)n) == 0)
            return as_pointer(found);
    }
    return p;
}

static bool find_known(const Graph *g, const void *p, uint64_t n, uint64_t *found)
{
    const uint64_t key[3] = {PAYLOAD_KNOWN, n, as_word(p)};
    return map_get(g->payloads, key, sizeof key, found);
}

// Canonical bytes stay as they are: the next time they are known by their address, without another look at
// gigabytes of weights.
static void note_known(Graph *g, const void *p, uint64_t n, const void *canonical)
{
    const uint64_t key[3] = {PAYLOAD_KNOWN, n, as_word(p)};
    map_put(g->arena, g->payloads, key, sizeof key, as_word(canonical));
}

const void *intern_blob(Graph *g, const void *p, uint64_t n)
{
    uint64_t found = 0;
    if (!n)
        return NULL;
    if (find_known(g, p, n, &found))
        return as_pointer(found);
    const void *canonical = intern_hashed(g, p, n, hash_bytes64(p, (size_t)n, 0));
    if (canonical == p && n >= LARGE_BLOB)
        note_known(g, p, n, p);
    return canonical;
}

void intern_known(Graph *g, const void *p, uint64_t n, uint64_t hash)
{
    uint64_t found = 0;
    if (!find_known(g, p, n, &found))
        note_known(g, p, n, intern_hashed(g, p, n, hash));
}

void intern_attr(Graph *g, AttrVal *v)
{
    switch (attr_info[v->id].type) {
    case ATTR_INTS:
    case ATTR_DIMS:
        v->u.ints = intern_ints(g, v->u.ints, v->len);
        break;
    case ATTR_STR:
        v->u.str = intern_str(g, v->u.str);
        break;
    case ATTR_BLOB:
        v->u.blob = intern_blob(g, v->u.blob, v->len);
        break;
    case ATTR_INT:
    case ATTR_FLOAT:
    case ATTR_BOOL:
    case ATTR_DTYPE:
    case ATTR_GRAPH:
        break;
    }
}

static uint64_t attr_word(const AttrVal *v)
{
    switch (attr_info[v->id].type) {
    case ATTR_INT:
    case ATTR_BOOL:
    case ATTR_DTYPE:
        return (uint64_t)v->u.i;
    case ATTR_FLOAT:
        return v->u.f64_bits;
    case ATTR_STR:
        return as_word(v->u.str);
    case ATTR_INTS:
    case ATTR_DIMS:
        return as_word(v->u.ints);
    case ATTR_BLOB:
        return as_word(v->u.blob);
    case ATTR_GRAPH:
        return as_word(v->u.graph);
    }
    diag_bug(__FILE__, __LINE__, "a known attribute type");
}

bool attr_equal(const AttrVal *a, const AttrVal *b)
{
    return a->id == b->id && a->len == b->len && attr_word(a) == attr_word(b);
}

uint32_t node_key_len(const Node *n)
{
    return 2 + (n->n_src + 1u) / 2 + n->n_attr;
}

void node_key(const Node *n, uint64_t *words)
{
    uint64_t *w = words;
    *w++ = n->op | (uint64_t)n->dtype << 16 | (uint64_t)n->n_results << 24 | (uint64_t)n->n_src << 32;
    *w++ = as_word(n->shape);
    for (uint32_t i = 0; i < n->n_src; i += 2)
        *w++ = n->src[i] | (i + 1 < n->n_src ? (uint64_t)n->src[i + 1] << 32 : 0);
    for (uint32_t i = 0; i < n->n_attr; i++)
        *w++ = attr_word(&n->attr[i]);
}

static bool span_is_set(Span s)
{
    return s.file != 0 || s.path != NULL;
}

void intern_origin(Graph *g, NodeId id, Span span, const char *label)
{
    if (!span_is_set(g->spans.data[id]))
        g->spans.data[id] = span;
    if (!g->labels.data[id] && label)
        g->labels.data[id] = intern_str(g, label);
}

void graph_label(Graph *g, NodeId id, const char *label)
{
    intern_origin(g, id, (Span){0}, label);
}

static void count_depth(Graph *g, const Node *n)
{
    for (uint32_t i = 0; i < n->n_attr; i++) {
        const AttrVal *v = &n->attr[i];
        if (attr_info[v->id].type == ATTR_GRAPH && v->u.graph->depth + 1 > g->depth)
            g->depth = v->u.graph->depth + 1;
    }
}

static NodeId append_node(Graph *g, const Node *n)
{
    Node copy = *n;
    if (g->nodes.len == UINT32_MAX)
        arena_give_up("nodes", g->nodes.len);
    copy.src = arena_copy(g->arena, n->src, n->n_src * sizeof *n->src);
    copy.attr = arena_copy(g->arena, n->attr, n->n_attr * sizeof *n->attr);
    count_depth(g, n);
    if (n->results)
        copy.results = arena_copy(g->arena, n->results, n->n_results * sizeof *n->results);
    vec_push(g->arena, &g->nodes, copy);
    vec_push(g->arena, &g->spans, (Span){0});
    vec_push(g->arena, &g->labels, NULL);
    return g->nodes.len - 1;
}

NodeId intern_node(Graph *g, const Node *n, Span span, const char *label)
{
    uint64_t small[INLINE_WORDS];
    uint32_t len = node_key_len(n);
    uint64_t *key = len <= INLINE_WORDS ? small : ARENA_ARRAY(g->arena, uint64_t, len);
    uint64_t found = 0;
    node_key(n, key);
    if (!map_get(&g->interned, key, len * sizeof *key, &found)) {
        found = append_node(g, n);
        map_put(g->arena, &g->interned, key, len * sizeof *key, found);
    }
    intern_origin(g, (NodeId)found, span, label);
    return (NodeId)found;
}

// Names share the map with the nodes, whose keys have at least two words.
typedef struct NameKey {
    uint32_t name[2], space;
} NameKey;

static NameKey name_key(Graph *g, NameSpace space, const char *name)
{
    uint64_t word = as_word(intern_str(g, name));
    return (NameKey){{(uint32_t)word, (uint32_t)(word >> 32)}, space};
}

NodeId intern_find_name(Graph *g, NameSpace space, const char *name)
{
    NameKey key = name_key(g, space, name);
    uint64_t found = 0;
    return map_get(&g->interned, &key, sizeof key, &found) ? (NodeId)found : 0;
}

void intern_put_name(Graph *g, NameSpace space, const char *name, NodeId id)
{
    NameKey key = name_key(g, space, name);
    map_put(g->arena, &g->interned, &key, sizeof key, id);
}
