#include "apps/command_line/config_file.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "apps/command_line/command.h"
#include "base/file_ops.h"
#include "base/user_folders.h"

namespace ibid {

namespace {

constexpr uint64_t kMaxBytes = 1u << 20;
constexpr const char* kPresetTable = "preset.";

[[noreturn]] void refuse(const std::string& what) { throw CLI::ValidationError(what); }

std::string place(const Config& config, const ConfigSetting& setting) {
  return config.path + ":" + std::to_string(setting.line) + ": ";
}

// Options that a file may set; -h, --config and --preset themselves it may not.
CLI::Option* find_option(CLI::App& command, const std::string& name) {
  CLI::Option* option = command.get_option_no_throw("--" + name);
  const bool may = option != nullptr && option->get_configurable() && option != command.get_help_ptr();
  return may ? option : nullptr;
}

std::vector<CLI::App*> commands_of(CLI::App& root) {
  return root.get_subcommands([](CLI::App* command) { return !command->get_group().empty(); });
}

// The commands that a table speaks to; "preset.X" to those that have --preset.
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

// Every name in the file is one that is known, used now or not: a mistake is told at once.
void check_names(CLI::App& root, const Config& config) {
  for (const ConfigTable& table : config.tables) {
    if (commands_of_table(root, table.name).empty() || table.name == kPresetTable) {
      refuse(config.path + ":" + std::to_string(table.line) + ": [" + table.name +
             "] is no table; there are commands ([chat]) and presets ([preset.NAME])");
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
    refuse(place(config, setting) + "there is no option '" + setting.name + "'" + nearest_hint(setting.name, names));
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
  if (is_flag && !is_switch) refuse(place(config, setting) + setting.name + " is true or false");
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

// The file that --config names, or the user's own where there is one. Empty: none.
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
      refuse("--preset: there is no preset '" + arguments.preset + "' in " +
             (path.empty() ? "a config file, nor is there one" : path) + nearest_hint(arguments.preset, presets));
    }
    apply_table(command, config, table);
  }
  apply_table(command, config, command.get_name());
  apply_table(command, config, "");
}

}  // namespace

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
