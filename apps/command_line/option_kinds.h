// What the commands' options have in common: the groups of the help, texts that arrive as they were typed, numbers
// and words with a range that an error can name.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace ibid {

// The groups of a command's help, in this order.
inline constexpr const char* kCommonGroup = "Options";
inline constexpr const char* kSamplingGroup = "Sampling";
inline constexpr const char* kRareSamplingGroup = "Sampling, rarely needed";
inline constexpr const char* kRunningGroup = "How the model runs";
inline constexpr const char* kServerGroup = "A server instead of a model here";
inline constexpr const char* kConfigGroup = "Configuration and help";

// CLI11 takes an argument "[a,b]" for a list, and behind "--" it may still take "-x" for an option. protect_texts()
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

// `text` without the newlines at its end, which a pipe or a file has and a person does not mean.
std::string without_final_newlines(std::string text);

}  // namespace ibid
