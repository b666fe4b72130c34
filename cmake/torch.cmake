# Finds the LibTorch that a PyTorch wheel brings and offers it as the target stretto_libtorch. Also read by
# find_package(stretto), which sets STRETTO_TORCH_OPTIONAL: then a missing one leaves only the target away.
#
# Looked for in the project's own `.venv` (tools/setup makes it), then where python3 finds `torch`; another one is named
# by -DSTRETTO_TORCH_DIR: the folder of an installed package `torch`, or an unpacked LibTorch. The wheel's own
# TorchConfig.cmake is not used: that of a wheel with CUDA, which is what a plain `pip install torch` brings, wants a CUDA
# toolkit on the machine, even to use the CPU alone.
#
# The wheel brings its own copies of fmt's and protobuf's headers, and they come first in the include path of whatever
# links this target: sources that do must not include fmt, spdlog or protobuf.

set(STRETTO_TORCH_OLDEST 2.11)
if(NOT DEFINED STRETTO_TORCH_DIR)  # before policy CMP0126 a cache entry would take the place of the variable
  set(STRETTO_TORCH_DIR "" CACHE PATH "Folder of the LibTorch to build with; empty: one is looked for")
endif()

set(stretto_torch_dir ${STRETTO_TORCH_DIR})
foreach(python ${PROJECT_SOURCE_DIR}/.venv/bin/python python3)
  if(NOT stretto_torch_dir)
    # find_spec and not import: half a second instead of three.
    execute_process(
      COMMAND ${python} -c "from importlib.util import find_spec; print(find_spec('torch').submodule_search_locations[0])"
      OUTPUT_VARIABLE stretto_torch_dir
      OUTPUT_STRIP_TRAILING_WHITESPACE
      ERROR_QUIET)
  endif()
endforeach()

set(stretto_torch_version 0)
foreach(file build-version version.py)  # of LibTorch, of the wheel
  if(EXISTS ${stretto_torch_dir}/${file})
    file(STRINGS ${stretto_torch_dir}/${file} stretto_torch_version REGEX "^__version__ = |^[0-9]" LIMIT_COUNT 1)
  endif()
endforeach()
if(stretto_torch_version)
  string(REGEX REPLACE "^[^0-9]*([0-9.]*[0-9]).*$" "\\1" stretto_torch_version "${stretto_torch_version}")
endif()

if(stretto_torch_version VERSION_GREATER_EQUAL STRETTO_TORCH_OLDEST)
  # Programs find libtorch where it was found now: in the build tree by CMake's own doing, installed by this.
  set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

  add_library(stretto_libtorch INTERFACE)
  target_include_directories(stretto_libtorch SYSTEM INTERFACE
    ${stretto_torch_dir}/include ${stretto_torch_dir}/include/torch/csrc/api/include)
  target_link_libraries(stretto_libtorch INTERFACE
    ${stretto_torch_dir}/lib/libtorch_cpu.so ${stretto_torch_dir}/lib/libc10.so)
  message(STATUS "LibTorch ${stretto_torch_version}: ${stretto_torch_dir}")
elseif(NOT STRETTO_TORCH_OPTIONAL)
  message(FATAL_ERROR
    "LibTorch ${STRETTO_TORCH_OLDEST} or newer was not found (seen: '${stretto_torch_dir}', version "
    "${stretto_torch_version}). `make run` and `make test` set it up in ${PROJECT_SOURCE_DIR}/.venv, `make setup` does only "
    "that. An existing one is taken from -DSTRETTO_TORCH_DIR=…, the folder of its `torch` package. Without the parts that "
    "train: -DSTRETTO_TORCH=OFF")
endif()
