// SPDX-License-Identifier: Apache-2.0
// Device functions: what kernels use of a GPU beyond the statements of the kernel IR (copy engine, matrix
// units, barriers in shared memory), and inner loops for CPUs that compilers do not find. One row of
// device.def each; schedules that call them ask the target's
// capabilities first.
#ifndef IR_KERNEL_DEVICE_H
#define IR_KERNEL_DEVICE_H

#include "ir/kernel/kernel.h"

typedef enum KDevice {
#define DEVICE(name, ...) KDEV_##name,
#include "ir/kernel/device.def"
#undef DEVICE
    KDEV_COUNT
} KDevice;

typedef enum KDeviceTarget { KDEV_CUDA, KDEV_METAL, KDEV_VULKAN, KDEV_CPU } KDeviceTarget;
typedef enum KDeviceConstant { KDEV_NONE, KDEV_TEMPLATE, KDEV_PRODUCT, KDEV_NUMBER } KDeviceConstant;

enum { KDEV_VOID = -1, KDEV_MAX_OPERANDS = 9 };

typedef struct KDeviceInfo {
    const char *name;
    int result; // KDEV_VOID: a statement
    const char *operands;
    KDeviceConstant constant;
    KDeviceTarget target;
} KDeviceInfo;

extern const KDeviceInfo device_info[KDEV_COUNT];

// imm of KI_call and KI_device: the function and its constant.
static inline KDevice kdev_of(const KInst *n)
{
    return (KDevice)(n->imm & 0xff);
}
static inline int64_t kdev_constant(const KInst *n)
{
    return n->imm >> 8;
}

// A value of a function; operands that it does not have are 0.
KRef k_call(Kernel *k, KDevice f, KRef a, KRef b, KRef c);
// A statement: KDEV_MAX_OPERANDS operands at most, 0 at the end.
void k_device_list(Kernel *k, KDevice f, int64_t constant, const KRef *operands);
#define k_device(k, f, ...) k_device_list(k, f, 0, (const KRef[KDEV_MAX_OPERANDS + 1]){__VA_ARGS__})
// A statement that calls a function which takes only a constant.
void k_device_with(Kernel *k, KDevice f, int64_t constant);
KRef k_address(Kernel *k, uint32_t param, KRef index);
// Operand i of a KI_device, 0 behind the last one.
KRef k_device_operand(const Kernel *k, const KInst *n, uint32_t i);
// Is a shared array what only functions of cooperative matrices use? The target's prelude has that memory,
// and the way of the kernel that uses it has no other arrays.
bool k_is_coop_memory(const Kernel *k, KRef array);
enum { KDEV_COOP_WORDS = 4 * 3072 }; // of it: codegen/prelude/glsl.inc, RLX_VULKAN_COOP_BYTES of runtime-lite

// Operand `operand` of a function of CPUs is an address from which on it reads, or writes, `elements`
// elements, which depend on the operands in the set `needs`. NULL: it may read and write all of the
// parameter. It does so `times` times, `pitch` units of `unit` elements (0: one) apart, and all that `again`
// times, `far` elements apart, where these are operands (not 0).
typedef struct KDeviceAccess {
    KDevice function;
    uint32_t operand, needs;
    bool is_write;
    int64_t (*elements)(const int64_t *values);
    uint32_t times, pitch, again, far, unit;
    bool is_among; // writes while the function still reads: they count as the first of a turn
} KDeviceAccess;
const KDeviceAccess *k_device_access(KDevice f, uint32_t operand);
// If the times of its operands are turns, in each of which the function reads before it writes: how many;
// else 0.
static inline int64_t kdev_turns(KDevice f, const int64_t *values)
{
    return f == KDEV_dsp_points || f == KDEV_dsp_windows || f == KDEV_dsp_ahead ? values[4] : 0;
}
// Does the function do so in the second half of a turn? Operands come in their order.
static inline bool kdev_is_late(const KDeviceAccess *a)
{
    return a->is_write && !a->is_among;
}
static inline int64_t kdev_times(const KDeviceAccess *a, const int64_t *values)
{
    return (a->times != 0 ? values[a->times] : 1) * (a->again != 0 ? values[a->again] : 1);
}
// How far from its address time i is.
static inline int64_t kdev_far(const KDeviceAccess *a, const int64_t *values, int64_t i)
{
    const int64_t times = a->times != 0 ? values[a->times] : 1, unit = a->unit != 0 ? a->unit : 1;
    return i % times * (a->times != 0 ? values[a->pitch] * unit : 0) +
           i / times * (a->again != 0 ? values[a->far] : 0);
}

// d (64 rows, n columns, by thread as mma.m16n8 has them) = a * b + (add ? d : 0), so many steps of k as
// there are in 32 bytes. Operands are descriptors of memory with the 128-byte swizzle; a may be registers: 4
// words from a_at on. is_mn: the matrix's rows or columns, not k, are next to each other in memory, which
// elements of 8 bits may not be. Sums of integers are words that wrap (KDEV_wgmma_bytes), all others f32.
typedef struct KWgmma {
    DType type;   // bf16, f16; i8, u8; f8e4m3fn, f8e5m2
    DType b_type; // of 8 bits: of b, where it is another one than that of a; else 0
    int64_t n;
    bool a_is_mn, b_is_mn;
} KWgmma;
int64_t kwgmma_constant(KWgmma w);
KWgmma kwgmma_of(int64_t constant);
static inline DType kwgmma_b_type(KWgmma w)
{
    return w.b_type != 0 ? w.b_type : w.type;
}
static inline bool kwgmma_has_words(DType type) // sums are words
{
    return type == DTYPE_i8 || type == DTYPE_u8;
}
void k_wgmma(Kernel *k, KWgmma w, KRef d, KRef a, KRef b, KRef add);
void k_wgmma_r(Kernel *k, KWgmma w, KRef d, KRef a, KRef a_at, KRef b, KRef add);

// Memory that all threads of a group share, beside its arrays: `bytes` from shared_begin on, which is a
// multiple of 1024.
void k_use_shared(Kernel *k, uint32_t bytes);

#endif
