// The options by which ask and chat hold answers to a form: --json-schema, --grammar, --regex, --choices
// (docs/structured_output.md). At most one of them.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "grammar/grammar.h"

namespace ibid {

struct FormArguments {
  std::string json_schema;  // a file, or the schema itself where it begins with {
  std::string grammar_file;
  std::string regex;
  std::vector<std::string> choices;

  // Declares the options. `this` must outlive the command.
  void add(CLI::App& command);

  // nullopt: the answer may be anything. Errors: those of reading a file, and of grammar/grammar.h, each with
  // the file or the option in front, and the place in it.
  Result<std::optional<Grammar>> grammar() const;

  // The same for a server, as the fields of a request that ibid and others know; empty: the answer may be anything.
  // What is no form is an error here, too, before anything is sent.
  Result<Json> fields() const;

 private:
  struct Source {
    std::string name;  // for errors
    std::string text;
  };
  // Of the schema or the grammar, whichever is given.
  Result<Source> source() const;
};

}  // namespace ibid
