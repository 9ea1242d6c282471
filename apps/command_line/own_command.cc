#include "apps/command_line/own_command.h"

#include <cstdlib>

namespace ibid {

std::string own_command(const std::string& words) {
  const char* program = std::getenv("IBID_COMMAND");
  return "`" + std::string(program == nullptr || *program == 0 ? "ibid" : program) + " " + words + "`";
}

}  // namespace ibid
