// GgufWriter: builds a GGUF version 3 file in memory, or only its header if the file does not fit into memory. Not
// thread-safe. Does not validate (for example, it accepts duplicate keys), so that tests can write hostile files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/file_ops.h"
#include "base/result.h"
#include "base/tensor_view.h"
#include "weights/gguf_format.h"
#include "weights/gguf_header.h"

namespace ibid {

class GgufWriter {
 public:
  explicit GgufWriter(uint64_t alignment = kGgufDefaultAlignment) : alignment_(alignment) {}

  // --- Metadata, in the order of the calls.
  void add_u8(std::string_view key, uint8_t value) { add_scalar(key, GgufType::kU8, value); }
  void add_i8(std::string_view key, int8_t value) { add_scalar(key, GgufType::kI8, value); }
  void add_u16(std::string_view key, uint16_t value) { add_scalar(key, GgufType::kU16, value); }
  void add_i16(std::string_view key, int16_t value) { add_scalar(key, GgufType::kI16, value); }
  void add_u32(std::string_view key, uint32_t value) { add_scalar(key, GgufType::kU32, value); }
  void add_i32(std::string_view key, int32_t value) { add_scalar(key, GgufType::kI32, value); }
  void add_u64(std::string_view key, uint64_t value) { add_scalar(key, GgufType::kU64, value); }
  void add_i64(std::string_view key, int64_t value) { add_scalar(key, GgufType::kI64, value); }
  void add_f32(std::string_view key, float value) { add_scalar(key, GgufType::kF32, value); }
  void add_f64(std::string_view key, double value) { add_scalar(key, GgufType::kF64, value); }
  void add_bool(std::string_view key, bool value) { add_scalar(key, GgufType::kBool, uint8_t{value}); }
  void add_string(std::string_view key, std::string_view value);
  void add_strings(std::string_view key, std::span<const std::string> values);
  void add_u32s(std::string_view key, std::span<const uint32_t> v) { add_array(key, GgufType::kU32, v); }
  void add_i32s(std::string_view key, std::span<const int32_t> v) { add_array(key, GgufType::kI32, v); }
  void add_i8s(std::string_view key, std::span<const int8_t> v) { add_array(key, GgufType::kI8, v); }
  void add_f32s(std::string_view key, std::span<const float> v) { add_array(key, GgufType::kF32, v); }
  void add_bools(std::string_view key, const std::vector<bool>& values);
  // Copies an entry of another file.
  void add_entry(const GgufEntry& entry);

  // --- Tensors. Shapes begin with the outermost dimension, as everywhere in ibid. REQUIRES: dtype has a GGUF number;
  // `data` has exactly the tensor's bytes, which are copied.
  void add_tensor(std::string_view name, DType dtype, std::initializer_list<uint64_t> shape,
                  std::span<const std::byte> data);
  void add_tensor(std::string_view name, DType dtype, const Shape& shape, std::span<const std::byte> data);

  // Declares a tensor whose bytes the caller writes after header(). The caller writes the declared tensors in order,
  // each zero-padded to padded_bytes(). REQUIRES: dtype has a GGUF number.
  void declare_tensor(std::string_view name, DType dtype, const Shape& shape);
  // Returns all bytes before the tensor data.
  std::string header() const;
  uint64_t padded_bytes(uint64_t bytes) const;

  // Returns the whole file. REQUIRES: every tensor has its data.
  std::string bytes() const;
  // Writes bytes() to `path`, atomically. Error: kIo.
  Status write(const std::string& path) const;

 private:
  struct Tensor {
    std::string name;
    DType dtype;
    Shape shape;
    uint64_t bytes;
    std::string data;
  };

  void begin_entry(std::string_view key, GgufType type);
  void begin_array(std::string_view key, GgufType element_type, uint64_t count);
  template <typename T>
  void add_scalar(std::string_view key, GgufType type, T value) {
    begin_entry(key, type);
    metadata_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  template <typename T>
  void add_array(std::string_view key, GgufType element_type, std::span<const T> values) {
    begin_array(key, element_type, values.size());
    metadata_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  }

  uint64_t alignment_;
  uint64_t n_entries_ = 0;
  std::string metadata_;
  std::vector<Tensor> tensors_;
};

// GgufStream: writes a GGUF file whose tensors do not fit into memory. Pieces are written to a temporary file; close()
// makes it durable and finish() renames it. Without finish() the destructor removes it. Not thread-safe.
class GgufStream {
 public:
  // Creates the file and writes writer.header(); the caller then writes the declared tensors in order. Error: kIo.
  static Result<std::unique_ptr<GgufStream>> create(FileOps& files, const std::string& path, const GgufWriter& writer);
  ~GgufStream();
  GgufStream(const GgufStream&) = delete;
  GgufStream& operator=(const GgufStream&) = delete;

  // write() writes a piece of the current tensor; end_tensor() ends and pads the tensor. Error: kIo.
  Status write(std::span<const std::byte> bytes);
  Status end_tensor(const GgufWriter& writer);

  // Path of the unfinished file, which only its owner can read.
  const std::string& temporary_path() const { return temporary_.path; }

  // Syncs and closes the file; then temporary_path() can be read. REQUIRES: called once, after all tensors. Error: kIo.
  Status close();
  // Renames the file to its path. REQUIRES: close() succeeded. Error: kIo.
  Status finish();

 private:
  GgufStream(FileOps& files, std::string path, TemporaryFile temporary);

  FileOps& files_;
  std::string path_;
  TemporaryFile temporary_;
  uint64_t written_ = 0;  // number of bytes of tensor data written so far
  bool finished_ = false;
};

}  // namespace ibid
