// SPDX-License-Identifier: Apache-2.0
// Start-up of a microcontroller, and what a program needs of a board: text, an end, and how deep the stack
// was. For Cortex-M and RISC-V; text goes through semihosting, which QEMU and debuggers offer, where a board
// of your own has a UART. board.ld says where memory is. Nothing of a C library but memcpy and its like.
#include "start.h"

#include <stddef.h>

extern void (*const constructors_begin[])(void), (*const constructors_end[])(void);
extern uint32_t data_begin[], data_end[], data_load[], bss_begin[], bss_end[], stack_top[];
int main(void);

enum { WRITE_TEXT = 4, EXIT = 0x18, EXIT_OK = 0x20026, EXIT_FAULT = 0x20023, PATTERN = 0x5ca1ab1e };

#ifdef __riscv
__attribute__((noinline)) static void semihost(uint32_t op, uintptr_t arg)
{
    register uintptr_t a0 __asm__("a0") = op;
    register uintptr_t a1 __asm__("a1") = arg;
    __asm__ volatile(".balign 16\n .option push\n .option norvc\n slli zero, zero, 0x1f\n ebreak\n"
                     " srai zero, zero, 7\n .option pop"
                     : "+r"(a0)
                     : "r"(a1)
                     : "memory");
}
#else
__attribute__((noinline)) static void semihost(uint32_t op, uintptr_t arg)
{
    register uintptr_t r0 __asm__("r0") = op;
    register uintptr_t r1 __asm__("r1") = arg;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}
#endif

void board_say(const char *text)
{
    semihost(WRITE_TEXT, (uintptr_t)text);
}

void board_say_number(int32_t value)
{
    char text[12];
    char *at = text + sizeof text - 1;
    uint32_t rest = value < 0 ? 0u - (uint32_t)value : (uint32_t)value;
    *at = '\0';
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest != 0);
    if (value < 0)
        *--at = '-';
    board_say(at);
}

void board_end(int is_good)
{
    semihost(EXIT, is_good ? EXIT_OK : EXIT_FAULT);
    for (;;) {
    }
}

// --- the stack -----------------------------------------------------------------------------------

// It grows down from stack_top towards the end of .bss.
__attribute__((noinline)) void board_fill_stack(void)
{
    volatile uint32_t here = 0;
    const uintptr_t end = (uintptr_t)&here - 128; // below what this function uses itself
    for (volatile uint32_t *p = bss_end; (uintptr_t)p < end; p++)
        *p = PATTERN;
}

uint32_t board_stack_bytes(void)
{
    const volatile uint32_t *p = bss_end;
    while (*p == PATTERN)
        p++;
    return (uint32_t)((const char *)stack_top - (const char *)p);
}

// --- what compilers call ------------------------------------------------------------------------

#ifdef __riscv // without a C library; for Arm it is newlib's
void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memset(void *to, int value, size_t n);

typedef uint32_t __attribute__((may_alias)) word;

// Or compilers would make loops calls of the function that they are in.
static inline void keep_loop(void)
{
    __asm__ volatile("" ::: "memory");
}

// Words for t, which is one, from f, which lies `bits` behind one. Reads no word without a byte of f. Gives
// how many bytes were copied.
static inline size_t copy_turned(char *t, const char *f, size_t n, unsigned bits)
{
    const word *w = (const word *)(f - bits / 8);
    uint32_t low = *w++;
    for (size_t i = 0; i + 4 <= n; i += 4) {
        const uint32_t high = *w++;
        *(word *)(t + i) = low >> bits | high << (32 - bits);
        low = high;
    }
    return n & ~(size_t)3;
}

static inline size_t copy_words(word *t, const word *f, size_t n)
{
    for (word *end = t + n / 16 * 4; t < end; t += 4, f += 4) {
        const uint32_t a = f[0], b = f[1], c = f[2], d = f[3];
        t[0] = a, t[1] = b, t[2] = c, t[3] = d;
        keep_loop();
    }
    for (size_t i = 0; i < n / 4 % 4; i++, keep_loop())
        t[i] = f[i];
    return n & ~(size_t)3;
}

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    char *t = to;
    const char *f = from;
    if (n >= 8) {
        for (; (uintptr_t)t % 4 != 0; n--, keep_loop())
            *t++ = *f++;
        const unsigned bits = (uintptr_t)f % 4 * 8;
        const size_t copied = bits == 0 ? copy_words((word *)t, (const word *)f, n)
                                        : copy_turned(t, f, n, bits);
        t += copied, f += copied, n -= copied;
    }
    for (; n != 0; n--, keep_loop())
        *t++ = *f++;
    return to;
}

void *memset(void *to, int value, size_t n)
{
    char *t = to;
    const uint32_t all = (unsigned char)value * 0x01010101u;
    if (n >= 8) {
        for (; (uintptr_t)t % 4 != 0; n--, keep_loop())
            *t++ = (char)value;
        for (; n >= 4; n -= 4, t += 4, keep_loop())
            *(word *)t = all;
    }
    for (; n != 0; n--, keep_loop())
        *t++ = (char)value;
    return to;
}
#endif

// --- start ---------------------------------------------------------------------------------------

__attribute__((noinline)) void board_mark(void)
{
    __asm__ volatile("" ::: "memory");
}

void board_begin(void);
void board_begin(void)
{
#ifdef __ARM_ARCH
    *(volatile uint32_t *)0xe000ed88 |= 0xfu
                                        << 20; // CPACR: registers of floats and vectors, where there are some
    __asm__ volatile("dsb\n isb" ::: "memory");
#endif
    for (volatile uint32_t *d = data_begin, *s = data_load; d < data_end;)
        *d++ = *s++;
    for (volatile uint32_t *d = bss_begin; d < bss_end;)
        *d++ = 0;
    for (void (*const *c)(void) = constructors_begin; c < constructors_end; c++) // of C++
        (*c)();
    board_end(main() == 0);
}

static void fault(void)
{
    board_say("fault\n");
    board_end(0);
}

#ifdef __riscv
// The first instructions: a stack, what a fault does, and the registers of floats.
__attribute__((naked, section(".vectors"), used)) static void vectors(void)
{
    __asm__ volatile("la sp, stack_top\n la t0, fault_entry\n csrw mtvec, t0\n"
                     " li t0, 0x2200\n csrs mstatus, t0\n j board_begin\n .balign 4\n"
                     "fault_entry: j %0" ::"i"(fault));
}
#else
__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    stack_top,           (const void *)board_begin, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault,       (const void *)fault, (const void *)fault};
#endif
