# st_flags: the warnings of our own targets, and definitions that every target needs.
# SPDX-License-Identifier: Apache-2.0
add_library(st_flags INTERFACE)
target_compile_options(st_flags INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow $<$<BOOL:${ST_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # At -O3 GCC 12 warns of overlaps where there are none (GCC bug 105651).
  target_compile_options(st_flags INTERFACE $<$<CONFIG:Release>:-Wno-restrict>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13
   AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  # At -O3 GCC 13 warns of writes past the end in libfmt 9, where there are none. Ubuntu 24.04 has both.
  target_compile_options(st_flags INTERFACE $<$<CONFIG:Release>:-Wno-array-bounds -Wno-stringop-overflow>)
endif()

if(CMAKE_SIZEOF_VOID_P EQUAL 4)
  add_compile_definitions(_FILE_OFFSET_BITS=64)  # otherwise off_t has 31 bits on 32-bit systems
endif()
if(WIN32)
  # Windows 10. No macros min and max, and no headers that are not asked for.
  add_compile_definitions(_WIN32_WINNT=0x0A00 WIN32_LEAN_AND_MEAN NOMINMAX UNICODE)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)  # a program finds only DLLs in its own directory
endif()
if(MINGW AND ST_STATIC_RUNTIME)
  add_link_options(-static)  # programs too: Windows has none of the compiler's DLLs
endif()
