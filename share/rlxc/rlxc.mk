# SPDX-License-Identifier: Apache-2.0
# For GNU make (4.3 or later): models as a part of a build.
#
#   include $(shell rlxc --share-dir)/rlxc.mk
#   $(eval $(call rlxc_model,digits,digits.json,--cpu armv8-a))
#   app: main.o $(RLXC_OUT)/digits.o
#   main.o: $(RLXC_OUT)/digits.h
#
# rlxc_model,NAME,MODEL,OPTIONS makes rules for $(RLXC_OUT)/NAME.c, NAME.h and NAME.o. They run again when any
# file that the model was read from has changed, or rlxc itself. To be set before, where the defaults do not
# fit: RLXC (the program), RLXC_OUT (the folder), RLXC_CFLAGS (of the generated C; -O3). CC is the compiler of
# the target: rlxc runs here, what it writes is compiled for there.
RLXC ?= rlxc
RLXC_OUT ?= build
RLXC_CFLAGS ?= -O3
RLXC_PROGRAM := $(shell command -v $(RLXC))
ifeq ($(RLXC_PROGRAM),)
$(error rlxc was not found: install it, or set RLXC)
endif

define rlxc_model
$(RLXC_OUT)/$(1).c $(RLXC_OUT)/$(1).h &: $(2) $(RLXC_PROGRAM)
	$(RLXC) compile $(2) -o $(RLXC_OUT) --name $(1) \
	    --depfile $(RLXC_OUT)/$(1).d --cc-flags $(RLXC_OUT)/$(1).flags $(3)

$(RLXC_OUT)/$(1).o: $(RLXC_OUT)/$(1).c $(RLXC_OUT)/$(1).h
	$(CC) -std=gnu99 $(RLXC_CFLAGS) @$(RLXC_OUT)/$(1).flags -I$(RLXC_OUT) -c $$< -o $$@

-include $(RLXC_OUT)/$(1).d
endef
