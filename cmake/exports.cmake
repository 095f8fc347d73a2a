# File names and versions of the libraries, and the symbols that the shared library exports: exactly the functions of
# safetensors.h (capi/safetensors.map).
# SPDX-License-Identifier: Apache-2.0
include(CheckCXXCompilerFlag)
include(CheckLinkerFlag)
include(cmake/hardening.cmake)

check_cxx_compiler_flag(-fno-gnu-unique ST_HAS_NO_GNU_UNIQUE)  # a unique symbol keeps the library loaded after dlclose
foreach(target IN ITEMS st_internals st_capi st_simdjson_objects)
  if(TARGET ${target})
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON VISIBILITY_INLINES_HIDDEN ON
      C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden)
    target_compile_options(${target} PRIVATE $<$<BOOL:${ST_HAS_NO_GNU_UNIQUE}>:-fno-gnu-unique>
      -ffunction-sections -fdata-sections)  # the linker drops sections that nothing refers to
    st_harden(${target})
  endif()
endforeach()

# The number in the soname of both libraries. It is not the major version, and does not change with 1.0: raise it with the
# first change that breaks compiled programs (docs/abi.md). checks.complete finds all other places with this number.
set(ST_SOVERSION 0)
set_target_properties(safetensors PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${ST_SOVERSION} EXPORT_NAME shared
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/capi/safetensors.map)
set_target_properties(safetensors_static PROPERTIES EXPORT_NAME static)
if(NOT MSVC)  # there the import library of the DLL has this name
  set_target_properties(safetensors_static PROPERTIES OUTPUT_NAME safetensors)
endif()
if(WIN32)
  set_target_properties(safetensors PROPERTIES PREFIX "")  # safetensors.dll
endif()

if(UNIX AND NOT APPLE)
  target_link_options(safetensors PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/capi/safetensors.map
    -Wl,--gc-sections -Wl,-z,relro,-z,now)
  check_linker_flag(CXX -Wl,-Bsymbolic-functions ST_LINKS_SYMBOLIC_FUNCTIONS)  # zig's linker does not know it
  if(ST_LINKS_SYMBOLIC_FUNCTIONS)
    target_link_options(safetensors PRIVATE -Wl,-Bsymbolic-functions)
  endif()
  if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")  # clang's sanitizers leave their symbols to the executable
    target_link_options(safetensors PRIVATE -Wl,-z,defs)
  endif()
endif()
if(ST_STATIC_RUNTIME)
  # libgcc_s stays shared: if a callback throws, one copy of the unwinder must see all frames, or the process aborts.
  target_link_options(safetensors PRIVATE -static-libstdc++)
  target_sources(safetensors PRIVATE capi/static_runtime/terminate.cpp)
endif()
