# What `cmake --install` puts below the prefix: headers, libraries, and what find_package(stretto) reads. Programs and
# modules are installed where they are built.

include(CMakePackageConfigHelpers)

set(STRETTO_CMAKE_DIR lib/cmake/stretto)

set_target_properties(stretto_core PROPERTIES EXPORT_NAME core)
# A program that links the library finds the modules for MPI there, wherever the prefix lies.
target_link_options(stretto_core INTERFACE $<INSTALL_INTERFACE:-Wl,-rpath,$<INSTALL_PREFIX>/lib>)
install(TARGETS stretto_core stretto_options EXPORT stretto-core ARCHIVE DESTINATION lib)
install(EXPORT stretto-core NAMESPACE stretto:: FILE stretto-core.cmake DESTINATION ${STRETTO_CMAKE_DIR})

if(TARGET stretto_torch)
  set_target_properties(stretto_torch PROPERTIES EXPORT_NAME torch)
  install(TARGETS stretto_torch EXPORT stretto-torch ARCHIVE DESTINATION lib)
  install(EXPORT stretto-torch NAMESPACE stretto:: FILE stretto-torch.cmake DESTINATION ${STRETTO_CMAKE_DIR})
  install(FILES cmake/torch.cmake DESTINATION ${STRETTO_CMAKE_DIR})
endif()

if(TARGET stretto_training)
  set_target_properties(stretto_training PROPERTIES EXPORT_NAME command)
  install(TARGETS stretto_training stretto_command stretto_workload_task stretto_workloads stretto_data
          EXPORT stretto-command ARCHIVE DESTINATION lib)
  install(EXPORT stretto-command NAMESPACE stretto:: FILE stretto-command.cmake DESTINATION ${STRETTO_CMAKE_DIR})
endif()

# What a program includes, and what the installation promises; install_headers.cmake adds what these need.
set(STRETTO_API
  stretto/base/error.h
  stretto/collective/partial_allreduce.h
  stretto/collective/plain.h
  stretto/collective/base/scheduled_collective.h
  stretto/engine/driver.h
  stretto/membership/job.h
  stretto/ordering/ordered_allreduce.h
  stretto/schedule/builder.h
  stretto/schedule/print.h
  stretto/schedule/validate.h)
if(TARGET stretto_torch)
  list(APPEND STRETTO_API
    stretto/papers/register.h
    stretto/stretto.h
    stretto/train/distributed_optimizer.h
    stretto/train/profile.h
    stretto/train/run_ranks.h)
endif()
if(TARGET stretto_training)
  list(APPEND STRETTO_API stretto/command.h)
endif()
install(CODE "set(STRETTO_SOURCE \"${PROJECT_SOURCE_DIR}\")\nset(STRETTO_API \"${STRETTO_API}\")")
install(SCRIPT cmake/install_headers.cmake)

set(STRETTO_TORCH_HINT "${stretto_torch_dir}")
if(STRETTO_PACKAGE)  # for another machine
  set(STRETTO_TORCH_HINT "")
endif()
configure_package_config_file(cmake/stretto-config.cmake.in ${PROJECT_BINARY_DIR}/stretto-config.cmake
                              INSTALL_DESTINATION ${STRETTO_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/stretto-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/stretto-config.cmake ${PROJECT_BINARY_DIR}/stretto-config-version.cmake
        DESTINATION ${STRETTO_CMAKE_DIR})
