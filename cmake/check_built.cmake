# First part of the install script: fails if one of ibid_built is missing, so that an incomplete build installs
# nothing.
foreach(file IN LISTS ibid_built)
  if(NOT EXISTS "${file}")
    message(FATAL_ERROR "ibid is not built as a whole (${file} is missing): ./run build, or cmake --build, builds all that is installed")
  endif()
endforeach()
