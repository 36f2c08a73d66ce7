// SPDX-License-Identifier: Apache-2.0
// The vocabulary of a folder of Hugging Face: tokenizer.json, and which tokens begin and end texts, which
// only the files beside it say. Separate from tokenizer.json, which does not know of folders.
#include "compiler/import/hf/hf.h"
#include "compiler/system/rawfile.h"
#include "compiler/vocab/vocab.h"

static void take(int32_t *id, int64_t said, uint32_t n_tokens)
{
    if (*id < 0 && said >= 0 && said < n_tokens)
        *id = (int32_t)said;
}

bool vocab_read_folder(Arena *a, Diag *d, const char *folder, rlx_vocab *out)
{
    RawFile f;
    HfEnds ends;
    const char *path = arena_printf(a, "%s/tokenizer.json", folder);
    if (!rawfile_open(a, d, (Span){0}, path, &f) ||
        !vocab_read_json(a, d, diag_add_file(d, path, f.data, f.len), f.data, f.len, out))
        return false;
    hf_ends(a, folder, &ends);
    take(&out->bos, ends.bos, out->n_tokens);
    take(&out->eos, ends.eos[0], out->n_tokens);
    take(&out->eot, ends.eos[1], out->n_tokens);
    return true;
}
