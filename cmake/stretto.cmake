# What every target of the project is compiled with, and how a room adds itself.

find_package(Threads REQUIRED)

add_library(stretto_options INTERFACE)
target_compile_features(stretto_options INTERFACE cxx_std_20)
target_include_directories(stretto_options INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                     $<INSTALL_INTERFACE:include>)
target_link_libraries(stretto_options INTERFACE Threads::Threads)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
option(STRETTO_NIGHTLY "Build and run all tests, also those that tools/nightly_tests leaves to `make nightly`" OFF)
add_compile_options(-Wall -Wextra -Wno-missing-field-initializers)
# United sources are included by their whole paths: what is installed would name a folder of the machine it was built on.
add_compile_options(-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
if(STRETTO_SANITIZE)
  set(STRETTO_SANITIZED -O1 -g1 -fsanitize=${STRETTO_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # For a change without those that watch every access to memory a second time, and take a third of the time to compile.
  if(STRETTO_SANITIZE MATCHES undefined AND NOT STRETTO_NIGHTLY)
    list(APPEND STRETTO_SANITIZED -fno-sanitize=null,alignment,object-size,vptr)
  endif()
  add_compile_options(${STRETTO_SANITIZED})  # stretto_choose_options() says for which targets not
  add_link_options(-fsanitize=${STRETTO_SANITIZE})
endif()

# Paths below the project are hashed as relative ones, so that another checkout finds the same objects. A precompiled
# header hides macros that a source defines and the time at which it is compiled: no source has either.
# Messages in another language are no other object: Python, which starts the build of a wheel, chooses one where there is none.
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                  CCACHE_SLOPPINESS=pch_defines,time_macros,locale)
  list(APPEND CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# stretto_precompile(TARGET FROM): the headers that most sources of the target include are parsed once, for it or with
# those of another target that is compiled alike (FROM). Each source still includes what it names: it is checked without
# them (tools/checks.py), and -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON builds without them.
function(stretto_precompile target)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)  # others read the headers faster than what GCC writes
    return()
  endif()
  target_precompile_headers(${target} ${ARGN})
  target_compile_options(${target} PRIVATE -fpch-preprocess)  # what ccache needs
endfunction()

set(STRETTO_STANDARD_HEADERS
  <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <functional> <map> <memory> <optional> <span> <sstream>
  <string> <string_view> <utility> <vector>)
set(STRETTO_TORCH_HEADERS
  ${STRETTO_STANDARD_HEADERS} <fstream> <torch/nn/module.h> <torch/nn/modules/container/any.h> <torch/optim/optimizer.h>)

# stretto_unite(TARGET): the sources of a folder are compiled as one, which takes less than half as long: what they use of the
# standard library is read and compiled once. stretto_sources() says which folder a source is of. A source with options of its own
# is compiled by itself.
option(STRETTO_UNITE "Compile the sources of a folder as one; OFF: each by itself" ON)
function(stretto_unite target)
  if(NOT STRETTO_UNITE)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # GCC takes the sources for headers
endfunction()

# stretto_sources(TARGET SOURCE ...): adds sources of this directory, each with its folder. Those of the core that no sanitizer looks
# at for a change are added to stretto_values.
function(stretto_sources target)
  foreach(source ${ARGN})
    cmake_path(ABSOLUTE_PATH source NORMALIZE OUTPUT_VARIABLE folder)
    cmake_path(GET folder PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    set(of ${target})
    if(target STREQUAL stretto_core AND folder MATCHES "^(${STRETTO_VALUES})(/|$)")
      set(of stretto_values)
    endif()
    target_sources(${of} PRIVATE ${source})
    string(MAKE_C_IDENTIFIER ${folder} folder)
    set_source_files_properties(${source} TARGET_DIRECTORY ${of} PROPERTIES UNITY_GROUP ${folder})
  endforeach()
endfunction()

if(BUILD_TESTING)
  find_package(GTest)
  if(NOT GTest_FOUND)  # `make run` installs none
    message(STATUS "GoogleTest is not installed: without tests")
    set(BUILD_TESTING OFF)
  endif()
endif()

# Properties of every program of tests: a hang is a failure; a sanitizer's finding, too. Sanitized, and at night whole, the search
# and the kernels take 20 minutes beside other work.
set(sanitized_seconds 1200)
if(STRETTO_NIGHTLY)
  set(sanitized_seconds 3000)
endif()
set(STRETTO_TEST_PROPERTIES TIMEOUT 600)
if(STRETTO_SANITIZE STREQUAL thread)
  # UCX is not compiled for the sanitizer, which ends where UCX takes the place of the C library's functions for memory. The loader
  # gives its mutexes back when the sanitizer knows them no more, and a fork those that it has taken where the sanitizer did not look.
  file(WRITE ${PROJECT_BINARY_DIR}/tsan_suppressions "mutex:_dl_call_fini\nmutex:__run_prefork_handlers\n")
  foreach(library ucm ucp ucs uct)
    file(APPEND ${PROJECT_BINARY_DIR}/tsan_suppressions "called_from_lib:lib${library}.so\n")
  endforeach()
  set(tsan_options halt_on_error=1:second_deadlock_stack=1:die_after_fork=0:atexit_sleep_ms=0)
  set(STRETTO_TEST_PROPERTIES TIMEOUT ${sanitized_seconds} ENVIRONMENT
      TSAN_OPTIONS=${tsan_options}:suppressions=${PROJECT_BINARY_DIR}/tsan_suppressions)
elseif(STRETTO_SANITIZE)
  # LibTorch's pool of threads is not forked along; what it held is lost in the child.
  file(WRITE ${PROJECT_BINARY_DIR}/lsan_suppressions "leak:caffe2::pthreadpool\n")
  set(STRETTO_TEST_PROPERTIES TIMEOUT ${sanitized_seconds} ENVIRONMENT
      ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
      ENVIRONMENT_MODIFICATION LSAN_OPTIONS=set:print_suppressions=0:suppressions=${PROJECT_BINARY_DIR}/lsan_suppressions)
endif()

# Which tests a change runs, and which wait for `make nightly` (STRETTO_NIGHTLY): tools/nightly_tests has those that wait, by program,
# by source, by name. Of the thread sanitizer only those are that have threads or processes (tools/threaded_tests). Folders of
# which both sanitizers wait for the night (STRETTO_VALUES) make a target of their own, stretto_values, in all builds: until
# then the sanitized ones compile it as it is released, and the compiler cache has it.
set(STRETTO_STAGE release)
if(STRETTO_SANITIZE STREQUAL thread)
  set(STRETTO_STAGE tsan)
elseif(STRETTO_SANITIZE)
  set(STRETTO_STAGE asan)
endif()
set(STRETTO_WAITING)
set(STRETTO_VALUES)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS tools/nightly_tests)
file(STRINGS ${PROJECT_SOURCE_DIR}/tools/nightly_tests lines REGEX "^[a-z]")
foreach(line IN LISTS lines)
  string(REGEX MATCH "^([a-z,]+) +([^ ]+) " line ${line})
  string(REPLACE "," ";" stages ${CMAKE_MATCH_1})
  set(pattern ${CMAKE_MATCH_2})
  if(pattern MATCHES "(.*)/$")
    list(APPEND STRETTO_VALUES ${CMAKE_MATCH_1})
    string(APPEND pattern "*.cc")
  endif()
  if(BUILD_TESTING AND STRETTO_STAGE IN_LIST stages AND NOT STRETTO_NIGHTLY)
    list(APPEND STRETTO_WAITING ${pattern})
  endif()
endforeach()
list(JOIN STRETTO_VALUES "|" STRETTO_VALUES)
if(BUILD_TESTING AND STRETTO_STAGE STREQUAL tsan AND NOT STRETTO_NIGHTLY)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  file(GLOB_RECURSE tests CONFIGURE_DEPENDS stretto/*_test.cc)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS tools/threaded_tests ${tests})
  execute_process(COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/tools/threaded_tests
                  OUTPUT_VARIABLE STRETTO_THREADED COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "\n" ";" STRETTO_THREADED ${STRETTO_THREADED})
endif()

# stretto_running(VARIABLE SOURCE ...): those of the sources of this directory that a program of tests is made of here; none where
# no test is left.
function(stretto_running variable)
  set(kept ${ARGN})
  foreach(source ${ARGN})
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE path)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    set(waits ${STRETTO_WAITING})
    list(FILTER waits INCLUDE REGEX "[.]cc$")
    foreach(pattern IN LISTS waits)
      string(REPLACE "." "[.]" pattern ${pattern})
      string(REPLACE "*" ".*" pattern ${pattern})
      if(path MATCHES "^${pattern}$")
        list(REMOVE_ITEM kept ${source})
      endif()
    endforeach()
    if(DEFINED STRETTO_THREADED AND path MATCHES "_test[.]cc$" AND NOT path IN_LIST STRETTO_THREADED)
      list(REMOVE_ITEM kept ${source})
    endif()
  endforeach()
  if(NOT kept MATCHES "_test[.]cc")
    set(kept)
  endif()
  set(${variable} ${kept} PARENT_SCOPE)
endfunction()

# stretto_add_tests(TARGET [PROPERTY VALUE ...]): a program is one test to CTest, or a few, for to start it takes as long as most of
# its tests. tools/run_tests says how each of them ended.
function(stretto_add_tests target)
  set(filter ${STRETTO_WAITING})
  list(FILTER filter INCLUDE REGEX "^[A-Z*][^:]*$")
  if(filter)
    list(JOIN filter ":" filter)
    set(filter "--gtest_filter=-${filter}")
  endif()
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources parts)
  math(EXPR parts "(${parts} + 9) / 10")
  math(EXPR last "${parts} - 1")
  foreach(part RANGE ${last})
    set(name ${target})
    set(sharded)
    if(parts GREATER 1)
      set(name ${target}.${part})
      set(sharded ${CMAKE_COMMAND} -E env GTEST_TOTAL_SHARDS=${parts} GTEST_SHARD_INDEX=${part})
    endif()
    add_test(NAME ${name} COMMAND ${sharded} $<TARGET_FILE:${target}> ${filter})
    set_tests_properties(${name} PROPERTIES ${STRETTO_TEST_PROPERTIES} ${ARGN})
  endforeach()
endfunction()

# stretto_precompile_tests(TARGET): gtest and the headers above, parsed once for the tests of all rooms, by the first.
set(STRETTO_FIRST_TESTS base_test)
function(stretto_precompile_tests target)
  if(target STREQUAL STRETTO_FIRST_TESTS)
    stretto_precompile(${target} PRIVATE ${STRETTO_STANDARD_HEADERS} <gmock/gmock.h> <gtest/gtest.h>)
  else()
    stretto_precompile(${target} REUSE_FROM ${STRETTO_FIRST_TESTS})
  endif()
endfunction()

# stretto_test_program(TARGET LIBRARY SOURCE ...): a program of tests of a library that is without Torch.
function(stretto_test_program target library)
  stretto_running(sources ${ARGN})
  if(NOT sources OR target IN_LIST STRETTO_WAITING)
    return()
  endif()
  add_executable(${target})
  stretto_sources(${target} ${sources})
  stretto_unite(${target})
  target_link_libraries(${target} PRIVATE ${library} GTest::gmock GTest::gtest_main)
  stretto_precompile_tests(${target})
  stretto_add_tests(${target})
  if(STRETTO_STAGE STREQUAL asan AND NOT STRETTO_NIGHTLY)  # before the tests, whose inline functions are not sanitized
    target_link_options(${target} PRIVATE LINKER:--whole-archive,$<TARGET_FILE:${library}>,--no-whole-archive)
  endif()
endfunction()

# stretto_room(NAME [SOURCES ...] [TESTS ...]): sources go into stretto::core, tests into one program a room.
function(stretto_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;TESTS" ${ARGN})
  if(ROOM_SOURCES)
    stretto_sources(stretto_core ${ROOM_SOURCES})
  endif()
  if(BUILD_TESTING AND ROOM_TESTS)
    stretto_test_program(${name}_test stretto_core ${ROOM_TESTS})
  endif()
endfunction()

# stretto_choose_options(): to be called last. All *_test programs spend their compile time in inlined assertions, and are optimized
# little. Of the targets of a sanitized build these are compiled as they are released: values; under the address sanitizer the
# program and the tests, too, whose memory is the library's to look at.
function(stretto_choose_options)
  set(as_released)
  if(STRETTO_SANITIZE AND NOT STRETTO_NIGHTLY)
    set(as_released "^(stretto_values)$")
    if(STRETTO_STAGE STREQUAL asan)
      set(as_released "^(stretto_values|stretto_(command|timed)|stretto|.*_test)$")
    endif()
  endif()
  set(folders ${PROJECT_SOURCE_DIR})
  while(folders)
    list(POP_FRONT folders folder)
    get_property(subfolders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    list(APPEND folders ${subfolders})
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target ${targets})
      if(as_released AND target MATCHES "${as_released}")
        get_target_property(options ${target} COMPILE_OPTIONS)
        list(REMOVE_ITEM options ${STRETTO_SANITIZED})
        set_target_properties(${target} PROPERTIES COMPILE_OPTIONS "${options}")
      endif()
      if(target MATCHES "_test$" AND CMAKE_BUILD_TYPE STREQUAL Release)
        target_compile_options(${target} PRIVATE -O1)
        if(STRETTO_SANITIZE MATCHES undefined AND STRETTO_NIGHTLY)  # checks in assertions compile half as long again
          target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
        endif()
      endif()
    endforeach()
  endwhile()
endfunction()
