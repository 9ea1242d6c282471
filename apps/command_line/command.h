// The subcommands of `ibid`. Each add_*() declares its options on `root` and, when the command line names it,
// runs and leaves the exit status in `exit_code`: 0, 1 for a failure explained in one sentence on stderr,
// 2 for wrong usage. Results go to stdout, everything else to stderr.
#pragma once

#include <CLI/App.hpp>

#include "base/result.h"

namespace ibid {

// "ibid: <message>" on stderr; returns 1.
int report(const Status& status);
// The error of a standard output that takes no more: a full disk, say.
Status cannot_write();
// The exit status for a standard output whose reader is gone (`| head -1`), as a shell reports SIGPIPE.
inline constexpr int kReaderGone = 141;
inline constexpr int kInterruptedStatus = 130;  // as shells report a program that Ctrl-C ended
inline constexpr int kWrongUsage = 2;

void add_chat(CLI::App& root, int& exit_code);
void add_ask(CLI::App& root, int& exit_code);
void add_serve(CLI::App& root, int& exit_code);
void add_bench(CLI::App& root, int& exit_code);
void add_sessions(CLI::App& root, int& exit_code);
void add_models(CLI::App& root, int& exit_code);
void add_pull(CLI::App& root, int& exit_code);
void add_convert(CLI::App& root, int& exit_code);
void add_inspect(CLI::App& root, int& exit_code);
void add_tokenize(CLI::App& root, int& exit_code);
void add_render(CLI::App& root, int& exit_code);
void add_logits(CLI::App& root, int& exit_code);
void add_perplexity(CLI::App& root, int& exit_code);

}  // namespace ibid
