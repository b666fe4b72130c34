# What the scripts of this folder share.

find_program(ccache ccache)
if(ccache)
  set(ENV{CMAKE_CXX_COMPILER_LAUNCHER} ${ccache})
endif()
find_program(mpirun mpirun)
set(ENV{OMPI_ALLOW_RUN_AS_ROOT} 1)
set(ENV{OMPI_ALLOW_RUN_AS_ROOT_CONFIRM} 1)

# Runs a command, which must succeed; `output` has what it printed. The log says what is under way when it takes too long.
function(run)
  list(JOIN ARGN " " command)
  message(STATUS "${command}")
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE printed ERROR_VARIABLE printed)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${status}\n${printed}")
  endif()
  set(output "${printed}" PARENT_SCOPE)
endfunction()

# The same in three ranks of mpirun, where MPI is there.
function(run_under_mpi build)
  if(mpirun AND EXISTS ${build}/lib/libstretto_openmpi.so)
    # Two mpirun of one user at once race for the folder that they share: one removes it where the other makes it. Not
    # below WORK: the names of sockets are short.
    run(mktemp -d)
    string(STRIP "${output}" folder)
    set(ENV{OMPI_MCA_orte_tmpdir_base} ${folder})
    run(${mpirun} --oversubscribe -n 3 ${ARGN})
    file(REMOVE_RECURSE ${folder})
  else()
    message(STATUS "NOT TESTED under mpirun: there is no MPI")
  endif()
endfunction()
