#include "weights/gguf_stream.h"

#include <filesystem>
#include <utility>
#include <vector>

namespace ibid {

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
