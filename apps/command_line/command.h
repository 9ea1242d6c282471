// The common parts of the subcommands of `ibid`: exit statuses, advice, near names, options whose texts arrive as they
// were typed, numbers and words with a range that an error can name.
//
// Each add_*() declares its options on `root` and, when the command line names it, runs and leaves the exit status in
// `exit_code`: 0, 1 for a failure explained in one sentence on stderr, 2 for wrong usage. Results go to stdout,
// everything else to stderr.
#pragma once

#include <CLI/App.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// A command of this program as advice names it: in backticks, and as a person can type it.
// "`ibid pull smollm2`" for "pull smollm2". $IBID_COMMAND stands for "ibid" where it is set: `./run` sets it, because
// the program that it built is not on the PATH.
std::string own_command(const std::string& words);

// ASCII letters in lower case.
std::string lower_case(std::string_view text);

// Those of `names` that a person may have meant by `typed`, nearest first: few letters apart (Levenshtein), or one
// within the other. Case does not count.
std::vector<std::string> nearest_names(std::string_view typed, const std::vector<std::string>& names);

// The groups of a command's help, in this order.
inline constexpr const char* kCommonGroup = "Options";
inline constexpr const char* kSamplingGroup = "Sampling";
inline constexpr const char* kRareSamplingGroup = "Sampling, rarely needed";
inline constexpr const char* kRunningGroup = "How the model runs";
inline constexpr const char* kServerGroup = "A server instead of a model here";
inline constexpr const char* kConfigGroup = "Configuration and help";

// CLI11 takes an argument "[a,b]" for a list, and after "--" it may still take "-x" for an option. protect_texts()
// marks such arguments before it sees them, and what the functions below declare takes the mark off again.
std::vector<std::string> protect_texts(int argc, char** argv);
std::string protect_text(std::string text);
std::string plain_text_argument(std::string text);

// An option whose value is a text, and one that may be given several times.
CLI::Option* add_text_option(CLI::App& command, const std::string& names, std::string& text, const std::string& help);
CLI::Option* add_text_list(CLI::App& command, const std::string& names, std::vector<std::string>& texts,
                           const std::string& help);

// A whole number in this range; CLI11 itself wraps, saturates, and writes ranges with 309 digits.
CLI::Validator whole_number(uint64_t least, uint64_t most);
// One of these words.
CLI::Validator one_of(std::vector<std::string> words);

// Amounts as people write them: "8G", "512M", "30s", "5m".
// A whole number of bytes, or of K, M, G, T (1024 each); nullopt: another text, or beyond 2^63.
std::optional<uint64_t> read_bytes(std::string_view text);
// A whole number of seconds, or of ms, s, m, h; nullopt: another text, or more than a year.
std::optional<std::chrono::milliseconds> read_time(std::string_view text);
CLI::Validator amount_of_bytes();
// or_never: "never" is allowed, too.
CLI::Validator amount_of_time(bool or_never);

// `text` without the newlines at its end, which a pipe or a file has and a person does not mean.
std::string without_final_newlines(std::string text);

}  // namespace ibid
