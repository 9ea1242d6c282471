// The command line of `ibid` as one tree of CLI11 definitions. Help, shell completions and man pages are generated from
// it.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <memory>

namespace ibid {

// Makes the program. Its commands set `exit_code` to their exit status; `exit_code` must outlive the program.
std::unique_ptr<CLI::App> make_program(int& exit_code);

// Returns the result of `run`. An uncaught exception is reported on standard error, and the result is 1.
int exit_status_of(const std::function<int()>& run);

// Parses the arguments and runs the command. Returns the exit status. Does not throw.
int run_program(int argc, char** argv);

}  // namespace ibid
