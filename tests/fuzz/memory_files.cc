#include "tests/fuzz/memory_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "base/check.h"
#include "base/write_all.h"

namespace ibid::fuzz {

MemoryFile::MemoryFile() : fd_(memfd_create("input", MFD_CLOEXEC)), path_("/proc/self/fd/" + std::to_string(fd_)) {
  CHECK(fd_ >= 0);
}

MemoryFile::~MemoryFile() { ::close(fd_); }

const std::string& MemoryFile::write(std::string_view content) const {
  CHECK(::ftruncate(fd_, 0) == 0 && ::lseek(fd_, 0, SEEK_SET) == 0);
  CHECK(write_all(fd_, content));
  return path_;
}

MemoryDirectory::MemoryDirectory() {
  // `./run test` sets TMPDIR to a folder, and later checks for files left there.
  const char* chosen = std::getenv("TMPDIR");
  const std::string folder = chosen != nullptr ? chosen : ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  std::string name = folder + "/ibid-fuzz-XXXXXX";
  CHECK(::mkdtemp(name.data()) != nullptr) << name;
  path_ = name;
}

MemoryDirectory::~MemoryDirectory() {
  clear();
  ::rmdir(path_.c_str());
}

std::string MemoryDirectory::write(const std::string& name, std::string_view content) {
  std::string path = path_ + "/" + name;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  CHECK(fd >= 0) << path;
  CHECK(write_all(fd, content));
  ::close(fd);
  files_.push_back(path);
  return path;
}

void MemoryDirectory::clear() {
  for (const std::string& file : files_) ::unlink(file.c_str());
  files_.clear();
}

}  // namespace ibid::fuzz
