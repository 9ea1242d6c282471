// The config file: options that a person wants every time, and presets that have a name. TOML with texts, numbers, true
// and false, and arrays of them; dates and arrays within arrays are refused.
//
//   model = "smollm2"          # every command that has the option
//   [chat]                     # one command
//   when-full = "drop"
//   [preset.brief]             # chat and ask with --preset brief
//   system = "You are brief."
//   temperature = 0.3
//
// The command line overrides the preset, the preset the command's table, and that the top of the file.
#pragma once

#include <CLI/App.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ibid {

struct ConfigSetting {
  std::string table;                // "", "chat", "preset.brief"
  std::string name;                 // an option without its dashes; '_' in a file is '-'
  std::vector<std::string> values;  // one, or those of an array
  size_t line = 0;                  // counted from 1
};

struct ConfigTable {
  std::string name;
  size_t line = 0;
};

struct Config {
  std::string path;
  std::vector<ConfigSetting> settings;
  std::vector<ConfigTable> tables;  // all that were named, empty ones included
};

// kBadHeader: "PATH:LINE: what is wrong".
Result<Config> parse_config(std::string_view text, const std::string& path);

// Declares --config on every command that has an option to configure, and --preset on those that answer; once a
// command line is parsed, what it leaves open is taken from the file. Errors are CLI::ValidationError and name file
// and line. REQUIRES: all commands are declared. `root` must outlive the parsing.
void use_config_file(CLI::App& root);

}  // namespace ibid
