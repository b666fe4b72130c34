# Installs BUILD into a fresh prefix, moves that, builds CONSUMER against that alone, in a fresh folder, and runs its
# PROGRAM, alone and under mpirun, with ARGUMENTS, parted by blanks.

include(${CMAKE_CURRENT_LIST_DIR}/program.cmake)

set(prefix ${WORK}/moved)
file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
file(RENAME ${WORK}/prefix ${prefix})

run(${prefix}/bin/stretto schedule allreduce --ranks 4)
foreach(page man/man1/stretto.1 bash-completion/completions/stretto zsh/site-functions/_stretto)
  if(NOT EXISTS ${prefix}/share/${page})
    message(FATAL_ERROR "share/${page} is not installed")
  endif()
endforeach()
run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/build -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_CXX_COMPILER=${COMPILER})
run(${CMAKE_COMMAND} --build ${WORK}/build)
separate_arguments(ARGUMENTS)
run(${WORK}/build/${PROGRAM} ${ARGUMENTS})
run_under_mpi(${BUILD} ${WORK}/build/${PROGRAM} ${ARGUMENTS})
if(TRAINS)
  run_under_mpi(${BUILD} ${prefix}/bin/stretto train hyperplane --steps 3)
endif()
