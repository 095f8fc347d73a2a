// SPDX-License-Identifier: Apache-2.0
#include <openssl/evp.h>

#include "failure.hpp"
#include "system.hpp"

namespace cli {

struct Digest::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

namespace {

void expect(bool good) {
  if (!good) throw Failure{kDefect, "OpenSSL cannot make this digest"};  // for example because a policy forbids SHA-1
}

}  // namespace

Digest::Digest(DigestKind kind) : state_(std::make_unique<State>()) {
  const EVP_MD* const algorithm = kind == DigestKind::sha1 ? EVP_sha1() : EVP_sha256();
  expect(state_->context != nullptr && EVP_DigestInit_ex(state_->context, algorithm, nullptr) == 1);
}

Digest::~Digest() = default;

void Digest::add(const void* bytes, std::size_t n) { expect(EVP_DigestUpdate(state_->context, bytes, n) == 1); }

std::vector<unsigned char> Digest::finish() {
  std::vector<unsigned char> bytes(EVP_MAX_MD_SIZE);
  unsigned size = 0;
  expect(EVP_DigestFinal_ex(state_->context, bytes.data(), &size) == 1);
  bytes.resize(size);
  return bytes;
}

}  // namespace cli
