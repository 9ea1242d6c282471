#include "net/sealer.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/private_file.h"
#include "base/text.h"

namespace ibid::net {

namespace {

constexpr std::array<std::byte, 4> kMagic = {std::byte{'i'}, std::byte{'b'}, std::byte{'S'}, std::byte{'1'}};
constexpr size_t kNonceBytes = 12, kTagBytes = 16, kHeaderBytes = 20, kMaxKeys = 2;
constexpr size_t kCheckedBytes = 8;         // bytes of the header that the tag covers
constexpr size_t kMaxStepBytes = 1u << 30;  // maximum bytes of one call of OpenSSL, which counts them in int
constexpr size_t kMaxKeyFileBytes = 4096;

unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* raw(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

// HKDF-SHA-256 of `key`; the label and the context are its info.
void derive(std::span<const std::byte> key, std::string_view label, std::span<const std::byte> context,
            std::span<std::byte> out) {
  static EVP_KDF* const kdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> use(kdf == nullptr ? nullptr : EVP_KDF_CTX_new(kdf),
                                                                      EVP_KDF_CTX_free);
  if (use == nullptr) throw std::bad_alloc();
  std::string info(label);
  info.append(reinterpret_cast<const char*>(context.data()), context.size());
  char digest[] = "SHA256";
  char salt[] = "ibid shared store";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, const_cast<std::byte*>(key.data()), key.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt, sizeof salt - 1),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()), OSSL_PARAM_construct_end()};
  if (EVP_KDF_derive(use.get(), raw(out.data()), out.size(), parameters) != 1) throw std::bad_alloc();
}

// AES-256-GCM with the key of one name.
class Cipher {
 public:
  enum class Direction { kOpen = 0, kSeal = 1 };
  Cipher(std::span<const std::byte> key, std::string_view name, Direction direction)
      : context_(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free), direction_(static_cast<int>(direction)) {
    if (context_ == nullptr) throw std::bad_alloc();
    derive(key, "record ", std::as_bytes(std::span(name)), own_key_);
  }

  // Begins with a sealed value's header and the name, which are authenticated only.
  void begin(const std::byte* header, std::string_view name) {
    static EVP_CIPHER* const algorithm = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
    if (algorithm == nullptr || EVP_CipherInit_ex2(context_.get(), algorithm, raw(own_key_.data()),
                                                   raw(header + kCheckedBytes), direction_, nullptr) != 1) {
      throw std::bad_alloc();
    }
    int n = 0;
    CHECK(EVP_CipherUpdate(context_.get(), nullptr, &n, raw(header), static_cast<int>(kCheckedBytes)) == 1);
    const auto* text = reinterpret_cast<const unsigned char*>(name.data());
    CHECK(EVP_CipherUpdate(context_.get(), nullptr, &n, text, static_cast<int>(name.size())) == 1);
  }

  void update(std::span<const std::byte> in, std::byte* out) {
    while (!in.empty()) {
      const size_t n = std::min(in.size(), kMaxStepBytes);
      int n_out = 0;
      CHECK(EVP_CipherUpdate(context_.get(), raw(out), &n_out, raw(in.data()), static_cast<int>(n)) == 1);
      out += n;
      in = in.subspan(n);
    }
  }

  void set_tag(std::byte* tag) {
    CHECK(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_GCM_SET_TAG, static_cast<int>(kTagBytes), tag) == 1);
  }
  void get_tag(std::byte* tag) {
    CHECK(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_GCM_GET_TAG, static_cast<int>(kTagBytes), tag) == 1);
  }
  // False if the tag does not match.
  bool finish() {
    int n = 0;
    unsigned char none[16];
    return EVP_CipherFinal_ex(context_.get(), none, &n) == 1;
  }

 private:
  const std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> context_;
  const int direction_;
  std::array<std::byte, 32> own_key_{};
};

}  // namespace

Result<Sealer> Sealer::read(const std::string& path) {
  TRY_ASSIGN(const std::string text, read_private_file(path, kMaxKeyFileBytes));
  return parse(text, path);
}

Result<Sealer> Sealer::parse(std::string_view text, const std::string& what) {
  Sealer sealer;
  size_t number = 0;
  Status status;
  for_each_piece(text, '\n', [&](std::string_view line) {
    ++number;
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) return false;
    Key key{};
    bool is_key = line.size() == 2 * kKeyBytes;
    for (size_t i = 0; is_key && i < line.size(); ++i) {
      const int digit = hex_digit(line[i]);
      is_key = digit >= 0;
      if (is_key) key.bytes[i / 2] |= static_cast<std::byte>(i % 2 == 0 ? digit << 4 : digit);
    }
    const std::string place = what + ", line " + std::to_string(number) + ": ";
    if (!is_key) {
      status = {ErrorCode::kInvalidArgument,
                place + "a key must have 64 hexadecimal digits; `openssl rand -hex 32` makes one"};
    } else if (sealer.keys_.size() == kMaxKeys) {
      status = {ErrorCode::kInvalidArgument, place + "a third key; allowed: the key, and the one that it replaces"};
    } else {
      derive(key.bytes, "id", {}, key.id);
      sealer.keys_.push_back(key);
    }
    return !status.ok();
  });
  TRY(status);
  if (sealer.keys_.empty())
    return {ErrorCode::kInvalidArgument, what + ": contains no key; `openssl rand -hex 32` makes one"};
  return sealer;
}

Status Sealer::seal(std::string_view name, std::span<const std::span<const std::byte>> pieces,
                    std::vector<std::byte>& sealed) const {
  size_t n_bytes = kOverheadBytes;
  for (const std::span<const std::byte> piece : pieces) n_bytes += piece.size();
  sealed.resize(n_bytes);
  const Key& key = keys_.front();
  std::ranges::copy(kMagic, sealed.begin());
  std::ranges::copy(key.id, sealed.begin() + kMagic.size());
  if (RAND_bytes(raw(sealed.data() + kCheckedBytes), static_cast<int>(kNonceBytes)) != 1) {
    return {ErrorCode::kIo, "the system has no random bytes"};
  }
  Cipher cipher(key.bytes, name, Cipher::Direction::kSeal);
  cipher.begin(sealed.data(), name);
  std::byte* out = sealed.data() + kHeaderBytes;
  for (const std::span<const std::byte> piece : pieces) {
    cipher.update(piece, out);
    out += piece.size();
  }
  CHECK(cipher.finish());
  cipher.get_tag(out);
  return {};
}

Result<std::span<std::byte>> Sealer::open(std::string_view name, std::span<std::byte> sealed) const {
  if (sealed.size() < kOverheadBytes) return {ErrorCode::kTruncated, "sealed value: shorter than its header"};
  if (!std::ranges::equal(sealed.first(kMagic.size()), kMagic)) {
    return {ErrorCode::kMismatch, "sealed value: not sealed"};
  }
  const auto key = std::ranges::find_if(keys_, [&](const Key& candidate) {
    return std::ranges::equal(sealed.subspan(kMagic.size(), kIdBytes), candidate.id);
  });
  if (key == keys_.end()) return {ErrorCode::kMismatch, "sealed value: sealed with another key"};
  Cipher cipher(key->bytes, name, Cipher::Direction::kOpen);
  cipher.begin(sealed.data(), name);
  const std::span<std::byte> value = sealed.subspan(kHeaderBytes, sealed.size() - kOverheadBytes);
  cipher.update(value, value.data());
  cipher.set_tag(value.data() + value.size());
  if (!cipher.finish()) return {ErrorCode::kCorrupt, "sealed value: its tag does not match"};
  return value;
}

std::array<std::byte, 16> Sealer::hidden_name(size_t key, std::span<const std::byte> name) const {
  std::array<std::byte, 16> hidden;
  derive(keys_[key].bytes, "name ", name, hidden);
  return hidden;
}

}  // namespace ibid::net
