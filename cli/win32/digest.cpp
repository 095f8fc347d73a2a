// SPDX-License-Identifier: Apache-2.0
#include "windows_text.hpp"
// after windows.h
#include <bcrypt.h>

#include "failure.hpp"
#include "system.hpp"

namespace cli {

struct Digest::State {
  BCRYPT_ALG_HANDLE algorithm = nullptr;
  BCRYPT_HASH_HANDLE hash = nullptr;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (hash != nullptr) BCryptDestroyHash(hash);
    if (algorithm != nullptr) BCryptCloseAlgorithmProvider(algorithm, 0);
  }
};

namespace {

void expect(NTSTATUS status) {
  if (status < 0)
    throw Failure{kDefect, "Windows cannot make this digest"};  // for example because a policy forbids SHA-1
}

}  // namespace

Digest::Digest(DigestKind kind) : state_(std::make_unique<State>()) {
  const wchar_t* const name = kind == DigestKind::sha1 ? BCRYPT_SHA1_ALGORITHM : BCRYPT_SHA256_ALGORITHM;
  expect(BCryptOpenAlgorithmProvider(&state_->algorithm, name, nullptr, 0));
  expect(BCryptCreateHash(state_->algorithm, &state_->hash, nullptr, 0, nullptr, 0, 0));
}

Digest::~Digest() = default;

void Digest::add(const void* bytes, std::size_t n) {
  auto* const data = static_cast<unsigned char*>(const_cast<void*>(bytes));  // which is only read
  expect(BCryptHashData(state_->hash, data, static_cast<ULONG>(n), 0));
}

std::vector<unsigned char> Digest::finish() {
  DWORD size = 0;
  ULONG used = 0;
  auto* const place = reinterpret_cast<unsigned char*>(&size);
  expect(BCryptGetProperty(state_->algorithm, BCRYPT_HASH_LENGTH, place, sizeof size, &used, 0));
  std::vector<unsigned char> bytes(size);
  expect(BCryptFinishHash(state_->hash, bytes.data(), size, 0));
  return bytes;
}

}  // namespace cli
