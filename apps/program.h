// The whole command line: what `ibid` understands, as one tree of CLI11 definitions. The help, the completions and
// the man pages are made of the same tree.
#pragma once

#include <CLI/App.hpp>
#include <memory>

namespace ibid {

// Commands leave their exit status in `exit_code`, which must outlive the program.
std::unique_ptr<CLI::App> make_program(int& exit_code);

// Parses and runs. Returns the exit status, whatever happens: an exception that nobody caught is one sentence and 1.
int run_program(int argc, char** argv);

}  // namespace ibid
