#include "base/sha256.h"

#include <openssl/evp.h>

#include <new>

#include "base/check.h"
#include "base/text.h"

namespace ibid {

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr) throw std::bad_alloc();
  // Fetched once, because EVP_sha256() would look the algorithm up at every init, which takes longer than a short
  // digest.
  static EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  if (algorithm == nullptr || EVP_DigestInit_ex2(context_, algorithm, nullptr) != 1) {
    EVP_MD_CTX_free(context_);
    throw std::bad_alloc();
  }
}

Sha256::~Sha256() { EVP_MD_CTX_free(context_); }

// Restarts the context, which keeps its algorithm, so nothing is allocated.
void Sha256::begin() { CHECK(EVP_DigestInit_ex2(context_, nullptr, nullptr) == 1); }

void Sha256::update(std::span<const std::byte> bytes) {
  CHECK(EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1);
}

Sha256Digest Sha256::finish() {
  Sha256Digest digest;
  unsigned size = 0;
  CHECK(EVP_DigestFinal_ex(context_, reinterpret_cast<unsigned char*>(digest.data()), &size) == 1);
  CHECK_EQ(size, digest.size());
  begin();
  return digest;
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) append_hex(hex, static_cast<uint64_t>(byte), 2);
  return hex;
}

}  // namespace ibid
