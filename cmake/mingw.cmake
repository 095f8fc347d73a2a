# Builds for Windows on x86-64 with mingw-w64, of which the variant with POSIX threads is wanted (std::jthread):
#   cmake --preset windows, or -DCMAKE_TOOLCHAIN_FILE=cmake/mingw.cmake
# SPDX-License-Identifier: Apache-2.0
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(ST_MINGW x86_64-w64-mingw32 CACHE STRING "The prefix of the cross compiler's tools")
find_program(CMAKE_C_COMPILER NAMES ${ST_MINGW}-gcc-posix ${ST_MINGW}-gcc REQUIRED)
find_program(CMAKE_CXX_COMPILER NAMES ${ST_MINGW}-g++-posix ${ST_MINGW}-g++ REQUIRED)
find_program(CMAKE_RC_COMPILER NAMES ${ST_MINGW}-windres)

# The build machine's own headers and libraries are of another system.
set(CMAKE_FIND_ROOT_PATH /usr/${ST_MINGW})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind IN ITEMS LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()

find_program(ST_WINE NAMES wine wine64)
if(ST_WINE)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${ST_WINE})
endif()
