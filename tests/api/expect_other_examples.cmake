# Runs the check of examples on documents with one block more, one block less and one letter changed, and expects exactly
# these reports.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/../layering/expect_exactly.cmake)

file(REMOVE_RECURSE "${TREE}")
file(WRITE "${TREE}/tests/api/session_examples_test.cc"
  "TEST(A, B) {\n  // BEGIN docs/sessions.md\n  same();\n    indented();\n  // END\n}\n"
  "  // BEGIN docs/sessions.md\n  alike();\n  // END\n"
  "  // BEGIN docs/other.md\n  unseen();\n  // END\n")
file(WRITE "${TREE}/docs/sessions.md"
  "```cpp\n#include \"x.h\"\n\nsame();\n  indented();\n```\n```cpp\nalike() ;\n```\n```cpp\nuntested();\n```\n")

execute_process(COMMAND ${PYTHON} ${SCRIPT} ${TREE} RESULT_VARIABLE result ERROR_VARIABLE output)
expect_exactly("${result}" "${output}" ": (not tested|tested and not shown|not among the documents)"
  "docs/sessions.md: not tested: alike() \;"
  "docs/sessions.md: not tested: untested()\;"
  "docs/sessions.md: tested and not shown: alike()\;"
  "docs/other.md: not among the documents")

file(WRITE "${TREE}/docs/sessions.md" "nothing\n")
execute_process(COMMAND ${PYTHON} ${SCRIPT} ${TREE} RESULT_VARIABLE result ERROR_VARIABLE output)
expect_exactly("${result}" "${output}" "no example" "docs/sessions.md: no example")
