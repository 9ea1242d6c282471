# A second build compiles what changed, in other checkouts and other build folders too, where ccache is installed.
# -DCMAKE_CXX_COMPILER_LAUNCHER= goes without.
if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(IBID_CCACHE ccache)
  mark_as_advanced(IBID_CCACHE)
  if(IBID_CCACHE)
    # What ccache wants to be told before it keeps files that use precompiled headers.
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${IBID_CCACHE})
  endif()
endif()
