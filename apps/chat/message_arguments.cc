#include "apps/chat/message_arguments.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <sstream>

#include "apps/chat/question.h"
#include "apps/command_line/option_kinds.h"

namespace ibid {

void MessageArguments::add(CLI::App& command, const std::string& prompt_help, const std::string& file_help) {
  CLI::Option* option = add_text_option(command, "-p,--prompt", prompt, prompt_help);
  option->type_name("TEXT")->group(kCommonGroup);
  prompt_option_ = option;
  add_text_list(command, "-f,--file", files, file_help)->type_name("FILE")->group(kCommonGroup);
}

void MessageArguments::add_verbose(CLI::App& command) {
  command.add_flag("-v,--verbose", verbose, "say on standard error what is run, and how fast it was")
      ->group(kCommonGroup);
}

Result<std::optional<std::string>> MessageArguments::message() const {
  if (!given()) return std::optional<std::string>();
  Question question{{}, files};
  if (has_prompt()) question.words.push_back(prompt);
  std::istringstream nothing;
  const auto is_input = [](const std::string& part) { return part == "-"; };
  if (std::any_of(files.begin(), files.end(), is_input) || (has_prompt() && is_input(prompt))) {
    return Status(ErrorCode::kInvalidArgument, "standard input is the conversation itself; give a file in place of -");
  }
  TRY_ASSIGN(std::string text, join_question(question, nullptr, nothing));
  return std::optional<std::string>(std::move(text));
}

}  // namespace ibid
