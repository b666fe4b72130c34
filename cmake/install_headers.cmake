# Run by `cmake --install`. The headers of STRETTO_API, which are what a program includes, keep their path below
# include/stretto; what these include in turn goes below include/stretto/detail. All of them find one another there.
#
# Read: STRETTO_SOURCE, the checkout; STRETTO_API, headers relative to it.

cmake_minimum_required(VERSION 3.25)

set(include_folder $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/include)
set(include_line "#include \"(stretto/[^\"]+)\"")

# Where a header of the checkout lies in the installation.
function(installed_name header variable)
  if(NOT header IN_LIST STRETTO_API)
    string(REGEX REPLACE "^stretto/" "stretto/detail/" header ${header})
  endif()
  set(${variable} ${header} PARENT_SCOPE)
endfunction()

set(waiting ${STRETTO_API})
set(done)
while(waiting)
  list(POP_FRONT waiting header)
  if(header IN_LIST done)
    continue()
  endif()
  list(APPEND done ${header})
  file(READ ${STRETTO_SOURCE}/${header} text)
  string(REGEX MATCHALL "${include_line}" lines "${text}")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "${include_line}" "\\1" included "${line}")
    list(APPEND waiting ${included})
    installed_name(${included} name)
    string(REPLACE "#include \"${included}\"" "#include \"${name}\"" text "${text}")
  endforeach()
  installed_name(${header} name)
  message(STATUS "Installing: ${include_folder}/${name}")
  file(WRITE ${include_folder}/${name} "${text}")
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES ${CMAKE_INSTALL_PREFIX}/include/${name})
endwhile()
