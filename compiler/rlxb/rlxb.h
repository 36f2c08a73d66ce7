// SPDX-License-Identifier: Apache-2.0
// The binary form of a graph, .rlxb: docs/FORMAT.md has every byte.
#ifndef COMPILER_RLXB_RLXB_H
#define COMPILER_RLXB_RLXB_H

#include "ir/graph/graph.h"

typedef struct RlxbSource {
    const char *name; // for messages
    const void *data; // must live as long as the graph, whose tensors are in it
    size_t len;
    bool has_checked_data; // the checksums of tensors count too: reads all bytes
} RlxbSource;

// True for bytes that begin as such a file does.
bool rlxb_is(const void *data, size_t len);
// Header and graph, of a file that was read.
uint64_t rlxb_header_bytes(const void *data);
// False: reported.
bool import_rlxb(Arena *a, Diag *d, const RlxbSource *source, Graph **out);
// The file appears complete or not at all.
bool import_export_rlxb(const Graph *g, const char *path, Diag *d);
// The checksum of header and graph, as it stands in a file with a graph section of that size.
uint64_t rlxb_checksum(const void *data, size_t graph_bytes);

#endif
