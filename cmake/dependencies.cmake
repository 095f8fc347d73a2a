# Finds simdjson, fmt, xxHash and threads: the system's package first, then the pinned source.
# SPDX-License-Identifier: Apache-2.0
include(cmake/fetch.cmake)
find_package(Threads REQUIRED)
set(github https://github.com)

# The version is compared here, because simdjson's version file accepts only requests for its own minor version. If the
# system's package is missing or too old, simdjson is compiled in.
set(simdjson_minimum 3.0.1)
if(NOT ST_SELF_CONTAINED AND NOT FETCHCONTENT_SOURCE_DIR_SIMDJSON)
  find_package(simdjson QUIET)
endif()
if(NOT simdjson_FOUND OR simdjson_VERSION VERSION_LESS simdjson_minimum)
  set(simdjson_package libsimdjson-dev)
  if(ST_SELF_CONTAINED)
    set(simdjson_package "")  # it has no sources
  endif()
  set(ST_SELF_CONTAINED ON)
  set(simdjson_FOUND OFF)
  # Only the two files of singleheader/ are used. A SOURCE_SUBDIR that does not exist keeps simdjson's own build out.
  st_declare(simdjson "${simdjson_package}" ${github}/simdjson/simdjson/archive/v${simdjson_minimum}.tar.gz
    156b1bc5eb0561b2bd166b46d191fd3d95a3e709cc63761477d3b7aec2b6e9ed SOURCE_SUBDIR not-used)
endif()
st_declare(fmt libfmt-dev ${github}/fmtlib/fmt/archive/9.1.0.tar.gz
  5dea48d1fcddc3ec571ce2058e13910a0d4a6bab4cc09a809d8b1dd1c88ae6f2 FIND_PACKAGE_ARGS)
if(NOT FETCHCONTENT_SOURCE_DIR_XXHASH)
  find_path(ST_XXHASH_INCLUDE_DIR xxhash.h)  # distributions ship it without a CMake package
endif()
if(NOT ST_XXHASH_INCLUDE_DIR)
  st_declare(xxhash libxxhash-dev ${github}/Cyan4973/xxHash/archive/v0.8.1.tar.gz
    3bb6b7d6f30c591dd65aaaff1c8b7a5b94d81687998ca9400082c739a690436c SOURCE_SUBDIR not-used)
endif()
st_require_sources()
FetchContent_MakeAvailable(fmt)
if(NOT simdjson_FOUND)
  FetchContent_MakeAvailable(simdjson)
endif()
if(NOT ST_XXHASH_INCLUDE_DIR)
  FetchContent_MakeAvailable(xxhash)
  set(ST_XXHASH_INCLUDE_DIR ${xxhash_SOURCE_DIR})
endif()

add_library(st_simdjson INTERFACE)
target_compile_definitions(st_simdjson INTERFACE SIMDJSON_EXCEPTIONS=0)
set(simdjson_objects)
if(ST_SELF_CONTAINED)
  # Compiled as it comes, with all its kernels. Its namespaces are renamed, so a static program that also links another
  # simdjson does not mix the two.
  add_library(st_simdjson_objects OBJECT ${simdjson_SOURCE_DIR}/singleheader/simdjson.cpp)
  target_compile_definitions(st_simdjson INTERFACE simdjson=st_simdjson simdjson_fast_float=st_simdjson_fast_float)
  target_include_directories(st_simdjson SYSTEM INTERFACE ${simdjson_SOURCE_DIR}/singleheader)
  target_link_libraries(st_simdjson_objects PRIVATE st_simdjson)
  target_compile_options(st_simdjson_objects PRIVATE -Wno-unused-parameter)
  if(CMAKE_CXX_FLAGS MATCHES "fsanitize=.*undefined")  # its checks double the time that this file takes to compile
    target_compile_options(st_simdjson_objects PRIVATE -fno-sanitize=undefined)
  endif()
  set(simdjson_objects $<TARGET_OBJECTS:st_simdjson_objects>)
else()
  target_link_libraries(st_simdjson INTERFACE simdjson::simdjson)
endif()
