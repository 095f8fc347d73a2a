# Runs the port of packaging/vcpkg where vcpkg is not: each function below does the part of vcpkg's work that the port needs,
# for a triplet that builds release only. What vcpkg checks of the finished package is not checked.
# usage: cmake -DPORT_DIR=... -DBUILD_DIR=... -DCURRENT_PACKAGES_DIR=... -DVCPKG_LIBRARY_LINKAGE=static|dynamic -P vcpkg.cmake
# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.24)
set(PORT libsafetensors)
set(CURRENT_PORT_DIR ${PORT_DIR})

function(run)
  execute_process(COMMAND ${CMAKE_COMMAND} ${ARGV} COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
endfunction()

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  run(-S ${arg_SOURCE_PATH} -B ${BUILD_DIR} -G Ninja -DCMAKE_BUILD_TYPE=Release ${arg_OPTIONS} -DCMAKE_INSTALL_LIBDIR=lib
    -DCMAKE_CXX_FLAGS_RELEASE=-O0)  # nobody runs it for long
endfunction()

function(vcpkg_cmake_install)
  run(--build ${BUILD_DIR})
  run(--install ${BUILD_DIR} --prefix ${CURRENT_PACKAGES_DIR})
endfunction()

# Moves the CMake package to share/, which is one folder nearer to the prefix.
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "CONFIG_PATH;PACKAGE_NAME" "")
  set(share ${CURRENT_PACKAGES_DIR}/share/${arg_PACKAGE_NAME})
  file(COPY ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/ DESTINATION ${share})  # where there may be other files
  file(REMOVE_RECURSE ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH})
  file(GLOB files ${share}/*.cmake)
  foreach(file IN LISTS files)
    file(READ ${file} text)
    string(REPLACE "\${CMAKE_CURRENT_LIST_DIR}/../../../" "\${CMAKE_CURRENT_LIST_DIR}/../../" text "${text}")
    string(REPLACE "\"\${CMAKE_CURRENT_LIST_FILE}\" PATH)" "\"\${CMAKE_CURRENT_LIST_FILE}\" ABSOLUTE)" text "${text}")
    file(WRITE ${file} "${text}")
  endforeach()
endfunction()

function(vcpkg_fixup_pkgconfig)
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  file(COPY_FILE ${arg_FILE_LIST} ${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright)
endfunction()

include(${PORT_DIR}/portfile.cmake)
