// The options of one answer that have a name and a value: one table for the command line, the config file, the
// recommendations in the model catalog and the commands of a chat, so that all of them know the same names, ranges
// and words.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
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
// By any of its names, with or without the dashes. nullptr: there is none.
const SamplingOption* find_sampling_option(std::string_view name);

// Sets one option by any of its names.
// Errors: kInvalidArgument, with the name, for an unknown one and for those of SamplingOption::set().
Status apply_sampling(TurnOptions& options, std::string_view name, std::string_view value);

// What chat and ask begin with: the library's defaults, but an answer ends when it repeats itself, and after a quarter
// of the context, so that no answer fills a conversation for good.
TurnOptions terminal_defaults(size_t max_seq_len);

// The options that differ from the library's defaults, as words of the command line: "--repeat-penalty 1.1
// --repeat-last-n 64".
std::string describe_sampling(const TurnOptions& options);

}  // namespace ibid
