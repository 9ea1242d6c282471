// Paths that are not models, and files that change while they are open: cases 54 to 59 of README.md.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/hostile/hostile.h"
#include "tests/support/gguf_tensors.h"
#include "tests/weights/safetensors_bytes.h"
#include "weights/gguf_writer.h"

namespace ibid {
namespace {

std::string small_model() {
  GgufWriter writer;
  add_tensor_of(writer, "w", DType::kF32, {{1024}, 1}, std::vector<float>(1024, 1.0f));
  return writer.bytes();
}

TEST(HostilePaths, Case054DirectoriesWithoutAModelAreRefused) {
  const TempDir dir;
  expect_path_refused(dir.path() + "/", 0, ErrorCode::kNotFound, "holds no config.json");
  dir.write("config.json", "{}");
  expect_path_refused(dir.path() + "/", 0, ErrorCode::kNotFound, "holds neither model.safetensors nor");
  std::filesystem::create_directory(dir.file("model.safetensors"));
  expect_path_refused(dir.path() + "/", 0, ErrorCode::kNotRegularFile, "a directory");
}

TEST(HostilePaths, Case055FifosDoNotBlock) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo(dir.file("model.gguf").c_str(), 0600), 0);
  expect_path_refused(dir.file("model.gguf"), 0, ErrorCode::kNotRegularFile, "a FIFO");
  ASSERT_EQ(::mkfifo(dir.file("config.json").c_str(), 0600), 0);
  expect_path_refused(dir.path() + "/", 0, ErrorCode::kNotRegularFile, "a FIFO");
}

TEST(HostilePaths, Case056DevicesAreRefused) {
  for (const char* path : {"/dev/zero", "/dev/null", "/dev/full"}) {
    expect_path_refused(path, 0, ErrorCode::kNotRegularFile, "a device");
  }
}

TEST(HostilePaths, Case057DanglingSymlinkAndMissingFileAreRefused) {
  const TempDir dir;
  std::filesystem::create_symlink("nowhere", dir.file("link.gguf"));
  expect_path_refused(dir.file("link.gguf"), 0, ErrorCode::kIo, std::strerror(ENOENT));
  expect_path_refused(dir.file("missing.gguf"), 0, ErrorCode::kIo, std::strerror(ENOENT));
  std::filesystem::create_symlink("loop", dir.file("loop"));
  expect_path_refused(dir.file("loop"), 0, ErrorCode::kIo, std::strerror(ELOOP));
}

TEST(HostilePaths, Case058UnreadableFileIsRefused) {
  const TempDir dir;
  const std::string path = dir.write("model.gguf", small_model());
  ASSERT_EQ(::chmod(dir.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  // Root can read every file, so switch to the user nobody for this check.
  const uid_t user = ::geteuid();
  if (user == 0) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  expect_path_refused(path, 0, ErrorCode::kIo, std::strerror(EACCES));
  ASSERT_EQ(::seteuid(user), 0);
}

TEST(HostilePaths, Case059FileChangedWhileOpenIsReported) {
  const TempDir dir;
  const std::string path = dir.write("model.gguf", small_model());
  const auto file = open_model_file(path);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE((*file)->check_unchanged().ok());
  std::filesystem::resize_file(path, 100);
  const Status status = (*file)->check_unchanged();
  EXPECT_EQ(status.code(), ErrorCode::kChangedOnDisk);
  EXPECT_THAT(status.message(), testing::HasSubstr(path));
}

// However much of the file is left, reading all of it must end, and the change must be reported.
TEST(HostilePaths, Case059FileTruncatedWhileReadIsReported) {
  GgufWriter writer;
  std::vector<std::string> words(2000);
  for (size_t i = 0; i < words.size(); ++i) words[i] = "word " + std::to_string(i);
  writer.add_strings("tokens", words);
  add_tensor_of(writer, "w", DType::kF32, {{100, 100}, 2}, std::vector<float>(10000, 1.0f));
  const std::string bytes = writer.bytes();
  const TempDir dir;
  for (size_t left = 0; left < bytes.size(); left += 3001) {
    const std::string path = dir.write("model.gguf", bytes);
    const auto file = open_model_file(path);
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    std::filesystem::resize_file(path, left);
    touch_everything(**file);
    EXPECT_EQ((*file)->check_unchanged().code(), ErrorCode::kChangedOnDisk) << left;
    EXPECT_NE((*file)->find_tensor("w"), nullptr) << "names were copied at open";
  }
}

// Lengths that were validated when the file was opened may have changed.
TEST(HostilePaths, Case059FileOverwrittenWhileReadNeverCrashes) {
  GgufWriter writer;
  writer.add_strings("tokens", std::vector<std::string>(2000, "word"));
  const std::string bytes = writer.bytes();
  const TempDir dir;
  for (const char c : {'\xFF', '\x7F', '\x01', '\0'}) {
    const std::string path = dir.write("model.gguf", bytes);
    const auto file = open_model_file(path);
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << std::string(bytes.size(), c);
    touch_everything(**file);
    EXPECT_EQ((*file)->check_unchanged().code(), ErrorCode::kChangedOnDisk);
  }
}

TEST(HostilePaths, Case059FileReplacedWhileOpenStaysReadable) {
  // Renaming a file over the path does not affect readers that have the old file open.
  const TempDir dir;
  const std::string path = dir.write("model.gguf", small_model());
  const auto file = open_model_file(path);
  ASSERT_TRUE(file.ok());
  std::filesystem::rename(dir.write("other", "not a model"), path);
  EXPECT_TRUE((*file)->check_unchanged().ok());
  touch_everything(**file);
  EXPECT_EQ(open_model_file(path).status().code(), ErrorCode::kBadMagic);
}

TEST(HostilePaths, Case059ShardChangedWhileOpenIsReported) {
  const TempDir dir;
  dir.write("config.json", "{}");
  dir.write("model.safetensors.index.json", R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})");
  dir.write("1.safetensors", safetensors_bytes({{"a", "U8", "[1]", "x"}}));
  const std::string second = dir.write("2.safetensors", safetensors_bytes({{"b", "U8", "[1]", "x"}}));
  const auto file = open_model_file(dir.path());
  ASSERT_TRUE(file.ok());
  std::ofstream(second, std::ios::app) << "more";
  EXPECT_EQ((*file)->check_unchanged().code(), ErrorCode::kChangedOnDisk);
}

}  // namespace
}  // namespace ibid
