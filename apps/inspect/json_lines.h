// Shared by commands that answer each JSON line with a JSON line: `ibid tokenize`, `ibid render`, `ibid accept` and
// `ibid parse`.
#pragma once

#include <functional>
#include <string>

#include "apps/command_line/command.h"
#include "base/json_fwd.h"
#include "base/result.h"
#include "templates/chat_template.h"

namespace ibid {

// Reads standard input and writes `answer(line)` for each non-empty line, in order. Stops at a line that is not a JSON
// object, and at an error of answer(). The returned error has the line number.
Status for_each_json_line(const std::function<Result<Json>(const Json&)>& answer);

// The options of commands that use a chat template.
struct TemplateArguments {
  std::string model, path;  // MODEL, or the file of --template; empty: not given
  bool json_lines = true;   // no effect: JSON lines are the only form

  // Adds the options. `this` must outlive the command.
  void add(CLI::App& command);
};

// Loads the template in the file, or if template_path is empty, the template of the model.
Result<ChatTemplate> load_template(const std::string& model, const std::string& template_path);

// Removes the member `name` and returns it; null if it is absent.
Json take(Json& line, const char* name);

}  // namespace ibid
