// SPDX-License-Identifier: Apache-2.0
// What the core of the interpreter shares with itself alone: the resolved program, strands, shadows. Device
// functions see state.h only.
#ifndef IR_INTERP_MACHINE_H
#define IR_INTERP_MACHINE_H

#include "base/vec.h"
#include "ir/interp/state.h"
#include "ir/kernel/kernel_fold.h"

#include <string.h>

// --- programs (resolve.c) ------------------------------------------------------------------------

// What a register holds: f32 (halves and smaller floats too, as they are computed), f64, KT_INDEX and i64,
// integers as int64_t wrapped to their type, bool as int32_t.
typedef enum CellClass {
    CELL_F32,
    CELL_F64,
    CELL_INDEX,
    CELL_INT,
    CELL_UINT,
    CELL_BOOL,
    CELL_COUNT
} CellClass;
// Inline: every access to an array asks for it.
static inline CellClass cell_class(int type)
{
    if (type == KT_INDEX || type == DTYPE_i64)
        return CELL_INDEX;
    switch (dtype_info[type].cls) {
    case DCLASS_FLOAT:
        return type == DTYPE_f64 ? CELL_F64 : CELL_F32;
    case DCLASS_INT:
        return CELL_INT;
    case DCLASS_UINT:
        return CELL_UINT;
    default:
        return CELL_BOOL;
    }
}
static inline uint32_t cell_bytes(int type)
{
    const CellClass c = cell_class(type);
    return c == CELL_F32 || c == CELL_BOOL ? 4 : 8;
}

// Executes an instruction for all threads of a strand. The next one, or NULL where the strand does not go on.
typedef const Code *(*Step)(Machine *m, Strand *s, const Code *c);

// A register is a run of cells, those of thread t from t * lanes on. d, a, b and c: where registers begin, in
// bytes.
struct Code {
    Step run;
    uint32_t d, a, b, c;
    uint32_t lanes, count;
    uint32_t at;                           // param, array, or first operand of a device function
    uint32_t target;                       // of jumps: index of an instruction
    uint32_t other;                        // of ifs and loops: where its threads meet again
    uint8_t kind, kop, dtype, from, shift; // from: type of operand a; shift: 64 - bits of integers
    uint8_t flags;                         // of products on matrix registers: which ones
    int64_t imm;
    KRef ref;
};

// An operand of a device function, by its letter.
typedef struct Operand {
    char letter;
    uint32_t slot; // register; of p: of the index
    uint32_t at;   // array or param
    uint8_t type;
} Operand;

// Arrays of threads: elements of one thread follow each other. Shared arrays are in the memory of the group.
typedef struct Array {
    uint8_t type;
    bool is_shared;
    uint32_t element; // bytes
    int64_t n;
    size_t data, state; // of thread 0; of shared arrays data is the address
} Array;

// A register whose value of thread 0 all threads get.
typedef struct Spread {
    uint32_t slot, lanes, bytes;
} Spread;

// A parallel loop, or several perfectly nested ones, whose iterations run as threads.
enum { FORK_MAX_LOOPS = 8 };
typedef struct Fork {
    uint32_t n_loops;
    struct {
        uint32_t var, low, high; // registers
        int64_t step;
    } loop[FORK_MAX_LOOPS]; // outermost first
    VEC(Spread) spread;     // registers that the iterations read: all get what thread 0 has
    VEC(Spread) carried;    // of batches: variables that each iteration has from the one before
} Fork;

typedef struct Constant {
    uint32_t slot;
    uint8_t type;
    int64_t bits; // KInst.imm
} Constant;

typedef struct Program {
    const Kernel *k;
    uint32_t threads; // cells of a register are made for so many
    VEC(Code) code;
    VEC(Operand) operands;
    VEC(Array) arrays;
    VEC(Fork) forks;
    VEC(Constant) constants;
    uint64_t n_groups;
    uint32_t register_bytes, shared_bytes;
    size_t array_bytes, state_bytes;
    bool has_matrix, has_fences;
    bool has_forks; // there is a Fork that is no batch
} Program;

Program *program_make(Arena *a, const EvalLaunch *l);
// Groups of a kernel that run at once.
uint32_t resolve_groups_at_once(const Kernel *k);
// By tables: what computes an operation or a cast; NULL: there is none.
extern const Step op_steps[KOP_COUNT][CELL_COUNT];
Step cast_step(CellClass to, CellClass from);
Step load_step(int type);
Step store_step(int type);
// Values of f16 by their bits, once step_cast_begin was called; those of bf16.
extern float f16_values[1 << 16];
void step_cast_begin(void);
static inline float f16_value(uint16_t code)
{
    return f16_values[code];
}
static inline float bf16_value(uint16_t code)
{
    const uint32_t bits = (uint32_t)code << 16;
    float v = 0;
    memcpy(&v, &bits, sizeof v);
    return v;
}
// Elements as they lie in memory, and as cells.
void cell_load(int type, const void *bytes, void *cell);
void cell_store(int type, const void *cell, void *bytes);
void array_load(int type, const void *bytes, void *cell);
void array_store(int type, const void *cell, void *bytes);
uint32_t array_element_bytes(int type, bool is_shared);

// --- threads -------------------------------------------------------------------------------------

// Where strands that went different ways meet again.
typedef struct Join {
    uint32_t at;               // index of the instruction
    uint32_t remaining, total; // threads
    struct Join *outer;
    Strand *arrived;
} Join;

struct Strand {
    uint32_t begin, end;
    uint32_t at; // instruction, while it does not run
    Join *join;
    uint64_t token, tried; // the progress when it blocked; 0: it can run
    bool gathers;
    Strand *next;
};

// --- memory --------------------------------------------------------------------------------------

// Who touched a unit of memory last: the agent in the upper half, its clock in the lower. Of readers, two.
typedef struct Touch {
    uint64_t write, read[2];
} Touch;

typedef struct Bound {
    unsigned char *data, *written; // of element 0
    int64_t low, high;             // bytes from there that may be touched
    bool is_whole;                 // all of them were written before the launch, and nobody unwrites them
    Touch *touch;                  // NULL: nobody writes there
    uint32_t *writer;              // of what iterations only write: the last one; NULL: see `touch`
    int64_t touch_low;             // byte of the first of them
    uint32_t unit;                 // log2 of the bytes of a unit
} Bound;

typedef struct Barrier {
    uint32_t arrived, phase;
    uint32_t at; // instruction
} Barrier;

struct Machine {
    Arena *arena;   // of the launch
    Arena *scratch; // of the groups that run at once
    const EvalLaunch *launch;
    const Program *p;
    const Code *code;
    unsigned char *registers, *poison; // poison: a byte for every 4 of a register
    unsigned char *array_data, *array_state;
    bool has_poison; // some value is
    Bound *params;
    // groups
    uint32_t n_threads, group_size, n_groups; // that run at once
    uint64_t first_group;
    Barrier *barriers;     // by group
    unsigned char *shared; // by group
    unsigned char *shared_written;
    Touch *shared_touch;
    uint32_t shared_bytes, shared_unit;
    void *states[KDEV_COUNT];
    size_t state_bytes[KDEV_COUNT];
    // strands
    Strand *ready, *blocked, *free_strands;
    Join *free_joins;
    uint32_t n_live;
    uint64_t progress, steps;
    // order
    uint32_t n_agents, next_agent;
    Known **known; // by agent
    Known *free_known;
    uint32_t *clock; // by agent
    uint32_t time, group_time;
    bool has_fences;
    // forks
    bool has_forks, is_fork;                      // the launch may fork; it has
    uint64_t fork_first, fork_serial, fork_floor; // number of the first iteration of the batch
    uint64_t fork_total, fork_done;
    void *matrix;
    const char *message;
};

static inline bool machine_has_poison(const Machine *m, uint32_t slot, uint32_t cell, uint32_t bytes)
{
    return m->has_poison && m->poison[(slot + (size_t)cell * bytes) / 4] != 0;
}

#define CELLS(m, T, slot) ((T *)(void *)((m)->registers + (slot)))

// Ends the launch; NULL.
const Code *step_fail(Machine *m, const Code *c, uint32_t t, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// Poison in registers, before the step of an instruction (poison.c). False: it was used.
bool poison_flow(Machine *m, const Strand *s, const Code *c);

// Runs the step of an instruction, with what holds for all; its result.
const Code *step_run(Machine *m, Strand *s, const Code *c);

// flow.c
const Code *step_if(Machine *m, Strand *s, const Code *c);
const Code *step_jump(Machine *m, Strand *s, const Code *c);
const Code *step_join(Machine *m, Strand *s, const Code *c);
const Code *step_for(Machine *m, Strand *s, const Code *c);
const Code *step_next(Machine *m, Strand *s, const Code *c);
const Code *step_group(Machine *m, Strand *s, const Code *c);
const Code *step_fork(Machine *m, Strand *s, const Code *c);
const Code *step_fork_next(Machine *m, Strand *s, const Code *c);
const Code *step_batch(Machine *m, Strand *s, const Code *c);
const Code *step_chain(Machine *m, Strand *s, const Code *c);
const Code *step_batch_next(Machine *m, Strand *s, const Code *c);
const Code *step_end(Machine *m, Strand *s, const Code *c);
const Code *step_barrier(Machine *m, Strand *s, const Code *c);
const Code *step_device(Machine *m, Strand *s, const Code *c);
const Code *flow_block(Machine *m, Strand *s, const Code *c);
bool flow_release_joins(Machine *m);
Strand *strand_new(Machine *m, uint32_t begin, uint32_t end, uint32_t at, Join *join);

// values.c
const Code *step_copy(Machine *m, Strand *s, const Code *c);
const Code *step_splat(Machine *m, Strand *s, const Code *c);
const Code *step_zip(Machine *m, Strand *s, const Code *c);
// The lane that lane i of a zip is: of the second vector from n on.
static inline uint32_t zip_lane(KZip how, uint32_t n, uint32_t i)
{
    const uint32_t half = how == KZIP_HIGH ? n / 2 : 0;
    return how >= KZIP_EVEN ? 2 * i + (how == KZIP_ODD) : half + i / 2 + i % 2 * n;
}

const Code *step_hreduce(Machine *m, Strand *s, const Code *c);
const Code *step_team(Machine *m, Strand *s, const Code *c);
const Code *step_thread(Machine *m, Strand *s, const Code *c);
const Code *step_part(Machine *m, Strand *s, const Code *c);
const Code *step_since(Machine *m, Strand *s, const Code *c);
const Code *step_bits(Machine *m, Strand *s, const Code *c);
const Code *step_round(Machine *m, Strand *s, const Code *c);
const Code *step_narrow(Machine *m, Strand *s, const Code *c);

// memory.c
const Code *step_array(Machine *m, Strand *s, const Code *c);
const Code *step_aload(Machine *m, Strand *s, const Code *c);
const Code *step_astore(Machine *m, Strand *s, const Code *c);
const Code *step_fetch(Machine *m, Strand *s, const Code *c);
const Code *step_put(Machine *m, Strand *s, const Code *c);
const Code *step_point(Machine *m, Strand *s, const Code *c);
const Code *step_matrix(Machine *m, Strand *s, const Code *c);
size_t matrix_bytes(void); // of a thread's registers

// order.c
void order_begin(Machine *m);
static inline uint64_t order_mark(const Machine *m, uint32_t who)
{
    return !m->has_forks ? (uint64_t)(who + 1) << 32 | m->clock[who]
           : m->is_fork  ? m->fork_first + who + 1
                         : m->fork_serial;
}
// NULL, or what is wrong.
const char *touch_read(Machine *m, Touch *t, uint32_t n, uint32_t who, bool is_param);
const char *touch_write(Machine *m, Touch *t, uint32_t n, uint32_t who, bool is_param);
const char *who_text(Machine *m, uint64_t mark);

#endif
