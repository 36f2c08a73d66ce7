// SPDX-License-Identifier: Apache-2.0
// What the fuzzers share: inputs, the readers of formats, and what is checked of an input that was read.
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include "ir/graph/graph.h"

enum { INPUT_CAP = 1 << 16 };

typedef struct Bytes {
    unsigned char *data; // INPUT_CAP
    size_t len;
} Bytes;

typedef struct Format Format;
struct Format {
    const char *name;
    // False: refused, with a diagnostic. *out: the graph, NULL of formats that hold none.
    bool (*read)(Arena *a, Diag *d, const Bytes *in, Graph **out);
    uint32_t most_mib; // that reading may take
    const char *words; // what to insert
    void (*seal)(Bytes *in, uint64_t iteration); // makes the mutated input plausible, or NULL
    // Changes the model that the bytes hold instead of the bytes; false: they hold none. Or NULL.
    bool (*mutate)(Bytes *in, const Bytes *seeds, size_t n_seeds);
};

// NULL: there is none of that name.
const Format *format_find(const char *name);

// Reads the input and compiles what was read as far as the text of the program, for a target and with options
// that follow from `choice`; returns whether it was read. Messages go to `sink`. Ends the program where a
// reader fails without a message or succeeds with one, where it takes more memory than the format
// says, and where a graph
// is not valid or changes when it is printed and read back. Everything is in the arena, which the caller
// resets.
bool fuzz_try(const Format *f, Arena *a, const Bytes *in, uint64_t choice, FILE *sink);

// --- random numbers, the same on every machine ---

void random_start(uint64_t seed);
uint64_t random_bits(void);
// Below n; 0 for n = 0.
size_t pick(size_t n);

// --- mutations ---

// Puts n bytes in the place of `cut` bytes at `at`; what would be longer than INPUT_CAP stays as it is.
void bytes_replace(Bytes *b, size_t at, size_t cut, const void *bytes, size_t n);
// One change of the bytes.
void bytes_mutate(Bytes *b, const Format *f, const Bytes *seeds, size_t n_seeds);
// 1 to 5 changes of the model: attributes, shapes, types, operands, nodes, sub-graphs. False: the bytes are
// no ONNX, and stay as they are.
bool onnx_mutate(Bytes *in, const Bytes *seeds, size_t n_seeds);

#endif
