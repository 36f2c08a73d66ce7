// SPDX-License-Identifier: Apache-2.0
// Kernel IR: what every emitter sees. A kernel is a linear list of instructions: expressions (values named by
// their index) and structured statements (for / if ... end). No tensors: only pointers (params), indices in
// elements, scalars and vectors. One text serves C, CUDA, GLSL and MSL: loops marked parallel become the
// thread grid on GPUs and plain loops in C.
#ifndef IR_KERNEL_KERNEL_H
#define IR_KERNEL_KERNEL_H

#include "ir/graph/graph.h"
#include "ir/machine/machine.h"

typedef enum KOp {
#define KOP(name, arity, cost, fexpr, iexpr, cls) KOP_##name,
#include "ir/kernel/kops.def"
#undef KOP
    KOP_COUNT
} KOp;

typedef enum KOpClass { KCLASS_SAME, KCLASS_CMP, KCLASS_SEL } KOpClass;

typedef struct KOpInfo {
    const char *name;
    uint8_t arity, cost;
    KOpClass cls;
} KOpInfo;

extern const KOpInfo kop_info[KOP_COUNT];
bool kop_parse(const char *name, size_t len, KOp *out);

typedef uint32_t KRef; // index of an instruction; 0 = none

// Element types of values: DType, or KT_INDEX for loop variables and index arithmetic (signed, as wide as the
// target's pointers need).
enum { KT_INDEX = DTYPE_COUNT };

typedef enum KKind {
#define KIND(name, cls, block, param, operands, form) KI_##name,
#include "ir/kernel/kinds.def"
#undef KIND
    KI_COUNT
} KKind;

// The columns of kinds.def.
typedef enum KKindClass {
    KIND_NOTHING,
    KIND_PURE,
    KIND_EXPRESSION,
    KIND_VALUE,
    KIND_PLACE,
    KIND_STATEMENT
} KKindClass;
typedef enum KBlock { KBLOCK_NO, KBLOCK_OPEN, KBLOCK_TURN, KBLOCK_CLOSE } KBlock;
typedef enum KParamUse { KPARAM_NO, KPARAM_NAME, KPARAM_READ, KPARAM_WRITE } KParamUse;

typedef struct KKindInfo {
    const char *name, *operands, *form;
    uint8_t cls, block, param; // KKindClass, KBlock, KParamUse
} KKindInfo;

extern const KKindInfo kkind_info[KI_COUNT];

static inline bool kkind_is_expression(uint8_t kind)
{
    return kkind_info[kind].cls == KIND_PURE || kkind_info[kind].cls == KIND_EXPRESSION;
}
static inline bool kkind_opens(uint8_t kind)
{
    return kkind_info[kind].block == KBLOCK_OPEN || kkind_info[kind].block == KBLOCK_TURN;
}
static inline bool kkind_closes(uint8_t kind)
{
    return kkind_info[kind].block == KBLOCK_CLOSE || kkind_info[kind].block == KBLOCK_TURN;
}
// How many more blocks are open behind an instruction than before it.
static inline int kkind_depth(uint8_t kind)
{
    return kkind_opens(kind) - kkind_closes(kind);
}

// Matrix registers, of targets that have them (TargetCaps.has_matrix): 8 registers of rows of words of four
// bytes, by their use: 0 to 3 are sums (`rows` rows of 16 sums of f32 or i32), 4 and 5 what is multiplied
// (`rows` rows of `words` words of two bf16 or four u8), 6 and 7 by what (`words` rows of 16 words of two
// bf16 or four i8). They hold values from begin to end, which stand at the top of a kernel or around the
// body of an outermost loop.
typedef enum KMatrix {
    KMATRIX_begin, // a: rows, b: words, constants
    KMATRIX_zero,  // register dst
    KMATRIX_load,  // dst = all its rows at param[imm][a + row * b], of bf16 or of i32 (words of bytes)
    KMATRIX_mac,   // dst[i][j] += x[i][2k] * y[k][2j] + x[i][2k + 1] * y[k][2j + 1] for all words k, in f32;
                   // dtype i32: the same for the four bytes of a word, exact
    KMATRIX_store, // all rows of 16 f32 or i32 to array a at b + row * c
    KMATRIX_split, // param[imm] (bf16): the value c, rounded, at index a; what is left of it, rounded, at a +
                   // b
    KMATRIX_end,
    KMATRIX_COUNT
} KMatrix;

typedef enum KCast {
    KCAST_VALUE,
    KCAST_BITS,  // OP_bitcast
    KCAST_ROUND, // vectors of f32 to i32, half to even; what does not fit gives any number
} KCast;

// Which lanes of two vectors a and b of n lanes a zip takes, and in which order.
typedef enum KZip {
    KZIP_LOW,  // a[0], b[0], a[1], b[1] ... of the first halves
    KZIP_HIGH, // the same of the second halves
    KZIP_EVEN, // a[0], a[2] ... b[0], b[2] ...
    KZIP_ODD,  // a[1], a[3] ... b[1], b[3] ...
} KZip;

enum {
    KFOR_SERIAL,
    KFOR_PARALLEL,
    KFOR_UNROLL,
    KFOR_ROLL,
    KFOR_GROUP,
    KFOR_TURNS,
    KFOR_GIVEN
}; // KInst.flags of KI_for: plain; independent iterations; small constant trip count; not to be unrolled,
   // where registers are short; over thread groups; independent iterations that share scratch memory: in any
   // order, but one at a time; a call runs those iterations that it is given, from KI_since on, and all calls
   // together run all, in order (there is one such loop at most)
enum { KWIDE_ONCE = 1 }; // KInst.flags of KI_fetch and KI_put
enum { KARRAY_SHARED = 1 }; // KInst.flags of KI_array

typedef struct KInst {
    uint8_t kind;  // KKind
    uint8_t kop;   // KOp of KI_op and KI_hreduce
    uint8_t dtype; // DType or KT_INDEX, of the value (of the stored value for statements)
    uint8_t lanes; // 1 = scalar; else a power of two
    uint8_t count; // active lanes of loads and stores; == lanes when whole; KI_matrix: register dst
    uint8_t flags; // KFOR_*; KMATRIX_mac: register x + 16 * register y
    KRef a, b, c;
    int64_t imm;
    const char *text; // KI_comment; and a name hint for KI_var, KI_for
} KInst;

// Vectors are of f32 and i32; those of f16 and bf16 are vectors of f32 that loads and stores convert, as
// their scalars are; those of i8 and u8 are only loaded, stored, kept in variables and cast to and from
// these. Masks: a bool with lanes > 1 is a lane mask; it is used by KOP_select, and, or, xor, not only and
// never stored.

typedef struct KParam {
    const char *name;
    DType dtype;
    bool is_written; // else const
    bool is_read;
    bool is_own;    // scratch of which every thread has a part of its own
    uint32_t table; // 0, or 1 + the param (u64) with addresses; it is read behind a KI_point only
    bool is_moved;  // the argument is where the address is: it changes from launch to launch
    int64_t first;  // what the builders add to indices: elements before element 0 that are used
} KParam;

// The text of a custom op (ir/graph/custom.h), which reads and writes parameters behind the back of the other
// instructions.
typedef struct KCustomArg {
    const char *name; // in the text
    uint32_t param;
    bool is_written;
} KCustomArg;

typedef struct KCustomConstant {
    const char *name;
    bool is_float;
    int64_t size; // not is_float
    double number;
} KCustomConstant;

typedef struct KCustom {
    const char *function, *text;
    VEC(KCustomArg) args;
    VEC(KCustomConstant) constants;
} KCustom;

typedef struct Kernel {
    Arena *arena;
    const char *name;    // unique in the model: "k3_conv_relu"
    const char *comment; // which source nodes it came from
    const char *notes;   // lines to stand below it in emitted text; or NULL
    VEC(KInst) insts;    // [0] is unused
    VEC(KParam) params;
    KCustom *custom; // NULL: there is no KI_custom
    bool may_alias; // some params overlap in memory (in place): no restrict
    uint32_t shared_bytes; // of memory that a group has at shared_begin (device.def)
    uint8_t cluster;       // groups that read each other's memory and run at once; 0, 1: none
    uint16_t resident;     // groups that wait for each other (grid_sync): all of them run at once; 0: none
    uint8_t places;        // groups that a processor has room for: bounds registers; 0: any number
    uint8_t max_lanes;
    bool has_sat, has_dsp; // builders make sat8, satu8 and sat16, mulh and its like, of longer expressions;
    bool is_narrow;        // mulh and mulh_near too
    uint16_t group; // threads of a group; 0: threads have nothing to do with each other (see k_set_group)
    struct KScopes *scopes; // the builders' own: open blocks and the expressions that can be reused
} Kernel;

Kernel *kernel_new(Arena *a, const char *name);
uint32_t kernel_param(Kernel *k, const char *name, DType t, bool is_written, bool is_read);

// Builders. They fold constants in index arithmetic (x + 0, x * 1, c1 + c2 ...) and reuse an equal pure
// expression of an enclosing block. Two calls in one argument list run in an order that C leaves open. For
// expressions that does not matter: emitters place them by their users.
KRef k_index(Kernel *k, int64_t v);
KRef k_number(Kernel *k, int type, double v); // scalar constant of a float or int type
KRef k_integer(Kernel *k, int type, int64_t v);
KRef k_op(Kernel *k, KOp op, KRef a, KRef b,
          KRef c); // splats a scalar operand when another is a vector; asserts equal types
// k_add(k, a, b), k_neg(k, a), k_select(k, condition, a, b) ...: one builder for each row of kops.def.
#define KOP_BUILDER_1(name)                                                                                  \
    static inline KRef k_##name(Kernel *k, KRef a)                                                           \
    {                                                                                                        \
        return k_op(k, KOP_##name, a, 0, 0);                                                                 \
    }
#define KOP_BUILDER_2(name)                                                                                  \
    static inline KRef k_##name(Kernel *k, KRef a, KRef b)                                                   \
    {                                                                                                        \
        return k_op(k, KOP_##name, a, b, 0);                                                                 \
    }
#define KOP_BUILDER_3(name)                                                                                  \
    static inline KRef k_##name(Kernel *k, KRef a, KRef b, KRef c)                                           \
    {                                                                                                        \
        return k_op(k, KOP_##name, a, b, c);                                                                 \
    }
#define KOP(name, arity, cost, fexpr, iexpr, cls) KOP_BUILDER_##arity(name)
#include "ir/kernel/kops.def"
#undef KOP
// A formula: k_expr(k, "($ + 1) * # < $", i, width, end) is k_lt(k, k_mul(k, k_add(k, i, 1), width), end).
// $ is a value, # an index that is known now, as whole numbers in the text are. From the loosest: |, &, ==
// !=, < <=, + -, * / %, which associate to the left as in C; min(x, y) and max(x, y).
#define k_expr(k, text, ...)                                                                                 \
    k_expr_of(k, text, (const int64_t[]){__VA_ARGS__},                                                       \
              sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
KRef k_expr_of(Kernel *k, const char *text, const int64_t *args, size_t n);
KRef k_cast(Kernel *k, KRef a, int type);
static inline bool k_is_byte(int type)
{
    return type == DTYPE_i8 || type == DTYPE_u8;
}
static inline bool k_is_half(int type)
{
    return type == DTYPE_f16 || type == DTYPE_bf16;
}
// Casts that vectors have.
bool k_casts_vectors(int from, int to);
// Of as many bits; vectors of f32 and i32 only.
static inline bool k_bitcasts_vectors(int from, int to)
{
    return (from == DTYPE_f32 || from == DTYPE_i32) && (to == DTYPE_f32 || to == DTYPE_i32);
}
KRef k_bitcast(Kernel *k, KRef a, int type);
KRef k_splat(Kernel *k, KRef a, uint8_t lanes);
KRef k_hreduce(Kernel *k, KOp op, KRef a);
KRef k_zip(Kernel *k, KZip how, KRef a, KRef b); // f32 or i32 vectors
// rows: as many f32 vectors as they have lanes; lane i of row j goes to lane j of row i.
void k_transpose(Kernel *k, KRef *rows);
KRef k_load(Kernel *k, uint32_t param, KRef index, uint8_t lanes, uint8_t count);
void k_store(Kernel *k, uint32_t param, KRef index, KRef value, uint8_t count);
void k_prefetch(Kernel *k, uint32_t param, KRef index);
// entry: of the table; otherwise: the element at which the parameter begins where the entry is 0.
void k_point(Kernel *k, uint32_t param, KRef entry, KRef otherwise);
KRef k_var(Kernel *k, KRef init, const char *name_hint);
KRef k_get(Kernel *k, KRef var);
void k_set(Kernel *k, KRef var, KRef value);
KRef k_array(Kernel *k, int type, int64_t n);
KRef k_aload(Kernel *k, KRef array, KRef index, uint8_t lanes);
void k_astore(Kernel *k, KRef array, KRef index, KRef value);
KRef k_for(Kernel *k, KRef lo, KRef hi, int64_t step, uint8_t flags, const char *name_hint);
// From 0 to n - 1.
static inline KRef k_loop(Kernel *k, int64_t n, uint8_t flags, const char *name_hint)
{
    return k_for(k, k_index(k, 0), k_index(k, n), 1, flags, name_hint);
}
void k_if(Kernel *k, KRef cond);
void k_else(Kernel *k);
void k_end(Kernel *k);
void k_ends(Kernel *k, uint32_t n); // n of them
void k_custom(Kernel *k, KRef i);
void k_comment(Kernel *k, const char *text);

// Group kernels, of GPU targets with shared memory (TargetCaps.shared_bytes): threads run in groups of
// `threads`, a multiple of 32 up to 1024 (of the width of its teams where it has any). Outside of group loops
// all threads of all groups do the same; parallel loops inside are plain loops of each thread.
void k_set_group(Kernel *k, uint32_t threads);
// A loop over groups: all threads of group i run iteration i. Bounds are constant, and such loops are nested
// in nothing but each other: together they are the grid.
KRef k_for_group(Kernel *k, int64_t n, const char *name_hint);
KRef k_thread(Kernel *k);
// An array that the threads of a group share. What one thread stores, others read behind a k_barrier.
KRef k_shared(Kernel *k, int type, int64_t n);
// op (those of k_hreduce) over the values of `width` threads, a power of two: those whose number in the group
// differs in the lowest bits only. Each of them gets the result, with the same bits; which of NaN and a
// number is the greater or lesser is open. Every thread of the group must come by, as with a barrier; but it
// is none for memory.
KRef k_team(Kernel *k, KOp op, KRef v, uint32_t width);
// array[at .. at + n) = n elements of a parameter from `index` on, converted as k_load does, or the other way
// round. n elements are at most 16 bytes, n is a power of two, and `index` a multiple of n of memory that is
// aligned in the same way. With a constant `at` the array stays in registers.
void k_fetch(Kernel *k, uint32_t param, KRef index, KRef array, KRef at, uint8_t n);
void k_put(Kernel *k, uint32_t param, KRef index, KRef array, KRef at, uint8_t n);
// Fetch and put for data that is not worth a place in a cache: it is read or written once, and there is more
// of it than fits.
void k_fetch_once(Kernel *k, uint32_t param, KRef index, KRef array, KRef at, uint8_t n);
void k_put_once(Kernel *k, uint32_t param, KRef index, KRef array, KRef at, uint8_t n);
// The most elements that k_fetch and k_put move; 0: not of this type.
uint8_t k_fetch_width(int type);
// Statements on matrix registers; row steps in elements.
void k_matrix_begin(Kernel *k, int64_t rows, int64_t words);
void k_matrix_zero(Kernel *k, uint8_t dst);
void k_matrix_load(Kernel *k, uint8_t dst, uint32_t param, KRef index, KRef row_step);
// sums: DTYPE_f32 of bf16, or DTYPE_i32 of bytes.
void k_matrix_mac(Kernel *k, DType sums, uint8_t dst, uint8_t x, uint8_t y);
void k_matrix_store(Kernel *k, uint8_t src, KRef array, KRef index, KRef row_step);
void k_matrix_split(Kernel *k, uint32_t param, KRef index, KRef part_step, KRef value);
void k_matrix_end(Kernel *k);
bool kernel_has_matrix(const Kernel *k);
static inline const KInst *k_inst(const Kernel *k, KRef r)
{
    return &k->insts.data[r];
}
// The end of the block that a for or if opens; else r itself.
KRef k_block_end(const Kernel *k, KRef r);
// Does it read or write elements of parameter imm?
static inline bool k_reads_param(const KInst *n)
{
    return kkind_info[n->kind].param == KPARAM_READ || (n->kind == KI_matrix && n->kop == KMATRIX_load);
}
static inline bool k_writes_param(const KInst *n)
{
    return kkind_info[n->kind].param == KPARAM_WRITE || (n->kind == KI_matrix && n->kop == KMATRIX_split);
}
// The constant value of an index expression, if it is one.
bool k_is_const(const Kernel *k, KRef r, int64_t *v);

// Where several threads run the kernel at once (the pass `threads` decides that): the number of this one, and
// how many they are. A thread may be alone: 0 of 1.
KRef k_part(Kernel *k);
KRef k_parts(Kernel *k);
// The first iteration of its loop KFOR_GIVEN that a call runs, and: has it such a loop?
KRef k_since(Kernel *k);
bool kernel_is_given(const Kernel *k);
void k_barrier(Kernel *k);
void k_wait(Kernel *k);
bool kernel_has_wait(const Kernel *k);
// Accesses that a thread of a GPU's kernel makes to read memory.
double kernel_reads(const Kernel *k);
// While such a kernel runs, those after it had better not begin: their groups take the few places that are
// free, one on top of the other, and stay there when others have become free. A kernel with most of a
// processor's shared memory leaves none.
bool kernel_takes_long(const Kernel *k);
// Appends a copy of an instruction, whose operands are of this kernel: how a kernel is rewritten.
KRef k_append(Kernel *k, const KInst *n);
// Does it ask for its part, so that whoever calls it must say which thread this is? If not, its barriers mean
// nothing on a CPU.
bool kernel_is_shared(const Kernel *k);

// Builds the expression of a kernel form ("(mul a (sigmoid b))" over kops.def) on operands of one type.
// Sub-expressions are shared.
KRef k_form(Kernel *k, const char *form, const KRef *operand, int type);

// Invariants: blocks closed, operands defined before and in scope, types and lanes agree. NULL or a message.
const char *kernel_verify(const Kernel *k);
// The same; *at is the instruction that is wrong.
const char *kernel_verify_at(const Kernel *k, KRef *at);
// Readable listing, for --dump=lower and tests.
void kernel_print(const Kernel *k, Str *out);

// Vectors of bytes of microcontrollers, for which there are device functions.
typedef enum ByteVectors {
    BYTE_VECTORS_NONE,
    BYTE_VECTORS_MVE, // Arm's (ir/kernel/mve.h)
    BYTE_VECTORS_RVV  // RISC-V's (ir/kernel/rvv.h)
} ByteVectors;

// What a target can do: the schedules ask this, and only this.
typedef struct TargetCaps {
    const char *name;    // "c", "cuda", "vulkan", "metal"
    const char *cpu_name; // "cortex-m4"; NULL: the target is a GPU
    uint8_t f32_lanes;   // vector lanes of f32; 1 = scalar code only
    uint8_t vector_regs; // architectural vector registers
    bool is_gpu;         // parallel loops become the grid; no vectors; no register-tiled CPU schedules
    bool packs_weights;  // constants may be rearranged for the kernel that reads them
    uint32_t shared_bytes; // memory that a group of threads shares; 0: no group kernels
    uint32_t group_threads; // at most, where a schedule has a choice
    uint32_t max_params;   // of a kernel; 0: any number
    bool channels_last;  // preferred order of image-like activations
    CpuMachine cpu;      // what estimates reckon with: of CPUs; a plain one where the target is a GPU
    const GpuMachine *gpu; // of GPUs; the default one where the target is none
    bool has_dot8;         // dot8 of vectors is one instruction, as wide as f32 vectors
    bool has_pair8;        // pair8 and join16 of vectors are two instructions, as wide as f32 vectors
    bool has_dot16;        // dot16 of vectors is two, which still take half of the time of as many f32 ones
    bool has_dot_bf16;     // the same for pairs of bf16
    bool orders_memory;    // a thread sees behind a barrier what others of its group stored in parameters
    bool has_mma;          // device functions for products of matrices (device.def)
    bool has_simd_matrix;  // those of simdgroups
    bool has_loops;        // the device itself can launch a loop's body again (passes/plan/device_loops.h)
    bool has_coop;         // those for cooperative matrices, beside a way without them
    bool has_parts;        // groups can hand sums to the last one of them (device.def: part_last)
    bool counts_up;        // indices of elements are never negative
    bool has_matrix;       // matrix registers of bf16 and bytes (KMatrix), several times as fast as vectors
    bool prefers_ints;     // integers are cheap, floats are not: microcontrollers
    bool has_sat;          // sat8, satu8 and sat16 (kops.def) are one instruction
    bool has_dsp;          // so are those on halves and mulh, mulh_add; device functions (ir/kernel/dsp.h)
                           // for one thread
    bool has_mla;          // a product of integers and its addition are one instruction
    bool is_narrow;        // products of integers have 32 bits, and bytes are loaded without their signs
    uint8_t byte_vectors;  // ByteVectors: device functions on them, for one thread
    uint8_t threads;       // that share every run: the parts that kernels are split into; 1 = none
    uint32_t split_cycles; // kernels that take less time than this are left to one thread
} TargetCaps;

static inline bool caps_have_vectors(const TargetCaps *caps)
{
    return !caps->is_gpu && caps->f32_lanes > 1;
}

#endif
