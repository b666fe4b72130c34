# What `make package` adds: all of an installation that a Debian 12 machine without compiler or PyTorch lacks, and CPack.
# Included with -DSTRETTO_PACKAGE=ON.
#
# LibTorch and fmt lie in lib/stretto, where the two programs look for them beside themselves: the archive runs wherever
# it is unpacked. What the package does not bring along is on every Debian 12.

set(STRETTO_BUNDLE lib/stretto)
set_target_properties(stretto PROPERTIES INSTALL_RPATH "$ORIGIN/../${STRETTO_BUNDLE}" INSTALL_RPATH_USE_LINK_PATH OFF)
set_target_properties(stretto-train PROPERTIES INSTALL_RPATH "$ORIGIN/../../${STRETTO_BUNDLE};$ORIGIN/../../lib"
                                               INSTALL_RPATH_USE_LINK_PATH OFF)

install(CODE "
  file(GET_RUNTIME_DEPENDENCIES
    EXECUTABLES \"$<TARGET_FILE:stretto>\" \"$<TARGET_FILE:stretto-train>\"
    RESOLVED_DEPENDENCIES_VAR libraries
    PRE_INCLUDE_REGEXES \"^lib(torch|c10|gomp|fmt)\"
    PRE_EXCLUDE_REGEXES .)
  foreach(library IN LISTS libraries)
    file(INSTALL \"\${library}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${STRETTO_BUNDLE}\" FOLLOW_SYMLINK_CHAIN)
  endforeach()")

install(FILES LICENSE DESTINATION share/doc/stretto RENAME copyright)
file(GLOB stretto_torch_licences ${stretto_torch_dir}/../torch-*.dist-info/licenses)
if(NOT stretto_torch_licences)
  message(FATAL_ERROR "the licences of LibTorch were not found beside ${stretto_torch_dir}: they go into the package")
endif()
install(DIRECTORY ${stretto_torch_licences}/ DESTINATION share/doc/stretto/libtorch)
install(FILES /usr/share/doc/libfmt-dev/copyright DESTINATION share/doc/stretto/fmt)

set(CPACK_GENERATOR TZST DEB)
set(CPACK_PACKAGE_NAME stretto)
set(CPACK_PACKAGE_VENDOR Stretto)
set(CPACK_SYSTEM_NAME linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PACKAGE_CONTACT "the authors of Stretto <stretto@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "distributed training that does not wait for its slowest worker")
set(CPACK_PACKAGE_DESCRIPTION
  "A program that trains on several ranks with and without waiting, and shows what waiting costs; the C++20 library
 behind it; and the LibTorch that both were built with.")
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# Not found by dpkg-shlibdeps, which would make all of Open MPI a need: the module for it is loaded under mpirun alone.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.36), libstdc++6 (>= 12), libgcc-s1, zlib1g")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "openmpi-bin, python3-matplotlib")
include(CPack)
