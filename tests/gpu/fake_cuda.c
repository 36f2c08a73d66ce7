// SPDX-License-Identifier: Apache-2.0
// A libcuda for machines without a GPU: the functions of the driver that rlx_cuda.h uses, on the CPU. It is
// built as libcuda.so.1 and found by LD_LIBRARY_PATH, so that programs run as they are. Kernels come from a
// library that FAKE_CUDA_KERNELS names (the emitted .cu compiled with cuda_shim.h); threads run on
// compiler/metal/device.h, which looks for races.
//
// What a driver may put off is put off: commands wait in a queue until somebody waits for them, copies from
// and to pinned memory too. The nodes of a graph run in an order that FAKE_CUDA_SEED picks among those that
// its edges allow. So results are wrong where a wait or an edge is missing.
//
// FAKE_CUDA_FAIL=name:n: the n-th call of that function fails. FAKE_CUDA_STRICT=1: a process that has not
// given back everything ends with status 3. FAKE_CUDA_LOG=1: prints the commands as they run. Programs can
// ask how often a function was called (fake_count.h).
#define _GNU_SOURCE
#include "fake_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEAKED = 3, MAX_COUNTS = 80 };

typedef struct Range {
    char *begin;
    size_t bytes;
} Range;

static Range memory[MAX_RANGES], pinned[MAX_RANGES];
static Command *first, **last = &first;
static uint64_t seed = 1;
static int n_objects; // streams, events, modules, graphs
static bool is_strict, is_logged;
// The device's clock, in microseconds: a record takes one, and launches by the number of their groups.
static double now;
static const double us_per_group = 0.1;
static char fail_name[64];
static int fail_at;

// --- what every call does first --------------------------------------------------------------------

// Counts of calls by the function's name, of kernels that have run ("launch"), and of copies from or to
// memory that is not pinned, which may wait ("pageable").
static struct {
    char name[64];
    long n;
} counts[MAX_COUNTS];

static long *count_at(const char *name)
{
    int i = 0;
    while (counts[i].name[0] != '\0' && strcmp(counts[i].name, name) != 0)
        i++;
    if (i + 1 == MAX_COUNTS)
        fake_stop("too many names are counted");
    snprintf(counts[i].name, sizeof counts[i].name, "%s", name);
    return &counts[i].n;
}

long fake_cuda_count(const char *name);
long fake_cuda_count(const char *name)
{
    return *count_at(name);
}

bool fake_fails(const char *name)
{
    ++*count_at(name);
    return strcmp(name, fail_name) == 0 && --fail_at == 0;
}

void fake_count(int objects)
{
    n_objects += objects;
}

uint64_t fake_seed(void)
{
    return seed++;
}

void *fake_make(size_t bytes)
{
    void *p = calloc(1, bytes);
    if (p == NULL)
        abort();
    return p;
}

static Range *range_at(Range *list, const void *p, size_t bytes)
{
    for (int i = 0; i < MAX_RANGES; i++)
        if (list[i].begin != NULL && (const char *)p >= list[i].begin &&
            (const char *)p + bytes <= list[i].begin + list[i].bytes)
            return &list[i];
    return NULL;
}

static int add_range(Range *list, void *p, size_t bytes)
{
    for (int i = 0; i < MAX_RANGES; i++)
        if (list[i].begin == NULL) {
            list[i] = (Range){p, bytes};
            return OK;
        }
    return NO_MEMORY;
}

void fake_stop(const char *what)
{
    fprintf(stderr, "fake_cuda: %s\n", what);
    _exit(LEAKED);
}

__attribute__((destructor)) static void end(void)
{
    for (int i = 0; i < MAX_RANGES && is_strict; i++)
        if (memory[i].begin != NULL || pinned[i].begin != NULL || n_objects != 0)
            fake_stop("something was not given back");
}

// --- commands ----------------------------------------------------------------------------------------

static void run_launch(const Launch *l)
{
    DeviceRange written[2 * MAX_RANGES];
    uint32_t n = 0;
    const DeviceGrid grid = {{(uint64_t)l->grid[0] * l->block, l->grid[1], l->grid[2]},
                             l->block,
                             l->function->has_barrier,
                             32,
                             false,
                             true};
    for (int i = 0; i < MAX_RANGES; i++)
        if (memory[i].begin != NULL)
            written[n++] = (DeviceRange){memory[i].begin, memory[i].begin + memory[i].bytes};
    for (int i = 0; i < MAX_RANGES; i++) // kernels see what is pinned
        if (pinned[i].begin != NULL)
            written[n++] = (DeviceRange){pinned[i].begin, pinned[i].begin + pinned[i].bytes};
    const char *wrong = device_launch(l->function->run, l->args, written, n, grid, fake_seed());
    if (wrong == NULL)
        return;
    fprintf(stderr, "fake_cuda: %s: ", l->function->name);
    fake_stop(wrong);
}

void fake_run_command(const Command *c)
{
    if (is_logged)
        fprintf(stderr, "fake_cuda: %d %s %zu\n", (int)c->kind,
                c->kind == LAUNCH ? c->launch.function->name : "", c->bytes);
    if (c->kind == LAUNCH) {
        ++*count_at("launch");
        run_launch(&c->launch);
        now += us_per_group * c->launch.grid[0] * c->launch.grid[1] * c->launch.grid[2];
    }
    if (c->kind == COPY)
        memcpy(c->to, c->kept != NULL ? c->kept : c->from, c->bytes);
    if (c->kind == FILL)
        memset(c->to, c->value, c->bytes);
    if (c->kind == GRAPH)
        fake_run_graph(c->graph);
    if (c->kind == WHILE)
        fake_run_while(c);
    if (c->kind == RECORD) {
        c->event->us = now += 1;
        c->event->pending--;
    }
}

void fake_add_command(Command c)
{
    *last = fake_make(sizeof c);
    **last = c;
    last = &(*last)->next;
}

static void run_first(void)
{
    Command *c = first;
    first = c->next;
    if (first == NULL)
        last = &first;
    fake_run_command(c);
    if (c->kind == GRAPH)
        fake_free_graph(c->graph);
    free(c->kept);
    free(c);
}

void fake_run_all(void)
{
    while (first != NULL)
        run_first();
}

// --- the device --------------------------------------------------------------------------------------

int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    const char *text = getenv("FAKE_CUDA_SEED"), *fail = getenv("FAKE_CUDA_FAIL");
    const char *colon = fail != NULL ? strchr(fail, ':') : NULL;
    static bool is_begun;
    if (!is_begun && text != NULL)
        seed = strtoull(text, NULL, 10);
    if (!is_begun && colon != NULL && (size_t)(colon - fail) < sizeof fail_name) {
        memcpy(fail_name, fail, (size_t)(colon - fail));
        fail_at = (int)strtol(colon + 1, NULL, 10);
    }
    is_begun = true;
    is_strict = getenv("FAKE_CUDA_STRICT") != NULL;
    is_logged = getenv("FAKE_CUDA_LOG") != NULL;
    MAY_FAIL;
    return flags == 0 ? OK : INVALID;
}

// FAKE_CUDA_DEVICES=9.0,8.0: their versions; one of 9.0 without it.
static const char *versions(void)
{
    const char *text = getenv("FAKE_CUDA_DEVICES");
    return text != NULL ? text : "9.0";
}

static int n_devices(void)
{
    int n = 1;
    for (const char *c = versions(); *c != '\0'; c++)
        n += *c == ',';
    return n;
}

// 90 of 9.0.
static int version_of(int device)
{
    const char *at = versions();
    for (int i = 0; i < device; i++)
        at = strchr(at, ',') + 1;
    return (at[0] - '0') * 10 + at[2] - '0';
}

int cuDeviceGet(int *device, int ordinal);
int cuDeviceGet(int *device, int ordinal)
{
    MAY_FAIL;
    *device = ordinal;
    return ordinal >= 0 && ordinal < n_devices() ? OK : INVALID;
}

int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count)
{
    MAY_FAIL;
    *count = n_devices();
    return OK;
}

int cuDeviceGetName(char *name, int bytes, int device);
int cuDeviceGetName(char *name, int bytes, int device)
{
    MAY_FAIL;
    snprintf(name, (size_t)bytes, "no GPU, number %d", device);
    return OK;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    MAY_FAIL;
    *bytes = (size_t)(device + 1) << 30;
    return OK;
}

// The largest number of threads of a group, of bytes of shared memory ...; the version of the chip: 9.0.
// NVRTC asks for tables of functions, and does without.
int cuGetExportTable(const void **table, const void *id);
int cuGetExportTable(const void **table, const void *id)
{
    (void)id;
    *table = NULL;
    return NOT_FOUND;
}

int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    static const int values[][2] = {{1, 1024}, {8, 49152}, {10, 32}, {16, 4},
                                    {91, 1},    {97, 166912}};
    MAY_FAIL;
    *value = attribute == 75 ? version_of(device) / 10 : attribute == 76 ? version_of(device) % 10 : 0;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (values[i][0] == attribute)
            *value = values[i][1];
    return OK;
}

// How often each device is retained.
enum { MAX_DEVICES = 8 };
static int contexts[MAX_DEVICES];

int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRetain(void **context, int device)
{
    MAY_FAIL;
    *context = &contexts[device];
    contexts[device]++;
    fake_count(1);
    return OK;
}

int cuDevicePrimaryCtxRelease_v2(int device);
int cuDevicePrimaryCtxRelease_v2(int device)
{
    if (contexts[device]-- == 0)
        fake_stop("another device was retained");
    fake_count(-1);
    return OK;
}

static int n_pushed;

int cuCtxPushCurrent_v2(void *context);
int cuCtxPushCurrent_v2(void *context)
{
    MAY_FAIL;
    n_pushed++;
    for (int i = 0; i < MAX_DEVICES; i++)
        if (context == &contexts[i])
            return contexts[i] > 0 ? OK : INVALID;
    return INVALID;
}

int cuCtxPopCurrent_v2(void **context);
int cuCtxPopCurrent_v2(void **context)
{
    *context = &contexts[0];
    return --n_pushed >= 0 ? OK : INVALID;
}

bool fake_is_device(const void *p, size_t bytes)
{
    return range_at(memory, p, bytes) != NULL;
}

bool fake_is_pinned(const void *p, size_t bytes)
{
    return range_at(pinned, p, bytes) != NULL;
}

bool fake_is_usable(const void *stream)
{
    return stream == &first && n_pushed != 0;
}

// --- memory ------------------------------------------------------------------------------------------

int cuMemAlloc_v2(unsigned long long *address, size_t bytes);
int cuMemAlloc_v2(unsigned long long *address, size_t bytes)
{
    MAY_FAIL;
    void *p = bytes == 0 ? NULL : aligned_alloc(512, (bytes + 511) / 512 * 512);
    if (p == NULL)
        return bytes == 0 ? INVALID : NO_MEMORY;
    memset(p, 0xff, bytes);
    *address = (unsigned long long)(uintptr_t)p;
    return add_range(memory, p, bytes);
}

static int remove_range(Range *list, const void *p)
{
    Range *r = range_at(list, p, 1);
    if (r == NULL || r->begin != p)
        return INVALID;
    *r = (Range){0};
    return OK;
}

int cuMemFree_v2(unsigned long long address);
int cuMemFree_v2(unsigned long long address)
{
    fake_run_all();
    const int result = remove_range(memory, (void *)(uintptr_t)address);
    if (result == OK)
        free((void *)(uintptr_t)address);
    return result;
}

int cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags);
int cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags)
{
    (void)flags;
    MAY_FAIL;
    return range_at(pinned, p, 1) != NULL ? PINNED_ALREADY : add_range(pinned, p, bytes);
}

int cuMemHostUnregister(void *p);
int cuMemHostUnregister(void *p)
{
    fake_run_all();
    return remove_range(pinned, p);
}

int cuMemHostAlloc(void **p, size_t bytes, unsigned flags);
int cuMemHostAlloc(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    MAY_FAIL;
    *p = aligned_alloc(512, (bytes + 511) / 512 * 512);
    return *p == NULL ? NO_MEMORY : add_range(pinned, *p, bytes);
}

int cuMemFreeHost(void *p);
int cuMemFreeHost(void *p)
{
    fake_run_all();
    const int result = remove_range(pinned, p);
    if (result == OK)
        free(p);
    return result;
}

int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes, void *stream);
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes, void *stream)
{
    Command c = {.kind = COPY, .to = (void *)(uintptr_t)to, .from = from, .bytes = bytes};
    MAY_FAIL;
    if (!fake_is_usable(stream) || range_at(memory, c.to, bytes) == NULL)
        return INVALID;
    if (range_at(pinned, from, bytes) == NULL) {
        ++*count_at("pageable");
        c.kept = fake_make(bytes);
        memcpy(c.kept, from, bytes);
    }
    fake_add_command(c);
    return OK;
}

int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, void *stream);
int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, void *stream)
{
    MAY_FAIL;
    if (!fake_is_usable(stream) || range_at(memory, (void *)(uintptr_t)from, bytes) == NULL)
        return INVALID;
    fake_add_command(
        (Command){.kind = COPY, .to = to, .from = (const void *)(uintptr_t)from, .bytes = bytes});
    if (range_at(pinned, to, bytes) == NULL) {
        ++*count_at("pageable");
        fake_run_all();
    }
    return OK;
}

int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, void *stream);
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, void *stream)
{
    MAY_FAIL;
    if (!fake_is_usable(stream) || range_at(memory, (void *)(uintptr_t)from, bytes) == NULL ||
        range_at(memory, (void *)(uintptr_t)to, bytes) == NULL)
        return INVALID;
    fake_add_command((Command){
        .kind = COPY, .to = (void *)(uintptr_t)to, .from = (const void *)(uintptr_t)from, .bytes = bytes});
    return OK;
}

int cuMemsetD8Async(unsigned long long address, unsigned char value, size_t bytes, void *stream);
int cuMemsetD8Async(unsigned long long address, unsigned char value, size_t bytes, void *stream)
{
    MAY_FAIL;
    if (!fake_is_usable(stream) || range_at(memory, (void *)(uintptr_t)address, bytes) == NULL)
        return INVALID;
    fake_add_command(
        (Command){.kind = FILL, .to = (void *)(uintptr_t)address, .value = value, .bytes = bytes});
    return OK;
}

// --- streams and events ------------------------------------------------------------------------------

int cuStreamCreate(void **stream, unsigned flags);
int cuStreamCreate(void **stream, unsigned flags)
{
    (void)flags;
    MAY_FAIL;
    *stream = &first;
    fake_count(1);
    return OK;
}

int cuStreamDestroy_v2(void *stream);
int cuStreamDestroy_v2(void *stream)
{
    (void)stream;
    fake_run_all();
    fake_count(-1);
    return OK;
}

int cuStreamSynchronize(void *stream);
int cuStreamSynchronize(void *stream)
{
    MAY_FAIL;
    fake_run_all();
    return stream == &first ? OK : INVALID;
}

// One command ends whenever somebody asks.
int cuStreamQuery(void *stream);
int cuStreamQuery(void *stream)
{
    MAY_FAIL;
    if (first != NULL)
        run_first();
    return stream != &first ? INVALID : first != NULL ? NOT_READY : OK;
}

int cuEventCreate(void **event, unsigned flags);
int cuEventCreate(void **event, unsigned flags)
{
    (void)flags;
    MAY_FAIL;
    *event = fake_make(sizeof(Event));
    fake_count(1);
    return OK;
}

int cuEventDestroy_v2(void *event);
int cuEventDestroy_v2(void *event)
{
    fake_run_all();
    free(event);
    fake_count(-1);
    return OK;
}

int cuEventRecord(void *event, void *stream);
int cuEventRecord(void *event, void *stream)
{
    MAY_FAIL;
    ((Event *)event)->pending++;
    fake_add_command((Command){.kind = RECORD, .event = event});
    return stream == &first ? OK : INVALID;
}

int cuEventSynchronize(void *event);
int cuEventSynchronize(void *event)
{
    MAY_FAIL;
    while (((Event *)event)->pending != 0)
        run_first();
    return OK;
}

// As soon as there were both.
int cuEventElapsedTime(float *ms, void *begin, void *end);
int cuEventElapsedTime(float *ms, void *begin, void *end)
{
    MAY_FAIL;
    if (((Event *)begin)->pending != 0 || ((Event *)end)->pending != 0)
        return NOT_READY;
    *ms = (float)((((Event *)end)->us - ((Event *)begin)->us) * 1e-3);
    return OK;
}

int cuEventQuery(void *event);
int cuEventQuery(void *event)
{
    MAY_FAIL;
    if (((Event *)event)->pending != 0)
        run_first();
    return ((Event *)event)->pending != 0 ? NOT_READY : OK;
}
