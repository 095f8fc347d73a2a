"""Builds the checkout that it lies in: conan create packaging/conan

Fetches nothing itself: what the library is made with is found where CMake finds it, or else fetched by CMake at a pinned
version and hash.
SPDX-License-Identifier: Apache-2.0
"""
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rm, rmdir


class Safetensors(ConanFile):
    name = "libsafetensors"
    description = "Reads and writes safetensors files: a C++20 core behind a C API"
    license = "Apache-2.0"
    topics = ("safetensors", "tensors", "machine-learning")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": True}
    implements = ["auto_shared_fpic"]

    @property
    def _checkout(self):
        return os.path.dirname(os.path.dirname(self.recipe_folder))

    def set_version(self):
        header = load(self, os.path.join(self._checkout, "include", "safetensors", "safetensors.h"))
        self.version = ".".join(re.search(rf"define ST_VERSION_{part} +(\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH"))

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "safetensors.pc.in", "cmake/*", "packaging/notices.txt", "include/*", "capi/*",
                        "src/*", "bindings/safetensors.json"):
            copy(self, pattern, self._checkout, self.export_sources_folder)

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("CLI", "TESTS", "BENCH", "FUZZ"):
            toolchain.cache_variables[f"ST_BUILD_{part}"] = False
        toolchain.cache_variables["ST_SELF_CONTAINED"] = True  # no package of simdjson is named here
        source = self.conf.get("user.libsafetensors:simdjson", default=None)
        if source:
            toolchain.cache_variables["FETCHCONTENT_SOURCE_DIR_SIMDJSON"] = source
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build(target="safetensors")
        cmake.build(target="safetensors_static")

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        libraries = os.path.join(self.package_folder, "lib")
        rmdir(self, os.path.join(libraries, "pkgconfig"))  # Conan writes its own
        rmdir(self, os.path.join(libraries, "cmake"))
        rm(self, "*.a" if self.options.shared else "*.so*", libraries)

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "safetensors")
        self.cpp_info.set_property("cmake_target_name", "safetensors::safetensors")
        self.cpp_info.set_property("pkg_config_name", "safetensors")
        self.cpp_info.libs = ["safetensors"]
        if not self.options.shared:
            self.cpp_info.defines = ["ST_STATIC"]
            self.cpp_info.system_libs = ["stdc++", "m", "pthread"] if self.settings.os == "Linux" else []
