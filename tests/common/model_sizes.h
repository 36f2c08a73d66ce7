// SPDX-License-Identifier: Apache-2.0
// Sizes for models of others that leave some open, where the tests have such models.
#ifndef TESTS_COMMON_MODEL_SIZES_H
#define TESTS_COMMON_MODEL_SIZES_H

#include "compiler/import/import.h"

#include <string.h>

static const struct {
    const char *model;
    ImportSize sizes[4];
    uint32_t n;
} model_sizes[] = {
    {"silero_vad", {{.name = "batch", .value = 1}, {.name = "sequence", .value = 576}}, 2},
    {"stories260k_kv",
     {{.name = "B", .value = 1},
      {.name = "T", .value = 1},
      {.name = "P", .value = 7},
      {.name = "S", .value = 8}},
     4},
    {"tiny_gpt2",
     {{.name = "batch_size", .value = 1},
      {.name = "seq_len", .value = 4},
      {.name = "past_seq_len", .value = 4},
      {.name = "total_seq_len", .value = 8}},
     4},
};

static inline ImportOptions model_sizes_of(const char *path)
{
    for (size_t i = 0; i < sizeof model_sizes / sizeof *model_sizes; i++)
        if (strstr(path, model_sizes[i].model) != NULL)
            return (ImportOptions){.sizes = model_sizes[i].sizes, .n_sizes = model_sizes[i].n};
    return (ImportOptions){0};
}

#endif
