#include "weights/gguf_writer.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/faulty_file_ops.h"
#include "tests/support/temp_dir.h"
#include "weights/gguf_reader.h"

namespace ibid {
namespace {

const Shape kVector{{5}, 1}, kMatrix{{3, 32}, 2};

GgufWriter declared() {
  GgufWriter writer;
  writer.add_string("general.architecture", "llama");
  writer.declare_tensor("a", DType::kF32, kVector);
  writer.declare_tensor("b", DType::kQ8_0, kMatrix);
  return writer;
}

Status write(FileOps& files, const std::string& path) {
  const GgufWriter writer = declared();
  TRY_ASSIGN(const std::unique_ptr<GgufStream> stream, GgufStream::create(files, path, writer));
  const std::vector<std::byte> a(20, std::byte{1}), b(3 * 34, std::byte{2});
  TRY(stream->write(a));
  TRY(stream->end_tensor(writer));
  TRY(stream->write(std::span(b).first(34)));
  TRY(stream->write(std::span(b).subspan(34)));
  TRY(stream->end_tensor(writer));
  TRY(stream->close());
  return stream->finish();
}

TEST(GgufStream, WritesTheSameBytesAsGgufWriter) {
  const TempDir dir;
  ASSERT_TRUE(write(system_file_ops(), dir.file("m.gguf")).ok());
  GgufWriter whole;
  whole.add_string("general.architecture", "llama");
  whole.add_tensor("a", DType::kF32, kVector, std::vector<std::byte>(20, std::byte{1}));
  whole.add_tensor("b", DType::kQ8_0, kMatrix, std::vector<std::byte>(3 * 34, std::byte{2}));
  EXPECT_EQ(read_file(system_file_ops(), dir.file("m.gguf"), 10000).value(), whole.bytes());
  EXPECT_TRUE(GgufFile::open(dir.file("m.gguf")).ok());
}

TEST(GgufStream, FailureAtAnyCallKeepsTheOldFile) {
  FaultyFileOps files;
  const TempDir count_dir;
  const int before = files.calls();
  ASSERT_TRUE(write(files, count_dir.file("m.gguf")).ok());
  const int n_calls = files.calls() - before;
  for (int nth = 0; nth + 1 < n_calls; ++nth) {  // all calls except the last, which makes the rename durable
    const TempDir dir;
    dir.write("m.gguf", "old");
    files.fail_call(nth, ENOSPC);
    EXPECT_EQ(write(files, dir.file("m.gguf")).code(), ErrorCode::kIo) << nth;
    files.recover();
    EXPECT_EQ(read_file(system_file_ops(), dir.file("m.gguf"), 100).value(), "old") << nth;
    size_t n_files = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir.path())) ++n_files;
    EXPECT_EQ(n_files, 1u) << nth;
  }
}

}  // namespace
}  // namespace ibid
