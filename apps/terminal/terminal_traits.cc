#include "apps/terminal/terminal_traits.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace ibid {
namespace {

constexpr size_t kUsualHeight = 24;

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

}  // namespace

size_t terminal_width(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualWidth;
}

size_t terminal_height(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : kUsualHeight;
}

bool obeys_sequences(int fd) {
  const std::string_view term = environment("TERM");
  return isatty(fd) == 1 && !term.empty() && term != "dumb";
}

bool shows_colours(int fd) { return obeys_sequences(fd) && environment("NO_COLOR").empty(); }

}  // namespace ibid
