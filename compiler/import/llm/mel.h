// SPDX-License-Identifier: Apache-2.0
// Spectrograms of sound, which the encoders of models that hear take.
#ifndef COMPILER_IMPORT_LLM_MEL_H
#define COMPILER_IMPORT_LLM_MEL_H

#include "ir/graph/graph.h"

// Samples of a second, and from one frame to the next. A shorter sound has not enough samples to mirror.
enum { MEL_RATE = 16000, MEL_HOP = 160, MEL_WINDOW = 400, MEL_LEAST_FRAMES = 2 };

// Input `samples`, f32[frames * MEL_HOP], from -1 to 1; output `mel`, f32[bins, frames].
Graph *mel_graph(Arena *a, Diag *d, Span span, int64_t bins, int64_t frames);

#endif
