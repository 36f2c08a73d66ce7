// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// What NAME_load returns: weights that a program packs from a GGUF file or a folder (rlxc compile --weights
// load).
#ifndef RLX_LOAD_H
#define RLX_LOAD_H

#include "../rlx.h"

enum {
    RLX_LOAD_NULL = -40,       // a pointer is NULL
    RLX_LOAD_MEMORY = -41,     // the block is not of NAME_WEIGHT_BYTES, or is not aligned to RLX_ALIGNMENT
    RLX_LOAD_FORMAT = -42,     // no GGUF file of version 2 or 3, or none of a folder
    RLX_LOAD_DAMAGED = -43,    // it ends too early, or counts, lengths or offsets in it cannot be right
    RLX_LOAD_SETTINGS = -44,   // another architecture, other sizes or other numbers than compiled for
    RLX_LOAD_VOCABULARY = -45, // another vocabulary
    RLX_LOAD_TENSORS = -46,    // a tensor is missing, is one too many, or has another shape or type
    RLX_LOAD_VALUES = -47,     // a tensor has other values, of which the code has a part
    RLX_LOAD_SHARE = -48       // before NAME_load_begin, after other files, or shares are not done
};

// Shares of the work that threads may have, at most.
enum { RLX_LOAD_SHARES = 64 };

// All bytes of a file.
typedef struct rlx_load_bytes {
    const void *data;
    size_t n;
} rlx_load_bytes;

// What a status of NAME_load means.
static inline const char *rlx_load_text(int status)
{
    static const char *const texts[] = {
        "a pointer is NULL",
        "the block for the weights has another size, or is not aligned",
        "this is no GGUF file of version 2 or 3, or no file of weights of a folder",
        "the file is damaged or incomplete",
        "the file is of another model: its settings differ",
        "the file is of another model: its vocabulary differs",
        "the file is of another model: its tensors differ",
        "the file is of another model: values that are a part of the code differ",
        "loading was not begun with these files, or not all shares of it are done",
    };
    if (status > RLX_LOAD_NULL || status < RLX_LOAD_SHARE)
        return status >= 0 ? "no error" : "an unknown status";
    return texts[RLX_LOAD_NULL - status];
}

#endif
