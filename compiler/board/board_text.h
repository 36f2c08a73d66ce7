// SPDX-License-Identifier: Apache-2.0
// Files that make a network a program for an emulated board, as text, made by the build (tools/embed.py):
// lines, NULL at the end.
#ifndef COMPILER_BOARD_BOARD_TEXT_H
#define COMPILER_BOARD_BOARD_TEXT_H

extern const char *const board_count_c[]; // count.c
extern const char *const board_run_c[];   // run.c
extern const char *const board_start_c[]; // examples/firmware/start.c
extern const char *const board_start_h[]; // examples/firmware/start.h
extern const char *const board_linker[];  // examples/firmware/board.ld

#endif
