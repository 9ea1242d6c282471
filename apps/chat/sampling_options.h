// The options of one answer that have a name and a value: one table for the command line, the config file, the
// recommendations in the model catalog and the commands of a chat, so that all of them know the same names, ranges
// and words.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ibid/session_options.h"
#include "ibid/turn.h"

namespace ibid {

struct SamplingOption {
  const char* flags;   // as on the command line, the name first: "--temperature,--temp"
  const char* value;   // what stands for the value in help: "T"
  const char* help;
  bool common;         // what people look for first
  // Reads `text` into the options. kInvalidArgument, and no change, for what is no such value or out of range; the
  // message says the value and what is allowed, and leaves the option's name to the caller.
  Status (*set)(TurnOptions& options, std::string_view text);
  // The value as set() takes it.
  std::string (*get)(const TurnOptions& options);

  std::string name() const;  // "temperature"
};

std::span<const SamplingOption> sampling_options();
// By any of its names, with or without the dashes. nullptr: no such option.
const SamplingOption* find_sampling_option(std::string_view name);

// Sets one option by any of its names.
// Errors: kInvalidArgument, with the name, for an unknown one and for those of SamplingOption::set().
Status apply_sampling(TurnOptions& options, std::string_view name, std::string_view value);

// The options that chat and ask begin with: the library's defaults, but an answer ends when it repeats itself, and
// after a quarter of the context, so that no answer fills a conversation for good.
TurnOptions terminal_defaults(size_t max_seq_len);

// The options that differ from the library's defaults, as words of the command line: "--repeat-penalty 1.1
// --repeat-last-n 64".
std::string describe_sampling(const TurnOptions& options);

// The words of --when-full and /when-full, which say what happens when the context is full.
inline constexpr std::array<std::string_view, 3> kWhenFullNames = {"error", "drop", "cut"};  // as WhenFull

inline std::string_view when_full_name(WhenFull policy) { return kWhenFullNames[static_cast<size_t>(policy)]; }

inline std::optional<WhenFull> when_full_by_name(std::string_view name) {
  for (size_t i = 0; i < kWhenFullNames.size(); ++i) {
    if (kWhenFullNames[i] == name) return static_cast<WhenFull>(i);
  }
  return std::nullopt;
}

}  // namespace ibid
