# The installed package: find_package(ibid), then link ibid::ibid (all of it) or one layer (ibid::cache).
include(CMakePackageConfigHelpers)

get_property(ibid_layers GLOBAL PROPERTY IBID_LAYERS)
add_library(ibid_all INTERFACE)
add_library(ibid::ibid ALIAS ibid_all)
set_target_properties(ibid_all PROPERTIES EXPORT_NAME ibid)
target_link_libraries(ibid_all INTERFACE ${ibid_layers})
install(TARGETS ibid_all EXPORT ibidTargets)

get_property(IBID_FIND_DEPENDENCIES GLOBAL PROPERTY IBID_DEPENDENCIES)
list(REMOVE_DUPLICATES IBID_FIND_DEPENDENCIES)
list(JOIN IBID_FIND_DEPENDENCIES "\n" IBID_FIND_DEPENDENCIES)
set(ibid_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ibid)
configure_package_config_file(cmake/ibidConfig.cmake.in ${PROJECT_BINARY_DIR}/ibidConfig.cmake
  INSTALL_DESTINATION ${ibid_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ibidConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ibidConfig.cmake ${PROJECT_BINARY_DIR}/ibidConfigVersion.cmake
  DESTINATION ${ibid_package_dir})
install(EXPORT ibidTargets NAMESPACE ibid:: DESTINATION ${ibid_package_dir})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
