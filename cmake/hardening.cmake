# st_harden(TARGET): with ST_HARDEN, compiles a target with the protections against memory errors that distributions use.
# The options of the linker do not depend on it: cmake/exports.cmake. tests/checks/hardening.py checks the result.
# SPDX-License-Identifier: Apache-2.0
include(CheckCXXCompilerFlag)
set(st_hardening)
if(ST_HARDEN AND NOT WIN32)  # with mingw-w64, programs that link the archive would need -lssp
  foreach(flag IN ITEMS -fstack-protector-strong -fstack-clash-protection -fcf-protection -mbranch-protection=standard)
    string(MAKE_C_IDENTIFIER "ST_HAS${flag}" known)
    check_cxx_compiler_flag("-Werror ${flag}" ${known})  # clang only warns about flags of other processors
    if(${known})
      list(APPEND st_hardening ${flag})
    endif()
  endforeach()
  list(APPEND st_hardening -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()

function(st_harden target)
  target_compile_options(${target} PRIVATE ${st_hardening})
endfunction()
