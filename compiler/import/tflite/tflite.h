// SPDX-License-Identifier: Apache-2.0
// The importer of .tflite files, for compiler/job/file.c.
#ifndef COMPILER_IMPORT_TFLITE_TFLITE_H
#define COMPILER_IMPORT_TFLITE_TFLITE_H

#include "compiler/import/import.h"

typedef struct TflSource {
    const char *name; // for messages
    const void *data; // must live as long as the graph
    size_t len;
    ImportOptions options;
} TflSource;

// Do the bytes begin as a .tflite file does?
bool tflite_is(const void *data, size_t len);
bool import_tflite(Arena *a, Diag *d, const TflSource *source, Graph **out);

#endif
