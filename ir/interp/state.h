// SPDX-License-Identifier: Apache-2.0
// The machine that runs a launch, as the core (kernel_eval.c and what it includes) and the device functions
// (device_*.c) share it.
//
// Threads of all groups of a cluster run at once; they are numbered through, group by group. Threads next to
// each other that are at the same instruction are one strand and execute it together, so every function is
// for a range of threads. Whatever accesses memory has a number (`who`): that of a thread, or of a virtual
// agent behind them, such as a copy that runs by itself. What happened before what is kept in vector clocks;
// each byte that several agents may touch remembers who touched it.
#ifndef IR_INTERP_STATE_H
#define IR_INTERP_STATE_H

#include "ir/interp/kernel_eval.h"
#include "ir/kernel/device.h"

typedef struct Machine Machine;
typedef struct Strand Strand;
typedef struct Code Code; // one resolved instruction

// --- a call of a device function -----------------------------------------------------------------

typedef enum CallResult {
    CALL_DONE,
    CALL_BLOCKED, // nothing can be done before others have gone on: the same call comes again
    CALL_LEAVE,   // done; the innermost loop ends for these threads
} CallResult;

typedef struct Call {
    Machine *m;
    Strand *strand;
    const Code *code;
    uint32_t begin, end; // threads begin .. end - 1
    int64_t constant;    // kdev_constant
    uint64_t *token;     // 0 when the call comes for the first time; then what the function left in it
} Call;

typedef CallResult (*DeviceFn)(Call *c);
// By KDevice; interp_NAME for every row of device.def (device_table.c).
extern const DeviceFn interp_functions[KDEV_COUNT];
#define DEVICE(name, ...) CallResult interp_##name(Call *c);
#include "ir/kernel/device.def"
#undef DEVICE

// What thread t, which has ended, left under way that reads the memory of its group: NULL, or a message.
const char *device_left(Machine *m, uint32_t t);
const char *stores_left(Machine *m, uint32_t t);
const char *products_left(Machine *m, uint32_t t);

// Operand i (the letters of device.def, from 0 on) of thread t. Operands that are indices, conditions or
// addresses are never poison: the core has reported that before the call.
int64_t call_int(const Call *c, uint32_t i, uint32_t t);    // letters i, u, r, b
float call_f32(const Call *c, uint32_t i, uint32_t t);      // letter f
bool call_is_poison(const Call *c, uint32_t i, uint32_t t); // letters r, f: made of what nobody wrote
// The variable of a letter V.
void call_set_var(const Call *c, uint32_t i, uint32_t t, int64_t v);
// The result of a function that has one. Where an operand is poison, the core makes the result poison.
void call_set_int(const Call *c, uint32_t t, int64_t v);
void call_set_f32(const Call *c, uint32_t t, float v);

// Operation of all threads of aligned runs of `width` (32: a warp; 128: those of a wgmma; the number in the
// group counts): true when begin .. end is made of whole runs. Else return CALL_BLOCKED: the other threads
// join this strand when they arrive, and the call comes again for all.
bool call_gathers(Call *c, uint32_t width);
// What such runs do together, from thread `first` on, once all their threads are there. fn: false where it
// failed.
CallResult call_each(Call *c, uint32_t width, bool (*fn)(const Call *c, uint32_t first));

// Ends the launch with a message: "listing line, thread 7 of group 3: ...". Returns false.
bool call_fail(const Call *c, uint32_t t, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
// A call is done whether or not it failed.
static inline CallResult call_done(bool is_good)
{
    (void)is_good;
    return CALL_DONE;
}

// --- threads -------------------------------------------------------------------------------------

uint32_t machine_threads(const Machine *m); // of all groups that run at once
uint32_t machine_group_size(const Machine *m);
uint32_t machine_group_of(const Machine *m, uint32_t t); // its rank in the cluster: t / group size
const EvalLaunch *machine_launch(const Machine *m);
// Memory for the device functions: zero at the begin of the launch, and zeroed when other groups begin to
// run. One block of so many bytes for each key (a KDevice that "owns" it).
void *machine_state(Machine *m, KDevice key, size_t bytes);
// Has anything changed that a blocked call may wait for? Whoever changes it says so.
void machine_progress(Machine *m);

// --- order ---------------------------------------------------------------------------------------

// What is known to have happened: in a barrier, in a phase of an mbarrier, behind a number in memory.
typedef struct Known Known;
typedef struct Sync {
    Known *known;
} Sync;

// What `who` (threads or agents begin .. end - 1) did so far happens before what those do who acquire later.
void sync_release(Machine *m, uint32_t begin, uint32_t end, Sync *s);
void sync_acquire(Machine *m, uint32_t begin, uint32_t end, const Sync *s);
// Forgets what was released, as for the next phase.
void sync_clear(Machine *m, Sync *s);
// Release by all, then acquire by all.
void sync_all(Machine *m, uint32_t begin, uint32_t end);

// A virtual agent that thread t starts: the number of who accesses memory for it. It knows what t knows; one
// of the copy engine or of wgmma (AGENT_ASYNC) knows of the writes of threads to shared memory only what they
// passed through a proxy fence (machine_fence) before.
typedef enum AgentProxy { AGENT_GENERIC, AGENT_ASYNC } AgentProxy;
uint32_t agent_begin(Machine *m, uint32_t t, AgentProxy proxy);
// All that threads begin .. end - 1 know of now is fit for the copy engine.
void machine_fence(Machine *m, uint32_t begin, uint32_t end);

// --- arrays of threads ---------------------------------------------------------------------------

// What is at an element of an array (letters F and R).
typedef enum ElementState {
    ELEMENT_UNWRITTEN, // or poison
    ELEMENT_WRITTEN,
    ELEMENT_PENDING, // an operation that has not been waited for writes it: reading it is an error
} ElementState;

// n elements of an array of thread t itself from `at` on. NULL (with a message) where they are outside of it.
// data: float or uint32_t, as the letter says.
typedef struct Elements {
    union {
        float *f;
        uint32_t *r;
    };
    unsigned char *state; // ElementState of each
} Elements;
bool call_elements(const Call *c, uint32_t i, uint32_t t, int64_t at, uint32_t n, Elements *out);
// Operand i is an array that the group shares: the address of an element in shared memory.
int64_t call_shared_address(const Call *c, uint32_t i, int64_t element);

// --- shared memory -------------------------------------------------------------------------------

// Addresses count bytes; k_use_shared's memory begins at SHARED_BEGIN, arrays of groups lie behind it. Bits
// of bytes are as in memory: f32 as 4 bytes, also of arrays of f32. Race checks have a unit of two bytes.
enum { SHARED_BEGIN = 1024 };
// Memory of group `rank`, accessed by `who`. False: a message was made (out of bounds, a race). poison: is
// set where some of the bytes were never written, or are poison.
bool shared_read(const Call *c, uint32_t who, uint32_t rank, int64_t address, void *out, uint32_t n,
                 bool *poison);
bool shared_write(const Call *c, uint32_t who, uint32_t rank, int64_t address, const void *in, uint32_t n,
                  bool is_poison);
// The same, where several may write the same at once: no race if these bytes are there already.
bool shared_write_same(const Call *c, uint32_t who, uint32_t rank, int64_t address, const void *in,
                       uint32_t n);

// --- parameters ----------------------------------------------------------------------------------

// Letter p: an address, param and bytes from its element 0.
typedef struct Address {
    uint32_t param;
    int64_t byte;
} Address;
Address call_address(const Call *c, uint32_t i, uint32_t t);
const EvalArg *machine_arg(const Machine *m, uint32_t param);
// As shared_read and shared_write. Memory of a tensor map: bytes from where its tensor begins.
bool param_read(const Call *c, uint32_t who, Address at, void *out, uint32_t n, bool *poison);
bool param_write(const Call *c, uint32_t who, Address at, const void *in, uint32_t n, bool is_poison);
// The same for memory through which groups hand over parts: the functions say who may when.
bool param_take(const Call *c, uint32_t who, Address at, void *out, uint32_t n, bool *poison);
bool param_give(const Call *c, uint32_t who, Address at, const void *in, uint32_t n, bool is_poison);
// The counter of take_number: no race, no order.
bool param_atomic_add(const Call *c, uint32_t who, Address at, uint32_t v, uint32_t *before);
bool param_atomic_max(const Call *c, uint32_t who, Address at, int32_t v);
bool param_atomic_set(const Call *c, uint32_t who, Address at, uint32_t v);

#endif
