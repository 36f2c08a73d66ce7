// SPDX-License-Identifier: Apache-2.0
// What start.c offers to a program.
#ifndef START_H
#define START_H

#include <stdint.h>

void board_say(const char *text);
void board_say_number(int32_t value);
// Ends the emulation. Returning from main does so as well: 0 is good.
void board_end(int is_good);
// Fills the unused part of the stack with a pattern; later: how many bytes of the stack are or were in use.
void board_fill_stack(void);
uint32_t board_stack_bytes(void);
// For those who count instructions: a place between two parts of a program.
void board_mark(void);

#endif
