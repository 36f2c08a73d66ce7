// SPDX-License-Identifier: Apache-2.0
// PNG by libpng's simplified interface, which converts every kind of PNG to bytes of grey or RGB; scaling
// by the mean over the part of the image that a pixel of the result covers.
#include "image.h"
#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

// A file, and the part of it that is taken, in pixels.
typedef struct Picture {
    const unsigned char *bytes;
    ptrdiff_t width, height, channels;
    double left, top, part_width, part_height;
} Picture;

int image_channels(const int64_t shape[4])
{
    if (shape[1] == 1 || shape[1] == 3)
        return (int)shape[1];
    return shape[3] == 1 || shape[3] == 3 ? -(int)shape[3] : 0;
}

// The largest part around the middle that has the proportions of the result, then the share of it to keep.
static void crop(Picture *p, double width, double height, double share)
{
    const double by_width = (double)p->width / width, by_height = (double)p->height / height;
    const double unit = share * (by_width < by_height ? by_width : by_height);
    p->part_width = unit * width;
    p->part_height = unit * height;
    p->left = ((double)p->width - p->part_width) / 2;
    p->top = ((double)p->height - p->part_height) / 2;
}

// How much of pixel i lies between from and to.
static double share_of(ptrdiff_t i, double from, double to)
{
    const double a = fmax((double)i, from), b = fmin((double)(i + 1), to);
    return b > a ? b - a : 0;
}

// The mean over a box as wide as a pixel of the result, or as one of the picture where that is wider: the
// first makes the mean of many, the second interpolates between neighbours.
static double mean_at(const Picture *p, double x, double y, double step, ptrdiff_t channel)
{
    const double half = (step > 1 ? step : 1) / 2;
    double sum = 0, weights = 0;
    for (ptrdiff_t row = (ptrdiff_t)floor(y - half); (double)row < y + half; row++) {
        if (row < 0 || row >= p->height)
            continue;
        for (ptrdiff_t column = (ptrdiff_t)floor(x - half); (double)column < x + half; column++) {
            if (column < 0 || column >= p->width)
                continue;
            const double weight = share_of(row, y - half, y + half) * share_of(column, x - half, x + half);
            sum += weight * p->bytes[(row * p->width + column) * p->channels + channel];
            weights += weight;
        }
    }
    return weights > 0 ? sum / weights / 255 : 0;
}

static void convert(const Picture *p, const int64_t shape[4], const ImageOptions *o, float *values)
{
    const int is_last = image_channels(shape) < 0;
    const ptrdiff_t height = shape[is_last ? 1 : 2], width = shape[is_last ? 2 : 3];
    const double step = p->part_width / (double)width;
    for (ptrdiff_t c = 0; c < p->channels; c++) {
        for (ptrdiff_t y = 0; y < height; y++) {
            for (ptrdiff_t x = 0; x < width; x++) {
                const double from_x = p->left + ((double)x + 0.5) * step;
                const double from_y = p->top + ((double)y + 0.5) * step;
                const double grey = mean_at(p, from_x, from_y, step, c);
                const double v = (o->is_inverted ? 1 - grey : grey) * o->scale;
                const ptrdiff_t to =
                    is_last ? (y * width + x) * p->channels + c : (c * height + y) * width + x;
                values[to] = ((float)v - o->mean[c]) / o->std[c];
            }
        }
    }
}

const char *image_read(const char *path, const int64_t shape[4], const ImageOptions *options, float *values)
{
    const int is_last = image_channels(shape) < 0, channels = abs(image_channels(shape));
    const png_color black = {0, 0, 0};
    static png_image png; // static because the message is in it
    Picture p = {.channels = channels};
    unsigned char *bytes = NULL;
    memset(&png, 0, sizeof png);
    png.version = PNG_IMAGE_VERSION;
    if (png_image_begin_read_from_file(&png, path)) {
        png.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
        bytes = malloc(PNG_IMAGE_SIZE(png));
    }
    // What is transparent becomes black.
    if (bytes == NULL || !png_image_finish_read(&png, &black, bytes, 0, NULL)) {
        png_image_free(&png);
        free(bytes);
        return png.message[0] != '\0' ? png.message : "too large";
    }
    p.bytes = bytes;
    p.width = png.width;
    p.height = png.height;
    crop(&p, (double)shape[is_last ? 2 : 3], (double)shape[is_last ? 1 : 2], options->crop);
    convert(&p, shape, options, values);
    free(bytes);
    return NULL;
}
