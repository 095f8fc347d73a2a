# The same sources, compiler and options give the same bytes, in whatever directory and at whatever time they are built.
# docs/platforms.md describes the packages, which tests/checks/twice.py compares.
# SPDX-License-Identifier: Apache-2.0
if(NOT MSVC)
  # Builds with debug information keep whole paths, by which debuggers find the sources.
  foreach(map IN ITEMS "${PROJECT_BINARY_DIR}=build" "${PROJECT_SOURCE_DIR}=.")
    add_compile_options("$<$<CONFIG:Release,MinSizeRel>:-ffile-prefix-map=${map}>")
  endforeach()
endif()
if(MINGW)
  add_link_options(-Wl,--no-insert-timestamp)
endif()
if(NOT MSVC AND NOT CMAKE_HOST_APPLE)  # Apple's ar has no D
  foreach(language IN ITEMS C CXX)
    set(CMAKE_${language}_ARCHIVE_CREATE "<CMAKE_AR> qcD <TARGET> <LINK_FLAGS> <OBJECTS>")
    set(CMAKE_${language}_ARCHIVE_APPEND "<CMAKE_AR> qD <TARGET> <LINK_FLAGS> <OBJECTS>")
    set(CMAKE_${language}_ARCHIVE_FINISH "<CMAKE_RANLIB> -D <TARGET>")
  endforeach()
endif()
