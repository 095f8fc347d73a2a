// Digests of the files of a model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <safetensors/safetensors.hpp>

#include "system.hpp"

namespace cli {

// Returns the position of the byte after a shard's header. Other programs call the digest of the bytes from there on
// AutoV3, sshs_model_hash or modelspec.hash_sha256. An edit of the metadata does not change it.
std::uint64_t content_begin(const safetensors::SafeOpen& file, std::size_t shard);

// Returns the digest of a shard's file from byte `begin` to its end, in hexadecimal digits.
std::string digest_from(const safetensors::SafeOpen& file, std::size_t shard, std::uint64_t begin, DigestKind kind);

}  // namespace cli
