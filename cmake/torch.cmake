# Finds LibTorch for the parts that train and offers it as the target stretto_libtorch.
#
# Looked for in this order: -DTorch_DIR or -DCMAKE_PREFIX_PATH, the project's own `.venv`, the system's places, and the
# python3 on PATH. The wheel of PyTorch brings its own copies of fmt's and protobuf's headers, and they come first in the
# include path of whatever links this target: sources that do must not include fmt, spdlog or protobuf.

set(STRETTO_TORCH_OLDEST 2.11)

# The wheel's own configuration warns of a profiling library that the wheel does not have.
set(CMAKE_MESSAGE_LOG_LEVEL ERROR)
file(GLOB stretto_torch_hints ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
find_package(Torch ${STRETTO_TORCH_OLDEST} QUIET HINTS ${stretto_torch_hints})

if(NOT Torch_FOUND)
  find_program(STRETTO_PYTHON python3)
  if(STRETTO_PYTHON)
    # find_spec and not import: half a second instead of three.
    execute_process(
      COMMAND ${STRETTO_PYTHON} -c
              "from importlib.util import find_spec; print(find_spec('torch').submodule_search_locations[0])"
      OUTPUT_VARIABLE stretto_torch_of_python
      OUTPUT_STRIP_TRAILING_WHITESPACE
      ERROR_QUIET)
    if(stretto_torch_of_python)
      find_package(Torch ${STRETTO_TORCH_OLDEST} QUIET PATHS ${stretto_torch_of_python} NO_DEFAULT_PATH)
    endif()
  endif()
endif()

unset(CMAKE_MESSAGE_LOG_LEVEL)

if(NOT Torch_FOUND)
  set(stretto_torch_seen "")
  if(Torch_CONSIDERED_CONFIGS)
    set(stretto_torch_seen " (found, but of no use: ${Torch_CONSIDERED_CONFIGS}, version ${Torch_CONSIDERED_VERSIONS})")
  endif()
  message(FATAL_ERROR
    "LibTorch ${STRETTO_TORCH_OLDEST} or newer was not found${stretto_torch_seen}. `make build` sets it up in "
    "${PROJECT_SOURCE_DIR}/.venv; or point to an existing one with -DCMAKE_PREFIX_PATH=$(python3 -c 'import torch; "
    "print(torch.utils.cmake_prefix_path)'); or build without the parts that train: -DSTRETTO_TORCH=OFF")
endif()
message(STATUS "LibTorch ${Torch_VERSION}: ${TORCH_INSTALL_PREFIX}")

# Programs find libtorch where it was found now: in the build tree by CMake's own doing, installed by this.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

add_library(stretto_libtorch INTERFACE)
target_link_libraries(stretto_libtorch INTERFACE ${TORCH_LIBRARIES})
