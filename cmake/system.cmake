# system_sources: the sources of src/io for the target system. posix/system.hpp declares what Linux does better than
# POSIX.1-2008: src/io/linux has the bodies for Linux, posix/system.cpp those for every other POSIX system.
# SPDX-License-Identifier: Apache-2.0
if(WIN32)
  file(GLOB system_sources CONFIGURE_DEPENDS src/io/win32/*.cpp)
  # os.cpp defines a macro before it includes <stdlib.h>. GCC warns of AtomicFile::State in atomic_file.cpp, whose members
  # have types of an unnamed namespace, unless it compiles that file alone.
  set_source_files_properties(src/io/win32/os.cpp src/io/win32/atomic_file.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
else()
  file(GLOB system_sources CONFIGURE_DEPENDS src/io/posix/*.cpp)
endif()
if(ST_LINUX_IO)
  file(GLOB linux_sources CONFIGURE_DEPENDS src/io/linux/*.cpp)
  list(REMOVE_ITEM system_sources ${PROJECT_SOURCE_DIR}/src/io/posix/system.cpp)
  list(APPEND system_sources ${linux_sources})
elseif(CMAKE_SYSTEM_NAME STREQUAL Linux)
  # Compiles these sources against POSIX.1-2008 alone, so a Linux extension is an error.
  set_source_files_properties(${system_sources} PROPERTIES COMPILE_OPTIONS
    "-U_GNU_SOURCE;-D_XOPEN_SOURCE=700;-include;${PROJECT_SOURCE_DIR}/tests/checks/posix_only.hpp")
endif()
