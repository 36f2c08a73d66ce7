// SPDX-License-Identifier: Apache-2.0
// Writes what was emitted, with a line of progress. See job.h.
#include "compiler/job/job.h"
#include "compiler/system/output_files.h"
#include "compiler/system/rawfile.h"

enum { LARGE_PIECE = 1 << 20 };

// A file that is being written, for the line of progress.
typedef struct FileProgress {
    RawWriter *writer;
    const char *name;
    uint64_t done, total;
} FileProgress;

// Large pieces are weights: what they were made from is not needed again.
static bool append_and_release(void *progress, const void *bytes, size_t n)
{
    FileProgress *p = progress;
    const bool ok = rawfile_append(p->writer, bytes, n);
    p->done += n;
    if (n >= LARGE_PIECE) {
        rawfile_release_pages();
        cli_progress_step(p->name, p->done >> 20, p->total >> 20);
    }
    return ok;
}

bool job_write(Job *j, const char *dir)
{
    OutputFiles files;
    const uint32_t n = j->emitted.files.len;
    rlx_assert(n != 0); // job_emit has been there
    bool ok = output_begin(&files, j->cli->diag, dir, n);
    for (uint32_t i = 0; i < n && ok; i++) {
        const EmittedFile *f = &j->emitted.files.data[i];
        FileProgress p = {output_add(&files, f->name), arena_printf(j->cli->arena, "MiB of %s", f->name), 0,
                          f->len};
        ok = p.writer != NULL && host_stream(f, append_and_release, &p);
    }
    return output_end(&files, ok);
}
