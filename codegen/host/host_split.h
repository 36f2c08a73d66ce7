// SPDX-License-Identifier: Apache-2.0
// NAME.c in several parts, which as many compilers can work at (--split N). The text stays one file: each
// kernel stands between lines that give it to a part, NAME.c alone is part 1, and NAME_2.c ... define which
// part they are and include it. With NAME_WHOLE defined all parts are one, and kernels are static as without
// the option.
#ifndef CODEGEN_HOST_HOST_SPLIT_H
#define CODEGEN_HOST_HOST_SPLIT_H

#include "codegen/host/host.h"

typedef struct HostFunction {
    const char *signature; // "RLX_KERNEL void NAME_k0_add(...)"; NULL with one part
    const char *text;
    size_t len;
    uint32_t part; // from 1 on
} HostFunction;

typedef struct HostFunctions {
    VEC(HostFunction) list;
} HostFunctions;

// Gives every function a part, so that all parts are about as long. Which is a matter of the texts only.
void host_split_share(Arena *a, HostFunctions *f, uint32_t parts);
// The functions in their order, each in its part; with one part, as they are.
void host_split_print(const HostFunctions *f, const char *upper, uint32_t parts, Str *out);
// Print what is in front of all (which part this is) and behind the prelude (what RLX_KERNEL means then, and
// prototypes).
void host_split_begin(const char *name, const char *upper, uint32_t parts, Str *out);
void host_split_prototypes(const HostFunctions *f, const char *upper, uint32_t parts, Str *out);
// Around what is in part 1 only; nothing with one part.
void host_split_open(const char *upper, uint32_t parts, uint32_t part, Str *out);
void host_split_close(uint32_t parts, Str *out);
// " NAME_2.c NAME_3.c"; "" with one part.
const char *host_split_names(Arena *a, const char *name, uint32_t parts);
// NAME_2.c ... NAME_N.c.
void host_split_files(Arena *a, const char *name, const char *upper, uint32_t parts, Emitted *out);

#endif
