# Builds for Linux on another processor with a cross compiler, and runs the tests under qemu-user:
#   cmake --preset cross -DST_TARGET=aarch64-linux-gnu -DST_QEMU=qemu-aarch64
# SPDX-License-Identifier: Apache-2.0
set(CMAKE_SYSTEM_NAME Linux)
set(ST_TARGET "" CACHE STRING "The prefix of the cross compiler's tools")
set(ST_QEMU "" CACHE STRING "The emulator of one program")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ST_TARGET ST_QEMU)
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR "${ST_TARGET}")
find_program(CMAKE_C_COMPILER NAMES ${ST_TARGET}-gcc REQUIRED)
find_program(CMAKE_CXX_COMPILER NAMES ${ST_TARGET}-g++ REQUIRED)

# The build machine's own headers and libraries are of another processor.
set(CMAKE_FIND_ROOT_PATH /usr/${ST_TARGET})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind IN ITEMS LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()

find_program(ST_QEMU_PATH NAMES ${ST_QEMU})
if(ST_TARGET MATCHES "^i686" AND CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL "x86_64" AND EXISTS /lib/ld-linux.so.2)
  unset(ST_QEMU_PATH CACHE)  # this machine runs them itself
elseif(ST_QEMU_PATH)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${ST_QEMU_PATH} -L /usr/${ST_TARGET})
endif()
