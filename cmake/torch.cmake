# Finds LibTorch for the parts that train and offers it as the target stretto_libtorch.
#
# STRETTO_TORCH_DIR names one: the folder of an installed `torch` package, or an unpacked LibTorch. Without it, these are
# tried in order: -DTorch_DIR and -DCMAKE_PREFIX_PATH, what the Python of the project's `.venv` sees, what python3 sees,
# the system's places. The wheel of PyTorch brings its own copies of fmt's and protobuf's headers, and they come first in
# the include path of whatever links this target: sources that do must not include fmt, spdlog or protobuf.

set(STRETTO_TORCH_DIR "" CACHE PATH "Folder of the LibTorch to build with; empty: one is looked for")
set(STRETTO_TORCH_OLDEST 2.11)

# The wheel's own configuration warns of a profiling library that the wheel does not have.
set(CMAKE_MESSAGE_LOG_LEVEL ERROR)
if(STRETTO_TORCH_DIR)
  find_package(Torch ${STRETTO_TORCH_OLDEST} QUIET PATHS ${STRETTO_TORCH_DIR} NO_DEFAULT_PATH)
else()
  foreach(python ${PROJECT_SOURCE_DIR}/.venv/bin/python python3)
    # Does not import torch: a twentieth of a second instead of three.
    execute_process(
      COMMAND ${python} -c
              "from importlib.util import find_spec; print(find_spec('torch').submodule_search_locations[0])"
      OUTPUT_VARIABLE stretto_torch_of_python
      OUTPUT_STRIP_TRAILING_WHITESPACE
      ERROR_QUIET)
    list(APPEND stretto_torch_hints ${stretto_torch_of_python})
  endforeach()
  find_package(Torch ${STRETTO_TORCH_OLDEST} QUIET HINTS ${stretto_torch_hints})
endif()
unset(CMAKE_MESSAGE_LOG_LEVEL)

if(NOT Torch_FOUND)
  set(stretto_torch_seen "")
  if(Torch_CONSIDERED_VERSIONS)
    list(JOIN Torch_CONSIDERED_VERSIONS ", " stretto_torch_seen)
    string(PREPEND stretto_torch_seen ", only ")
  endif()
  message(FATAL_ERROR
    "LibTorch ${STRETTO_TORCH_OLDEST} or newer was not found${stretto_torch_seen}. `make run` and `make test` set it up "
    "in ${PROJECT_SOURCE_DIR}/.venv, `make setup` does only that. An existing one is taken from -DSTRETTO_TORCH_DIR=…, "
    "the folder of its `torch` package. Without the parts that train: -DSTRETTO_TORCH=OFF")
endif()
message(STATUS "LibTorch ${Torch_VERSION}: ${TORCH_INSTALL_PREFIX}")

# Programs find libtorch where it was found now: in the build tree by CMake's own doing, installed by this.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

add_library(stretto_libtorch INTERFACE)
target_link_libraries(stretto_libtorch INTERFACE ${TORCH_LIBRARIES})
