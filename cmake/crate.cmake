# st_crate(NAME FOLDER FILE): builds the crate in FOLDER with cargo, in release mode. Without cargo, and
# for another processor, it does nothing.
#   FILE is a static library: NAME is a library to link.
#   FILE is a program: NAME is a target, part of all.
# SPDX-License-Identifier: Apache-2.0
function(st_crate name folder file)
  find_program(CARGO cargo)
  if(NOT CARGO OR CMAKE_CROSSCOMPILING)
    message(STATUS "${name} is not built: there is no cargo for it")
    return()
  endif()
  set(place ${CMAKE_CURRENT_BINARY_DIR}/${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/Cargo.* ${folder}/src/*.rs)
  add_custom_command(OUTPUT ${place}/release/${file}
    COMMAND ${CARGO} build --release --locked --quiet --target-dir ${place}
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/${folder}
    DEPENDS ${sources}
    COMMENT "Building the crates of ${name}" VERBATIM)
  if(NOT file MATCHES "\\.a$")
    add_custom_target(${name} ALL DEPENDS ${place}/release/${file})
    return()
  endif()
  add_custom_target(${name}_built DEPENDS ${place}/release/${file})
  add_library(${name} STATIC IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${place}/release/${file})
  target_link_libraries(${name} INTERFACE Threads::Threads ${CMAKE_DL_LIBS} m)
  add_dependencies(${name} ${name}_built)
endfunction()
