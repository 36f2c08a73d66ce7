# SPDX-License-Identifier: Apache-2.0
# find_package(rlxc): models as a part of a CMake build.
#
#   find_package(rlxc REQUIRED)
#   rlxc_add_model(digits MODEL digits.json OPTIONS --cpu armv8-a)
#   target_link_libraries(app PRIVATE digits)      # and #include "digits.h"
#
# rlxc_add_model(TARGET MODEL FILE [NAME NAME] [OPTIONS ...]) makes a static library of a model. NAME, by default
# the TARGET, is what the generated function and files are called. It is compiled again when any file that the
# model was read from has changed, or rlxc itself. rlxc runs on this machine, also in cross builds.
#
# Sets RLXC_EXECUTABLE, and RLXC_INCLUDE_DIR: the headers that --link-runtime asks for.
cmake_minimum_required(VERSION 3.20)
get_filename_component(_rlxc_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
find_program(RLXC_EXECUTABLE rlxc HINTS "${_rlxc_prefix}/bin" "${_rlxc_prefix}" NO_CMAKE_FIND_ROOT_PATH)
find_path(RLXC_INCLUDE_DIR rlx.h HINTS "${_rlxc_prefix}/include/rlxc" NO_CMAKE_FIND_ROOT_PATH)
mark_as_advanced(RLXC_EXECUTABLE RLXC_INCLUDE_DIR)
if(NOT RLXC_EXECUTABLE)
  set(rlxc_FOUND FALSE)
  set(rlxc_NOT_FOUND_MESSAGE "the program rlxc was not found: set RLXC_EXECUTABLE")
  return()
endif()

function(rlxc_add_model target)
  cmake_parse_arguments(PARSE_ARGV 1 model "" "MODEL;NAME" "OPTIONS")
  if(NOT model_MODEL OR model_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "rlxc_add_model(TARGET MODEL FILE [NAME NAME] [OPTIONS ...])")
  endif()
  if(NOT model_NAME)
    set(model_NAME "${target}")
  endif()
  get_filename_component(file "${model_MODEL}" ABSOLUTE)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${target}.rlxc")
  set(out "${folder}/${model_NAME}")
  # With --split N the kernels are in N parts, so that as many compilers work at once.
  set(sources "${out}.c")
  list(FIND model_OPTIONS "--split" split)
  if(NOT split EQUAL -1)
    math(EXPR split "${split} + 1")
    list(GET model_OPTIONS ${split} parts)
    foreach(part RANGE 1 ${parts})
      if(part GREATER 1)
        list(APPEND sources "${out}_${part}.c")
      endif()
    endforeach()
  endif()
  add_custom_command(
    OUTPUT ${sources} "${out}.h"
    BYPRODUCTS "${out}.flags"
    COMMAND "${RLXC_EXECUTABLE}" compile "${file}" -o "${folder}" --name "${model_NAME}"
      --depfile "${out}.d" --cc-flags "${out}.flags" ${model_OPTIONS}
    DEPENDS "${file}" "${RLXC_EXECUTABLE}"
    DEPFILE "${out}.d"
    COMMENT "Compiling the model ${model_NAME}"
    VERBATIM)
  add_library(${target} STATIC ${sources} "${out}.h")
  # The folder is also where the assembler looks for NAME.weights. A network without optimisation is no use,
  # whatever CMAKE_BUILD_TYPE says.
  target_include_directories(${target} PUBLIC "${folder}")
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "-O3;@${out}.flags")
  set_target_properties(${target} PROPERTIES C_STANDARD 99 C_EXTENSIONS ON POSITION_INDEPENDENT_CODE ON)
  if("--link-runtime" IN_LIST model_OPTIONS)
    target_include_directories(${target} PUBLIC "${RLXC_INCLUDE_DIR}")
  endif()
  if("--threads" IN_LIST model_OPTIONS)
    find_package(Threads REQUIRED)
    target_link_libraries(${target} PUBLIC Threads::Threads)
  endif()
  if(UNIX)
    target_link_libraries(${target} PUBLIC m ${CMAKE_DL_LIBS})
  endif()
endfunction()
