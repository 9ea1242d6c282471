#include "apps/command_line/config_file.h"

#include <CLI/CLI.hpp>

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "apps/command_line/command.h"
#include "base/file_ops.h"
#include "base/user_folders.h"

namespace ibid {

namespace {

constexpr uint64_t kMaxBytes = 1u << 20;
constexpr const char* kPresetTable = "preset.";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

[[noreturn]] void refuse(const std::string& what) { throw CLI::ValidationError(what); }

std::string place(const Config& config, const ConfigSetting& setting) {
  return config.path + ":" + std::to_string(setting.line) + ": ";
}

// Finds an option that a config file may set: any but -h, --config and --preset.
CLI::Option* find_option(CLI::App& command, const std::string& name) {
  CLI::Option* option = command.get_option_no_throw("--" + name);
  const bool may = option != nullptr && option->get_configurable() && option != command.get_help_ptr();
  return may ? option : nullptr;
}

std::vector<CLI::App*> commands_of(CLI::App& root) {
  return root.get_subcommands([](CLI::App* command) { return !command->get_group().empty(); });
}

// Returns the commands to which a table applies; "preset.X" applies to commands that have --preset.
std::vector<CLI::App*> commands_of_table(CLI::App& root, const std::string& table) {
  std::vector<CLI::App*> commands = commands_of(root);
  std::erase_if(commands, [&](CLI::App* command) {
    if (table.starts_with(kPresetTable)) return command->get_option_no_throw("--preset") == nullptr;
    return !table.empty() && command->get_name() != table;
  });
  return commands;
}

std::string nearest_hint(const std::string& name, const std::vector<std::string>& names) {
  const std::vector<std::string> near = nearest_names(name, names);
  return near.empty() ? "" : "; did you mean " + near.front() + "?";
}

// Checks all names of the file, also those that the selected command does not use.
void check_names(CLI::App& root, const Config& config) {
  for (const ConfigTable& table : config.tables) {
    if (commands_of_table(root, table.name).empty() || table.name == kPresetTable) {
      refuse(config.path + ":" + std::to_string(table.line) + ": [" + table.name +
             "] is not a known table; known are commands ([chat]) and presets ([preset.NAME])");
    }
  }
  for (const ConfigSetting& setting : config.settings) {
    const std::vector<CLI::App*> commands = commands_of_table(root, setting.table);
    const auto has_it = [&](CLI::App* command) { return find_option(*command, setting.name) != nullptr; };
    if (std::any_of(commands.begin(), commands.end(), has_it)) continue;
    std::vector<std::string> names;
    for (CLI::App* command : commands) {
      for (const CLI::Option* option : command->get_options({})) {
        names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
      }
    }
    refuse(place(config, setting) + "unknown option '" + setting.name + "'" + nearest_hint(setting.name, names));
  }
}

bool given(const CLI::Option& option) {
  if (option.count() > 0) return true;
  const auto& excluded = option.get_excludes();
  return std::any_of(excluded.begin(), excluded.end(), [](const CLI::Option* other) { return other->count() > 0; });
}

void apply_setting(CLI::App& command, const Config& config, const ConfigSetting& setting) {
  CLI::Option* option = find_option(command, setting.name);
  if (option == nullptr || given(*option)) return;
  const bool is_flag = option->get_expected_max() == 0;
  const bool is_switch = setting.values.size() == 1 && (setting.values[0] == "true" || setting.values[0] == "false");
  if (is_flag && !is_switch) refuse(place(config, setting) + setting.name + " must be true or false");
  if (is_flag && setting.values[0] == "false") return;
  try {
    for (const std::string& value : setting.values) option->add_result(protect_text(value));
    if (!setting.values.empty()) option->run_callback();
  } catch (const CLI::Error& error) {
    option->clear();
    refuse(place(config, setting) + error.what());
  }
}

void apply_table(CLI::App& command, const Config& config, const std::string& table) {
  for (const ConfigSetting& setting : config.settings) {
    if (setting.table == table) apply_setting(command, config, setting);
  }
}

struct ConfigArguments {
  std::string path;
  std::string preset;
};

// Returns the path of --config, else of the user's config file if it exists. Empty: no file.
std::string config_path(const ConfigArguments& arguments, bool was_given) {
  if (was_given) return arguments.path;
  const Result<std::string> folder = user_folder(UserFolder::kConfig);
  std::error_code error;
  const std::string path = folder.ok() ? *folder + "/config.toml" : "";
  return folder.ok() && std::filesystem::exists(path, error) ? path : "";
}

void apply_config(CLI::App& root, CLI::App& command, const ConfigArguments& arguments) {
  const std::string path = config_path(arguments, command.get_option("--config")->count() > 0);
  Config config;
  if (!path.empty()) {
    const Result<std::string> text = read_file(system_file_ops(), path, kMaxBytes);
    if (!text.ok()) refuse(text.status().message());
    Result<Config> parsed = parse_config(*text, path);
    if (!parsed.ok()) refuse(parsed.status().message());
    config = *std::move(parsed);
  }
  check_names(root, config);
  if (!arguments.preset.empty()) {
    const std::string table = kPresetTable + arguments.preset;
    std::vector<std::string> presets;
    bool is_there = false;
    for (const auto& [name, line] : config.tables) {
      is_there |= name == table;
      if (name.starts_with(kPresetTable)) presets.push_back(name.substr(std::string(kPresetTable).size()));
    }
    if (!is_there) {
      refuse("--preset: no preset '" + arguments.preset + "' in " +
             (path.empty() ? "the config file, which does not exist" : path) + nearest_hint(arguments.preset, presets));
    }
    apply_table(command, config, table);
  }
  apply_table(command, config, command.get_name());
  apply_table(command, config, "");
}

// Converts a parsed document to settings and tables, in file order.
class ConfigReader {
 public:
  ConfigReader(std::string_view text, const std::string& path) : text_(text), config_{path, {}, {}} {}

  Result<Config> read() {
    TRY(find_lines());
    const toml::parse_result document = toml::parse(text_, std::string_view(config_.path));
    if (!document) return wrong(document.error().source().begin.line, std::string(document.error().description()));
    TRY(take_table(document.table(), ""));
    const auto by_line = [](const auto& a, const auto& b) { return a.line < b.line; };
    std::ranges::stable_sort(config_.settings, by_line);
    std::ranges::stable_sort(config_.tables, by_line);
    std::map<std::pair<std::string, std::string>, size_t> lines;
    for (const ConfigSetting& setting : config_.settings) {
      const auto [before, is_first] = lines.emplace(std::pair(setting.table, setting.name), setting.line);
      if (is_first) continue;
      return wrong(setting.line,
                   "'" + setting.name + "' has a value already, in line " + std::to_string(before->second));
    }
    return std::move(config_);
  }

 private:
  Status wrong(size_t line, const std::string& what) const {
    return {ErrorCode::kBadHeader, config_.path + ":" + std::to_string(line) + ": " + what};
  }

  // Records where lines begin. Rejects lines whose dotted keys would nest tables too deep for toml++ to destroy.
  Status find_lines() {
    constexpr std::ptrdiff_t kMostDots = 4000;
    for (size_t begin = text_.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;;) {
      line_begins_.push_back(begin);
      const size_t end = text_.find('\n', begin);
      const std::string_view line = text_.substr(begin, end - begin);
      if (std::ranges::count(line, '.') > kMostDots) {
        return wrong(line_begins_.size(), "the line has more than " + std::to_string(kMostDots) + " dots");
      }
      if (end == std::string_view::npos) return {};
      begin = end + 1;
    }
  }

  Status take_table(const toml::table& table, const std::string& name) {
    bool has_settings = false;
    for (const auto& [key, node] : table) {
      const std::string word(key.str());
      if (const toml::table* below = node.as_table(); below != nullptr) {
        TRY(take_table(*below, name.empty() ? word : name + "." + word));
        continue;
      }
      has_settings = true;
      ConfigSetting setting{name, word, {}, key.source().begin.line};
      std::ranges::replace(setting.name, '_', '-');
      if (const toml::array* list = node.as_array(); list != nullptr) {
        for (const toml::node& element : *list) TRY(take_value(element, setting));
      } else {
        TRY(take_value(node, setting));
      }
      config_.settings.push_back(std::move(setting));
    }
    // Do not add a table `a` if the file has only [a.b].
    if (!name.empty() && (has_settings || table.empty())) config_.tables.push_back({name, table.source().begin.line});
    return {};
  }

  Status take_value(const toml::node& node, ConfigSetting& setting) {
    if (const auto* text = node.as_string(); text != nullptr) {
      setting.values.push_back(text->get());
    } else if (node.is_number() || node.is_boolean()) {
      setting.values.push_back(spelling(node.source()));
    } else {
      return wrong(node.source().begin.line,
                   "'" + setting.name + "' must be a text in quotes, a number, true or false");
    }
    return {};
  }

  // Returns the text of a number or boolean without '_'. REQUIRES: `region` is on one line.
  std::string spelling(const toml::source_region& region) {
    const size_t begin = offset_of(region.begin), end = offset_of(region.end);
    std::string word(text_.substr(begin, end - begin));
    std::erase(word, '_');
    return word;
  }

  // Returns the byte offset of a position (toml++ counts characters). Continues from the last position on the same
  // line.
  size_t offset_of(const toml::source_position& place) {
    if (place.line != at_.line || place.column < at_.column) {
      at_ = {place.line, 1};
      offset_ = line_begins_[place.line - 1];
    }
    for (; at_.column < place.column; ++at_.column) {
      do {
        ++offset_;
      } while (offset_ < text_.size() && (text_[offset_] & 0xC0) == 0x80);
    }
    return offset_;
  }

  const std::string_view text_;
  Config config_;
  std::vector<size_t> line_begins_;
  toml::source_position at_{0, 0};  // position whose byte offset is offset_
  size_t offset_ = 0;
};

}  // namespace

Result<Config> parse_config(std::string_view text, const std::string& path) { return ConfigReader(text, path).read(); }

void use_config_file(CLI::App& root) {
  for (CLI::App* command : commands_of(root)) {
    const bool answers = command->get_option_no_throw("--temperature") != nullptr;
    if (!answers && command->get_option_no_throw("--threads") == nullptr) continue;
    auto arguments = std::make_shared<ConfigArguments>();
    command
        ->add_option("--config", arguments->path, "the config file (default: ~/.config/ibid/config.toml; \"\": none)")
        ->type_name("FILE")
        ->configurable(false)
        ->group(kConfigGroup);
    if (answers) {
      command->add_option("--preset", arguments->preset, "a preset of the config file")
          ->type_name("NAME")
          ->configurable(false)
          ->group(kConfigGroup);
    }
    command->parse_complete_callback([&root, command, arguments] { apply_config(root, *command, *arguments); });
  }
}

}  // namespace ibid
