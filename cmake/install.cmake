# Installs the libraries, the headers with their description as JSON, and the files by which CMake and pkg-config find them.
# SPDX-License-Identifier: Apache-2.0
include(CMakePackageConfigHelpers)
if(ST_DEBIAN_FILES)
  set(CMAKE_SKIP_INSTALL_RPATH ON)
endif()

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/safetensors)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
install(DIRECTORY include/safetensors DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} PATTERN http.h EXCLUDE)  # see http/
install(FILES bindings/safetensors.json DESTINATION ${CMAKE_INSTALL_DATADIR}/safetensors)
install(TARGETS safetensors EXPORT safetensorsSharedTargets
  RUNTIME COMPONENT library LIBRARY COMPONENT library NAMELINK_COMPONENT development)
install(TARGETS safetensors_static EXPORT safetensorsStaticTargets)
install(EXPORT safetensorsSharedTargets NAMESPACE safetensors:: DESTINATION ${config_dir})
install(EXPORT safetensorsStaticTargets NAMESPACE safetensors:: DESTINATION ${config_dir})

# What a program that links the archive needs besides, since its own compiler may be a C compiler.
set(private_libraries ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES} ${CMAKE_THREAD_LIBS_INIT} ${CMAKE_DL_LIBS})
list(REMOVE_ITEM private_libraries ${CMAKE_C_IMPLICIT_LINK_LIBRARIES})
list(REMOVE_DUPLICATES private_libraries)
if(MINGW)
  list(REMOVE_ITEM private_libraries gcc_s)  # a DLL, even for a program that is linked with -static; the compiler has its own
endif()
if(DEFINED ST_ZIG)  # CMake names files of zig's cache, which are elsewhere on each machine, and on macOS nothing
  set(private_libraries c++)
  if(NOT APPLE)
    list(APPEND private_libraries c++abi unwind ${CMAKE_THREAD_LIBS_INIT} ${CMAKE_DL_LIBS})
  endif()
endif()
set(pc_libraries ${private_libraries})
if(NOT ST_SELF_CONTAINED)
  # Not Requires.private, for which pkg-config wants simdjson's own .pc even where only the shared library is linked.
  list(PREPEND pc_libraries simdjson)
endif()
list(TRANSFORM pc_libraries REPLACE "^([^-].*)$" "-l\\1")
list(JOIN pc_libraries " " PC_LIBS_PRIVATE)
file(RELATIVE_PATH PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH PC_LIBDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH PC_INCLUDEDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
file(RELATIVE_PATH PC_DATADIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_DATADIR})
string(REGEX REPLACE "/$" "" PC_PREFIX "${PC_PREFIX}")
configure_file(safetensors.pc.in safetensors.pc @ONLY)
configure_package_config_file(cmake/safetensorsConfig.cmake.in safetensorsConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(safetensorsConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/safetensors.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${PROJECT_BINARY_DIR}/safetensorsConfig.cmake ${PROJECT_BINARY_DIR}/safetensorsConfigVersion.cmake
  DESTINATION ${config_dir})
