# Runs the layer check on a small tree with one violation of each kind, and wants exactly those reported.
cmake_minimum_required(VERSION 3.25)

set(expected
  "base/up.h includes \"cache/row.h\""
  "cache/row.h includes \"tokenizer/word.h\""
  "cache/row.h includes \"sibling.h\""
  "cache/row.h includes \"tests/support/paths.h\""
  "tokenizer/word.h includes \"kernels/kernels.h\""
  "model/CMakeLists.txt links ibid::runtime")

execute_process(COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${TREE} -P ${SCRIPT}
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(result EQUAL 0)
  message(FATAL_ERROR "the check passed a tree full of violations")
endif()
foreach(line IN LISTS expected)
  string(FIND "${output}" "${line}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "not reported: ${line}\n${output}")
  endif()
endforeach()
string(REGEX MATCHALL " (includes \"|links ibid)" reported "${output}")
list(LENGTH reported n_reported)
list(LENGTH expected n_expected)
if(NOT n_reported EQUAL n_expected)
  message(FATAL_ERROR "${n_reported} violations reported instead of ${n_expected}:\n${output}")
endif()
