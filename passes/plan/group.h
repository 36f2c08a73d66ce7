// SPDX-License-Identifier: Apache-2.0
// Grouping: which nodes become one kernel. Separate from fuse.c, which turns groups into kernels, views and
// buffers.
#ifndef PASSES_PLAN_GROUP_H
#define PASSES_PLAN_GROUP_H

#include "passes/pass.h"

typedef struct Uses {
    const uint32_t *first; // by NodeId; users of id are user[first[id] .. first[id + 1])
    const NodeId *user;    // ascending; outputs, state nexts, checks and live sizes count as user 0
} Uses;

typedef struct Groups {
    Uses uses;
    NodeId *root; // by NodeId: the last node of its group; itself for a group of one; 0 for leaves and views
    NodeId *anchor; // by root: its structural op, 0 = elementwise only
    bool *taken_in; // by NodeId: every kernel that reads it computes it by itself (group_join_products)
    // Stages of one kernel (passes/lower/strip.h). NULL: every group is a kernel of its own.
    NodeId *stage;        // by NodeId: the root of its stage
    NodeId *stage_before; // by root of a stage: that of the stage whose value it reads in strips, 0 = none
    int64_t *strip_rows;  // by root of a kernel's last stage
} Groups;

typedef enum GroupMode { GROUP_SINGLE, GROUP_FUSE } GroupMode; // every node its own kernel, or fused

Groups group_nodes(const Plan *plan, Arena *a, GroupMode mode);
// Lets kernels of rotations write their results where a state is updated with them, and nowhere else. Needs
// the places of updated states.
void group_join_patches(Pass *p, Groups *groups);
// Adds a member of a group to the body of its kernel, behind what it reads of values that are taken in.
void group_add_member(const Plan *plan, const Groups *groups, NodeId id, PlanKernel *k);
// Gives products of few rows the norm of their rows, and a second product beside them.
void group_join_products(Pass *p, Groups *groups);

#endif
