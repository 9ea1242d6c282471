#include "tests/support/faulty_file_ops.h"

#include <utility>

namespace ibid {

namespace {

class FaultyFile : public File {
 public:
  FaultyFile(std::unique_ptr<File> file, FaultyFileOps& ops) : file_(std::move(file)), ops_(ops) {}

  Result<size_t> read_at(uint64_t offset, std::span<std::byte> out) override {
    TRY(ops_.next_call("read_at"));
    return file_->read_at(offset, out);
  }
  Status write(std::span<const std::byte> bytes) override {
    if (Status status = ops_.next_call("write"); !status.ok()) {
      static_cast<void>(file_->write(bytes.first(bytes.size() / 2)));
      return status;
    }
    return file_->write(bytes);
  }
  Status sync() override {
    TRY(ops_.next_call("sync"));
    return file_->sync();
  }
  Result<uint64_t> size() override {
    TRY(ops_.next_call("size"));
    return file_->size();
  }
  Status close() override {
    const Status status = ops_.next_call("close");
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

Result<std::unique_ptr<Directory>> wrap(Result<std::unique_ptr<Directory>> opened, FaultyFileOps& ops);

class FaultyDirectory : public Directory {
 public:
  FaultyDirectory(std::unique_ptr<Directory> directory, FaultyFileOps& ops)
      : directory_(std::move(directory)), ops_(ops) {}

  Result<std::unique_ptr<File>> open_to_read(const std::string& name) override {
    TRY(ops_.next_call("open_to_read"));
    return wrap(directory_->open_to_read(name), ops_);
  }
  Result<std::unique_ptr<File>> create_new(const std::string& name) override {
    TRY(ops_.next_call("create_new"));
    return wrap(directory_->create_new(name), ops_);
  }
  Result<std::unique_ptr<Directory>> open_directory(const std::string& name) override {
    TRY(ops_.next_call("open_directory"));
    return wrap(directory_->open_directory(name), ops_);
  }
  Result<FileInfo> info(const std::string& name) override {
    TRY(ops_.next_call("info"));
    return directory_->info(name);
  }
  Status set_mtime(const std::string& name, int64_t mtime_ns) override {
    TRY(ops_.next_call("set_mtime"));
    return directory_->set_mtime(name, mtime_ns);
  }
  Result<std::unique_ptr<FileLock>> lock(const std::string& name) override {
    TRY(ops_.next_call("lock"));
    return directory_->lock(name);
  }
  Status rename(const std::string& name, Directory& to, const std::string& new_name) override {
    TRY(ops_.next_call("rename"));
    return directory_->rename(name, *static_cast<FaultyDirectory&>(to).directory_, new_name);
  }
  Status remove(const std::string& name) override {
    TRY(ops_.next_call("remove"));
    return directory_->remove(name);
  }
  Status sync() override {
    TRY(ops_.next_call("sync_directory"));
    return directory_->sync();
  }
  Result<std::vector<std::string>> list() override {
    TRY(ops_.next_call("list"));
    return directory_->list();
  }

 private:
  std::unique_ptr<Directory> directory_;
  FaultyFileOps& ops_;
};

Result<std::unique_ptr<Directory>> wrap(Result<std::unique_ptr<Directory>> opened, FaultyFileOps& ops) {
  TRY_ASSIGN(std::unique_ptr<Directory> directory, std::move(opened));
  return std::unique_ptr<Directory>(std::make_unique<FaultyDirectory>(std::move(directory), ops));
}

}  // namespace

Status FaultyFileOps::next_call(std::string_view what) {
  if (before_call) before_call(what);
  const int call = calls_++;
  const int fail_at = fail_at_;
  if (fail_at < 0 || call < fail_at || (call > fail_at && !crashing_)) return {};
  return errno_status(error_number_, "call " + std::to_string(call), "go on: a fault was injected");
}

Result<std::unique_ptr<File>> FaultyFileOps::open_to_read(const std::string& path) {
  TRY(next_call("open_to_read"));
  return wrap(files_.open_to_read(path), *this);
}

Result<std::unique_ptr<File>> FaultyFileOps::create(const std::string& path) {
  TRY(next_call("create"));
  return wrap(files_.create(path), *this);
}

Result<std::unique_ptr<File>> FaultyFileOps::create_new(const std::string& path) {
  TRY(next_call("create_new"));
  return wrap(files_.create_new(path), *this);
}

Result<FileInfo> FaultyFileOps::info(const std::string& path) {
  TRY(next_call("info"));
  return files_.info(path);
}

Result<std::unique_ptr<FileLock>> FaultyFileOps::lock(const std::string& path) {
  TRY(next_call("lock"));
  return files_.lock(path);
}

Status FaultyFileOps::rename(const std::string& from, const std::string& to) {
  TRY(next_call("rename"));
  return files_.rename(from, to);
}

Status FaultyFileOps::remove(const std::string& path) {
  TRY(next_call("remove"));
  return files_.remove(path);
}

Status FaultyFileOps::make_directory(const std::string& path) {
  TRY(next_call("make_directory"));
  return files_.make_directory(path);
}

Result<std::unique_ptr<Directory>> FaultyFileOps::open_directory(const std::string& path) {
  TRY(next_call("open_directory"));
  return wrap(files_.open_directory(path), *this);
}

Status FaultyFileOps::sync_directory(const std::string& path) {
  TRY(next_call("sync_directory"));
  return files_.sync_directory(path);
}

Result<std::vector<std::string>> FaultyFileOps::list(const std::string& path) {
  TRY(next_call("list"));
  return files_.list(path);
}

}  // namespace ibid
