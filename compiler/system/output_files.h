// SPDX-License-Identifier: Apache-2.0
// Files that belong together, such as NAME.h, NAME.c and NAME.weights: all of them are written, or none.
// Nothing is renamed before all is written: a full disk or a signal leaves the files of an earlier compile
// together.
#ifndef COMPILER_SYSTEM_OUTPUT_FILES_H
#define COMPILER_SYSTEM_OUTPUT_FILES_H

#include "base/str.h"
#include "compiler/system/rawfile.h"

typedef struct OutputFiles {
    Diag *diag;
    const char *dir;
    RawWriter *writers;
    uint32_t n, most, n_folders; // n_folders: made for them
} OutputFiles;

// Makes the folder. False: reported; output_end follows in either case.
bool output_begin(OutputFiles *f, Diag *d, const char *dir, uint32_t most);
// The next file, for rawfile_append. NULL: reported.
RawWriter *output_add(OutputFiles *f, const char *name);
// The next file, with these parts one after the other. False: it is not complete; output_end says why.
bool output_add_parts(OutputFiles *f, const char *name, const FilePart *parts, uint32_t n_parts);
// Puts all in place, or removes what was made. False: the latter.
bool output_end(OutputFiles *f, bool is_complete);
// NAME.h and NAME.c in a folder, both or none. False: reported.
bool output_write_pair(Arena *a, Diag *d, const char *dir, const char *name, const Str *header,
                       const Str *code);

#endif
