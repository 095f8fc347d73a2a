# Builds for another system with the compiler of zig (PyPI: ziglang), which brings the headers and libraries of all:
#   cmake --preset zig -DST_TARGET=aarch64-macos -DST_ZIG=/path/to/zig
# ST_TARGET is what `zig targets` lists, such as x86_64-macos, x86_64-linux-musl, aarch64-linux-gnu.2.28.
# SPDX-License-Identifier: Apache-2.0
set(ST_TARGET "" CACHE STRING "The target in zig's words")
set(ST_ZIG zig CACHE FILEPATH "The program zig")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ST_TARGET ST_ZIG)
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR "${ST_TARGET}")
if(ST_TARGET MATCHES "-macos")
  set(CMAKE_SYSTEM_NAME Darwin)
  # libc++'s <float.h> can be included once, and <math.h> does so for INFINITY alone, which leaves no FLT_MAX to others. So
  # all of it comes first, with INFINITY, which strict ISO mode leaves out.
  set(CMAKE_CXX_FLAGS_INIT "-U__STRICT_ANSI__ -include float.h")
  set(CMAKE_C_FLAGS_INIT "-D_DARWIN_C_SOURCE")  # for a test that asks for POSIX, and so gets nothing else
  # What CMake does on a Mac. Elsewhere it takes the system for one without @rpath, and programs would look for the library
  # in the folder that it was built in.
  set(CMAKE_INSTALL_NAME_DIR "@rpath")
  set(CMAKE_BUILD_WITH_INSTALL_NAME_DIR ON)
elseif(ST_TARGET MATCHES "-windows")
  set(CMAKE_SYSTEM_NAME Windows)
elseif(ST_TARGET MATCHES "-freebsd")
  set(CMAKE_SYSTEM_NAME FreeBSD)
else()
  set(CMAKE_SYSTEM_NAME Linux)
endif()

# CMake wants a program for each, and zig is one with verbs.
set(tools ${CMAKE_CURRENT_BINARY_DIR}/zig)
foreach(verb IN ITEMS cc c++)
  file(WRITE ${tools}/${verb} "#!/bin/sh\nexec '${ST_ZIG}' ${verb} -target ${ST_TARGET} \"$@\"\n")
endforeach()
foreach(verb IN ITEMS ar ranlib)
  file(WRITE ${tools}/${verb} "#!/bin/sh\nexec '${ST_ZIG}' ${verb} \"$@\"\n")
endforeach()
file(CHMOD ${tools}/cc ${tools}/c++ ${tools}/ar ${tools}/ranlib PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
set(CMAKE_C_COMPILER ${tools}/cc)
set(CMAKE_CXX_COMPILER ${tools}/c++)
set(CMAKE_AR ${tools}/ar CACHE FILEPATH "")
set(CMAKE_RANLIB ${tools}/ranlib CACHE FILEPATH "")

# The build machine's own headers and libraries are of another system.
set(CMAKE_FIND_ROOT_PATH ${tools})
foreach(kind IN ITEMS LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
