# ibid_library(<folder> DEPENDS ... PRIVATE_DEPENDS ... [EXCLUDE <regex>])
#   Adds the static library of one layer, from all files of the folder. Layers are internal; the library for users is
#   built from all of them (cmake/IbidInstall.cmake).
#     EXCLUDE   paths of files that are left out, because this machine cannot compile them
#
# ibid_test(<folder> [SOURCES ...] [ALSO ...] [EXCEPT ...] DEPENDS ... [ISA] [SEPARATE] [SHARDS <n>] [FAST <filter>]
#           [SAMPLED <filter>])
#   Adds the GoogleTest executable of one layer. Filters are those of GoogleTest.
#     SOURCES   its files; default: all files of the folder, except EXCEPT
#     ALSO      files of other folders
#     ISA       also runs the tests, except those of the real model, with each lower instruction set forced
#     SEPARATE  compiles the files one by one, because some define the same names
#     SHARDS    number of processes that run all tests; default 1
#     FAST      filter of the tests that ctest -C Fast runs
#     SAMPLED   filter of tests of one property for many models and settings, of which ctest -C Whole runs one in six
#   Each row is a set of runs. The last three commands also run the single tests, unless -LE '^single$' is given; a
#   build with a sanitizer has only <folder>.all, in 4 processes.
#     command         name in ctest            tests                                               used by
#     ctest           <folder>.<test>          each test in a process of its own (label single)    ./run test -R NAME
#     ctest -C All    <folder>.all             all                                                 ./run test --all
#                     <folder>.isa.X           all, with ISA                                       ./run test --all
#     ctest -C Whole  <folder>.whole           all that are not SAMPLED                            ./run test
#                     <folder>.sample          one in six that are SAMPLED                         ./run test
#                     <folder>.isa.X.sample    one in eight of all, with ISA                       ./run test
#     ctest -C Fast   <folder>.fast            those of FAST                                       ./run test --fast
include(GoogleTest)

# Options structs are filled by designated initialisers; omitted fields have their defaults.
set(IBID_WARNINGS -Wall -Wextra -Wconversion -Wshadow -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND IBID_WARNINGS -Wno-restrict)   # false positives for std::string (gcc bug 105651)
endif()
if(IBID_WERROR)
  list(APPEND IBID_WARNINGS -Werror)
endif()

# Each header is compiled alone by the target all_verify_interface_header_sets.
set(CMAKE_VERIFY_INTERFACE_HEADER_SETS ON)

# -ffp-contract=off: if the compiler fused multiplications and additions, results would differ between
# instruction sets. Fused operations are written explicitly.
function(ibid_target_options target)
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${target} PRIVATE ${IBID_WARNINGS} -ffp-contract=off)
  if(IBID_SANITIZE)
    # Without this option, undefined behaviour is only printed and does not fail a test.
    target_compile_options(${target} PUBLIC
      -fsanitize=${IBID_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    if(IBID_SANITIZE MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # Pointers are not checked at each use, because AddressSanitizer reports bad accesses, and gcc takes four times
      # as long to compile these checks as everything else.
      target_compile_options(${target} PUBLIC
        -fno-sanitize=null,alignment,object-size,pointer-overflow,vptr,nonnull-attribute,returns-nonnull-attribute)
    endif()
    target_link_options(${target} PUBLIC -fsanitize=${IBID_SANITIZE})
  endif()
endfunction()

# Precompiles the given headers for all files of the target. Not in a debug build, which detects missing includes.
function(ibid_precompile target)
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_precompile_headers(${target} PRIVATE ${ARGN})
    ibid_precompiled_options(${target})
  endif()
endfunction()

# As ibid_precompile(), with the precompiled headers of the target `from`, which has the same compile options.
function(ibid_reuse_precompiled target from)
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_precompile_headers(${target} REUSE_FROM ${from})
    ibid_precompiled_options(${target})
  endif()
endfunction()

function(ibid_precompiled_options target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)  # without it ccache caches nothing
  endif()
endfunction()

# Compiles the target's files in batches of n, because most of the time is spent on headers that the files have in
# common. So names in a folder's anonymous namespaces must differ. Not in a debug build, which detects missing includes
# and recompiles only changed files.
function(ibid_in_batches target n)
  if(IBID_BATCHES AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${n})
  endif()
endfunction()

function(ibid_library folder)
  cmake_parse_arguments(ARG "" "EXCLUDE" "DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  set(target ibid_${folder})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cc)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS *.h)
  if(ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${ARG_EXCLUDE}")
    list(FILTER headers EXCLUDE REGEX "${ARG_EXCLUDE}")
  endif()
  list(FILTER headers EXCLUDE REGEX "-inl\\.h$")  # parts of other files, not self-contained headers
  add_library(${target} STATIC ${sources})
  add_library(ibid::${folder} ALIAS ${target})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${headers})
  target_link_libraries(${target} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE_DEPENDS})
  ibid_target_options(${target})
  ibid_in_batches(${target} 8)
  set_property(GLOBAL APPEND PROPERTY IBID_LAYERS ${target})
endfunction()

# The instruction sets (values of IBID_FORCE_ISA) that this machine supports, except the best one, which tests use
# anyway.
set(IBID_LESSER_ISAS ref)
if(EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo ibid_cpu_flags REGEX "^flags" LIMIT_COUNT 1)
  set(ibid_isas avx2 avxvnni avx512 amx)
  set(ibid_isa_flags avx2 avx_vnni avx512_vnni amx_int8)
  foreach(isa flag IN ZIP_LISTS ibid_isas ibid_isa_flags)
    if("${ibid_cpu_flags} " MATCHES " ${flag} ")
      list(APPEND IBID_LESSER_ISAS ${isa})
    endif()
  endforeach()
  list(POP_BACK IBID_LESSER_ISAS)
endif()

# Runs a test program in n processes, which ctest spreads over the cores: NAME.1of4 and so on. The processes start
# before single tests, because they run longer. The results of the tests are written to test_results/
# (tests/summarize.py). ONLY <number>: adds only that process.
#   ibid_add_shards(<name> <target> <n> [ONLY <number>] [CONFIGURATIONS ...] [LABELS ...] [ARGUMENTS ...]
#                   [ENVIRONMENT ...])
function(ibid_add_shards name target n_shards)
  cmake_parse_arguments(ARG "" "ONLY" "CONFIGURATIONS;LABELS;ARGUMENTS;ENVIRONMENT" ${ARGN})
  set(numbers RANGE 1 ${n_shards})
  if(ARG_ONLY)
    set(numbers ${ARG_ONLY})
  endif()
  foreach(number ${numbers})
    math(EXPR index "${number} - 1")
    set(shard ${name}.${number}of${n_shards})
    add_test(NAME ${shard} CONFIGURATIONS ${ARG_CONFIGURATIONS} COMMAND ${target} --gtest_brief=1 ${ARG_ARGUMENTS})
    set_tests_properties(${shard} PROPERTIES TIMEOUT 1800 COST 1000 LABELS "${ARG_LABELS}"
      ENVIRONMENT "${ARG_ENVIRONMENT};GTEST_TOTAL_SHARDS=${n_shards};GTEST_SHARD_INDEX=${index};GTEST_OUTPUT=xml:${PROJECT_BINARY_DIR}/test_results/${shard}.xml")
  endforeach()
endfunction()

# Compile options of a test program.
function(ibid_test_options target)
  ibid_target_options(${target})
  target_compile_features(${target} PRIVATE cxx_std_20)
  # -O1 shortens the compilation of tests, which is half of a build's time; tests do not measure speed.
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

function(ibid_test folder)
  cmake_parse_arguments(ARG "ISA;SEPARATE" "SHARDS;FAST;SAMPLED" "SOURCES;ALSO;EXCEPT;DEPENDS" ${ARGN})
  set(target ${folder}_test)
  if(NOT ARG_SOURCES)
    file(GLOB ARG_SOURCES RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS *.cc)
    list(REMOVE_ITEM ARG_SOURCES "" ${ARG_EXCEPT})
  endif()
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  find_package(GTest REQUIRED)
  add_executable(${target} ${ARG_SOURCES} ${ARG_ALSO})
  target_link_libraries(${target} PRIVATE ${ARG_DEPENDS} ibid_test_support GTest::gmock GTest::gtest_main)
  ibid_test_options(${target})
  if(NOT ARG_SEPARATE)
    ibid_in_batches(${target} 4)  # smaller batches, because test files are changed and rebuilt often
  endif()
  ibid_reuse_precompiled(${target} ibid_test_headers)
  if(IBID_SANITIZE)
    # A process runs many tests, because under a sanitizer its start takes longer than most tests.
    ibid_add_shards(${folder}.all ${target} 4)
  else()
    gtest_discover_tests(${target} TEST_PREFIX ${folder}. DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300 LABELS single)
    ibid_add_shards(${folder}.all ${target} ${ARG_SHARDS} CONFIGURATIONS All)
    if(ARG_SAMPLED)
      ibid_add_shards(${folder}.whole ${target} ${ARG_SHARDS} CONFIGURATIONS Whole
        ARGUMENTS --gtest_filter=-${ARG_SAMPLED})
      ibid_add_shards(${folder}.sample ${target} 6 ONLY 1 CONFIGURATIONS Whole ARGUMENTS --gtest_filter=${ARG_SAMPLED})
    else()
      ibid_add_shards(${folder}.whole ${target} ${ARG_SHARDS} CONFIGURATIONS Whole)
    endif()
    if(ARG_FAST)
      math(EXPR n_fast "(${ARG_SHARDS} + 1) / 2")
      ibid_add_shards(${folder}.fast ${target} ${n_fast} CONFIGURATIONS Fast LABELS fast ARGUMENTS --gtest_filter=${ARG_FAST})
      add_dependencies(fast_tests ${target})
    endif()
  endif()
  if(ARG_ISA)
    set(number 0)
    foreach(isa IN LISTS IBID_LESSER_ISAS)
      math(EXPR number "${number} + 1")  # a different sample of the tests for each instruction set
      set(forced ARGUMENTS --gtest_filter=-*RealModel* ENVIRONMENT IBID_FORCE_ISA=${isa})
      ibid_add_shards(${folder}.isa.${isa} ${target} 4 CONFIGURATIONS All ${forced})
      ibid_add_shards(${folder}.isa.${isa}.sample ${target} 8 ONLY ${number} CONFIGURATIONS Whole ${forced})
    endforeach()
  endif()
endfunction()
