// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// Sessions that share a context and its caches, so that a run has tokens of all of them (--slots).
#ifndef RLX_SLOTS_H
#define RLX_SLOTS_H

#include "rlx_session.h"

// The caches are pages of so many rows. A page belongs to every session that has its tokens at its place.
enum { RLX_SLOTS_PAGE = 64 };

// Programs read the members up to run_status and write none.
typedef struct rlx_slots {
    rlx_ctx ctx;            // of the model, for the calls of threads and devices
    uint32_t n_slots;
    int64_t n_pages, n_free; // of the caches, and those that no session has
    rlx_status run_status;  // of the last run
    rlx_session *slot;      // [n_slots]
    int32_t *page;          // [n_slots, n_pages] of each session, in the order of its tokens
    int32_t *n_users;       // [n_pages]
    uint32_t first;         // the session that the next run begins with
} rlx_slots;

#endif
