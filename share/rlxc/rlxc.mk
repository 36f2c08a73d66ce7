# SPDX-License-Identifier: Apache-2.0
# For GNU make (4.3 or later): models as a part of a build.
#
#   include $(shell rlxc --share-dir)/rlxc.mk
#   $(eval $(call rlxc_model,digits,digits.json,--cpu armv8-a))
#   app: main.o $(RLXC_OUT)/digits.o
#   main.o: $(RLXC_OUT)/digits.h
#
# rlxc_model,NAME,MODEL,OPTIONS,PARTS makes rules for $(RLXC_OUT)/NAME.c, NAME.h and NAME.o. They run again when any
# file that the model was read from has changed, or rlxc itself. To be set before, where the defaults do not
# fit: RLXC (the program), RLXC_OUT (the folder), RLXC_CFLAGS (of the generated C; -O3). CC is the compiler of
# the target: rlxc runs here, what it writes is compiled for there. PARTS, which may be left out: how many
# compilers may work at NAME.o at once (--split).
RLXC ?= rlxc
RLXC_OUT ?= build
RLXC_CFLAGS ?= -O3
RLXC_PROGRAM := $(shell command -v $(RLXC))
ifeq ($(RLXC_PROGRAM),)
$(error rlxc was not found: install it, or set RLXC)
endif

# What a name of a file, which may come from $(wildcard ...), must not bring into a rule: to make, each of these
# is more than a part of a name.
rlxc_hash := \#
rlxc_checked = $(strip $(foreach rlxc_mark,; = % * ? [ | < > & ' " ` : $$ $(rlxc_hash),\
  $(if $(findstring $(rlxc_mark),$(1)),$(error rlxc_model: '$(1)' has a '$(rlxc_mark)', which make does not \
  take as a part of a name: rename it)))\
  $(if $(findstring \,$(subst \ ,,$(1))),$(error rlxc_model: '$(1)' has a '\' that is not before a space)))$(1)

rlxc_more = $(if $(2),$(foreach rlxc_n,$(shell seq 2 $(2)),$(RLXC_OUT)/$(1)_$(rlxc_n)))

define rlxc_object
$(2): $(1).c $(RLXC_OUT)/$(3).c $(RLXC_OUT)/$(3).h
	$(CC) -std=gnu99 $(RLXC_CFLAGS) @$(RLXC_OUT)/$(3).flags -I$(RLXC_OUT) -c $$< -o $$@

endef

# The objects of all parts become one.
define rlxc_join
$(RLXC_OUT)/$(1).o: $(RLXC_OUT)/$(1)_1.o $(addsuffix .o,$(call rlxc_more,$(1),$(2)))
	$(CC) -r -nostdlib $$^ -o $$@

endef

# The shell gets the name as make read it, in quotes; OPTIONS are words of the shell.
define rlxc_model
$(call rlxc_checked,$(RLXC_OUT)/$(1)).c $(RLXC_OUT)/$(1).h $(addsuffix .c,$(call rlxc_more,$(1),$(4))) &: \
    $(call rlxc_checked,$(2)) $(RLXC_PROGRAM)
	$(RLXC) compile "$$<" -o "$(RLXC_OUT)" --name $(1) \
	    --depfile "$(RLXC_OUT)/$(1).d" --cc-flags "$(RLXC_OUT)/$(1).flags" $(3) $(if $(4),--split $(4))

$(call rlxc_object,$(RLXC_OUT)/$(1),$(RLXC_OUT)/$(1)$(if $(4),_1).o,$(1))
$(foreach rlxc_part,$(call rlxc_more,$(1),$(4)),$(call rlxc_object,$(rlxc_part),$(rlxc_part).o,$(1)))
$(if $(4),$(call rlxc_join,$(1),$(4)))
-include $(RLXC_OUT)/$(1).d
endef
