// SPDX-License-Identifier: Apache-2.0
// Programs that pack the weights of a file or folder themselves (--weights load): which bytes of the weights
// are made of which tensors, and what else must be equal in the files that a program takes.
#ifndef COMPILER_LOAD_LOAD_H
#define COMPILER_LOAD_LOAD_H

#include "compiler/job/job.h"
#include "compiler/load/load_text.h"
#include "passes/lower/blocks/blocks_packed.h"
#include "passes/lower/product/gemm_packed.h"
#include "runtime-lite/load/rlx_load_run.h"

// A tensor of the files.
typedef struct LoadTensor {
    const char *name;
    uint64_t dim[RLX_LOAD_RANK]; // in the order of the file; 1 beyond the rank
    uint32_t type;               // its number (of a folder rlx_load_type_number)
    uint64_t bytes;
    const unsigned char *data;
    bool is_unused; // the model has no need of it
    bool is_loaded;
    bool is_fixed; // values of it may be in the code
} LoadTensor;

// What becomes bytes [to, to + bytes) of the weights.
typedef struct LoadPart {
    uint64_t to, bytes;
    uint32_t tensor, format;   // LOAD_NONE: bytes of the code; format: by kind
    uint32_t kind;             // RLX_LOAD_BYTES ...
    uint64_t from;             // the first byte, of the tensor or in the code
    const PlanBuffer *buffer;
    const PackedBlocks *packed; // of blocks
    const GemmPacked *panels;   // of floats
} LoadPart;
enum { LOAD_NONE = 0xffff };

typedef struct Load {
    bool is_there; // else nothing of the rest is
    HostLoad host;
    const char *arch; // NULL: a folder
    uint64_t settings, vocabulary;
    VEC(LoadTensor) tensors; // by name
    uint32_t *by_place;      // numbers of tensors in the order of their bytes
    VEC(LoadPart) parts;     // by `to`
    VEC(const PackedBlocks *) formats;
    VEC(const GemmPacked *) layouts; // of panels
    uint64_t own_bytes; // of constants that are in the code
    Str code;
} Load;

// Of a planned job: with --weights load, what its program does; the job then is to be emitted. False:
// reported.
bool load_find(Job *j, Load *out);
// Puts it into the files of the job.
void load_add(Job *j, const Load *l);

// Says what --weights load expected; false.
bool load_refuse(const Job *j, const char *expected);
// Fills tensors and sums: what the files say (load_files.c). False: reported.
bool load_read_files(Job *j, Load *l);
// Fills parts (load_tensors.c). False: reported.
bool load_find_parts(Job *j, Load *l);
// The tables of format number i (load_format.c).
void load_emit_format(const PackedBlocks *p, uint32_t i, Str *out);
// The row of a layout of panels in the table of layouts.
void load_emit_layout_row(const GemmPacked *p, Str *out);
// Its row in the table of formats.
void load_emit_format_row(const PackedBlocks *p, uint32_t i, Str *out);

#endif
