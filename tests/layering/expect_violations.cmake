# Runs the layer check on a small tree with one violation of each kind, and expects exactly those reported.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/expect_exactly.cmake)

execute_process(COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${TREE} -P ${SCRIPT}
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
expect_exactly("${result}" "${output}" " (includes \"|links ibid|names [a-z]|is in a folder)|no file of"
  "include/ibid/open.h includes \"base/up.h\""
  "base/up.h includes \"cache/row.h\""
  "cache/row.h includes \"tokenizer/word.h\""
  "cache/row.h includes \"sibling.h\""
  "cache/row.h includes \"tests/support/paths.h\""
  "tokenizer/word.h includes \"kernels/kernels.h\""
  "model/CMakeLists.txt links ibid::runtime"
  "cmake/folders.txt: cache/store names cache, which is not above it"
  "cache/bare/page.h is in a folder without a line in cmake/folders.txt"
  "cmake/folders.txt: no file of model includes weights")
