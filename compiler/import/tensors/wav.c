// SPDX-License-Identifier: Apache-2.0
// See wav.h. A file is a list of chunks, of which `fmt ` says how the samples of `data` are stored.
#include "compiler/import/tensors/wav.h"
#include "base/bytes.h"
#include "compiler/system/rawfile.h"

#include <string.h>

enum { HEAD_BYTES = 12, CHUNK_BYTES = 8, FORM_BYTES = 16, MOST_CHANNELS = 64 };
enum { FORM_INTEGERS = 1, FORM_FLOATS = 3, FORM_NAMED = 0xfffe, NAMED_AT = 24 };

typedef struct WavChunks {
    const unsigned char *form, *data;
    size_t form_bytes, data_bytes;
} WavChunks;

static uint32_t number(const unsigned char *p, uint32_t bytes)
{
    return (uint32_t)load_le(p, bytes);
}

// The first chunks of both kinds. What says that it goes beyond the end of the file ends there, as programs
// write it that do not know the length when they begin.
static WavChunks find_chunks(const unsigned char *file, size_t n)
{
    WavChunks c = {0};
    for (size_t at = HEAD_BYTES; n - at >= CHUNK_BYTES;) {
        const unsigned char *chunk = file + at;
        const size_t said = number(chunk + 4, 4), left = n - at - CHUNK_BYTES;
        const size_t bytes = said < left ? said : left;
        if (memcmp(chunk, "fmt ", 4) == 0 && c.form == NULL) {
            c.form = chunk + CHUNK_BYTES;
            c.form_bytes = bytes;
        } else if (memcmp(chunk, "data", 4) == 0 && c.data == NULL) {
            c.data = chunk + CHUNK_BYTES;
            c.data_bytes = bytes;
        }
        at += CHUNK_BYTES + bytes;
        at += bytes % 2 != 0 && at < n; // chunks begin at even places
    }
    return c;
}

static float sample_at(const unsigned char *p, uint32_t bytes)
{
    const uint32_t bits = number(p, bytes);
    float v;
    if (bytes == 2)
        return (float)(int16_t)bits / 32768;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static bool refuse(Diag *d, const char *path, const char *why)
{
    return diag_error(d, (Span){0}, E0105, "%s: %s", path, why);
}

bool wav_read(Arena *a, Diag *d, const char *path, Wav *out)
{
    RawFile f;
    if (!rawfile_open(a, d, (Span){0}, path, &f))
        return false;
    const unsigned char *file = (const unsigned char *)f.data;
    if (f.len < HEAD_BYTES || memcmp(file, "RIFF", 4) != 0 || memcmp(file + 8, "WAVE", 4) != 0)
        return refuse(d, path, "this is no .wav file (RIFF, WAVE)");
    const WavChunks c = find_chunks(file, f.len);
    if (c.form == NULL || c.data == NULL || c.form_bytes < FORM_BYTES)
        return refuse(d, path, "the file is damaged: it lacks one of the chunks 'fmt ' and 'data'");
    uint32_t form = number(c.form, 2);
    if (form == FORM_NAMED && c.form_bytes >= NAMED_AT + 2)
        form = number(c.form + NAMED_AT, 2);
    const uint32_t channels = number(c.form + 2, 2), bits = number(c.form + 14, 2), bytes = bits / 8;
    if (!(form == FORM_INTEGERS && bits == 16) && !(form == FORM_FLOATS && bits == 32))
        return refuse(d, path, "expected samples that are integers of 16 bits or floats of 32");
    if (channels < 1 || channels > MOST_CHANNELS)
        return refuse(d, path, "expected 1 to 64 channels");
    *out = (Wav){.n = (int64_t)(c.data_bytes / (channels * bytes)), .rate = number(c.form + 4, 4)};
    out->samples = ARENA_ARRAY(a, float, (size_t)out->n + 1);
    for (int64_t i = 0; i < out->n; i++) {
        double sum = 0;
        for (uint32_t k = 0; k < channels; k++)
            sum += (double)sample_at(c.data + ((size_t)i * channels + k) * bytes, bytes);
        out->samples[i] = (float)(sum / channels);
    }
    return true;
}
