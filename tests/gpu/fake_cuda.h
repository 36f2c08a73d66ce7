// SPDX-License-Identifier: Apache-2.0
// What the two halves of the libcuda of tests share: fake_cuda.c (memory, streams, the queue of commands) and
// fake_cuda_graph.c (modules, launches, graphs).
#ifndef TESTS_GPU_FAKE_CUDA_H
#define TESTS_GPU_FAKE_CUDA_H

#include "compiler/metal/device.h"

#include <stddef.h>

enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NOT_FOUND = 500, NOT_READY = 600, PINNED_ALREADY = 712 };
enum { MAX_ARGS = 64, MAX_RANGES = 64 };

typedef struct Function {
    DeviceKernel run;
    bool has_barrier;
    char name[128];
} Function;

typedef enum CommandKind { LAUNCH, COPY, FILL, GRAPH, RECORD, NOTHING, WHILE } CommandKind;

typedef struct Launch {
    Function *function;
    unsigned grid[3], block;
    uint32_t n_args;
    void *args[MAX_ARGS];
} Launch;

struct Graph;
typedef struct Command {
    CommandKind kind;
    Launch launch;
    void *to;
    const void *from; // `kept` where the caller's memory may change
    void *kept;
    size_t bytes;
    unsigned char value;
    struct Graph *graph; // GRAPH; the body of WHILE
    uint64_t condition;
    struct Event *event;
    bool is_off; // of a graph: it does nothing
    struct Command *next;
} Command;

typedef struct Edge {
    uint32_t from, to;
} Edge;

typedef struct Graph {
    Command *nodes;
    Edge *edges;
    uint32_t n_nodes, n_edges;
} Graph;

typedef struct Event {
    uint32_t pending; // records in the queue
    double us;        // of the last of them
} Event;

// Zeros; ends the process when there is no memory.
void *fake_make(size_t bytes);
// Ends the process.
void fake_stop(const char *what);
// Is this the call that FAKE_CUDA_FAIL wants to fail?
bool fake_fails(const char *name);
#define MAY_FAIL                                                                                             \
    if (fake_fails(__func__))                                                                                \
        return NO_MEMORY

void fake_add_command(Command c);
void fake_run_command(const Command *c);
void fake_run_all(void);
// All nodes of a graph.
void fake_run_graph(const Graph *g);
void fake_free_graph(Graph *g);
// What a kernel calls: does the node with this condition go on?
void fake_set_condition(uint64_t condition, unsigned value);
// A body as long as its condition says so.
void fake_run_while(const Command *c);
// Is it memory of the device, or of the host that copies may use later?
bool fake_is_device(const void *p, size_t bytes);
bool fake_is_pinned(const void *p, size_t bytes);
// May something be put into the stream now?
bool fake_is_usable(const void *stream);
// Objects that must be given back.
void fake_count(int objects);
// The seed of the order of nodes and threads.
uint64_t fake_seed(void);

#endif
