#include "apps/standard_output.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "apps/command.h"
#include "apps/terminal_text.h"

namespace ibid {

StandardOutput::StandardOutput() : terminal_(isatty(STDOUT_FILENO) == 1) {
  signal(SIGPIPE, SIG_IGN);  // the terminal's echo has to be put back before the end
}

void StandardOutput::write(std::string_view text) {
  if (!ok()) return;
  const std::string shown = terminal_ ? without_controls(text) : std::string(text);
  if (std::fwrite(shown.data(), 1, shown.size(), stdout) == shown.size() && std::fflush(stdout) == 0) return;
  error_ = errno;
}

Result<int> StandardOutput::exit_status() const {
  if (error_ == EPIPE) return kReaderGone;
  return cannot_write();
}

}  // namespace ibid
