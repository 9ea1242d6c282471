# The library that users link: ibid::ibid, static (the default) or shared, which exports only the names of include/ibid.
# Programs find the library by find_package(ibid), find_package(ibid COMPONENTS shared), pkg-config, or add_subdirectory.
include(CMakePackageConfigHelpers)

option(IBID_SHARED "ibid::ibid of add_subdirectory is the shared library" OFF)

get_property(ibid_layers GLOBAL PROPERTY IBID_LAYERS)
set(ibid_objects)
foreach(layer IN LISTS ibid_layers)
  list(APPEND ibid_objects $<TARGET_OBJECTS:${layer}>)
endforeach()

function(ibid_public_library target type)
  add_library(${target} ${type} ${ibid_objects})
  add_library(ibid::${target} ALIAS ${target})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ibid LINKER_LANGUAGE CXX)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  target_link_libraries(${target} PRIVATE OpenSSL::SSL OpenSSL::Crypto Threads::Threads xxhash ${CMAKE_DL_LIBS})
  if(IBID_SANITIZE)
    target_link_options(${target} PUBLIC -fsanitize=${IBID_SANITIZE})
  endif()
  install(TARGETS ${target} EXPORT ${target}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT ${target} NAMESPACE ibid:: FILE ${target}.cmake DESTINATION ${ibid_package_dir})
endfunction()

find_package(OpenSSL REQUIRED COMPONENTS Crypto SSL)
find_package(Threads REQUIRED)
set(ibid_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ibid)
ibid_public_library(ibid_static STATIC)
ibid_public_library(ibid_shared SHARED)

# Before version 1.0 a minor version may change the ABI, so SOVERSION contains the minor version.
set(ibid_version_script ${PROJECT_BINARY_DIR}/ibid.map)
configure_file(${PROJECT_SOURCE_DIR}/cmake/ibid.map.in ${ibid_version_script} @ONLY)
set_target_properties(ibid_shared PROPERTIES VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} LINK_DEPENDS ${ibid_version_script})
target_link_options(ibid_shared PRIVATE -Wl,--version-script=${ibid_version_script})
if(NOT IBID_SANITIZE)
  target_link_options(ibid_shared PRIVATE -Wl,--no-undefined)
endif()

if(IBID_SHARED)
  add_library(ibid::ibid ALIAS ibid_shared)
else()
  add_library(ibid::ibid ALIAS ibid_static)
endif()

configure_package_config_file(cmake/ibidConfig.cmake.in ${PROJECT_BINARY_DIR}/ibidConfig.cmake
  INSTALL_DESTINATION ${ibid_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ibidConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ibidConfig.cmake ${PROJECT_BINARY_DIR}/ibidConfigVersion.cmake
  DESTINATION ${ibid_package_dir})
file(RELATIVE_PATH ibid_pc_to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file(cmake/ibid.pc.in ${PROJECT_BINARY_DIR}/ibid.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ibid.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The last rules of the install script: the list of installed files, and the script that removes them.
file(RELATIVE_PATH ibid_prefix_of_package "/${ibid_package_dir}" "/")
configure_file(cmake/uninstall.cmake.in ${PROJECT_BINARY_DIR}/uninstall.cmake @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/uninstall.cmake DESTINATION ${ibid_package_dir})
install(CODE "
set(names)
foreach(path IN LISTS CMAKE_INSTALL_MANIFEST_FILES)
  file(RELATIVE_PATH name \"\${CMAKE_INSTALL_PREFIX}\" \"\${path}\")
  string(APPEND names \"\${name}\\n\")
endforeach()
file(WRITE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${ibid_package_dir}/installed_files.txt\" \"\${names}\")")
