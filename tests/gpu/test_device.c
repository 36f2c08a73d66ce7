// SPDX-License-Identifier: Apache-2.0
// Every device function (device.def) in a kernel: the verifier takes it and refuses a wrong operand, the
// text compiles for GPUs that have it and for those that do not. Without a GPU. TAP.
#include "codegen/target/target.h"
#include "compiler/images/nvrtc.h"
#include "ir/kernel/device.h"

#include <stdio.h>
#include <string.h>

static Arena arena;
static unsigned n_failed, n_done;

static void result(bool ok, const char *what, const char *more)
{
    n_failed += !ok;
    printf("%sok %u - %s%s%s\n", ok ? "" : "not ", ++n_done, what, *more ? ": " : "", more);
    fflush(stdout); // an assertion that fails later takes away what waits
}

// What kernels have an operand of each letter of.
typedef struct Operands {
    Kernel *k;
    KRef index, word64, word, number, condition, numbers, words, variable, address;
} Operands;

static KRef operand_of(const Operands *o, char letter)
{
    return letter == 'i'   ? o->index
           : letter == 'u' ? o->word64
           : letter == 'r' ? o->word
           : letter == 'f' ? o->number
           : letter == 'b' ? o->condition
           : letter == 'F' ? o->numbers
           : letter == 'R' ? o->words
           : letter == 'V' ? o->variable
                           : o->address;
}

static Operands new_operands(const char *name)
{
    Kernel *k = kernel_new(&arena, name);
    const uint32_t x = kernel_param(k, "x", DTYPE_u32, true, true);
    const KRef i = k_loop(k, 256, KFOR_PARALLEL, "i");
    return (Operands){.k = k,
                      .index = i,
                      .word64 = k_integer(k, DTYPE_u64, 8),
                      .word = k_integer(k, DTYPE_u32, 8),
                      .number = k_number(k, DTYPE_f32, 2),
                      .condition = k_expr(k, "$ < 8", i),
                      .numbers = k_array(k, DTYPE_f32, 128),
                      .words = k_array(k, DTYPE_u32, 128),
                      .variable = k_var(k, k_index(k, 0), "v"),
                      .address = k_address(k, x, i)};
}

static void add_call(const Operands *o, KDevice f)
{
    const KDeviceInfo *info = &device_info[f];
    KRef src[KDEV_MAX_OPERANDS + 1] = {0};
    for (uint32_t i = 0; info->operands[i] != '\0'; i++)
        src[i] = info->operands[i] == 'i' && i > 0 && strchr("FR", info->operands[i - 1]) != NULL
                     ? k_index(o->k, 0)
                     : operand_of(o, info->operands[i]);
    if (info->result == KDEV_VOID) {
        const bool has_words = f == KDEV_wgmma_bytes;
        const KWgmma w = {.type = has_words ? DTYPE_u8 : DTYPE_f16,
                          .b_type = has_words ? DTYPE_i8 : DTYPE_f16,
                          .n = 256,
                          .b_is_mn = !has_words};
        k_device_list(o->k, f, info->constant == KDEV_PRODUCT ? kwgmma_constant(w) : 24, src);
        return;
    }
    const KRef v = k_call(o->k, f, src[0], src[1], src[2]);
    const KRef bits = info->result == DTYPE_f32 ? k_bitcast(o->k, v, DTYPE_u32) : k_cast(o->k, v, DTYPE_u32);
    k_store(o->k, 0, o->index, bits, 1);
}

// All functions, and the text of products of both types and all orders.
static const char *all_kernels(void)
{
    Str kernels = str_new(&arena), text = str_new(&arena);
    for (uint32_t f = 0; f < KDEV_COUNT; f++) {
        if (device_info[f].target != KDEV_CUDA)
            continue; // the op cases of Metal (TEST_GPU=apple7) and Vulkan have them
        const Operands o = new_operands(arena_printf(&arena, "k_%s", device_info[f].name));
        k_for(o.k, k_index(o.k, 0), o.index, 1, KFOR_SERIAL, "turn"); // some leave a loop
        add_call(&o, (KDevice)f);
        k_end(o.k);
        for (int which = 0; f == KDEV_wgmma && which < 8; which++) {
            const KWgmma w = {.type = which & 1 ? DTYPE_bf16 : DTYPE_f16,
                              .n = 256,
                              .a_is_mn = (which & 2) != 0,
                              .b_is_mn = (which & 4) != 0};
            k_wgmma(o.k, w, o.numbers, o.word64, o.word64, o.condition);
        }
        for (int which = 0; f == KDEV_wgmma && which < 4; which++) {
            const KWgmma w = {.type = which & 1 ? DTYPE_f8e4m3fn : DTYPE_f8e5m2,
                              .b_type = which & 2 ? DTYPE_f8e4m3fn : DTYPE_f8e5m2,
                              .n = 256};
            k_wgmma(o.k, w, o.numbers, o.word64, o.word64, o.condition);
        }
        for (int which = 0; f == KDEV_wgmma_bytes && which < 4; which++) {
            const KWgmma w = {.type = which & 1 ? DTYPE_i8 : DTYPE_u8,
                              .b_type = which & 2 ? DTYPE_i8 : DTYPE_u8,
                              .n = 256};
            k_wgmma(o.k, w, o.words, o.word64, o.word64, o.condition);
        }
        k_end(o.k);
        const char *wrong = kernel_verify(o.k);
        result(wrong == NULL, device_info[f].name, wrong != NULL ? wrong : "");
        cfamily_print_kernel(&target_cuda, o.k, &kernels);
    }
    target_print_prelude(&target_cuda, str_text(&kernels), &text);
    str_add(&text, str_text(&kernels));
    return str_text(&text);
}

static void test_refused(void)
{
    Operands o = new_operands("k");
    const KRef wrong = o.word;
    k_device(o.k, KDEV_bar_init, o.index, wrong);
    k_end(o.k);
    result(kernel_verify(o.k) != NULL, "an operand of another type", "");
    o = new_operands("k");
    k_device(o.k, KDEV_take_number, o.index, o.address);
    k_end(o.k);
    result(kernel_verify(o.k) != NULL, "a value in place of a variable", "");
}

static void test_listing(void)
{
    Operands o = new_operands("k");
    Str s = str_new(&arena);
    k_device(o.k, KDEV_bar_init, o.index, k_index(o.k, 2));
    k_device_with(o.k, KDEV_wgmma_wait, 1);
    k_end(o.k);
    kernel_print(o.k, &s);
    result(strstr(str_text(&s), "device bar_init %1 2\n") != NULL &&
               strstr(str_text(&s), "device wgmma_wait<1>\n") != NULL,
           "the listing", "");
}

int main(void)
{
    Diag d = diag_new(&arena);
    Nvrtc nvrtc = {.arena = &arena, .diag = &d};
    GpuImages images = {0};
    static const char probe[] = "extern \"C\" __global__ void k(int *p) { *p = 1; }\n";
    const char *text = all_kernels();
    test_refused();
    test_listing();
    if (nvrtc_read_gpus(&arena, "sm_90a", &nvrtc.gpus) &&
        nvrtc_compile(&nvrtc, probe, NULL, 0, &images)) {
        static const char *const gpus[] = {"sm_80", "sm_90a", "sm_90", "sm_100"};
        for (uint32_t i = 0; i < sizeof gpus / sizeof *gpus; i++)
            result(nvrtc_read_gpus(&arena, gpus[i], &nvrtc.gpus) &&
                       nvrtc_compile(&nvrtc, text, NULL, 0, &images),
                   "compiled", gpus[i]);
        if (n_failed != 0)
            diag_print(&d, stderr, DIAG_PLAIN);
    } else {
        result(true, "compiled", "# SKIP no NVRTC (tools/setup installs it)");
    }
    printf("1..%u\n", n_done);
    return n_failed != 0;
}
