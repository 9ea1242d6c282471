// The config file: default options, and named presets. TOML with strings, numbers, booleans and arrays of them; dates
// and nested arrays are rejected.
//
// model = "smollm2"          # for every command that has the option
// [chat]                     # for one command
// when-full = "drop"
// [preset.brief]             # for chat and ask with --preset brief
// system = "You are brief."
// temperature = 0.3
//
// If an option is set in several places, the first of these counts: command line, preset, table of the command, top of
// the file.
#pragma once

#include <CLI/App.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ibid {

struct ConfigSetting {
  std::string table;                // table of the setting: "", "chat", "preset.brief"
  std::string name;                 // option name without dashes; '_' in the file becomes '-'
  std::vector<std::string> values;  // one value, or the elements of an array
  size_t line = 0;                  // counted from 1
};

struct ConfigTable {
  std::string name;
  size_t line = 0;
};

struct Config {
  std::string path;
  std::vector<ConfigSetting> settings;
  std::vector<ConfigTable> tables;  // all tables, empty ones included
};

// Parses the text of a config file. Error: kBadHeader with "PATH:LINE: problem".
Result<Config> parse_config(std::string_view text, const std::string& path);

// Adds --config to every command with options that a file can set, and --preset to commands that generate answers.
// After parsing, options that the command line did not set are taken from the file. Throws CLI::ValidationError with
// file and line. REQUIRES: all commands are declared. `root` must outlive the parsing.
void use_config_file(CLI::App& root);

}  // namespace ibid
