// Options that are common to all commands: the model, and how it runs.
#pragma once

#include <CLI/App.hpp>
#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ibid/numerics.h"
#include "model/config/model_options.h"
#include "weights/model_file.h"

namespace ibid {

struct KvType {
  const char* name;
  KvDType dtype;
};

inline constexpr std::array kKvTypes = {KvType{"f32", KvDType::kF32}, KvType{"f16", KvDType::kF16},
                                        KvType{"int8", KvDType::kInt8}, KvType{"k8v4", KvDType::kK8V4},
                                        KvType{"int4", KvDType::kInt4}};

constexpr const char* kv_type_name(KvDType dtype) {
  for (const KvType& type : kKvTypes) {
    if (type.dtype == dtype) return type.name;
  }
  return "";
}

// Returns the KV type with this name. REQUIRES: kKvTypes has the name.
constexpr KvDType kv_type_named(std::string_view name) {
  for (const KvType& type : kKvTypes) {
    if (type.name == name) return type.dtype;
  }
  return KvDType::kF32;
}

struct ModelArguments {
  std::string model;  // a path, a pulled model's name, or empty for the default model
  std::string kv = kv_type_name(ModelOptions{}.kv_dtype);
  std::string numerics = "exact";
  int n_threads = 0;
  size_t context = 0;
  bool fetch = false;  // download a missing default model without asking

  // Declares MODEL and -m. If `required`, the user must give one of them.
  void add_model(CLI::App& command, bool required);
  // Declares only -m, for a command with other positional arguments.
  void add_model_option(CLI::App& command);
  void add_fetch(CLI::App& command);
  // Declares the options of commands that run a model.
  void add_running(CLI::App& command);

  // Converts the arguments. REQUIRES: they passed validation.
  ModelOptions options() const;
};

}  // namespace ibid
