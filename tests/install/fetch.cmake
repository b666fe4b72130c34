# Builds a program of a project that brings along the CHECKOUT by FetchContent: it gets the library alone.

include(${CMAKE_CURRENT_LIST_DIR}/program.cmake)

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} -G Ninja -S ${CMAKE_CURRENT_LIST_DIR}/fetch -B ${WORK} -DSTRETTO_CHECKOUT=${CHECKOUT}
    -DCMAKE_CXX_COMPILER=${COMPILER})
run(ninja -C ${WORK} -t targets all)
if(NOT output MATCHES "libstretto_core.a" OR output MATCHES "_test[.:/]|bin/stretto|spirals|bench_|testing/")
  message(FATAL_ERROR "something else than the library alone comes along: ${CMAKE_MATCH_0}")
endif()
run(${CMAKE_COMMAND} --build ${WORK} --target neighbour_sum)
