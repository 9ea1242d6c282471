#include "tests/support/faulty_file_ops.h"

#include <utility>

namespace ibid {

namespace {

class FaultyFile : public File {
 public:
  FaultyFile(std::unique_ptr<File> file, FaultyFileOps& ops) : file_(std::move(file)), ops_(ops) {}

  Result<size_t> read_at(uint64_t offset, std::span<std::byte> out) override {
    TRY(ops_.next_call());
    return file_->read_at(offset, out);
  }
  Status write(std::span<const std::byte> bytes) override {
    if (Status status = ops_.next_call(); !status.ok()) {
      static_cast<void>(file_->write(bytes.first(bytes.size() / 2)));
      return status;
    }
    return file_->write(bytes);
  }
  Status sync() override {
    TRY(ops_.next_call());
    return file_->sync();
  }
  Result<uint64_t> size() override {
    TRY(ops_.next_call());
    return file_->size();
  }
  Status close() override {
    const Status status = ops_.next_call();
    TRY(file_->close());
    return status;
  }

 private:
  std::unique_ptr<File> file_;
  FaultyFileOps& ops_;
};

Result<std::unique_ptr<File>> wrap(Result<std::unique_ptr<File>> opened, FaultyFileOps& ops) {
  TRY_ASSIGN(std::unique_ptr<File> file, std::move(opened));
  return std::unique_ptr<File>(std::make_unique<FaultyFile>(std::move(file), ops));
}

}  // namespace

Status FaultyFileOps::next_call() {
  const int call = calls_++;
  const int fail_at = fail_at_;
  if (fail_at < 0 || call < fail_at || (call > fail_at && !crashing_)) return {};
  return errno_status(error_number_, "call " + std::to_string(call), "go on: a fault was injected");
}

Result<std::unique_ptr<File>> FaultyFileOps::open_to_read(const std::string& path) {
  TRY(next_call());
  return wrap(files_.open_to_read(path), *this);
}

Result<std::unique_ptr<File>> FaultyFileOps::open_to_read_no_follow(const std::string& path) {
  TRY(next_call());
  return wrap(files_.open_to_read_no_follow(path), *this);
}

Result<std::unique_ptr<File>> FaultyFileOps::create(const std::string& path) {
  TRY(next_call());
  return wrap(files_.create(path), *this);
}

Result<std::unique_ptr<File>> FaultyFileOps::create_new(const std::string& path) {
  TRY(next_call());
  return wrap(files_.create_new(path), *this);
}

Result<FileInfo> FaultyFileOps::info(const std::string& path) {
  TRY(next_call());
  return files_.info(path);
}

Status FaultyFileOps::set_mtime(const std::string& path, int64_t mtime_ns) {
  TRY(next_call());
  return files_.set_mtime(path, mtime_ns);
}

Result<std::unique_ptr<FileLock>> FaultyFileOps::lock(const std::string& path) {
  TRY(next_call());
  return files_.lock(path);
}

Status FaultyFileOps::rename(const std::string& from, const std::string& to) {
  TRY(next_call());
  return files_.rename(from, to);
}

Status FaultyFileOps::remove(const std::string& path) {
  TRY(next_call());
  return files_.remove(path);
}

Status FaultyFileOps::make_directory(const std::string& path) {
  TRY(next_call());
  return files_.make_directory(path);
}

Status FaultyFileOps::sync_directory(const std::string& path) {
  TRY(next_call());
  return files_.sync_directory(path);
}

Result<std::vector<std::string>> FaultyFileOps::list(const std::string& path) {
  TRY(next_call());
  return files_.list(path);
}

}  // namespace ibid
