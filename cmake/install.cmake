# What `cmake --install` puts below the prefix: headers, libraries, and what find_package(stretto) reads. Programs and
# modules are installed where they are built.

include(CMakePackageConfigHelpers)

set(STRETTO_CMAKE_DIR lib/cmake/stretto)

set_target_properties(stretto_core PROPERTIES EXPORT_NAME core)
install(TARGETS stretto_core stretto_options EXPORT stretto-core ARCHIVE DESTINATION lib)
install(EXPORT stretto-core NAMESPACE stretto:: FILE stretto-core.cmake DESTINATION ${STRETTO_CMAKE_DIR})
get_target_property(installed_sources stretto_core SOURCES)

install(FILES ${PROJECT_SOURCE_DIR}/stretto/stretto.h DESTINATION include/stretto)

if(TARGET stretto_torch)
  set_target_properties(stretto_torch PROPERTIES EXPORT_NAME torch)
  install(TARGETS stretto_torch EXPORT stretto-torch ARCHIVE DESTINATION lib)
  install(EXPORT stretto-torch NAMESPACE stretto:: FILE stretto-torch.cmake DESTINATION ${STRETTO_CMAKE_DIR})
  install(FILES cmake/torch.cmake DESTINATION ${STRETTO_CMAKE_DIR})
  get_target_property(torch_sources stretto_torch SOURCES)
  list(APPEND installed_sources ${torch_sources})
endif()

# The headers of all rooms, but those whose source is in none of the libraries: helpers of tests, or without LibTorch.
list(TRANSFORM installed_sources REPLACE ".*/" "")
file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} stretto/*.h stretto/*/*.h)
if(NOT TARGET stretto_torch)
  list(REMOVE_ITEM headers stretto/stretto.h)  # includes what only stretto::torch has
endif()
foreach(header ${headers})
  cmake_path(GET header PARENT_PATH folder)
  cmake_path(REPLACE_EXTENSION header LAST_ONLY .cc OUTPUT_VARIABLE source)
  cmake_path(GET source FILENAME name)
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${source} OR name IN_LIST installed_sources)
    install(FILES ${header} DESTINATION include/${folder})
  endif()
endforeach()

configure_package_config_file(cmake/stretto-config.cmake.in ${PROJECT_BINARY_DIR}/stretto-config.cmake
                              INSTALL_DESTINATION ${STRETTO_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/stretto-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/stretto-config.cmake ${PROJECT_BINARY_DIR}/stretto-config-version.cmake
        DESTINATION ${STRETTO_CMAKE_DIR})
