# What `cmake --install` puts below the prefix: headers, libraries, programs, and what find_package(stretto) reads.

include(CMakePackageConfigHelpers)

set(STRETTO_CMAKE_DIR lib/cmake/stretto)

set_target_properties(stretto_core PROPERTIES EXPORT_NAME core)
install(TARGETS stretto_core stretto_options EXPORT stretto-core ARCHIVE DESTINATION lib)
install(EXPORT stretto-core NAMESPACE stretto:: FILE stretto-core.cmake DESTINATION ${STRETTO_CMAKE_DIR})

file(GLOB rooms LIST_DIRECTORIES true RELATIVE ${PROJECT_SOURCE_DIR}/stretto ${PROJECT_SOURCE_DIR}/stretto/*)
foreach(room ${rooms})
  file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/stretto/${room}/*.h)
  install(FILES ${headers} DESTINATION include/stretto/${room})
endforeach()

install(FILES ${PROJECT_SOURCE_DIR}/stretto/stretto.h DESTINATION include/stretto)

if(TARGET stretto_torch)
  set_target_properties(stretto_torch PROPERTIES EXPORT_NAME torch)
  install(TARGETS stretto_torch EXPORT stretto-torch ARCHIVE DESTINATION lib)
  install(EXPORT stretto-torch NAMESPACE stretto:: FILE stretto-torch.cmake DESTINATION ${STRETTO_CMAKE_DIR})
endif()

configure_package_config_file(cmake/stretto-config.cmake.in ${PROJECT_BINARY_DIR}/stretto-config.cmake
                              INSTALL_DESTINATION ${STRETTO_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/stretto-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/stretto-config.cmake ${PROJECT_BINARY_DIR}/stretto-config-version.cmake
        DESTINATION ${STRETTO_CMAKE_DIR})
