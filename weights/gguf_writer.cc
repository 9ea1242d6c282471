#include "weights/gguf_writer.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/checked.h"
#include "base/file_ops.h"

namespace ibid {

namespace {

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put_string(std::string& out, std::string_view text) {
  put(out, uint64_t{text.size()});
  out.append(text);
}

void pad(std::string& out, uint64_t alignment) {
  out.resize(checked_align<uint64_t>(out.size(), alignment).value(), '\0');
}

}  // namespace

void GgufWriter::begin_entry(std::string_view key, GgufType type) {
  ++n_entries_;
  put_string(metadata_, key);
  put(metadata_, static_cast<uint32_t>(type));
}

void GgufWriter::begin_array(std::string_view key, GgufType element_type, uint64_t count) {
  begin_entry(key, GgufType::kArray);
  put(metadata_, static_cast<uint32_t>(element_type));
  put(metadata_, count);
}

void GgufWriter::add_string(std::string_view key, std::string_view value) {
  begin_entry(key, GgufType::kString);
  put_string(metadata_, value);
}

void GgufWriter::add_strings(std::string_view key, std::span<const std::string> values) {
  begin_array(key, GgufType::kString, values.size());
  for (const std::string& value : values) put_string(metadata_, value);
}

void GgufWriter::add_bools(std::string_view key, const std::vector<bool>& values) {
  begin_array(key, GgufType::kBool, values.size());
  for (const bool value : values) put(metadata_, uint8_t{value});
}

void GgufWriter::add_entry(const GgufEntry& entry) {
  if (entry.type == GgufType::kArray) {
    begin_array(entry.key, entry.element_type, entry.count);
  } else {
    begin_entry(entry.key, entry.type);
    if (entry.type == GgufType::kString) put(metadata_, uint64_t{entry.payload.size()});
  }
  metadata_.append(reinterpret_cast<const char*>(entry.payload.data()), entry.payload.size());
}

void GgufWriter::add_tensor(std::string_view name, DType dtype, std::initializer_list<uint64_t> shape,
                            std::span<const std::byte> data) {
  CHECK_LE(shape.size(), size_t{kGgufMaxDims});
  Shape s;
  s.rank = shape.size();
  std::copy(shape.begin(), shape.end(), s.dims.begin());
  add_tensor(name, dtype, s, data);
}

void GgufWriter::add_tensor(std::string_view name, DType dtype, const Shape& shape, std::span<const std::byte> data) {
  CHECK(gguf_tensor_type_number(dtype).has_value()) << dtype_name(dtype);
  const BlockSize block = dtype_block(dtype);
  CHECK_EQ(data.size(), shape.elements() / block.values * block.bytes);
  tensors_.push_back({std::string(name), dtype, shape, data.size(),
                      std::string(reinterpret_cast<const char*>(data.data()), data.size())});
}

void GgufWriter::declare_tensor(std::string_view name, DType dtype, const Shape& shape) {
  CHECK(gguf_tensor_type_number(dtype).has_value()) << dtype_name(dtype);
  const BlockSize block = dtype_block(dtype);
  tensors_.push_back({std::string(name), dtype, shape, shape.elements() / block.values * block.bytes, {}});
}

uint64_t GgufWriter::padded_bytes(uint64_t bytes) const { return checked_align(bytes, alignment_).value(); }

std::string GgufWriter::header() const {
  std::string out(kGgufMagic);
  put(out, uint32_t{3});
  put(out, uint64_t{tensors_.size()});
  put(out, n_entries_ + (alignment_ == kGgufDefaultAlignment ? 0 : 1));
  out += metadata_;
  if (alignment_ != kGgufDefaultAlignment) {
    put_string(out, "general.alignment");
    put(out, static_cast<uint32_t>(GgufType::kU32));
    put(out, static_cast<uint32_t>(alignment_));
  }
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    put_string(out, tensor.name);
    put(out, static_cast<uint32_t>(tensor.shape.rank));
    for (size_t i = tensor.shape.rank; i-- > 0;) put(out, tensor.shape[i]);
    put(out, gguf_tensor_type_number(tensor.dtype).value());
    put(out, offset);
    offset = padded_bytes(offset + tensor.bytes);
  }
  if (!tensors_.empty()) pad(out, alignment_);
  return out;
}

std::string GgufWriter::bytes() const {
  std::string out = header();
  for (const Tensor& tensor : tensors_) {
    CHECK_EQ(tensor.data.size(), tensor.bytes);
    out += tensor.data;
    pad(out, alignment_);
  }
  return out;
}

Status GgufWriter::write(const std::string& path) const {
  const std::string all = bytes();
  return write_file_atomically(system_file_ops(), path, std::as_bytes(std::span(all)));
}

Result<std::unique_ptr<GgufStream>> GgufStream::create(FileOps& files, const std::string& path,
                                                       const GgufWriter& writer) {
  TRY_ASSIGN(TemporaryFile temporary, create_temporary(files, path));
  std::unique_ptr<GgufStream> stream(new GgufStream(files, path, std::move(temporary)));
  const std::string header = writer.header();
  TRY(stream->temporary_.file->write(std::as_bytes(std::span(header))));
  return stream;
}

GgufStream::GgufStream(FileOps& files, std::string path, TemporaryFile temporary)
    : files_(files), path_(std::move(path)), temporary_(std::move(temporary)) {}

GgufStream::~GgufStream() {
  if (!finished_) static_cast<void>(files_.remove(temporary_.path));
}

Status GgufStream::write(std::span<const std::byte> bytes) {
  written_ += bytes.size();
  return temporary_.file->write(bytes);
}

Status GgufStream::end_tensor(const GgufWriter& writer) {
  const std::vector<std::byte> zeros(writer.padded_bytes(written_) - written_);
  return zeros.empty() ? Status() : write(zeros);
}

Status GgufStream::close() {
  TRY(temporary_.file->sync());
  return temporary_.file->close();
}

Status GgufStream::finish() {
  TRY(files_.rename(temporary_.path, path_));
  finished_ = true;
  const std::string parent = std::filesystem::path(path_).parent_path().string();
  return files_.sync_directory(parent.empty() ? "." : parent);
}

}  // namespace ibid
