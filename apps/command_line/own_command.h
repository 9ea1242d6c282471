// A command of this program as advice names it: in backticks, and as a person can type it.
#pragma once

#include <string>

namespace ibid {

// "`ibid pull smollm2`" for "pull smollm2". $IBID_COMMAND stands for "ibid" where it is set: `./run` sets it, because
// the program that it built is not on the PATH.
std::string own_command(const std::string& words);

}  // namespace ibid
