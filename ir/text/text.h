// SPDX-License-Identifier: Apache-2.0
// The text form of a graph: what --dump prints, what tests compare, and what graph_parse reads back to the
// same nodes. Attributes that equal their default are left out; the types behind the colon of an op may be
// left out by hand; a comment behind a node is its label.
//   graph "digits" {
//     symbol batch [1, 64] multiple 1
//     %1 = input "image" : f32[batch, 1, 8, 8]
//     %2 = const : f32[2] = {1.0, -0.5}
//     %3 = param "w" : f32[16, 1, 3, 3] = hex"3f800000..."
//     %4 = conv(%1, %3) {pads = [1, 1, 1, 1], group = 1} : f32[batch, 16, 8, 8]   # conv1
//     %5 = layer_norm(%4, _, %2) {axis = 3} : f32[batch, 16, 8, 8]
//     %6 = state "k" : f32[4]
//     state %6 -> %6
//     output "y" = %5
//     check %7 "the message of a run in which %7 is false"
//   }
// hex holds the bits of every element, the most significant digit first: for long constants and odd NaNs.
#ifndef IR_TEXT_TEXT_H
#define IR_TEXT_TEXT_H

#include "ir/graph/graph.h"

// Elide: constants beyond 16 elements print as `...`, which does not parse.
typedef enum TextStyle { TEXT_FULL, TEXT_ELIDE } TextStyle;
void graph_print(const Graph *g, Str *out, TextStyle style);
// file: id from diag_add_file, whose text is parsed. False: reported.
bool graph_parse(Arena *a, Diag *d, uint32_t file, Graph **out);

#endif
