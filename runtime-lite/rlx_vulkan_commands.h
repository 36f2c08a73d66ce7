// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: commands for a Vulkan device. Pasted after rlx_vulkan_device.h for --target vulkan.
//
// Commands are recorded in one of two lists, in turns, so that one can be recorded while the other runs;
// lists that are made once and submitted often are beside them. Kernels wait for those before them where
// rlx_vulkan_barrier says so; every submission counts a semaphore up, and nothing has ended before that is
// seen.
#ifndef RLX_VULKAN_COMMANDS_H
#define RLX_VULKAN_COMMANDS_H

#include "rlx_vulkan_device.h"

#define RLX_VULKAN_FEW    256u // bytes that are rather written and read by themselves
#define RLX_VULKAN_PIECES 128u // that one command copies

// Stages of commands.
#define RLX_VULKAN_KERNELS 0x800u
#define RLX_VULKAN_COPIES  0x1000u

#ifdef __cplusplus
extern "C" {
#endif

// Has the semaphore come so far?
static inline int rlx_vulkan_has_ended(const rlx_vulkan *v, uint64_t count)
{
    uint64_t now = 0;
    return v->api.count(v->device, v->semaphore, &now) != 0 || now >= count;
}

static inline int rlx_vulkan_await(const rlx_vulkan *v, uint64_t count)
{
    rlx_vk_wait_info info;
    memset(&info, 0, sizeof info);
    info.head.type = 1000207004u;
    info.n = 1;
    info.semaphores = &v->semaphore;
    info.values = &count;
    return v->api.wait(v->device, &info, ~(uint64_t)0) == 0 ? RLX_VULKAN_OK : RLX_VULKAN_FAILED;
}

// What is recorded in a list runs behind all that was submitted before.
static inline int rlx_vulkan_submit_list(rlx_vulkan *v, void *const *list)
{
    const uint64_t count = v->submitted + 1u;
    rlx_vk_timeline_submit timeline;
    rlx_vk_submit submit;
    memset(&timeline, 0, sizeof timeline);
    memset(&submit, 0, sizeof submit);
    timeline.head.type = 1000207003u;
    timeline.n_signals = 1;
    timeline.signals = &count;
    submit.head.type = 4;
    submit.head.next = &timeline;
    submit.n_commands = 1;
    submit.commands = list;
    submit.n_signals = 1;
    submit.signals = &v->semaphore;
    if (v->api.submit(v->queue, 1, &submit, 0) != 0)
        return RLX_VULKAN_FAILED;
    v->submitted = count;
    v->staged_bytes = 0;
    return RLX_VULKAN_OK;
}

// The end of a list: the host sees what was written.
static inline int rlx_vulkan_end_list(rlx_vulkan *v)
{
    rlx_vk_barrier barrier;
    memset(&barrier, 0, sizeof barrier);
    barrier.head.type = 46;
    barrier.from = v->has_copied ? 0x40u | 0x1000u : 0x40u;
    barrier.to = 0x2000u; // the host reads
    v->is_recording = 0;
    v->api.barrier(v->commands, v->has_copied ? RLX_VULKAN_KERNELS | RLX_VULKAN_COPIES : RLX_VULKAN_KERNELS,
                   0x4000u, 0, 1, &barrier, 0, NULL, 0, NULL);
    return v->api.end(v->commands) == 0 ? RLX_VULKAN_OK : RLX_VULKAN_FAILED;
}

// Everything recorded so far runs.
static inline int rlx_vulkan_submit(rlx_vulkan *v)
{
    const int at = v->commands == v->lists[1];
    if (!v->is_recording)
        return RLX_VULKAN_OK;
    if (rlx_vulkan_end_list(v) != RLX_VULKAN_OK || rlx_vulkan_submit_list(v, &v->commands) != RLX_VULKAN_OK)
        return RLX_VULKAN_FAILED;
    v->ends[at] = v->submitted;
    return RLX_VULKAN_OK;
}

// The same, and all has ended on return.
static inline int rlx_vulkan_wait(rlx_vulkan *v)
{
    const int status = rlx_vulkan_submit(v);
    return status == RLX_VULKAN_OK ? rlx_vulkan_await(v, v->submitted) : status;
}

// flags: 1 for a list that is submitted once, 4 for one that may be while it still runs.
static inline int rlx_vulkan_begin_list(rlx_vulkan *v, void *list, uint32_t flags)
{
    rlx_vk_begin_info begin;
    memset(&begin, 0, sizeof begin);
    begin.head.type = 42;
    begin.flags = flags;
    v->commands = list;
    v->must_wait = v->has_copied = 1; // for what was submitted before
    v->is_recording = v->api.begin(list, &begin) == 0;
    return v->is_recording ? RLX_VULKAN_OK : RLX_VULKAN_FAILED;
}

// The next launch waits for all commands before.
static inline void rlx_vulkan_barrier(rlx_vulkan *v)
{
    v->must_wait = 1;
}

// Of the next command, whose stages are `to`. The list that is recorded anew is the one that was not last,
// and has ended most likely. Between kernels a barrier names them alone: one that also names copies takes
// longer.
static inline int rlx_vulkan_next(rlx_vulkan *v, uint32_t to)
{
    const int at = v->commands == v->lists[0];
    uint32_t from;
    rlx_vk_barrier barrier;
    if (!v->is_recording && (rlx_vulkan_await(v, v->ends[at]) != RLX_VULKAN_OK ||
                             rlx_vulkan_begin_list(v, v->lists[at], 1) != RLX_VULKAN_OK))
        return RLX_VULKAN_FAILED;
    memset(&barrier, 0, sizeof barrier);
    barrier.head.type = 46;
    from = v->has_copied ? RLX_VULKAN_KERNELS | RLX_VULKAN_COPIES : RLX_VULKAN_KERNELS;
    barrier.from = from == RLX_VULKAN_KERNELS ? 0x40u : 0x40u | 0x1000u;      // what they wrote
    barrier.to = to == RLX_VULKAN_KERNELS ? 0x20u | 0x40u : 0x800u | 0x1000u; // is what it reads and writes
    if (v->must_wait) {
        v->api.barrier(v->commands, from, to, 0, 1, &barrier, 0, NULL, 0, NULL);
        v->has_copied = 0;
    }
    v->must_wait = 0;
    v->has_copied |= to == RLX_VULKAN_COPIES;
    return RLX_VULKAN_OK;
}

// A launch between its timestamps, each written when all before has ended.
static inline void rlx_vulkan_dispatch(rlx_vulkan *v, uint64_t kernel, uint64_t groups, uint64_t rows)
{
    v->api.use(v->commands, 1, kernel);
    if (v->is_timed) {
        v->api.reset_queries(v->commands, v->queries, 0, 2);
        v->api.stamp(v->commands, 0x2000u, v->queries, 0);
    }
    v->api.dispatch(v->commands, (uint32_t)((groups + rows - 1u) / rows), (uint32_t)rows, 1);
    if (v->is_timed)
        v->api.stamp(v->commands, 0x2000u, v->queries, 1);
}

// args: addresses; groups of as many threads as the kernel is made for, along one row. They are laid out in
// rows that every device can have.
static inline int rlx_vulkan_launch(rlx_vulkan *v, uint64_t kernel, uint64_t groups, const uint64_t *args,
                                    uint32_t n_args)
{
    const uint64_t rows = (groups + 65534u) / 65535u;
    const uint32_t first = n_args > RLX_VULKAN_OWN_ARGS ? RLX_VULKAN_COPIES : RLX_VULKAN_KERNELS;
    if (n_args > RLX_VULKAN_MAX_ARGS || rows > 65535u)
        return RLX_VULKAN_FAILED;
    if (rows == 0) // what it was to wait for, the next one waits for
        return RLX_VULKAN_OK;
    v->must_wait |= n_args > RLX_VULKAN_OWN_ARGS; // the others have one place, which launches before may read
    if (rlx_vulkan_next(v, first) != RLX_VULKAN_OK)
        return RLX_VULKAN_FAILED;
    if (n_args > RLX_VULKAN_OWN_ARGS) {
        const uint64_t more = v->address + v->bytes;
        v->api.update(v->commands, v->buffer, v->bytes, (n_args - RLX_VULKAN_OWN_ARGS) * 8u,
                      args + RLX_VULKAN_OWN_ARGS);
        v->api.push(v->commands, v->layout, 0x20u, RLX_VULKAN_OWN_ARGS * 8u, 8u, &more);
        n_args = RLX_VULKAN_OWN_ARGS;
        rlx_vulkan_barrier(v);
        if (rlx_vulkan_next(v, RLX_VULKAN_KERNELS) != RLX_VULKAN_OK)
            return RLX_VULKAN_FAILED;
    }
    if (n_args != 0)
        v->api.push(v->commands, v->layout, 0x20u, 0, n_args * 8u, args);
    rlx_vulkan_dispatch(v, kernel, groups, rows);
    return RLX_VULKAN_OK;
}

// Another command than a launch: it stands between two barriers.
static inline int rlx_vulkan_apart(rlx_vulkan *v)
{
    int status;
    rlx_vulkan_barrier(v);
    status = rlx_vulkan_next(v, RLX_VULKAN_COPIES);
    rlx_vulkan_barrier(v);
    return status;
}

// Between the host and memory that it does not see or cannot read fast, piece by piece; all commands before
// have ended.
static inline int rlx_vulkan_stage(rlx_vulkan *v, unsigned char *in, const unsigned char *out,
                                   uint64_t offset, uint64_t bytes)
{
    int status = RLX_VULKAN_OK;
    uint64_t at;
    for (at = 0; at < bytes && status == RLX_VULKAN_OK; at += RLX_VULKAN_STAGE) {
        const uint64_t n = bytes - at < RLX_VULKAN_STAGE ? bytes - at : RLX_VULKAN_STAGE;
        rlx_vk_copy copy = {0, 0, 0};
        copy.bytes = n;
        if (out != NULL) {
            copy.to = offset + at;
            memcpy(v->stage, out + at, (size_t)n);
        } else {
            copy.from = offset + at;
        }
        status = rlx_vulkan_apart(v);
        if (status != RLX_VULKAN_OK)
            break;
        v->api.copy(v->commands, out != NULL ? v->stage_buffer : v->buffer,
                    out != NULL ? v->buffer : v->stage_buffer, 1, &copy);
        status = rlx_vulkan_wait(v);
        if (status == RLX_VULKAN_OK && in != NULL)
            memcpy(in + at, v->stage, (size_t)n);
    }
    return status;
}

// Small writes take their turn among the commands; before others all of them end.
static inline int rlx_vulkan_write(rlx_vulkan *v, uint64_t address, const void *data, uint64_t bytes)
{
    const uint64_t offset = address - v->address;
    int status;
    if (bytes == 0)
        return RLX_VULKAN_OK;
    if (v->is_recording && bytes <= RLX_VULKAN_FEW && bytes % 4u == 0 && offset % 4u == 0) {
        status = rlx_vulkan_apart(v);
        if (status == RLX_VULKAN_OK)
            v->api.update(v->commands, v->buffer, offset, bytes, data);
        return status;
    }
    status = rlx_vulkan_wait(v);
    if (status != RLX_VULKAN_OK || v->host == NULL)
        return status != RLX_VULKAN_OK
                   ? status
                   : rlx_vulkan_stage(v, NULL, (const unsigned char *)data, offset, bytes);
    memcpy(v->host + offset, data, (size_t)bytes);
    v->staged_bytes = 0;
    return RLX_VULKAN_OK;
}

// The bytes of whole words in one command, the others by themselves.
static inline int rlx_vulkan_clear(rlx_vulkan *v, uint64_t address, uint64_t bytes)
{
    static const unsigned char zeros[4] = {0, 0, 0, 0};
    const uint64_t offset = address - v->address, head = (4u - offset % 4u) % 4u;
    const uint64_t before = head < bytes ? head : bytes, words = (bytes - before) / 4u * 4u;
    const uint64_t behind = bytes - before - words;
    int status = before != 0 ? rlx_vulkan_write(v, address, zeros, before) : RLX_VULKAN_OK;
    if (status == RLX_VULKAN_OK && words != 0) {
        status = rlx_vulkan_apart(v);
        if (status == RLX_VULKAN_OK)
            v->api.fill(v->commands, v->buffer, offset + before, words, 0);
    }
    return status == RLX_VULKAN_OK && behind != 0
               ? rlx_vulkan_write(v, address + before + words, zeros, behind)
               : status;
}

static inline int rlx_vulkan_read(rlx_vulkan *v, void *data, uint64_t address, uint64_t bytes)
{
    const uint64_t offset = address - v->address, at = offset - v->staged;
    const int status = rlx_vulkan_wait(v);
    if (status != RLX_VULKAN_OK || bytes == 0)
        return status;
    if (at < v->staged_bytes && bytes <= v->staged_bytes - at)
        memcpy(data, v->stage + at, (size_t)bytes);
    else if (v->host == NULL || (v->stage != NULL && bytes > RLX_VULKAN_FEW))
        return rlx_vulkan_stage(v, (unsigned char *)data, NULL, offset, bytes);
    else
        memcpy(data, v->host + offset, (size_t)bytes);
    return RLX_VULKAN_OK;
}

// Pieces from one place of the device's memory to another, as few commands as there are RLX_VULKAN_PIECES of
// them.
static inline int rlx_vulkan_move_pieces(rlx_vulkan *v, uint64_t to, uint64_t from, const rlx_pieces *p)
{
    const size_t n = p->n_rows * p->n_layers;
    rlx_vk_copy copies[RLX_VULKAN_PIECES];
    int status = rlx_vulkan_apart(v);
    uint32_t n_copies = 0;
    size_t i;
    for (i = 0; i < n && status == RLX_VULKAN_OK; i++) {
        rlx_vk_copy *const copy = &copies[n_copies++];
        copy->from = from + i * p->bytes;
        copy->to = to + i / p->n_rows * p->layer + i % p->n_rows * p->row;
        copy->bytes = p->bytes;
        if (n_copies < RLX_VULKAN_PIECES && i + 1u < n)
            continue;
        v->api.copy(v->commands, v->buffer, v->buffer, n_copies, copies);
        n_copies = 0;
    }
    return status;
}

// What the host will read goes where it reads fast. Whoever submits that says so in staged, staged_bytes.
static inline int rlx_vulkan_give(rlx_vulkan *v, uint64_t offset, uint64_t bytes)
{
    const int status = rlx_vulkan_apart(v);
    rlx_vk_copy copy = {0, 0, 0};
    copy.from = offset;
    copy.bytes = bytes;
    if (status == RLX_VULKAN_OK)
        v->api.copy(v->commands, v->buffer, v->stage_buffer, 1, &copy);
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
