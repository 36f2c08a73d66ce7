// SPDX-License-Identifier: Apache-2.0
// See device.h.
#if defined(__APPLE__) // for ucontext.h, and all the same
#define _XOPEN_SOURCE   700
#define _DARWIN_C_SOURCE 1
#endif
#include "compiler/metal/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

// Nothing of ours is included: see cpu_objc.h.
#define rlx_assert(condition)                                                                                \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "device.c:%d: %s\n", __LINE__, #condition);                                      \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

enum { STACK_BYTES = 1 << 17, MAX_GROUP = 1024, SWAP_BYTES = 16 };
enum { PAGE_BYTES = 1 << 12, WORD_BYTES = 4, PAGE_WORDS = PAGE_BYTES / WORD_BYTES, MAX_PAGES = 1 << 14 };

// --- what threads have touched -------------------------------------------------------------------

enum { NOBODY = 0, MANY_GROUPS = UINT32_MAX, SPLIT = UINT32_MAX };

// Who touched one byte, or all bytes of a word, in the launch `launch`. Threads and groups are numbered from
// 1. Readers: the group that they are of, and of those since its last barrier one thread, or MANY_GROUPS when
// there are several.
typedef struct Cell {
    uint32_t launch;
    uint32_t group; // that touched it first
    uint32_t writer, writer_group, writer_phase;
    uint32_t reader, reader_group, reader_phase;
} Cell;

// Most accesses are to whole words, which have one cell. Bytes have their own where a part of a word was
// touched: `launch` of the word is SPLIT then.
typedef struct Page {
    uintptr_t number;
    Cell *words, *bytes; // bytes: NULL, where no word is split
} Page;

static Page pages[MAX_PAGES]; // by hash; those of stacks are never among them
static Page *last_page;
static uint32_t n_pages;

static Cell *cells_new(size_t n)
{
    Cell *cells = calloc(n, sizeof *cells);
    rlx_assert(cells != NULL);
    return cells;
}

static Page *page_of(uintptr_t number)
{
    if (last_page != NULL && last_page->number == number)
        return last_page;
    uint32_t at = (uint32_t)((number * UINT64_C(0x9e3779b97f4a7c15)) >> 50) % MAX_PAGES;
    while (pages[at].words != NULL && pages[at].number != number)
        at = (at + 1) % MAX_PAGES;
    if (pages[at].words == NULL) {
        rlx_assert(++n_pages < MAX_PAGES);
        pages[at] = (Page){number, cells_new(PAGE_WORDS), NULL};
    }
    last_page = &pages[at];
    return last_page;
}

// What earlier launches touched does not matter any more; the next launch has room for all that it touches.
static void forget_pages(void)
{
    for (uint32_t i = 0; i < MAX_PAGES; i++) {
        free(pages[i].words);
        free(pages[i].bytes);
    }
    memset(pages, 0, sizeof pages);
    last_page = NULL;
    n_pages = 0;
}

static Cell *bytes_of(Page *p, uint32_t word)
{
    rlx_assert(p->words != NULL && word < PAGE_WORDS);
    if (p->bytes == NULL)
        p->bytes = cells_new(PAGE_BYTES);
    Cell *bytes = p->bytes + word * WORD_BYTES;
    for (uint32_t i = 0; i < WORD_BYTES && p->words[word].launch != SPLIT; i++)
        bytes[i] = p->words[word];
    p->words[word].launch = SPLIT;
    return bytes;
}

// --- places in programs ----------------------------------------------------------------------------

// Where a stack goes on. Switches of ucontext.h call the system each time, and the interceptors of sanitizers
// do more, so that they only begin a thread, where the compiler has jumps of its own.
typedef struct Place {
    ucontext_t begin;
#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_JUMPS 1
    void *jump[5];
#endif
} Place;

// Alone in its frame: it returns when somebody switches to `from`. has_begun: of `to`, since when it began.
static __attribute__((noinline)) void switch_place(Place *from, Place *to, bool has_begun)
{
#ifdef HAS_JUMPS
    if (__builtin_setjmp(from->jump) != 0)
        return;
    if (has_begun)
        __builtin_longjmp(to->jump, 1);
    setcontext(&to->begin);
#else
    (void)has_begun;
    swapcontext(&from->begin, &to->begin);
#endif
}

// --- the launch that runs ------------------------------------------------------------------------

// What a thread does when it does not run. WAIT_NAMED: and more, the number of the barrier.
typedef enum Wait { WAIT_NOT, WAIT_ENDED, WAIT_BARRIER, WAIT_SWAP, WAIT_NAMED } Wait;

typedef struct Thread {
    Place at;
    uint32_t id[DEVICE_IDS];
    bool has_begun; // it has a place where it goes on
    uint32_t wait;
    uint32_t others; // that wait with it, at a barrier with a number
    unsigned char handed[2][SWAP_BYTES]; // by turns: the last value, which others may not have read yet
    uint32_t n_handed;
} Thread;

static struct {
    DeviceKernel fn;
    void *const *args;
    uint32_t number;  // of the launch, or of those that run at the same time
    uint32_t thread;  // that runs now, in all of these
    uint32_t group;   // that runs now, in all of these
    uint32_t first_thread, first_group; // of the launch
    uint32_t n_threads, n_groups;       // of the launch
    uint32_t group_x; // threads of a group
    uint32_t simd;    // threads of a simdgroup
    uint32_t phase;   // rounds of the group that ended at a barrier
    uintptr_t stack, stack_end;
    bool has_barrier, is_apart;
    const DeviceRange *written;
    uint32_t n_written;
    char wrong[160];
} run;
static uint64_t n_threads, n_accesses;
uint32_t device_group_x;

static Thread group[MAX_GROUP];
static Place scheduler;
static Thread *current;
static char *stacks;

static void report(const char *what, uintptr_t address, uint32_t other)
{
    if (run.wrong[0] == '\0')
        snprintf(run.wrong, sizeof run.wrong, "race: threads %u and %u %s the byte at %#llx", other - 1,
                 run.thread - 1, what, (unsigned long long)address);
}

// Has what the last writer did ended before now?
static bool is_after_write(const Cell *c)
{
    return c->writer == NOBODY || c->writer == run.thread ||
           (c->writer_group == run.group && c->writer_phase < run.phase);
}

static void note_read(Cell *c, uintptr_t address)
{
    if (!is_after_write(c))
        report("write and read", address, c->writer);
    if (c->reader == NOBODY || (c->reader_group == run.group && c->reader_phase < run.phase)) {
        c->reader = run.thread;
        c->reader_group = run.group;
    } else if (c->reader != run.thread) {
        c->reader_group = c->reader_group == run.group ? run.group : MANY_GROUPS;
        c->reader = MANY_GROUPS;
    }
    c->reader_phase = run.phase;
}

static void note_write(Cell *c, uintptr_t address)
{
    const bool is_after_reads = c->reader == NOBODY || c->reader == run.thread ||
                                (c->reader_group == run.group && c->reader_phase < run.phase);
    if (!is_after_write(c))
        report("write", address, c->writer);
    if (!is_after_reads)
        report("read and write", address, c->reader == MANY_GROUPS ? run.thread : c->reader);
    c->writer = run.thread;
    c->writer_group = run.group;
    c->writer_phase = run.phase;
}

// Is what it says of another launch or, in memory of groups, of another group?
static bool is_past(const Cell *c, bool is_of_groups)
{
    return c->launch != run.number || (is_of_groups && c->group != run.group);
}

static void note_cell(Cell *c, uintptr_t address, bool is_write, bool is_of_groups)
{
    if (is_past(c, is_of_groups))
        *c = (Cell){.launch = run.number, .group = run.group};
    if (is_write)
        note_write(c, address);
    else
        note_read(c, address);
}

// Do all bytes of a word have one cell? They have it again when nothing is known of them any more.
static bool is_whole(Page *p, uint32_t word, bool is_of_groups)
{
    if (p->words[word].launch != SPLIT)
        return true;
    for (uint32_t i = 0; i < WORD_BYTES; i++)
        if (!is_past(&p->bytes[word * WORD_BYTES + i], is_of_groups))
            return false;
    p->words[word] = (Cell){0};
    return true;
}

static bool is_written(const char *p, size_t n)
{
    for (uint32_t i = 0; i < run.n_written; i++)
        if (p >= run.written[i].begin && p + n <= run.written[i].end)
            return true;
    return false;
}

static void note(const void *p, size_t n, bool is_write)
{
    const uintptr_t begin = (uintptr_t)p;
    n_accesses++;
    if (run.thread == NOBODY || (begin >= run.stack && begin < run.stack_end))
        return;
    // What kernels with barriers write elsewhere is memory of groups, in which one group follows another.
    const bool is_of_groups = !is_written(p, n);
    if (is_of_groups && !run.has_barrier) {
        if (is_write)
            report("write what is not theirs,", begin, run.thread);
        return; // nobody writes it, so all may read it
    }
    for (uintptr_t at = begin, next; at < begin + n; at = next) {
        Page *page = page_of(at / PAGE_BYTES);
        const uint32_t word = (uint32_t)(at % PAGE_BYTES / WORD_BYTES);
        const uintptr_t word_end = at / WORD_BYTES * WORD_BYTES + WORD_BYTES;
        next = word_end < begin + n ? word_end : begin + n;
        if (next - at == WORD_BYTES && is_whole(page, word, is_of_groups)) {
            note_cell(&page->words[word], at, is_write, is_of_groups);
            continue;
        }
        Cell *bytes = bytes_of(page, word);
        for (uintptr_t byte = at; byte < next; byte++)
            note_cell(&bytes[byte % WORD_BYTES], byte, is_write, is_of_groups);
    }
}

// --- threads ---------------------------------------------------------------------------------------

// The i-th of n numbers in an order that the seed picks: steps of a prime that does not divide n.
static uint32_t pick(uint32_t i, uint32_t n, uint64_t seed)
{
    static const uint32_t primes[] = {1, 1000003, 999983, 7919, 65537, 104729, 2147483647};
    const uint32_t prime = primes[seed % (sizeof primes / sizeof *primes)];
    const uint32_t step = n % prime == 0 && n > 1 ? 1 : prime;
    return (uint32_t)(((uint64_t)i * step + seed / 7) % n);
}

static void begin_thread(Thread *t)
{
    const uintptr_t stack = (uintptr_t)stacks + (uintptr_t)(t - group) * STACK_BYTES;
    current = t;
    run.stack = stack;
    run.stack_end = stack + STACK_BYTES;
    run.thread =
        1 + run.first_thread + (run.group - run.first_group - 1) * run.group_x + (uint32_t)(t - group);
    n_threads++;
}

// Ends and begins again with each group.
static void thread_main(void)
{
    Thread *const t = current;
    for (;;) {
        run.fn(run.args, t->id);
        t->wait = WAIT_ENDED;
        switch_place(&t->at, &scheduler, true);
    }
}

const uint32_t *device_thread(void)
{
    return current->id;
}

static void wait_for(uint32_t what)
{
    Thread *t = current;
    rlx_assert(t != NULL);
    t->wait = what;
    switch_place(&t->at, &scheduler, true);
}

void device_barrier(void)
{
    wait_for(WAIT_BARRIER);
}

void device_named_barrier(uint32_t number, uint32_t threads)
{
    current->others = threads;
    wait_for(WAIT_NAMED + number);
}

// Returns, when all threads of the group have handed something, where the others of this turn lie.
static uint32_t hand(const void *value, uint32_t bytes)
{
    Thread *t = current;
    rlx_assert(t != NULL && bytes <= SWAP_BYTES);
    const uint32_t turn = t->n_handed++ % 2;
    memcpy(t->handed[turn], value, bytes);
    wait_for(WAIT_SWAP);
    return turn;
}

void device_swap(void *value, uint32_t bytes, uint32_t mask)
{
    const uint32_t other = (uint32_t)(current - group) ^ mask;
    rlx_assert(mask < run.simd && other < run.group_x);
    const uint32_t turn = hand(value, bytes);
    memcpy(value, group[other].handed[turn], bytes);
}

uint32_t device_lane(void)
{
    rlx_assert(run.simd == DEVICE_MATRIX_SIMD);
    return (uint32_t)(current - group) % DEVICE_MATRIX_SIMD;
}

void device_gather(const void *value, uint32_t bytes, void *all)
{
    const Thread *const first = current - device_lane();
    const uint32_t turn = hand(value, bytes);
    for (uint32_t i = 0; i < DEVICE_MATRIX_SIMD; i++)
        memcpy((char *)all + (size_t)i * bytes, first[i].handed[turn], bytes);
}

static uint32_t count_waiting(uint32_t first, uint32_t n, uint32_t what)
{
    uint32_t count = 0;
    for (uint32_t i = first; i < first + n; i++)
        count += group[i].wait == what;
    return count;
}

static void release(uint32_t first, uint32_t n, uint32_t what)
{
    for (uint32_t i = first; i < first + n; i++)
        group[i].wait = group[i].wait == what ? WAIT_NOT : group[i].wait;
}

// Simdgroups (or all of the group at once) in which all threads hand a value.
static void release_swaps(void)
{
    const uint32_t n = run.is_apart ? run.simd : run.group_x;
    for (uint32_t first = 0; first < run.group_x; first += n) {
        const uint32_t count = run.group_x - first < n ? run.group_x - first : n;
        if (count_waiting(first, count, WAIT_SWAP) == count)
            release(first, count, WAIT_SWAP);
    }
}

// Returns whether there were barriers that are complete.
static bool release_barriers(void)
{
    bool has_any = false;
    for (uint32_t i = 0, last = WAIT_NOT; i < run.group_x; i++) {
        const uint32_t what = group[i].wait, all = what == WAIT_BARRIER ? run.group_x : group[i].others;
        const bool is_seen = what == last; // neighbours mostly wait at the same one
        last = what;
        if (is_seen || (what != WAIT_BARRIER && what < WAIT_NAMED) ||
            count_waiting(0, run.group_x, what) != all)
            continue;
        release(0, run.group_x, what);
        has_any = true;
    }
    return has_any;
}

// One thread after the other of those that wait for nothing, up to where they wait. Returns their number.
static uint32_t run_round(uint64_t seed)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < run.group_x; i++) {
        Thread *t = &group[pick(i, run.group_x, seed)];
        const bool has_begun = t->has_begun;
        if (t->wait != WAIT_NOT)
            continue;
        begin_thread(t);
        t->has_begun = true;
        switch_place(&scheduler, &t->at, has_begun);
        n++;
    }
    n_threads -= n;
    return n;
}

// Alone in its frame: getcontext may return more than once.
static __attribute__((noinline)) void make_place(Thread *t)
{
    rlx_assert(t >= group && t < group + MAX_GROUP && stacks != NULL);
    getcontext(&t->at.begin);
    t->at.begin.uc_stack.ss_sp = stacks + (size_t)(t - group) * STACK_BYTES;
    t->at.begin.uc_stack.ss_size = STACK_BYTES;
    makecontext(&t->at.begin, thread_main, 0);
    t->has_begun = false;
}

// A thread that did not end in the group before begins anew.
static void begin_group(void)
{
    for (uint32_t i = 0; i < run.group_x; i++) {
        if (group[i].wait != WAIT_ENDED)
            make_place(&group[i]);
        group[i].wait = WAIT_NOT;
        group[i].n_handed = 0;
    }
}

// All threads of a group, from barrier to barrier.
static void run_group(uint64_t seed)
{
    begin_group();
    n_threads += run.group_x;
    for (run.phase = 0; run_round(seed++) != 0; run.phase += release_barriers())
        release_swaps();
    current = NULL;
    const uint32_t n_ended = count_waiting(0, run.group_x, WAIT_ENDED);
    if (n_ended < run.group_x && run.wrong[0] == '\0')
        snprintf(run.wrong, sizeof run.wrong,
                 n_ended != 0 ? "%u of %u threads of a group have ended while others wait"
                              : "%u of %u threads of a group hand values while others wait",
                 n_ended != 0 ? n_ended : count_waiting(0, run.group_x, WAIT_SWAP), run.group_x);
}

// Without barriers threads need no stacks of their own.
static void run_threads(uint64_t seed)
{
    char here;
    run.phase = 0;
    for (uint32_t i = 0; i < run.group_x; i++) {
        const uint32_t at = pick(i, run.group_x, seed);
        begin_thread(&group[at]);
        run.stack_end = (uintptr_t)&here + 256;
        run.stack = (uintptr_t)&here - STACK_BYTES;
        run.fn(run.args, group[at].id);
    }
    current = NULL;
}

const char *device_launch(DeviceKernel fn, void *const *args, const DeviceRange *written, uint32_t n_written,
                          DeviceGrid grid, uint64_t seed)
{
    const uint64_t across = (grid.threads[0] + grid.group_x - 1) / grid.group_x;
    const uint64_t n_groups = across * grid.threads[1] * grid.threads[2];
    rlx_assert(grid.group_x <= MAX_GROUP && n_groups < UINT32_MAX / grid.group_x);
    if (stacks == NULL)
        stacks = malloc((size_t)MAX_GROUP * STACK_BYTES);
    rlx_assert(stacks != NULL);
    run.fn = fn;
    run.args = args;
    run.number += !grid.is_beside;
    if (!grid.is_beside && n_pages > MAX_PAGES / 4)
        forget_pages();
    run.first_thread = grid.is_beside ? run.first_thread + run.n_threads : 0;
    run.first_group = grid.is_beside ? run.first_group + run.n_groups : 0;
    run.n_groups = (uint32_t)n_groups;
    run.n_threads = (uint32_t)n_groups * grid.group_x;
    run.group_x = device_group_x = grid.group_x;
    run.simd = grid.simd;
    run.written = written;
    run.n_written = n_written;
    run.has_barrier = grid.has_barrier;
    run.is_apart = grid.is_apart;
    run.wrong[0] = '\0';
    for (uint32_t i = 0; i < n_groups; i++) {
        const uint32_t g = pick(i, (uint32_t)n_groups, seed);
        run.group = 1 + run.first_group + g;
        for (uint32_t t = 0; t < grid.group_x; t++) {
            group[t].id[0] = (uint32_t)(g % across) * grid.group_x + t;
            group[t].id[1] = (uint32_t)(g / across % grid.threads[1]);
            group[t].id[2] = (uint32_t)(g / across / grid.threads[1]);
            group[t].id[3] = (uint32_t)(g % across);
            group[t].id[4] = group[t].id[1];
            group[t].id[5] = group[t].id[2];
            group[t].id[6] = t;
            group[t].id[7] = grid.simd;
        }
        if (grid.has_barrier)
            run_group(seed);
        else
            run_threads(seed);
    }
    run.thread = NOBODY;
    return run.wrong[0] != '\0' ? run.wrong : NULL;
}

uint64_t device_threads(void)
{
    return n_threads;
}

uint64_t device_accesses(void)
{
    return n_accesses;
}

// --- what compilers call ---------------------------------------------------------------------------

#define ACCESS(name, n, is_write)                                                                            \
    void __tsan_##name(const void *p);                                                                       \
    void __tsan_##name(const void *p)                                                                        \
    {                                                                                                        \
        note(p, n, is_write);                                                                                \
    }
#define ACCESSES(n)                                                                                          \
    ACCESS(read##n, n, false)                                                                                \
    ACCESS(write##n, n, true)                                                                                \
    ACCESS(unaligned_read##n, n, false)                                                                      \
    ACCESS(unaligned_write##n, n, true)
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

void __tsan_read_range(const void *p, size_t n);
void __tsan_read_range(const void *p, size_t n)
{
    note(p, n, false);
}

void __tsan_write_range(const void *p, size_t n);
void __tsan_write_range(const void *p, size_t n)
{
    note(p, n, true);
}

void *__tsan_memset(void *p, int value, size_t n);
void *__tsan_memset(void *p, int value, size_t n)
{
    note(p, n, true);
    return memset(p, value, n);
}

void *__tsan_memcpy(void *to, const void *from, size_t n);
void *__tsan_memcpy(void *to, const void *from, size_t n)
{
    note(from, n, false);
    note(to, n, true);
    return memcpy(to, from, n);
}

void *__tsan_memmove(void *to, const void *from, size_t n);
void *__tsan_memmove(void *to, const void *from, size_t n)
{
    note(from, n, false);
    note(to, n, true);
    return memmove(to, from, n);
}

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_entry(void *pc);
void __tsan_func_entry(void *pc)
{
    (void)pc;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}
