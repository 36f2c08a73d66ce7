// SPDX-License-Identifier: Apache-2.0
// From a PNG file to the numbers that a network takes.
#ifndef IMAGE_H
#define IMAGE_H
#include <stdint.h>

typedef struct ImageOptions {
    float mean[3], std[3];
    float scale; // of white, before the mean is subtracted
    float crop;  // share of the shorter side that is kept
    int is_inverted;
} ImageOptions;

// 1 or 3; negative where they are the last axis, [1, H, W, C], 0 where neither axis can be that of the
// channels.
int image_channels(const int64_t shape[4]);

// Writes (pixel * scale - mean) / std in the layout of the shape. Returns what is wrong, or NULL.
const char *image_read(const char *path, const int64_t shape[4], const ImageOptions *options, float *values);

#endif
