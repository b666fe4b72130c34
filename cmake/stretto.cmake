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
add_compile_options(-Wall -Wextra -Wno-missing-field-initializers)
if(STRETTO_SANITIZE)
  add_compile_options(-fsanitize=${STRETTO_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${STRETTO_SANITIZE})
endif()

# Paths below the project are hashed as relative ones, so that another checkout finds the same objects. A precompiled
# header hides macros that a source defines and the time at which it is compiled: no source has either.
# Messages in another language are no other object: Python, which starts the build of a wheel, chooses one where there is none.
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                  CCACHE_SLOPPINESS=pch_defines,time_macros,locale)
  if(STRETTO_DEFECTS)  # most sources read nothing of it: what comes out of the preprocessor is the release's, and decides
    list(APPEND CMAKE_CXX_COMPILER_LAUNCHER CCACHE_NODIRECT=1 CCACHE_IGNOREOPTIONS=-DSTRETTO_DEFECTS)
  endif()
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

# stretto_unite(TARGET [APART SOURCE ...]): where it is sanitized, the sources of a folder are compiled as one, which takes little
# more than half as long: what they use of the standard library is compiled once. Not those that name something of their own
# as a neighbour in their folder does. stretto_sources() says which folder a source is of.
function(stretto_unite target)
  cmake_parse_arguments(UNITE "" "" "APART" ${ARGN})
  if(NOT STRETTO_SANITIZE)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # GCC takes the sources for headers
  list(TRANSFORM UNITE_APART PREPEND ${PROJECT_SOURCE_DIR}/)
  set_source_files_properties(${UNITE_APART} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# stretto_sources(TARGET SOURCE ...): adds sources of this directory, each with its folder.
function(stretto_sources target)
  target_sources(${target} PRIVATE ${ARGN})
  foreach(source ${ARGN})
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE folder)
    cmake_path(GET folder PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    string(MAKE_C_IDENTIFIER ${folder} folder)
    set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${folder})
  endforeach()
endfunction()

if(BUILD_TESTING)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

# Properties of every test: a hang is a failure; a sanitizer's finding, too.
set(STRETTO_TEST_PROPERTIES TIMEOUT 120)
if(STRETTO_SANITIZE STREQUAL thread)
  set(STRETTO_TEST_PROPERTIES TIMEOUT 1200 ENVIRONMENT
      TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:die_after_fork=0:atexit_sleep_ms=0)
elseif(STRETTO_SANITIZE)
  # LibTorch's pool of threads is not forked along; what it held is lost in the child.
  file(WRITE ${PROJECT_BINARY_DIR}/lsan_suppressions "leak:caffe2::pthreadpool\n")
  set(STRETTO_TEST_PROPERTIES TIMEOUT 1200 ENVIRONMENT
      ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
      ENVIRONMENT_MODIFICATION LSAN_OPTIONS=set:print_suppressions=0:suppressions=${PROJECT_BINARY_DIR}/lsan_suppressions)
endif()

# The thread sanitizer runs the rooms in which threads or processes meet; the others have one thread, and release and
# the address sanitizer for it.
set(STRETTO_THREADED_ROOMS base transport board engine collective simulate membership dispenser ordering train)

# What the sanitizers leave out, unless STRETTO_SANITIZE_LONG (`make sanitize-long`): searches by seed in one thread, jobs of
# processes that are killed, counts of memory, predictions of many settings, and the many of a kind whose first few walk the
# same lines.
string(CONCAT STRETTO_LONG_WHERE_SANITIZED
  "*Search.*:MixingGraph.*:Groups.PartitionTheRanksEvenly:SimulatedRunTest.ManyRanks*:*.ManyOrdersOfEventsAgree/*:"
  "*AKilledProcess*:Run/LostRank.*:JoinedSession.EveryRankHearsOfOneThatIsKilled*:"
  "ShapesOverANetwork.AreAsFastAsTheAlgorithms:SimulatedChoice.EachForSomeRanksRunsAndIsThereOnce:"
  "CollectivesMadeAndDropped.TakeNoMoreMemory*:*/33_*:*/16_*:*_33:*_16:"
  "Of/Orderings.*_5:Of/Orderings.*_7:Of/Orderings.*_8:TopoJob.SumsRight*:"
  "Of/Boards.*/5_*:Of/Boards.*/6_*:Of/Boards.*/7_*:Of/Boards.*/8_*:*/sizes_*_8:"
  "*/CombineTest.InPlaceOfEachSource/*:*/CombineTest.EveryHalfWithSpecialOnes/*:AllreduceWays.GiveTheSameBitsInManyPieces")
option(STRETTO_SANITIZE_LONG "Run all tests under the sanitizers" OFF)

# stretto_add_tests(TARGET [PROPERTY VALUE ...]): each test by itself; sanitized the program in parts, for to start it takes as
# long as most of its tests.
function(stretto_add_tests target)
  if(NOT STRETTO_SANITIZE)
    gtest_discover_tests(${target} PROPERTIES ${STRETTO_TEST_PROPERTIES} ${ARGN} DISCOVERY_TIMEOUT 60)
    return()
  endif()
  set(filter)
  if(NOT STRETTO_SANITIZE_LONG)
    set(filter "--gtest_filter=-${STRETTO_LONG_WHERE_SANITIZED}")
  endif()
  set(parts 4)
  math(EXPR last "${parts} - 1")
  foreach(part RANGE ${last})
    add_test(NAME ${target}.${part} COMMAND ${CMAKE_COMMAND} -E env GTEST_TOTAL_SHARDS=${parts} GTEST_SHARD_INDEX=${part}
                                            $<TARGET_FILE:${target}> ${filter})
    set_tests_properties(${target}.${part} PROPERTIES ${STRETTO_TEST_PROPERTIES} ${ARGN})
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

# stretto_room(NAME [SOURCES ...] [TESTS ...]): sources go into stretto::core, tests into one program a room.
function(stretto_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;TESTS" ${ARGN})
  if(ROOM_SOURCES)
    stretto_sources(stretto_core ${ROOM_SOURCES})
  endif()
  if(STRETTO_SANITIZE STREQUAL thread AND NOT name IN_LIST STRETTO_THREADED_ROOMS)
    return()
  endif()
  if(BUILD_TESTING AND ROOM_TESTS)
    add_executable(${name}_test ${ROOM_TESTS})
    target_link_libraries(${name}_test PRIVATE stretto_core GTest::gmock GTest::gtest_main)
    stretto_precompile_tests(${name}_test)
    stretto_add_tests(${name}_test)
  endif()
endfunction()

# stretto_compile_tests_fast(): to be called last. All *_test programs spend their compile time in inlined assertions.
function(stretto_compile_tests_fast)
  if(STRETTO_SANITIZE)
    set(optimization -O0)
  elseif(CMAKE_BUILD_TYPE STREQUAL Release)
    set(optimization -O1)
  else()
    return()
  endif()
  set(folders ${PROJECT_SOURCE_DIR})
  while(folders)
    list(POP_FRONT folders folder)
    get_property(subfolders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    list(APPEND folders ${subfolders})
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    list(FILTER targets INCLUDE REGEX "_test$")
    foreach(target ${targets})
      target_compile_options(${target} PRIVATE ${optimization})
      if(STRETTO_SANITIZE MATCHES undefined)  # what is looked at is the library; checks in assertions compile half as long again
        target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
      endif()
    endforeach()
  endwhile()
endfunction()
