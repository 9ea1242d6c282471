// The whole command line: what `ibid` understands, as one tree of CLI11 definitions. The help, the completions and
// the man pages are made of the same tree.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <memory>

namespace ibid {

// Commands leave their exit status in `exit_code`, which must outlive the program.
std::unique_ptr<CLI::App> make_program(int& exit_code);

// Returns what `run` returns. An exception that nobody caught becomes a sentence on standard error and 1.
int exit_status_of(const std::function<int()>& run);

// Parses and runs. Returns the exit status, whatever happens.
int run_program(int argc, char** argv);

}  // namespace ibid
