# system_sources: the sources of src/io for the target system. There is a directory per system, and a file of src/io/linux
# replaces the file of the same name in src/io/posix.
# SPDX-License-Identifier: Apache-2.0
set(system_folder posix)
if(WIN32)
  set(system_folder win32)
endif()
file(GLOB system_sources CONFIGURE_DEPENDS src/io/${system_folder}/*.cpp)
if(ST_LINUX_IO)
  file(GLOB linux_sources CONFIGURE_DEPENDS src/io/linux/*.cpp)
  foreach(source IN LISTS linux_sources)
    cmake_path(GET source FILENAME name)
    list(REMOVE_ITEM system_sources ${PROJECT_SOURCE_DIR}/src/io/posix/${name})
  endforeach()
  list(APPEND system_sources ${linux_sources})
elseif(CMAKE_SYSTEM_NAME STREQUAL Linux)
  # Shows these sources POSIX.1-2008 alone, so that a Linux extension does not compile.
  set_source_files_properties(${system_sources} PROPERTIES COMPILE_OPTIONS
    "-U_GNU_SOURCE;-D_XOPEN_SOURCE=700;-include;${PROJECT_SOURCE_DIR}/tests/checks/posix_only.hpp")
endif()
