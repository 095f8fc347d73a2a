# CLI11 and nlohmann's json, of which the command and the benchmarks are made.
# SPDX-License-Identifier: Apache-2.0
st_declare(CLI11 libcli11-dev ${github}/CLIUtils/CLI11/archive/v2.1.2.tar.gz
  26291377e892ba0e5b4972cdfd4a2ab3bf53af8dac1f4ea8fe0d1376b625c8cb FIND_PACKAGE_ARGS)
st_declare(nlohmann_json nlohmann-json3-dev ${github}/nlohmann/json/archive/refs/tags/v3.11.2.tar.gz
  d69f9deb6a75e2580465c6c4c5111b89c4dc2fa94e3a85fcd2ffcd9a143d9273 FIND_PACKAGE_ARGS 3.10)
st_require_sources()
FetchContent_MakeAvailable(CLI11 nlohmann_json)
