// SPDX-License-Identifier: Apache-2.0
// Calls of device functions: their table and builders. See device.h.
#include "ir/kernel/device.h"
#include "ir/kernel/kernel_fold.h"
#include <string.h>

enum { VOID = KDEV_VOID, LIST = 3 };

const KDeviceInfo device_info[KDEV_COUNT] = {
#define DEVICE(name, result, operands, constant, target)                                                     \
    {#name, result, operands, KDEV_##constant, KDEV_##target},
#include "ir/kernel/device.def"
#undef DEVICE
};

KRef k_call(Kernel *k, KDevice f, KRef a, KRef b, KRef c)
{
    rlx_assert(f < KDEV_COUNT);
    const int type = device_info[f].result;
    rlx_assert(type != KDEV_VOID);
    return k_append(
        k,
        &(KInst){
            .kind = KI_call, .dtype = (uint8_t)type, .lanes = 1, .a = a, .b = b, .c = c, .imm = (int64_t)f});
}

void k_device_list(Kernel *k, KDevice f, int64_t constant, const KRef *operands)
{
    const uint32_t n = (uint32_t)strlen(device_info[f].operands);
    KRef list[LIST] = {0};
    rlx_assert(n <= KDEV_MAX_OPERANDS && operands[n] == 0 && device_info[f].result == KDEV_VOID);
    for (uint32_t i = 0; i < n; i += LIST) {
        KInst part = {.kind = KI_list, .dtype = KT_INDEX, .lanes = 1, .a = operands[i]};
        part.b = i + 1 < n ? operands[i + 1] : 0;
        part.c = i + 2 < n ? operands[i + 2] : 0;
        list[i / LIST] = kernel_push(k, &part);
    }
    kernel_push(k, &(KInst){.kind = KI_device,
                            .dtype = DTYPE_bool,
                            .lanes = 1,
                            .a = list[0],
                            .b = list[1],
                            .c = list[2],
                            .imm = (int64_t)((uint64_t)constant << 8) | (int64_t)f});
}

void k_device_with(Kernel *k, KDevice f, int64_t constant)
{
    k_device_list(k, f, constant, (const KRef[1]){0});
}

KRef k_address(Kernel *k, uint32_t param, KRef index)
{
    index = kernel_index(k, param, index);
    return kernel_push(k, &(KInst){.kind = KI_address,
                                   .dtype = (uint8_t)k->params.data[param].dtype,
                                   .lanes = 1,
                                   .a = index,
                                   .imm = param});
}

KRef k_device_operand(const Kernel *k, const KInst *n, uint32_t i)
{
    rlx_assert(n->kind == KI_device);
    const KRef list[LIST] = {n->a, n->b, n->c};
    if (i >= KDEV_MAX_OPERANDS || list[i / LIST] == 0)
        return 0;
    const KInst *part = k_inst(k, list[i / LIST]);
    return (const KRef[LIST]){part->a, part->b, part->c}[i % LIST];
}

// Types by number. Constants have that of a in bit 9 and those from 12 on, and from 15 on how that of b
// differs.
static const DType wgmma_types[] = {DTYPE_bf16, DTYPE_f16, DTYPE_i8, DTYPE_u8, DTYPE_f8e4m3fn, DTYPE_f8e5m2};
enum { N_WGMMA_TYPES = sizeof wgmma_types / sizeof *wgmma_types };

static int64_t wgmma_type(DType type)
{
    int64_t i = 0;
    while (i < N_WGMMA_TYPES && wgmma_types[i] != type)
        i++;
    rlx_assert(i < N_WGMMA_TYPES);
    return i;
}

int64_t kwgmma_constant(KWgmma w)
{
    rlx_assert(w.n % 8 == 0 && w.n >= 8 && w.n <= 256);
    const DType b = kwgmma_b_type(w);
    rlx_assert(dtype_info[b].bytes == dtype_info[w.type].bytes);
    rlx_assert(kwgmma_has_words(w.type) == kwgmma_has_words(b));
    rlx_assert(dtype_info[b].bytes == 2 ? b == w.type : !w.a_is_mn && !w.b_is_mn);
    const int64_t type = wgmma_type(w.type);
    return w.n | (type & 1) << 9 | (int64_t)w.a_is_mn << 10 | (int64_t)w.b_is_mn << 11 | type >> 1 << 12 |
           (type ^ wgmma_type(b)) << 15;
}

KWgmma kwgmma_of(int64_t c)
{
    const int64_t type = (c >> 9 & 1) | (c >> 12 & 7) << 1;
    return (KWgmma){.type = wgmma_types[type],
                    .b_type = wgmma_types[type ^ (c >> 15 & 7)],
                    .n = c & 511,
                    .a_is_mn = (c >> 10 & 1) != 0,
                    .b_is_mn = (c >> 11 & 1) != 0};
}

void k_wgmma(Kernel *k, KWgmma w, KRef d, KRef a, KRef b, KRef add)
{
    k_device_list(k, kwgmma_has_words(w.type) ? KDEV_wgmma_bytes : KDEV_wgmma, kwgmma_constant(w),
                  (const KRef[KDEV_MAX_OPERANDS + 1]){d, a, b, add});
}

void k_wgmma_r(Kernel *k, KWgmma w, KRef d, KRef a, KRef a_at, KRef b, KRef add)
{
    k_device_list(k, KDEV_wgmma_r, kwgmma_constant(w),
                  (const KRef[KDEV_MAX_OPERANDS + 1]){d, a, a_at, b, add});
}

void k_use_shared(Kernel *k, uint32_t bytes)
{
    rlx_assert(k->group != 0);
    k->shared_bytes = bytes > k->shared_bytes ? bytes : k->shared_bytes;
}

static bool has_operand(const Kernel *k, const KInst *n, KRef array)
{
    for (uint32_t i = 0; k_device_operand(k, n, i) != 0; i++)
        if (k_device_operand(k, n, i) == array)
            return true;
    return false;
}

bool k_is_coop_memory(const Kernel *k, KRef array)
{
    bool is_used = false;
    for (KRef r = array + 1; r < k->insts.len; r++) {
        const KInst *n = k_inst(k, r);
        const bool is_device = n->kind == KI_device;
        const bool is_operand = is_device
                                    ? has_operand(k, n, array)
                                    : n->kind != KI_list && (n->a == array || n->b == array || n->c == array);
        if (is_operand && !(is_device && device_info[kdev_of(n)].target == KDEV_VULKAN))
            return false;
        is_used = is_used || is_operand;
    }
    return is_used;
}
