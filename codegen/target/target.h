// SPDX-License-Identifier: Apache-2.0
// What a target is: data that the one C-family walk (cfamily.c) prints kernels with. A new C-like target is
// one file with a `const Target target_NAME` and a row in targets.def.
//
// To print kernels, call cfamily_print_kernel for each one, then target_print_prelude with that text, which
// adds exactly the helpers that the text names; the prelude goes in front.
#ifndef CODEGEN_TARGET_TARGET_H
#define CODEGEN_TARGET_TARGET_H

#include "ir/kernel/kernel.h"

// --- CPUs ----------------------------------------------------------------------------------------

// Instructions beyond those that the width of the vectors implies.
typedef enum CpuFeature {
    CPU_DOT8 = 1,     // four products of bytes, added to an i32 lane
    CPU_DOT_BF16 = 2, // two products of bf16, added to an f32 lane
    CPU_MATRIX = 4,   // matrix registers of bf16 (AMX), which the system lets programs use
    CPU_NO_INCBIN = 8, // none, but a lack: assemblers for it take in no files
    CPU_INTEGERS = 16, // a microcontroller: integers are cheap and floats are not; never runs rlxc itself
    CPU_DSP = 32, // the DSP extension of Arm's microcontrollers: two products of 16 bits
    CPU_SAT = 64, // shifts that saturate
    CPU_MLA = 128, // an instruction that adds a product of integers
    CPU_NARROW = 256, // a lack: products have 32 bits, and loads of bytes no signs
    CPU_MVE = 512, // vectors of bytes in Arm's microcontrollers (Helium)
    CPU_RVV = 1024, // those of RISC-V's (V), of at least 16 bytes
    CPU_PAIR8 = 2048, // two products of bytes, added to 16 bits; other numbers of 16 bits in pairs
    CPU_DOT16 = 4096, // products of 16 bits in pairs
} CpuFeature;

typedef struct CpuInfo {
    const char *name; // "generic", "x86-64-v3", "x86-64-v4"; never "native": that is resolved to one of them
    const char *cc_flags; // what the C compiler needs, "" for none
    uint8_t f32_lanes;    // 1 = scalar code only
    uint8_t vector_regs;
    uint16_t features; // CpuFeature
    CpuMachine machine;
} CpuInfo;

// A row of cpus.def, or "native": the row of this machine itself or else the best one that it runs, with this
// machine's cache sizes.
bool cpu_find(const char *name, CpuInfo *out);
// The name of the row for machines of a family, as the instruction cpuid tells maker and family; NULL: none.
const char *cpu_of_family(const char *maker, uint32_t family);
// Does this machine run code for the CPU?
bool cpu_runs_here(const CpuInfo *cpu);
// The names that cpu_find takes, NULL at the end.
extern const char *const cpu_names[];

// --- targets -------------------------------------------------------------------------------------

// Columns of a spelling table, by the type of the operands. f16 and bf16 compute as f32.
typedef enum SpellCol {
    SPELL_F32,
    SPELL_F64,
    SPELL_INT,
    SPELL_BOOL,
    SPELL_INDEX,
    SPELL_VF32,
    SPELL_VI32,
    SPELL_MASK,
    SPELL_COLS
} SpellCol;

// Templates: $0 $1 $2 operands, $T value type of the result, $S its short name (i32), $U the unsigned type
// that its arithmetic wraps in, $V vector type of the operands (rlx_v8f), $L its lanes. An operand that
// occurs twice is given a name first.
typedef struct SpellRow {
    const char *col[SPELL_COLS]; // NULL: the target cannot
} SpellRow;

typedef struct SpellOverride {
    uint8_t kop, col;
    const char *text;
} SpellOverride;

typedef struct TypeSpell {
    const char *value;   // type of values; NULL: the target does not have the type
    const char *storage; // type of elements in memory
    const char *name;    // in helper names: "i32"
    const char *wide;    // unsigned type for wrapping arithmetic; NULL for floats
    const char *literal; // $0 = decimal text
    const char *load;    // $0 = the element; value from storage
    const char *store;   // $0 = the value; storage from value
    const char *round;   // $0 = value after a cast to this type; NULL: values are as precise as the storage
} TypeSpell;

// How kernels of thread groups are written.
typedef struct GroupSpell {
    const char *signature;   // $0 = name, $1 = parameters, $2 = cluster, $3 = places, $L = threads
    const char *id, *thread; // number of the group, of the thread in it
    const char *subgroup;    // threads that can hand each other values
    uint32_t subgroup_size;  // their number where that is known; 0: it depends on the device
    const char *shuffle;     // $0 of the thread of the subgroup whose number differs by ^ $1
    const char *shared;      // $0 = element type, $1 = name, $2 = elements
    const char *words[3];    // types of 1, 2 and 4 words
    const char *make[3];     // of so many words one value
    // What is read or written: $0 = first element, $1 = its index, $2 = number of the parameter, $3 = log2 of
    // the elements, $T = type of the words, $L = their number
    const char *fetch, *put;
    // Fetch and put of 4 words that no cache needs to keep; NULL: as others. put_once: a function of the
    // address of the first element and of the words.
    const char *fetch_once, *put_once;
} GroupSpell;

// What runs the kernels, and so what drives them and makes code of their text.
typedef enum TargetDevice { DEVICE_HOST, DEVICE_CUDA, DEVICE_VULKAN, DEVICE_METAL } TargetDevice;

typedef struct Target Target;
struct Target {
    const char *name;
    TargetDevice device;
    // What --gpu adds to the capabilities: a family of Apple GPUs, or kernels with a way by cooperative
    // matrices on Vulkan, as gpu_words says. False: another word. NULL: --gpu names what to compile for, or
    // nothing.
    bool (*set_gpu)(const char *given, TargetCaps *caps);
    const char *gpu_words;
    TargetCaps caps;
    const TypeSpell *types;         // by DType and KT_INDEX
    const SpellRow *spell;          // by KOp
    const SpellOverride *overrides; // looked at first
    uint32_t n_overrides;
    const SpellOverride *halves; // before these, of values that are stored in 16 bits
    uint32_t n_halves;
    const char *cast;      // $T, $0: between numbers
    const char *widen; // $0: an integer of at most 16 bits, as f32; NULL: as other numbers
    const char *times_zero; // $0, $1: an f32 by the constant 0, where compilers lose NaN; NULL: as others
    const char *signature; // $0 = name, $1 = parameters, $L = threads of a group
    const char *param_read,
        *param_written; // $0 = storage type, $1 = name, $2 = its number, $3 = restrict or nothing, $L = bytes
    const char *param_separator;
    const char *no_params; // $1 of a kernel without parameters
    bool params_first;     // parameters are declared before the signature, not in it (GLSL)
    const char *param_prefix; // of names of parameters
    const char *restrict_word;
    const char *custom_function; // $0 = name, $1 = parameters: of the text of a custom op
    const char *custom_read, *custom_written; // $0 = storage type, $1 = name; NULL: parameters are macros
    const GroupSpell *group;           // NULL: there are no groups
    const char *thread_id;             // number of the thread in the grid; NULL: parallel loops are loops
    const char *address; // of an element: $0 = its index, $1 = number of the parameter; NULL: in C
    const char *array;                 // $0 = element type, $1 = name, $2 = elements
    const char *barrier;               // statement; NULL: nothing
    const char *wait; // statement, at the top of kernels that have no KI_wait themselves; NULL: nothing
    const char *late_wait; // in its place in kernels that take long; NULL: the same
    const char *prefetch;              // statement, $0 = the element; NULL: nothing
    const char *team;                  // last parameter of kernels that threads share; NULL: there are none
    const char *part, *parts;          // which thread of how many, by that parameter
    const char *unroll, *roll;         // line before a loop to unroll, one that stays; NULL: nothing
    const char *begin, *end;           // $0 = name: before each kernel, and from its last brace on
    const char *const *const *prelude; // texts in prelude form (prelude.h), NULL at the end
};

#define TARGET(name) extern const Target target_##name;
#include "codegen/target/targets.def"
#undef TARGET

// NULL when there is none of that name.
const Target *target_find(const char *name);
// The names, NULL at the end.
extern const char *const target_names[];
// What schedules may use: the target's capabilities, for the C target with what the CPU adds.
TargetCaps target_caps(const Target *t, const CpuInfo *cpu);

// The spelling of an op on operands of a type, or NULL.
const char *target_spell(const Target *t, KOp op, int type, uint8_t lanes);
// The template of a cast between numbers, unless it is one of a float to an integer.
const char *target_cast(const Target *t, int from, int to);
// Why the target cannot print this kernel ("msl has no f64"), or NULL.
const char *target_lacks(const Target *t, const Kernel *k);

// One function (C: static), preceded by its comment. Deterministic; depends on nothing but its arguments.
void cfamily_print_kernel(const Target *t, const Kernel *k, Str *out);

// What `text` needs in front of it: includes, types, helper functions. Only helpers that `text` names,
// directly or through others.
void target_print_prelude(const Target *t, const char *text, Str *out);

// --- the grid of GPU targets ---------------------------------------------------------------------

enum { GRID_MAX_LOOPS = 8 };

// Perfectly nested parallel loops at the top of a kernel, innermost first. Together they are one row of
// threads, in which loop 0 varies fastest: no loop is too short to fill a group, or too long for an axis of
// the device's grid. A kernel without such loops runs in one thread. Those of group kernels are their loops
// over groups, wherever these are.
typedef struct KernelGrid {
    uint32_t n_loops;
    KRef loop[GRID_MAX_LOOPS];
    uint32_t group;           // threads of a group
    uint64_t threads, groups; // 0: a loop is empty; there may be more threads in the groups than are needed
} KernelGrid;

// Loops whose bounds are not constants do not join the grid.
KernelGrid kernel_grid(const Kernel *k);
// Iterations of a parallel loop or one over groups, with constant bounds; 0 for other loops, and for none.
uint64_t grid_trip_count(const Kernel *k, KRef loop);
// Threads, or groups, of which one iteration of loop `place` is made.
uint64_t grid_stride(const Kernel *k, const KernelGrid *g, uint32_t place);
// Threads of one group of kernels that say nothing about it.
enum { GRID_GROUP_X = 128 };

#endif
