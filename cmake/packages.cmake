# What cpack makes of an installation: Debian's packages of library, headers and command (cpack -G DEB), or an archive
# of library and headers (cpack -G TGZ or ZIP). ./dev package makes Debian's by it.
# SPDX-License-Identifier: Apache-2.0
set(CPACK_PACKAGE_NAME libsafetensors)
set(CPACK_PACKAGE_VENDOR "libsafetensors")
set(ST_MAINTAINER "nobody <nobody@localhost>" CACHE STRING "Who makes the Debian packages: NAME <ADDRESS>")
set(CPACK_PACKAGE_CONTACT ${ST_MAINTAINER})
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL library development)
if(ST_BUILD_CLI)
  list(APPEND CPACK_COMPONENTS_ALL tools)
endif()

# An archive is one folder of everything, as for a prefix.
string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" platform)
set(ST_PLATFORM ${platform} CACHE STRING "What the names of archives call the system and the processor")
set(CPACK_PACKAGE_FILE_NAME libsafetensors-${PROJECT_VERSION}-${ST_PLATFORM})
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libsafetensors-c${ST_SOVERSION})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "C library that reads and writes safetensors files
Reads, checks and writes the files in which the weights of most models are
published, with lazy access, slices, plans of reads and a streaming writer.")
set(this_library "${CPACK_DEBIAN_LIBRARY_PACKAGE_NAME} (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libsafetensors-c-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ${this_library})
if(NOT ST_SELF_CONTAINED)
  string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", libsimdjson-dev")  # for the archive
endif()
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "headers and static library of libsafetensors
What programs need that are compiled with the library: the headers for C and
C++, the archive, and the files by which pkg-config and CMake find it. For
bindings of other languages, safetensors.json describes the C API.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME safetensors-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_TOOLS_DESCRIPTION "command that shows, checks and changes safetensors files
Shows, verifies, compares, splits, merges, renames, casts and converts the
files in which the weights of most models are published.")
# The soname stands in the package's shlibs file, by which packages of programs find what they depend on.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)

# What Debian's policy wants in every package besides.
if(ST_DEBIAN_FILES)
  set(debian ${PROJECT_BINARY_DIR}/debian)
  string(TIMESTAMP changelog_date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH, if it is set
  configure_file(packaging/debian/changelog.in ${debian}/changelog.Debian @ONLY)
  execute_process(COMMAND gzip -9nkf ${debian}/changelog.Debian COMMAND_ERROR_IS_FATAL ANY)
  file(WRITE ${debian}/triggers "activate-noawait ldconfig\n")
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${debian}/triggers)
  # Warnings of lintian about choices that are meant, each with its reason.
  set(overrides "# Debian has no bug that asks for this package.\ninitial-upload-closes-no-bugs\n")
  set(overrides_of_library "# The name libsafetensors0 is left to other projects.\npackage-name-doesnt-match-sonames\n"
    "# CPack writes these scripts for every package with a shared library.\nmaintscript-calls-ldconfig\n")
  foreach(component IN LISTS CPACK_COMPONENTS_ALL)
    string(TOUPPER ${component} upper)
    set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
    install(FILES packaging/debian/copyright ${debian}/changelog.Debian.gz COMPONENT ${component}
      DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package})
    file(WRITE ${debian}/overrides/${package} ${overrides} ${overrides_of_${component}})
    install(FILES ${debian}/overrides/${package} COMPONENT ${component} DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides)
  endforeach()
endif()
if(NOT ST_DEBIAN_FILES)
  install(FILES LICENSE packaging/notices.txt DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${PROJECT_NAME} COMPONENT library)
endif()
if(ST_BOM)
  include(cmake/bom.cmake)
endif()
include(CPack)
