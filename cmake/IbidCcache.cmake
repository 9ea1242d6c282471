# Uses ccache if it is installed: later builds compile only changed files, also in other checkouts and build folders.
# -DCMAKE_CXX_COMPILER_LAUNCHER= builds without it.
if(PROJECT_IS_TOP_LEVEL)
  # Objects contain paths relative to the tree, so they are the same in every checkout and do not expose local paths.
  add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
endif()
if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(IBID_CCACHE ccache)
  mark_as_advanced(IBID_CCACHE)
  if(IBID_CCACHE)
    # Without pch_defines and time_macros, ccache caches no file that uses a precompiled header. With BASEDIR and
    # NOHASHDIR it compares relative paths.
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${IBID_CCACHE})
  endif()
endif()
