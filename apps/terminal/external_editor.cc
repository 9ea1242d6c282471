#include "apps/terminal/external_editor.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "apps/terminal/key_reader.h"
#include "base/file_ops.h"
#include "base/utf8.h"

namespace ibid {
namespace {

constexpr uint64_t kMaxBytes = 16'000'000;

std::string editor_command() {
  for (const char* name : {"VISUAL", "EDITOR"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != 0) return value;
  }
  return "vi";
}

// Removes the file, and what editors like to leave beside it, at the end of the scope.
class EditedFile {
 public:
  static Result<EditedFile> create(const std::string& text) {
    const char* directory = std::getenv("TMPDIR");
    std::string path = (directory == nullptr || *directory == 0 ? "/tmp" : directory) + std::string("/ibid-XXXXXX.md");
    const int fd = mkstemps(path.data(), 3);  // 0600
    if (fd < 0) return errno_status(errno, path, "create");
    EditedFile file(path);
    const std::string content = text.empty() ? text : text + "\n";
    const bool written = write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size());
    if (close(fd) != 0 || !written) return Status(ErrorCode::kIo, path + ": cannot be written");
    return file;
  }
  EditedFile(EditedFile&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  EditedFile& operator=(EditedFile&&) = delete;
  ~EditedFile() {
    if (path_.empty()) return;
    unlink(path_.c_str());
    unlink((path_ + "~").c_str());
  }
  const std::string& path() const { return path_; }

 private:
  explicit EditedFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Its exit status; Ctrl-C in the editor is the editor's.
int run(const std::string& editor, const std::string& path) {
  struct sigaction ignore {};
  struct sigaction before_interrupt {}, before_quit {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGINT, &ignore, &before_interrupt);
  sigaction(SIGQUIT, &ignore, &before_quit);
  const std::string command = editor + " \"$1\"";
  const pid_t child = fork();
  if (child == 0) {
    for (const int signal : {SIGINT, SIGQUIT, SIGTSTP, SIGPIPE}) ::signal(signal, SIG_DFL);
    dup2(STDERR_FILENO, STDOUT_FILENO);  // standard output holds answers alone
    execl("/bin/sh", "sh", "-c", command.c_str(), "ibid", path.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = -1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  sigaction(SIGINT, &before_interrupt, nullptr);
  sigaction(SIGQUIT, &before_quit, nullptr);
  return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

Result<std::string> edit_externally(const std::string& text) {
  const std::string editor = editor_command();
  TRY_ASSIGN(const EditedFile file, EditedFile::create(text));
  if (run(editor, file.path()) != 0) {
    return {ErrorCode::kInvalidArgument, "the editor '" + editor + "' failed; $VISUAL or $EDITOR names another"};
  }
  TRY_ASSIGN(const std::string edited, read_file(system_file_ops(), file.path(), kMaxBytes));
  if (!utf8_is_valid(edited)) return {ErrorCode::kInvalidArgument, "what the editor left is no UTF-8"};
  std::string clean = clean_paste(edited);
  while (clean.ends_with('\n')) clean.pop_back();
  return clean;
}

}  // namespace ibid
