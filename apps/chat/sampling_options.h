// The table of the named options of an answer. The command line, the config file, the model catalog and the chat
// commands use it, so all have the same names, ranges and values.
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
  const char* flags;  // names as on the command line, the main name first: "--temperature,--temp"
  const char* value;  // placeholder of the value in help: "T"
  const char* help;
  bool common;  // help lists this option among the first
  // Parses `text` and sets the option. kInvalidArgument, and no change, if the text is malformed or out of range; the
  // message has the value and the allowed range, and the caller adds the option's name.
  Status (*set)(TurnOptions& options, std::string_view text);
  // Returns the value in the notation that set() accepts.
  std::string (*get)(const TurnOptions& options);

  std::string name() const;  // "temperature"
};

std::span<const SamplingOption> sampling_options();
// Finds an option by any of its names, with or without dashes. nullptr: not found.
const SamplingOption* find_sampling_option(std::string_view name);

// Sets an option by any of its names. Errors, with the name: kInvalidArgument for an unknown name; those of
// SamplingOption::set().
Status apply_sampling(TurnOptions& options, std::string_view name, std::string_view value);

// Returns the defaults of chat and ask: the library's, but answers also end at a quarter of the context and when they
// repeat themselves (guard_answer()).
TurnOptions terminal_defaults(size_t max_seq_len);

// Returns the options that differ from the library's defaults, in command-line syntax: "--repeat-penalty 1.1
// --repeat-last-n 64".
std::string describe_sampling(const TurnOptions& options);

// Values of --when-full and /when-full, the policies for a full context.
inline constexpr std::array<std::string_view, 3> kWhenFullNames = {"error", "drop", "cut"};  // indexed by WhenFull

inline std::string_view when_full_name(WhenFull policy) { return kWhenFullNames[static_cast<size_t>(policy)]; }

inline std::optional<WhenFull> when_full_by_name(std::string_view name) {
  for (size_t i = 0; i < kWhenFullNames.size(); ++i) {
    if (kWhenFullNames[i] == name) return static_cast<WhenFull>(i);
  }
  return std::nullopt;
}

}  // namespace ibid
