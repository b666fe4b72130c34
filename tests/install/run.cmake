# Installs BUILD into a fresh prefix, builds CONSUMER against that alone, in a fresh folder, and runs its PROGRAM.

set(prefix ${WORK}/prefix)
file(REMOVE_RECURSE ${WORK})
find_program(ccache ccache)
if(ccache)
  set(ENV{CMAKE_CXX_COMPILER_LAUNCHER} ${ccache})
endif()

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}: ${status}\n${output}")
  endif()
  message(STATUS "${output}")
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
run(${prefix}/bin/stretto schedule allreduce --ranks 4)
run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/build -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_CXX_COMPILER=${COMPILER})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/${PROGRAM})
