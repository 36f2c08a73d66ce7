// SPDX-License-Identifier: Apache-2.0
// What became of the bytes of constants while a model was compiled (--weights load).
#ifndef IR_GRAPH_READS_H
#define IR_GRAPH_READS_H

#include "base/map.h"
#include "ir/graph/graph.h"

// Bytes of a file that were copied.
typedef struct ReadsMoved {
    const void *from;
    uint64_t bytes;
} ReadsMoved;

struct GraphReads {
    Arena *arena;
    Map seen;                  // addresses of bytes
    Map widened, widened_from; // ReadsWidened by either address
    Map moved;                 // ReadsMoved by the address of the copy
    Map copies;                // addresses of the last copies, by those of what they begin with
};

// Constants of fewer elements are in the caches anyway, and stay as they are.
enum { READS_LEAST = 8192 };

// Constants of f32 that stand for those of f16 or bf16, of which nobody has looked at a number.
typedef struct ReadsWidened {
    const void *from;
    DType type; // of these
    void *to;
} ReadsWidened;

void reads_note(GraphReads *r, const void *data);
bool reads_has_seen(const GraphReads *r, const void *data);
void reads_note_widened(GraphReads *r, const void *from, DType type, void *to);
// NULL: there are none at that address.
const ReadsWidened *reads_widened(const GraphReads *r, const void *to);
const ReadsWidened *reads_widened_from(const GraphReads *r, const void *from);
void reads_note_moved(GraphReads *r, const void *from, const void *to, uint64_t bytes);
// Where bytes come from that begin a copy and lie in it; else where they are.
const void *reads_source(const GraphReads *r, const void *at, uint64_t bytes);
// The last copy of what is there, which other imports of the model take too; NULL: there is none.
const void *reads_copy(const GraphReads *r, const void *from);

#endif
