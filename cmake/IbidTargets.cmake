# ibid_library(<folder> SOURCES ... HEADERS ... DEPENDS ...): the static library of one layer.
# ibid_test(<folder> SOURCES ... DEPENDS ... [ISA]): the layer's GoogleTest executable; ISA reruns it
#   with each instruction set forced.
include(GoogleTest)

set(IBID_WARNINGS -Wall -Wextra -Wconversion -Wshadow)
if(IBID_WERROR)
  list(APPEND IBID_WARNINGS -Werror)
endif()

# -ffp-contract=off: a compiler that fuses a multiply and an add where it likes would give each
# instruction set its own bits. Fused operations are written out where they are meant.
function(ibid_target_options target)
  target_compile_options(${target} PRIVATE ${IBID_WARNINGS} -ffp-contract=off)
  if(IBID_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${IBID_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${IBID_SANITIZE})
  endif()
endfunction()

function(ibid_library folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  set(target ibid_${folder})
  add_library(${target} STATIC ${ARG_SOURCES})
  add_library(ibid::${folder} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${folder})
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${ARG_HEADERS})
  target_link_libraries(${target} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE_DEPENDS})
  ibid_target_options(${target})
  install(TARGETS ${target} EXPORT ibidTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ibid)
endfunction()

function(ibid_test folder)
  cmake_parse_arguments(ARG "ISA" "" "SOURCES;DEPENDS" ${ARGN})
  set(target ${folder}_test)
  find_package(GTest REQUIRED)
  add_executable(${target} ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE ${ARG_DEPENDS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${target} PRIVATE IBID_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  ibid_target_options(${target})
  gtest_discover_tests(${target} TEST_PREFIX ${folder}. DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
  if(ARG_ISA)
    foreach(isa ref avx2)
      gtest_discover_tests(${target} TEST_PREFIX ${folder}.${isa}. DISCOVERY_TIMEOUT 60
        TEST_LIST ${target}_${isa}_tests
        PROPERTIES TIMEOUT 600 ENVIRONMENT IBID_FORCE_ISA=${isa})
    endforeach()
  endif()
endfunction()
