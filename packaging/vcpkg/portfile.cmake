# Builds the checkout that this file lies in. A port in vcpkg's own registry would call vcpkg_from_github in its place.
# SPDX-License-Identifier: Apache-2.0
cmake_path(GET CURRENT_PORT_DIR PARENT_PATH SOURCE_PATH)
cmake_path(GET SOURCE_PATH PARENT_PATH SOURCE_PATH)

vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DST_BUILD_CLI=OFF -DST_BUILD_TESTS=OFF -DST_BUILD_BENCH=OFF -DST_BUILD_FUZZ=OFF
    -DFETCHCONTENT_FULLY_DISCONNECTED=ON)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/safetensors PACKAGE_NAME safetensors)
vcpkg_fixup_pkgconfig()

# The triplet says which of the two libraries the package has.
if(VCPKG_LIBRARY_LINKAGE STREQUAL "static")
  set(other_library libsafetensors.so* libsafetensors*.dylib)
  set(other_targets safetensorsSharedTargets*.cmake)
else()
  set(other_library libsafetensors.a)
  set(other_targets safetensorsStaticTargets*.cmake)
endif()
foreach(pattern IN LISTS other_library)
  file(GLOB_RECURSE unwanted "${CURRENT_PACKAGES_DIR}/lib/${pattern}" "${CURRENT_PACKAGES_DIR}/debug/lib/${pattern}")
  if(unwanted)
    file(REMOVE ${unwanted})
  endif()
endforeach()
file(GLOB unwanted "${CURRENT_PACKAGES_DIR}/share/safetensors/${other_targets}")
file(REMOVE ${unwanted})

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
