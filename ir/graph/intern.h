// SPDX-License-Identifier: Apache-2.0
// Interning: equal shapes, attribute payloads and nodes become one pointer or id, so that comparing them is
// one compare. For the files that implement the graph; passes use the builders of graph.h.
#ifndef IR_GRAPH_INTERN_H
#define IR_GRAPH_INTERN_H

#include "ir/graph/graph.h"

// The canonical copies of a list and a string.
const int64_t *intern_ints(Graph *g, const int64_t *v, uint64_t n);
const char *intern_str(Graph *g, const char *s);
// The first blob with these bytes; the bytes are not copied. NULL for n == 0.
const void *intern_blob(Graph *g, const void *p, uint64_t n);
// Says what hash_bytes64(p, n, 0) is, so that intern_blob need not read the bytes. A wrong hash only keeps
// equal blobs apart.
void intern_known(Graph *g, const void *p, uint64_t n, uint64_t hash);
// Makes the payload of an attribute canonical in g.
void intern_attr(Graph *g, AttrVal *v);

// The id of the node that equals n, which is appended (with copies of its arrays) when there is none.
// Shape and attributes must be canonical. A span or label fills a gap of an existing node.
NodeId intern_node(Graph *g, const Node *n, Span span, const char *label);
// The words that say what a node is; two nodes are equal when these are. `words` has node_key_len(n) entries.
uint32_t node_key_len(const Node *n);
void node_key(const Node *n, uint64_t *words);

// Gives span and label to a node that has none.
void intern_origin(Graph *g, NodeId id, Span span, const char *label);

// Names are unique among the leaves and among the outputs of a graph. 0: free.
typedef enum NameSpace { NAME_LEAF, NAME_OUTPUT } NameSpace;
NodeId intern_find_name(Graph *g, NameSpace space, const char *name);
void intern_put_name(Graph *g, NameSpace space, const char *name, NodeId id);
// The name of an input, param or state; NULL for other nodes.
const char *leaf_name(const Node *n);

// The default of an attribute that has one; its text is in ops.def.
AttrVal attr_default(Graph *g, AttrId id);
bool attr_equal(const AttrVal *a, const AttrVal *b);

// Copies all of `from` that is needed into a graph that shares its tables, with known symbols as numbers.
// False: a shape rule failed.
bool graph_copy_bound(Graph *from, DimValues v, Graph *to);

// By NodeId: is it needed by the graph, or the size of a live axis of such a node? Rewriting drops the
// others.
bool *graph_mark_live(const Graph *g, Arena *a);

// graph_rewrite that tells the caller, before each step, which node the one at hand was rebuilt from.
typedef void (*RewriteVisit)(NodeId old, NodeId rebuilt, void *ctx);
bool graph_rewrite_watched(Graph *g, RewriteVisit visit, RewriteStep step, void *ctx);

// Rules for every type in a graph: dims not negative, sizes within the limits. False: reported, with `what`
// in front.
bool type_check(Graph *g, Span span, const char *what, const TensorType *t);

#endif
