// SPDX-License-Identifier: Apache-2.0
// The texts of runtime-lite/*.h in pieces, made by the build (tools/embed_runtime.py).
#ifndef CODEGEN_HOST_RUNTIME_TEXT_H
#define CODEGEN_HOST_RUNTIME_TEXT_H

#include <stdint.h>

// What lines are for: RLX_HAS_X of rlx_types.h.
enum {
    HAS_ERRORS = 1,   // calls that fail say what they are about
    HAS_QUEUE = 2,    // runs are committed, timed, or have handles of the program
    HAS_DEVICE = 4,   // a device, or what takes its place
    HAS_STATE = 8,    // a state block
    HAS_PARAMS = 16,  // parameters
    HAS_SYMBOLS = 32, // sizes that are set between runs
    HAS_CHECKS = 64,  // conditions
    HAS_SIZES = 128,  // sizes that a run computes
    HAS_HELD = 256,   // outputs that handles hold
    HAS_SHAPES = 512, // symbols, sizes or held outputs: shapes and bytes are not always the descriptor's
    HAS_FILES = 1024, // files that belong to the code: their seals
    HAS_EXTRAS = 2048, // any member of rlx_model and rlx_ctx that not every model uses
    HAS_ROWS = 4096, // an input that comes row by row
    HAS_ALL = 8191, // RLX_FEATURES of rlx_types.h
    HAS_BANKS = 8192 // several banks of RAM, which no model has that has all of the others
};

typedef struct RuntimeLine {
    uint16_t has, has_not;
    const char *text; // with its newline
} RuntimeLine;

enum {
    PIECE_FRAME = 1, // guard and includes of a header
    PIECE_PUBLIC = 2 // a call that docs/API.md names
};

typedef struct RuntimePiece {
    const char *names; // that it defines, apart by spaces
    uint32_t flags, line, n_lines;
} RuntimePiece;

typedef struct RuntimePart {
    const char *file; // "rlx.h"
    uint32_t piece, n_pieces;
} RuntimePart;

extern const RuntimeLine runtime_lines[];
extern const RuntimePiece runtime_pieces[];
extern const RuntimePart runtime_parts[];
extern const uint32_t n_runtime_parts, n_runtime_pieces;

extern const char *const stubs_text[]; // rlx_stubs.h: pasted nowhere

#endif
