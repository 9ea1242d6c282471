// Common parts of the subcommands of `ibid`: exit statuses, advice, similar names, text options that are not
// interpreted, and validators for numbers and words.
//
// Each add_*() declares a command on `root`. If the command line selects the command, it runs and sets `exit_code`: 0
// for success; 1 for a failure, explained in one sentence on stderr; 2 for wrong usage. Results go to stdout,
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

// Writes "ibid: <message>" to stderr; returns 1.
int report(const Status& status);
// Returns the error for a failed write to standard output, for example on a full disk.
Status cannot_write();
// Exit status if no process reads standard output any more (`| head -1`): the status that shells report for SIGPIPE.
inline constexpr int kReaderGone = 141;
inline constexpr int kInterruptedStatus = 130;  // the status that shells report for SIGINT
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
void add_accept(CLI::App& root, int& exit_code);
void add_parse(CLI::App& root, int& exit_code);
void add_logits(CLI::App& root, int& exit_code);
void add_perplexity(CLI::App& root, int& exit_code);
void add_audit(CLI::App& root, int& exit_code);

// Returns a command of this program, in backticks, for advice: "`ibid pull smollm2`" for "pull smollm2". If
// $IBID_COMMAND is set, its value replaces "ibid". The script `./run` sets it, because the program that it runs is not
// on the PATH.
std::string own_command(const std::string& words);

// Converts ASCII letters to lower case.
std::string lower_case(std::string_view text);

// Returns those of `names` of which `typed` may be a misspelling, the most similar first. Two names are similar if
// their Levenshtein distance is small, or if one contains the other. Ignores case.
std::vector<std::string> nearest_names(std::string_view typed, const std::vector<std::string>& names);

// Groups of options in a command's help, in order.
inline constexpr const char* kCommonGroup = "Options";
inline constexpr const char* kSamplingGroup = "Sampling";
inline constexpr const char* kRareSamplingGroup = "Sampling, rarely needed";
inline constexpr const char* kRunningGroup = "How the model runs";
inline constexpr const char* kServerGroup = "Use a server instead of a local model";
inline constexpr const char* kConfigGroup = "Configuration and help";

// CLI11 would parse an argument "[a,b]" as a list, and "-x" after "--" as an option in some cases. protect_texts()
// marks such arguments before parsing; add_text_option() and add_text_list() remove the mark.
std::vector<std::string> protect_texts(int argc, char** argv);
std::string protect_text(std::string text);
std::string plain_text_argument(std::string text);

// add_text_option() adds an option whose value is one text; add_text_list() adds an option that may be repeated.
CLI::Option* add_text_option(CLI::App& command, const std::string& names, std::string& text, const std::string& help);
CLI::Option* add_text_list(CLI::App& command, const std::string& names, std::vector<std::string>& texts,
                           const std::string& help);

// Validates an integer in [least, most]. Replaces CLI11's own check, which wraps, saturates, and prints ranges with 309
// digits.
CLI::Validator whole_number(uint64_t least, uint64_t most);
// Validates that the value is one of `words`.
CLI::Validator one_of(std::vector<std::string> words);

// Parses an amount of memory, "8G" or "512M": a whole number of bytes, or of K, M, G, T (powers of 1024); nullopt:
// malformed, or above 2^63.
std::optional<uint64_t> read_bytes(std::string_view text);
// Parses a time, "30s" or "5m": a whole number of seconds, or of ms, s, m, h; nullopt: malformed, or more than a year.
std::optional<std::chrono::milliseconds> read_time(std::string_view text);
// Parses a share, "1%" or "0.5%", as a number from 0 to 1; nullopt: malformed, or outside of 0% to 100%.
std::optional<double> read_share(std::string_view text);
CLI::Validator amount_of_bytes();
CLI::Validator percentage();
// Validates a time. or_never: also accepts "never".
CLI::Validator amount_of_time(bool or_never);

// Removes the newlines at the end of `text`: pipes and files usually end with one.
std::string without_final_newlines(std::string text);

}  // namespace ibid
