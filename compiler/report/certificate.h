// SPDX-License-Identifier: Apache-2.0
// NAME.certificate.json and .txt: what was proven about the code of a job, and its costs, with hashes of all
// that went in and came out. No times and no places of this machine, so that anybody can make it again: for
// microcontrollers with the same compiler and QEMU, whose versions it states.
#ifndef COMPILER_REPORT_CERTIFICATE_H
#define COMPILER_REPORT_CERTIFICATE_H

#include "compiler/report/validation.h"

// Adds both to the files of the job, which are all there otherwise. False: reported.
bool certificate_add(Job *j, const ValidateReport *r);

#endif
