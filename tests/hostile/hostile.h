// Shared by the tests of hostile files: builds bytes by hand, and checks how a file is refused.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "tests/hostile/allocation_watch.h"
#include "tests/support/temp_dir.h"
#include "tests/support/touch_everything.h"
#include "weights/model_file.h"

namespace ibid {

// Bytes built by hand, little endian.
class Bytes {
 public:
  template <typename T>
  Bytes& put(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Bytes& raw(std::string_view bytes) {
    text_.append(bytes);
    return *this;
  }
  // A GGUF string: u64 length and its bytes.
  Bytes& string(std::string_view bytes) { return put(uint64_t{bytes.size()}).raw(bytes); }
  // Appends zeros up to a multiple of 32, then `n` bytes of data.
  Bytes& data(size_t n) {
    text_.resize((text_.size() + 31) / 32 * 32 + n, '\0');
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Returns the beginning of a GGUF file, up to its first metadata key.
inline Bytes gguf(uint64_t n_tensors, uint64_t n_keys) {
  return Bytes().raw("GGUF").put(uint32_t{3}).put(n_tensors).put(n_keys);
}

// More heap than the index of a small file needs, and far less than an allocation of any of the hostile counts.
inline size_t allowed_heap(size_t file_bytes) { return (size_t{1} << 20) + 4 * file_bytes; }

// Expects opening `path` to fail with `code` and a message that has the file's directory and `words`, without
// allocating more than allowed_heap(file_bytes).
inline void expect_path_refused(const std::string& path, size_t file_bytes, ErrorCode code, std::string_view words,
                                const OpenOptions& options = {}) {
  const AllocationWatch watch;
  const Status status = open_model_file(path, options).status();
  EXPECT_LE(watch.peak_bytes(), allowed_heap(file_bytes));
  EXPECT_EQ(error_code_name(status.code()), error_code_name(code)) << status.message();
  EXPECT_THAT(status.message(), testing::HasSubstr(std::string(words)));
  const std::string directory = path.substr(0, path.find_last_of('/'));
  EXPECT_THAT(status.message(), testing::HasSubstr(directory)) << "the message must name the file";
}

inline void expect_refused(const std::string& bytes, ErrorCode code, std::string_view words,
                           std::string_view name = "hostile.gguf") {
  const TempDir dir;
  expect_path_refused(dir.write(name, bytes), bytes.size(), code, words);
}

inline void expect_refused(const Bytes& bytes, ErrorCode code, std::string_view words) {
  expect_refused(bytes.text(), code, words);
}

}  // namespace ibid
