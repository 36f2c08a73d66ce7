// SPDX-License-Identifier: Apache-2.0
// Paths and folders for what the commands write; the files themselves go through rawfile_write.
#ifndef COMPILER_SYSTEM_OUTPUT_H
#define COMPILER_SYSTEM_OUTPUT_H

#include "base/diag.h"
#include <sys/types.h>

// Makes a folder and its parents. False: reported.
bool output_make_dir(Diag *d, const char *path);
// The same; n_made: how many were not there.
bool output_make_folders(Diag *d, const char *path, uint32_t *n_made);
// The same without a message: NULL, or the folder that cannot be made (errno).
const char *output_make_parts(Arena *a, const char *path, mode_t mode, uint32_t *n_made);
// The last n folders of a path, as far as they are empty.
void output_remove_folders(Arena *a, const char *path, uint32_t n);
// "dir/name", or name for an empty dir.
const char *output_path(Arena *a, const char *dir, const char *name);
// "a/b:c" -> "a_b_c.npy": slashes and colons may not stand in file names. Where a name is too long for a
// file, its first characters and a number made of all of it stand for it.
const char *output_npy_name(Arena *a, const char *value);
// The file name without folders and without its last extension.
const char *output_stem(Arena *a, const char *path);
// Text as one word of a shell's command, in quotes where it needs them.
const char *output_shell_word(Arena *a, const char *text);

#endif
