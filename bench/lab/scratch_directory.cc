#include "bench/lab/scratch_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/file_ops.h"

namespace ibid {

namespace fs = std::filesystem;

Result<std::unique_ptr<ScratchDirectory>> ScratchDirectory::create() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  if (error) return errno_status(error.value(), "$TMPDIR", "find the directory for temporary files");
  std::string path = (parent / "ibid_bench_XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) return errno_status(errno, path, "make a temporary directory");
  return std::unique_ptr<ScratchDirectory>(new ScratchDirectory(std::move(path)));
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void ScratchDirectory::empty() const {
  std::error_code ignored;
  for (fs::directory_iterator entry(path_, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    std::error_code busy;
    fs::remove_all(entry->path(), busy);
  }
}

void ScratchDirectory::forget_files() const {
  std::error_code ignored;
  for (fs::recursive_directory_iterator entry(path_, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    std::error_code unknown;
    if (!entry->is_regular_file(unknown)) continue;
    const int file = ::open(entry->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) continue;
    (void)::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
  }
}

}  // namespace ibid
