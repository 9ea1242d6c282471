#include "tests/support/pseudo_terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"

namespace ibid {
namespace {

using std::chrono::milliseconds;

winsize size_of(size_t rows, size_t columns) {
  return {static_cast<unsigned short>(rows), static_cast<unsigned short>(columns), 0, 0};
}

void set_variable(const std::string& name, const std::string& value) {
  value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
}

void redirect(const std::string& path, int flags, int fd) {
  if (path.empty()) return;
  const int file = open(path.c_str(), flags, 0600);
  if (file < 0 || dup2(file, fd) < 0) _exit(126);
  close(file);
}

}  // namespace

PseudoTerminal::PseudoTerminal(const std::vector<std::string>& command, TerminalOptions options)
    : screen_(options.rows, options.columns) {
  for (const char* name : {"XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"}) {
    options.environment.insert({name, home_.file(name)});
  }
  options.environment.insert({"HOME", home_.path()});
  options.environment.insert({"TERM", "xterm-256color"});
  start(command, options);
}

void PseudoTerminal::start(const std::vector<std::string>& command, const TerminalOptions& options) {
  const winsize size = size_of(options.rows, options.columns);
  CHECK(openpty(&master_, &slave_, nullptr, nullptr, &size) == 0);
  fcntl(master_, F_SETFD, FD_CLOEXEC);
  fcntl(master_, F_SETFL, O_NONBLOCK);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int changes[2];
  CHECK(pipe2(changes, O_CLOEXEC) == 0);
  changes_ = changes[0];
  shell_ = fork();
  CHECK(shell_ >= 0);
  if (shell_ == 0) be_shell(arguments, options, changes[1]);
  close(changes[1]);
  CHECK(read(changes_, &pid_, sizeof(pid_)) == sizeof(pid_)) << "the program could not be started";
  fcntl(changes_, F_SETFL, O_NONBLOCK);
}

// Runs in a process between test and program, which acts as a shell: it leads the terminal's session and is the parent
// of the foreground program. Without this process Ctrl-Z would stop nothing. The process reports each status change of
// the program.
void PseudoTerminal::be_shell(const std::vector<char*>& arguments, const TerminalOptions& options, int changes) {
  login_tty(slave_);
  ::signal(SIGTTOU, SIG_IGN);
  const pid_t program = fork();
  if (program == 0) {
    setpgid(0, 0);
    tcsetpgrp(STDIN_FILENO, getpid());
    // A shell sets default signal handling, whatever the test runner ignores.
    for (const int signal : {SIGINT, SIGQUIT, SIGTSTP, SIGTTOU, SIGPIPE}) ::signal(signal, SIG_DFL);
    for (const auto& [name, value] : options.environment) set_variable(name, value);
    redirect(options.input_file, O_RDONLY, STDIN_FILENO);
    redirect(options.output_file, O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  for (const int signal : {SIGINT, SIGQUIT, SIGTSTP, SIGHUP}) ::signal(signal, SIG_IGN);
  [[maybe_unused]] ssize_t written = write(changes, &program, sizeof(program));
  int status = 0;
  do {
    if (waitpid(program, &status, WUNTRACED) != program) break;
    written = write(changes, &status, sizeof(status));
  } while (WIFSTOPPED(status));
  _exit(0);
}

PseudoTerminal::~PseudoTerminal() {
  if (!status_) kill(pid_, SIGKILL);
  waitpid(shell_, nullptr, 0);  // the shell ends after the program
  close(master_);
  close(slave_);
  close(changes_);
}

bool PseudoTerminal::read_some(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
  pollfd readable{master_, POLLIN, 0};
  if (poll(&readable, 1, static_cast<int>(std::max<int64_t>(left, 0))) <= 0) return false;
  char buffer[4096];
  const ssize_t n = read(master_, buffer, sizeof(buffer));
  if (n <= 0) return false;
  bytes_.append(buffer, static_cast<size_t>(n));
  screen_.feed(std::string_view(buffer, static_cast<size_t>(n)));
  return true;
}

void PseudoTerminal::type(std::string_view keys) {
  const Clock::time_point deadline = Clock::now() + kPatience;
  while (!keys.empty()) {
    CHECK(Clock::now() < deadline) << "the program does not read its input";
    pollfd both{master_, POLLIN | POLLOUT, 0};
    poll(&both, 1, 100);
    if ((both.revents & POLLIN) != 0) read_some(Clock::now());
    if ((both.revents & POLLOUT) == 0) continue;
    const ssize_t n = write(master_, keys.data(), std::min<size_t>(keys.size(), 512));
    if (n > 0) keys.remove_prefix(static_cast<size_t>(n));
  }
}

void PseudoTerminal::paste(std::string_view text) {
  std::string keys(text);
  std::replace(keys.begin(), keys.end(), '\n', '\r');  // terminals send line ends as \r
  type(screen_.bracketed_paste() ? "\x1b[200~" + keys + "\x1b[201~" : keys);
}

void PseudoTerminal::resize(size_t rows, size_t columns) {
  screen_.resize(rows, columns);
  const winsize size = size_of(rows, columns);
  CHECK(ioctl(master_, TIOCSWINSZ, &size) == 0);
}

testing::AssertionResult PseudoTerminal::until(const std::function<bool(const ScreenModel&)>& condition,
                                               std::string_view what) {
  const Clock::time_point deadline = Clock::now() + kPatience;
  while (!condition(screen_)) {
    // If the program has ended, read its remaining output first.
    if (!read_some(std::min(deadline, Clock::now() + milliseconds(200))) && Clock::now() >= deadline) {
      return testing::AssertionFailure() << "timed out waiting for " << what << ". The screen:\n"
                                         << screen_.everything() << "\n(cursor " << screen_.cursor_row() << ", "
                                         << screen_.cursor_column() << ")";
    }
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult PseudoTerminal::shows(std::string_view text) {
  return until([&](const ScreenModel& screen) { return screen.everything().find(text) != std::string::npos; },
               "\"" + std::string(text) + "\"");
}

testing::AssertionResult PseudoTerminal::prompts(std::string_view prompt) {
  return until(
      [&](const ScreenModel& screen) {
        std::string row = screen.row(screen.cursor_row());
        while (row.ends_with(' ')) row.pop_back();
        const std::string text = screen.text();
        return row == prompt && screen.cursor_column() == prompt.size() + 1 &&
               text.substr(text.rfind('\n') + 1).starts_with(prompt);
      },
      "the prompt");
}

bool PseudoTerminal::await_change() {
  const Clock::time_point deadline = Clock::now() + kPatience;
  int status = 0;
  while (read(changes_, &status, sizeof(status)) != sizeof(status)) {
    if (Clock::now() >= deadline) return false;
    read_some(Clock::now() + milliseconds(10));
  }
  while (read_some(Clock::now())) {
  }
  if (!WIFSTOPPED(status)) status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}

testing::AssertionResult PseudoTerminal::stops() {
  if (!await_change()) return testing::AssertionFailure() << "did not stop. The screen:\n" << screen_.everything();
  if (status_) return testing::AssertionFailure() << "the program exited with " << *status_;
  return testing::AssertionSuccess();
}

void PseudoTerminal::resume() { kill(-pid_, SIGCONT); }

bool PseudoTerminal::is_as_found() const {
  termios modes{};
  CHECK(tcgetattr(slave_, &modes) == 0);
  return (modes.c_lflag & ECHO) != 0 && (modes.c_lflag & ICANON) != 0 && (modes.c_lflag & ISIG) != 0;
}

std::optional<int> PseudoTerminal::exit_status() {
  if (!status_) await_change();
  return status_;
}

}  // namespace ibid
