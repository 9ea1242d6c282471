// The options that mean the same in every command: which model, and how it runs.
#pragma once

#include <CLI/App.hpp>
#include <memory>
#include <string>

#include "base/result.h"
#include "model/model_options.h"
#include "weights/model_file.h"

namespace ibid {

struct ModelArguments {
  std::string model;                 // a path, a pulled model's name, or empty for the default model
  std::string kv = "f16";
  std::string numerics = "exact";
  int n_threads = 0;
  size_t context = 0;

  // Declares MODEL (optional unless `required`) and the options that every command that runs a model has.
  void add_model(CLI::App& command, bool required);
  void add_running(CLI::App& command);

  // The words as options. REQUIRES: they passed the command line's checks.
  ModelOptions options() const;
};

}  // namespace ibid
