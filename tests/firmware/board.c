// SPDX-License-Identifier: Apache-2.0
// Runs the network of check_firmware.py on a board of QEMU and prints what it gives: vectors, an empty .bss,
// and text through semihosting. Nothing of a C library but memcpy and its like.
#include "net.h"

#include <stdint.h>
#include <string.h>

extern uint32_t bss_begin[], bss_end[], stack_top[];
enum { INPUTS = 12 * 11 * 3, OUTPUTS = 10 };
extern const signed char board_input[INPUTS];

enum { WRITE_0 = 4, EXIT = 0x18, EXIT_OK = 0x20026, EXIT_FAULT = 0x20023 };

__attribute__((noinline)) static void semihost(uint32_t op, const void *arg)
{
    register uint32_t r0 __asm__("r0") = op;
    register const void *r1 __asm__("r1") = arg;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

static void say_number(int v)
{
    char text[] = "    \n";
    const int size = v < 0 ? -v : v;
    text[0] = v < 0 ? '-' : ' ';
    text[1] = (char)('0' + size / 100);
    text[2] = (char)('0' + size / 10 % 10);
    text[3] = (char)('0' + size % 10);
    semihost(WRITE_0, text);
}

static void run(void)
{
    rlx_ctx *net = net_static();
    memcpy(rlx_input(net, NET_INPUT_x), board_input, INPUTS);
    if (rlx_run(net) != RLX_OK)
        return;
    const signed char *y = rlx_output(net, NET_OUTPUT_y);
    for (int i = 0; i < OUTPUTS; i++)
        say_number(y[i]);
}

void reset(void);
void reset(void)
{
    for (volatile uint32_t *p = bss_begin; p < bss_end; p++)
        *p = 0;
    run();
    semihost(EXIT, (const void *)EXIT_OK);
    for (;;) {
    }
}

static void fault(void)
{
    semihost(EXIT, (const void *)EXIT_FAULT);
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    stack_top,           (const void *)reset, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault};
