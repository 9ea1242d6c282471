// GgufStream: writes a GGUF file whose tensors do not fit memory, one piece after the other, beside its place;
// close() makes it durable and finish() gives it its name. Without finish() nothing is left. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/file_ops.h"
#include "base/result.h"
#include "weights/gguf_writer.h"

namespace ibid {

class GgufStream {
 public:
  // Writes writer.header(): the tensors that were declared follow in their order. Errors: kIo.
  static Result<std::unique_ptr<GgufStream>> create(FileOps& files, const std::string& path, const GgufWriter& writer);
  ~GgufStream();
  GgufStream(const GgufStream&) = delete;
  GgufStream& operator=(const GgufStream&) = delete;

  // A piece of the current tensor; a tensor ends with end_tensor(), which pads it. Errors: kIo.
  Status write(std::span<const std::byte> bytes);
  Status end_tensor(const GgufWriter& writer);

  // The file as it is now, for its owner alone.
  const std::string& temporary_path() const { return temporary_.path; }

  // All is written: what temporary_path() names can be read. REQUIRES: called once, behind the last tensor.
  // Errors: kIo.
  Status close();
  // REQUIRES: closed. Errors: kIo.
  Status finish();

 private:
  GgufStream(FileOps& files, std::string path, TemporaryFile temporary);

  FileOps& files_;
  std::string path_;
  TemporaryFile temporary_;
  uint64_t written_ = 0;  // of the tensors' data
  bool finished_ = false;
};

}  // namespace ibid
