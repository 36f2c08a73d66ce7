// SPDX-License-Identifier: Apache-2.0
// Sound in RIFF files (.wav).
#ifndef COMPILER_IMPORT_TENSORS_WAV_H
#define COMPILER_IMPORT_TENSORS_WAV_H

#include "base/arena.h"
#include "base/diag.h"

// The mean of the channels, from -1 to 1.
typedef struct Wav {
    float *samples;
    int64_t n, rate; // rate: samples of a second
} Wav;

// Integers of 16 bits and floats of 32. False: reported.
bool wav_read(Arena *a, Diag *d, const char *path, Wav *out);

#endif
