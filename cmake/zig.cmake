# Toolchain for the release's wheels: zig (`ziglang` of PyPI) compiles for STRETTO_TARGET, a machine and the oldest C library
# that is served, as in aarch64-linux-gnu.2.28. It brings the headers of that C library, and a C++ library that it links in.
#
# Read: STRETTO_TARGET; STRETTO_ZIG, the program. Both come from tools/build_wheel.

set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES STRETTO_TARGET STRETTO_ZIG)
string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR ${STRETTO_TARGET})
set(CMAKE_SYSTEM_NAME Linux)

# -O3 and -s also where CMake tries the compiler: for other options zig would compile the C++ library once more. The machine's
# own strip does not know every machine.
set(CMAKE_CXX_COMPILER ${STRETTO_ZIG} c++ -target ${STRETTO_TARGET} -O3 -s)
set(CMAKE_CXX_ARCHIVE_CREATE "${STRETTO_ZIG} ar qc <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "${STRETTO_ZIG} ranlib <TARGET>")
set(CMAKE_STRIP "" CACHE FILEPATH "")
set(CCACHE OFF CACHE FILEPATH "")  # zig keeps what it has compiled

# Of this machine the libraries that are headers and nothing else; its C library's headers lie beside them.
set(headers ${CMAKE_BINARY_DIR}/headers)
file(MAKE_DIRECTORY ${headers})
foreach(header asio asio.hpp boost CLI fmt nlohmann protozero Random123 xxhash.h)
  if(NOT EXISTS /usr/include/${header})
    message(FATAL_ERROR "/usr/include/${header} is not there: see packages.txt")
  endif()
  file(CREATE_LINK /usr/include/${header} ${headers}/${header} SYMBOLIC)
endforeach()
foreach(header ucp ucs)  # of UCX, without which Stretto is built, too
  if(EXISTS /usr/include/${header})
    file(CREATE_LINK /usr/include/${header} ${headers}/${header} SYMBOLIC)
  endif()
endforeach()
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${headers})
list(APPEND CMAKE_PREFIX_PATH /usr/lib/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu/cmake)
