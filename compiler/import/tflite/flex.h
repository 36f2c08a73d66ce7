// SPDX-License-Identifier: Apache-2.0
// The numbers of a map of FlexBuffers, as converters write the options of custom operators. Every offset is
// checked.
#ifndef COMPILER_IMPORT_TFLITE_FLEX_H
#define COMPILER_IMPORT_TFLITE_FLEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Flex {
    const uint8_t *data;
    size_t len;
} Flex;

// A number of the map by its name. False: there is none, or the bytes are no map.
bool flex_find(Flex f, const char *name, double *out);

#endif
